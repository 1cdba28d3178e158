"""What the ranks of a distributed run decide together. With one rank every function returns at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .. import errors


def several() -> bool:
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


def gather(mine: Any) -> list[Any]:
    """What each rank has, in the order of the ranks."""
    if not several():
        return [mine]
    everyones: list[Any] = [None] * torch.distributed.get_world_size()
    with _disable_current_modes():  # a capture may be under way, in which tensors hold nothing
        torch.distributed.all_gather_object(everyones, mine)
    return everyones


def from_first(make: Callable[[], Any]) -> Any:
    """What the first rank makes, on every rank; its error, if it fails."""
    if not several():
        return make()
    answer: list[Any] = [None]
    if torch.distributed.get_rank() == 0:
        try:
            answer[0] = make()
        except errors.NeapError as error:
            answer[0] = error
    with _disable_current_modes():
        torch.distributed.broadcast_object_list(answer, src=0)
    if isinstance(answer[0], Exception):
        raise answer[0]
    return answer[0]
