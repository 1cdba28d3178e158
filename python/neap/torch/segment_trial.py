"""Segments that run alone, on made-up inputs, before the first step.

Inductor tunes a kernel when it first runs, with buffers of its own besides the kernel's. In the first step that would come
on top of the plan's peak; before it, a segment's tensors are all there is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import torch
from torch import fx

from .compile_segment import SegmentCode
from .measure import isolated
from .op_inputs import Inputs, Unsafe, has_forward, refuse_unsafe
from .op_kinds import is_view
from .op_signature import call_of, is_getitem, leaves, tensor_nodes, value_of

__all__ = ["FAILURES", "inputs_of", "refuse_unsafe_segment", "tune"]

log = logging.getLogger("neap")

FAILURES = (RuntimeError, TypeError, ValueError, NotImplementedError, IndexError, AssertionError)
_SEEDED = ("inductor_random", "inductor_randint", "inductor_lookup_seed")  # they read integers that index nothing


def tune(codes: Iterable[SegmentCode | None], device: torch.device) -> int:
    """Runs each segment once, equal ones once in all; returns how many ran. What cannot run alone is tuned in the step."""
    ran = 0
    for code in {id(code.call): code for code in codes if code is not None}.values():
        try:
            refuse_unsafe_segment(code)
            with isolated(device):
                code.call(inputs_of(code, device))
            ran += 1
        except (Unsafe, *FAILURES) as error:  # out of memory, too
            log.debug("neap: a segment does not run alone: %s", str(error).partition("\n")[0])
    return ran


def inputs_of(code: SegmentCode, device: torch.device) -> list[Any]:
    """Made-up inputs for a segment. Seeds and indices that only a forward op can write come from a run of it: the graph
    does not say what they are on the real device, and a backward op trusts them.
    """
    made = [_tensor(layout) for layout in code.layouts]
    place = {node: i for i, node in enumerate(code.inputs)}
    for node in filter(lambda one: has_forward(one.target), code.nodes):
        values = leaves(Inputs(device).make(call_of(node)), torch.Tensor)
        for source, value in zip(tensor_nodes((node.args, node.kwargs)), values):
            if source in place and not value.is_floating_point():
                made[place[source]] = value
    return made


def _tensor(layout: Any) -> Any:
    if not isinstance(layout, tuple):
        return layout
    sizes, strides, dtype, device = layout
    tensor = torch.empty_strided(sizes, strides, dtype=dtype, device=device)
    if dtype.is_floating_point and dtype.itemsize > 1:
        return tensor.uniform_(0, 1)
    return tensor.zero_()  # in range wherever it is an index


def refuse_unsafe_segment(code: SegmentCode) -> None:
    """Raises Unsafe if an op must not run on made-up tensors, or might index with a number computed from them."""
    inside = set(code.nodes)
    for node in code.nodes:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            if is_getitem(node):
                continue
            raise Unsafe(f"{node.target} is not a plain operator")
        refuse_unsafe(call_of(node))
        if torch.Tag.pointwise in node.target.tags or is_view(node) or node.target._opname in _SEEDED:
            continue
        for source in node.all_input_nodes:
            if _is_integer(value_of(source)) and _is_computed(source, inside):
                raise Unsafe(f"{node.target} reads integers that are computed")


def _is_integer(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype != torch.bool and not (
        value.is_floating_point() or value.is_complex())


def _is_computed(node: fx.Node, inside: set[fx.Node]) -> bool:
    """Whether a value depends on inputs of its segment by other ways than views."""
    while is_view(node) and node.op == "call_function":
        node = node.args[0]
    if node not in inside:
        return False
    stack, seen = [node], set()
    while stack:
        one = stack.pop()
        if one in seen:
            continue
        seen.add(one)
        if one not in inside and not (one.op == "call_function" and is_view(one)):
            return True
        stack += one.all_input_nodes
    return False
