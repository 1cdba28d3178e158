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
from itertools import combinations, product

import judge
import least
import random_graph
import staged

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


# ---- stages

def small(sizes, ops, outputs):
    """A graph without inputs: ops are (reads, writes, seconds, workspace), or (reads, writes, [(seconds, workspace), ...])."""
    listed = []
    for reads, writes, *cost in ops:
        variants = [{"time": time, "workspace": workspace} for time, workspace in (cost[0] if len(cost) == 1 else [cost])]
        listed.append({"name": "op", "inputs": reads, "outputs": writes, **variants[0], "variants": variants})
    values = [{"name": "v", "bytes": size} for size in sizes]
    return {"neap": "graph", "version": 1, "name": "small", "values": values, "ops": listed, "outputs": outputs}


def unit_chain(layers):
    """Forward ops a1 .. an, the loss, backward ops: each reads the gradient and an activation. All sizes and times are 1."""
    ops = [([k - 1] if k else [], [k], 1, 0) for k in range(layers + 1)]
    ops += [([layers + k, layers - 1 - k], [layers + k + 1], 1, 0) for k in range(layers)]
    return small([1] * (2 * layers + 1), ops, [2 * layers])


def expect_curves(graph, partitioned, unpartitioned=None, any_order=None):
    wanted = (partitioned, unpartitioned or partitioned, any_order or unpartitioned or partitioned)
    for form, points in zip(staged.FORMS, wanted):
        assert staged.curve(graph, form) == points, (form, staged.curve(graph, form))


def test_staged_unit_chain():
    # b3 runs beside a1 and a2: 5; beside a2: 4, and a1 comes again for b1; alone: 3, and then a1 and a2 come again
    # for b2, a1 for b1
    expect_curves(unit_chain(3), [(3, 10), (4, 8), (5, 7)])
    assert staged.optimum(unit_chain(3), "partitioned", 2) is None


def test_staged_unit_chain_of_the_paper():
    # section 4.6: n = 17 at a budget of 4; both forms come to the same objective
    for form in staged.FORMS:
        assert staged.optimum(unit_chain(8), form, 4)[0] == 26, form
    assert least.least_time(unit_chain(8), 4) == 26


def test_staged_multi_output():
    # u and w -> a (of u) -> b (of a and w) -> c (of b and u). With u held, a, w, b and u lie together at op 2: 370.
    # Else op 0 runs again beside b: u comes, and w with it: 350
    graph = small([100, 150, 20, 100, 1], [([], [0, 1], 1, 0), ([0], [2], 1, 0), ([2, 1], [3], 1, 0), ([3, 0], [4], 1, 0)], [4])
    expect_curves(graph, [(350, 5), (370, 4)])
    # the same if something else of op 0 is resident when u is wanted: w is freed, and comes again
    graph["ops"][3]["inputs"] = [3, 0, 1]
    graph["ops"][2]["inputs"] = [2]
    # op 2 with a and b: 120, beside w: 270, beside u and w: 370; op 3 needs b, u, w, c: 351
    expect_curves(graph, [(351, 5), (370, 4)])


def test_staged_view_keeps_its_storage():
    # h, its view hT -> s -> t, then t and hT -> c. To free h alone is to free nothing: at op 3 it is 310, or both come again
    ops = [([], [0], 1, 0), ([0], [1], 1, 0), ([1], [2], 1, 0), ([2], [3], 1, 0), ([3, 1], [4], 1, 0)]
    graph = small([100, 0, 10, 200, 1], ops, [4])
    graph["values"][1]["view_of"] = 0
    expect_curves(graph, [(301, 7), (310, 5)])
    # if op 4 reads h too, op 0 comes again beside t, and hT is no more bytes
    graph["ops"][4]["inputs"] = [3, 1, 0]
    expect_curves(graph, [(301, 7), (310, 5)])
    # a view of h that op 0 itself makes is resident with h, and has to go before h comes again
    graph["ops"][0]["outputs"], graph["ops"][1] = [0, 1], {**graph["ops"][1], "outputs": []}
    expect_curves(graph, [(301, 6), (310, 5)])


