"""Planning: from a graph and a budget to a plan, or to a curve of plans."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from . import _library as c
from . import errors
from ._library import NONE, Diag, byref, lib, raise_status, text_bytes
from ._solving import Event, run_solver
from .graph import Graph
from .plans import Figures, Link, Plan
from .text import format_bytes, resolve_budget

__all__ = ["curve", "plan"]

Budget = str | int | float | None
Pins = Iterable[tuple[str, str]]
Listener = Callable[[Event], object]

_PIN_KINDS = {"keep": 0, "no-recompute": 1, "no-offload": 2}
_OBJECTIVES = {"time": 0, "peak": 1}
_INFEASIBLE = "infeasible"
LEAST_BUDGET_SECONDS = 5.0  # for the least budget that works, in the message of InfeasibleError


def plan(
    graph: Graph,
    budget: Budget = None,
    *,
    method: str = "neap",
    time_limit: float | None = None,
    gap: float | None = None,
    link: Link | None = None,
    pins: Pins = (),
    alignment: int = 1,
    seed: int | None = None,
    threads: int | None = None,
    objective: str = "time",
    options: Mapping[str, Any] | None = None,
    start: Plan | None = None,
    progress: Listener | None = None,
) -> Plan:
    """Plans a training step within a memory budget.

        plan = neap.plan(graph, "6GiB", time_limit=30)
        print(plan.peak, plan.overhead)

    budget      bytes as a number or text: 6442450944, "6GiB", "5e9", or "50%" of graph.natural_peak;
                None: no limit
    method      one of neap.methods()
    time_limit  seconds; the best plan found until then is returned
    gap         stop once the plan is proven within this fraction of the optimum: 0.01 is 1%
    link        a neap.Link to host memory, to allow transfers
    pins        constraints (kind, pattern) on values. Kinds: "keep" (in memory from its production
                to its last use), "no-recompute", "no-offload". The pattern matches names of values,
                or names of ops for all their outputs; it may contain * and ?
    alignment   addresses are multiples of this
    seed        of random numbers; the same seed gives the same plan
    threads     default: one per processor
    objective   "time": the fastest plan in the budget; "peak": the one that needs least memory
    options     of the method: {"name": value}
    start       a plan of this graph to start from
    progress    called with a neap.Event a few times a second; if it returns False, planning stops
                and returns the best plan so far

    Raises InfeasibleError if no plan fits, with the least budget that works; Interrupted if
    planning was stopped before it had a plan; InvalidError or UnsupportedError for a wrong request.
    Ctrl-C stops planning and raises KeyboardInterrupt.
    """
    request = _Request(
        graph=graph,
        method=method,
        budget=resolve_budget(graph, budget, alignment),
        time_limit=_positive(time_limit, "time_limit"),
        gap=_positive(gap, "gap"),
        link=link,
        pins=tuple(pins),
        alignment=alignment,
        seed=0 if seed is None else seed,
        threads=0 if threads is None else threads,
        objective=objective,
        options=tuple((options or {}).items()),
        start=start,
    )
    solution = _solve(request, progress)
    if solution.outcome == _INFEASIBLE:
        raise _infeasible(request, solution)
    return _plan_of(request, solution)


def curve(
    graph: Graph,
    budgets: Sequence[Budget] | int = 10,
    *,
    method: str = "neap",
    time_limit: float | None = None,
    gap: float | None = None,
    link: Link | None = None,
    pins: Pins = (),
    alignment: int = 1,
    seed: int | None = None,
    threads: int | None = None,
    options: Mapping[str, Any] | None = None,
    progress: Listener | None = None,
) -> list[Plan | None]:
    """Plans at many budgets: the trade-off between memory and time.

    `budgets` is a list, each as in neap.plan, or a number of budgets evenly spaced from the floor
    to the natural peak of the graph. The result has a plan for each budget, or None where no plan
    fits. A plan for a larger budget is never slower. `time_limit` covers the whole curve. The other
    arguments are those of neap.plan.
    """
    sizes = _curve_budgets(graph, budgets, alignment)
    request = _Request(
        graph=graph,
        method=method,
        budget=None,
        time_limit=_positive(time_limit, "time_limit"),
        gap=_positive(gap, "gap"),
        link=link,
        pins=tuple(pins),
        alignment=alignment,
        seed=0 if seed is None else seed,
        threads=0 if threads is None else threads,
        objective="time",
        options=tuple((options or {}).items()),
        start=None,
    )
    solutions = _solve_curve(request, sizes, progress)
    return [_plan_of(request, s) if s.has_plan else None for s in solutions]


def _curve_budgets(graph: Graph, budgets: Sequence[Budget] | int, alignment: int) -> list[int]:
    if isinstance(budgets, str):
        raise errors.InvalidError(f'budgets is "{budgets}"; give a list: ["{budgets}"]')
    if not isinstance(budgets, int):
        return [
            -1 if size is None else size
            for size in (resolve_budget(graph, budget, alignment) for budget in budgets)
        ]
    if budgets < 1:
        raise errors.InvalidError(f"a curve of {budgets} budgets; ask for at least 1")
    least, most = graph.floor.bytes, graph.natural_peak
    if budgets == 1:
        return [most]
    return [max(1, least + (most - least) * i // (budgets - 1)) for i in range(budgets)]


# ---- Requests ----


class _Request(NamedTuple):
    """The arguments of neap.plan, with the budget in bytes."""

    graph: Graph
    method: str
    budget: int | None
    time_limit: float
    gap: float
    link: Link | None
    pins: tuple[tuple[str, str], ...]
    alignment: int
    seed: int
    threads: int
    objective: str
    options: tuple[tuple[str, Any], ...]
    start: Plan | None


def _positive(number: float | None, what: str) -> float:
    if number is None:
        return 0.0
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise errors.InvalidError(f"{what} is {number!r}; it must be a number or None")
    if not (math.isfinite(number) and number > 0):
        raise errors.InvalidError(f"{what} is {number}; it must be above 0, or None for none")
    return float(number)


def _integer(number: Any, what: str, least: int, most: int) -> int:
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise errors.InvalidError(f"{what} is {number!r}; it must be an integer")
    number = number.__index__()
    if not least <= number <= most:
        raise errors.InvalidError(f"{what} is {number}; it must be from {least} to {most}")
    return number


def _to_c(request: _Request, progress: Any) -> c.Request:
    """The C request. It keeps alive the Python objects that it points to."""
    if not isinstance(request.graph, Graph):
        raise errors.InvalidError(f"{type(request.graph).__name__} is not a neap.Graph")
    if request.objective not in _OBJECTIVES:
        raise errors.InvalidError(f'objective is {request.objective!r}; it must be "time" or "peak"')
    made = c.Request()
    method = text_bytes(request.method, "a method")
    lib.neap_request_init(byref(made), request.graph._handle, method)
    made.method = method  # which keeps it alive, too
    made.budget = -1 if request.budget is None else request.budget
    if request.link is not None:
        if not isinstance(request.link, Link):
            raise errors.InvalidError(f"{request.link!r} is not a neap.Link")
        made.link = request.link._to_c()
    made.time_limit, made.gap = request.time_limit, request.gap
    made.threads = _integer(request.threads, "threads", 0, 2**31 - 1)
    made.seed = _integer(request.seed, "seed", 0, 2**64 - 1)
    made.alignment = _integer(request.alignment, "alignment", 1, 2**62)
    made.objective = _OBJECTIVES[request.objective]
    made.progress = ctypes.cast(progress, ctypes.POINTER(c.Progress))
    pins = [_pin(pin) for pin in request.pins]
    made.n_pins, made.pins = len(pins), (c.Pin * len(pins))(*pins)
    settings = [
        c.OptionSetting(text_bytes(name, "an option"), text_bytes(str(value), "an option's value"))
        for name, value in request.options
    ]
    made.n_options, made.options = len(settings), (c.OptionSetting * len(settings))(*settings)
    made.keep_alive = pins, settings
    if request.start is not None:
        if not isinstance(request.start, Plan):
            raise errors.InvalidError(f"start is {request.start!r}; it must be a neap.Plan")
        made.start = request.start._handle
    return made


def _pin(pin: Any) -> c.Pin:
    try:
        kind, pattern = pin
    except (TypeError, ValueError):
        raise errors.InvalidError(f"{pin!r} is not a pin; write (kind, pattern)") from None
    if kind not in _PIN_KINDS:
        raise errors.InvalidError(
            f"{kind!r} is not a kind of pin; they are {', '.join(_PIN_KINDS)}"
        )
    return c.Pin(_PIN_KINDS[kind], text_bytes(pattern, "the pattern of a pin"))


# ---- Solutions ----


class _Solution:
    """Owns a neap_solution."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.figures: c.Figures = lib.neap_solution_figures(handle)[0]
        self.outcome: str = lib.neap_outcome_name(self.figures.outcome).decode()
        self.message: str = lib.neap_solution_message(handle).decode(errors="replace")
        self.has_plan: bool = bool(lib.neap_solution_plan(handle))

    def __del__(self) -> None:
        if lib is not None:
            lib.neap_solution_destroy(self.handle)


