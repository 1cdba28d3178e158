"""Sizes and times in words, as the command `neap` reads and writes them."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import errors
from ._library import call, lib, text_bytes

if TYPE_CHECKING:
    from .graph import Graph

__all__ = ["budget_bytes", "format_bytes", "format_seconds", "parse_bytes", "resolve_budget"]


def parse_bytes(size: str | int | float) -> int:
    """The bytes of a size: `parse_bytes("6GiB")`, `"1.5 MB"`, `"5e9"`, or a number.

    KiB, MiB, GiB and TiB are powers of 1024; kB, MB, GB, TB are powers of 1000. A fraction of a
    byte is dropped. Raises InvalidError for anything else.
    """
    if isinstance(size, bool):
        raise errors.InvalidError(f"{size} is not a size; write one such as 6GiB or 5e9")
    if not isinstance(size, str):
        return _whole_bytes(size)
    value = ctypes.c_int64()
    call(lib.neap_bytes_parse, text_bytes(size, "a size"), ctypes.byref(value))
    return value.value


def _whole_bytes(size: Any) -> int:
    try:
        if math.isfinite(size) and 0 <= size < 2**63:
            return int(size)
    except TypeError:
        pass
    raise errors.InvalidError(
        f"{size!r} is not a size from 0 to 2^63 - 1 bytes, such as 6GiB or 5e9"
    )


def format_bytes(size: int) -> str:
    """A size with three digits and a binary unit: "512 B", "1.50 MiB", "10.4 GiB"."""
    buffer = ctypes.create_string_buffer(64)
    return lib.neap_bytes_format(int(size), buffer, len(buffer)).decode()


def format_seconds(seconds: float) -> str:
    """A duration: "12.3 us", "4.56 ms", "2 h 05 min"."""
    buffer = ctypes.create_string_buffer(64)
    return lib.neap_seconds_format(float(seconds), buffer, len(buffer)).decode()


def resolve_budget(
    graph: Graph, budget: str | int | float | None, alignment: int = 1
) -> int | None:
    """A budget in bytes. A percentage is of what training takes without a plan.

    None stays None: no limit. With an alignment, a percentage is of the arena that such a step
    takes, as in the command.
    """
    return None if budget is None else budget_bytes(budget, lambda: graph.natural_arena(alignment))


def is_share(budget: object) -> bool:
    """Whether a budget is a percentage."""
    return isinstance(budget, str) and budget.strip().endswith("%")


def budget_bytes(budget: str | int | float, natural: Callable[[], int]) -> int:
    """A budget in bytes: a size, or a percentage of what `natural` returns."""
    if isinstance(budget, str) and is_share(budget):
        try:
            share = float(budget.strip()[:-1]) / 100
        except ValueError:
            share = math.nan
        if not 0 < share < math.inf:
            raise errors.InvalidError(f'"{budget}" is not a percentage above 0, such as 50%')
        size = min(math.floor(natural() * share), 2**63 - 1)
    else:
        size = parse_bytes(budget)
    if size <= 0:
        raise errors.InvalidError(
            f"budget {budget} is 0 bytes; give a size above 0, such as 8GiB, 5e9 or 50%"
        )
    return size
