"""strict=True for the two passes of a compiled graph: a step is recorded, later ones are replayed.

    strict = StrictStep(device, forward, backward, outputs)

`forward` and `backward` take a list of arguments, which they empty, and return a tuple. The first
`outputs` results of the forward pass go to the user; the others are saved for the backward pass.
strict.forward and strict.backward do the same at planned addresses.

The first step runs on PyTorch's allocator, so that libraries allocate what they keep and tune what
they tune. The second is recorded. From the third on, the step lies in the arena, gradients included:
memory that holds activations early in a step holds gradients late in it. Gradients that are still in
use when the next step begins are moved to PyTorch's allocator then. Small outputs of the forward pass
are always there.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..text import format_bytes
from .arena import Arena, ArenaStats, Layout, Recorder, Table, begin_function, lay_out_recording
from .arena import _address as address_of

__all__ = ["StrictStep", "arena_of"]

log = logging.getLogger("neap")

Pass = Callable[[list], tuple]
SMALL = 16 << 10
SMALL_OUTPUTS = 4 << 20  # in total: they stay out of the arena
SLACK = 0.002  # of the arena: the fraction at which the search for addresses stops
RECORDINGS = 3  # tries, before a recording with tensors that outlive the step is taken as it is

_arenas: dict[torch.device, Arena] = {}
_arenas_lock = threading.Lock()


def arena_of(device: torch.device | str) -> Arena:
    """The arena that all graphs of a device share; it grows to the largest layout."""
    arena = Arena(device)
    with _arenas_lock:
        return _arenas.setdefault(arena.device, arena)


class StrictStep:
    """Two passes, replayed in the arena of their device.

    units    calls of begin(0), begin(1), ... in the forward pass, and on in the backward pass; the
             first number of the backward pass, and the number of all. None: the passes do not
             call begin()
    warm_up  steps that run before one is recorded
    least    allocations of fewer bytes stay with PyTorch's allocator, which has pools for them. By
             default 16 KiB on CUDA: scalars that an op makes only at times do not count as misses
    layout   that of the recorded step; None until then
    """

    def __init__(
        self,
        device: torch.device | str,
        forward: Pass,
        backward: Pass,
        outputs: int,
        *,
        units: tuple[int, int] | None = None,
        warm_up: int = 1,
        least: int | None = None,
    ) -> None:
        self.arena = arena_of(device)
        self.layout: Layout | None = None
        self._passes = forward, backward
        self._outputs = outputs
        self._marked = units is not None
        self._first_backward, self._units = units or (1, 2)
        self._begin = begin_function()
        self._lock = threading.Lock()
        self._warm_up = warm_up
        on_cuda = self.arena.device.type == "cuda"
        self._least = (SMALL if on_cuda else 0) if least is None else least
        self._recordings = 0
        self._recorder: Recorder | None = None  # of the step in flight
        self._table: Table | None = None
        self._step = 0  # the last one that was replayed
        self._outputs_placed = False
        self._nothing_saved = False  # by it, in the arena
        self._saved_at = 0  # the argument of backward in which one was found

    @property
    def replays(self) -> bool:
        """Whether steps are replayed by now."""
        return self._table is not None

    def stats(self) -> ArenaStats:
        """What happened in the arena of the device."""
        return self.arena.stats()

    # ---- The passes ----

    def forward(self, args: list) -> tuple:
        with self._lock:
            table, recorder = self._prepare()
        if recorder is not None:
            with recorder:
                results = self._run(0, args)
            self._mark_outputs(recorder, results[: self._outputs])
            return results
        if table is None:
            return self._run(0, args)
        step = self.arena.step()
        try:
            with table.run(step):
                results = self._run(0, args)
        except BaseException:
            self.arena.end(step)
            raise
        if step:
            if self._outputs_placed:
                self.arena.adopt(results[: self._outputs])
            self._step = step
            self._nothing_saved = self.arena.stats().live_blocks == 0
        return results

    forward._boxed_call = True  # type: ignore[attr-defined]

    def backward(self, args: list) -> tuple:
        with self._lock:
            table, recorder = self._table, self._recorder
            self._recorder = None
        if recorder is not None:
            return self._record_backward(recorder, args)
        if table is None:
            return self._run(1, args)
        step = self._owner(args)
        try:
            with table.run(step):
                results = self._run(1, args)
            if step:
                self.arena.adopt(results)
            return results
        finally:
            self.arena.end(step)

    backward._boxed_call = True  # type: ignore[attr-defined]

    def _run(self, number: int, args: list) -> tuple:
        if not self._marked:
            self._begin(self._first_backward if number else 0)
        return self._passes[number](args)

    def _owner(self, args: Sequence[Any]) -> int:
        """The step whose forward pass saved these tensors; 0 if it was not replayed."""
        if self._nothing_saved:
            return self._step
        order = range(len(args))
        for i in (self._saved_at, *order) if self._saved_at < len(args) else order:
            if isinstance(args[i], torch.Tensor):
                step = self.arena.owner(args[i])
                if step is not None:
                    self._saved_at = i
                    return step
        return 0

    # ---- Recording ----

    def _prepare(self) -> tuple[Table | None, Recorder | None]:
        """What the forward pass that begins now is to use."""
        if self._recorder is not None:  # its backward pass has not come
            self._recorder.close()
            self._recorder = None
            return None, None
        if self._table is None and self.layout is not None:
            self._make_table(self.layout)
        if self._table is not None:
            return self._table, None
        if self._warm_up > 0:
            self._warm_up -= 1
            return None, None
        self._recorder = Recorder(self.arena.device)
        return None, self._recorder

    def _mark_outputs(self, recorder: Recorder, outputs: Sequence[Any]) -> None:
        tensors = [one for one in outputs if isinstance(one, torch.Tensor)]
        size = sum(one.untyped_storage().nbytes() for one in tensors)
        self._outputs_placed = size > SMALL_OUTPUTS
        (recorder.results if self._outputs_placed else recorder.keep)(tensors)

    def _record_backward(self, recorder: Recorder, args: list) -> tuple:
        with recorder:
            results = self._run(1, args)
        recorder.results(results)
        allocations = recorder.close()
        left = sum(one.size for _, one in allocations if one.died is None and one.mark == 0)
        with self._lock:
            self._recordings += 1
            if left == 0 or self._recordings >= RECORDINGS:
                self.layout = lay_out_recording(allocations, self._units, self._least, SLACK)
                log.info(
                    "neap: strict: arena of %s for %s in use at once; %s left to PyTorch",
                    *map(format_bytes, (self.layout.bytes, self.layout.peak, self.layout.native_bytes)),
                )
        return results

    def _make_table(self, layout: Layout) -> None:
        try:
            fits = self.arena.reserve(layout.bytes)
        except MemoryError as error:
            log.warning("neap: strict: %s; the next step tries again", error)
            return
        if fits:
            self._table = Table(self.arena, layout.rows, layout.least)
