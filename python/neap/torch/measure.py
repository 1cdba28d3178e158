"""Runs one op alone and says what it takes: seconds on the device, seconds to dispatch, workspace, and which
outputs are views.

On CUDA a short busy kernel goes ahead of the timed runs, so that the host is never the one that is waited for:
the time is the device's, as in a step that keeps the device busy. Workspace is what the op had allocated at its
worst beyond its inputs and outputs; handles and workspaces that libraries keep are made by the warm-up runs and
so do not count.
"""

from __future__ import annotations

import contextlib
import functools
import statistics
import time
import warnings
from dataclasses import dataclass
from typing import Any, Callable, Iterator

import torch

from .device import cache_bytes, rounded
from .op_inputs import Inputs
from .op_signature import Call, flat, leaves

Run = Callable[[], Any]
How = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]

_BATCH_SECONDS = 2e-3  # device time of one batch of timed runs on CUDA
_BATCH_RUNS = 50  # at most; the launch queue holds about a thousand kernels
_BATCHES = 3
_CPU_SECONDS = 10e-3  # wall time of the timed runs on the CPU
_CPU_RUNS = 7
_SMALL = 1 << 20  # bytes of inputs below which the time is not the memory's
_MOST_SLOTS = 15
_CLOCK = 2e9  # cycles a second of the busy kernel; a slower device only gives the host a longer head start


@dataclass(frozen=True)
class Measurement:
    """What one op took."""

    seconds: float  # with its inputs in the device's cache, as far as they fit
    cold: float  # with nothing in the device's cache
    dispatch: float  # host seconds to launch it
    workspace: int
    alias: tuple[int | None, ...]  # for each output, the tensor argument that it shares its storage with
    storage: tuple[int, ...]  # for each output, the bytes of its own storage; 0 where it shares an argument's


@contextlib.contextmanager
def isolated(device: torch.device) -> Iterator[None]:
    """Real kernels inside, whatever is being traced outside: no modes, no autograd, no autocast. Random states
    come back as they were.
    """
    from torch.utils._python_dispatch import _disable_current_modes

    with contextlib.ExitStack() as stack:
        stack.enter_context(_disable_current_modes())
        stack.enter_context(torch._C.DisableTorchFunction())
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch._C._DisableAutocast())
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        state = torch.get_rng_state()
        stack.callback(torch.set_rng_state, state)
        if device.type == "cuda":
            stack.enter_context(torch.cuda.device(device))
            stack.callback(torch.cuda.set_rng_state, torch.cuda.get_rng_state(device), device)
        yield


class Stopwatch:
    """Measures calls on one device. Use it inside ``isolated``."""

    def __init__(self, device: torch.device):
        self._device = device
        self._inputs = Inputs(device)
        self._cuda = device.type == "cuda"
        self._cache_bytes = cache_bytes(device)

    def wake(self, seconds: float = 0.05) -> None:
        """Brings the device to its working clock, and has the libraries make what they keep."""
        if not self._cuda:
            return
        square = torch.ones(2048, 2048, device=self._device)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            torch.mm(square, square)
            torch.cuda.synchronize(self._device)

    def measure(self, call: Call, how: How | None = None) -> Measurement:
        """Runs the call on tensors made for it, or ``how(target, args, kwargs)`` in its place. Raises Unsafe,
        or what the op raises.
        """
        args, kwargs = self._inputs.make(call)
        runs = [_bound(call.target, args, kwargs, how)]
        alias, storage = _layout(runs[0](), args, kwargs, self._device)
        if not self._cuda:
            seconds = time_cpu(runs[0])
            return Measurement(seconds, seconds, seconds, 0, alias, storage)
        workspace = workspace_of(runs[0], self._device)
        read = sum(spec.touched_bytes for spec in dict.fromkeys(call.tensors()))
        extra = self._extra_slots(read + sum(storage))
        seconds, dispatch = time_cuda(runs * (1 + extra))  # outputs go elsewhere each time, as in a step
        cold = seconds
        if extra and read > _SMALL:
            cold = max(cold, self._cold(call, how, runs, extra))
        return Measurement(seconds, cold, dispatch, workspace, alias, storage)

    def _cold(self, call: Call, how: How | None, runs: list[Run], extra: int) -> float:
        """Seconds of a run whose inputs have left the device's cache; 0 where there is no memory for further
        inputs.
        """
        try:
            for _ in range(extra):
                args, kwargs = self._inputs.make(call)
                runs.append(_bound(call.target, args, kwargs, how))
            return time_cuda(runs)[0]
        except torch.OutOfMemoryError:
            return 0.0

    def _extra_slots(self, used: int) -> int:
        """How many further sets of tensors push the first one out of the device's cache before it is used
        again.
        """
        if used >= 2 * self._cache_bytes:
            return 0
        return min(_MOST_SLOTS, 2 * self._cache_bytes // max(used, 1))


def _bound(target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], how: How | None) -> Run:
    if how is None:
        return functools.partial(target, *args, **kwargs)
    return functools.partial(how, target, args, kwargs)


