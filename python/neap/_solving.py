"""Runs the solver beside the calling thread, so that Ctrl-C and progress reports work."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from ctypes import byref
from typing import Any, NamedTuple, TypeVar

from ._library import CancelledFunction, Progress, ProgressEvent, ReportFunction

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


def run_solver(
    solve: Callable[[Any], Result], progress: Callable[[Event], object] | None
) -> Result:
    """Calls solve(pointer to a neap_progress) in a thread of its own and waits for it.

    `progress` is called in this thread. The solver is stopped by Ctrl-C, by an exception of
    `progress` (both are raised here once it has ended) or by a `progress` that returns False; its
    best result so far is then returned.
    """
    stop = threading.Event()
    messages: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()

    def report(_: Any, event: Any) -> None:
        messages.put(("event", _event(event[0])))

    pointers = Progress(
        ReportFunction(report) if progress else ReportFunction(),
        CancelledFunction(lambda _: stop.is_set()),
    )

    def work() -> None:
        try:
            messages.put(("result", solve(byref(pointers))))
        except BaseException as error:  # handed to the waiting thread
            messages.put(("error", error))

    thread = threading.Thread(target=work, name="neap", daemon=True)
    thread.start()
    try:
        while True:
            kind, content = messages.get()
            if kind == "error":
                raise content
            if kind == "result":
                return content
            if progress and not stop.is_set() and progress(content) is False:
                stop.set()
    finally:
        stop.set()
        thread.join()
