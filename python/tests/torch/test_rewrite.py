"""The joint graph of exact mode is rewritten to cheaper ops without a change to any bit."""

from __future__ import annotations

import copy
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
    assert after[batch_norm.count] == (0 if shared else 1)


def test_buffers_are_copied_together(monkeypatch) -> None:
    """All statistics at once, all counters at once, and nothing is left to copy for AOTAutograd."""
    copies: list[int] = []
    together = torch._foreach_copy_
    monkeypatch.setattr(torch, "_foreach_copy_", lambda to, values: (copies.append(len(to)), together(to, values)))
    module = Convolutions()
    addresses = [b.data_ptr() for b in module.buffers()]
    compare_with = copy.deepcopy(module)
    run = planned(module, "100%")
    for x in images():
        run(x).backward()
        compare_with(x).backward()
    assert copies == [6, 12, 6, 12]
    assert [b.data_ptr() for b in module.buffers()] == addresses
    for mine, theirs in zip(module.buffers(), compare_with.buffers(), strict=True):
        assert torch.equal(mine, theirs)
    forget()


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


class Layers(nn.Module):
    """Layers of which each masks its scores, detaches a part, copies its product, and has dropout that never drops."""

    def __init__(self, depth: int = 4, width: int = 16) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            mask = torch.full(x.shape[-2:], -1e9).triu(1)
            x = torch.nn.functional.dropout(layer(x).clone(), 0.0)
            x = x + torch.softmax(x @ x.mT + mask, -1) @ x + x.detach().expand(x.shape).mean()
        return x.square().mean()


@pytest.mark.parametrize("budget", ["100%", "70%"])
def test_copies_identities_and_repeats(joint_graphs, budget: str) -> None:
    compare(Layers, [torch.randn(64, 16, 16, generator=torch.Generator().manual_seed(0))], budget)
    before, after = joint_graphs[0]
    assert before[aten.clone.default] >= 4 and after[aten.clone.default] <= before[aten.clone.default] - 4
    assert before[aten.triu.default] == 4 and after[aten.triu.default] == 1
    assert before[aten.detach.default] >= 4 and after[aten.detach.default] == 0
    assert after[aten.expand.default] < before[aten.expand.default]


class Running(nn.Module):
    """Reads a copy of a buffer after it has overwritten the buffer, and returns copies."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))
        self.register_buffer("total", torch.zeros(8))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        before = self.total.clone()
        self.total.add_(x.detach().mean(0))
        y = x * self.weight * before
        return y.square().sum(), y.clone(), y.clone(), before


def test_copies_that_matter_stay() -> None:
    """Results do not share memory, and the old contents of a buffer are read."""
    results = []
    for compile_module in (reference, lambda module: planned(module, "100%")):
        torch.manual_seed(0)
        module = Running()
        run = compile_module(module)
        taken = {}
        for step in range(2):
            loss, one, other, before = run(torch.randn(4, 8, generator=torch.Generator().manual_seed(step)))
            assert len({t.untyped_storage().data_ptr() for t in (one, other, before, module.total)}) == 4
            loss.backward()
            named = {"loss": loss, "one": one, "before": before, "weight": module.weight.grad, "total": module.total}
            taken |= {f"{name} {step}": Bits.of(t) for name, t in named.items()}
        results.append(taken)
    assert_same_bits(*results)


def test_random_ops_are_not_merged(joint_graphs) -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(16, 16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.layer(x)
            first, second = (torch.nn.functional.dropout(y, 0.5) for _ in range(2))
            return (first * second).sum() + (torch.rand(16) * torch.rand(16) * y).sum()

    compare(Twice, [torch.randn(8, 16)])
    before, after = joint_graphs[0]
    for op in (aten.native_dropout.default, aten.rand.default):
        assert before[op] == after[op] == 2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("budget", ["100%", "55%"])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_batch_norm_on_a_gpu_is_the_one_without_a_compiler(joint_graphs, layout, budget: str) -> None:
    """Loss, gradients and running statistics are those of the module that is not compiled, to the bit."""
    inputs = [torch.randn(32, 3, 64, 64, generator=torch.Generator().manual_seed(i)).cuda().to(memory_format=layout)
              for i in range(2)]
    results = []
    with torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
        for compile_module in (lambda module: module, lambda module: planned(module, budget, split=False)):
            torch.manual_seed(0)
            module = Convolutions(width=32).cuda().to(memory_format=layout)
            run, taken = compile_module(module), {}
            for step, x in enumerate(inputs):
                module.zero_grad()
                loss = run(x)
                loss.backward()
                named = gradients(module) | {"loss": loss}
                taken |= {f"{name} {step}": Bits.of(t.cpu()) for name, t in named.items()}
            results.append(taken)
    assert joint_graphs[0][1][batch_norm.batch_norm] == 6
    assert_same_bits(*results)
