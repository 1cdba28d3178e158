"""Profiled costs against uniform ones: distorted graphs, and plans judged on the true graph.

Costs are distorted as Butt's thesis describes (section 4.3): real costs are averaged, the budget stays the same.
Uniform compute: every stage takes the average time, forward and backward, whatever the variant. Uniform memory: the
activations that a stage makes, and the gradients of activations, are scaled to the average of all stages; gradients of
parameters are unchanged.
"""

import json

import common
import plans

WAYS = ((False, False), (False, True), (True, False), (True, True))  # uniform compute, uniform memory


def way_name(compute, memory):
    return f"{'uniform' if compute else 'profiled'} compute, {'uniform' if memory else 'profiled'} memory"


def average_times(graph, stages):
    """Scales the ops of each stage so that every stage takes the same, forward and backward."""
    for first, end in ((0, 1), (2, 3)):
        parts = [[graph["ops"][o] for o in range(s[first], s[end])] for s in stages]
        sums = [sum(op["time"] for op in part) for part in parts]
        mean = sum(sums) / len(sums)
        for part, total in zip(parts, sums):
            for op in part:
                for cost in [op, *op.get("variants", [])]:
                    cost["time"] = cost["time"] * mean / total if total else mean / len(part)


def average_sizes(graph, stages):
    """Scales what each stage makes, so that every stage makes the same, forward and backward."""
    results = set(graph["outputs"])
    for first, end in ((0, 1), (2, 3)):
        made = []
        for s in stages:
            ids = [v for o in range(s[first], s[end]) for v in graph["ops"][o]["outputs"]]
            made.append([graph["values"][v] for v in ids if v not in results and graph["values"][v]["bytes"]])
        sums = [sum(v["bytes"] for v in part) for part in made]
        mean = sum(sums) / len(sums)
        for part, total in zip(made, sums):
            for value in part:
                value["bytes"] = max(1, round(value["bytes"] * mean / total))


def distorted(text, stages, compute, memory):
    graph = json.loads(text)
    if compute:
        average_times(graph, stages)
    if memory:
        average_sizes(graph, stages)
        for value in graph["values"]:  # sizes that shapes no longer tell
            value.pop("shape", None)
            value.pop("dtype", None)
    return graph


def write_json(path, content):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file)


def judge(true_path, plan_path):
    """Time and peak of the plan's steps on the true graph; addresses belong to the other."""
    with open(plan_path, encoding="utf-8") as file:
        plan = json.load(file)
    for name in ("offsets", "arena_bytes", "budget_bytes"):
        plan.pop(name, None)
    write_json(plan_path, plan)
    _, printed, _, _ = plans.run("check", true_path, plan_path, "--any-graph", "--json")
    verdict = json.loads(printed)
    return verdict["time"], verdict["peak_bytes"]


def stages_of(path):
    """The stages of a graph file: [first forward op, end, first backward op, end]."""
    return json.loads(common.output_of("chain_stages", path))
