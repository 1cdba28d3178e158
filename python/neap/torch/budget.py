"""Small helpers of the backend: a stopwatch, and budgets as text."""

from __future__ import annotations

import time

from .. import errors
from ..text import parse_bytes


class Clock:
    """Adds up the seconds of named phases."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.last = time.perf_counter()

    def lap(self, what: str) -> None:
        now = time.perf_counter()
        self.seconds[what] = self.seconds.get(what, 0.0) + now - self.last
        self.last = now


def bytes_of(budget: str, natural: int) -> int:
    """The bytes of a budget such as "6GiB" or "50%" of what the step needs without a plan."""
    text = budget.strip()
    if not text.endswith("%"):
        return parse_bytes(text)
    try:
        share = float(text[:-1]) / 100
    except ValueError:
        raise errors.InvalidError(f"budget {budget!r}: write a number before the %") from None
    if not share > 0:
        raise errors.InvalidError(f"budget {budget!r}: it must be above 0%")
    return int(natural * share)
