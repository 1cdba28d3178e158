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
}


def arguments(
    stride=(1, 1),
    padding=(1, 1),
    dilation=(1, 1),
    transposed=False,
    output_padding=(0, 0),
    groups=1,
    memory_format=torch.contiguous_format,
    dtype=torch.float64,
) -> tuple:
    generator = torch.Generator().manual_seed(3)
    data = torch.randn(5, 4, 9, 8, generator=generator, dtype=dtype).to(memory_format=memory_format)
    weight = torch.randn(4 if transposed else 6, (6 if transposed else 4) // groups, 3, 3, generator=generator, dtype=dtype)
    bias = torch.randn(6, generator=generator, dtype=dtype)
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
