"""A limit on the memory that PyTorch reserves on a CUDA device, while ops are tried out before the first step."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeVar

import torch

__all__ = ["capped", "retry_uncapped"]

Result = TypeVar("Result")

LEAST = 256 << 20
_before: dict[torch.device, float] = {}  # the fraction of its memory that a capped device had


@contextlib.contextmanager
def capped(device: torch.device, budget: int | None) -> Iterator[None]:
    """Inside of the block PyTorch reserves at most `budget` bytes on the device, or 256 MiB more than are in use: it
    gives free blocks back instead of asking for more, and is out of memory where that does not help. Elsewhere than on
    CUDA nothing happens."""
    fraction = _fraction(device) if budget is not None and device not in _before else None
    if fraction is None:
        yield
        return
    limit = max(budget, torch.cuda.memory_allocated(device) + LEAST)
    _before[device] = fraction
    torch.cuda.set_per_process_memory_fraction(min(fraction, limit / _total(device)), device)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(_before.pop(device), device)


def retry_uncapped(device: torch.device, function: Callable[[], Result]) -> Result:
    """Calls the function; again without the limit if it was out of memory under it."""
    try:
        return function()
    except torch.OutOfMemoryError:
        if device not in _before:
            raise
    limit = torch.cuda.get_per_process_memory_fraction(device)
    torch.cuda.set_per_process_memory_fraction(_before[device], device)
    try:
        return function()
    finally:
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(limit, device)


def _total(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).total_memory


def _fraction(device: torch.device) -> float | None:
    """The part of the device's memory that PyTorch may reserve; None where it does not say."""
    if device.type != "cuda" or not torch.cuda.is_available():
        return None
    try:
        return torch.cuda.get_per_process_memory_fraction(device)
    except (AttributeError, RuntimeError):
        return None
