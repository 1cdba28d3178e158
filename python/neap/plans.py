"""Plans: which op runs when, and when each value is freed or moved, within a memory budget."""

from __future__ import annotations

import ctypes
import html
import json
import math
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from ctypes import byref
from functools import cached_property
from typing import Any, NamedTuple

from . import _library as c
from . import errors
from ._library import call, lib, path_bytes, take_text
from .graph import Graph, MemoryParts, parts_of
from .text import format_bytes, format_seconds, parse_bytes

__all__ = ["Figures", "Link", "Plan", "TimelineStep", "Verdict"]

_KINDS = ("compute", "free", "offload", "prefetch")


class Link(NamedTuple):
    """The link to host memory. Bandwidths are bytes per second.

    `neap.Link(out_bandwidth=25e9, in_bandwidth=25e9, duplex=True)` is a PCIe 4.0 x16 slot.
    """

    out_bandwidth: float  # device to host
    in_bandwidth: float  # host to device
    latency: float = 0.0  # seconds added to each transfer
    duplex: bool = False  # one transfer in each direction at a time; else one in total
    host_memory: int = 0  # most bytes held on the host; 0: no limit

    def _to_c(self) -> c.Link:
        try:
            speeds = math.isfinite(self.out_bandwidth + self.in_bandwidth + self.latency)
            if not speeds or min(self.out_bandwidth, self.in_bandwidth) <= 0 or self.latency < 0:
                raise errors.InvalidError(
                    f"{self!r}: bandwidths must be above 0, latency 0 or more"
                )
            return c.Link(*self)
        except TypeError as error:
            raise errors.InvalidError(f"{self!r} is not a link: {error}") from None


class Figures(NamedTuple):
    """What a plan costs. The attributes of Plan with the same names are these."""

    peak: int
    time: float
    recomputed_ops: int
    offloaded_bytes: int
    arena: int | None
    outcome: str | None = None
    bound_time: float | None = None
    bound_scope: str | None = None
    gap: float | None = None
    solve_seconds: float | None = None
    message: str = ""


class Verdict(NamedTuple):
    """What the judge says about a plan; true if it accepts it."""

    accepted: bool
    reason: str  # why not: the step, the op or value, and what would be valid
    step: int | None  # the step at fault
    peak: int
    peak_step: int
    time: float
    recomputed_ops: int
    offloaded_bytes: int
    host_bytes: int
    arena: int | None  # None: the plan has no addresses

    def __bool__(self) -> bool:
        return self.accepted


class TimelineStep(NamedTuple):
    """A step on the timeline of a plan. Times are seconds from the start of the training step."""

    begin: float
    end: float
    live_bytes: int  # while the step runs, outputs and workspace included
    after_bytes: int  # when it has ended


