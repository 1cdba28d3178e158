"""How large the arena of strict=True may be under a budget."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .arena import Arena

__all__ = ["Room"]

SPARE = {"cuda": 64 << 20, "cpu": 1 << 20}  # at least, where the budget has it: for what the forecast does not know


@dataclass
class Room:
    """What the budget leaves for an arena.

    budget    in bytes
    resident  bytes that are there besides the arena: parameters, inputs, optimizer state, the user's tensors
    coming    those of them that are not there yet: optimizer state before its first step
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
            resident = max(resident, reserved + self.coming)
        return self.budget - resident - self.others

    def arena_bytes(self, arena: Arena, needed: int) -> int:
        """The size of an arena for a step that is forecast to need so many bytes, with some to spare."""
        free = self.limit(arena) - needed
        if free <= 0:
            return needed
        if self.shared:
            return needed + free
        return needed + min(free // 2, max(SPARE.get(arena.device.type, 0), needed // 8))
