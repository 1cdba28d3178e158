"""Where the memory of a training step goes, and what a budget costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import errors, planning
from ..graph import Graph
from ..plans import Link, Plan
from ..text import resolve_budget
from .capture import Captured, Loss, link_of, module_path, place, trace
from .explain_svg import figure
from .explain_text import describe
from .joint import Unit, op_type
from .plans import Request, keep_lowest, make_plan
from .progress import Meter

__all__ = ["Explanation", "Holder", "Peak", "Point", "Recomputed", "explain"]

HOLDERS = 5  # in the list of what holds most of the peak
DENSITY = 1.5  # above 1: budgets of the curve are closer to each other where they are small
WORTHWHILE = 1 / 3  # the most overhead of a suggestion: a second forward pass


def explain(model: Callable, *inputs: Any, budget: int | str | None = None, loss: Loss | None = None,
            kernels: str | None = None, offload: bool | Link = False, measure: bool = True, points: int = 8,
            time_limit: float = 20.0, **kwargs: Any) -> "Explanation":
    """Says what makes the peak of a training step of `model(*inputs, **kwargs)`, and what less memory costs.

        print(neap.torch.explain(model, images))                    # in a terminal
        neap.torch.explain(model, images, budget="6GiB")            # in a notebook: a figure

    budget      describe the plan for this budget, too: what it recomputes. Bytes, "6GiB", or "50%" of the peak
                without a plan
    loss        as in neap.torch.capture: a function that reduces what the model returns to a loss
    kernels     "inductor" or "eager", as for neap.torch.backend. None: "inductor", but "eager" for a model on the
                meta device
    offload     as for neap.torch.backend
    measure     time ops on the device where their costs are not in the cache yet; False: estimate them
    points      budgets on the curve, from the least that works to the peak without a plan
    time_limit  seconds of planning for the curve

    The model is not run. Make the optimizer first, so that its state is counted.

        e = neap.torch.explain(model, images)
        e.peak.bytes, e.peak.parts      # bytes without a plan; what they are, by kind
        e.peak.holders                  # the modules that hold most of them
        e.least_budget, e.suggestion    # the least budget that works; the point of the curve to take
        [(p.budget, p.peak, p.overhead) for p in e.curve]
        e.write_svg("curve.svg")

    Raises what neap.torch.capture raises, and InfeasibleError for a budget that cannot be met.
    """
    if points < 2:
        raise errors.InvalidError(f"points is {points}; a curve has at least 2")
    with Meter() as meter:
        step = trace(model, inputs, kwargs, loss=loss, kernels=kernels, measure=measure, progress=meter.measuring)
        return _explain(step, budget, link_of(offload, step.device), points, time_limit, meter)


# ---- what an explanation is made of ----


@dataclass(frozen=True)
class Holder:
    """A module whose tensors are in memory at the peak."""

    name: str  # of the module; of the op outside of modules
    bytes: int
    op: str  # type of the op that made the largest tensor
    line: str  # file.py:line of that op, or ""


@dataclass(frozen=True)
class Peak:
    """The moment of a step at which it needs most memory."""

    bytes: int
    parts: dict[str, int]  # kind -> bytes, the largest first; they add up to `bytes`
    op: str  # that runs then
    module: str
    line: str
    backward: bool  # in the backward pass
    holders: tuple[Holder, ...]


@dataclass(frozen=True)
class Point:
    """A budget and its plan."""

    budget: int
    plan: Plan = field(repr=False)

    @property
    def peak(self) -> int:
        return self.plan.peak

    @property
    def time(self) -> float:
        """Predicted seconds of a step."""
        return self.plan.time

    @property
    def overhead(self) -> float:
        """0.05: 5% slower than without a plan."""
        return self.plan.overhead


@dataclass(frozen=True)
class Recomputed:
    """A module, the extra runs of its ops, and the seconds they take."""

    name: str
    runs: int
    seconds: float
    line: str


@dataclass(frozen=True)
class Explanation:
    """What neap.torch.explain found. print() it, or let a notebook show it."""

    name: str
    kernels: str
    device: str
    graph: Graph = field(repr=False)
    measured: bool
    time: float  # seconds of a step without a plan
    peak: Peak
    least_budget: int
    least_op: str | None  # the op that needs it
    curve: tuple[Point, ...]  # from the least budget to the peak without a plan
    suggestion: Point
    optimizer_hint: int  # bytes of trained parameters that no optimizer has yet
    budget: int | None = None
    plan: Plan | None = field(default=None, repr=False)  # for the budget
    plan_peak: Peak | None = None
    recomputed: tuple[Recomputed, ...] = ()  # what the plan runs again, by module

    def __str__(self) -> str:
        return describe(self)

    def _repr_svg_(self) -> str:
        return figure(self)

    def _repr_html_(self) -> str:
        return f'<div style="max-width:800px">{figure(self, inherit=True)}</div>'

    def svg(self) -> str:
        """The figure as the text of an SVG file."""
        return figure(self)

    def write_svg(self, path: str) -> None:
        """Writes the figure to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(figure(self))


