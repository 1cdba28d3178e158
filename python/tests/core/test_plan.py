"""neap.plan and neap.Plan: the figures, the judge, addresses, requests that are wrong."""

import json
import pickle
import threading
from types import SimpleNamespace

import neap
import pytest
from core_support import MIB, chain_dict, uneven_dict


def test_plan(chain, judge):
    plan = neap.plan(chain, "50%")
    assert plan.budget == 13 * MIB and plan.peak <= plan.budget and plan.arena <= plan.budget
    assert plan.graph is chain and plan.method == "neap"
    assert plan.outcome in ("optimal", "feasible")
    assert plan.base_time <= plan.bound_time <= plan.time
    assert plan.overhead == pytest.approx(plan.time / plan.base_time - 1)
    assert plan.gap == pytest.approx(plan.time / plan.bound_time - 1)
    computed = [op for kind, op, _ in plan.steps if kind == "compute"]
    assert set(computed) == set(range(48)) and plan.recomputed_ops == len(computed) - 48 > 0
    verdict = judge(chain.to_json(), plan.to_json(), None, plan.budget)
    assert verdict["ok"], verdict
    assert verdict["peak"] == plan.peak and verdict["recomputed"] == plan.recomputed_ops
    assert verdict["time"] == pytest.approx(plan.time, rel=1e-12)
    assert "chain24" in repr(plan) and f"{plan.recomputed_ops} recomputations" in repr(plan)