def test_staged_workspace_decides():
    # a -> b -> c, then a and c -> d; op 2 takes 200 of workspace, or 50 and three seconds
    ops = [([], [0], 1, 0), ([0], [1], 1, 0), ([1], [2], 1, 200), ([0, 2], [3], 1, 0)]
    sizes = [100, 10, 10, 1]
    expect_curves(small(sizes, ops, [3]), [(220, 5), (320, 4)])
    ops[2] = ([1], [2], [(1, 200), (3, 50)])
    # the slow way: 170 beside a; with a again, 111 at op 3
    expect_curves(small(sizes, ops, [3]), [(111, 7), (170, 6), (220, 5), (320, 4)])
    ops[2] = ([1], [2], [(1, 200), (2, 50)])
    # two seconds: as fast as to run op 0 again, and smaller
    expect_curves(small(sizes, ops, [3]), [(111, 6), (170, 5), (320, 4)])


def test_staged_one_variant_throughout():
    # a -> b -> c, then a and c -> d. At 1000 bytes a has to come again beside c, where only the slow variant fits
    ops = [([], [0], [(1, 600), (5, 0)]), ([0], [1], 1, 0), ([1], [2], 1, 0), ([0, 2], [3], 1, 0)]
    graph = small([100, 500, 500, 1], ops, [3])
    expect_curves(graph, [(1000, 13), (1100, 4)])
    assert least.least_time(graph, 1000) == 9  # fast at first, then slow


def test_staged_ops_without_a_trace():
    # the check of a, op 1, makes nothing, and that of b, op 4, something that nobody wants: both run all the same
    ops = [([], [0], 1, 0), ([0], [], 1, 7), ([0], [1], 1, 0), ([1], [2], 1, 0), ([1], [3], 1, 0)]
    expect_curves(small([10, 10, 10, 5], ops, [2]), [(25, 5)], [(20, 5)])
    # that is: a and b, then b and c, then, in the order given, the extra value beside both; or before c


def test_staged_first_runs_in_order():
    # a, b, c of a, d of b, e of c and d. In the order given b lies beside a, or one or both come again
    ops = [([], [0], 1, 0), ([], [1], 1, 0), ([0], [2], 1, 0), ([1], [3], 1, 0), ([2, 3], [4], 1, 0)]
    expect_curves(small([100, 100, 1, 1, 1], ops, [4]), [(102, 7), (200, 6), (201, 5)], [(102, 5)])


def test_staged_too_few_stages():
    # The pairs 0, 1 and 2, 3: the second op of a pair has room for its workspace only before the first has run. Five
    # ops read the one pair and the other in turn, each the result of the last. 1; 0, 4; 3; 2, 5; 1; 0, 6 ...: ten
    # ascending runs, for nine ops
    ops = [([], [0], 1, 0), ([], [1], 1, 10), ([], [2], 1, 0), ([], [3], 1, 10)]
    ops += [([j % 2 * 2, j % 2 * 2 + 1] + ([3 + j] if j else []), [4 + j], 1, 0) for j in range(5)]
    graph = small([10] * 4 + [1] * 5, ops, [8])
    assert staged.curve(graph, "any")[0] == (22, 15)
    assert staged.optimum(graph, "unpartitioned", 22) is None
    # without the last of them: eight runs, eight ops
    graph = small([10] * 4 + [1] * 4, ops[:-1], [7])
    assert staged.curve(graph, "any")[0] == staged.curve(graph, "unpartitioned")[0] == (22, 12)


def test_staged_at_the_base_budget():
    graph = small([0], [([], [0], 1, 0)], [0])
    graph["fixed_bytes"] = 7
    for form in staged.FORMS:
        assert staged.optimum(graph, form, 7) == (1, 7, [["compute", 0, 0]]), form
        assert staged.optimum(graph, form, 6) is None, form


