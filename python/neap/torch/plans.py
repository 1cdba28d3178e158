"""Plans for captured graphs: made once, kept in memory and on disk, the same on every rank."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from .. import __version__, errors, planning
from ..graph import Graph
from ..plans import Link, Plan
from . import ranks
from .cost_cache import cache_folder
from .joint import JointGraph
from .program import first_runs
from .refusals import explained


@dataclass(frozen=True)
class Request:
    """What a plan depends on besides its graph."""

    budget: int | str | None
    link: Link | None = None
    time_limit: float = 10.0
    gap: float = 0.001
    alignment: int = 1
    cache: bool = True
    objective: str = "time"
    search_least: bool = True  # if no plan fits; otherwise the answer is no more than no

    def key(self, text: str) -> str:
        return _digest(text, repr((self.budget, self.link, self.time_limit, self.gap, self.alignment, self.objective)))

    def low_key(self, graph: Graph, pins: list[tuple[str, str]]) -> str:
        """Of the plan with the least peak: it does not depend on times. Its addresses depend on what else is
        resident."""
        parts = graph.to_dict()
        for op in parts["ops"]:
            op.pop("time", None)
        return _digest("least", json.dumps([parts.get(k) for k in ("fixed_bytes", "values", "ops", "outputs")]), repr(pins),
                       repr((self.link, self.alignment)))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join((__version__, *parts)).encode()).hexdigest()


_plans: dict[str, str] = {}  # key -> the plan file's text
_NO_PLAN = "no plan: "  # in place of a plan file's text, before the reason


def make_plan(joint: JointGraph, name: str, request: Request) -> Plan:
    """A plan whose first runs keep the order of random ops and of ops with side effects."""
    try:
        return _make_plan(joint, name, request)
    except errors.InfeasibleError as error:
        raise explained(error, joint) from None


def _make_plan(joint: JointGraph, name: str, request: Request) -> Plan:
    pins = joint.pins()
    ordered = [unit.id for unit in joint.units if unit.random or (unit.once and unit.nodes and not unit.renames)]
    plan = _plan_together(joint.describe(name), pins, request)
    if _keeps_order(plan, ordered) and _keeps_pairs(plan, joint):
        return plan
    return _plan_together(joint.describe(name, ordered), pins, request)


def fitting(plan: Plan, joint: JointGraph, request: Request) -> Plan | None:
    """A plan that was made for other surroundings of the same graph, if it fits these."""
    try:
        same = Plan.from_json(plan.to_json(), joint.describe(plan.graph.name), link=request.link)
    except errors.NeapError:
        return None
    return same if same.check(budget=request.budget) and need(same) <= request.budget else None


def need(plan: Plan) -> int:
    """The budget that a plan fits, addresses included."""
    return max(plan.peak, plan.arena or 0)


def least_bytes(joint: JointGraph) -> int:
    """Proven: no plan needs less."""
    return joint.describe("").floor.bytes


def kept_bytes(plan: Plan, joint: JointGraph) -> int:
    """Bytes in memory between the passes besides inputs and what is always there: what the forward pass returns and
    saves."""
    border = next(i for i, step in enumerate(plan.steps) if step[0] == "compute" and step[1] == joint.boundary)
    tangents = sum(joint.values[v].bytes for v in joint.units[joint.boundary].outputs)
    inputs = sum(v.bytes for v in joint.values if v.kind in ("parameter", "input"))
    return plan.timeline()[border].after_bytes - tangents - inputs - joint.fixed_bytes - joint.later_bytes


def _keeps_order(plan: Plan, ordered: Sequence[int]) -> bool:
    wanted = set(ordered)
    return [op for op in first_runs(plan) if op in wanted] == list(ordered)


def _keeps_pairs(plan: Plan, joint: JointGraph) -> bool:
    position = {op: i for i, op in enumerate(first_runs(plan))}
    return all(position[before] < position[unit.id] for unit in joint.units for before in unit.after)


def _plan_together(graph: Graph, pins: list[tuple[str, str]], request: Request) -> Plan:
    """On several ranks the first one plans, and all run its plan."""
    if not ranks.several():
        return _plan_here(graph, pins, request)
    parts = graph.to_dict()
    shape = hashlib.sha256(json.dumps([parts["values"], parts["outputs"]]).encode()).hexdigest()
    if len(set(ranks.gather(shape))) > 1:
        raise errors.UnsupportedError("the ranks captured different graphs; give every rank inputs of the same shape")
    text = ranks.from_first(lambda: _plan_here(graph, pins, request).to_json())
    return Plan.from_json(text, graph, link=request.link)


def _plan_here(graph: Graph, pins: list[tuple[str, str]], request: Request) -> Plan:
    key = request.key(graph.to_json() + repr(pins))
    found = _kept(key, graph, request)
    if found is not None:
        return found
    refused = None if request.search_least else _text(key, request)
    if refused is not None and refused.startswith(_NO_PLAN):
        raise errors.InfeasibleError(refused.removeprefix(_NO_PLAN), budget=request.budget, is_proven=False)
    low = None if request.budget is None else _kept(request.low_key(graph, pins), graph, request)
    try:
        plan = planning.plan(graph, request.budget, time_limit=request.time_limit, gap=request.gap, pins=pins,
                             link=request.link, alignment=request.alignment, objective=request.objective, start=low,
                             in_place=False, state="device", search_least=request.search_least)
    except errors.InfeasibleError as error:
        if error.least_plan is not None:
            keep_lowest(error.least_plan, pins, request)
        if low is None:
            if not request.search_least:
                _keep(key, f"{_NO_PLAN}{error}", request)
            raise
        plan = low
    _keep(key, plan.to_json(), request)
    return plan


def keep_lowest(plan: Plan, pins: list[tuple[str, str]], request: Request) -> None:
    """Remembers a plan whose peak was called the least that works, so that this budget does work when asked for."""
    _keep(request.low_key(plan.graph, pins), plan.to_json(), request)


def _kept(key: str, graph: Graph, request: Request) -> Plan | None:
    """The plan in memory or on disk under a key, if it is one of this graph in this budget."""
    text = _text(key, request)
    if text is None or text.startswith(_NO_PLAN):
        return None
    try:
        plan = Plan.from_json(text, graph, link=request.link)
    except errors.NeapError as error:
        warnings.warn(f"neap: the plan in the cache is not used: {error}", stacklevel=2)
        return None
    if request.budget is not None and not plan.check(budget=request.budget):
        return None
    _plans[key] = text
    return plan


def _text(key: str, request: Request) -> str | None:
    return _plans.get(key) or (_read(key) if request.cache else None)


def _keep(key: str, text: str, request: Request) -> None:
    _plans[key] = text
    if request.cache:
        _write(key, text)


def _path(key: str) -> str | None:
    folder = cache_folder()
    return os.path.join(folder, "plans", f"{key[:32]}.json") if folder else None


def _read(key: str) -> str | None:
    path = _path(key)
    try:
        with open(path or os.devnull, encoding="utf-8") as file:
            return file.read() or None
    except (OSError, UnicodeDecodeError):
        return None


def _write(key: str, text: str) -> None:
    """Replaces the file at once; a folder that cannot be written only costs the next run its time."""
    path = _path(key)
    if path is None:
        return
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=os.path.dirname(path), delete=False) as file:
            file.write(text)
        os.replace(file.name, path)
    except OSError as error:
        warnings.warn(f"neap: plans are not kept on disk: {error}", stacklevel=2)
