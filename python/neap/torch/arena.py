"""strict=True: the allocations of a training step, replayed at planned addresses in one arena.

PyTorch's caching allocator fragments: under a plan it reserves up to 1.65 times the bytes in use.
Here a hook in front of the allocator answers the allocations of a step from one block, the arena,
at addresses that libneap found, so that the bytes reserved are the bytes planned.

    Meter      counts the bytes in use on a device, scratch memory of kernels included
    Recorder   notes what each unit of work (an op, a compiled segment) allocates
    lay_out    finds an address for each allocation of a step
    Arena      the block, its statistics, and the steps that use it
    Table      what each unit is expected to allocate, and where; `with table.run(step):` replays

Only the thread that runs a pass is served from the arena, and only on the stream it had when the
pass began. What is not expected, or would overlap memory still in use, goes to PyTorch's allocator
and is counted in Arena.stats(): a wrong table costs memory, never correctness.

The hook is compiled at first use (see arena_build.py), for the CPU and for CUDA.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from ..errors import InvalidError, UnsupportedError
from ..text import format_bytes
from .arena_build import explain_no_cuda, extension
from .arena_layout import (
    KEPT,
    RESULT,
    SAVED,
    Allocation,
    Layout,
    UnitRun,
    UnitTrace,
    lay_out,
    lay_out_recording,
    place,
    trace_unit,
)

__all__ = [
    "Allocation",
    "Arena",
    "Layout",
    "Meter",
    "Recorder",
    "Table",
    "UnitRun",
    "UnitTrace",
    "begin_function",
    "lay_out",
    "lay_out_recording",
    "place",
    "record",
    "watch",
]


def _target(device: torch.device | str) -> tuple[Any, str, int]:
    """The extension, and a device as it wants it."""
    device = torch.device(device)
    if device.type not in ("cpu", "cuda") or torch.version.hip:
        raise UnsupportedError(f"strict=True works on CPUs and CUDA devices, not on {device}")
    module = extension()
    if device.type == "cpu":
        return module, "cpu", 0
    torch.cuda.init()
    index = torch.cuda.current_device() if device.index is None else device.index
    if not module.has_cuda():
        raise UnsupportedError(explain_no_cuda())
    return module, "cuda", index


def begin_function() -> Callable[[int], None]:
    """begin(unit), for generated code: call it before each unit of a pass.

    It says which unit the allocations of this thread belong to, for a Recorder or a Table in use
    on it; otherwise it does nothing. A call takes about 30 ns.
    """
    return extension().begin


# ---- Metering ----


class Meter:
    """Counts the bytes that PyTorch's allocator has given out on a device, in all threads.

        with Meter("cpu") as meter:
            loss = model(x).sum()
            loss.backward()
        print(meter.peak)

    peak     most bytes in use at one time, less those in use on entry
    current  bytes in use now, less those in use on entry

    Memory that was allocated before the first Meter and before watch() is not known: freeing it
    is not seen. Sizes are as requested on the CPU, and rounded up to 512 bytes on CUDA, as
    torch.cuda.memory_allocated does; `granule` sets another rounding. An arena counts with what
    is in use of it.
    """

    def __init__(self, device: torch.device | str = "cpu", granule: int | None = None) -> None:
        self._module, kind, index = _target(device)
        rounding = (1 if kind == "cpu" else 512) if granule is None else granule
        self._handle = self._module.meter_new(kind, index, rounding)

    def __enter__(self) -> Meter:
        self._module.meter_run(self._handle, True)
        return self

    def __exit__(self, *_: object) -> None:
        self._module.meter_run(self._handle, False)

    @property
    def current(self) -> int:
        return self._module.meter_read(self._handle)[0]

    @property
    def peak(self) -> int:
        return self._module.meter_read(self._handle)[1]

    def reset_peak(self) -> None:
        """Lets `peak` start again from `current`."""
        self._module.meter_reset_peak(self._handle)


def watch(device: torch.device | str = "cpu") -> None:
    """Follows all allocations of the process from now on, so that later meters see their frees."""
    module, kind, _ = _target(device)
    module.watch(kind)


# ---- Recording ----


class Recorder:
    """Notes the allocations that a thread makes on a device, and when they are freed.

    `with recorder:` records the thread that runs the block. It may be entered several times, on
    different threads one after another: a backward pass often runs on a thread of autograd. Frees
    are noted from any thread until close().
    """

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self._module, kind, index = _target(device)
        self._handle = self._module.recorder_new(kind, index)
        self._allocations: list[tuple[int, Allocation]] | None = None

    def __enter__(self) -> Recorder:
        self._module.recorder_attach(self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        self._module.recorder_attach(None)

    def keep(self, tensors: Iterable[Any]) -> None:
        """Marks the memory of these tensors as not to be placed in an arena."""
        self._mark(tensors, KEPT)

    def results(self, tensors: Iterable[Any]) -> None:
        """Marks the memory of these tensors as results: in use until the end of the step."""
        self._mark(tensors, RESULT)

    def saved(self, tensors: Iterable[Any]) -> None:
        """Marks the memory of these tensors as saved for a pass to come."""
        self._mark(tensors, SAVED)

    @property
    def pending(self) -> int:
        """How many saved allocations are still in use."""
        return self._module.recorder_pending(self._handle)

    def _mark(self, tensors: Iterable[Any], mark: int) -> None:
        for tensor in tensors:
            if isinstance(tensor, torch.Tensor):
                self._module.recorder_mark(self._handle, _address(tensor), mark)

    def close(self) -> list[tuple[int, Allocation]]:
        """Ends the recording: (unit, allocation) in order. The unit is -1 before any begin()."""
        if self._allocations is None:
            self._allocations = [
                (unit, Allocation(size, born, None if died < 0 else died, address, mark))
                for unit, size, address, born, died, mark in self._module.recorder_close(
                    self._handle
                )
            ]
        return self._allocations


def _address(tensor: torch.Tensor) -> int:
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return 0  # has no storage: fake, sparse, or a wrapper


def record(
    function: Callable[[], Any], device: torch.device | str = "cpu"
) -> tuple[Any, UnitTrace]:
    """Runs a unit of work once; its result, and what it allocated.

    The outputs of the unit are the tensors in the result, flattened as torch.utils._pytree does.
    Run the unit before, so that what libraries allocate once and keep is not in the trace.
    """
    recorder = Recorder(device)
    with recorder:
        result = function()
    outputs = [
        _address(leaf) if isinstance(leaf, torch.Tensor) else 0
        for leaf in pytree.tree_leaves(result)
    ]
    return result, trace_unit((one for _, one in recorder.close()), outputs)


# ---- Replaying ----


class ArenaStats(NamedTuple):
    """What happened in an arena since it was made or reset_stats() was called."""

    bytes: int  # its size
    live_bytes: int  # in use now
    live_blocks: int
    requests: int  # allocations during replays
    placed: int  # served at their planned address
    native: int  # planned to be served by PyTorch's allocator
    misses: int  # not in the table: served by PyTorch's allocator
    miss_bytes: int
    occupied: int  # in the table, but the place was in use: served by PyTorch's allocator
    occupied_bytes: int
    spilled: int  # not in the table, or its place was in use: served at another place of the arena
    spilled_bytes: int
    moved_bytes: int  # results that were still in use when the next step began
    steps: int
    native_steps: int  # not replayed, because another step was in flight
    high_water: int  # end of the highest block
    peak_live: int  # most bytes in use at one time
    first_miss_unit: int  # -1: none
    first_miss_bytes: int

    @property
    def fallbacks(self) -> int:
        """Allocations that the arena was expected to serve and did not."""
        return self.misses + self.occupied


class Arena:
    """One block of memory of a device, from which steps are replayed.

    Give it to all tables of a device: one step at a time uses it.
    """

    def __init__(self, device: torch.device | str = "cpu", size: int = 0) -> None:
        self._module, kind, index = _target(device)
        self.device = torch.device("cpu") if kind == "cpu" else torch.device(kind, index)
        self._handle = self._module.arena_new(kind, index)
        self._close = weakref.finalize(self, self._module.arena_close, self._handle)
        self._close.atexit = False
        if size:
            self.reserve(size)

    def reserve(self, size: int) -> bool:
        """Makes the arena at least `size` bytes. False if it would have to move while in use.

        Results of ended steps are moved out. The old block is given back first, and PyTorch's
        cache of free blocks is emptied, so that the arena does not lie beside memory that nobody
        uses.
        """
        if self.stats().bytes >= size:
            return True
        return self._resize(size)

    def shrink(self, size: int) -> bool:
        """Makes the arena at most `size` bytes. False while it is in use."""
        return self.stats().bytes <= size or self._resize(size)

    def release(self) -> bool:
        """Gives the block back to PyTorch until the next reserve(). False while it is in use."""
        return self._resize(0)

    def _resize(self, size: int) -> bool:
        try:
            self._module.arena_evacuate(self._handle)
            return self._module.arena_resize(self._handle, size)
        except RuntimeError as error:  # torch's out-of-memory errors are RuntimeErrors
            first_line = str(error).splitlines()[0] if str(error) else "out of memory"
            raise MemoryError(
                f"no arena of {format_bytes(size)} on {self.device}: {first_line}"
            ) from None

    def step(self) -> int:
        """Begins a step: call it before the forward pass, and give the result to both passes.

        Results of earlier steps that are still in use, gradients that are being accumulated for
        instance, move to PyTorch's allocator: see adopt().

        0 means that the step will run on PyTorch's allocator, because tensors of an earlier step,
        whose backward pass has not ended, are still in the arena.
        """
        self._module.arena_evacuate(self._handle)
        return self._module.arena_step(self._handle)

    def end(self, step: int) -> None:
        """Ends a step after its backward pass. Tensors of it may still be in use."""
        self._module.arena_end(self._handle, step)

    def adopt(self, tensors: Iterable[Any]) -> None:
        """Lets the next step move these tensors out of the arena if they are still in use then.

        Their storages get other memory with the same contents; tensors and views do not notice.
        What does is an address that was taken from them, by DLPack for instance: clone a gradient
        before giving it to another library for longer than a step.
        """
        tensors = [one for one in tensors if isinstance(one, torch.Tensor)]
        try:
            storages = [one.untyped_storage()._cdata for one in tensors]
        except (RuntimeError, NotImplementedError):  # one has no storage: it is a wrapper
            storages = [one.untyped_storage()._cdata for one in tensors if _address(one)]
        self._module.arena_adopt(self._handle, storages)

    def pending(self, step: int) -> int:
        """How many tensors of a step are in the arena, without those that were adopted."""
        return self._module.arena_pending(self._handle, step)

    def owner(self, tensor: torch.Tensor) -> int | None:
        """The step that made this tensor; None if it does not lie in the arena."""
        step = self._module.arena_owner(self._handle, _address(tensor))
        return None if step < 0 else step

    def stats(self) -> ArenaStats:
        return ArenaStats(**self._module.arena_stats(self._handle))

    def reset_stats(self) -> None:
        self._module.arena_reset_stats(self._handle)

    def live(self) -> list[tuple[int, int]]:
        """(offset, bytes) of everything in use, by offset."""
        return self._module.arena_live(self._handle)

    def close(self) -> None:
        """Gives the block back; if tensors are still in it, when the last of them is freed."""
        self._close()


class Table:
    """The expected allocations of a step: for each unit, (size, offset) of each allocation.

    `rows` and `least` are those of a Layout. The arena must have Layout.bytes; otherwise nothing
    is replayed. `spill`: what is not expected gets any free place of the arena, preferably behind
    Layout.bytes; units without a row are then allowed.

        begin = begin_function()
        with table.run(step):
            begin(0); y = torch.relu(x)
            begin(1); z = y @ w
    """

    def __init__(
        self,
        arena: Arena,
        rows: Sequence[Sequence[tuple[int, int]]],
        least: int = 0,
        spill: bool = False,
    ) -> None:
        for number, row in enumerate(rows):
            for size, offset in row:
                if size <= 0 or offset < -1 or (offset != -1 and offset % 512):
                    raise InvalidError(f"unit {number}: {size} bytes at {offset} cannot be placed")
        self.arena = arena
        self.units = len(rows)
        self._module = arena._module
        self._handle = self._module.table_new(arena._handle, rows, least, spill)
        self.bytes: int = self._module.table_bytes(self._handle)

    def run(self, step: int, shift: int = 0) -> _Pass:
        """A context that replays the units run in it, on this thread. `step` is Arena.step()'s.

        begin(unit) then stands for row unit + shift.
        """
        return _Pass(self._module, self._handle, step, shift)


class _Pass:
    """A pass under replay. `replayed` says whether it is, once entered."""

    __slots__ = ("_handle", "_module", "_shift", "_step", "replayed")

    def __init__(self, module: Any, handle: Any, step: int, shift: int) -> None:
        self._module, self._handle, self._step, self._shift = module, handle, step, shift
        self.replayed = False

    def __enter__(self) -> _Pass:
        self.replayed = self._module.start(self._handle, self._step, self._shift)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._module.stop()


@contextlib.contextmanager
def native() -> Iterator[None]:
    """Leaves the allocations of a block to PyTorch's allocator, inside of a replayed pass."""
    module = extension()
    module.pause()
    try:
        yield
    finally:
        module.stop()
