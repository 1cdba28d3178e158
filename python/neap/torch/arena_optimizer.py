"""strict=True for the optimizer: what it needs while it runs lies where activations lay.

Optimizers that handle many tensors at once make a temporary for each, as much as all parameters together. Between the
passes of two steps the arena holds no more than gradients, so they fit. State that an optimizer makes in its
first step is moved to PyTorch's allocator when the next step begins.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils import _pytree as pytree

from .arena import Arena, Table, _Pass

__all__ = ["finish", "install"]

_thread = threading.local()
_installed = False


class _Running:
    """An optimizer's step in an arena."""

    def __init__(self, optimizer: torch.optim.Optimizer, arena: Arena, replay: _Pass) -> None:
        self.optimizer, self.arena, self.replay = optimizer, arena, replay
        self.blocks = arena.stats().live_blocks


def install(arena_in_use: Callable[[torch.device], tuple[Arena, int] | None]) -> None:
    """Runs the steps of PyTorch's optimizers in an arena from now on.

    arena_in_use(device): the arena and the number of the training step that it holds; None if there is none.
    """
    global _installed
    if _installed:
        return
    _installed = True

    def before(optimizer: torch.optim.Optimizer, args: tuple, kwargs: dict) -> None:
        if torch.compiler.is_compiling() or not _is_plain(optimizer, args, kwargs):
            return
        finish()
        found = arena_in_use(optimizer.param_groups[0]["params"][0].device)
        if found is None:
            return
        arena, step = found
        replay = Table(arena, [], spill=True, least=_least(arena)).run(step)
        running = _Running(optimizer, arena, replay)
        replay.__enter__()
        _thread.running = running

    def after(optimizer: torch.optim.Optimizer, args: tuple, kwargs: dict) -> None:
        if not torch.compiler.is_compiling():
            finish()

    register_optimizer_step_pre_hook(before)
    register_optimizer_step_post_hook(after)


def finish() -> None:
    """Ends the optimizer's step that runs on this thread, if one does: the last one may have ended by an error."""
    running: _Running | None = getattr(_thread, "running", None)
    if running is None:
        return
    _thread.running = None
    running.replay.__exit__(None, None, None)
    if running.arena.stats().live_blocks > running.blocks:  # new state
        running.arena.adopt(pytree.tree_leaves(list(running.optimizer.state.values())))


def _is_plain(optimizer: Any, args: tuple, kwargs: dict) -> bool:
    """Whether this is an optimizer of PyTorch's that runs none of the user's code and has its tensors in `state`."""
    if not type(optimizer).__module__.startswith("torch.optim.") or len(args) > 1 or kwargs.get("closure") is not None:
        return False
    return bool(optimizer.param_groups and optimizer.param_groups[0]["params"])


def _least(arena: Arena) -> int:
    return (16 << 10) if arena.device.type == "cuda" else 0
