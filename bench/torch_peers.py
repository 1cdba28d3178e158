"""Measures one way to run a training step: the process behind bench/torch_gpu.

    torch_peers.py DEVICE

Reads a job from each line of its input, a JSON object, and answers with a line: a row of results. A job that fails gives
a row with `error`; after an error that leaves the device unusable the process ends.

A step is forward, loss and backward, with gradients dropped before it and no optimizer: what an optimizer takes is the
same for every way. The first step is timed alone; after warm-up, the time is the median of consecutive steps, and the
peak is that of all of them. Where several of these processes share a device they take turns: see torch_turn.py.
"""

import contextlib
import gc
import json
import logging
import os
import statistics
import sys
import time

import torch
import torch_models
import torch_turn
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "python"))

SEED = 20261
LONG = 0.25  # seconds of a step; longer ones are run less often
STEADY, TRIES = 0.03, 3  # steps further apart than this are timed again, so many times in all
CHUNK = 1 << 24  # elements of a tensor that are hashed at a time


# ---- ways to run a step ----


@contextlib.contextmanager
def checkpointed(blocks):
    """Recomputes each block as a whole in the backward pass."""

    def wrap(forward):
        def run(*args, **kwargs):
            args = [list(a) if isinstance(a, list) else a for a in args]  # DenseNet appends to its list later
            return checkpoint(forward, *args, use_reentrant=False, **kwargs)

        return run

    for block in blocks:
        block.forward = wrap(block.forward)
    try:
        yield
    finally:
        for block in blocks:
            del block.forward


def saved_on_cpu(module):
    def run(*inputs):
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            return module(*inputs)

    return run


class Way:
    """How a job runs its step: `function(*inputs)` is the loss. `backend` is neap's."""

    def __init__(self, job, workload, stack, turn):
        self.backend = None
        self.turn = turn
        self.compiled = job["kind"] == "inductor" or job["way"] in ("knob", "neap")
        module = workload.module
        self.function = module
        if job["way"] == "checkpoint":
            stack.enter_context(checkpointed(workload.blocks))
            if self.compiled:
                self.function = self._compile(module, "inductor")
        elif job["way"] == "save_on_cpu":
            self.function = saved_on_cpu(module)
        elif job["way"] == "knob":
            from torch._functorch import config

            stack.enter_context(config.patch(activation_memory_budget=float(job["knob"])))
            self.function = self._compile(module, "inductor" if job["kind"] == "inductor" else "aot_eager")
        elif job["way"] == "neap":
            self.backend = self._neap(job)
            self.function = torch.compile(module, backend=self.backend)

    def _compile(self, module, backend):
        """torch.compile, which lets other processes measure while it compiles."""
        found = torch._dynamo.lookup_backend(backend)
        return torch.compile(module, backend=self.turn.after(torch_turn.at_once(found)))

    @staticmethod
    def _neap(job):
        import neap.torch

        options = {"time_limit": job["plan_seconds"]} if job.get("plan_seconds") else {}
        return neap.torch.backend(budget=job["budget"], kernels=job["kind"], strict=job["strict"],
                                  offload=job["offload"], **options)


# ---- measuring ----


