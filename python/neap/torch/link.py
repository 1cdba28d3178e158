"""The link between a device and the host: its bandwidth in both directions, measured."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ..plans import Link

_BYTES = 1 << 28
_LATENCY = 10e-6  # of starting a copy and of the events around it


@lru_cache(maxsize=None)
def measured_link(device: torch.device) -> Link | None:
    """The link of a CUDA device; None for a device whose memory is the host's."""
    if device.type != "cuda":
        return None
    with _disable_current_modes():  # a capture may be under way, in which tensors hold nothing
        here = torch.empty(_BYTES, dtype=torch.uint8, device=device)
        there = torch.empty(_BYTES, dtype=torch.uint8, pin_memory=True)
        out = _BYTES / _seconds(lambda: there.copy_(here, non_blocking=True), device)
        back = _BYTES / _seconds(lambda: here.copy_(there, non_blocking=True), device)
    return Link(out_bandwidth=out, in_bandwidth=back, latency=_LATENCY, duplex=True)


def _seconds(copy: object, device: torch.device) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    best = float("inf")
    for _ in range(3):
        begin.record(torch.cuda.current_stream(device))
        copy()
        end.record(torch.cuda.current_stream(device))
        end.synchronize()
        best = min(best, begin.elapsed_time(end) / 1e3)
    return best