def _solve(request: _Request, progress: Listener | None) -> _Solution:
    def work(pointer: Any) -> _Solution:
        handle, diag = ctypes.c_void_p(), Diag()
        made = _to_c(request, pointer)
        raise_status(lib.neap_solve(None, byref(made), byref(handle), byref(diag)), diag)
        return _Solution(handle.value or 0)

    return run_solver(work, progress)


def _solve_curve(
    request: _Request, budgets: list[int], progress: Listener | None
) -> list[_Solution]:
    def work(pointer: Any) -> list[_Solution]:
        count, diag = len(budgets), Diag()
        sizes, handles = (ctypes.c_int64 * count)(*budgets), (ctypes.c_void_p * count)()
        made = _to_c(request, pointer)
        status = lib.neap_curve_solve(None, byref(made), sizes, count, handles, byref(diag))
        raise_status(status, diag)
        return [_Solution(handle or 0) for handle in handles]

    return run_solver(work, progress)


def _plan_of(request: _Request, solution: _Solution) -> Plan:
    f = solution.figures
    if not solution.has_plan:
        why = "within the time limit" if solution.outcome == "time_limit" else "before it was stopped"
        raise errors.Interrupted(
            f"{request.method} found no plan {why}; give it more time, a larger budget, "
            "or try another method"
        )
    figures = Figures(
        peak=f.peak_bytes,
        time=f.time,
        recomputed_ops=f.recomputed_ops,
        offloaded_bytes=f.offloaded_bytes,
        arena=None if f.arena_bytes < 0 else f.arena_bytes,
        outcome=solution.outcome,
        bound_time=None if f.bound_time < 0 else f.bound_time,
        bound_scope=lib.neap_scope_name(f.bound_scope).decode(),
        gap=f.gap if f.bound_time > 0 else None,
        solve_seconds=f.solve_seconds,
        message=solution.message,
    )
    handle = lib.neap_solution_plan(solution.handle)
    return Plan(request.graph, handle, solution, request.link, figures)