class Meter:
    """Steps of one way on one device."""

    def __init__(self, device, workload, function, turn):
        self.device = device
        self.cuda = device.type == "cuda"
        self.workload = workload
        self.function = function
        self.turn = turn

    def step(self):
        self.workload.module.zero_grad(set_to_none=True)
        loss = self.function(*self.workload.inputs)
        loss.backward()
        return loss

    def first(self):
        """Seconds of the first step: capturing, measuring, planning and compiling included, waiting for the turn not."""
        begin = time.perf_counter() - self.turn.waited
        self.step()
        self.wait()
        return time.perf_counter() - self.turn.waited - begin

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize(self.device)

    def times(self, count):
        """Seconds of consecutive steps. On a GPU the host runs ahead, as it does in training."""
        if not self.cuda:
            return [self.first() for _ in range(count)]
        gc.collect()  # not in the middle of a step
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        marks[0].record()
        for mark in marks[1:]:
            self.step()
            mark.record()
        self.wait()
        return [a.elapsed_time(b) / 1e3 for a, b in zip(marks, marks[1:])]

    def typical(self, steps):
        """Milliseconds of a step, the median, and how far the steps are apart; steps that vary much are run again."""
        best = None
        for _ in range(TRIES):
            times = self.times(steps)
            middle = statistics.median(times) * 1e3
            spread = (max(times) - min(times)) * 1e3 / middle
            best = min(best or (middle, spread), (middle, spread))
            if spread <= STEADY or not self.cuda:
                break
        return best

    def measure(self, warmup, steps, compiled):
        """Times and peaks. A compiled step takes the turn when it is compiled."""
        row = {}
        if not compiled:
            self.turn.take()
        self._reset_peak()
        row["first"] = self.first()
        self.turn.take()
        if self.cuda:
            row["first_peak"] = torch.cuda.max_memory_allocated(self.device)
            torch.cuda.empty_cache()
        if warmup > 1 and self.first() > LONG:  # a step this long varies little
            warmup, steps = min(warmup, 3), min(steps, 3)
        for _ in range(max(0, warmup - 2)):
            self.step()
        self.wait()
        self._reset_peak()
        if steps:
            row["ms"], row["spread"] = self.typical(steps)
        if self.cuda:
            row["peak"] = torch.cuda.max_memory_allocated(self.device)
            row["reserved"] = torch.cuda.max_memory_reserved(self.device)
            if self.turn.file is None:  # what other processes have is not known
                free, total = torch.cuda.mem_get_info(self.device)
                row["outside"] = total - free - torch.cuda.memory_reserved(self.device)
        return row

    def _reset_peak(self):
        if self.cuda:
            torch.cuda.reset_peak_memory_stats(self.device)

    def result(self, buffers):
        """Loss, norm of the gradients, and a hash of each gradient and buffer, of a step with a fixed seed."""
        module = self.workload.module
        with torch.no_grad():
            for name, buffer in module.named_buffers():
                buffer.copy_(buffers[name])
        torch.manual_seed(SEED)
        loss = self.step().detach()
        gradients = [p.grad for p in module.parameters() if p.grad is not None]
        norm = torch.stack([g.float().norm() for g in gradients]).norm()
        tensors = [loss, *gradients, *module.buffers()]
        hashes = torch.stack([hash_of(tensor) for tensor in tensors]).tolist()
        return {"loss": loss.item(), "norm": norm.item(), "bits": [f"{h & (1 << 64) - 1:016x}" for h in hashes]}


def hash_of(tensor):
    """A number that changes with any bit of the tensor, computed on its device: a weighted sum modulo 2^64."""
    types = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    words = tensor.detach().contiguous().view(-1).view(types[tensor.element_size()])
    total = torch.zeros((), dtype=torch.int64, device=tensor.device)
    for begin in range(0, words.numel(), CHUNK):
        part = words[begin : begin + CHUNK].long()
        places = torch.arange(begin, begin + part.numel(), device=tensor.device)
        total += (part * ((places * 0x1E3779B97F4A7C15) ^ 0x5DEECE66D)).sum()
    return total


def predicted(backend):
    """What neap said of the graphs of the step: a graph planned again counts once."""
    reports = list({report.name: report for report in backend.reports}.values())
    if not reports:
        return {"graphs": 0}
    seconds = {}
    for report in backend.reports:
        for what, taken in getattr(report, "seconds", {}).items():
            seconds[what] = round(seconds.get(what, 0.0) + taken, 3)
    known = {} if reports[-1].budget is None else {"budget": reports[-1].budget}
    return {**known, "graphs": len(reports), "plans": len(backend.reports), "ops": sum(r.ops for r in reports),
            "predicted_ms": sum(r.plan.time for r in reports) * 1e3,
            "predicted_peak": max(r.plan.peak for r in reports),
            "split": sum(kind == "compute" and variant > 0 for r in reports for kind, _, variant in r.plan.steps),
            "recomputed": sum(r.plan.recomputed_ops for r in reports),
            "offloaded": sum(r.plan.offloaded_bytes for r in reports), "seconds": seconds}


# ---- jobs ----


