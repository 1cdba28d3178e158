"""A line of progress on a terminal: what a call that takes seconds is doing."""

from __future__ import annotations

import shutil
import sys
import time
from types import TracebackType
from typing import Any

from .._solving import Event

INTERVAL = 0.2  # seconds between updates


class Meter:
    """Writes one line to standard error and removes it at the end. Silent where that is not a terminal."""

    def __init__(self, prefix: str = "neap") -> None:
        self.prefix = prefix
        self.shown = False
        self.last = 0.0

    def __enter__(self) -> "Meter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self.shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def say(self, text: str) -> None:
        """Shows the text in place of what was shown before."""
        stream = sys.stderr
        if stream is None or not stream.isatty():
            return
        width = shutil.get_terminal_size().columns - 1
        stream.write("\r\x1b[K" + f"{self.prefix}: {text}"[:width])
        stream.flush()
        self.shown, self.last = True, time.monotonic()

    def measuring(self, done: int, total: int, what: str) -> None:
        """The progress of neap.torch's cost model."""
        if time.monotonic() - self.last >= INTERVAL:
            self.say(f"measuring op {min(done + 1, total)} of {total}: {what}")

    def planning(self, event: Event) -> Any:
        """The progress of neap.plan and neap.curve."""
        if time.monotonic() - self.last >= INTERVAL:
            self.say(f"planning: {event.part}" if event.part else event.phase or "planning")
