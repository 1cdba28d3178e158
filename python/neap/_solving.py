"""Runs the solver beside the calling thread, so that Ctrl-C and progress reports work."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from ctypes import byref, pointer
from typing import Any, NamedTuple, TypeVar

from ._library import ProgressEvent, ReportFunction, StopFlag, lib

__all__ = ["Event", "run_solver"]

Result = TypeVar("Result")


class Event(NamedTuple):
    """A report of a running solver."""

    phase: str  # such as "planning" or "assigning addresses"
    fraction: float | None  # 0 to 1; None: not known
    seconds: float  # since the start
    best_time: float | None  # seconds of the best plan so far
    bound_time: float | None  # seconds that no plan can beat
    part: str | None  # which of several plans


def _event(event: ProgressEvent) -> Event:
    def known(number: float) -> float | None:
        return None if number < 0 else number

    return Event(
        phase=(event.phase or b"").decode(errors="replace"),
        fraction=known(event.fraction),
        seconds=event.seconds,
        best_time=known(event.best_time),
        bound_time=known(event.bound_time),
        part=event.part.decode(errors="replace") if event.part else None,
    )


class _Stop:
    """A flag that stops the solver: the library's own, which it reads without calling Python."""

    def __init__(self, report: Callable[[Event], object] | None) -> None:
        self._flag = StopFlag()
        lib.neap_stop_flag_init(byref(self._flag))
        if report:
            self._flag.base.report = ReportFunction(lambda _, event: report(_event(event[0])))
        self.progress = pointer(self._flag.base)

    @property
    def is_raised(self) -> bool:
        return self._flag.raised != 0

    def set(self) -> None:
        lib.neap_stop_flag_raise(byref(self._flag))


def run_solver(
    solve: Callable[[Any], Result], progress: Callable[[Event], object] | None
) -> Result:
    """Calls solve(pointer to a neap_progress) in a thread of its own and waits for it.

    `progress` is called in this thread. The solver is stopped by Ctrl-C, by an exception of
    `progress` (both are raised here once it has ended) or by a `progress` that returns False; its
    best result so far is then returned.
    """
    messages: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
    stop = _Stop((lambda event: messages.put(("event", event))) if progress else None)

    def work() -> None:
        try:
            messages.put(("result", solve(stop.progress)))
        except BaseException as error:  # handed to the waiting thread
            messages.put(("error", error))

    thread = threading.Thread(target=work, name="neap", daemon=True)
    try:
        thread.start()
        while True:
            kind, content = messages.get()
            if kind == "error":
                raise content
            if kind == "result":
                return content
            if progress and not stop.is_raised and progress(content) is False:
                stop.set()
    finally:
        stop.set()
        if thread.ident is not None:  # Ctrl-C may come before it has started
            thread.join()