class Bench:
    """Keeps the network of the last job on the device."""

    def __init__(self, device):
        self.device = torch.device(device)
        self.turn = torch_turn.Turn()
        self.name = None
        self.workload = None
        self.buffers = {}

    def load(self, job):
        if self.name == (job["model"], job["small"]):
            return
        self.name, self.workload, self.buffers = None, None, {}
        self.clean()
        torch_models.load_library(job["model"])
        with self.turn.taken():
            self.workload = torch_models.build(job["model"], self.device, job["small"])
            self.buffers = {name: b.clone() for name, b in self.workload.module.named_buffers()}
            self.name = (job["model"], job["small"])
            if job["prime"]:  # libraries take their workspaces once a process, not in a row
                Meter(self.device, self.workload, self.workload.module, self.turn).first()
                self.workload.module.zero_grad(set_to_none=True)

    def clean(self):
        if self.workload is not None:
            self.workload.module.zero_grad(set_to_none=True)
        self.turn.give()
        torch._dynamo.reset()
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
            getattr(torch._C, "_host_emptyCache", lambda: None)()  # pinned buffers

    def run(self, job):
        """The row of a job. A budget that cannot be met is raised to the least that can."""
        self.load(job)
        self.clean()
        refused = None
        for _ in range(3):
            row = self.attempt(job)
            least = row.pop("least")
            if refused:
                row["refused"] = refused
            if least is None or job["budget"] == least:
                break
            refused, job = refused or row["error"], {**job, "budget": least}
        return row

    def attempt(self, job):
        row = {"budget": job["budget"] if isinstance(job["budget"], int) else None, "least": None,
               "size": self.workload.size, "random": self.workload.random}
        if self.device.type == "cuda":
            row["base"] = torch.cuda.memory_allocated(self.device)
        try:
            with contextlib.ExitStack() as stack:
                way = Way(job, self.workload, stack, self.turn)
                meter = Meter(self.device, self.workload, way.function, self.turn)
                row.update(meter.measure(job["warmup"], job["steps"], way.compiled))
                if way.backend is not None:
                    row.update(predicted(way.backend))
                results = [meter.result(self.buffers) for _ in range(job["results"])]
                if results:
                    row["result"] = results[0]
                    row["again"] = [result["bits"] for result in results[1:]]
        except Exception as error:  # anything: the next row must run
            row["error"] = describe(error)
            row["fatal"] = is_fatal(error)
            row["least"] = least_budget(error)
        finally:
            way = meter = None
            self.clean()
        return row


def chain(error):
    """The exception and those that led to it."""
    seen = []
    while error is not None and error not in seen:
        seen.append(error)
        error = getattr(error, "inner_exception", None) or error.__cause__ or error.__context__
    return seen


def least_budget(error):
    for cause in chain(error):
        if getattr(cause, "least_budget", None):
            return cause.least_budget
    return None


def describe(error):
    if any(isinstance(cause, torch.OutOfMemoryError) for cause in chain(error)):
        return "out of memory"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]


def is_fatal(error):
    return any("CUDA error" in str(cause) or "device-side assert" in str(cause) for cause in chain(error))


def start_libraries(device):
    """Imports neap and torch.compile, which takes seconds and is no part of a first step, and opens the device."""
    import neap.torch  # noqa: F401

    value = torch.ones(2, requires_grad=True)
    torch.compile(lambda x: (x * 2).sum(), backend="aot_eager")(value).backward()
    torch._dynamo.reset()
    torch.zeros(1, device=device)


def warm_libraries(device):
    """Lets the device's libraries load their kernels."""
    if device.type == "cuda":
        image = torch.randn(2, 4, 8, 8, device=device, requires_grad=True)
        torch.nn.functional.conv2d(image, torch.randn(4, 4, 3, 3, device=device)).sum().backward()
        torch.randn(8, 8, device=device) @ torch.randn(8, 8, device=device)
        torch.cuda.synchronize(device)


def main():
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    if os.environ.get("NEAP_BENCH_VERBOSE"):
        logging.basicConfig(level=logging.INFO)
    bench = Bench(sys.argv[1])
    start_libraries(bench.device)
    with bench.turn.taken():
        warm_libraries(bench.device)
    torch_turn.hook(bench.turn)
    name = torch.cuda.get_device_name(bench.device) if bench.device.type == "cuda" else "CPU"
    print(json.dumps({"torch": torch.__version__, "device": name}), file=answers, flush=True)
    for line in sys.stdin:
        try:
            row = bench.run(json.loads(line))
        except Exception as error:  # the network itself could not be built
            row = {"error": describe(error), "fatal": is_fatal(error)}
        print(json.dumps(row), file=answers, flush=True)
        if row.get("fatal"):
            break


if __name__ == "__main__":
    main()
