"""Runs in place, updates, and state that travels, through the package."""

import neap
import pytest

GRAPH = {
    "neap": "graph", "version": 1, "name": "step",
    "values": [
        {"name": "w", "bytes": 1000, "kind": "parameter", "state": True},
        {"name": "m", "bytes": 1000, "kind": "state", "state": True},
        {"name": "x", "bytes": 100, "kind": "input"},
        {"name": "h", "bytes": 500, "kind": "activation"},
        {"name": "r", "bytes": 500, "kind": "activation"},
        {"name": "dw", "bytes": 1000, "kind": "gradient"},
    ],
    "ops": [
        {"name": "fc", "inputs": [0, 2], "outputs": [3], "time": 1, "workspace": 0},
        {"name": "relu", "inputs": [3], "outputs": [4], "time": 1, "workspace": 0, "in_place": [3, 4]},
        {"name": "bw", "inputs": [2, 4], "outputs": [5], "time": 1, "workspace": 0},
        {"name": "adam", "inputs": [0, 1, 5], "outputs": [], "updates": [0, 1], "time": 1, "workspace": 50},
    ],
    "outputs": [],
}  # fmt: skip
LINK = neap.Link(out_bandwidth=1e6, in_bandwidth=1e6, duplex=True)


@pytest.fixture
def graph():
    return neap.Graph.from_dict(GRAPH)


def test_in_place(graph):
    plan = neap.plan(graph, "100%")
    inside = [graph.op_name(plan.steps[i][1]) for i in plan.in_place]
    assert inside == ["relu"] and len(plan.steps) == len(set(plan.steps))
    assert neap.Plan.from_json(plan.to_json(), graph).in_place == plan.in_place
    again = neap.Plan.from_steps(graph, plan.steps, in_place=plan.in_place)
    assert again.peak == plan.peak
    assert neap.Plan.from_steps(graph, [*plan.steps, ("free", 3, 0)]).peak > plan.peak


def test_out_of_place(graph):
    plan = neap.plan(graph, "100%", in_place=False)
    assert not plan.in_place and plan.graph is graph.out_of_place
    assert "in_place" not in graph.out_of_place.ops[1]._fields
    assert graph.out_of_place.out_of_place is graph.out_of_place
    assert neap.plan(graph, "100%").in_place  # the graph itself has kept its marks
    curve = neap.curve(graph, ["100%"], in_place=False)
    assert curve[0] is not None and not curve[0].in_place


def test_natural_peak_is_out_of_place(graph):
    assert graph.natural_peak == 1000 + 1000 + 100 + 500 + 1000
    assert graph.natural_arena(64) >= graph.natural_peak
    parts = graph.natural_peak_parts
    assert sum(parts) == graph.natural_peak
    assert (parts.parameters, parts.state, parts.gradients, parts.other) == (1000, 1000, 1000, 100)


def test_parts(graph):
    plan = neap.plan(graph)
    assert isinstance(plan.peak_parts, neap.MemoryParts) and sum(plan.peak_parts) == plan.peak


def test_state_on_the_host(graph):
    plan = neap.plan(graph, link=LINK, state="host")
    assert plan.host_at_start == [0, 1] and plan.check()
    again = neap.Plan.from_steps(graph, plan.steps, link=LINK, in_place=plan.in_place,
                                 host_at_start=plan.host_at_start)  # fmt: skip
    assert again.time == plan.time
    assert neap.plan(graph, link=LINK, state="device").host_at_start == []
    with pytest.raises(neap.InvalidError, match="state on the host needs a link"):
        neap.plan(graph, state="host")
    with pytest.raises(neap.UnsupportedError, match="keeps all state on the device"):
        neap.plan(graph, link=LINK, state="host", method="sqrt")
    with pytest.raises(neap.InvalidError, match='"auto", "device" or "host"'):
        neap.plan(graph, state="disk")


def test_state_lowers_the_floor(graph):
    """With a link, less than all state needs to be there at once."""
    fits = neap.plan(graph, "90%", link=LINK)
    assert fits.peak <= 0.9 * graph.natural_peak
    with pytest.raises(neap.InfeasibleError) as error:
        neap.plan(graph, 2600, search_least=False)
    assert error.value.floor == 3600 and error.value.floor_op == "bw"
    assert "with all state on the device" in str(error.value)