class Plan:
    """The program of one training step within a memory budget.

    `steps` says what to do, in order: ("compute", op, variant), ("free", value, 0),
    ("offload", value, 0) or ("prefetch", value, 0); `in_place` says which computations run in
    place, and `host_at_start` which state begins and ends the step on the host. The figures are those of the judge, which
    replays every plan.
    """

    def __init__(
        self,
        graph: Graph,
        handle: int,
        owner: object | None,
        link: Link | None,
        figures: Figures | None,
    ) -> None:
        """For the package itself: takes over a neap_plan, or borrows the one of its owner."""
        self._handle: int | None = handle
        self._owner = owner  # None: this object destroys the handle
        self.graph = graph
        self.link = link
        self._figures = figures or self._judged_figures()

    def __del__(self) -> None:
        handle, self._handle = getattr(self, "_handle", None), None
        if handle and getattr(self, "_owner", None) is None and lib is not None:
            lib.neap_plan_destroy(handle)

    # ---- Files ----

    @classmethod
    def from_json(
        cls, text: str | bytes, graph: Graph, link: Link | None = None, source: str = "plan"
    ) -> Plan:
        """Reads a plan from JSON text; it must be a valid plan of the graph."""
        data = text.encode(errors="surrogatepass") if isinstance(text, str) else bytes(text)
        handle = ctypes.c_void_p()
        name = source.encode(errors="replace").replace(b"\0", b"?")
        call(lib.neap_plan_read_text, None, data, len(data), name, byref(handle))
        return cls._taken(graph, handle, link)

    @classmethod
    def read(cls, path: str | os.PathLike[str], graph: Graph, link: Link | None = None) -> Plan:
        """Reads a plan file, as `neap plan -o` and Plan.write write them.

        A plan with transfers needs the link that it was made for. Raises InvalidError if the judge
        rejects the plan on this graph.
        """
        handle = ctypes.c_void_p()
        call(lib.neap_plan_read_file, None, path_bytes(path), byref(handle))
        return cls._taken(graph, handle, link)

    @classmethod
    def from_steps(
        cls,
        graph: Graph,
        steps: Iterable[tuple[Any, ...]],
        *,
        budget: int | None = None,
        method: str = "python",
        link: Link | None = None,
        in_place: Iterable[int] = (),
        host_at_start: Iterable[int] = (),
    ) -> Plan:
        """Makes a plan of steps like those of `steps`; it must be a valid plan of the graph.

        `in_place` and `host_at_start` are as the properties of these names.
        """
        inside = set(in_place)
        fields: dict[str, Any] = {
            "neap": "plan",
            "version": 1,
            "graph": graph.name,
            "method": method,
            "steps": [_step_fields(step, i in inside) for i, step in enumerate(steps)],
        }
        away = list(host_at_start)
        if away:
            fields["host_at_start"] = away
        if budget is not None:
            fields["budget_bytes"] = parse_bytes(budget)
        try:
            text = json.dumps(fields)
        except (TypeError, ValueError) as error:
            raise errors.InvalidError(f"these steps are not a plan: {error}") from None
        return cls.from_json(text, graph, link, source="steps")

    @classmethod
    def _taken(cls, graph: Graph, handle: ctypes.c_void_p, link: Link | None) -> Plan:
        if handle.value is None:
            raise errors.InternalError("the library returned no plan")
        return cls(graph, handle.value, None, link, None)

    def to_json(self) -> str:
        """The text of the plan file."""
        return take_text(lib.neap_plan_write_text, self._handle, None)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the plan file, which `neap check` and `neap train --plan` read."""
        call(lib.neap_plan_write_file, self._handle, path_bytes(path))

    # ---- The program ----

    @cached_property
    def steps(self) -> list[tuple[str, int, int]]:
        """The steps as (kind, id, variant); the id is an op for "compute", else a value."""
        return [(_KINDS[kind], what, variant) for kind, what, variant, _ in self._raw_steps()]

    @cached_property
    def in_place(self) -> frozenset[int]:
        """The positions in `steps` of the computations that run in place.

        Such a step writes an output over an input, as the op's `in_place` field in the graph says;
        the input is gone then and has no step that frees it.
        """
        return frozenset(i for i, step in enumerate(self._raw_steps()) if step[3])

    def _raw_steps(self) -> Iterator[tuple[int, int, int, bool]]:
        """The fields of each neap_step."""
        count = lib.neap_plan_step_count(self._handle)
        if count == 0:
            return iter(())
        size = count * ctypes.sizeof(c.Step)
        return struct.iter_unpack("iII?3x", ctypes.string_at(lib.neap_plan_steps(self._handle), size))

    @property
    def host_at_start(self) -> list[int]:
        """The state values that are on the host, and not on the device, when the step begins and ends."""
        count = ctypes.c_size_t()
        values = lib.neap_plan_host_at_start(self._handle, byref(count))
        return values[: count.value] if values else []

    @cached_property
    def peak_parts(self) -> MemoryParts:
        """What the peak is made of; graph.natural_peak_parts has the same without a plan."""
        return parts_of(self.graph, self._handle)

    @property
    def offsets(self) -> list[int] | None:
        """The address of each storage instance in the arena (docs/formats.md); None: none."""
        count = ctypes.c_size_t()
        address = lib.neap_plan_offsets(self._handle, byref(count))
        if not address:
            return None
        return (ctypes.c_int64 * count.value).from_address(address)[:]

    @property
    def method(self) -> str:
        """The method that made the plan."""
        return lib.neap_plan_method(self._handle).decode()

    @property
    def budget(self) -> int | None:
        """The budget in bytes; None: none."""
        budget = lib.neap_plan_budget(self._handle)
        return None if budget < 0 else budget

    # ---- What it costs ----

    @property
    def peak(self) -> int:
        """Bytes in use at the highest point: inputs, live values, workspace, fixed bytes."""
        return self._figures.peak

    @property
    def arena(self) -> int | None:
        """Bytes from the lowest to the highest address; None: the plan has no addresses."""
        return self._figures.arena

    @property
    def time(self) -> float:
        """Predicted seconds of the step."""
        return self._figures.time

    @property
    def base_time(self) -> float:
        """Seconds of one run of every op."""
        return self.graph.base_time

    @property
    def overhead(self) -> float:
        """time / base_time - 1: 0.05 is 5% slower than one run of every op."""
        return self.time / self.base_time - 1 if self.base_time > 0 else 0.0

    @property
    def bound_time(self) -> float | None:
        """Proven: no plan within the budget is faster. None for a plan from a file."""
        return self._figures.bound_time

    @property
    def bound_scope(self) -> str | None:
        """The plans for which the bound is proven: "any" is all."""
        return self._figures.bound_scope

    @property
    def gap(self) -> float | None:
        """time / bound_time - 1: the plan is at most this much slower than the best one."""
        return self._figures.gap

    @property
    def outcome(self) -> str | None:
        """How it ended: "optimal", "feasible", "time_limit", "interrupted"; None for a file."""
        return self._figures.outcome

    @property
    def message(self) -> str:
        """A remark of the solver, or ""."""
        return self._figures.message

    @property
    def recomputed_ops(self) -> int:
        """The number of computations beyond the first one of each op."""
        return self._figures.recomputed_ops

    @property
    def offloaded_bytes(self) -> int:
        """Bytes copied to the host."""
        return self._figures.offloaded_bytes

    @property
    def solve_seconds(self) -> float | None:
        """Seconds that planning took; None for a plan from a file."""
        return self._figures.solve_seconds

    # ---- The judge, the timeline, addresses ----

    def check(self, budget: int | str | None = None, link: Link | None = None) -> Verdict:
        """Lets the judge replay the plan.

        `budget` (bytes or text) defaults to the plan's own, `link` to the one it was made for. A
        rejected plan is a false verdict with a reason.
        """
        options = c.CheckOptions()
        lib.neap_check_options_init(byref(options))
        if budget is not None:
            options.budget = parse_bytes(budget)
        used = link or self.link
        if used is not None:
            options.link = ctypes.pointer(used._to_c())
        verdict = c.Verdict()
        call(lib.neap_check, None, self.graph._handle, self._handle, byref(options), byref(verdict))
        return _verdict(verdict)

    def _judged_figures(self) -> Figures:
        verdict = self.check(budget=2**63 - 1)
        if not verdict:
            raise errors.InvalidError(f"not a plan of {self.graph.name}: {verdict.reason}")
        return Figures(
            peak=verdict.peak,
            time=verdict.time,
            recomputed_ops=verdict.recomputed_ops,
            offloaded_bytes=verdict.offloaded_bytes,
            arena=verdict.arena,
        )

    def timeline(self) -> list[TimelineStep]:
        """Time and memory of each step, in the order of `steps`."""
        with self._c_timeline() as line:
            numbers = ctypes.cast(line.steps, ctypes.POINTER(ctypes.c_int64))[: 4 * line.n_steps]
        ticks = lib.neap_graph_seconds(self.graph._handle, 10**15) / 1e15
        return [
            TimelineStep(begin * ticks, end * ticks, live, after)
            for begin, end, live, after in zip(*(numbers[i::4] for i in range(4)))
        ]

    @contextmanager
    def _c_timeline(self) -> Iterator[c.Timeline]:
        line = c.Timeline()
        link = byref(self.link._to_c()) if self.link else None
        call(lib.neap_timeline_build, None, self.graph._handle, self._handle, link, byref(line))
        try:
            yield line
        finally:
            lib.neap_timeline_clear(byref(line))

    def chart(self, width: int = 72, height: int = 12, color: bool = False) -> str:
        """Memory over time as text, with recomputations marked below: `print(plan.chart())`.

        It is the chart of `neap plan --chart`; width and height are those of the plot.
        """
        options = c.ChartOptions()
        lib.neap_chart_options_init(byref(options))
        options.width, options.height, options.color = int(width), int(height), bool(color)
        options.budget = -1 if self.budget is None else self.budget
        options.natural_peak = self.graph.natural_peak
        draw, graph = lib.neap_report_memory_chart, self.graph._handle
        with self._c_timeline() as line:
            return take_text(draw, None, graph, self._handle, byref(line), byref(options))

    def report(
        self, path: str | os.PathLike[str], others: Iterable[Plan] = (), title: str | None = None
    ) -> None:
        """Writes a report on the plan as one HTML file, as `neap plan --report` does.

        `others` are plans of the same graph to compare it with, such as those of `neap.curve`. The
        step without a plan is always there. An old file is replaced in one step.
        """
        plans = [self, *others]
        for plan in plans:
            if not isinstance(plan, Plan) or plan.graph is not self.graph:
                raise errors.InvalidError(f"{plan!r} is not a plan of this graph")
        rows = (c.ReportPlan * len(plans))(*(plan._report_row() for plan in plans))
        op = ctypes.c_uint32()
        report = c.Report(graph=self.graph._handle, n_plans=len(plans), plans=rows)
        report.floor_bytes = lib.neap_graph_floor_bytes(self.graph._handle, byref(op))
        report.floor_op = op.value
        if title is not None:
            report.title = c.text_bytes(title, "title")
        link = next((plan.link for plan in plans if plan.link), None)
        if link is not None:
            report.link = ctypes.pointer(link._to_c())
        page = take_text(lib.neap_report_html, None, byref(report)).encode()
        call(lib.neap_file_replace, path_bytes(path), page, len(page))

    def _report_row(self) -> c.ReportPlan:
        bound = -1.0 if self.bound_time is None else self.bound_time
        status = None if self.outcome is None else self.outcome.encode()
        scope = None if self.bound_scope is None else self.bound_scope.encode()
        return c.ReportPlan(self._handle, status, self.message.encode(), bound, scope)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}\n\n{html.escape(self.chart())}</pre>"

    def assign_addresses(self, alignment: int = 1, target: int | None = None) -> Plan:
        """A copy of the plan whose addresses are multiples of `alignment`.

        The arena is as small as the library can make it; it stops at `target` bytes.
        """
        options = c.LayoutOptions()
        lib.neap_layout_options_init(byref(options))
        options.alignment = int(alignment)
        if target is not None:
            options.target = parse_bytes(target)
        handle = ctypes.c_void_p()
        text = self.to_json().encode()
        call(lib.neap_plan_read_text, None, text, len(text), b"plan", byref(handle))
        try:
            call(lib.neap_layout_assign, None, self.graph._handle, handle, byref(options))
        except BaseException:
            lib.neap_plan_destroy(handle)
            raise
        arena = lib.neap_plan_arena_bytes(handle)
        figures = self._figures._replace(arena=None if arena < 0 else arena)
        return Plan(self.graph, handle.value or 0, None, self.link, figures)

    def __repr__(self) -> str:
        budget = "no budget" if self.budget is None else f"budget {format_bytes(self.budget)}"
        return (
            f"<neap.Plan of {self.graph.name!r} by {self.method}: {budget}, "
            f"peak {format_bytes(self.peak)}, {format_seconds(self.time)} "
            f"({self.overhead:+.2%}), {self.recomputed_ops} "
            f"recomputation{'' if self.recomputed_ops == 1 else 's'}>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self.to_json(), self.graph, self.link, self._figures)


def _step_fields(step: tuple[Any, ...], in_place: bool) -> list[Any]:
    """A step as in a plan file."""
    if step[0] != "compute":
        return list(step[:2])
    variant = step[2] if len(step) > 2 else 0
    return [*step[:2], variant, "in_place"] if in_place else list(step[:3])


def _unpickle(text: str, graph: Graph, link: Link | None, figures: Figures) -> Plan:
    plan = Plan.from_json(text, graph, link)
    plan._figures = figures
    return plan


def _verdict(verdict: c.Verdict) -> Verdict:
    return Verdict(
        accepted=verdict.accepted,
        reason=verdict.reason.decode(errors="replace"),
        step=None if verdict.accepted or verdict.step >= 2**63 else verdict.step,
        peak=verdict.peak_bytes,
        peak_step=verdict.peak_step,
        time=verdict.time,
        recomputed_ops=verdict.recomputed_ops,
        offloaded_bytes=verdict.offloaded_bytes,
        host_bytes=verdict.host_bytes,
        arena=verdict.arena_bytes if verdict.has_arena else None,
    )
