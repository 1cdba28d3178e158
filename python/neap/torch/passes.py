"""The two passes of a program as functions: op by op, or in segments that Inductor compiles."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import fx

from . import eager
from .program import Program


Pass = Callable[[list], tuple]


class Clock:
    """Adds up the seconds of named phases."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.last = time.perf_counter()

    def lap(self, what: str) -> None:
        now = time.perf_counter()
        self.seconds[what] = self.seconds.get(what, 0.0) + now - self.last
        self.last = now


def op_by_op(module: fx.GraphModule, name: str) -> Pass:
    return eager.compile_graph(module, name)


@dataclass
class Passes:
    """`entered` is called before every forward pass, `left` after every backward pass, `failed` if one raises."""

    program: Program
    kernels: str
    strict_on: torch.device | None  # the device whose allocations are replayed in an arena
    clock: Clock
    entered: Callable[[], None]
    left: Callable[[], None]
    failed: Callable[[BaseException], None]

    def compile(self) -> tuple[Pass, Pass]:
        """Forward and backward, both before the first step runs: compiling may take memory of its own."""
        self.clock.lap("between")
        with self._together():
            forward, backward = (self._one(module, name) for module, name in (
                (self.program.forward, "forward"), (self.program.backward, "backward")))
        self.clock.lap("compiling")
        if self.strict_on is not None:
            from .arena_step import StrictStep

            strict = StrictStep(self.strict_on, forward, backward, self.program.outputs)
            forward, backward = strict.forward, strict.backward
        entered, left, failed = self.entered, self.left, self.failed

        def run_forward(args: list) -> tuple:
            entered()
            try:
                return forward(args)
            except BaseException as error:
                failed(error)
                raise

        def run_backward(args: list) -> tuple:
            try:
                result = backward(args)
            except BaseException as error:
                failed(error)
                raise
            left()
            return result

        return _boxed(run_forward), _boxed(run_backward)

    def _together(self) -> contextlib.AbstractContextManager:
        """A block in which both passes are compiled."""
        if self.kernels == "eager":
            return contextlib.nullcontext()
        from . import inductor

        return inductor.deferred_kernels()

    def _one(self, module: fx.GraphModule, name: str) -> Pass:
        if self.kernels == "eager":
            return op_by_op(module, name)
        from . import inductor

        inputs = [node.meta.get("val") for node in module.graph.find_nodes(op="placeholder")]
        return inductor.compile_in_order(module, inputs)


def _boxed(function: Callable) -> Callable:
    function._boxed_call = True
    return function
