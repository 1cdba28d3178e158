#!/usr/bin/env python3
"""Judges every graph and plan that random_graph.py wrote into a folder, under several links and budgets.

    judge_many.py FOLDER

One JSON line a judgement, which says all that is needed to repeat it:

    {"number": 3, "out": 1e5, "in": 3e4, "latency": 0.0007, "duplex": true, "budget": 480,
     "ok": true, "step": -1, "peak": 480, "time": 0.004, "compute_time": 0.004, "recomputed": 0, "offloaded_bytes": 0}

No link has "out": 0, no budget "budget": -1, no one step to blame "step": -1. Of a plan that is not legal the
figures are 0. One rule is added to judge.py's: the arena, where a plan has one, may not pass the budget.
"""
import json
import os
import sys

import judge

# (out, in, latency, duplex), as decimal texts
LINKS = [None, ("100000", "100000", "0", False), ("100000", "30000", "0.0007", False), ("100000", "30000", "0.0007", True)]
FIGURES = ("peak", "time", "compute_time", "recomputed", "offloaded_bytes")


def judgement(graph, plan, link, budget):
    if budget is not None and plan.get("offsets") and plan["arena_bytes"] > budget:
        return {"ok": False, "step": None}
    try:
        return judge.replay(graph, plan, judge.Link(*link) if link else None, budget)
    except judge.Illegal as illegal:
        return {"ok": False, "step": illegal.step}


def line(number, link, budget, got):
    out, back, latency, duplex = link or ("0", "0", "0", False)
    step = got.get("step")
    return {
        "number": number,
        "out": float(out),
        "in": float(back),
        "latency": float(latency),
        "duplex": duplex,
        "budget": -1 if budget is None else budget,
        "ok": got["ok"],
        "step": -1 if step is None else step,
        **{name: float(got.get(name, 0)) if "time" in name else got.get(name, 0) for name in FIGURES},
    }


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: judge_many.py FOLDER")
    folder = sys.argv[1]
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".graph.json"):
            continue
        number = name.split(".")[0]
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            graph = judge.Graph(judge.parse(file.read()))
        with open(os.path.join(folder, number + ".plan.json"), encoding="utf-8") as file:
            plan = judge.parse(file.read())
        if plan.get("offsets") == []:
            del plan["offsets"]  # neap reads no offsets as no layout
        for link in LINKS:
            got = judgement(graph, plan, link, None)
            print(json.dumps(line(int(number), link, None, got)))
            budgets = [plan["budget_bytes"]] + ([got["peak"], got["peak"] - 1] if got["ok"] else [])
            for budget in budgets:
                print(json.dumps(line(int(number), link, budget, judgement(graph, plan, link, budget))))


if __name__ == "__main__":
    main()
