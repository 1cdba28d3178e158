"""Planning: from a graph and a budget to a plan, or to a curve of plans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import errors
from ._no_plan import from_low_plan, known_plan, no_plan
from ._requests import Listener, Request, plan_of, positive, solve, solve_curve
from .graph import Graph
from .plans import Link, Plan
from .text import resolve_budget

__all__ = ["curve", "plan"]

Budget = str | int | float | None
Pins = Iterable[tuple[str, str]]


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
    in_place: bool = True,
    state: str = "auto",
    search_least: bool = True,
    progress: Listener | None = None,
) -> Plan:
    """Plans a training step within a memory budget.

        plan = neap.plan(graph, "6GiB", time_limit=30)
        print(plan.peak, plan.overhead)

    budget      bytes as a number or text: 6442450944, "6GiB", "5e9", or "50%" of
                graph.natural_peak; None: no limit
    method      one of neap.methods()
    time_limit  seconds; the best plan found until then is returned. If there is none, the method
                gets a plan that needs little memory to start from, and the same time again
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
    in_place    False: no op runs in place, as most papers count memory; the plan is then one of
                graph.out_of_place
    state       where parameters and optimizer state (values with "state": true) are between their
                uses: "auto" (with a link, wherever that is faster), "device", or "host" (all of it,
                when the step begins and ends; needs a link)
    search_least  if no plan fits, search for the least budget that works: 5 seconds, once a graph
    progress    called with a neap.Event a few times a second; if it returns False, planning stops
                and returns the best plan so far

    Raises InfeasibleError if no plan fits, or none was found within the time limit; it says the
    least budget that works, for which this graph then has a plan. Interrupted if `progress`
    stopped planning before there was a plan; InvalidError or UnsupportedError for a wrong request.
    Ctrl-C stops planning and raises KeyboardInterrupt.
    """
    request = Request(
        graph=graph if in_place or not isinstance(graph, Graph) else graph.out_of_place,
        method=method,
        budget=resolve_budget(graph, budget, alignment),
        time_limit=positive(time_limit, "time_limit"),
        gap=positive(gap, "gap"),
        link=link,
        pins=tuple(pins),
        alignment=alignment,
        seed=0 if seed is None else seed,
        threads=0 if threads is None else threads,
        objective=objective,
        options=tuple((options or {}).items()),
        start=start,
        state=state,
    )
    solution = solve(request, progress)
    if solution.outcome == "time_limit" and not solution.has_plan and search_least:
        solution = from_low_plan(request, progress) or solution
    if solution.has_plan:
        return plan_of(request, solution)
    known = None if solution.outcome == "interrupted" else known_plan(request)
    if known is None:
        raise no_plan(request, solution, search_least, progress)
    return known


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
    in_place: bool = True,
    state: str = "auto",
    progress: Listener | None = None,
) -> list[Plan | None]:
    """Plans at many budgets: the trade-off between memory and time.

    `budgets` is a list, each as in neap.plan, or a number of budgets evenly spaced from the floor
    to the natural peak of the graph. The result has a plan for each budget, or None where no plan
    fits. A plan for a larger budget is never slower. `time_limit` covers the whole curve. The other
    arguments are those of neap.plan.
    """
    sizes = _curve_budgets(graph, budgets, alignment)
    request = Request(
        graph=graph if in_place or not isinstance(graph, Graph) else graph.out_of_place,
        method=method,
        budget=None,
        time_limit=positive(time_limit, "time_limit"),
        gap=positive(gap, "gap"),
        link=link,
        pins=tuple(pins),
        alignment=alignment,
        seed=0 if seed is None else seed,
        threads=0 if threads is None else threads,
        objective="time",
        options=tuple((options or {}).items()),
        start=None,
        state=state,
    )
    solutions = solve_curve(request, sizes, progress)
    return [plan_of(request, s) if s.has_plan else None for s in solutions]


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