def test_random_graphs_against_the_judge(training_dicts, judge):
    link = neap.Link(2000.0, 1000.0, duplex=True)
    for fields in training_dicts:
        graph = neap.Graph.from_dict(fields)
        plans = [neap.plan(graph, method=m) for m in ("store-all", "neap")]
        tight = max(graph.floor.bytes, graph.natural_peak * 3 // 4)
        plans += [p for p in neap.curve(graph, [tight, None], time_limit=0.5) if p]
        for plan in plans:
            verdict = judge(graph.to_json(), plan.to_json(), None, plan.budget)
            assert verdict["ok"] and verdict["peak"] == plan.peak, (fields, verdict)
            assert verdict["time"] == pytest.approx(plan.time)
        moved = neap.plan(graph, graph.natural_peak, method="neap", link=link, time_limit=0.5)
        assert moved.check(), moved.check().reason


def test_budgets(chain):
    for budget in (13 * MIB, "13MiB", "13 MiB", "50%", "50 %", 13.0 * MIB, str(13 * MIB)):
        assert neap.plan(chain, budget, method="sqrt").budget == 13 * MIB
    free = neap.plan(chain)
    assert free.budget is None and free.recomputed_ops == 0 and free.peak == 26 * MIB
    for budget in [
        0,
        -1,
        True,
        float("nan"),
        1e30,
        [1],
        "",
        "x",
        "1\0",
        "0%",
        "-5%",
        "nan%",
        "5%%",
    ]:
        with pytest.raises(neap.InvalidError):
            neap.plan(chain, budget)


def test_sizes_in_words():
    assert neap.parse_bytes("6GiB") == 6 << 30 and neap.parse_bytes("1.5 MB") == 1_500_000
    assert neap.parse_bytes("5e9") == 5 * 10**9 and neap.parse_bytes(12) == 12
    assert neap.format_bytes(6 << 30) == "6.00 GiB" and neap.format_bytes(512) == "512 B"
    assert neap.format_seconds(0.00456) == "4.56 ms"


def test_infeasible_below_the_floor(chain, short_search):
    with pytest.raises(neap.InfeasibleError) as caught:
        neap.plan(chain, "4MiB")
    error = caught.value
    assert error.budget == 4 * MIB and error.floor == 5 * MIB and error.floor_op == chain.floor.op
    assert error.least_budget == 5 * MIB and error.op is not None
    assert f'op "{error.floor_op}"' in str(error) and str(error.least_budget) in str(error)
    assert error.is_proven
    assert neap.plan(chain, error.least_budget, time_limit=1).peak <= error.least_budget


def test_no_plan_in_time(chain, short_search):
    """Above the floor, nothing is proven; the least budget is still said."""
    with pytest.raises(neap.InfeasibleError, match="within the time limit") as caught:
        neap.plan(chain, chain.floor.bytes, method="checkmate", time_limit=1e-6)
    error = caught.value
    assert not error.is_proven and error.least_budget == chain.floor.bytes


def test_infeasible_for_one_method(chain):
    with pytest.raises(neap.InfeasibleError) as caught:
        neap.plan(chain, "8MiB", method="sqrt")
    error = caught.value
    assert error.least_budget > 8 * MIB and f"{error.least_budget} bytes" in str(error)
    assert neap.plan(chain, error.least_budget, method="sqrt").peak == error.least_budget
    with pytest.raises(neap.InfeasibleError):
        neap.plan(chain, error.least_budget - 1, method="sqrt")


def test_objective_peak(chain):
    least = neap.plan(chain, objective="peak", time_limit=0.5)
    assert least.peak == chain.floor.bytes and least.recomputed_ops > 0


def test_pins(chain):
    plan = neap.plan(chain, "18MiB", pins=[("no-recompute", "f?"), ("keep", "a12")])
    runs = [chain.op_name(op) for kind, op, _ in plan.steps if kind == "compute"]
    for name in [f"f{i}" for i in range(10)] + ["f12"]:
        assert runs.count(name) == 1, name
    assert plan.recomputed_ops > 0
    with pytest.raises(neap.InvalidError, match="no-recompute"):
        neap.plan(chain, "14MiB", pins=[("forget", "f1")])
    with pytest.raises(neap.InvalidError, match="kind, pattern"):
        neap.plan(chain, "14MiB", pins=["keep"])
    with pytest.raises(neap.UnsupportedError):
        neap.plan(chain, "20MiB", method="sqrt", pins=[("keep", "f1")])


def test_link(chain):
    link = neap.Link(out_bandwidth=1e10, in_bandwidth=1e10, duplex=True)
    moved = neap.plan(chain, "13MiB", link=link, time_limit=1)
    assert moved.link == link and moved.offloaded_bytes > 0
    assert moved.time < neap.plan(chain, "13MiB").time
    kinds = {kind for kind, _, _ in moved.steps}
    assert kinds == {"compute", "free", "offload", "prefetch"}
    written = [(*step, 0)[:3] for step in json.loads(moved.to_json())["steps"]]
    assert moved.steps == written
    assert neap.Plan.from_steps(chain, moved.steps, link=link).time == moved.time
    kept = neap.plan(chain, "13MiB", link=link, time_limit=1, pins=[("no-offload", "*")])
    assert kept.offloaded_bytes == 0
    with pytest.raises(neap.UnsupportedError, match="link"):
        neap.plan(chain, "13MiB", method="offload")
    for bad in (neap.Link(-1.0, 1.0), neap.Link("fast", 1.0), 12e9):
        with pytest.raises(neap.InvalidError):
            neap.plan(chain, "13MiB", link=bad)


def test_start_and_gap(chain):
    first = neap.plan(chain, "13MiB", method="greedy")
    plan = neap.plan(chain, "13MiB", start=first, gap=10.0)
    assert plan.time <= first.time
    assert neap.plan(chain, "13MiB", start=first, time_limit=0.5).time <= plan.time


def test_alignment(chain):
    plan = neap.plan(chain, "60%", alignment=512)
    assert all(offset % 512 == 0 for offset in plan.offsets)
    odd = neap.Graph.from_dict(chain_dict(8, size=1000))
    assert neap.plan(odd, "100%", alignment=512).budget == odd.natural_arena(512) > odd.natural_peak
    placed = neap.plan(odd, "70%").assign_addresses(alignment=512)
    assert all(offset % 512 == 0 for offset in placed.offsets) and placed.check(budget="1GiB")
    assert placed.arena == placed.check(budget="1GiB").arena >= placed.peak


def test_timeline(chain):
    plan = neap.plan(chain, "50%", link=neap.Link(1e10, 1e10), time_limit=0.5)
    timeline = plan.timeline()
    assert len(timeline) == len(plan.steps)
    assert max(step.live_bytes for step in timeline) == plan.peak
    assert max(step.end for step in timeline) == pytest.approx(plan.time)


def test_chart(chain):
    plan = neap.plan(chain, "50%")
    chart = plan.chart(width=40, height=6)
    assert "MiB" in chart and 6 <= len(chart.splitlines()) <= 12 and "\x1b" not in chart
    assert "\x1b" in plan.chart(color=True)
    assert plan._repr_html_().startswith("<pre>&lt;neap.Plan of &#x27;chain24&#x27;")
    with pytest.raises(neap.InvalidError):
        plan.chart(width=-5)


def report_data(path):
    page = path.read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    begin = page.index('id="neap-data">') + len('id="neap-data">')
    return json.loads(page[begin : page.index("</script>", begin)])


def test_report(chain, tmp_path):
    plan = neap.plan(chain, "50%")
    others = [p for p in neap.curve(chain, ["60%", "80%"], method="sqrt") if p]
    path = tmp_path / "plan.html"
    path.write_text("old")
    plan.report(path, others=others, title="a <b>")
    data = report_data(path)
    assert data["title"] == "a <b>" and data["main"] == 1
    assert data["plans"][0]["peak_bytes"] == chain.natural_peak
    shown = data["plans"][1]
    assert (shown["peak_bytes"], shown["arena_bytes"]) == (plan.peak, plan.arena)
    assert (shown["time"], shown["bound_time"]) == (plan.time, plan.bound_time)
    assert shown["bound_scope"] == plan.bound_scope
    assert len(shown["steps"]["kind"]) == len(plan.steps)
    assert {p["method"] for p in data["plans"][2:]} <= {"sqrt"}
    before = path.read_bytes()
    plan.report(path, others=others, title="a <b>")
    assert path.read_bytes() == before

    other = neap.plan(neap.Graph.from_json(chain.to_json()))
    for wrong in (dict(others=[other]), dict(others=[None]), dict(title=7), dict(title="a\0b")):
        with pytest.raises(neap.InvalidError):
            plan.report(path, **wrong)
    with pytest.raises(neap.FileError):
        plan.report(tmp_path / "missing" / "plan.html")
    assert path.read_bytes() == before


def test_options():
    method = next(m for m in neap.methods() if m.options)
    assert method.summary and all(option.meaning for option in method.options)
    names = [m.name for m in neap.methods()]
    assert names[0] == "neap" and "store-all" in names and len(set(names)) == len(names)
    assert neap.methods()[0].takes_constraints


def test_wrong_requests(chain):
    wrong = [
        dict(method="sqr"), dict(method=7), dict(method="a\0"), dict(time_limit=-1),
        dict(time_limit="long"), dict(gap=float("nan")), dict(alignment=0), dict(alignment=1.5),
        dict(seed=-1), dict(seed=2**64), dict(threads=-1), dict(objective="fun"),
        dict(options={"nonsense": 1}), dict(options={1: 1}), dict(start="plan.json"),
    ]  # fmt: skip
    for arguments in wrong:
        with pytest.raises(neap.InvalidError):
            neap.plan(chain, "13MiB", **arguments)
    with pytest.raises(neap.InvalidError, match="did you mean sqrt"):
        neap.plan(chain, "13MiB", method="sqr")
    with pytest.raises(neap.InvalidError, match="neap.Graph"):
        neap.plan({"neap": "graph"}, None)


def test_files(chain, tmp_path):
    plan = neap.plan(chain, "50%")
    plan.write(tmp_path / "plan.json")
    again = neap.Plan.read(tmp_path / "plan.json", chain)
    assert again.steps == plan.steps and again.offsets == plan.offsets
    assert (again.peak, again.time, again.arena) == (plan.peak, plan.time, plan.arena)
    assert (again.budget, again.method) == (plan.budget, "neap")
    assert (again.outcome, again.gap) == (None, None)
    assert neap.Plan.from_json(plan.to_json(), chain).to_json() == plan.to_json()
    assert neap.Plan.from_steps(chain, plan.steps, budget=plan.budget).peak == plan.peak
    copy = pickle.loads(pickle.dumps(plan))
    assert copy.steps == plan.steps and copy.gap == plan.gap and copy.outcome == plan.outcome


def test_check(chain):
    plan = neap.plan(chain, "50%")
    verdict = plan.check()
    assert verdict and verdict.peak == plan.peak and verdict.time == plan.time
    tight = plan.check(budget=plan.peak - 1)
    assert not tight and "budget" in tight.reason
    bare = neap.Plan.from_steps(chain, plan.steps)
    assert bare.offsets is None and bare.check().arena is None
    tight = bare.check(budget=plan.peak - 1)
    assert not tight and bare.steps[tight.step][0] == "compute" and "budget" in tight.reason


def test_plans_that_are_wrong(chain):
    plan = neap.plan(chain, "50%")
    fields = json.loads(plan.to_json())
    with pytest.raises(neap.InvalidError, match="step"):
        neap.Plan.from_steps(chain, plan.steps[1:])
    with pytest.raises(neap.InvalidError):
        neap.Plan.from_json(json.dumps({**fields, "steps": [["compute", 10**6]]}), chain)
    with pytest.raises(neap.InvalidError):
        neap.Plan.from_json(json.dumps({**fields, "arena_bytes": 1}), chain)
    with pytest.raises(neap.InvalidError):
        neap.Plan.from_json("{", chain)
    with pytest.raises(neap.InvalidError):  # a plan of another graph
        neap.Plan.from_json(plan.to_json(), neap.Graph.from_dict(chain_dict(5)))
    with pytest.raises(neap.FileError):
        neap.Plan.read("/nowhere/plan.json", chain)


def test_curve(chain):
    plans = neap.curve(chain, ["10%", "40%", "60%", None], time_limit=2)
    assert plans[0] is None  # below the floor
    assert [p.budget for p in plans[1:]] == [chain.natural_peak * s // 10 for s in (4, 6)] + [None]
    times = [p.time for p in plans[1:]]
    assert times == sorted(times, reverse=True) and times[-1] == chain.base_time
    spaced = neap.curve(chain, 5, method="greedy")
    assert spaced[0] is None and spaced[-1].budget == chain.natural_peak
    assert neap.curve(chain, []) == []
    for wrong in ("50%", 0, ["x"]):
        with pytest.raises(neap.InvalidError):
            neap.curve(chain, wrong)


def test_seed_and_threads_reach_the_library(chain, monkeypatch):
    """Few graphs are planned differently for another seed, so look at the request itself."""
    seen = []
    real = neap._requests.lib.neap_solve

    def spy(allocator, request, solution, diag):
        seen.append((request._obj.seed, request._obj.threads, request._obj.graph))
        return real(allocator, request, solution, diag)

    monkeypatch.setattr(neap._requests, "lib", SimpleNamespace(**vars(neap._library.lib)))
    neap._requests.lib.neap_solve = spy
    neap.plan(chain, "60%", method="sqrt", seed=2**64 - 1, threads=2)
    assert seen == [(2**64 - 1, 2, chain._handle)]


def test_the_same_seed_gives_the_same_plan(chain):
    one, two = (neap.plan(chain, "40%", seed=3, threads=n) for n in (1, 2))
    assert one.steps == two.steps


def test_threads_share_a_graph(chain):
    """Plans made at once are those made one by one."""
    budgets = [f"{50 + 8 * i}%" for i in range(6)]
    alone = [neap.plan(chain, b, method="greedy").steps for b in budgets]
    found = [None] * len(budgets)

    def work(i):
        for _ in range(5):
            found[i] = neap.plan(chain, budgets[i], method="greedy").steps

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(budgets))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == alone


def test_memory_is_released():
    """A plan keeps what it needs, and nothing is kept without one."""
    plan = neap.plan(neap.Graph.from_dict(chain_dict(12)), "60%", method="sqrt")
    assert plan.check() and plan.graph.name == "chain12"
    import gc
    import weakref

    graph = weakref.ref(plan.graph)
    del plan
    gc.collect()
    assert graph() is None


def test_least_budget_of_a_large_graph():
    """A refusal names a budget near the least, not the peak without a plan, with pins or without."""
    graph = neap.Graph.from_json(json.dumps(uneven_dict(1000)))
    for pins in ((), [("no-offload", "*")]):
        with pytest.raises(neap.InfeasibleError) as caught:
            neap.plan(graph, graph.floor.bytes - 1, pins=pins, time_limit=2)
        error = caught.value
        assert error.least_budget < 0.1 * graph.natural_peak
        assert error.least_plan.check(budget=error.least_budget)
        found = neap.plan(graph, error.least_budget, pins=pins, time_limit=1e-3)
        assert found.peak <= error.least_budget
    assert neap.plan(graph, objective="peak", time_limit=4).peak < 0.1 * graph.natural_peak


def test_a_refusal_without_a_search(chain):
    with pytest.raises(neap.InfeasibleError) as caught:
        neap.plan(chain, "4MiB", search_least=False)
    assert caught.value.least_budget is None and caught.value.least_plan is None


def test_the_least_budget_has_a_plan_in_no_time(chain, short_search):
    with pytest.raises(neap.InfeasibleError) as caught:
        neap.plan(chain, "4MiB")
    error = caught.value
    assert error.least_plan.check(budget=error.least_budget)
    assert neap.plan(chain, error.least_budget, time_limit=1e-6).peak <= error.least_budget
    copy = pickle.loads(pickle.dumps(error))
    assert copy.least_plan is None and (str(copy), copy.least_budget) == (str(error), error.least_budget)
