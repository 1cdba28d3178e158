"""The exceptions of neap. Every message is one line: what was wrong, where, and what would work.

    NeapError                 all of them
      InvalidError            the input is wrong: a graph, a plan, an argument (also a ValueError)
      InfeasibleError         no plan fits the budget; says the least budget that works
      UnsupportedError        valid, but this library or this method cannot do it
      FileError               a file cannot be read or written (also an OSError)
      Interrupted             planning was stopped before it had found a plan
      LibraryError            libneap cannot be loaded (also an ImportError)
      InternalError           a bug in neap: please report it
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .plans import Plan

__all__ = [
    "FileError",
    "InfeasibleError",
    "InternalError",
    "Interrupted",
    "InvalidError",
    "LibraryError",
    "NeapError",
    "UnsupportedError",
]


class NeapError(Exception):
    """The base of every exception that neap raises on its own account."""


class InvalidError(NeapError, ValueError):
    """The input is wrong: a graph, a plan file, an argument or an option."""


class InfeasibleError(NeapError):
    """No plan fits the budget, or none was found within the time limit.

    budget        the budget that was asked for, in bytes (None: none was)
    floor         bytes: proven, no plan of this graph needs less
    floor_op      the op that needs that much; None: the outputs do
    least_budget  the smallest budget with a known plan, in bytes; None if none is known
    least_plan    the plan for it; None if none is known
    op            the op that sets the least budget; None if not known
    is_proven     the method is certain; False: it ran out of time
    """

    def __init__(
        self,
        message: str,
        *,
        budget: int | None = None,
        floor: int | None = None,
        floor_op: str | None = None,
        least_budget: int | None = None,
        least_plan: Plan | None = None,
        op: str | None = None,
        is_proven: bool = True,
    ) -> None:
        super().__init__(message)
        self.budget = budget
        self.floor = floor
        self.floor_op = floor_op
        self.least_budget = least_budget
        self.least_plan = least_plan
        self.op = op
        self.is_proven = is_proven

    def __reduce__(self) -> tuple[Any, ...]:
        """For other processes, where the plan cannot go."""
        return type(self), self.args, {**self.__dict__, "least_plan": None}


class UnsupportedError(NeapError):
    """A valid request that this library or this method cannot fulfil."""


class FileError(NeapError, OSError):
    """A file cannot be read or written."""


class Interrupted(NeapError):
    """The caller stopped planning before it had found a plan."""


class LibraryError(NeapError, ImportError):
    """libneap cannot be found, cannot be loaded, or has another version."""


class InternalError(NeapError, RuntimeError):
    """A bug in neap. Please report it."""
