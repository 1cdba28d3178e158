"""Signatures of ops: two nodes of one signature cost the same on one device.

A signature names the operator and overload and describes every argument. Tensors are described by what a kernel
can see of them except their values: element type, shape, strides, alignment of the first element, and kind of
device.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

ALIGNMENT = 64  # bytes: no kernel asks for more when it picks a vectorized variant


@dataclass(frozen=True, eq=False)
class TensorSpec:
    """What a kernel can see of a tensor except its values. Compared by identity: one spec is one tensor of a
    call.
    """

    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int  # elements into the storage, modulo ALIGNMENT bytes
    device: str  # "cuda", "cpu"

    @property
    def numel(self) -> int:
        """Number of elements, an expanded dimension counted in full."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def span(self) -> int:
        """Elements of memory from the first to the last one that the tensor touches."""
        if 0 in self.shape:
            return 0
        return 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.stride))

    @property
    def touched_bytes(self) -> int:
        """Bytes that reading the whole tensor once moves: expanded dimensions count once."""
        return min(self.span, self.numel) * self.dtype.itemsize


@dataclass(frozen=True)
class Call:
    """One call of an operator, its tensors given by specs."""

    target: torch._ops.OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def tensors(self) -> list[TensorSpec]:
        """The tensor arguments in flattened order, positional ones first."""
        return list(leaves((self.args, self.kwargs), TensorSpec))

    def named(self) -> dict[str, Any]:
        """The arguments by their names in the operator's schema; omitted ones are left out."""
        names = [argument.name for argument in self.target._schema.arguments]
        return {**dict(zip(names, self.args)), **self.kwargs}


def concrete(value: Any) -> int | float | bool:
    """The number behind a possibly symbolic scalar."""
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        hint = getattr(value.node, "hint", None)
        if hint is None:
            raise ValueError(f"the size {value} is not known")
        return hint
    return value


def value_of(node: Node) -> Any:
    """What a node stands for: the value traced, or the constant that it reads from its module."""
    value = node.meta.get("val")
    if value is None and node.op == "get_attr" and node.graph.owning_module is not None:
        value = node.graph.owning_module
        for name in node.target.split("."):
            value = getattr(value, name, None)
    return value


