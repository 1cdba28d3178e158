"""What the program of a plan calls besides the model's ops.

Copies run on two streams of their own, one in each direction, through pinned memory. Events order them: a
copy starts when the computations before it have ended, a reader waits for its copy, and memory is given back
when the copy from it has ended. On the CPU a copy is a copy.
"""

from __future__ import annotations

from typing import Any

import torch

from .split import run_split

STATE_BYTES = {"cpu": 5056, "cuda": 16}  # of a generator


class _Copies:
    """The streams of a device and the events of copies under way, by the address of their host or device end."""

    def __init__(self, device: torch.device) -> None:
        self.out = torch.cuda.Stream(device)
        self.back = torch.cuda.Stream(device)
        self.done: dict[int, torch.cuda.Event] = {}


_copies: dict[int, _Copies] = {}


def _of(device: torch.device) -> _Copies:
    index = device.index if device.index is not None else torch.cuda.current_device()
    if index not in _copies:
        _copies[index] = _Copies(torch.device("cuda", index))
    return _copies[index]


def offload(tensor: torch.Tensor) -> torch.Tensor:
    """Starts a copy to the host and returns it."""
    if tensor.device.type != "cuda":
        return tensor.clone()
    copies = _of(tensor.device)
    host = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, pin_memory=True)
    copies.out.wait_stream(torch.cuda.current_stream(tensor.device))
    with torch.cuda.stream(copies.out):
        host.copy_(tensor, non_blocking=True)
        copies.done[host.data_ptr()] = copies.out.record_event()
    return host


def release(tensor: torch.Tensor, host: torch.Tensor) -> None:
    """Makes the computations that follow wait for the copy of `tensor`, so that its memory may be used again."""
    if tensor.device.type == "cuda":
        event = _of(tensor.device).done.pop(host.data_ptr(), None)
        if event is not None:
            torch.cuda.current_stream(tensor.device).wait_event(event)


def prefetch(host: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Allocates a tensor on the device and starts the copy back to it."""
    if device.type != "cuda":
        return host.clone()
    copies = _of(device)
    tensor = torch.empty_strided(host.size(), host.stride(), dtype=host.dtype, device=device)
    copies.back.wait_stream(torch.cuda.current_stream(device))
    copies.back.wait_stream(copies.out)
    with torch.cuda.stream(copies.back):
        tensor.copy_(host, non_blocking=True)
        copies.done[tensor.data_ptr()] = copies.back.record_event()
    return tensor


def wait(tensor: torch.Tensor) -> None:
    """Makes the computations that follow wait for the copy to `tensor`."""
    if tensor.device.type == "cuda":
        event = _of(tensor.device).done.pop(tensor.data_ptr(), None)
        if event is not None:
            torch.cuda.current_stream(tensor.device).wait_event(event)


def random_state(device: torch.device) -> torch.Tensor:
    """The state of the device's generator, before an op that will run again."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def replay(state: torch.Tensor, op: Any, *args: Any, **kwargs: Any) -> Any:
    """Runs a random op with the numbers of its first run; the generator goes on as if it had not run."""
    device = next((a.device if isinstance(a, torch.Tensor) else a for a in args
                   if isinstance(a, (torch.Tensor, torch.device))), kwargs.get("device"))
    on_cuda = device is not None and torch.device(device).type == "cuda"
    if not on_cuda:
        now = torch.get_rng_state()
        torch.set_rng_state(state)
        try:
            return op(*args, **kwargs)
        finally:
            torch.set_rng_state(now)
    now = torch.cuda.get_rng_state(device)
    torch.cuda.set_rng_state(state, device)
    try:
        return op(*args, **kwargs)
    finally:
        torch.cuda.set_rng_state(now, device)


def split(parts: int, op: Any, *args: Any) -> Any:
    """Runs a convolution or its backward op in parts along the batch."""
    return run_split(op, args, parts)
