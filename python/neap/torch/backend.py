"""The backend for torch.compile: captures a training step, plans it, and runs the plan.

Nothing is compiled before the first call, when the real arguments are there: their sizes are numbers, and what
else is in memory is known. A new set of sizes is captured and planned anew.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx

from .. import errors
from ..plans import Link, Plan
from ..text import format_bytes
from . import eager
from .device import rounded
from .plans import Request, make_plan
from .program import Program, build
from .step import decompositions, device_of, priced_joint, resident, slack, trains

log = logging.getLogger("neap")

KERNELS = ("inductor", "eager")


@dataclass(frozen=True)
class Settings:
    """The arguments of neap.torch.backend."""

    budget: int | str | None = None
    kernels: str = "inductor"
    strict: bool = False
    offload: bool | Link = False
    split: bool = False
    time_limit: float = 10.0
    gap: float = 0.001
    measure: bool = True
    cache: bool = True

    def __post_init__(self) -> None:
        if self.kernels not in KERNELS:
            raise errors.InvalidError(f"kernels={self.kernels!r}: there are {' and '.join(map(repr, KERNELS))}")


@dataclass
class Report:
    """What was planned for one graph: an entry of Backend.reports."""

    name: str
    ops: int
    budget: int | None
    resident: int  # bytes besides the graph's own tensors
    natural_peak: int
    plan: Plan
    seconds: dict[str, float] = field(default_factory=dict)  # of measuring, planning, compiling
    measured: bool = True

    def __str__(self) -> str:
        budget = "no budget" if self.budget is None else f"budget {format_bytes(self.budget)}"
        return (f"{self.name}: {self.ops} ops, {budget}, peak {format_bytes(self.plan.peak)} "
                f"(without a plan {format_bytes(self.natural_peak)}), time {self.plan.overhead:+.2%}")


class Backend:
    """A backend for torch.compile. `reports` has an entry for every graph that was planned."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.reports: list[Report] = []
        self.step = _Step()

    def __call__(self, module: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable:
        return Runner(self, module, len(self.reports))


class _Step:
    """The training graphs whose backward pass is still to come."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.open: dict[int, Runner] = {}


class Runner:
    """Runs one graph that Dynamo captured; compiles it at the first call for each set of sizes."""

    def __init__(self, backend: Backend, module: fx.GraphModule, number: int) -> None:
        self.backend = backend
        self.module = module
        self.name = f"graph_{number}"
        placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        self.sizes = [i for i, n in enumerate(placeholders) if _is_size(n)]
        self.compiled: dict[tuple, _Compiled] = {}

    def __call__(self, *args: Any) -> Any:
        key = tuple(args[i] for i in self.sizes)
        compiled = self.compiled.get(key)
        if compiled is None or compiled.outgrown(args):
            compiled = self.compiled[key] = _Compiled(self, args, compiled)
        return compiled.function(*args)


def _is_size(node: fx.Node) -> bool:
    example = node.meta.get("example_value", node.meta.get("val"))
    return isinstance(example, (int, torch.SymInt, float, torch.SymFloat))


class _Compiled:
    """One graph at one set of sizes."""

    CHECKED_CALLS = 4  # whether more is resident than was planned for

    def __init__(self, runner: Runner, args: Sequence[Any], before: "_Compiled | None") -> None:
        self.runner = runner
        self.settings = runner.backend.settings
        self.device = device_of(args)
        self.report: Report | None = None
        self.budget: int | str | None = before.budget if before else self.settings.budget
        self.resident = max(resident(args, self.device), before.resident if before else 0)
        self.calls = 0
        self.args = args
        self.function = self._training() if trains(args) else self._inference()
        self.args = ()

    def outgrown(self, args: Sequence[Any]) -> bool:
        """Whether so much more is resident now that the plan would break the budget."""
        self.calls += 1
        if self.report is None or self.report.budget is None or self.calls > self.CHECKED_CALLS:
            return False
        now = resident(args, self.device)
        if now <= self.resident + slack(self.device) or now - self.resident + self.report.plan.peak <= self.report.budget:
            return False
        log.info("neap: %s more is resident than when %s was planned; planning again",
                 format_bytes(now - self.resident), self.report.name)
        return True

    # ---- compiling ----

    def _inference(self) -> Callable:
        if self.settings.kernels == "inductor":
            from . import inductor

            return inductor.plain(self.runner.module, self.args)
        return self.runner.module

    def _training(self) -> Callable:
        from torch._functorch.aot_autograd import aot_module_simplified

        programs: list[_Passes] = []

        def partition(module: fx.GraphModule, inputs: Any, *, num_fwd_outputs: int, **_: Any) -> tuple:
            passes = self._plan(module, num_fwd_outputs)
            programs.append(passes)
            return passes.program.forward, passes.program.backward

        with torch._functorch.config.patch(donated_buffer=False):
            return aot_module_simplified(
                self.runner.module, self.args,
                fw_compiler=lambda module, inputs: programs[-1].forward(),
                bw_compiler=lambda module, inputs: programs[-1].backward(),
                inference_compiler=lambda module, inputs: _boxed(module),
                partition_fn=partition,
                decompositions=decompositions(self.settings.kernels),
                keep_inference_input_mutations=self.settings.kernels == "inductor")

    def _plan(self, module: fx.GraphModule, forward_outputs: int) -> "_Passes":
        seconds: dict[str, float] = {}
        clock = _Clock(seconds)
        joint = priced_joint(module, forward_outputs, self.device, measure=self.settings.measure,
                             fixed_bytes=self.resident + slack(self.device))
        clock.lap("measuring")
        graph = joint.describe(self.runner.name)
        natural = graph.natural_peak
        if isinstance(self.budget, str):
            self.budget = _bytes_of(self.budget, natural)
        request = Request(self.budget, link=None, time_limit=self.settings.time_limit, gap=self.settings.gap,
                          alignment=rounded(1, self.device), cache=self.settings.cache)
        plan = make_plan(joint, self.runner.name, request)
        clock.lap("planning")
        self.report = Report(self.runner.name, len(joint.units), self.budget, self.resident, natural, plan, seconds)
        self.runner.backend.reports.append(self.report)
        log.info("neap: %s", self.report)
        return _Passes(build(joint, plan), self.settings)


@dataclass
class _Passes:
    program: Program
    settings: Settings

    def forward(self) -> Callable:
        return eager.compile_graph(self.program.forward, "forward")

    def backward(self) -> Callable:
        return eager.compile_graph(self.program.backward, "backward")


class _Clock:
    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds
        self.last = time.perf_counter()

    def lap(self, what: str) -> None:
        now = time.perf_counter()
        self.seconds[what] = self.seconds.get(what, 0.0) + now - self.last
        self.last = now


def _bytes_of(budget: str, natural: int) -> int:
    text = budget.strip()
    if text.endswith("%"):
        try:
            return int(natural * float(text[:-1]) / 100)
        except ValueError:
            raise errors.InvalidError(f"budget {budget!r}: write a number before the %") from None
    from ..text import parse_bytes

    return parse_bytes(text)


def _boxed(module: fx.GraphModule) -> Callable:
    return eager.compile_graph(module, "inference")
