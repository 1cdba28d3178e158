"""strict=True for compiled passes: a step is recorded, later ones are replayed in an arena.

    session = session_of(device)
    forward = session.forward(forward, outputs)
    backward = session.backward(backward)

A pass takes a list of arguments, which it empties, and returns a tuple. The first `outputs` results of
a forward pass go to the user; the others are saved for a backward pass. What session.forward() and
session.backward() return does the same at planned addresses.

A *step* is a sequence of passes, of one graph or of several. It is over when every forward pass has had
its backward pass, or when nothing that the forward passes have saved is in use any more; the next
forward pass begins another one.

The first step of a pass lies in the arena where a forecast says what it will allocate (Session.expect).
What the forecast does not know gets any free place of the arena. Libraries allocate what they keep
and tune what they tune in this step, so it is the next one that is recorded, in the same places. Without a
forecast both run on PyTorch's allocator. From then on a step that begins with the same pass is expected
to be the same sequence, and lies in the arena at addresses found for what was recorded, gradients
included: memory that holds activations early in a step holds gradients late in it. Results that are
still in use when the next step begins are moved to PyTorch's allocator then; small outputs of forward
passes are always there. A step that goes another way runs on PyTorch's allocator from there on; the
next one is expected to go that way, and is recorded if it is new.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from ..text import format_bytes
from . import arena_optimizer
from .arena import Allocation, Arena, ArenaStats, Layout, Recorder, Table, begin_function, lay_out_recording
from .arena_forecast import SMALL_OUTPUTS, Forecast
from .arena_room import Room

__all__ = ["Session", "StrictStep", "idle_bytes", "session_of"]

log = logging.getLogger("neap")

Pass = Callable[[list], tuple]
SMALL = 16 << 10
SLACK = 0.002  # of the arena: the fraction at which the search for addresses stops
RECORDINGS = 8  # of steps that begin with the same pass
LONGEST = 256  # passes in a step

_sessions: dict[torch.device, "Session"] = {}
_sessions_lock = threading.Lock()


def session_of(device: torch.device | str) -> Session:
    """The session of a device. All its graphs share an arena, which grows to the largest step."""
    arena = Arena(device)
    arena_optimizer.install(_arena_in_use)
    with _sessions_lock:
        if arena.device not in _sessions:
            _sessions[arena.device] = Session(arena)
        return _sessions[arena.device]


def _arena_in_use(device: torch.device) -> tuple[Arena, int] | None:
    """The arena of a device and the number of its step, between two steps."""
    session = _sessions.get(device)
    if session is None or session._step is None or not session._step.number:
        return None
    return session.arena, session._step.number


def idle_bytes(device: torch.device) -> int:
    """Bytes of the device's arena that no tensor uses now. PyTorch counts them as allocated.

    An arena that nothing will use any more is given back first.
    """
    session = _sessions.get(device)
    if session is None:
        return 0
    session.release_unused()
    stats = session.arena.stats()
    return stats.bytes - stats.live_bytes


class _Id(NamedTuple):
    """One wrapped pass."""

    number: int
    units: int
    outputs: int | None  # None: a backward pass


@dataclass
class _Known:
    """A sequence of passes that has been recorded, or forecast."""

    sequence: tuple[_Id, ...]
    layout: Layout
    room: Room | None = None  # forecast: what the arena may have
    spill: bool = False  # forecast: what is not expected may lie anywhere in the arena
    table: Table | None = None

    def first_unit(self, this: _Id) -> int:
        """Of a pass in the table; behind all of it, if the pass is not expected."""
        units = 0
        for one in self.sequence:
            if one == this:
                break
            units += one.units
        return units


@dataclass
class _Step:
    """The step that is under way."""

    recorder: Recorder | None = None
    known: _Known | None = None  # what it is expected to be
    number: int = 0  # that the arena gave it; 0: it is not replayed
    sequence: list[_Id] = field(default_factory=list)
    units: int = 0
    as_expected: bool = True
    warm: bool = True

    def replays(self) -> bool:
        """Whether the next pass lies in the arena."""
        return bool(self.number) and (self.as_expected or self.known.spill)

    def shift(self, this: _Id, unit: int) -> int:
        """From the units of a pass that is about to run to those of the table."""
        if self.as_expected:
            return 0
        seen = self.sequence.count(this) > 1
        return (sum(one.units for one in self.known.sequence) if seen else self.known.first_unit(this)) - unit


class Session:
    """The strict steps of a device.

    warm_up  steps that run before one is recorded, for each pass
    least    allocations of fewer bytes stay with PyTorch's allocator, which has pools for them. By
             default 16 KiB on CUDA: scalars that an op makes only at times do not count as misses
    """

    def __init__(self, arena: Arena, *, warm_up: int = 1, least: int | None = None) -> None:
        self.arena = arena
        self.warm_up = warm_up
        self.least = (SMALL if arena.device.type == "cuda" else 0) if least is None else least
        self._begin = begin_function()
        self._count_from = arena._module.count_from
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._runs: Counter[_Id] = Counter()
        self._recordings: Counter[_Id] = Counter()
        self._known: dict[tuple[_Id, ...], _Known] = {}
        self._expected: dict[_Id, _Known] = {}  # by forward pass: what a step of it and its backward pass will be
        self._last: dict[_Id, tuple[_Id, ...]] = {}  # the last sequence that began with a pass
        self._placed_outputs: set[_Id] = set()
        self._step: _Step | None = None
        self._alive: set[_Id] = set()  # passes that may run again

    def stats(self) -> ArenaStats:
        """What happened in the arena."""
        return self.arena.stats()

    @property
    def layouts(self) -> list[Layout]:
        """Those of the steps that are replayed."""
        return [known.layout for known in self._known.values()]

    # ---- Passes ----

    def forward(self, run: Pass, outputs: int, units: int = 1) -> Pass:
        """A forward pass, at planned addresses.

        `units`: the pass calls begin(0) to begin(units - 1) of arena.begin_function(), each before
        a part of its work, so that a difference in one part does not affect the others.
        """
        return self._wrapped(run, _Id(next(self._numbers), units, outputs))

    def backward(self, run: Pass, units: int = 1) -> Pass:
        """The same for a backward pass."""
        return self._wrapped(run, _Id(next(self._numbers), units, None))

    def expect(
        self, forward: Pass, backward: Pass, forecast: Forecast, room: Room | None = None
    ) -> Layout:
        """Lets the first steps of two wrapped passes lie in the arena, too; returns where.

        `room` says how many bytes more than it needs the arena may have. It is asked when the arena is
        made.
        """
        sequence = (forward.strict_id, backward.strict_id)  # type: ignore[attr-defined]
        units = forecast.forward_units + forecast.backward_units
        layout = lay_out_recording(forecast.allocations, units, self.least, SLACK)
        with self._lock:
            self._expected[sequence[0]] = _Known(sequence, layout, room, spill=True)
        return layout

    def _wrapped(self, run: Pass, this: _Id) -> Pass:
        def strict(args: list) -> tuple:
            arena_optimizer.finish()
            with self._lock:
                step, unit = self._enter(this)
                shift = step.shift(this, unit) if step.replays() else None
            outer = self._count_from(unit)
            try:
                return self._run(run, args, this, step, shift)
            except BaseException:
                with self._lock:
                    self._abandon(step)
                raise
            finally:
                self._count_from(outer)

        strict._boxed_call = True  # type: ignore[attr-defined]
        strict.strict_id = this  # type: ignore[attr-defined]
        self._alive.add(this)
        weakref.finalize(strict, self._forget_dead, this).atexit = False
        return strict

    def _forget_dead(self, this: _Id) -> None:
        """Gives the arena back with the last model that uses it."""
        self._alive.discard(this)
        if not self.arena.stats().live_bytes:  # else they are moved when memory is asked for: not here, at any moment
            self.release_unused()

    def release_unused(self) -> None:
        """Gives the arena back if no pass will run in it any more. Its memory is PyTorch's to use then."""
        if not self._alive and self._lock.acquire(blocking=False):  # whoever has it calls this later
            try:
                self._end()
                self.arena.release()
            finally:
                self._lock.release()

    def forget(self, *passes: Pass) -> None:
        """These wrapped passes will not run any more: their model was planned again."""
        with self._lock:
            for this in (one.strict_id for one in passes):  # type: ignore[attr-defined]
                self._expected.pop(this, None)
                self._last.pop(this, None)
                for sequence in [sequence for sequence in self._known if this in sequence]:
                    del self._known[sequence]

    def _run(self, run: Pass, args: list, this: _Id, step: _Step, shift: int | None) -> tuple:
        """Runs a pass; `shift`: in the arena, with the units of the table shifted so far."""
        with contextlib.ExitStack() as stack:
            if step.recorder is not None:
                stack.enter_context(step.recorder)
            if shift is not None:
                stack.enter_context(step.known.table.run(step.number, shift))
            self._begin(0)
            results = run(args)
        if step.recorder is not None:
            self._mark(step.recorder, this, results)
        if shift is None:
            return results
        if this.outputs is None:
            self.arena.adopt(results)
        elif this in self._placed_outputs or step.known.spill:
            self.arena.adopt(results[: this.outputs])
        return results

    def _mark(self, recorder: Recorder, this: _Id, results: tuple) -> None:
        if this.outputs is None:
            recorder.results(results)
            return
        recorder.saved(results[this.outputs :])
        outputs = [one for one in results[: this.outputs] if isinstance(one, torch.Tensor)]
        if sum(one.numel() * one.element_size() for one in outputs) > SMALL_OUTPUTS:
            self._placed_outputs.add(this)
            recorder.results(outputs)
        else:
            recorder.keep(outputs)

    # ---- Steps: with the lock ----

    def _enter(self, this: _Id) -> tuple[_Step, int]:
        """The step that a pass belongs to, and the number of its first unit in it."""
        step = self._step
        if step is None or (this.outputs is not None and self._is_over(step)):
            self._end()
            step = self._step = self._new_step(this)
        unit, position = step.units, len(step.sequence)
        step.sequence.append(this)
        step.units += this.units
        if step.known is not None:
            expected = step.known.sequence
            step.as_expected &= position < len(expected) and expected[position] == this
        step.warm &= self._runs[this] >= self.warm_up
        self._runs[this] += 1
        return step, unit

    def _is_over(self, step: _Step) -> bool:
        open_passes = sum(1 if this.outputs is not None else -1 for this in step.sequence)
        if open_passes <= 0 or len(step.sequence) >= LONGEST:
            return True
        if step.recorder is not None:
            return step.recorder.pending == 0
        return bool(step.number) and self.arena.pending(step.number) == 0

    def _new_step(self, first: _Id) -> _Step:
        known = self._known.get(self._last.get(first, ()))
        may_record = self._runs[first] >= self.warm_up and self._recordings[first] < RECORDINGS
        if known is None and not may_record:
            known = next((k for s, k in self._known.items() if s[0] == first), None)
        if known is not None:
            return _Step(known=known, number=self._replay(known))
        recorder = None
        if may_record:
            self._recordings[first] += 1
            recorder = Recorder(self.arena.device)
        expected = self._expected.get(first)
        if expected is not None:
            return _Step(recorder, expected, self._replay(expected))
        self.arena.release()  # this step needs the memory itself
        return _Step(recorder)

    def _replay(self, known: _Known) -> int:
        """The number of a new step in the arena; 0 if the arena cannot hold it now."""
        try:
            if not self._make_room(known):
                return 0
        except MemoryError as error:
            log.warning("neap: strict: %s; this step runs without", error)
            return 0
        if known.table is None:
            known.table = Table(self.arena, known.layout.rows, known.layout.least, known.spill)
        return self.arena.step()

    def _make_room(self, known: _Known) -> bool:
        """An arena large enough for a step."""
        if known.spill:
            return self._make_first_room(known)
        if known.table is None:  # in the first steps the arena was as large as it could be
            self.arena.shrink(max(one.layout.bytes for one in self._known.values()))
        return self.arena.reserve(known.layout.bytes)

    def _make_first_room(self, known: _Known) -> bool:
        size = known.layout.bytes
        if known.table is None and known.room is not None:
            try:
                return self.arena.reserve(known.room.arena_bytes(self.arena, size))
            except MemoryError:
                pass  # the device has less
        return self.arena.reserve(size)

    def _end(self) -> None:
        """Ends the step under way, if there is one."""
        step, self._step = self._step, None
        if step is None:
            return
        self.arena.end(step.number)
        sequence = tuple(step.sequence)
        if step.known is not None and step.as_expected and not step.known.spill:
            sequence = step.known.sequence  # of which the step may have been the beginning
        self._last[sequence[0]] = sequence
        if step.recorder is not None:
            complete = step.warm and step.recorder.pending == 0  # no graph is retained
            allocations = step.recorder.close()
            if complete:
                self._learn(sequence, step.units, allocations)

    def _learn(
        self, sequence: tuple[_Id, ...], units: int, allocations: Sequence[tuple[int, Allocation]]
    ) -> None:
        layout = lay_out_recording(allocations, units, self.least, SLACK)
        self._known[sequence] = _Known(sequence, layout)
        log.info(
            "neap: strict: a step of %d passes in an arena of %s; %s are left to PyTorch",
            len(sequence), format_bytes(layout.bytes), format_bytes(layout.native_bytes),
        )

    def _abandon(self, step: _Step) -> None:
        step.warm = False
        if self._step is step:
            self._end()


class StrictStep:
    """The two passes of a graph in the session of their device.

    units   how many parts each pass has: see Session.forward
    """

    def __init__(
        self,
        device: torch.device | str,
        forward: Pass,
        backward: Pass,
        outputs: int,
        units: tuple[int, int] = (1, 1),
    ) -> None:
        self.session = session_of(device)
        self.forward = self.session.forward(forward, outputs, units[0])
        self.backward = self.session.backward(backward, units[1])

    def expect(self, forecast: Forecast, room: Room | None = None) -> Layout:
        """See Session.expect."""
        return self.session.expect(self.forward, self.backward, forecast, room)
