"""The cost model: signatures, measured and estimated costs, and the cache on disk."""

from __future__ import annotations

import json
import warnings

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch._functorch.aot_autograd import aot_module_simplified  # noqa: E402
from torch._functorch.partitioners import default_partition  # noqa: E402

from neap.torch.costs import CostModel, OpCost, _mixed, rounded, signature, tensor_arguments  # noqa: E402
from neap.torch.measure import Stopwatch  # noqa: E402
from neap.torch.op_inputs import _FORWARDS, Inputs, Unsafe  # noqa: E402
from neap.torch.op_signature import call_of, leaves  # noqa: E402
from neap.torch.reuse import USABLE, cached_shares  # noqa: E402

aten = torch.ops.aten


class Net(nn.Module):
    """A few ops of every kind that needs care: pooling with indices, batch norm, dropout, attention, embedding,
    a loss.
    """

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(16, 5)

    def forward(self, ids: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)[:, None]
        x = nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        x = nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
        x = nn.functional.dropout(x, 0.5).flatten(2)
        return nn.functional.cross_entropy(self.head(x).flatten(0, 1), target)


def joint_graph(model: nn.Module, *args: torch.Tensor) -> torch.fx.GraphModule:
    """The joint graph of forward and backward that AOTAutograd hands to its partitioner."""
    graphs: list[torch.fx.GraphModule] = []

    def partition(graph, inputs, **options):
        graphs.append(graph)
        return default_partition(graph, inputs, **options)

    def backend(graph, inputs):
        return aot_module_simplified(graph, inputs, fw_compiler=lambda compiled, _: compiled.forward, partition_fn=partition)

    torch._dynamo.reset()
    torch.compile(model, backend=backend)(*args)
    return graphs[0]


@pytest.fixture(scope="module")
def graph() -> torch.fx.GraphModule:
    ids = torch.randint(0, 11, (2, 8))
    return joint_graph(Net(), ids, torch.randint(0, 5, (8,)))


