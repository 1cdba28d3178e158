"""Python floats among a graph's inputs, such as the weight of a loss.

Dynamo passes a float that may change (all of them with dynamic=True) as a tensor of one element and lets the graph ask
for its value. Where the value only enters arithmetic, the tensor takes its place: one compiled graph serves all values.
Elsewhere (the epsilon of a norm) the graph is compiled for each value, as for each size. PyTorch decides in the same
way which is which, so that both compute the same.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv


class Numbers:
    """The floats of one graph. `fixed` are the inputs whose value the graph is compiled for."""

    def __init__(self, module: fx.GraphModule) -> None:
        inputs = enumerate(module.graph.find_nodes(op="placeholder"))
        self.positions = [i for i, node in inputs if _is_number(node)]
        self.fixed: set[int] = set()

    @property
    def changing(self) -> bool:
        """Whether a graph serves several values."""
        return not self.fixed.issuperset(self.positions)

    def values(self, args: Sequence[Any]) -> tuple:
        """What distinguishes one compiled graph from another: the values of fixed floats, infinite ones and NaN."""
        found = ((i, args[i].item()) for i in self.positions)
        return tuple(repr(value) if i in self.fixed or not math.isfinite(value) else None for i, value in found)

    def specialized(self, module: fx.GraphModule, args: Sequence[Any]) -> fx.GraphModule:
        """The module with the fixed floats, and those that no arithmetic can be traced for, written into it."""
        constants = {i: args[i].item() for i in self.positions}
        constants = {i: value for i, value in constants.items() if i in self.fixed or not math.isfinite(value)}
        if not constants:
            return module
        module = copy.copy(module)
        module.graph = copy.deepcopy(module.graph)  # the copy keeps parameters and buffers
        placeholders = module.graph.find_nodes(op="placeholder")
        for i, value in constants.items():
            for user in list(placeholders[i].users):
                user.replace_all_uses_with(value)
                module.graph.erase_node(user)
        module.recompile()
        return module


def _is_number(node: fx.Node) -> bool:
    example = node.meta.get("example_value", node.meta.get("val"))
    return (isinstance(example, torch.Tensor) and example.ndim == 0 and example.dtype == torch.float64
            and example.device.type == "cpu" and not example.requires_grad and len(node.users) > 0
            and all(user.op == "call_method" and user.target == "item" for user in node.users))


class Fixed(Exception):
    """Ends a capture: these inputs have to be fixed."""

    def __init__(self, positions: Collection[int]) -> None:
        super().__init__(f"fixed: {sorted(positions)}")
        self.positions = set(positions)


class Tracing:
    """A capture in which floats are symbols."""

    def __init__(self, numbers: Numbers, args: Sequence[Any]) -> None:
        self.mode = FakeTensorMode()
        self.shapes = ShapeEnv()
        self.args = list(args)
        self.symbols: dict[str, int] = {}
        for i in numbers.positions:
            value = args[i].item()
            if i not in numbers.fixed and math.isfinite(value):
                self.args[i] = self._symbolic(args[i], value, i)

    def _symbolic(self, tensor: torch.Tensor, value: float, position: int) -> torch.Tensor:
        from torch._dynamo.source import ConstantSource

        source = ConstantSource(f"number_{position}")
        symbol = self.shapes.create_unspecified_symbol(value, source=source, dynamic_dim=DimDynamic.DYNAMIC)
        self.symbols[str(symbol)] = position
        fake = self.mode.from_tensor(tensor, static_shapes=True)
        fake.item_memo = self.shapes.create_symfloatnode(symbol, hint=value, source=source)
        return fake

    def replace_numbers(self, joint: fx.GraphModule) -> None:
        """Puts the tensors in place of the floats in a captured graph. Raises Fixed if some have to be numbers."""
        if not self.symbols:
            return
        from torch._dynamo.exc import TensorifyScalarRestartAnalysis
        from torch._dynamo.symbolic_convert import TensorifyState
        from torch.fx.passes._tensorify_python_scalars import tensorify_python_scalars

        TensorifyState.clear()
        try:
            tensorify_python_scalars(joint, self.shapes, self.mode)
        except TensorifyScalarRestartAnalysis:
            pass
        used = set(TensorifyState.force_specializations)
        TensorifyState.clear()
        used.update(str(symbol) for guard in self.shapes.guards for symbol in guard.expr.free_symbols)
        fixed = [self.symbols[name] for name in used if name in self.symbols]
        if fixed:
            raise Fixed(fixed)
        joint.recompile()