# ---- making one ----


def _explain(step: Captured, budget: int | str | None, link: Link | None, points: int, time_limit: float,
             meter: Meter) -> Explanation:
    graph = step.graph()
    natural = planning.plan(graph, None, method="store-all", in_place=False)
    peak = _peak(step, natural)
    wanted = None if budget is None else resolve_budget(graph, budget)
    plan = None
    if wanted is not None:
        meter.say("planning for the budget")
        plan = make_plan(step.joint, step.name, Request(wanted, link=link, alignment=step.alignment))
    least, least_op = _least(step, graph, link, time_limit / 4, meter)
    curve = _curve(step, graph, least, link, points, time_limit, meter)
    return Explanation(
        name=step.name, kernels=step.kernels, device=_device_name(step), graph=graph,
        measured=step.measured, time=graph.base_time, peak=peak, least_budget=least, least_op=least_op, curve=curve,
        suggestion=knee(curve), optimizer_hint=step.untouched_bytes, budget=wanted, plan=plan,
        plan_peak=_peak(step, plan) if plan else None, recomputed=_recomputed(step, plan) if plan else ())


def _least(step: Captured, graph: Graph, link: Link | None, time_limit: float, meter: Meter) -> tuple[int, str | None]:
    """The least budget with a known plan, and the op that needs it."""
    meter.say("looking for the least budget")
    pins = step.joint.pins()
    plan = planning.plan(graph, None, objective="peak", time_limit=time_limit, pins=pins, link=link,
                         alignment=step.alignment, in_place=False, state="device", progress=meter.planning)
    keep_lowest(plan, pins, Request(None, link=link, alignment=step.alignment))
    return max(plan.peak, plan.arena or 0), _name_of(step, plan.check().peak_step, plan)


def _name_of(step: Captured, position: int, plan: Plan) -> str | None:
    kind, op, _ = plan.steps[position]
    return _unit_name(step.joint.units[op]) if kind == "compute" else None


def _curve(step: Captured, graph: Graph, least: int, link: Link | None, points: int, time_limit: float,
           meter: Meter) -> tuple[Point, ...]:
    most = max(graph.natural_arena(step.alignment), least)
    budgets = sorted({least + int((most - least) * (i / (points - 1)) ** DENSITY) for i in range(points)})
    plans = planning.curve(graph, budgets, time_limit=time_limit, gap=0.001, pins=step.joint.pins(),
                           link=link, alignment=step.alignment, in_place=False, state="device",
                           progress=meter.planning)
    return tuple(Point(budget, plan) for budget, plan in zip(budgets, plans) if plan is not None)


def knee(curve: Sequence[Point]) -> Point:
    """The point that saves most memory for its time: the farthest below the line between the ends of the curve.

    Points slower than a second forward pass are not looked at, if there are others.
    """
    if not curve:
        raise errors.Interrupted("no plan was found in the time; give explain a larger time_limit")
    curve = [point for point in curve if point.overhead <= WORTHWHILE] or curve[-1:]
    first, last = curve[0], curve[-1]
    width, height = last.budget - first.budget, first.time - last.time
    if width <= 0 or height <= 0:
        return first
    return max(curve, key=lambda p: (last.budget - p.budget) / width - (p.time - last.time) / height)


def _device_name(step: Captured) -> str:
    import torch

    if step.device.type == "cuda" and torch.cuda.is_available():
        return torch.cuda.get_device_name(step.device)
    return "H200" if step.device.type == "cuda" else step.device.type.upper()


