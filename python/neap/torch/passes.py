"""The two passes of a program as functions: op by op, or in segments that Inductor compiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import fx

from . import eager
from .budget import Clock
from .program import Program


def op_by_op(module: fx.GraphModule, name: str) -> Callable[[list], tuple]:
    return eager.compile_graph(module, name)


@dataclass
class Passes:
    """`entered` is called before every forward pass, `left` after every backward pass."""

    program: Program
    kernels: str
    clock: Clock
    entered: Callable[[], None]
    left: Callable[[], None]

    def forward(self) -> Callable[[list], tuple]:
        run, entered = self._compile(self.program.forward, "forward"), self.entered

        def forward(args: list) -> tuple:
            entered()
            return run(args)

        return _boxed(forward)

    def backward(self) -> Callable[[list], tuple]:
        run, left = self._compile(self.program.backward, "backward"), self.left

        def backward(args: list) -> tuple:
            result = run(args)
            left()
            return result

        return _boxed(backward)

    def _compile(self, module: fx.GraphModule, name: str) -> Callable[[list], tuple]:
        if self.kernels == "eager":
            return op_by_op(module, name)
        from . import inductor

        self.clock.lap("between")
        inputs = [node.meta.get("val") for node in module.graph.find_nodes(op="placeholder")]
        run = inductor.compile_in_order(module, inputs)
        self.clock.lap("compiling")
        return run


def _boxed(function: Callable) -> Callable:
    function._boxed_call = True
    return function
