"""The two passes of a program as functions: op by op, or in segments that Inductor compiles."""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from . import eager
from .program import Program
from .trim import trimmed


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


def write_buffers(results: tuple, buffers: list[torch.Tensor], updates: list[tuple[int, int]]) -> tuple:
    """Copies the new values of buffers into them, and returns the buffers in place of the values.

    AOTAutograd would copy them one by one. It copies nothing where it gets the buffer itself.
    """
    if not updates:
        return results
    changed = list(results)
    groups: dict[tuple, tuple[list, list]] = {}
    for buffer, (_, position) in zip(buffers, updates):
        value = changed[position]
        mine, new = groups.setdefault((buffer.device, buffer.dtype), ([], []))
        mine.append(buffer)
        new.append(value)
        changed[position] = buffer
    with torch.no_grad():
        for mine, new in groups.values():
            torch._foreach_copy_(mine, new)
    return tuple(changed)


def op_by_op(module: fx.GraphModule, name: str) -> Pass:
    return eager.compile_graph(module, name)


@dataclass
class Strictly:
    """strict=True: all allocations of the passes on a device are replayed in an arena."""

    device: torch.device
    room: Any  # arena_room.Room; None: there is no budget
    measure: bool  # find out what ops allocate by running them
    over: int = 0  # set by Passes.compile: bytes by which the arena will be larger than its room
    forget: Callable[[], None] = lambda: None  # set by Passes.compile: the passes will not run any more


@dataclass
class Passes:
    """`entered` is called before every forward pass, `returns` before and `left` after every backward pass, `failed` if
    one raises. What `entered` returns is called once what the forward pass saved is gone."""

    program: Program
    device: torch.device
    kernels: str
    strict_on: Strictly | None
    clock: Clock
    entered: Callable[[], Callable[[], None]]
    returns: Callable[[], None]
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
            forward, backward = self._strictly(self.strict_on, forward, backward)
        elif self.kernels == "inductor" and self.device.type == "cuda":  # Inductor tunes nothing on the CPU
            from .segment_trial import tune

            tune([*forward.codes, *backward.codes], self.device)
            self.clock.lap("tuning")
        entered, returns, left, failed = self.entered, self.returns, self.left, self.failed
        saved = self._own_saved()

        updates = self.program.updates

        def run_forward(args: list) -> tuple:
            given_up = entered()
            buffers = [args[position] for position, _ in updates]
            try:
                results = write_buffers(forward(args), buffers, updates)
            except BaseException as error:
                failed(error)
                raise
            if saved is not None:  # PyTorch keeps a storage's Python object as long as its memory
                weakref.finalize(results[saved].untyped_storage(), given_up).atexit = False
            return results

        def run_backward(args: list) -> tuple:
            returns()
            try:
                result = backward(args)
            except BaseException as error:
                failed(error)
                raise
            left()
            return result

        return _boxed(run_forward), _boxed(run_backward)

    def _strictly(self, how: Strictly, forward: Pass, backward: Pass) -> tuple[Pass, Pass]:
        from .arena_forecast import forecast
        from .arena_step import StrictStep

        with trimmed(how.device):
            expected = forecast(self.program, (forward, backward), how.device, how.measure)
        strict = StrictStep(how.device, forward, backward, self.program.outputs,
                            (expected.forward_units, expected.backward_units))
        how.forget = lambda: strict.session.forget(strict.forward, strict.backward)
        if how.room is not None:
            how.room.others = expected.other_bytes
        needed = strict.expect(expected, how.room).bytes
        if how.room is not None:
            how.over = max(0, needed - how.room.limit(strict.session.arena))
        self.clock.lap("forecast")
        return strict.forward, strict.backward

    def _own_saved(self) -> int | None:
        """Which result of the forward pass is a tensor that it made, and nobody but the backward pass reads."""
        results = self.program.forward.graph.output_node().args[0]
        returned = {node for node in results[: self.program.outputs] if node is not None}
        for i, node in enumerate(results):
            target = getattr(node, "target", None)
            if (i >= self.program.outputs and node not in returned and isinstance(target, torch._ops.OpOverload)
                    and len(target._schema.returns) == 1 and target._schema.returns[0].alias_info is None
                    and isinstance(node.meta.get("val"), torch.Tensor)):
                return i
        return None

    def _together(self) -> contextlib.AbstractContextManager:
        """A block in which both passes are compiled."""
        if self.kernels == "eager":
            return contextlib.nullcontext()
        from . import inductor

        return inductor.deferred_kernels()

    def _one(self, module: fx.GraphModule, name: str) -> Pass:
        begin = None
        if self.strict_on is not None:
            from .arena import begin_function

            begin = begin_function()
        if self.kernels == "eager":
            return eager.compile_graph(module, name, begin)
        from . import inductor

        inputs = [node.meta.get("val") for node in module.graph.find_nodes(op="placeholder")]
        return inductor.compile_in_order(module, inputs, begin=begin)


def _boxed(function: Callable) -> Callable:
    function._boxed_call = True
    return function