# ---- No plan ----


def _infeasible(request: _Request, solution: _Solution) -> errors.InfeasibleError:
    """The exception, with the least budget that works and the op that sets it."""
    f, graph = solution.figures, request.graph
    floor_op = None if f.floor_op == NONE else graph.op_name(f.floor_op)
    least = f.least_budget if f.least_budget > 0 else None
    op = graph.op_name(f.blocking_op) if least and f.blocking_op != NONE else None
    message = solution.message
    if least is None:
        least, op = _least_budget(request)
        if least is not None:
            message += f"; the least budget that works is {least} bytes, {format_bytes(least)}"
            message += f' (op "{op}")' if op else ""
    elif request.budget is not None:
        message += f"; budget={least} works"
    return errors.InfeasibleError(
        message,
        budget=request.budget,
        floor=f.floor_bytes,
        floor_op=floor_op,
        least_budget=least,
        op=op,
    )


def _least_budget(request: _Request) -> tuple[int | None, str | None]:
    """The least peak that the search finds in a short time, and the op at that peak."""
    limit = min(request.time_limit or LEAST_BUDGET_SECONDS, LEAST_BUDGET_SECONDS)
    seeking = request._replace(
        method="neap", budget=None, objective="peak", time_limit=limit, options=(), start=None
    )
    solution = _solve(seeking, None)
    if not solution.has_plan:
        return None, None
    found = _plan_of(seeking, solution)
    kind, op, _ = found.steps[found.check().peak_step]
    arena = found.peak if found.arena is None else found.arena
    return max(found.peak, arena), request.graph.op_name(op) if kind == "compute" else None