def workspace_of(run: Run, device: torch.device) -> int:
    """Bytes that a run has allocated at its worst beyond what is there before it and after it. Resets the peak
    statistics.

    Requested bytes are compared: the blocks that the allocator hands out may be larger, depending on what it
    has at hand.
    """
    if device.type != "cuda":
        return 0
    before = torch.cuda.memory_stats(device).get("requested_bytes.all.current", 0)
    torch.cuda.reset_peak_memory_stats(device)
    outputs = run()
    stats = torch.cuda.memory_stats(device)
    del outputs
    extra = stats.get("requested_bytes.all.peak", 0) - max(before, stats.get("requested_bytes.all.current", 0))
    return rounded(max(0, extra), device)


def _layout(
    outputs: Any, args: tuple[Any, ...], kwargs: dict[str, Any], device: torch.device
) -> tuple[tuple[int | None, ...], tuple[int, ...]]:
    """For each output, the tensor argument whose storage it shares, and the bytes of its storage where it is
    its own.
    """
    owners: dict[int, int] = {}
    for index, tensor in enumerate(leaves((args, kwargs), torch.Tensor)):
        owners.setdefault(tensor.untyped_storage()._cdata, index)
    alias: list[int | None] = []
    storage: list[int] = []
    for output in flat(outputs):
        own = output.untyped_storage() if isinstance(output, torch.Tensor) else None
        owner = owners.get(own._cdata) if own is not None else None
        alias.append(owner)
        storage.append(0 if own is None or owner is not None else rounded(own.nbytes(), device))
    return tuple(alias), tuple(storage)


def time_cpu(run: Run) -> float:
    best, spent, runs = float("inf"), 0.0, 0
    while runs < 1 or (runs < _CPU_RUNS and spent < _CPU_SECONDS):
        start = time.perf_counter()
        run()
        seconds = time.perf_counter() - start
        best, spent, runs = min(best, seconds), spent + seconds, runs + 1
    return best


def time_cuda(slots: list[Run]) -> tuple[float, float]:
    """Seconds on the device and seconds to dispatch, each per run. The runs take turns; all of them do the
    same.
    """
    first, dispatch = _batch(slots, len(slots), 100e-6)
    runs = min(_BATCH_RUNS, int(_BATCH_SECONDS / max(first, 1e-7)), int(2 * _BATCH_SECONDS / max(dispatch, 1e-7)))
    if first > 5 * _BATCH_SECONDS:  # a large op varies little, and was warm already
        second, _ = _batch(slots, 1, 2 * dispatch)
        return min(first, second), dispatch
    runs = max(runs, 1)
    times = [_batch(slots, runs, 1.2 * runs * dispatch) for _ in range(_BATCHES)]
    return statistics.median(seconds for seconds, _ in times), min(host for _, host in times)


def _batch(slots: list[Run], runs: int, head_start: float) -> tuple[float, float]:
    """One batch of runs behind a busy kernel of about ``head_start`` seconds, during which the host queues
    them.
    """
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    kept: list[Any] = [None] * len(slots)  # outputs live until their slot's turn comes again
    torch.cuda.synchronize()
    torch.cuda._sleep(int(head_start * _CLOCK))
    start.record()
    begin = time.perf_counter()
    for run in range(runs):
        slot = run % len(slots)
        kept[slot] = None
        kept[slot] = slots[slot]()
    dispatch = time.perf_counter() - begin
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e-3 / runs, dispatch / runs