# ---- the peak ----


def _peak(step: Captured, plan: Plan) -> Peak:
    """What is in memory at the peak of a plan."""
    verdict = plan.check()
    live, unit, workspace = _replay(step, plan, verdict.peak_step)
    results = set(step.joint.output_values())
    parts: Counter[str] = Counter()
    for value in live:
        parts[_kind(step, value, results)] += step.joint.values[value].bytes
    parts.update({"workspace": workspace, "optimizer state": step.state_bytes, "other": step.other_bytes})
    node = unit.nodes[0] if unit is not None and unit.nodes else None
    return Peak(bytes=verdict.peak, parts={k: v for k, v in parts.most_common() if v > 0},
                op=op_type(unit) if unit else "", module=module_path(node), line=place(node),
                backward=bool(unit and unit.backward), holders=_holders(step, live))


def _replay(step: Captured, plan: Plan, last: int) -> tuple[list[int], Unit | None, int]:
    """The storages that are live while step `last` of the plan runs, the unit that runs, and its workspace."""
    joint = step.joint
    made = {value for unit in joint.units for value in unit.outputs}
    there = {value.id for value in joint.values} - made
    unit, workspace = None, 0
    for kind, what, variant in plan.steps[: last + 1]:
        if kind == "compute":
            unit = joint.units[what]
            there.update(unit.outputs)
            workspace = unit.variants[variant - 1][2] if variant else unit.workspace
        else:
            unit, workspace = None, 0
            (there.add if kind == "prefetch" else there.discard if kind == "free" else _keep)(what)
    return sorted({_owner(joint.values, v) for v in there if v < len(joint.values)}), unit, workspace


def _keep(_: int) -> None:
    """An offload leaves its value in memory until it is freed."""


def _owner(values: Sequence[Any], value: int) -> int:
    while values[value].view_of is not None:
        value = values[value].view_of
    return value


KINDS = {"parameter": "parameters", "input": "inputs and buffers", "activation": "activations"}


def _kind(step: Captured, value: int, results: set[int]) -> str:
    kind = step.joint.values[value].kind
    if kind == "gradient":
        return "parameter gradients" if value in results else "activation gradients"
    return KINDS.get(kind, kind)


def _holders(step: Captured, live: Iterable[int]) -> tuple[Holder, ...]:
    """The modules that made most of the bytes, gradients of parameters and inputs of the step aside."""
    maker = {value: unit for unit in step.joint.units for value in unit.outputs if unit.nodes}
    results = set(step.joint.output_values())
    groups: dict[str, list[int]] = {}
    for value in live:
        if value in maker and not (maker[value].backward and value in results):
            groups.setdefault(_unit_name(maker[value]), []).append(value)
    size = lambda value: step.joint.values[value].bytes  # noqa: E731
    largest = sorted(groups.items(), key=lambda item: -sum(map(size, item[1])))[:HOLDERS]
    found = []
    for name, values in largest:
        unit = maker[max(values, key=size)]
        found.append(Holder(name, sum(map(size, values)), op_type(unit), place(unit.nodes[0])))
    return tuple(holder for holder in found if holder.bytes > 0)


def _unit_name(unit: Unit) -> str:
    return (module_path(unit.nodes[0]) if unit.nodes else "") or unit.name


# ---- recomputation ----


def _recomputed(step: Captured, plan: Plan) -> tuple[Recomputed, ...]:
    """The modules whose ops run again, those that take the longest first."""
    seen: set[int] = set()
    runs: Counter[str] = Counter()
    seconds: dict[str, float] = {}
    lines: dict[str, str] = {}
    for kind, op, variant in plan.steps:
        if kind != "compute":
            continue
        unit = step.joint.units[op]
        if op in seen:
            name = _unit_name(unit)
            runs[name] += 1
            took = unit.variants[variant - 1][1] if variant else unit.seconds
            seconds[name] = seconds.get(name, 0.0) + took
            lines.setdefault(name, place(unit.nodes[0]) if unit.nodes else "")
        seen.add(op)
    return tuple(Recomputed(name, runs[name], took, lines[name]) for name, took in
                 sorted(seconds.items(), key=lambda item: -item[1]))
