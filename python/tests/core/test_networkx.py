"""neap.Graph.from_networkx."""

import neap
import pytest

nx = pytest.importorskip("networkx")


def training_step():
    graph = nx.DiGraph()
    graph.add_node("x", bytes=100, kind="input")
    graph.add_node("w", bytes=40, kind="parameter")
    graph.add_node("conv", bytes=400, time=2.0, workspace=64, type="conv2d", label="ignored")
    graph.add_node("relu", bytes=400)
    graph.add_node("loss", bytes=4, random=True)
    graph.add_node("relu_bw", bytes=400, **{"pass": "backward"})
    graph.add_node("conv_bw", bytes=40, time=4.0, **{"pass": "backward"})
    graph.add_edges_from([("x", "conv"), ("w", "conv"), ("conv", "relu"), ("relu", "loss")])
    graph.add_edges_from([("relu", "relu_bw"), ("loss", "relu_bw")])
    graph.add_edges_from([("relu_bw", "conv_bw"), ("x", "conv_bw")])
    return graph


def test_from_networkx():
    graph = neap.Graph.from_networkx(training_step(), name="step")
    assert graph.name == "step"
    assert [op.name for op in graph.ops] == ["conv", "relu", "loss", "relu_bw", "conv_bw"]
    kinds = {value.name: value.kind for value in graph.values}
    assert kinds["x"] == "input" and kinds["w"] == "parameter"
    assert kinds["conv"] == "activation" and kinds["conv_bw"] == "gradient"
    conv = graph.ops[0]
    assert (conv.time, conv.workspace, conv.type) == (2.0, 64, "conv2d")
    assert {graph.values[v].name for v in conv.inputs} == {"x", "w"}
    assert graph.base_time == 2 + 1 + 1 + 1 + 4
    assert [graph.values[v].name for v in graph.outputs] == ["conv_bw"]  # nothing reads it
    assert graph.to_dict()["ops"][2]["random"] is True
    assert neap.plan(graph, "100%").recomputed_ops == 0


def test_outputs_and_order():
    graph = training_step()
    graph.nodes["loss"]["output"] = True
    made = neap.Graph.from_networkx(graph)
    assert [made.values[v].name for v in made.outputs] == ["loss", "conv_bw"]
    backwards = nx.DiGraph()
    backwards.add_nodes_from(reversed(list(training_step().nodes(data=True))))
    backwards.add_edges_from(training_step().edges)
    assert [op.name for op in neap.Graph.from_networkx(backwards).ops][0] == "conv"


def test_parallel_edges_and_odd_names():
    graph = nx.MultiDiGraph()
    graph.add_node(("a", 1), bytes=8)
    graph.add_node(2, bytes=8)
    graph.add_edge(("a", 1), 2)
    graph.add_edge(("a", 1), 2)
    made = neap.Graph.from_networkx(graph)
    assert [op.name for op in made.ops] == ["('a', 1)", "2"] and made.ops[1].inputs == (0,)


def test_numpy_numbers():
    numpy = pytest.importorskip("numpy")
    graph = nx.DiGraph()
    graph.add_node("a", bytes=numpy.int64(7), time=numpy.float32(0.5), workspace=numpy.int32(1))
    made = neap.Graph.from_networkx(graph)
    assert made.values[0].bytes == 7 and made.ops[0].time == 0.5 and made.ops[0].workspace == 1


def wrong_graphs():
    def change(words, edit):
        graph = training_step()
        edit(graph)
        return pytest.param(graph, words, id=words)

    yield change("conv.*has no attribute bytes", lambda g: g.nodes["conv"].pop("bytes"))
    yield change("cycle", lambda g: g.add_edge("relu", "conv"))
    yield change('"x" .*input.*predecessors', lambda g: g.add_edge("w", "x"))
    yield change("bytes is -1", lambda g: g.nodes["x"].update(bytes=-1))
    yield change("time is 'long'", lambda g: g.nodes["conv"].update(time="long"))
    yield change("workspace is nan", lambda g: g.nodes["conv"].update(workspace=float("nan")))
    yield change("pass is 'sideways'", lambda g: g.nodes["conv"].update({"pass": "sideways"}))
    yield change("flops.*many", lambda g: g.nodes["conv"].update(flops="many"))


@pytest.mark.parametrize("graph, words", list(wrong_graphs()))
def test_wrong_graphs(graph, words):
    with pytest.raises(neap.InvalidError, match=words):
        neap.Graph.from_networkx(graph)


def test_not_a_directed_graph():
    for other in (nx.Graph([(1, 2)]), {"a": 1}, None):
        with pytest.raises(neap.InvalidError, match="DiGraph"):
            neap.Graph.from_networkx(other)
