"""Convolutions in parts along the batch give what the whole convolution gives."""

from __future__ import annotations

import dataclasses

import pytest

torch = pytest.importorskip("torch")

from neap.torch.costs import CostModel, OpCost  # noqa: E402
from neap.torch.split import conv_split_variants, run_split  # noqa: E402

aten = torch.ops.aten

CASES = {
    "plain": dict(),
    "strided": dict(stride=[2, 1], padding=[1, 0]),
    "grouped": dict(groups=2),
    "dilated": dict(dilation=[2, 2]),
    "transposed": dict(transposed=True, stride=[2, 2], output_padding=[1, 1]),
    "channels_last": dict(memory_format=torch.channels_last),
    "channels_last strided groups": dict(memory_format=torch.channels_last, stride=[1, 2], groups=2),
    "channels_last transposed": dict(memory_format=torch.channels_last, transposed=True, groups=2),
    "one pixel": dict(memory_format=torch.channels_last, padding=[0, 0], stride=[8, 8]),
    "depthwise": dict(groups=4, outputs=4),
    "dilated transposed groups": dict(transposed=True, dilation=[2, 1], groups=2, stride=[2, 3], output_padding=[0, 1]),
}


def arguments(
    stride=(1, 1),
    padding=(1, 1),
    dilation=(1, 1),
    transposed=False,
    output_padding=(0, 0),
    groups=1,
    outputs=6,
    memory_format=torch.contiguous_format,
    dtype=torch.float64,
) -> tuple:
    generator = torch.Generator().manual_seed(3)
    data = torch.randn(5, 4, 9, 8, generator=generator, dtype=dtype).to(memory_format=memory_format)
    channels = (4, outputs // groups) if transposed else (outputs, 4 // groups)
    weight = torch.randn(*channels, 3, 3, generator=generator, dtype=dtype)
    bias = torch.randn(outputs, generator=generator, dtype=dtype)
    return data, weight, bias, list(stride), list(padding), list(dilation), transposed, list(output_padding), groups


@pytest.mark.parametrize("parts", [1, 2, 3, 8])
@pytest.mark.parametrize("case", CASES)
def test_forward(case, parts):
    args = arguments(**CASES[case])
    whole, split = aten.convolution.default(*args), run_split(aten.convolution.default, args, parts)
    torch.testing.assert_close(split, whole, rtol=1e-12, atol=1e-12)
    assert split.stride() == whole.stride()


@pytest.mark.parametrize("parts", [2, 3, 8])
@pytest.mark.parametrize("mask", [[True, True, True], [False, True, False], [True, False, False]])
@pytest.mark.parametrize("case", CASES)
def test_backward(case, mask, parts):
    data, weight, bias, *options = arguments(**CASES[case])
    gradient = torch.randn_like(aten.convolution.default(data, weight, bias, *options))
    args = (gradient, data, weight, list(bias.shape), *options, mask)
    whole, split = aten.convolution_backward.default(*args), run_split(aten.convolution_backward.default, args, parts)
    for expected, got, asked in zip(whole, split, mask):
        if not asked:
            assert got is None
            continue
        torch.testing.assert_close(got, expected, rtol=1e-11, atol=1e-11)
        assert got.dtype == expected.dtype and got.stride() == expected.stride()


@pytest.mark.parametrize("dims", [1, 3])
def test_other_dimensions(dims):
    data, weight = torch.randn(5, 4, *[6] * dims), torch.randn(4, 2, *[3] * dims)
    options = ([2] * dims, [1] * dims, [1] * dims, False, [0] * dims, 2)
    whole = aten.convolution.default(data, weight, None, *options)
    torch.testing.assert_close(run_split(aten.convolution.default, (data, weight, None, *options), 3), whole)
    args = (torch.randn_like(whole), data, weight, None, *options, [True, True, False])
    for expected, got in zip(aten.convolution_backward.default(*args), run_split(aten.convolution_backward.default, args, 3)):
        assert (expected is None) == (got is None)
        if got is not None:
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def test_a_batch_that_is_no_slice_of_memory():
    """The images of a batch may all be one, or lie apart from each other."""
    data, *others = arguments()
    for images in (data[:1].expand(5, -1, -1, -1), data.repeat(2, 1, 1, 1)[::2], data.transpose(2, 3)):
        args = (images, *others)
        whole, split = aten.convolution.default(*args), run_split(aten.convolution.default, args, 2)
        torch.testing.assert_close(split, whole, rtol=1e-12, atol=1e-12)
        assert split.stride() == whole.stride()


def test_half_precision_sums_in_single():
    data, weight, bias, *options = arguments(dtype=torch.float32)
    gradient = torch.randn(64, 6, 9, 8)
    data = torch.randn(64, 4, 9, 8)
    exact = aten.convolution_backward.default(gradient, data, weight, [6], *options, [False, True, True])
    args = (gradient.bfloat16(), data.bfloat16(), weight.bfloat16(), [6], *options, [False, True, True])
    got = run_split(aten.convolution_backward.default, args, 16)
    assert got[1].dtype == torch.bfloat16
    assert (got[1].float() - exact[1]).norm() < 0.01 * exact[1].norm()


def test_other_ops_are_refused():
    with pytest.raises(ValueError, match="cannot be split"):
        run_split(aten.relu.default, (torch.ones(2),), 2)


class Images(torch.nn.Module):
    """Strided, grouped, dilated and transposed convolutions, with and without bias."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3, stride=2, groups=4, bias=False),
            torch.nn.BatchNorm2d(8), torch.nn.Conv2d(8, 12, 3, dilation=2), torch.nn.GELU(),
            torch.nn.ConvTranspose2d(12, 6, 2, stride=2), torch.nn.Conv2d(6, 2, 1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images).square().mean()


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("kernels", ["eager", "inductor"])
def test_a_budget_that_needs_parts(kernels, layout, monkeypatch, cache):
    """Convolutions with a workspace that no budget of the step has room for run in parts, and train the same."""
    import neap.torch

    need_parts(monkeypatch)
    torch.manual_seed(0)
    model, images = Images().to(memory_format=layout), torch.randn(7, 3, 20, 18).to(memory_format=layout)
    backend = neap.torch.backend(budget="50%", kernels=kernels, time_limit=2)
    results = []
    for compiled in (model, torch.compile(model, backend=backend)):
        model.zero_grad(set_to_none=True)
        model.layers[3].reset_running_stats()
        loss = compiled(images)
        loss.backward()
        results.append([loss.detach(), *(p.grad for p in model.parameters()), *(b.clone() for b in model.buffers())])
    assert parts_of(backend) >= 10, "five convolutions, forward and backward"
    for expected, got in zip(*results):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def need_parts(monkeypatch):
    """Gives every convolution a workspace that it does not have in parts."""
    from neap.torch import step
    from neap.torch.joint import JointGraph
    from neap.torch.split import SplitVariant, can_split

    set_costs = JointGraph.set_costs

    def set_large_costs(self, cost):
        def large(unit):
            split = any(can_split(node.target) for node in unit.nodes)
            return dataclasses.replace(cost(unit), workspace=64 << 20) if split else cost(unit)

        set_costs(self, large)

    monkeypatch.setattr(JointGraph, "set_costs", set_large_costs)
    monkeypatch.setattr(step, "conv_split_variants", lambda node, model: [SplitVariant(3, 1.0, 1 << 20)])


def parts_of(backend) -> int:
    return sum(kind == "compute" and variant > 0 for kind, _, variant in backend.reports[-1].plan.steps)


@pytest.mark.usefixtures("arena_extension")
@pytest.mark.parametrize("kernels", ["eager", "inductor"])
def test_what_parts_allocate_is_foreseen(kernels, monkeypatch, cache):
    """strict=True: the forecast of a step with convolutions in parts equals what is recorded of it."""
    import neap.torch
    from neap.torch import arena, arena_step

    need_parts(monkeypatch)
    session = arena_step.Session(arena.Arena("cpu"))
    monkeypatch.setitem(arena_step._sessions, torch.device("cpu"), session)
    model, images = Images(), torch.randn(7, 3, 20, 18)
    backend = neap.torch.backend(budget="60%", kernels=kernels, time_limit=2, strict=True)
    run = torch.compile(model, backend=backend)
    for _ in range(3):
        model.zero_grad(set_to_none=True)
        run(images).backward()
    assert parts_of(backend) >= 10
    expected, (recorded,) = list(session._expected.values())[-1], session._known.values()
    assert expected.layout.peak == recorded.layout.peak


def convolution_node() -> torch.fx.Node:
    args = arguments()
    graph = torch.fx.Graph()
    nodes = [graph.placeholder(name) for name in ("data", "weight", "bias")]
    for node, value in zip(nodes, args):
        node.meta["val"] = value
    node = graph.call_function(aten.convolution.default, (*nodes, *args[3:]))
    node.meta["val"] = aten.convolution.default(*args)
    return node


def test_variants_are_measured_and_undominated(tmp_path, monkeypatch):
    node = convolution_node()
    model = CostModel("cpu", cache_dir=str(tmp_path))
    cost = dataclasses.replace(model.price([node])[node], workspace=1 << 30)
    figures = {2: (3.0, 400 << 20), 4: (2.0, 200 << 20)}
    priced = model.price_variant

    def price_variant(node, name, how):
        found = priced(node, name, how)
        assert isinstance(found, OpCost) and found.measured and found.seconds > 0
        seconds, workspace = figures[int(name.split()[1])]
        return dataclasses.replace(found, seconds=seconds, workspace=workspace)

    monkeypatch.setattr(model, "price_variant", price_variant)
    assert conv_split_variants(node, model, cost) == [(4, 2.0, 200 << 20)]


def test_small_workspaces_are_left_alone(tmp_path):
    node = convolution_node()
    model = CostModel("cpu", cache_dir=str(tmp_path))
    assert conv_split_variants(node, model) == []
