"""What Inductor makes of an op: a view, a loop that fuses with its neighbours, or a kernel of its own."""

from __future__ import annotations

import operator
from enum import Enum

import torch
from torch import fx

aten = torch.ops.aten
prims = torch.ops.prims


class Kind(Enum):
    """How an op is run.

    VIEW         no kernel: another shape of the same storage
    POINTWISE    a loop over the elements, computed inside of its readers' loops where that is cheap
    REDUCTION    a loop with fewer results than elements; its readers cannot start before it has ended
    MEMORY       a kernel of its own that only moves memory: indexing, pooling, concatenation
    EXTERN       a kernel of a library: products, convolutions, attention, and all that Inductor does not generate
    WRITE        overwrites one of the graph's inputs
    """

    VIEW = "view"
    POINTWISE = "pointwise"
    REDUCTION = "reduction"
    MEMORY = "memory"
    EXTERN = "extern"
    WRITE = "write"


_VIEWS = {
    aten.view.default, aten.reshape.default, aten._unsafe_view.default, aten._reshape_alias.default,
    aten.permute.default, aten.t.default, aten.transpose.int, aten.expand.default, aten.unsqueeze.default,
    aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.slice.Tensor, aten.select.int, aten.alias.default,
    aten.detach.default, aten.as_strided.default, aten.split.Tensor, aten.split_with_sizes.default, aten.unbind.int,
    aten.diagonal.default, aten.unfold.default, aten.view.dtype, prims.broadcast_in_dim.default, aten.narrow.default,
    aten.lift_fresh.default, aten.movedim.int, aten.chunk.default,
}

_PRODUCTS = {
    aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default, aten.convolution.default,
    aten.convolution_backward.default, aten._scaled_mm.default, aten.dot.default, aten.mv.default, aten.addmv.default,
}

_GENERATORS = {"full", "scalar_tensor", "iota", "arange", "zeros", "ones", "empty", "full_like", "zeros_like", "ones_like",
               "new_zeros", "new_ones", "new_full", "inductor_lookup_seed", "inductor_random", "inductor_randint",
               "_to_copy", "copy"}


def kind_of(node: fx.Node) -> Kind:
    """The kind of a `call_function` node."""
    if node.target is operator.getitem:
        return kind_of(node.args[0])
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return Kind.EXTERN
    if target in _VIEWS:
        return Kind.VIEW
    if target._schema.is_mutable:
        return Kind.WRITE
    if target in _PRODUCTS or torch.Tag.nondeterministic_seeded in target.tags:
        return Kind.EXTERN
    if torch.Tag.pointwise in target.tags or target.overloadpacket.__name__ in _GENERATORS:
        return Kind.POINTWISE if _is_single(node) else Kind.EXTERN
    if _is_reduction(target):
        return Kind.REDUCTION
    return Kind.MEMORY if _is_lowered(target) else Kind.EXTERN


def is_view(node: fx.Node) -> bool:
    return node.op == "call_function" and kind_of(node) is Kind.VIEW


def picks_elements(node: fx.Node) -> bool:
    """Whether each result is one element of an input, found by an index."""
    return node.target in (aten.gather.default, aten.index.Tensor)


def _is_single(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


_REDUCTIONS = {"sum", "mean", "var", "var_mean", "std", "amax", "amin", "max", "min", "prod", "any", "all", "argmax",
               "argmin", "prepare_softmax_online", "aminmax"}


def _is_reduction(target: torch._ops.OpOverload) -> bool:
    if hasattr(torch.Tag, "reduction") and torch.Tag.reduction in target.tags:
        return not _is_fallback(target)
    return target.overloadpacket.__name__ in _REDUCTIONS


def _is_lowered(target: torch._ops.OpOverload) -> bool:
    from torch._inductor import lowering

    return target in lowering.lowerings and not _is_fallback(target)


def _is_fallback(target: torch._ops.OpOverload) -> bool:
    from torch._inductor import lowering

    return target in getattr(lowering, "fallbacks", ())
