"""Little reserved memory on a CUDA device while ops are tried out one by one, before the first step.

What one op leaves in PyTorch's cache of free blocks rarely fits the next one, so the cache grows beyond what any op needs.
A hard limit (torch.cuda.set_per_process_memory_fraction) would not do: where cuDNN is out of memory, it
takes another algorithm and stays with it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

__all__ = ["trim", "trimmed"]

KEPT = 64 << 20  # bytes of free blocks that do not matter
_devices: set[torch.device] = set()


@contextlib.contextmanager
def trimmed(device: torch.device) -> Iterator[None]:
    """Inside of the block, trim() gives the device's free blocks back."""
    outermost = device not in _devices
    _devices.add(device)
    try:
        yield
    finally:
        if outermost:
            _devices.remove(device)


def trim(device: torch.device) -> None:
    """Call it before an op is tried out."""
    if device.type != "cuda" or device not in _devices:
        return
    if torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device) > KEPT:
        torch.cuda.empty_cache()
