"""The allocations of a step, before it has run: what its units allocate, put together in the order of its passes.

The result has the form of a recording, so that addresses are found for both in the same way. Variables die where the
generated code of a pass drops them; memory is free when no variable holds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import fx

from . import eager
from .arena_layout import KEPT, RESULT, Allocation
from .arena_trace import DROP, FREE, NEW, OpTracer, Trace, traced_segment
from .compile_segment import SegmentCode
from .in_order import OrderedProgram
from .op_signature import flat, is_getitem
from .program import Program
from .segments import base_of

__all__ = ["Forecast", "forecast"]

SMALL_OUTPUTS = 4 << 20  # in total: they stay out of the arena


@dataclass
class Forecast:
    """What a step is expected to allocate: (unit, allocation) in order, as arena.Recorder.close() gives it."""

    allocations: list[tuple[int, Allocation]]
    forward_units: int
    backward_units: int
    other_bytes: int  # outputs and their gradients, which PyTorch's allocator serves


def forecast(
    program: Program, passes: Sequence[object], device: torch.device, run: bool = True, tracer: OpTracer | None = None
) -> Forecast:
    """The forecast for a program whose two passes were compiled to `passes`.

    run: find out what a unit allocates by running it on made-up inputs; otherwise that is estimated.
    """
    tracer = tracer or OpTracer(device, run)
    memory = _Memory()
    forward_units = _pass(memory, program.forward, passes[0], tracer, 0)
    outputs, saved = _split(program)
    memory.mark([memory.held(node) for node in outputs], RESULT if _bytes(outputs) > SMALL_OUTPUTS else KEPT)
    kept = [memory.held(node) for node in saved]
    memory.end_pass([*outputs, *saved])
    placeholders = list(program.backward.graph.find_nodes(op="placeholder"))
    for node, held in zip(placeholders, kept):
        memory.bind(node, held)
    memory.end_pass(placeholders)  # what is not read by the backward pass
    backward_units = _pass(memory, program.backward, passes[1], tracer, forward_units)
    gradients = _results(program.backward)
    memory.mark([memory.held(node) for node in gradients], RESULT)
    memory.end_pass(gradients)
    other = 0 if _bytes(outputs) > SMALL_OUTPUTS else _bytes(outputs)
    other += _bytes(placeholders[len(saved):])
    return Forecast(memory.allocations(), forward_units, backward_units, other)


def _split(program: Program) -> tuple[list[fx.Node | None], list[fx.Node | None]]:
    results = _results(program.forward)
    return results[: program.outputs], results[program.outputs :]


def _results(module: fx.GraphModule) -> list[fx.Node | None]:
    output = next(iter(module.graph.find_nodes(op="output")))
    return list(output.args[0])


def _bytes(nodes: Iterable[fx.Node | None]) -> int:
    values = [node.meta.get("val") for node in nodes if isinstance(node, fx.Node)]
    return sum(int(v.numel()) * v.element_size() for v in values if isinstance(v, torch.Tensor))


# ---- memory ----


class _Storage:
    """One allocation while the passes are followed."""

    def __init__(self, unit: int, size: int, born: int) -> None:
        self.unit, self.size, self.born = unit, size, born
        self.died: int | None = None
        self.mark = 0
        self.holders = 0


Held = list[_Storage | None]  # the memory of a variable, one for each result that it holds


class _Memory:
    """The variables of the passes and the allocations that they hold."""

    def __init__(self) -> None:
        self.tick = 0
        self.storages: list[_Storage] = []
        self.variables: dict[fx.Node, Held] = {}

    def held(self, node: fx.Node | None) -> Held:
        return self.variables.get(node, []) if node is not None else []

    def bind(self, node: fx.Node, held: Held) -> None:
        self.variables[node] = held
        for storage in held:
            if storage is not None:
                storage.holders += 1

    def drop(self, node: fx.Node) -> None:
        for storage in self.variables.pop(node, ()):
            if storage is not None:
                storage.holders -= 1
                if storage.holders == 0:
                    self._free(storage)

    def _free(self, storage: _Storage) -> None:
        if storage.died is None:
            storage.died = self._next()

    def _next(self) -> int:
        self.tick += 1
        return self.tick - 1

    def run(self, unit: int, trace: Trace, reads: Sequence[fx.Node], binds: Sequence[tuple[fx.Node, slice]]) -> None:
        """A unit runs. `binds`: the variables that hold its results."""
        made: dict[int, _Storage] = {}
        for kind, i in trace.events:
            if kind == NEW:
                made[i] = _Storage(unit, trace.sizes[i], self._next())
                self.storages.append(made[i])
            elif kind == FREE:
                self._free(made[i])
            else:
                self.drop(reads[i])
        results: Held = []
        for output in trace.outputs:
            if output is None:
                results.append(None)
            elif output[0] == DROP:
                results.append(next(iter(self.held(reads[output[1]])), None))
            else:
                results.append(made[output[1]])
        for node, part in binds:
            self.bind(node, results[part])

    def mark(self, held: Sequence[Held], mark: int) -> None:
        for storage in (one for part in held for one in part if one is not None):
            storage.mark = mark

    def end_pass(self, kept: Sequence[fx.Node | None]) -> None:
        """All variables but those that are kept die. Marked memory is in use until the end."""
        stay = {node for node in kept if node is not None}
        for node in list(self.variables):
            if node not in stay:
                self.drop(node)

    def allocations(self) -> list[tuple[int, Allocation]]:
        return [(s.unit, Allocation(s.size, s.born, s.died, 0, s.mark)) for s in self.storages]


# ---- passes ----


def _pass(memory: _Memory, module: fx.GraphModule, compiled: object, tracer: OpTracer, first: int) -> int:
    """Follows a pass whose units count from `first`; returns how many there are."""
    if isinstance(compiled, OrderedProgram):
        return _in_segments(memory, compiled, tracer, first)
    return _op_by_op(memory, module, tracer, first)


def _op_by_op(memory: _Memory, module: fx.GraphModule, tracer: OpTracer, first: int) -> int:
    """As eager.compile_graph runs it."""
    nodes = list(module.graph.nodes)
    dies = eager.last_uses(nodes)
    unit = first
    for node in nodes:
        if node.op == "placeholder" and not node.users:
            memory.drop(node)
    for node in nodes:
        if node.op != "call_function":
            continue
        if is_getitem(node):
            memory.bind(node, _item(memory, node))
        else:
            trace = tracer.trace(node)
            memory.run(unit, trace, tracer.reads(node), [(node, slice(None))])
            unit += 1
        for dead in [*dies.get(node, ()), *([] if node.users else [node])]:
            memory.drop(dead)
    return unit - first


def _item(memory: _Memory, node: fx.Node) -> Held:
    """What a getitem node holds of the results of another."""
    source, index = node.args[0], node.args[1]
    held, value = memory.held(source), source.meta.get("val")
    if not isinstance(value, (list, tuple)) or not isinstance(index, int):
        return []
    index %= len(value)
    begin = len(flat(value[:index])) if index else 0
    return held[begin : begin + len(flat(value[index]))]


def _in_segments(memory: _Memory, program: OrderedProgram, tracer: OpTracer, first: int) -> int:
    """As the code of an OrderedProgram runs it."""
    traces: dict[int, Trace] = {}
    for node in program.module.graph.find_nodes(op="placeholder"):
        if node not in program.last:
            memory.drop(node)
    for index, (step, code) in enumerate(zip(program.steps, program.codes)):
        if isinstance(step, fx.Node) and is_getitem(step):
            memory.bind(step, _item(memory, step))
            dead = [step.args[0]]
        elif isinstance(step, fx.Node):
            reads = tracer.reads(step)
            memory.run(first + index, tracer.trace(step), reads, [(step, slice(None))])
            dead = [base_of(node) for node in reads]
            dead += [step] if step not in program.last else []
        elif code is not None:
            trace = _segment_trace(code, tracer, traces)
            binds = [(base_of(node), slice(i, i + 1)) for i, node in enumerate(code.outputs)]
            memory.run(first + index, trace, code.inputs, binds)
            dead = code.inputs
        else:
            continue
        for node in dead:
            if program.last.get(node) == index or node not in program.last:
                memory.drop(node)
    _alias_results(memory, program.module)
    return len(program.steps)


def _segment_trace(code: SegmentCode, tracer: OpTracer, traces: dict[int, Trace]) -> Trace:
    key = id(code.call)
    if key not in traces:
        traces[key] = traced_segment(code, tracer.device, tracer.run)
    return traces[key]


def _alias_results(memory: _Memory, module: fx.GraphModule) -> None:
    """Results that are views hold the memory of what they show."""
    for node in _results(module):
        if node is not None and node not in memory.variables and base_of(node) in memory.variables:
            memory.bind(node, memory.held(base_of(node)))