def by_tables(graph, form, assignment):
    """Every (peak, time) of a form, the plainest way: Checkmate's tables R (what a stage runs) and S (what it gets from the one
    before), all of them; each made into steps that free a value after its last use in a stage, and judged."""
    g = least.as_graph(graph)
    ops = range(len(g.reads))
    made = [set(x) for x in g.writes]
    needs = [set(x) - set(g.inputs) for x in g.reads]

    def subsets(items):
        return [set(c) for k in range(len(items) + 1) for c in combinations(sorted(items), k)]

    def stages(t, here, done):
        """The tables from stage t on: [(S_t, R_t), ...]; `here` is what there is at the end of the stage before."""
        if t == len(ops):
            if done == set(ops) and set(g.outputs) - set(g.inputs) <= here:
                yield []
            return
        free_choice = ops if form == "unpartitioned" else range(t)
        for kept, runs in product(subsets(here), subsets(free_choice)):
            runs = sorted(runs | ({t} if form == "partitioned" else set()))
            resident = set(kept)
            for o in runs:
                if needs[o] - resident or made[o] & resident:
                    break
                resident |= made[o]
            else:
                yield from ([(kept, runs)] + rest for rest in stages(t + 1, resident, done | set(runs)))

    for table in stages(0, set(), set()):
        steps, resident = [], set()
        for (kept, runs), after in zip(table, [kept for kept, _ in table[1:]] + [set(g.outputs)]):
            steps += [["free", v] for v in resident - kept]
            resident = set(kept)
            for i, o in enumerate(runs):
                steps.append(["compute", o, assignment[o]])
                used = set().union(after, *(needs[p] for p in runs[i + 1:]))
                steps += [["free", v] for v in (resident | made[o]) - used]
                resident = (resident | made[o]) & used
        device = judge.Replay(g)
        for step in steps:
            device.step(step)
        device.finish()
        yield device.peak, device.compute_time


def pareto(points):
    best = []
    for peak, time in sorted(set(points)):
        if not best or time < best[-1][1]:
            best.append((peak, time))
    return best


def test_staged_against_all_tables():
    most_values = {("partitioned", 3): 6, ("partitioned", 4): 5, ("unpartitioned", 3): 3}  # more would take minutes
    seen = dict.fromkeys(most_values, 0)
    for seed in range(150):
        rng = random.Random("tables/%d" % seed)
        graph = random_graph.random_graph(rng, max_ops=4)
        values, n = sum(len(op["outputs"]) for op in graph["ops"]), len(graph["ops"])
        for form in staged.FORMS[:2]:
            if values > most_values.get((form, n), 0):
                continue
            choices = product(*(range(len(op.get("variants", [0]))) for op in graph["ops"]))
            points = pareto(p for assignment in choices for p in by_tables(graph, form, assignment))
            assert staged.curve(graph, form) == points, (seed, form, points)
            seen[form, n] += 1
    assert min(seen.values()) >= 10, seen


def relaxed_stages(graph, form, budget):
    """The least time within a budget again, by relaxation. The state says everything: what is resident, which ops have run,
    the stage and the last op in it."""
    g = least.as_graph(graph)
    n = len(g.reads)

    def memory(resident):
        return g.fixed + sum(g.bytes[s] for s in {g.root[v] for v in resident})

    def moves(resident, done, stage, last):
        if stage + 1 < n and (form == "unpartitioned" or last == stage):
            yield 0, (resident, done, stage + 1, -1)
        for v in resident - set(g.inputs):
            yield 0, (resident - {v}, done, stage, last)
        for o in range(last + 1, stage + 1 if form == "partitioned" else n):
            made = resident | set(g.writes[o])
            time, workspace = assignment[o]
            if set(g.reads[o]) <= resident and not set(g.writes[o]) & resident and memory(made) + workspace <= budget:
                yield time, (made, done | {o}, stage, o)

    least_found = None
    for assignment in product(*g.variants):
        start = (frozenset(g.inputs), frozenset(), 0, -1)
        best = {start: 0} if memory(start[0]) <= budget else {}
        todo = list(best)
        while todo:
            state = todo.pop()
            for time, new in moves(*state):
                if new not in best or best[state] + time < best[new]:
                    best[new] = best[state] + time
                    todo.append(new)
        ends = [time for (resident, done, stage, last), time in best.items()
                if len(done) == n and set(g.outputs) <= resident and (form == "unpartitioned" or last == n - 1)]
        least_found = min(ends + [least_found] * (least_found is not None), default=None)
    return least_found


