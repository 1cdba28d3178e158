"""Why there is no plan, and the least budget that has one."""

from __future__ import annotations

from . import errors
from ._library import NONE
from ._requests import Listener, Request, Solution, plan_of, solve
from .plans import Plan
from .text import format_bytes

SECONDS = 5.0  # for the search for the least budget
ANY_TIME = 1e9  # seconds: every plan is fast enough


def no_plan(
    request: Request,
    solution: Solution,
    search_least: bool = True,
    progress: Listener | None = None,
) -> errors.NeapError:
    """The exception for a solution without a plan, with the least budget that has one."""
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
        lowest = lowest_plan(request, progress)
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
    return repr((request.link, request.pins, request.alignment, request.state))


def from_low_plan(request: Request, progress: Listener | None) -> Solution | None:
    """What the method makes of a plan with a low peak, if it could not find any in its time."""
    if request.budget is None or request.start or request.method != "neap":
        return None
    lowest = lowest_plan(request, progress)
    if lowest is None or _need(lowest) > request.budget:
        return None
    return solve(request._replace(start=lowest), progress)


def lowest_plan(request: Request, progress: Listener | None = None) -> Plan | None:
    """The plan with the least peak that a short search finds; the graph keeps it."""
    known = request.graph._low_plans
    key = _search_key(request)
    if key in known:
        return known[key]
    asked = request._replace(
        method="neap",
        objective="peak",
        budget=None,
        time_limit=SECONDS,
        target_time=ANY_TIME,
        gap=0.0,
        threads=0,
        options=(),
        start=None,
    )
    solution = solve(asked, progress)
    if not solution.has_plan:
        return None
    lowest = plan_of(asked, solution)
    if solution.outcome != "interrupted":  # else a second search may find less
        known[key] = lowest
    return lowest


def _op_at_peak(plan: Plan) -> str | None:
    kind, op, _ = plan.steps[plan.check(budget=2**63 - 1).peak_step]
    return plan.graph.op_name(op) if kind == "compute" else None


def _need(plan: Plan) -> int:
    """The budget that the plan fits, addresses included."""
    return plan.peak if plan.arena is None else max(plan.peak, plan.arena)