def nodes_of(graph: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return [node for node in graph.graph.nodes if node.op == "call_function"]


def test_every_node_is_measured(graph, tmp_path):
    costs = CostModel("cpu", cache_dir=str(tmp_path)).price(list(graph.graph.nodes))
    assert set(costs) == set(nodes_of(graph))
    assert [str(node.target) for node, cost in costs.items() if not cost.measured] == []
    assert costs[next(node for node in costs if "convolution_backward" in str(node.target))].seconds > 0


def test_random_state_is_left_alone(graph, tmp_path):
    state = torch.get_rng_state()
    CostModel("cpu", cache_dir=str(tmp_path)).price(nodes_of(graph))
    assert torch.equal(state, torch.get_rng_state())


def test_measures_inside_fake_mode(graph, tmp_path):
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode(), torch.autocast("cpu"):
        costs = CostModel("cpu", cache_dir=str(tmp_path)).price(nodes_of(graph))
    assert all(cost.measured for cost in costs.values())


def test_views_are_free_and_name_their_base(graph, tmp_path):
    costs = CostModel("cpu", cache_dir=str(tmp_path)).price(nodes_of(graph))
    views = [node for node in costs if node.target in (torch.ops.aten.view.default, torch.ops.aten.t.default)]
    assert views
    for node in views:
        assert costs[node].seconds == 0 and costs[node].alias == (0,)
        assert tensor_arguments(node)[0] is node.args[0]
    product = next(node for node in costs if node.target is torch.ops.aten.convolution.default)
    assert costs[product].alias == (None,)


def test_estimates_agree_on_aliases(graph, tmp_path):
    measured = CostModel("cpu", cache_dir=str(tmp_path)).price(nodes_of(graph))
    estimated = CostModel("cuda", cache_dir=str(tmp_path), measure=False).price(nodes_of(graph))
    for node, cost in estimated.items():
        assert cost.alias == measured[node].alias, node.format_node()
    assert any(not cost.measured and cost.seconds > 0 for cost in estimated.values())


def test_cache_serves_a_second_model(graph, tmp_path):
    first = CostModel("cpu", cache_dir=str(tmp_path))
    costs = first.price(nodes_of(graph))
    first.flush()
    seen: list[str] = []
    second = CostModel("cpu", cache_dir=str(tmp_path), progress=lambda done, total, what: seen.append(what))
    assert second.price(nodes_of(graph)) == costs
    assert seen == []


def test_writers_merge(graph, tmp_path):
    nodes = nodes_of(graph)
    one, two = CostModel("cpu", cache_dir=str(tmp_path)), CostModel("cpu", cache_dir=str(tmp_path))
    costs = one.price(nodes[: len(nodes) // 2]) | two.price(nodes[len(nodes) // 2 :])
    one.flush()
    two.flush()
    again = CostModel("cpu", cache_dir=str(tmp_path), measure=False).price(nodes)
    assert all(cost.measured for cost in again.values())
    assert set(again) == set(costs)


@pytest.mark.parametrize("damage", ['{"format": 2, "costs": {"x": ', "[]", '{"format": 2, "costs": {"x": {"y": 3}}}'])
def test_damaged_cache_is_rewritten(graph, tmp_path, damage):
    nodes = nodes_of(graph)[:6]
    model = CostModel("cpu", cache_dir=str(tmp_path))
    model.price(nodes)
    model.flush()
    (path,) = tmp_path.glob("*.json")
    path.write_text(damage)
    with pytest.warns(RuntimeWarning, match="damaged"):
        model = CostModel("cpu", cache_dir=str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.price(nodes)
    assert json.loads(path.read_text())["costs"]


def test_out_of_memory_is_estimated_and_tried_again(graph, tmp_path, monkeypatch):
    nodes = nodes_of(graph)
    measure = Stopwatch.measure

    def fail(self, call, how=None):
        if call.target is torch.ops.aten.convolution.default:
            raise torch.OutOfMemoryError("no memory left")
        return measure(self, call, how)

    model = CostModel("cpu", cache_dir=str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(Stopwatch, "measure", fail)
        costs = model.price(nodes)
    estimated = {node.target for node, cost in costs.items() if not cost.measured}
    assert estimated == {torch.ops.aten.convolution.default}
    assert all(cost.measured for cost in model.price(nodes).values())


def test_interrupt_keeps_what_was_measured(graph, tmp_path):
    def stop(done: int, total: int, what: str) -> None:
        if done == 3:
            raise KeyboardInterrupt

    state = torch.get_rng_state()
    with pytest.raises(KeyboardInterrupt):
        CostModel("cpu", cache_dir=str(tmp_path), progress=stop).price(nodes_of(graph))
    assert torch.equal(state, torch.get_rng_state()) and torch.is_grad_enabled()
    left: list[int] = []
    CostModel("cpu", cache_dir=str(tmp_path), progress=lambda done, total, what: left.append(total)).price(nodes_of(graph))
    full: list[int] = []
    CostModel("cpu", cache_dir=str(tmp_path / "new"), progress=lambda done, total, what: full.append(total)).price(nodes_of(graph))
    assert full[0] - left[0] == 3


def node_of(target, *args, **kwargs) -> torch.fx.Node:
    """A node that calls the target; tensors among the arguments become placeholders."""
    graph = torch.fx.Graph()

    def placed(value):
        if isinstance(value, torch.Tensor):
            node = graph.placeholder(f"x{len(graph.nodes)}")
            node.meta["val"] = value
            return node
        return [placed(item) for item in value] if isinstance(value, list) else value

    return graph.call_function(target, tuple(map(placed, args)), {key: placed(value) for key, value in kwargs.items()})


INDEXED = {
    "embedding": (aten.embedding.default, (torch.ones(7, 3), torch.ones(50, dtype=torch.int64)), 7),
    "embedding_backward": (aten.embedding_dense_backward.default, (torch.ones(50, 3), torch.ones(50, dtype=torch.int64), 7, -1, False), 7),
    "gather": (aten.gather.default, (torch.ones(3, 9), -1, torch.ones(3, 50, dtype=torch.int64)), 9),
    "index": (aten.index.Tensor, (torch.ones(3, 9, 5), [None, torch.ones(50, dtype=torch.int64)]), 9),
    "index_put": (aten.index_put.default, (torch.ones(3, 9), [torch.ones(50, dtype=torch.int64)], torch.ones(50, 9)), 3),
    "nll_loss": (aten.nll_loss_forward.default, (torch.ones(50, 4), torch.ones(50, dtype=torch.int64), None, 1, -100), 4),
    "unknown": (aten.repeat.default, (torch.ones(50, dtype=torch.int64), [2]), 1),
}


@pytest.mark.parametrize("case", INDEXED)
def test_indices_are_in_range_and_spread(case):
    target, args, bound = INDEXED[case]
    made, _ = Inputs(torch.device("cpu")).make(call_of(node_of(target, *args)))
    (index,) = (tensor for tensor in leaves(made, torch.Tensor) if tensor.dtype == torch.int64)
    assert int(index.min()) >= 0 and int(index.max()) == bound - 1


@pytest.mark.parametrize("target", ["_assert_async.msg", "set_.source_Tensor", "nonzero.default", "_local_scalar_dense.default"])
def test_unsafe_ops_are_not_run(target):
    packet, overload = target.split(".")
    args = [torch.ones(2)] + {"_assert_async": ["no"], "set_": [torch.ones(2)]}.get(packet, [])
    with pytest.raises(Unsafe):
        Inputs(torch.device("cpu")).make(call_of(node_of(getattr(getattr(aten, packet), overload), *args)))


@pytest.mark.parametrize("backward", sorted(_FORWARDS))
def test_forward_ops_get_all_their_arguments(backward):
    forward = _FORWARDS[backward]
    library = aten if hasattr(aten, backward) else torch.ops.neap
    given = {argument.name for argument in getattr(library, backward).default._schema.arguments}
    schema = getattr(library, forward.name).default._schema
    for argument in schema.arguments:
        assert argument.name in given or argument.name in forward.extra or argument.has_default_value(), argument.name
    assert set(forward.outputs) <= given and max(forward.outputs.values()) < len(schema.returns)


def test_made_tensors_have_the_strides_asked_for():
    base = torch.empty(200)
    specs = [base[3:33].view(5, 6).t(), base[:6].expand(4, 6), torch.empty(2, 3, 4, 4).to(memory_format=torch.channels_last)]
    made, _ = Inputs(torch.device("cpu")).make(call_of(node_of(aten.cat.default, specs)))
    for tensor, wanted in zip(made[0], specs):
        assert tensor.shape == wanted.shape and tensor.stride() == wanted.stride()
        assert tensor.data_ptr() % 64 == (4 * wanted.storage_offset() + tensor.untyped_storage().data_ptr()) % 64
        assert bool(tensor.isfinite().all())


def test_signature_tells_strides_and_repeats_apart():
    graph = torch.fx.Graph()
    x, y, z = (graph.placeholder(name) for name in "xyz")
    x.meta["val"] = y.meta["val"] = torch.empty(2, 3)
    z.meta["val"] = torch.empty(3, 2).t()
    add = torch.ops.aten.add.Tensor
    same, other, strided, scaled = (
        graph.call_function(add, (x, x)),
        graph.call_function(add, (x, y)),
        graph.call_function(add, (x, z)),
        graph.call_function(add, (x, y), {"alpha": 2}),
    )
    texts = [signature(node) for node in (same, other, strided, scaled)]
    assert len(set(texts)) == 4
    assert signature(graph.call_function(add, (y, x))) == texts[1]


def test_rounding():
    assert [rounded(size, "cuda") for size in (0, 1, 512, 513)] == [0, 512, 512, 1024]
    assert [rounded(size, torch.device("cpu")) for size in (0, 1, 64, 65)] == [0, 64, 64, 128]


def test_reuse_follows_the_order_of_the_graph():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    first = graph.call_function(aten.relu.default, (x,))
    view = graph.call_function(aten.view.default, (first, [-1]))
    second = graph.call_function(aten.neg.default, (view,))
    third = graph.call_function(aten.add.Tensor, (second, x))
    for node in (x, first, second, third):
        node.meta["val"] = torch.empty(1000, 10)
    view.meta["val"] = second.meta["val"] = torch.empty(10_000)
    alias = {first: (None,), view: (0,), second: (None,), third: (None,)}
    tensor = 40_000
    shares = cached_shares(list(graph.nodes), alias, int(2.5 * tensor / USABLE))
    assert view not in shares
    assert shares[first] == 0 and shares[second] == 1
    assert shares[third] == pytest.approx(0.5)  # x was read four tensors ago
    assert all(share == 0 for share in cached_shares(list(graph.nodes), alias, 0).values())


def test_costs_between_cold_and_warm(graph, tmp_path):
    node = next(node for node in nodes_of(graph) if node.target is aten.relu.default)
    cost = OpCost(1.0, 0, True, (None,), cold=2.0)
    assert [_mixed(cost, share).seconds for share in (0.0, 0.25, 1.0)] == [2.0, 1.75, 1.0]
    assert _mixed(OpCost(1.0, 0, False, (None,)), 0.0).seconds == 1.0
    model = CostModel("cpu", cache_dir=str(tmp_path), reuse="cold")
    assert model.price([node])[node].seconds > 0
