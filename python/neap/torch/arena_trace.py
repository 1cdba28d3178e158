"""What a unit of work allocates, before the first step: from one run on made-up inputs, or estimated.

A unit is an op, or a segment that Inductor has compiled. It runs twice, the first time so that libraries allocate what
they keep and tune what they tune. What cannot run alone safely is estimated: each result gets memory of its own,
and there are no temporaries.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx

from . import runtime
from .arena import Recorder, _address, begin_function
from .compile_segment import SegmentCode
from .device import settings_key
from .joint import aliased_input, storage_bytes
from .measure import isolated
from .op_inputs import Inputs, Unsafe
from .op_signature import Signer, call_with, flat, leaves, output_tensors, tensor_nodes, value_of
from .segment_trial import FAILURES, inputs_of, refuse_unsafe_segment
from .trim import trim

__all__ = ["OpTracer", "Trace", "estimated", "traced_segment"]

log = logging.getLogger("neap")

_NO_RESULT = (runtime.release, runtime.wait)

NEW, FREE, DROP = "new", "free", "drop"


class Trace(NamedTuple):
    """The allocations of one run of a unit, in order.

    sizes    bytes of each allocation
    events   what happened, in order: (NEW, allocation), (FREE, allocation), or (DROP, input) for an input that the
             unit gave up
    outputs  for each result, flattened: (NEW, allocation) or (DROP, input), the memory that it lies in; None: in none
    """

    sizes: tuple[int, ...]
    events: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int] | None, ...]


# ---- running ----


def _traced(device: torch.device, make: Callable[[], list], run: Callable[[list], Any]) -> Trace:
    """The trace of run(make()). `run` may empty the list: what it then gives up is a DROP."""
    run(make())
    recorder, begin = Recorder(device), begin_function()
    with recorder:
        inputs = make()
        addresses = [_address(one) if isinstance(one, torch.Tensor) else 0 for one in inputs]
        begin(0)
        results = flat(run(inputs))
        found = [_address(one) if isinstance(one, torch.Tensor) else 0 for one in results]
        recorded = recorder.close()
    mine = [one for unit, one in recorded if unit >= 0]
    given = {one.address: one for unit, one in recorded if unit < 0}  # the last at each address is the one in use
    events = [(one.born, NEW, i) for i, one in enumerate(mine)]
    events += [(one.died, FREE, i) for i, one in enumerate(mine) if one.died is not None]
    first_input = {}
    for j, address in enumerate(addresses):
        first_input.setdefault(address, j)
    made = {one.address: i for i, one in enumerate(mine) if one.died is None}
    begun = max((one.born for unit, one in recorded if unit < 0), default=-1)
    for address, j in first_input.items():
        died = given[address].died if address in given else None
        if died is not None and died > begun:
            events.append((died, DROP, j))
    outputs = [(NEW, made[a]) if a in made else (DROP, first_input[a]) if a and a in first_input else None for a in found]
    return Trace(tuple(one.bytes for one in mine), tuple((kind, i) for _, kind, i in sorted(events)), tuple(outputs))


def _attempt(device: torch.device, what: str, trace: Callable[[], Trace]) -> Trace | None:
    """The trace, or None where the unit cannot run alone."""
    trim(device)
    try:
        with isolated(device):
            return trace()
    except torch.OutOfMemoryError:
        log.info("neap: strict: not enough memory to run %s alone; estimated", what)
    except Unsafe as reason:
        log.debug("neap: strict: %s; estimated", reason)
    except FAILURES as error:
        log.info("neap: strict: %s cannot run alone (%s); estimated", what, str(error).partition("\n")[0])
    return None


# ---- ops ----


def estimated(values: Sequence[torch.Tensor | None], alias: Sequence[int | None], device: torch.device) -> Trace:
    """Memory for each result on the device that shares none with an input."""
    sizes: list[int] = []
    outputs: list[tuple[str, int] | None] = []
    for value, source in zip(values, alias):
        if source is not None:
            outputs.append((DROP, source))
        elif value is None or value.device.type != device.type or storage_bytes(value) == 0:
            outputs.append(None)
        else:
            outputs.append((NEW, len(sizes)))
            sizes.append(storage_bytes(value))
    return Trace(tuple(sizes), tuple((NEW, i) for i in range(len(sizes))), tuple(outputs))


class OpTracer:
    """Traces the nodes of a program op by op; equal ones once."""

    _known: dict[tuple[str, str, str], Trace | None] = {}

    def __init__(self, device: torch.device, run: bool = True) -> None:
        self.device = device
        self.run = run
        self._inputs = Inputs(device)
        self._signer = Signer()
        self._settings = settings_key(device)

    def reads(self, node: fx.Node) -> list[fx.Node]:
        """The tensors that the inputs of a trace stand for."""
        args = node.args[2:] if node.target in (runtime.replay, runtime.split) else node.args
        return tensor_nodes((args, node.kwargs))

    def trace(self, node: fx.Node) -> Trace:
        if node.target in _NO_RESULT:
            return Trace((), (), (None,))
        if node.target is runtime.offload and self.device.type != "cpu":
            return Trace((), (), (None,))  # to pinned memory of the host
        found = self._measured(node) if self.run else None
        if found is not None:
            return found
        reads = self.reads(node)
        values = _results_of(node)
        sources = [aliased_input(node, i) for i in range(len(values))]
        return estimated(values, [reads.index(s) if s in reads else None for s in sources], self.device)

    def _measured(self, node: fx.Node) -> Trace | None:
        if node.target in (runtime.replay, runtime.split):
            op, rest = node.args[1], node.args[2:]
        else:
            op, rest = node.target, node.args
        if not isinstance(op, torch._ops.OpOverload):
            return None
        try:
            key = (str(self.device), self._settings, self._signer.signature(node))
        except ValueError:  # a size that only the running program knows
            return None
        if key not in self._known:
            self._known[key] = _attempt(self.device, str(op), lambda: self._run(node, op, rest))
        return self._known[key]

    def _run(self, node: fx.Node, op: Any, rest: tuple) -> Trace:
        call = call_with(op, rest, node.kwargs)
        made: list[tuple] = []

        def make() -> list:
            made[:] = [self._inputs.make(call)]
            return list(leaves(made[0], torch.Tensor))

        def run(_: list) -> Any:
            args, kwargs = made[0]
            if node.target is runtime.replay:
                return runtime.replay(state, op, *args, **kwargs)
            if node.target is runtime.split:
                return runtime.split(node.args[0], op, *args, **kwargs)
            return op(*args, **kwargs)

        state = runtime.random_state(self.device)
        return _traced(self.device, make, run)


def _results_of(node: fx.Node) -> list[torch.Tensor | None]:
    """The results as traced. A recomputed batch norm has fewer than the op that it stands for."""
    values = output_tensors(node)
    returns = getattr(getattr(node.target, "_schema", None), "returns", ())
    return values[: len(returns)] if len(returns) > 1 else values


# ---- segments ----


def traced_segment(code: SegmentCode, device: torch.device, run: bool = True) -> Trace:
    """What a segment allocates."""

    def trace() -> Trace:
        refuse_unsafe_segment(code)
        held: list[Any] = []

        def make() -> list:
            inputs = inputs_of(code, device)
            held[:] = [one for one, dies in zip(inputs, code.dying) if not dies]
            return inputs

        return _traced(device, make, lambda inputs: code.call(inputs))

    found = _attempt(device, "a segment", trace) if run else None
    if found is not None:
        return found
    values = [value_of(node) for node in code.outputs]
    tensors = [value if isinstance(value, torch.Tensor) else None for value in values]
    return estimated(tensors, [None] * len(values), device)
