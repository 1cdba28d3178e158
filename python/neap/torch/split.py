"""Convolutions run in parts along the batch: slower, but with a fraction of the workspace.

A convolution's kernels may ask for scratch memory many times the size of their tensors, most of it proportional
to the batch. Where that sets the peak of a step, the same convolution over slices of the batch is a variant
that a plan may choose. Results differ from the whole op's in their last bits: the gradients of weight and bias
are sums over the slices, added in another order, and a library may choose another kernel for a smaller batch.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, NamedTuple, Sequence

import torch
from torch.fx import Node

from .costs import CostModel, OpCost
from .op_signature import call_of, output_tensors, spec_of

aten = torch.ops.aten

LEAST_WORKSPACE = 64 << 20  # bytes; a smaller workspace is not worth splitting for
LEAST_SHARE = 0.25  # of the op's own tensors; the same


class SplitVariant(NamedTuple):
    """A convolution in ``parts`` slices of the batch. Its workspace includes the slice that is being computed."""

    parts: int
    seconds: float
    workspace: int


def can_split(target: Any) -> bool:
    """Whether ``run_split`` knows the operator."""
    return target in (aten.convolution.default, aten.convolution_backward.default)


def run_split(target: Callable[..., Any], args: Sequence[Any], parts: int) -> Any:
    """Runs aten.convolution or aten.convolution_backward over ``parts`` slices of the batch; same outputs as
    ``target(*args)``.
    """
    if target is aten.convolution.default:
        return _forward(args, parts)
    if target is aten.convolution_backward.default:
        return _backward(args, parts)
    raise ValueError(f"{target} cannot be split; aten.convolution and aten.convolution_backward can")


def conv_split_variants(
    node: Node, model: CostModel, cost: OpCost | None = None, least: int = LEAST_WORKSPACE,
    share: float = LEAST_SHARE,
) -> list[SplitVariant]:
    """The ways to run a convolution in 2, 4, 8, ... parts that need less workspace than any faster one,
    measured.

    Empty where the node is not a convolution, where its cost is estimated, or where its workspace is below
    ``least`` bytes or below ``share`` of the bytes of its own tensors.
    """
    if not can_split(node.target):
        return []
    cost = cost or model.price([node])[node]
    specs = call_of(node).tensors()
    own = sum(spec.touched_bytes for spec in specs)
    own += sum(spec_of(output).touched_bytes for output in output_tensors(node) if output is not None)
    if not cost.measured or cost.workspace < max(least, share * own):
        return []
    found: list[SplitVariant] = []
    parts, smallest = 2, cost.workspace
    while parts <= specs[0].shape[0]:
        variant = model.price_variant(node, f"in {parts} parts", functools.partial(_run, parts))
        if variant is None or variant.workspace > 0.95 * smallest:
            break  # what is left does not shrink with the batch
        found.append(SplitVariant(parts, variant.seconds, variant.workspace))
        smallest = variant.workspace
        if smallest < least:
            break
        parts *= 2
    return _undominated(found)


def _run(parts: int, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return run_split(target, args, parts)


def _undominated(found: list[SplitVariant]) -> list[SplitVariant]:
    """Without variants that another one beats in both time and workspace. ``found`` is in order of falling
    workspace.
    """
    kept: list[SplitVariant] = []
    for variant in found:
        while kept and kept[-1].seconds >= variant.seconds:
            kept.pop()
        kept.append(variant)
    return kept


def _slices(batch: int, parts: int) -> list[tuple[int, int]]:
    parts = max(1, min(parts, batch))
    return [(batch * i // parts, batch * (i + 1) // parts) for i in range(parts)]


def _whole(part: torch.Tensor, batch: int) -> torch.Tensor:
    """An empty tensor for the whole batch, laid out in memory as the part is."""
    sample = part.numel() // max(part.shape[0], 1)
    if part.shape[0] > 1 and part.stride(0) != sample:  # not sample after sample
        from torch._prims_common import suggest_memory_format

        layout = suggest_memory_format(part)
        return torch.empty((batch, *part.shape[1:]), dtype=part.dtype, device=part.device, memory_format=layout)
    strides = (sample, *part.stride()[1:])
    return torch.empty_strided((batch, *part.shape[1:]), strides, dtype=part.dtype, device=part.device)


def _forward(args: Sequence[Any], parts: int) -> torch.Tensor:
    batch = args[0].shape[0]
    output: torch.Tensor | None = None
    for begin, end in _slices(batch, parts):
        part = aten.convolution.default(args[0][begin:end], *args[1:])
        if output is None:
            output = _whole(part, batch)
        output[begin:end].copy_(part)
        del part  # before the next one is computed
    assert output is not None
    return output


def _backward(args: Sequence[Any], parts: int) -> tuple[torch.Tensor | None, ...]:
    gradient, data, weight = args[:3]
    batch = data.shape[0]
    grad_input: torch.Tensor | None = None
    sums: list[torch.Tensor | None] = [None, None]  # of weight and bias
    for begin, end in _slices(batch, parts):
        outputs = aten.convolution_backward.default(gradient[begin:end], data[begin:end], *args[2:])
        part, terms = outputs[0], list(outputs[1:])
        del outputs
        if part is not None:
            if grad_input is None:
                grad_input = _whole(part, batch)
            grad_input[begin:end].copy_(part)
        del part
        for i, term in enumerate(terms):
            sums[i] = _added(sums[i], term)
        del terms
    return grad_input, *(total if total is None else total.to(weight.dtype) for total in sums)


def _added(total: torch.Tensor | None, term: torch.Tensor | None) -> torch.Tensor | None:
    """total + term in place; sums of half-precision terms are kept in single precision."""
    if term is None:
        return total
    if total is None:
        return term.float() if term.dtype in (torch.bfloat16, torch.float16) else term
    return total.add_(term)
