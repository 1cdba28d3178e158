#!/usr/bin/env python3
"""Self-test of the oracle: hand-computed examples, every illegal step, transfer times, random plans.

    test_oracle.py      the last line is "N passed, 0 failed"; exits with 1 when a test fails
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import traceback
from fractions import Fraction

import judge
import least
import random_graph

HERE = os.path.dirname(os.path.abspath(__file__))
TINY_PLAN = [["compute", 0, 1], ["compute", 1], ["compute", 2], ["free", 1], ["compute", 3], ["free", 2]]


def tiny():
    """The example of the contract."""
    forward, backward = {"pass": "forward", "workspace": 0}, {"pass": "backward", "workspace": 0}
    fc = {"time": 0.001, "workspace": 64}
    return {
        "neap": "graph", "version": 1, "name": "tiny", "fixed_bytes": 4096,
        "values": [{"name": "x", "bytes": 100, "kind": "input"},
                   {"name": "h", "bytes": 200, "kind": "activation"},
                   {"name": "hT", "bytes": 0, "kind": "activation", "view_of": 1},
                   {"name": "loss", "bytes": 4, "kind": "activation"},
                   {"name": "dh", "bytes": 200, "kind": "gradient"}],
        "ops": [{**forward, "name": "fc", "type": "linear", "inputs": [0], "outputs": [1], **fc, "variants": [fc, {"time": 0.002, "workspace": 0}]},
                {**forward, "name": "T", "type": "view", "inputs": [1], "outputs": [2], "time": 0},
                {**forward, "name": "loss", "type": "xent", "inputs": [2], "outputs": [3], "time": 0.001},
                {**backward, "name": "loss_bw", "type": "xent_bw", "inputs": [2, 3], "outputs": [4], "time": 0.001}],
        "outputs": [3, 4],
    }


def abc():
    """x (10 bytes) -> a (100) -> b (200), then a and b -> c (50); each op takes a second."""
    ops = [([0], [1]), ([1], [2]), ([1, 2], [3])]
    return {
        "neap": "graph", "version": 1, "name": "abc", "fixed_bytes": 0,
        "values": [{"name": n, "bytes": b, "kind": "activation"} for n, b in zip("xabc", (10, 100, 200, 50))],
        "ops": [{"name": "op", "type": "", "pass": "forward", "inputs": i, "outputs": o, "time": 1, "workspace": 0} for i, o in ops],
        "outputs": [3],
    }


def verdict(graph, steps, link=None, budget=None, **extra):
    plan = {"neap": "plan", "version": 1, "graph": "g", "method": "hand", "steps": steps, **extra}
    return judge.judge(json.dumps(graph), json.dumps(plan), link, budget)


def expect(graph, steps, link=None, budget=None, extra=None, **wanted):
    got = verdict(graph, steps, link, budget, **(extra or {}))
    assert got["ok"], got
    for key, value in wanted.items():
        assert got[key] == value, (key, value, got)


def expect_illegal(graph, steps, step, words, link=None, budget=None, extra=None):
    got = verdict(graph, steps, link, budget, **(extra or {}))
    assert not got["ok"] and got["step"] == step and words in got["reason"], (step, words, got)


# ---- the contract's own example

def test_tiny():
    # 4096 fixed + 100 x; + 200 h; hT is on h's storage; + 4 loss; h freed, its storage stays; + 200 dh
    expect(tiny(), TINY_PLAN, peak=4600, time=0.004, compute_time=0.004, recomputed=0, offloaded_bytes=0)


def test_tiny_prefixes():
    for cut, peak in ((0, 4196), (1, 4396), (2, 4396), (3, 4400), (4, 4400), (5, 4600), (6, 4600)):
        device = judge.Replay(judge.Graph(judge.parse(json.dumps(tiny()))))
        for step in TINY_PLAN[:cut]:
            device.step(step)
        assert device.peak == peak, (cut, device.peak)


def test_tiny_variant_0():
    expect(tiny(), [["compute", 0]] + TINY_PLAN[1:], peak=4600, time=0.003)
    expect(tiny(), [["compute", 0, 0]] + TINY_PLAN[1:], peak=4600, time=0.003)


def test_workspace_counts_with_inputs_and_outputs():
    graph = tiny()
    graph["ops"][3]["workspace"] = 7
    expect(graph, TINY_PLAN, peak=4607)


def test_budget():
    expect(tiny(), TINY_PLAN, budget=4600)
    expect_illegal(tiny(), TINY_PLAN, 4, "budget", budget=4599)
    expect_illegal(tiny(), TINY_PLAN, None, "budget", budget=4195)
    expect(tiny(), TINY_PLAN, extra={"budget_bytes": 1})  # the plan's own field is not judged


def test_times_are_exact():
    graph = abc()
    for op, time in zip(graph["ops"], (0.1, 0.2, 0)):
        op["time"] = time
    assert 0.1 + 0.2 != 0.3
    expect(graph, [["compute", 0], ["compute", 1], ["compute", 2]], time=0.3)


# ---- storages and views

def test_recompute_root_under_view():
    steps = [["compute", 0, 1], ["compute", 1], ["free", 1], ["compute", 0, 1], ["compute", 2], ["compute", 3]]
    expect(tiny(), steps, peak=4600, time=0.006, recomputed=1)


def test_recompute():
    steps = [["compute", 0], ["compute", 1], ["free", 1], ["compute", 0], ["compute", 2]]
    expect(abc(), steps, peak=360, time=4, recomputed=1)


def test_storage_is_live_while_any_value_is_resident():
    freed_both = [["compute", 0], ["compute", 1], ["compute", 2], ["free", 1], ["free", 2]]
    expect_illegal(tiny(), freed_both + [["compute", 3]], 5, "not resident")
    redo = [["compute", 0], ["compute", 1], ["compute", 3]]
    expect(tiny(), freed_both + redo, peak=4600, time=0.004, recomputed=2)


def test_view_of_view_and_of_input():
    graph = abc()
    graph["values"] = [{"name": "x", "bytes": 10, "kind": "input"}] + [{"name": "v", "bytes": 0, "kind": "activation", "view_of": v} for v in (0, 1, 2)]
    expect(graph, [["compute", 0], ["compute", 1], ["compute", 2], ["free", 1], ["free", 2]], peak=10, time=3)


def test_prefetch_of_view_under_live_root():
    steps = [["compute", 0, 1], ["compute", 1], ["offload", 2], ["free", 2], ["prefetch", 2], ["compute", 2], ["compute", 3]]
    # out: 200 bytes 0.002 -> 0.004, the free waits, back 0.004 -> 0.006, then two ops
    expect(tiny(), steps, judge.Link(100000), peak=4600, time=0.008, offloaded_bytes=200)


def test_prefetch_of_view_brings_its_storage():
    steps = [["compute", 0, 1], ["compute", 1], ["offload", 2], ["free", 1], ["free", 2], ["compute", 0, 1], ["free", 1], ["prefetch", 2], ["compute", 2], ["compute", 3]]
    # the free of hT ends at 0.004, h again to 0.006, back to 0.008, two ops
    expect(tiny(), steps, judge.Link(100000), peak=4600, time=0.010, compute_time=0.006, recomputed=1)
    expect_illegal(tiny(), steps[:8] + [["compute", 1]], 8, "not resident", judge.Link(100000))


# ---- transfers: 100 bytes/s out, 50 back

def test_single_engine():
    steps = [["compute", 0], ["offload", 1], ["compute", 1], ["free", 1], ["prefetch", 1], ["compute", 2]]
    # a out 1 -> 2 while b is computed; back 2 -> 4; c 4 -> 5
    expect(abc(), steps, judge.Link(100, 50), peak=360, time=5, compute_time=3, offloaded_bytes=100)
    # a out 1 -> 2.5; the free waits; back 2.5 -> 5; c 5 -> 6
    expect(abc(), steps, judge.Link(100, 50, "0.5"), time=6)


def test_duplex():
    steps = [["compute", 0], ["offload", 1], ["compute", 1], ["offload", 2], ["free", 1], ["prefetch", 1], ["compute", 2]]
    # a out 1 -> 2, b out 2 -> 4; a back 4 -> 6 on the one engine, 2 -> 4 beside b; c a second later
    expect(abc(), steps, judge.Link(100, 50), time=7, offloaded_bytes=300)
    expect(abc(), steps, judge.Link(100, 50, duplex=True), time=5)


def test_free_waits_for_offload():
    steps = [["compute", 0], ["offload", 1], ["free", 1], ["compute", 0], ["compute", 1], ["compute", 2]]
    expect(abc(), steps, judge.Link(100), time=5, compute_time=4)


def test_free_waits_for_prefetch():
    steps = [["compute", 0], ["offload", 1], ["free", 1], ["prefetch", 1], ["free", 1]] + [["compute", o] for o in (0, 1, 2)]
    # out 1 -> 2, back 2 -> 4, three ops
    expect(abc(), steps, judge.Link(100, 50), time=7, compute_time=4)


def test_free_does_not_wait_for_other_values():
    steps = [["compute", 0], ["compute", 1], ["offload", 2], ["free", 1], ["compute", 0], ["compute", 2]]
    # b out 2 -> 4 while a is computed again 2 -> 3 and c 3 -> 4
    expect(abc(), steps, judge.Link(100), time=4)


def test_copies_of_one_value_follow_each_other():
    steps = [["compute", 0], ["offload", 1], ["free", 1], ["prefetch", 1], ["offload", 1], ["free", 1]] + [["compute", o] for o in (0, 1, 2)]
    # out 1 -> 2, back 2 -> 4, out 4 -> 5 although its engine is free at 2; the free waits; three ops
    expect(abc(), steps, judge.Link(100, 50, duplex=True), time=8, offloaded_bytes=200)


def test_makespan_includes_last_transfer():
    steps = [["compute", 0], ["compute", 1], ["compute", 2], ["offload", 3]]
    expect(abc(), steps, judge.Link(100), time=3.5, compute_time=3)


def test_transfer_waits_for_computations_before_it():
    steps = [["compute", 0], ["compute", 1], ["offload", 1], ["compute", 2], ["offload", 2]]
    # a out 2 -> 3, b out 3 -> 5
    expect(abc(), steps, judge.Link(100), time=5)


def test_host_copy_stays_valid():
    steps = [["compute", 0], ["offload", 1], ["free", 1], ["compute", 0], ["free", 1], ["prefetch", 1], ["free", 1], ["prefetch", 1], ["compute", 1], ["compute", 2]]
    # out 1 -> 2, again 2 -> 3, back 3 -> 4, back 4 -> 5, two ops
    expect(abc(), steps, judge.Link(100), time=7)


# ---- illegal steps and plans

def test_illegal_compute():
    expect_illegal(abc(), [["compute", 1]], 0, "input 1 of op 1 is not resident")
    expect_illegal(abc(), [["compute", 0], ["compute", 0]], 1, "output 1 of op 0 is resident")
    expect_illegal(abc(), [["compute", 3]], 0, "no op 3")
    expect_illegal(abc(), [["compute", -1]], 0, "no op -1")
    expect_illegal(abc(), [["compute", 0, 1]], 0, "no variant 1")
    expect_illegal(tiny(), [["compute", 0, 2]], 0, "no variant 2")
    expect_illegal(tiny(), [["compute", 0, -1]], 0, "no variant -1")


def test_illegal_compute_with_one_output_resident():
    graph = abc()
    graph["values"].append({"name": "a2", "bytes": 8, "kind": "activation"})
    graph["ops"][0]["outputs"] = [1, 4]
    expect_illegal(graph, [["compute", 0], ["free", 1], ["compute", 0]], 2, "output 4 of op 0 is resident")


def test_illegal_free():
    expect_illegal(abc(), [["free", 0]], 0, "is an input")
    expect_illegal(abc(), [["free", 1]], 0, "not resident")
    expect_illegal(abc(), [["compute", 0], ["free", 1], ["free", 1]], 2, "not resident")
    expect_illegal(abc(), [["free", 4]], 0, "no value 4")


def test_illegal_offload():
    link = judge.Link(100)
    expect_illegal(abc(), [["offload", 0]], 0, "is an input", link)
    expect_illegal(abc(), [["offload", 1]], 0, "not resident", link)
    expect_illegal(abc(), [["compute", 0], ["offload", 1]], 1, "no link")
    expect_illegal(abc(), [["offload", 9]], 0, "no value 9", link)


def test_illegal_prefetch():
    link = judge.Link(100)
    expect_illegal(abc(), [["prefetch", 0]], 0, "is resident", link)
    expect_illegal(abc(), [["prefetch", 1]], 0, "not on the host", link)
    expect_illegal(abc(), [["compute", 0], ["free", 1], ["prefetch", 1]], 2, "not on the host", link)
    expect_illegal(abc(), [["compute", 0], ["offload", 1], ["prefetch", 1]], 2, "is resident", link)
    expect_illegal(abc(), [["prefetch", -1]], 0, "no value -1", link)


def test_host_copy_is_of_the_value_not_the_storage():
    steps = [["compute", 0], ["compute", 1], ["offload", 1], ["free", 1], ["free", 2], ["prefetch", 2]]
    expect_illegal(tiny(), steps, 5, "not on the host", judge.Link(100))


def test_malformed_steps():
    for step in ([], ["compute"], ["free", 1, 0], ["compute", 0, 0, 0], ["compute", "0"], ["compute", 0.5],
                 ["compute", True], ["evict", 1], [0, 1], "free", None, {}, ["free", None]):
        expect_illegal(abc(), [["compute", 0], step], 1, "")


def test_ends():
    expect_illegal(abc(), [["compute", 0], ["compute", 1]], None, "op 2 is never computed")
    expect_illegal(abc(), [["compute", 0], ["compute", 1], ["compute", 2], ["free", 3]], None, "output 3 is not resident")


def test_malformed_plans():
    for plan in ("", "[]", "{}", '{"neap": "plan", "version": 1}', '{"neap": "plan", "version": 2, "steps": []}',
                 '{"neap": "graph", "version": 1, "steps": []}', '{"neap": "plan", "version": 1, "steps": NaN}'):
        got = judge.judge(json.dumps(abc()), plan)
        assert not got["ok"] and got["step"] is None, (plan, got)


def test_malformed_graphs():
    def op(**fields):
        return lambda g: g["ops"][1].update(fields)

    def value(**fields):
        return lambda g: g["values"][2].update(fields)

    changes = [
        op(inputs=[3]), op(inputs=[2]), op(inputs=[4]), op(inputs=[-1]), op(inputs=None), op(outputs=[1]), op(outputs=[2, 2]),
        op(time=-1), op(time=None), op(time="1"), op(workspace=-1), op(workspace=0.5), op(variants=[{"time": 2, "workspace": 0}]),
        value(bytes=-1), value(bytes=1.5), value(bytes=None), value(view_of=1), value(bytes=0, view_of=2), value(bytes=0, view_of=4),
        lambda g: g.update(fixed_bytes=-1), lambda g: g.update(outputs=[4]), lambda g: g.update(version=2),
        lambda g: g.update(neap="plan"), lambda g: g.pop("ops"), lambda g: g.pop("values"), lambda g: g.pop("outputs"),
    ]
    steps = [["compute", 0], ["compute", 1], ["compute", 2]]
    expect(abc(), steps)
    for number, change in enumerate(changes):
        graph = abc()
        change(graph)
        got = verdict(graph, steps)
        assert not got["ok"] and got["step"] is None, (number, got)


# ---- offsets

def arena(offsets, size=4600):
    return {"offsets": offsets, "arena_bytes": size}


def test_offsets():
    # x, h, loss, dh: hT lies on h's storage
    expect(tiny(), TINY_PLAN, extra=arena([4096, 4196, 4396, 4400]), peak=4600)
    expect(tiny(), TINY_PLAN, extra=arena([4500, 4096, 4296, 4300]), peak=4600)


def test_offsets_overlap():
    expect_illegal(tiny(), TINY_PLAN, None, "overlaps the fixed", extra=arena([4095, 4196, 4396, 4400]))
    expect_illegal(tiny(), TINY_PLAN, 0, "overlaps", extra=arena([4096, 4195, 4396, 4400]))
    expect_illegal(tiny(), TINY_PLAN, 2, "overlaps", extra=arena([4096, 4196, 4393, 4400]))
    expect_illegal(tiny(), TINY_PLAN, 4, "overlaps", extra=arena([4096, 4196, 4396, 4399]))  # h is freed, but hT holds its storage
    expect_illegal(tiny(), TINY_PLAN, 4, "overlaps", extra=arena([4096, 4196, 4396, 4196], 9999))


def test_offsets_bounds_and_count():
    expect_illegal(tiny(), TINY_PLAN, 4, "passes arena_bytes", extra=arena([4096, 4196, 4396, 4400], 4599))
    expect_illegal(tiny(), TINY_PLAN, 4, "none for", extra=arena([4096, 4196, 4396]))
    expect_illegal(tiny(), TINY_PLAN, None, "none for", extra=arena([]))
    expect_illegal(tiny(), TINY_PLAN, None, "more than", extra=arena([4096, 4196, 4396, 4400, 4096]))
    expect_illegal(tiny(), TINY_PLAN, None, "arena_bytes", extra={"offsets": [4096, 4196, 4396, 4400]})
    expect_illegal(tiny(), TINY_PLAN, None, "not a list of offsets", extra=arena([4096, 4196, 4396, -1]))
    expect_illegal(tiny(), TINY_PLAN, None, "fixed_bytes", extra=arena([4096, 4196, 4396, 4400], 4000))


def test_offsets_of_workspace():
    steps = [["compute", 0]] + TINY_PLAN[1:]
    # the workspace comes after h and is gone before loss
    expect(tiny(), steps, extra=arena([4096, 4196, 4396, 4396, 4400]))
    expect_illegal(tiny(), steps, 0, "workspace overlaps", extra=arena([4096, 4196, 4395, 4396, 4400]))
    expect_illegal(tiny(), steps, 0, "workspace passes", extra=arena([4096, 4196, 4537, 4396, 4400]))


def test_offsets_of_each_instance():
    steps = [["compute", 0], ["offload", 1], ["free", 1], ["compute", 0], ["compute", 1], ["free", 1], ["prefetch", 1], ["compute", 2]]
    link = judge.Link(100)
    # x, a, a again, b, a back, c
    expect(abc(), steps, link, extra=arena([0, 10, 50, 150, 350, 50], 450))
    expect_illegal(abc(), steps, 6, "overlaps", link, extra=arena([0, 10, 50, 150, 349, 50], 450))


def test_offsets_of_zero_bytes():
    graph = abc()
    graph["values"][2]["bytes"] = 0
    steps = [["compute", 0], ["compute", 1], ["compute", 2]]
    # a storage of 0 bytes has an offset too, and overlaps nothing
    expect(graph, steps, extra=arena([0, 10, 50, 110], 160))
    expect_illegal(graph, steps, 1, "passes", extra=arena([0, 10, 161, 110], 160))
    expect_illegal(graph, steps, 2, "none for", extra=arena([0, 10, 110], 160))


def test_offsets_of_inputs():
    graph = abc()
    graph["values"] += [{"name": "y", "bytes": 5, "kind": "input"}, {"name": "xT", "bytes": 0, "kind": "input", "view_of": 0}]
    steps = [["compute", 0], ["compute", 1], ["compute", 2]]
    # x, y; the view of x has no storage of its own; then a, b, c
    expect(graph, steps, extra=arena([0, 10, 15, 115, 315], 365), peak=365)


# ---- least time and least peak

def test_least_of_tiny():
    # loss_bw holds hT's storage, loss and dh: 4096 + 100 + 200 + 4 + 200
    assert least.least_peak(tiny()) == 4600
    assert least.least_time(tiny(), 4600) == Fraction("0.003")
    assert least.least_time(tiny(), 4599) is None


def test_least_takes_a_slower_variant_or_recomputes():
    graph = tiny()
    graph["ops"][0]["workspace"] = graph["ops"][0]["variants"][0]["workspace"] = 205
    assert least.least_peak(graph) == 4600
    assert least.least_time(graph, 4600) == Fraction("0.004")
    assert least.least_time(graph, 4601) == Fraction("0.003")


def test_least_recomputes():
    # x -> a -> b -> c, then a and c -> d: holding a all the way needs 100 more at op 2
    graph = abc()
    graph["values"] = [{"name": "v", "bytes": b, "kind": "activation"} for b in (10, 100, 100, 100, 0)]
    graph["values"][2]["bytes"] = 200
    graph["ops"][2].update(inputs=[2], outputs=[3])
    graph["ops"].append({**graph["ops"][0], "inputs": [1, 3], "outputs": [4]})
    graph["outputs"] = [4]
    assert least.least_peak(graph) == 310
    assert least.least_time(graph, 310) == least.least_time(graph, 409) == 5
    assert least.least_time(graph, 410) == 4
    assert least.least_time(graph, 309) is None


def relaxed(graph, budget):
    """The least time again, the plainest way: relax every move of every state until nothing changes."""
    g = least.as_graph(graph)

    def memory(resident):
        return g.fixed + sum(g.bytes[s] for s in {g.root[v] for v in resident})

    start = (frozenset(g.inputs), frozenset())
    best = {start: Fraction(0)} if memory(start[0]) <= budget else {}
    todo = list(best)
    while todo:
        resident, done = state = todo.pop()
        after = [(best[state], (resident - {v}, done)) for v in resident - set(g.inputs)]
        for o, variants in enumerate(g.variants):
            if set(g.reads[o]) <= resident and not set(g.writes[o]) & resident:
                made = resident | set(g.writes[o])
                after += [(best[state] + time, (made, done | {o})) for time, workspace in variants if memory(made) + workspace <= budget]
        for time, new in after:
            if new not in best or time < best[new]:
                best[new] = time
                todo.append(new)
    ends = [time for (resident, done), time in best.items() if len(done) == len(g.reads) and set(g.outputs) <= resident]
    return min(ends, default=None)


def test_least_against_plain_relaxation():
    for seed in range(60):
        rng = random.Random("relaxed/%d" % seed)
        graph = random_graph.random_graph(rng, max_ops=4)
        peak = least.least_peak(graph)
        for budget in (peak - 1, peak, peak + rng.choice([1, 64, 100, 200])):
            time = least.least_time(graph, budget)
            assert time == relaxed(graph, budget), (seed, budget, time)
            assert (time is None) == (budget < peak), (seed, budget, time)


def test_least_plans_are_legal():
    for seed in range(60):
        rng = random.Random("least/%d" % seed)
        graph = random_graph.random_graph(rng, max_ops=6)
        peak = least.least_peak(graph)
        for budget in (peak, peak + 100):
            time, steps = least.least_plan(graph, budget)
            expect(graph, steps, budget=budget, time=float(time), compute_time=float(time))


# ---- random graphs and plans

LINKS = [judge.Link(100000), judge.Link(100000, 30000, "0.0007"), judge.Link(100000, 30000, "0.0007", True)]


def test_random_valid_plans_are_legal():
    seen = set()
    for number in range(0, 1200, 2):
        graph, plan = random_graph.case("valid", number)
        for link in LINKS:
            got = judge.judge(json.dumps(graph), json.dumps(plan), link, plan["budget_bytes"])
            assert got["ok"], (number, got)
            assert got["time"] >= got["compute_time"]
        seen |= {step[0] for step in plan["steps"]} | ({"offsets"} & set(plan))
        seen |= {"recomputed"} if got["recomputed"] else set()
    assert seen == {"compute", "free", "offload", "prefetch", "offsets", "recomputed"}, seen


def test_random_mutated_plans_are_mostly_illegal():
    verdicts = []
    for number in range(1, 1200, 2):
        graph, plan = random_graph.case("mutated", number)
        verdicts.append(judge.judge(json.dumps(graph), json.dumps(plan), LINKS[0])["ok"])
    assert 0 < sum(verdicts) < len(verdicts) / 2, sum(verdicts)


def test_random_plans_are_no_better_than_least():
    for seed in range(100):
        rng = random.Random("better/%d" % seed)
        graph = random_graph.random_graph(rng, max_ops=5)
        plan = random_graph.random_plan(rng, graph)
        got = judge.replay(least.as_graph(graph), plan, LINKS[0])
        if got["offloaded_bytes"] == 0 and not any(step[0] == "prefetch" for step in plan["steps"]):
            assert least.least_peak(graph) <= got["peak"], seed
            assert least.least_time(graph, got["peak"]) <= got["time"], seed


def test_random_graphs_have_everything():
    graphs = [random_graph.case("all", number)[0] for number in range(300)]
    ops = [op for g in graphs for op in g["ops"]]
    assert {len(g["ops"]) for g in graphs} == set(range(2, 10))
    assert all({op["pass"] for op in g["ops"]} == {"forward", "backward"} for g in graphs)
    for key in ("variants", "random", "in_place"):
        assert any(key in op for op in ops), key
    assert any(len(op["outputs"]) > 1 for op in ops) and any(op["workspace"] for op in ops)
    assert any(len(g["outputs"]) > 1 for g in graphs) and any(g["fixed_bytes"] for g in graphs)
    bases = [(g["values"], v["view_of"], v["kind"]) for g in graphs for v in g["values"] if "view_of" in v]
    assert any("view_of" in values[base] for values, base, _ in bases)
    assert any(values[base]["kind"] == "input" and kind != "input" for values, base, kind in bases)
    assert any(v["bytes"] == 0 and "view_of" not in v for g in graphs for v in g["values"])


# ---- the commands

def command(script, *args):
    done = subprocess.run([sys.executable, os.path.join(HERE, script), *map(str, args)], capture_output=True, text=True)
    return done.returncode, done.stdout


def test_commands():
    with tempfile.TemporaryDirectory() as folder:
        graph, plan = os.path.join(folder, "g.json"), os.path.join(folder, "p.json")
        steps = [["compute", 0], ["offload", 1], ["compute", 1], ["offload", 2], ["free", 1], ["prefetch", 1], ["compute", 2]]
        for path, data in ((graph, abc()), (plan, {"neap": "plan", "version": 1, "steps": steps})):
            with open(path, "w", encoding="utf-8") as file:
                json.dump(data, file)
        code, out = command("judge.py", graph, plan, "--link", "1e2,50", "--duplex", "--budget", 360)
        assert code == 0 and out.count("\n") == 1, (code, out)
        assert json.loads(out) == {"ok": True, "peak": 360, "time": 5, "compute_time": 3, "recomputed": 0, "offloaded_bytes": 300}
        code, out = command("judge.py", graph, plan, "--link", "100,50", "--latency", "0.5")
        # a out 1 -> 2.5, b out 2.5 -> 5, the free of a waits to 2.5, a back 5 -> 7.5, c 8.5
        assert code == 0 and json.loads(out)["time"] == 8.5, out
        code, out = command("judge.py", graph, plan)
        assert code == 1 and json.loads(out)["step"] == 1, out
        code, out = command("least.py", graph, 360)
        assert code == 0 and json.loads(out) == {"least_peak": 360, "least_time": 3}, out
        for count in (3, 5):
            assert command("random_graph.py", 1, count, os.path.join(folder, str(count)))[0] == 0
        assert sorted(os.listdir(os.path.join(folder, "3"))) == ["%03d.%s.json" % (n, k) for n in range(3) for k in ("graph", "plan")]
        for name in os.listdir(os.path.join(folder, "3")):
            a, b = (open(os.path.join(folder, x, name), encoding="utf-8") for x in ("3", "5"))
            with a, b:
                assert a.read() == b.read(), name


def main():
    passed = failed = 0
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            try:
                test()
                passed += 1
            except Exception:
                failed += 1
                print("FAILED", name)
                traceback.print_exc(file=sys.stdout)
    print("%d passed, %d failed" % (passed, failed))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
