"""Why there is no plan, and the least budget that has one."""

from __future__ import annotations

import math
import time

from . import errors
from ._library import NONE
from ._requests import Listener, Request, Solution, plan_of, solve
from .methods import methods
from .plans import Plan
from .text import format_bytes

SECONDS = 5.0  # for the search for the least budget
LARGE = 300  # ops; the peak of a smaller graph is soon minimized
CLOSE = 1.01  # of the floor: low enough
ANY_PLAN = 1e6  # a gap that every plan meets
FIRST_METHODS = ("rotor", "greedy")  # quick, and on most graphs good; the search starts from them


def no_plan(
    request: Request, solution: Solution, low: Plan | None = None, search_least: bool = True
) -> errors.NeapError:
    """The exception for a solution without a plan. low: a plan with a low peak, if one is known."""
    if solution.outcome == "interrupted":
        return errors.Interrupted(
            f"{request.method} was stopped before it had found a plan; give it more time, "
            "a larger budget, or try another method"
        )
    f, graph = solution.figures, request.graph
    is_proven = solution.outcome == "infeasible"
    budget = "" if request.budget is None else f" in {format_bytes(request.budget)}"
    message = (
        solution.message
        if is_proven
        else f"{request.method} found no plan{budget} within the time limit"
    )
    least = f.least_budget if f.least_budget > 0 else None
    op = graph.op_name(f.blocking_op) if least and f.blocking_op != NONE else None
    lowest = None
    if least is not None:  # the message has it, rounded
        message += f"; {least} bytes work"
    elif search_least:
        lowest = low or lowest_plan(request)
        least, op = (_need(lowest), _op_at_peak(lowest)) if lowest else (None, None)
        where = f' (op "{op}")' if op else ""
        if least is not None:
            message += f"; the least known to work is {least} bytes, {format_bytes(least)}{where}"
    return errors.InfeasibleError(
        message,
        budget=request.budget,
        floor=f.floor_bytes,
        floor_op=None if f.floor_op == NONE else graph.op_name(f.floor_op),
        least_budget=least,
        least_plan=lowest,
        op=op,
        is_proven=is_proven,
    )


def known_plan(request: Request) -> Plan | None:
    """A plan in the budget that a search for the least one made before: what was said to work does."""
    low = request.graph._low_plans.get(_search_key(request)) if request.method == "neap" else None
    fits = low is not None and request.budget is not None and _need(low) <= request.budget
    return low if fits else None


def _search_key(request: Request) -> str:
    return repr((request.link, request.pins, request.alignment))


def from_quick_plan(request: Request, progress: Listener | None) -> Solution | None:
    """What the method makes of the plan of a quick one, if it could not find any in its time."""
    large = request.graph.op_count > LARGE  # for which the quick methods are not quick
    if large or request.pins or request.start or not _takes_constraints(request.method):
        return None
    start = min(_quick_plans(request), key=lambda plan: plan.time, default=None)
    return solve(request._replace(start=start), progress) if start else None


def _takes_constraints(method: str) -> bool:
    return any(m.name == method and m.takes_constraints for m in methods())


def _quick_plans(request: Request) -> list[Plan]:
    """The plans of the quick methods within the budget."""
    found = []
    for method in FIRST_METHODS:
        asked = request._replace(
            method=method, time_limit=SECONDS / 5, objective="time", options=(), gap=0.0, start=None
        )
        try:
            solution = solve(asked)
        except errors.UnsupportedError:
            continue
        if solution.has_plan:
            found.append(plan_of(asked, solution))
    return found


def from_low_plan(request: Request) -> tuple[Solution | None, Plan | None]:
    """What the method makes of a plan with a low peak, if it could not find any in its time; and that plan."""
    if request.budget is None or request.start or request.method != "neap":
        return None, None
    lowest = lowest_plan(request)
    if lowest is None or _need(lowest) > request.budget:
        return None, lowest
    return solve(request._replace(start=lowest)), lowest


def lowest_plan(request: Request) -> Plan | None:
    """The plan with the least peak that a short search finds; the graph keeps it."""
    known = request.graph._low_plans
    key = _search_key(request)
    if key in known:
        return known[key]
    plain = request._replace(
        budget=None, time_limit=SECONDS / 2, gap=0.0, threads=0, options=(), start=None, method="neap"
    )
    large = request.graph.op_count > LARGE
    found = [low_plan(plain, SECONDS if large else SECONDS / 2)]
    if found[0] is None or (not large and _need(found[0]) > request.graph.floor.bytes):
        search = solve(plain._replace(objective="peak", start=found[0]))
        found.append(plan_of(plain, search) if search.has_plan else None)
    lowest = min((plan for plan in found if plan is not None), key=_need, default=None)
    if lowest is not None:
        known[key] = lowest
    return lowest


def _op_at_peak(plan: Plan) -> str | None:
    kind, op, _ = plan.steps[plan.check(budget=2**63 - 1).peak_step]
    return plan.graph.op_name(op) if kind == "compute" else None


def low_plan(request: Request, seconds: float, progress: Listener | None = None) -> Plan | None:
    """A plan with a low peak: for the least budget that is quickly met, found by halving intervals.

    On a large graph this is far lower than what minimizing the peak reaches in the same time.
    """
    quick = not request.pins and request.graph.op_count <= LARGE
    best = _low_plan(request) if quick else None
    end = time.monotonic() + seconds
    low = max(1, request.graph.floor.bytes)
    high = _need(best) if best else request.graph.natural_peak
    while high > CLOSE * low and time.monotonic() < end:
        middle = max(math.isqrt(low * high), high // 2)  # in steps: a budget that is met is met soon
        limit = max(0.6 * (end - time.monotonic()), 0.1)
        asked = request._replace(
            budget=middle, time_limit=limit, gap=ANY_PLAN, objective="time", start=None
        )
        solution = solve(asked, progress)
        if solution.outcome == "interrupted":
            break
        if solution.has_plan:
            best = plan_of(request, solution)
            high = min(_need(best), high - 1)
        else:
            low = middle
    return best


def _low_plan(request: Request) -> Plan | None:
    """The plan of a quick method at the least budget that it knows."""
    found = []
    for method in FIRST_METHODS:
        asked = request._replace(method=method, budget=max(1, request.graph.floor.bytes))
        try:
            solution = solve(asked._replace(time_limit=SECONDS / 5))
        except errors.UnsupportedError:
            continue
        least = solution.figures.least_budget
        found += _quick_plans(request._replace(budget=least if least > 0 else asked.budget))
    return min(found, key=_need, default=None)


def _need(plan: Plan) -> int:
    """The budget that the plan fits, addresses included."""
    return plan.peak if plan.arena is None else max(plan.peak, plan.arena)
