"""The estimate of an op's time where it cannot be measured: the larger of its memory traffic and its
arithmetic, plus a launch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from .device import Speed
from .op_signature import inner_call, leaves, output_tensors, spec_of, value_of


def traffic(node: Node) -> int:
    """Bytes that a kernel for the node reads and writes when it touches every tensor once."""
    _, args, kwargs = inner_call(node)
    nodes = dict.fromkeys(leaves((args, kwargs), Node))
    tensors = [value for source in nodes for value in leaves(value_of(source), torch.Tensor)]
    tensors += [output for output in output_tensors(node) if output is not None]
    return sum(spec_of(tensor).touched_bytes for tensor in tensors)


def flops(node: Node) -> int:
    """Floating-point operations of matrix products, convolutions and attention; 0 for everything else."""
    from torch.utils.flop_counter import flop_registry

    target, args, kwargs = inner_call(node)
    formula = flop_registry.get(getattr(target, "overloadpacket", None)) or flop_registry.get(target)
    if formula is None:
        return 0

    def value(arg: Any) -> Any:
        if isinstance(arg, Node):
            return value_of(arg)
        if isinstance(arg, (list, tuple)):
            return [value(item) for item in arg]
        return arg

    try:
        named = {key: value(item) for key, item in kwargs.items()}
        return int(formula(*map(value, args), **named, out_val=node.meta.get("val")))
    except (AssertionError, AttributeError, IndexError, TypeError, ValueError):
        return 0  # a formula that does not know this overload's arguments


def estimate(node: Node, speed: Speed) -> float:
    """Seconds that the node takes on a device of the given speed."""
    arithmetic = flops(node)
    seconds = traffic(node) / speed.bandwidth
    if arithmetic:
        dtype = next((output.dtype for output in output_tensors(node) if output is not None), torch.float32)
        seconds = max(seconds, arithmetic / speed.flops(dtype))
    return speed.launch + seconds