def spec_of(tensor: torch.Tensor) -> TensorSpec:
    """The spec of a tensor, fake or real."""
    dtype = tensor.dtype
    if tensor.layout != torch.strided:
        where = f"{tensor.device.type}:{tensor.layout}"
        return TensorSpec(dtype, tuple(map(concrete, tensor.shape)), (), 0, where)
    period = max(1, ALIGNMENT // dtype.itemsize)
    return TensorSpec(
        dtype,
        tuple(map(concrete, tensor.shape)),
        tuple(map(concrete, tensor.stride())),
        concrete(tensor.storage_offset()) % period,
        tensor.device.type,
    )


def leaves(tree: Any, kind: type | tuple[type, ...]) -> Iterator[Any]:
    """Every leaf of the given kind in nested lists, tuples and dicts, in order."""
    if isinstance(tree, kind):
        yield tree
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            yield from leaves(item, kind)
    elif isinstance(tree, dict):
        for item in tree.values():
            yield from leaves(item, kind)


def tensor_nodes(tree: Any) -> list[Node]:
    """The nodes in nested arguments whose value is a tensor, in order."""
    return [node for node in leaves(tree, Node) if isinstance(value_of(node), torch.Tensor)]


def inner_call(node: Node) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The operator that a node runs and its arguments. A wrapper that only saves or sets the generator's state
    is looked through.
    """
    name = getattr(node.target, "__name__", "")
    if name == "run_and_save_rng_state" and node.args:
        return node.args[0], tuple(node.args[1:]), dict(node.kwargs)
    if name == "run_with_rng_state" and len(node.args) > 1:
        return node.args[1], tuple(node.args[2:]), dict(node.kwargs)
    return node.target, tuple(node.args), dict(node.kwargs)


def tensor_arguments(node: Node) -> list[Node]:
    """The nodes that a node reads a tensor from, in flattened order with repeats: what the indices in
    ``OpCost.alias`` refer to.
    """
    _, args, kwargs = inner_call(node)
    return [leaf for leaf in leaves((args, kwargs), Node) if isinstance(value_of(leaf), torch.Tensor)]


class Signer:
    """Makes signatures; remembers what it said about each node, so that a graph is described in linear time."""

    def __init__(self) -> None:
        self._said: dict[Node, str] = {}

    def signature(self, node: Node) -> str:
        """The signature of one node; see the module's head."""
        target, args, kwargs = inner_call(node)
        seen: dict[Node, int] = {}
        words = [self._word(arg, seen) for arg in args]
        words += [f"{key}={self._word(kwargs[key], seen)}" for key in sorted(kwargs)]
        return f"{_target_name(target)}({', '.join(words)})"

    def _word(self, arg: Any, seen: dict[Node, int]) -> str:
        if isinstance(arg, Node):
            if arg in seen:
                return f"={seen[arg]}"
            seen[arg] = len(seen)
            if arg not in self._said:
                self._said[arg] = self._value(value_of(arg))
            return self._said[arg]
        if isinstance(arg, (list, tuple)):
            return "[" + ", ".join(self._word(item, seen) for item in arg) + "]"
        if isinstance(arg, dict):
            return "{" + ", ".join(f"{key}: {self._word(item, seen)}" for key, item in arg.items()) + "}"
        return self._value(arg)

    def _value(self, value: Any) -> str:
        if isinstance(value, torch.Tensor):
            spec = spec_of(value)
            shape = ",".join(map(str, spec.shape))
            stride = ",".join(map(str, spec.stride))
            offset = f"+{spec.offset}" if spec.offset else ""
            return f"{str(spec.dtype).removeprefix('torch.')}[{shape}]({stride}){offset}@{spec.device}"
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return repr(concrete(value))
        if isinstance(value, torch.device):
            return value.type
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(map(self._value, value)) + "]"
        if isinstance(value, torch.nn.Module):
            return type(value).__name__
        return repr(value)


def _target_name(target: Any) -> str:
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    module = getattr(target, "__module__", "")
    return f"{module}.{getattr(target, '__name__', target)}"


def signature(node: Node) -> str:
    """The operator and overload of a node with a description of every argument.

    Nodes of one signature run the same kernels on tensors of the same shapes and strides, so one measurement
    serves them all.
    """
    return Signer().signature(node)


def call_of(node: Node) -> Call:
    """The call that a node makes, with a spec in place of every tensor."""
    return call_with(*inner_call(node))


def call_with(target: Any, args: Iterable[Any], kwargs: Mapping[str, Any]) -> Call:
    """A call with a spec in place of every tensor; one node read twice gives one spec twice."""
    specs: dict[Node, TensorSpec] = {}

    def convert(arg: Any) -> Any:
        if isinstance(arg, Node):
            value = value_of(arg)
            if not isinstance(value, torch.Tensor):
                return concrete(value)
            if arg not in specs:
                specs[arg] = spec_of(value)
            return specs[arg]
        if isinstance(arg, (list, tuple)):
            return type(arg)(map(convert, arg)) if type(arg) in (list, tuple) else list(map(convert, arg))
        if isinstance(arg, dict):
            return {key: convert(item) for key, item in arg.items()}
        return concrete(arg)

    return Call(target, tuple(map(convert, args)), {key: convert(value) for key, value in kwargs.items()})


def is_getitem(node: Node) -> bool:
    """Whether the node only picks one output of another node."""
    return node.target is operator.getitem


def flat(outputs: Any) -> list[Any]:
    """The results of an op in a list: those of a tuple, and of lists in it."""
    if not isinstance(outputs, (list, tuple)):
        return [outputs]
    found: list[Any] = []
    for output in outputs:
        found += output if isinstance(output, (list, tuple)) else [output]
    return found


def output_tensors(node: Node) -> list[torch.Tensor | None]:
    """The outputs of a node as the values traced, one entry each; None where an output is not a tensor."""
    return [one if isinstance(one, torch.Tensor) else None for one in flat(node.meta.get("val"))]
