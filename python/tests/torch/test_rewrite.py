"""The joint graph of exact mode is rewritten to cheaper ops without a change to any bit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from harness import assert_same_bits, Bits, forget, gradients, planned, reference
from torch import fx, nn

from neap.torch import batch_norm, rewrite

aten = torch.ops.aten


class Convolutions(nn.Module):
    """Convolutions with batch norm; `shared` applies one batch norm twice."""

    def __init__(self, depth: int = 6, width: int = 8, shared: bool = False) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.convs = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(depth))
        self.shared = shared

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for index, conv in enumerate(self.convs):
            x = torch.relu(self.norms[index // 2 if self.shared else index](conv(x)))
        return x.square().mean()


@pytest.fixture
def joint_graphs(monkeypatch) -> list[tuple[Counter, Counter]]:
    """The ops of every joint graph before and after it is rewritten."""
    found = []
    prepare = rewrite.prepare

    def watched(module: fx.GraphModule) -> fx.GraphModule:
        before = ops_of(module)
        module = prepare(module)
        found.append((before, ops_of(module)))
        return module

    monkeypatch.setattr(rewrite, "prepare", watched)
    return found


def ops_of(module: fx.GraphModule) -> Counter:
    return Counter(node.target for node in module.graph.nodes if node.op == "call_function")


@pytest.fixture
def everywhere(monkeypatch) -> None:
    """Batch norm is replaced on the CPU as well, where the ops that replace it run PyTorch's kernels."""
    monkeypatch.setattr(rewrite, "runs_in_cudnn", lambda *_: True)


def steps(compiled: Callable, module: nn.Module, inputs: list[torch.Tensor]) -> list[dict[str, Bits]]:
    """Loss, gradients and buffers of every step."""
    taken = []
    for x in inputs:
        module.zero_grad()
        loss = compiled(x)
        loss.backward()
        taken.append({name: Bits.of(t) for name, t in (gradients(module) | {"loss": loss}).items()})
    return taken


def compare(make: Callable[[], nn.Module], inputs: list[torch.Tensor], budget: str = "100%") -> None:
    """Trains on `inputs` without a plan and with one and compares the results to the bit."""
    results = []
    for compile_module in (reference, lambda module: planned(module, budget)):
        torch.manual_seed(0)
        module = make()
        results.append(steps(compile_module(module), module, inputs))
    for theirs, ours in zip(*results, strict=True):
        assert_same_bits(ours, theirs)
    forget()


def images(count: int = 2) -> list[torch.Tensor]:
    return [torch.randn(8, 3, 24, 24, generator=torch.Generator().manual_seed(i)) for i in range(count)]


@pytest.mark.parametrize("budget", ["100%", "55%"])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_batch_norm(everywhere, joint_graphs, layout, shared: bool, budget: str) -> None:
    inputs = [x.to(memory_format=layout) for x in images()]
    compare(lambda: Convolutions(shared=shared).to(memory_format=layout), inputs, budget)
    before, after = joint_graphs[0]
    assert before[aten._native_batch_norm_legit_functional.default] == 6
    assert after[batch_norm.batch_norm] == after[batch_norm.batch_norm_gradients] == 6
    assert not after[aten._native_batch_norm_legit_functional.default]
    assert not after[aten.native_batch_norm_backward.default]


def test_recomputed_batch_norm_has_no_statistics(everywhere, monkeypatch) -> None:
    """Under a budget that needs recomputation, batch norms run again by the op without statistics."""
    from neap.torch import passes

    programs = []
    monkeypatch.setattr(passes.Passes, "compile", lambda self, compile=passes.Passes.compile: (
        programs.append(self.program), compile(self))[1])
    compare(Convolutions, images(), "55%")
    ops = ops_of(programs[0].forward) + ops_of(programs[0].backward)
    assert ops[batch_norm.batch_norm] == 6
    assert ops[batch_norm.batch_norm_again] > 0


def test_batch_norm_stays_where_cudnn_does_not_run(joint_graphs) -> None:
    compare(Convolutions, images(1))
    before, after = joint_graphs[0]
    assert before[aten._native_batch_norm_legit_functional.default] == 6
    assert after[aten._native_batch_norm_legit_functional.default] == 6


def test_frozen_weights(everywhere, joint_graphs) -> None:
    def make() -> nn.Module:
        module = Convolutions()
        for norm in module.norms:
            norm.requires_grad_(False)
        return module

    compare(make, images(1))
    assert joint_graphs[0][1][batch_norm.batch_norm_gradients] == 6


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_batch_norm_can_be_measured(layout, cache) -> None:
    from torch._subclasses import FakeTensorMode

    from neap.torch.costs import CostModel

    graph = fx.Graph()
    with FakeTensorMode():
        source = torch.empty(4, 8, 6, 6).to(memory_format=layout)
        vector, reserve = torch.empty(8), torch.empty(0, dtype=torch.uint8)
    values = {"g": source, "x": source, "w": vector, "m": vector, "v": vector, "r": reserve}
    nodes = []
    for name, value in values.items():
        nodes.append(graph.placeholder(name))
        nodes[-1].meta["val"] = value
    g, x, w, m, v, r = nodes
    node = graph.call_function(batch_norm.batch_norm_gradients, (g, x, w, m, v, r, 1e-5))
    node.meta["val"] = (source, vector, vector)
    cost = CostModel("cpu").price([node])[node]
    assert cost.measured and cost.seconds > 0
    assert len(cost.storage) == 3
