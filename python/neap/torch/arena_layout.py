"""Addresses for the allocations of a step: from what was recorded to a table for the replay."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ..errors import InvalidError
from ..graph import Graph
from ..plans import Plan

__all__ = ["GRANULE", "Allocation", "Layout", "UnitRun", "UnitTrace", "lay_out", "place", "round_up"]

GRANULE = 512  # PyTorch rounds device allocations up to this
NATIVE = -1  # the offset of an allocation that is left to PyTorch
KEPT, RESULT, SAVED = 1, 2, 3  # marks of allocations, as in arena.h


def round_up(size: int) -> int:
    """A size as PyTorch's CUDA allocator rounds it."""
    return -(-size // GRANULE) * GRANULE


def place(
    intervals: Sequence[tuple[int, int, int]], alignment: int = GRANULE, slack: float = 0.0
) -> tuple[list[int], int]:
    """Addresses for blocks with known lifetimes, by libneap.

    An interval is (bytes, start, end): the block is in use from `start` until just before `end`,
    in any unit of time. Returns an offset for each and the bytes of the arena. No arena is smaller
    than the most bytes in use at one time; for most inputs one of exactly that size is found.
    `slack` is the fraction above that at which the search stops: 0.005 saves most of its time
    on many thousands of blocks.
    """
    for size, start, end in intervals:
        if size < 0 or end <= start:
            raise InvalidError(f"a block of {size} bytes from {start} to {end} cannot be placed")
    if not intervals:
        return [], 0
    # At equal times, blocks end before others start.
    order = sorted(range(len(intervals)), key=lambda i: intervals[i][1])
    number = {block: position for position, block in enumerate(order)}
    events = [(start, 1, number[i]) for i, (_, start, _) in enumerate(intervals)]
    events += [(end, 0, number[i]) for i, (_, _, end) in enumerate(intervals)]
    events.sort()
    graph = Graph.from_dict(
        {
            "neap": "graph",
            "version": 1,
            "name": "blocks",
            "fixed_bytes": 0,
            "values": [
                {"name": f"b{i}", "bytes": intervals[i][0], "kind": "activation"} for i in order
            ],
            "ops": [
                {
                    "name": f"b{i}",
                    "type": "block",
                    "pass": "forward",
                    "inputs": [],
                    "outputs": [position],
                    "time": 0,
                    "workspace": 0,
                }
                for position, i in enumerate(order)
            ],
            "outputs": [],
        }
    )
    steps = [("compute" if starts else "free", block) for _, starts, block in events]
    plan = Plan.from_steps(graph, steps)
    plan = plan.assign_addresses(alignment, math.floor(plan.peak * (1 + slack)))
    offsets = plan.offsets  # a new list at each access
    assert offsets is not None and plan.arena is not None
    return [offsets[number[i]] for i in range(len(intervals))], plan.arena


# ---- What a unit allocates ----


class Allocation(NamedTuple):
    """One allocation of a unit of work: an op or a compiled segment."""

    bytes: int  # as requested
    born: int  # a clock that ticks with every allocation and free that was recorded
    died: int | None  # None: it was in use when the recording ended
    address: int
    mark: int = 0  # KEPT, RESULT or SAVED, if a Recorder was told so
    output: int | None = None  # the first output of the unit that lies in it
    offset: int | None = None  # in the workspace of the unit, for one that died in it

    @property
    def size(self) -> int:
        """Bytes that it occupies."""
        return round_up(self.bytes)

    @property
    def is_kept(self) -> bool:
        """Whether it is to stay with PyTorch's allocator."""
        return self.mark == KEPT

    @property
    def is_result(self) -> bool:
        """Whether it is a result of the step: in use until the end, whatever was recorded."""
        return self.mark == RESULT


class UnitTrace(NamedTuple):
    """What one run of a unit allocated, in order."""

    allocations: tuple[Allocation, ...]
    workspace: int  # bytes of an arena that holds all temporaries of the unit

    @property
    def output_bytes(self) -> int:
        """Bytes of the allocations that the outputs lie in."""
        return sum(one.size for one in self.allocations if one.output is not None)


def trace_unit(events: Iterable[Allocation], outputs: Sequence[int]) -> UnitTrace:
    """The trace of a unit from its allocations and the addresses of its outputs' storages."""
    first_at: dict[int, int] = {}
    for position, address in enumerate(outputs):
        first_at.setdefault(address, position)
    found = [
        one._replace(output=first_at.get(one.address) if one.died is None else None)
        for one in events
    ]
    temporary = [i for i, one in enumerate(found) if one.died is not None]
    offsets, workspace = place(
        [(found[i].size, found[i].born, found[i].died or 0) for i in temporary]
    )
    for i, offset in zip(temporary, offsets):
        found[i] = found[i]._replace(offset=offset)
    return UnitTrace(tuple(found), workspace)


# ---- A whole step ----


class UnitRun(NamedTuple):
    """One run of a unit in a step.

    outputs  names the storages that the run makes, by position of the output. A storage that is
             made again, by a recomputation, gets another name or was freed before
    frees    names of storages that are freed after the run and before the next one
    """

    trace: UnitTrace
    outputs: Mapping[int, Hashable]
    frees: Collection[Hashable] = ()


class Layout(NamedTuple):
    """A table for the replay of a step: for each run of a unit, (size, offset) of each allocation.

    An offset of -1 means that PyTorch's allocator is to serve the allocation.
    """

    rows: list[list[tuple[int, int]]]
    least: int  # smaller allocations are not in the rows: PyTorch's allocator serves them
    bytes: int  # of the arena
    peak: int  # most bytes of it in use at one time
    native_bytes: int  # of the allocations with an offset of -1


class _Interval(NamedTuple):
    run: int
    slot: int
    size: int
    start: int
    end: int


def lay_out(
    runs: Sequence[UnitRun],
    native: Collection[Hashable] = (),
    results: Collection[Hashable] = (),
    least: int = 0,
    slack: float = 0.0,
) -> Layout:
    """Places all allocations of a step, given as runs of recorded units.

    results  names of storages that are in the arena and in use until the end: gradients. The
             caller gives them to Arena.adopt(), so that the next step may move them out
    native   names of storages that stay with PyTorch's allocator
    least    allocations of fewer bytes stay with PyTorch's allocator
    slack    that of place()

    Storages that are never freed and no results, and allocations that a unit keeps for itself
    (workspaces that a library caches), stay with PyTorch's allocator, too.
    """
    rows: list[list[tuple[int, int]]] = [[] for _ in runs]
    intervals: list[_Interval] = []
    alive: dict[Hashable, tuple[int, int, int, int]] = {}  # run, slot, size, start
    clock = 0
    for number, run in enumerate(runs):
        begin = clock
        for one in run.trace.allocations:
            start = begin + one.born
            clock = max(clock, start, begin + (one.died or 0))
            if one.bytes < least:
                continue
            slot = len(rows[number])
            rows[number].append((one.size, NATIVE))
            if one.died is not None:
                intervals.append(_Interval(number, slot, one.size, start, begin + one.died))
                continue
            name = run.outputs.get(one.output) if one.output is not None else None
            if name is None or name in native or one.is_kept:
                continue
            if name in alive:
                raise InvalidError(f"run {number} makes {name!r} again before it was freed")
            alive[name] = (number, slot, one.size, start)
        clock += 1
        for name in run.frees:
            if name in alive:
                intervals.append(_Interval(*alive.pop(name), clock))
        clock += 1
    intervals += [_Interval(*one, clock) for name, one in alive.items() if name in results]
    return _placed(rows, intervals, least, slack)


def lay_out_recording(
    allocations: Sequence[tuple[int, Allocation]], units: int, least: int = 0, slack: float = 0.0
) -> Layout:
    """The same from a recording of a whole step: (unit, allocation) in order.

    Results are in use until the end. What else was in use at the end, or was marked as kept,
    stays with PyTorch's allocator.
    """
    end = 1 + max((max(one.born, one.died or 0) for _, one in allocations), default=0)
    rows: list[list[tuple[int, int]]] = [[] for _ in range(units)]
    intervals: list[_Interval] = []
    for unit, one in allocations:
        if not 0 <= unit < units or one.bytes < least:
            continue
        died = end if one.is_result else one.died
        if died is not None and not one.is_kept:
            intervals.append(_Interval(unit, len(rows[unit]), one.size, one.born, died))
        rows[unit].append((one.size, NATIVE))
    return _placed(rows, intervals, least, slack)


def _placed(
    rows: list[list[tuple[int, int]]], intervals: list[_Interval], least: int, slack: float
) -> Layout:
    blocks = [(one.size, one.start, one.end) for one in intervals]
    offsets, arena = place(blocks, slack=slack)
    for one, offset in zip(intervals, offsets):
        rows[one.run][one.slot] = (one.size, offset)
    native = sum(size for row in rows for size, offset in row if offset == NATIVE)
    return Layout(rows, least, arena, _peak(intervals), native)


def _peak(intervals: Iterable[_Interval]) -> int:
    changes = [(one.start, one.size) for one in intervals]
    changes += [(one.end, -one.size) for one in intervals]
    live = peak = 0
    for _, change in sorted(changes):  # frees first at equal times
        live += change
        peak = max(peak, live)
    return peak
