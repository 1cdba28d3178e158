"""Requests to the solver and its solutions, between Python and C."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from ctypes import byref
from typing import Any, NamedTuple

from . import _library as c
from . import errors
from ._library import Diag, lib, raise_status, text_bytes
from ._solving import Event, run_solver
from .graph import Graph
from .plans import Figures, Link, Plan

Listener = Callable[[Event], object]

_PIN_KINDS = {"keep": 0, "no-recompute": 1, "no-offload": 2}
_OBJECTIVES = {"time": 0, "peak": 1}
_STATES = {"auto": 0, "device": 1, "host": 2}

# ---- Requests ----


class Request(NamedTuple):
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
    state: str = "auto"
    target_time: float = 0.0  # seconds: a plan this fast is fast enough; 0: none is


def positive(number: float | None, what: str) -> float:
    """A number above 0, or 0 for None; `what` names it in errors."""
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


def _to_c(request: Request, progress: Any) -> c.Request:
    """The C request. It keeps alive the Python objects that it points to."""
    if not isinstance(request.graph, Graph):
        raise errors.InvalidError(f"{type(request.graph).__name__} is not a neap.Graph")
    if request.objective not in _OBJECTIVES:
        raise errors.InvalidError(
            f'objective is {request.objective!r}; it must be "time" or "peak"'
        )
    if request.state not in _STATES:
        raise errors.InvalidError(
            f'state is {request.state!r}; it must be "auto", "device" or "host"'
        )
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
    made.target_time = request.target_time
    made.threads = _integer(request.threads, "threads", 0, 2**31 - 1)
    made.seed = _integer(request.seed, "seed", 0, 2**64 - 1)
    made.alignment = _integer(request.alignment, "alignment", 1, 2**62)
    made.objective = _OBJECTIVES[request.objective]
    made.state = _STATES[request.state]
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


class Solution:
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


def solve(request: Request, progress: Listener | None = None) -> Solution:
    """Runs a request. Ctrl-C stops it (_solving.py)."""

    def work(pointer: Any) -> Solution:
        handle, diag = ctypes.c_void_p(), Diag()
        made = _to_c(request, pointer)
        raise_status(lib.neap_solve(None, byref(made), byref(handle), byref(diag)), diag)
        return Solution(handle.value or 0)

    return run_solver(work, progress)


def solve_curve(request: Request, budgets: list[int], progress: Listener | None) -> list[Solution]:
    """Runs a request at each of several budgets; -1 is none."""

    def work(pointer: Any) -> list[Solution]:
        count, diag = len(budgets), Diag()
        sizes, handles = (ctypes.c_int64 * count)(*budgets), (ctypes.c_void_p * count)()
        made = _to_c(request, pointer)
        status = lib.neap_curve_solve(None, byref(made), sizes, count, handles, byref(diag))
        raise_status(status, diag)
        return [Solution(handle or 0) for handle in handles]

    return run_solver(work, progress)


def plan_of(request: Request, solution: Solution) -> Plan:
    """The plan of a solution that has one."""
    f = solution.figures
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
