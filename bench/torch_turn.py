"""Taking turns on a device: several processes prepare their rows at the same time, and one at a time runs kernels.

What a row of bench/torch_gpu takes is mostly capturing, planning and compiling, which keeps a processor busy and not
the device. The process whose turn it is has the device for itself, and some processors that no other process uses.
NEAP_BENCH_TURN names the file whose lock is the turn, NEAP_BENCH_CORES two sets of processors: for the process whose
turn it is, and for the others. Without them a process has the device for itself all the time.
"""

import contextlib
import fcntl
import functools
import importlib
import os
import time

import torch

BACKGROUND = 5  # the niceness of processes that wait for their turn


class Turn:
    """The turn of this process: `held`, and the seconds that were spent waiting for it."""

    def __init__(self):
        path = os.environ.get("NEAP_BENCH_TURN")
        cores = os.environ.get("NEAP_BENCH_CORES")
        self.file = open(path, "w") if path else None  # noqa: SIM115: open as long as the process runs
        self.quiet, self.common = ([int(core) for core in part.split(",")] for part in cores.split(":")) if cores else ([], [])
        self.held = False
        self.waited = 0.0
        self._move(self.common, BACKGROUND)

    def take(self):
        """Waits until it is this process's turn."""
        if self.file is None or self.held:
            return
        begin = time.perf_counter()
        fcntl.flock(self.file, fcntl.LOCK_EX)
        self.held = True
        self._move(self.quiet, 0)
        self.waited += time.perf_counter() - begin

    def give(self):
        """Ends the turn, and gives unused memory back to the device."""
        if self.file is None or not self.held:
            return
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        self._move(self.common, BACKGROUND)
        self.held = False
        fcntl.flock(self.file, fcntl.LOCK_UN)

    @contextlib.contextmanager
    def taken(self):
        """A turn for the block, unless it is this process's turn already."""
        mine = not self.held
        self.take()
        try:
            yield
        finally:
            if mine:
                self.give()

    def after(self, prepare):
        """The function with the turn given away while it runs, and taken when it returns."""

        @functools.wraps(prepare)
        def run(*args, **kwargs):
            self.give()
            try:
                return prepare(*args, **kwargs)
            finally:
                self.take()

        return run

    @staticmethod
    def _move(cores, niceness):
        """Moves all threads of the process to these processors. Compilers that they start stay where they started."""
        for thread in os.listdir("/proc/self/task") if cores else []:
            with contextlib.suppress(OSError):  # one that has ended, or a system that does not allow it
                os.sched_setaffinity(int(thread), cores)
                os.setpriority(os.PRIO_PROCESS, int(thread), niceness)


def at_once(compile_step):
    """The compiling function, which compiles the backward pass with the forward pass and not while the step runs."""

    @functools.wraps(compile_step)
    def run(*args, **kwargs):
        with torch._functorch.config.patch(force_non_lazy_backward_lowering=True):
            return compile_step(*args, **kwargs)

    return run


def hook(turn):
    """Makes everything that runs kernels while a step is prepared wait for the turn."""
    if turn.file is None:
        return
    backend = importlib.import_module("neap.torch.backend")  # the package has a function of that name
    costs = importlib.import_module("neap.torch.costs")
    from torch._inductor.runtime.benchmarking import InductorBenchmarker

    trial, forecast = (importlib.import_module(f"neap.torch.{name}") for name in ("segment_trial", "arena_forecast"))
    for owner, name in ((InductorBenchmarker, "benchmark_gpu"), (backend, "measured_link"), (backend, "offer_splits"),
                        (trial, "tune"), (forecast, "forecast")):
        setattr(owner, name, _in_turn(turn, getattr(owner, name)))
    isolated = costs.isolated

    @contextlib.contextmanager
    def isolated_in_turn(device):
        with turn.taken(), isolated(device):
            yield

    costs.isolated = isolated_in_turn
    inductor = importlib.import_module("neap.torch.inductor")
    inductor.plain = at_once(inductor.plain)
    compiled = backend._Compiled
    compiled.__init__ = turn.after(compiled.__init__)


def _in_turn(turn, function):
    @functools.wraps(function)
    def run(*args, **kwargs):
        with turn.taken():
            return function(*args, **kwargs)

    return run
