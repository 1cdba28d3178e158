"""How large the arena of strict=True may be under a budget."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from .arena import Arena

__all__ = ["Room", "segment_bytes"]

SPARE = {"cuda": 64 << 20, "cpu": 1 << 20}  # at least, where the budget has it: for what the forecast does not know

SLACK = 16 << 20  # for small tensors that come and go, on CUDA

# PyTorch's caching allocator: sizes up to the first number come from segments of the second; larger ones have their own.
_SEGMENTS = ((1 << 20, 2 << 20), ((10 << 20) - 1, 20 << 20))
_ROUNDING = 2 << 20  # of segments for one block


def segment_bytes(sizes: Iterable[int]) -> int:
    """What PyTorch's caching allocator reserves on a CUDA device for new blocks that stay."""
    total = 0
    free: list[list[int]] = [[], []]  # what is left of the segments of each kind
    for size in (-(-size // 512) * 512 for size in sizes):
        kind = next((i for i, (most, _) in enumerate(_SEGMENTS) if size <= most), None)
        if kind is None:
            total += -(-size // _ROUNDING) * _ROUNDING
            continue
        fitting = [left for left in free[kind] if left >= size]
        left = min(fitting, default=_SEGMENTS[kind][1])
        if fitting:
            free[kind].remove(left)
        else:
            total += left
        free[kind].append(left - size)
    return total


@dataclass
class Room:
    """What the budget leaves for an arena.

    budget    in bytes
    resident  bytes that are there besides the arena: parameters, inputs, optimizer state, the user's tensors
    coming    what PyTorch will reserve for those of them that are not there yet: optimizer state before its first step
    others    bytes that PyTorch's allocator serves during the step: small outputs, gradients of outputs
    shared    whether other graphs run in the same step, so that the arena takes all there is
    """

    budget: int
    resident: int
    coming: int = 0
    others: int = 0
    shared: bool = False

    def limit(self, arena: Arena) -> int:
        """The most bytes that the arena may have. PyTorch's free blocks are given back first."""
        resident = self.resident
        if arena.device.type == "cuda":
            torch.cuda.empty_cache()
            reserved = torch.cuda.memory_reserved(arena.device) - arena.stats().bytes
            resident = max(resident, reserved + self.coming + SLACK)
        return self.budget - resident - self.others

    def arena_bytes(self, arena: Arena, needed: int) -> int:
        """The size of an arena for a step that is forecast to need so many bytes, with some to spare."""
        free = self.limit(arena) - needed
        if free <= 0:
            return needed
        if self.shared:
            return needed + free
        return needed + min(free // 2, max(SPARE.get(arena.device.type, 0), needed // 8))