def test_staged_against_plain_relaxation():
    for seed in range(100):
        rng = random.Random("relaxed stages/%d" % seed)
        graph = random_graph.random_training(rng, layers=1) if seed % 2 else random_graph.random_graph(rng, max_ops=4)
        if sum(len(op["outputs"]) for op in graph["ops"]) > 5:
            continue
        for form in staged.FORMS[:2]:
            points = staged.curve(graph, form)
            for (peak, time), time_below in zip(points, [None] + [time for _, time in points]):
                assert relaxed_stages(graph, form, peak) == time, (seed, form, peak)
                assert relaxed_stages(graph, form, peak - 1) == time_below, (seed, form, peak)


def ascending_runs(ops):
    runs = []
    for o in ops:
        if not runs or o <= runs[-1][-1]:
            runs.append([])
        runs[-1].append(o)
    return runs


def is_partitioned(ops, count):
    """Whether the ops' first runs come in order and those between one and the next ascend."""
    stage, last = 0, -1
    for o in ops:
        if o > stage or o <= last:
            return False
        stage, last = (stage + 1, -1) if o == stage else (stage, o)
    return stage == count


def test_staged_plans_are_legal():
    for seed in range(120):
        rng = random.Random("staged/%d" % seed)
        graph = random_graph.random_training(rng, layers=2) if seed % 2 else random_graph.random_graph(rng, max_ops=6)
        for form in staged.FORMS:
            for peak, time in staged.curve(graph, form):
                got, least_peak, steps = staged.optimum(graph, form, peak + rng.choice([0, 1]))
                assert got <= time and least_peak <= peak + 1, (seed, form, peak)
                expect(graph, steps, budget=least_peak, peak=least_peak, time=float(got))
                order = [step[1] for step in steps if step[0] == "compute"]
                assert form != "partitioned" or is_partitioned(order, len(graph["ops"])), (seed, order)
                assert form == "any" or len(ascending_runs(order)) <= len(graph["ops"]), (seed, form, order)
                assert len({tuple(step) for step in steps if step[0] == "compute"}) == len(graph["ops"]), (seed, steps)


def test_staged_against_least():
    """No form is better than the next, nor the last than plans that mix variants; without variants these are the same."""
    for seed in range(300):
        rng = random.Random("staged least/%d" % seed)
        graph = random_graph.random_training(rng) if seed % 3 == 0 else random_graph.random_graph(rng, max_ops=6)
        plain = seed % 2 == 0
        for op in graph["ops"] if plain else []:
            op.pop("variants", None)
        curves = [staged.curve(graph, form) for form in staged.FORMS]
        assert curves[2][0][0] == least.least_peak(graph), seed
        for budget in {peak for curve in curves for peak, _ in curve}:
            times = [min((time for peak, time in curve if peak <= budget), default=float("inf")) for curve in curves]
            times.append(least.least_time(graph, budget))
            assert times == sorted(times, reverse=True), (seed, budget, times)
            assert not plain or times[2] == times[3], (seed, budget, times)


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
    assert {len(g["ops"]) for g in graphs} >= set(range(2, 10))
    assert all({op["pass"] for op in g["ops"]} == {"forward", "backward"} for g in graphs)
    for key in ("variants", "random", "in_place", "updates"):
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
        graph, plan, tasks = (os.path.join(folder, name) for name in ("g.json", "p.json", "tasks"))
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
        code, out = command("staged.py", graph)
        assert code == 0 and json.loads(out) == dict.fromkeys(staged.FORMS, [[360, 3]]), out
        code, out = command("staged.py", graph, 359)
        assert code == 0 and json.loads(out) == dict.fromkeys(staged.FORMS), out
        with open(tasks, "w", encoding="utf-8") as file:
            file.writelines(json.dumps({"graph": g}) + "\n" for g in (abc(), unit_chain(3)))
        code, out = command("staged_many.py", tasks)
        chain = [3, 3, 10**16, 4, 8 * 10**15, 5, 7 * 10**15]
        assert code == 0 and [[int(x) for x in line.split()] for line in out.splitlines()] == [[1, 360, 3 * 10**15] * 2, chain * 2], out
        code, out = command("staged_many.py", tasks, "any")
        assert code == 0 and out.startswith("1 360 3000000000000000\n"), out
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
