"""The backend for torch.compile: captures a training step, plans it, and runs the plan.

Nothing is compiled before the first call, when the real arguments are there: their sizes are numbers, and what
else is in memory is known. A new set of sizes is captured and planned anew.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

from .. import errors
from ..plans import Link, Plan
from ..text import budget_bytes, format_bytes, is_share
from . import attention, memory, passes, ranks
from .device import rounded
from .joint import JointGraph
from .link import measured_link
from .numbers import Fixed, Numbers, Tracing
from .plans import Request, fitting, kept_bytes, least_bytes, make_plan, need
from .program import build
from .refusals import caller, of_one_graph
from .several import Member, Room, Steps
from .step import (decompositions, device_of, has_large_convolutions, offer_splits, priced_joint, resident, slack,
                   trains)
from .trim import trimmed

log = logging.getLogger("neap")

INDUCTOR_MARGIN = 1.03  # of the natural peak: Inductor's own schedule of a step without a plan may need more
KERNELS = ("inductor", "eager")
MOST_VARIANTS = 8  # compiled for changing Python floats where there is no plan; then op by op
STRICT_PLANS = 5  # further ones, if the memory that strict=True reserves does not fit
STRICT_MARGIN = 1 / 128  # of the budget: what the first of them keeps free at least; each later one twice as much


@dataclass(frozen=True)
class Settings:
    """The arguments of neap.torch.backend."""

    budget: int | str | None = None
    kernels: str = "inductor"
    strict: bool = False
    offload: bool | Link = False
    split: bool | str = "auto"
    time_limit: float = 10.0
    gap: float = 0.001
    measure: bool = True
    cache: bool = True

    def __post_init__(self) -> None:
        if self.kernels not in KERNELS:
            raise errors.InvalidError(f"kernels={self.kernels!r}: there are {' and '.join(map(repr, KERNELS))}")
        if self.split not in (True, False, "auto"):
            raise errors.InvalidError(f'split={self.split!r}: it is True, False or "auto"')
        if self.budget is not None:
            budget_bytes(self.budget, lambda: 2**62)


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

    def __str__(self) -> str:
        budget = "no budget" if self.budget is None else f"budget {format_bytes(self.budget)}"
        return (f"{self.name}: {self.ops} ops, {budget}, peak {format_bytes(self.plan.peak)} "
                f"(without a plan {format_bytes(self.natural_peak)}), time {self.plan.overhead:+.2%}")


class Backend:
    """A backend for torch.compile. `reports` has an entry for every graph that was planned."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.reports: list[Report] = []
        self.steps = Steps()
        self.graphs = 0

    def __call__(self, module: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable:
        self.graphs += 1
        return Runner(self, module, f"graph_{self.graphs - 1}")


class Runner:
    """Runs one graph that Dynamo captured; compiles it at the first call for each set of sizes."""

    def __init__(self, backend: Backend, module: fx.GraphModule, name: str) -> None:
        self.backend = backend
        self.module = module
        self.name = name
        placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        self.sizes = [i for i, n in enumerate(placeholders) if _is_size(n)]
        self.numbers = Numbers(module)
        self.compiled: dict[tuple, _Compiled] = {}

    def __call__(self, *args: Any) -> Any:
        steps = self.backend.steps
        key = self.key(args)
        compiled = self.compiled.get(key)
        if compiled is None or compiled.outdated(args):
            steps.watching = True
            compiled = _Compiled(self, args, compiled)
            self.compiled[compiled.key] = compiled
        if steps.watching and compiled.report is not None:
            steps.called(args)
        return compiled.function(*args)

    def key(self, args: Sequence[Any]) -> tuple:
        """Tells this graph at these sizes from all others."""
        return (self, *(args[i] for i in self.sizes), *self.numbers.values(args))

    def break_place(self) -> str:
        """Where and why Dynamo ended the graph before the end of the model; empty if it did not."""
        reason = getattr(self.module, "compile_subgraph_reason", None)
        if reason is None or not reason.graph_break:
            return ""
        frame = reason.user_stack[-1] if reason.user_stack else None
        place = f"{frame.filename}:{frame.lineno}" if frame else "an unknown line"
        return f"{place} ({str(reason.reason).splitlines()[0]})"


def _is_size(node: fx.Node) -> bool:
    example = node.meta.get("example_value", node.meta.get("val"))
    return isinstance(example, (int, torch.SymInt, float, torch.SymFloat))


class _NeedsNoPlan(Exception):
    """Ends the capture of a step that fits its budget as it is."""


class _Compiled:
    """One graph at one set of sizes."""

    CHECKED_CALLS = {"cuda": 4, "cpu": 1}  # whether more is resident than was planned for: slow on the CPU

    def __init__(self, runner: Runner, args: Sequence[Any], before: "_Compiled | None") -> None:
        self.runner = runner
        self.key = runner.key(args)
        self.steps = runner.backend.steps
        self.settings = runner.backend.settings
        self.device = device_of(args)
        self.report: Report | None = None
        self.strictly: passes.Strictly | None = None
        if before is not None and before.strictly is not None:
            before.strictly.forget()
        # A share of what the step needs grows with what is resident, but not by what a step went over it.
        settled = before is not None and (before.excess or self.key in self.steps.assigned)
        self.budget: int | str | None = before.budget if settled else self.settings.budget
        self.resident = max(ranks.gather(resident(args, self.device)))
        if before is not None and not before.provisional:
            self.resident = max(self.resident, before.resident + before.excess)
        self.update_bytes = memory.update_bytes(args, self.device)
        self.given = self.steps.assigned.pop(self.key, None)
        self.provisional = False  # planned for the least peak, until the graphs of the step are known
        self.excess = 0  # bytes by which a step went over the budget
        self.calls = 0
        self.args = args
        free = self.settings.kernels == "inductor" and self.budget is None and not self.settings.strict
        self.function = self._training() if trains(args) and not free else self._inference()
        self.args = ()

    def outdated(self, args: Sequence[Any]) -> bool:
        """Whether there is a new plan, or one is needed: more is resident now, or a step went over the budget."""
        self.calls += 1
        self.steps.check(self.key)
        if self.key in self.steps.assigned:
            return True
        if self.provisional and self.key in self.steps.alone and not self.steps.amid:
            return True
        if self.report is None or self.report.budget is None:
            return False
        if self.calls > self.CHECKED_CALLS.get(self.device.type, 0) or self.given is not None:
            return False
        self.excess = max(ranks.gather(self.excess))
        if self.excess:
            log.info("neap: %s went %s over its budget; planning again", self.report.name, format_bytes(self.excess))
            return True
        now = max(ranks.gather(memory.resident_bytes(args, self.device)))
        room = self.report.budget - self.report.plan.peak
        if self.steps.amid or now <= self.resident + max(room, slack(self.device)):
            return False
        log.info("neap: %s more is resident than when %s was planned; planning again",
                 format_bytes(now - self.resident), self.report.name)
        return True

    # ---- compiling ----

    def _inference(self) -> Callable:
        if self.settings.kernels == "inductor":
            from . import inductor

            self._fix_numbers(self.runner.numbers.positions)
            if self.runner.numbers.positions and len(self.runner.compiled) >= MOST_VARIANTS:
                return self.runner.module
            return inductor.plain(self.runner.numbers.specialized(self.runner.module, self.args), self.args)
        return self.runner.module

    def _fix_numbers(self, positions: Iterable[int]) -> None:
        self.runner.numbers.fixed.update(positions)
        self.key = self.runner.key(self.args)

    def _training(self) -> Callable:
        if self.device.type in attention.DEVICES:
            attention.drop_needless_masks(self.runner.module)
        while True:
            tracing = Tracing(self.runner.numbers, self.args)
            try:
                return self._captured(tracing)
            except Fixed as found:
                self._fix_numbers(found.positions)
            finally:
                tracing.args.clear()  # what was traced may refer to it

    def _captured(self, tracing: Tracing) -> Callable:
        from torch._functorch.aot_autograd import aot_module_simplified

        compiled: list[tuple[passes.Pass, passes.Pass]] = []

        def partition(module: fx.GraphModule, inputs: Any, *, num_fwd_outputs: int,
                      static_lifetime_input_indices: list[int] | None = None, **_: Any) -> tuple:
            tracing.replace_numbers(module)
            if self.settings.kernels == "inductor":
                from . import inductor

                module = inductor.prepare_joint(module, inputs, num_fwd_outputs=num_fwd_outputs,
                                                static_lifetime_input_indices=static_lifetime_input_indices)
            made, both = self._planned_passes(module, num_fwd_outputs)
            compiled.append(both)
            return made.program.forward, made.program.backward

        try:
            with torch._functorch.config.patch(donated_buffer=False):
                return aot_module_simplified(
                    self.runner.numbers.specialized(self.runner.module, self.args), tracing.args,
                    fw_compiler=lambda module, inputs: compiled[-1][0],
                    bw_compiler=lambda module, inputs: compiled[-1][1],
                    inference_compiler=lambda module, inputs: passes.op_by_op(module, "inference"),
                    partition_fn=partition,
                    decompositions=decompositions(self.settings.kernels),
                    keep_inference_input_mutations=self.settings.kernels == "inductor")
        except _NeedsNoPlan:
            return self._inference()
        except (DataDependentOutputException, DynamicOutputShapeException) as error:
            raise errors.UnsupportedError(f"op {error.func}{caller(error)} gives a result whose size or value depends on "
                                          "data; move it out of the compiled model") from error

    def _link(self) -> Link | None:
        if isinstance(self.settings.offload, Link):
            return self.settings.offload
        return measured_link(self.device) if self.settings.offload else None

    def _planned_passes(self, module: fx.GraphModule, forward_outputs: int) -> tuple[passes.Passes, tuple]:
        """The passes of a plan, compiled. What strict=True reserves beyond the budget is planned for again."""
        clock = passes.Clock()
        joint = self._priced(module, forward_outputs, clock)
        made = self._plan(joint, clock)
        both = made.compile()
        for attempt in range(STRICT_PLANS):
            over = self._reserved_over(made)
            if over == 0:
                break
            log.info("neap: %s would reserve %s more than its budget; planning again", self.runner.name, format_bytes(over))
            joint.fixed_bytes += max(over + over // 8, int(self.report.budget * STRICT_MARGIN) << attempt)
            try:
                plan = self._plan_or_split(joint)
            except errors.InfeasibleError:
                break
            clock.lap("planning")
            self.report.plan = plan
            made.strict_on.forget()
            made = self._passes(joint, plan, clock)
            both = made.compile()
        over = self._reserved_over(made)
        if over > 0:
            log.warning("neap: %s may reserve %s more than its budget", self.runner.name, format_bytes(over))
        self.strictly = made.strict_on
        return made, both

    def _reserved_over(self, made: passes.Passes) -> int:
        """By how many bytes what strict=True reserves exceeds the budget that this graph has for itself."""
        over = 0 if made.strict_on is None else max(ranks.gather(made.strict_on.over))
        return 0 if self._one_of_several() or self.given is not None else over

    def _priced(self, module: fx.GraphModule, forward_outputs: int, clock: passes.Clock) -> JointGraph:
        with trimmed(self.device) if self.settings.strict else contextlib.nullcontext():
            joint = priced_joint(module, forward_outputs, self.device, kernels=self.settings.kernels,
                                 measure=self.settings.measure, fixed_bytes=self.resident + slack(self.device),
                                 update_bytes=self.update_bytes)
        clock.lap("measuring")
        return joint

    def _bytes_given(self) -> int | None:
        """The budget, unless it is a share of what is not known yet."""
        if self.budget is None or (isinstance(self.budget, str) and self.budget.strip().endswith("%")):
            return None
        return budget_bytes(self.budget, lambda: 0)

    def _plan(self, joint: JointGraph, clock: passes.Clock) -> passes.Passes:
        natural = joint.describe(self.runner.name).natural_peak
        if not self._one_of_several() or not is_share(self.budget):
            self._set_budget(natural)
        plan = self.given.plan if self.given else self._first_plan(joint)
        clock.lap("planning")
        budget = None if isinstance(self.budget, str) else self.budget
        self.report = Report(self.runner.name, len(joint.units), budget, self.resident, natural, plan,
                             clock.seconds)
        self.runner.backend.reports.append(self.report)
        log.info("neap: %s", self.report)
        if self.given is None and self.budget is not None:
            self._join_step(joint, plan, natural)
        if self._needs_no_plan(natural):
            raise _NeedsNoPlan
        return self._passes(joint, plan, clock)

    def _passes(self, joint: JointGraph, plan: Plan, clock: passes.Clock) -> passes.Passes:
        strictly = self._strictly(joint) if self.settings.strict else None
        return passes.Passes(build(joint, plan), self.device, self.settings.kernels, strictly, clock, self._entered,
                             self._returns, self._left, self._failed)

    def _strictly(self, joint: JointGraph) -> passes.Strictly:
        from .arena_room import Room

        room, budget = None, self._bytes_given()
        if budget is not None:
            inputs = sum(v.bytes for v in joint.values if v.kind in ("parameter", "input"))
            room = Room(budget, self.resident + slack(self.device) + inputs, self._coming_segments(),
                        shared=self._one_of_several())
        return passes.Strictly(self.device, room, self.settings.measure)

    def _coming_segments(self) -> int:
        """What PyTorch will reserve for the state that optimizers have yet to make."""
        from .arena_room import segment_bytes

        sizes = list(memory.storage_sizes([a for a in self.args if isinstance(a, torch.nn.Parameter)], self.device).values())
        coming = memory.coming_state_bytes(self.args, self.device)
        times = -(-coming // max(sum(sizes), 1))  # Adam makes two tensors for each parameter
        return max(coming, segment_bytes(sizes * times))

    def _needs_no_plan(self, natural: int) -> bool:
        """Whether Inductor may do as it likes: the step fits without a plan, with room for what fusion changes."""
        if self.settings.kernels != "inductor" or self.settings.strict or self._one_of_several() or self.given:
            return False
        if self.runner.numbers.changing:
            return False  # Inductor alone would compile the graph for every value
        return natural * INDUCTOR_MARGIN <= self.budget

    def _request(self, **changes: Any) -> Request:
        return Request(**{"budget": self.budget, "link": self._link(), "time_limit": self.settings.time_limit,
                          "gap": self.settings.gap, "alignment": rounded(1, self.device),
                          "cache": self.settings.cache, **changes})

    def _one_of_several(self) -> bool:
        return self.steps.amid or (bool(self.runner.break_place()) and self.key not in self.steps.alone)

    def _set_budget(self, natural: int) -> int | None:
        if isinstance(self.budget, str):
            self.budget = budget_bytes(self.budget, lambda: natural)
        return self.budget

    def _first_plan(self, joint: JointGraph) -> Plan:
        """In a step of several graphs each needs as little as it can until all of them are known."""
        if self.budget is None or not self._one_of_several():
            return self._plan_or_split(joint)
        self.provisional = True
        plan = make_plan(joint, self.runner.name, self._request(budget=None, objective="peak"))
        if is_share(self.budget) or need(plan) <= self.budget:
            return plan
        if need(plan) <= self.budget + self.steps.could_free():
            log.warning("neap: %s needs up to %s more than its budget in the first step; from the second on the graphs "
                        "of the step share it", self.runner.name, format_bytes(need(plan) - self.budget))
            return plan
        try:
            return make_plan(joint, self.runner.name, self._request())
        except errors.InfeasibleError as error:
            raise of_one_graph(error) from None

    def _plan_or_split(self, joint: JointGraph) -> Plan:
        """Convolutions in parts change the last bits of weight gradients: only where the budget needs them."""
        split = self.settings.split
        if split is True or (split == "auto" and self._is_below_floor(joint)):
            offer_splits(joint, self.device)
        elif split == "auto" and has_large_convolutions(joint):
            with contextlib.suppress(errors.InfeasibleError):
                return make_plan(joint, self.runner.name, self._request(search_least=False))
            offer_splits(joint, self.device)
        plan = make_plan(joint, self.runner.name, self._request())
        parts = sum(1 for kind, _, variant in plan.steps if kind == "compute" and variant > 0)
        if parts:
            log.warning("neap: %s fits its budget with %d convolutions in parts along the batch; the last bits of their "
                        "weight gradients differ (split=False refuses this)", self.runner.name, parts)
        return plan

    def _is_below_floor(self, joint: JointGraph) -> bool:
        """Whether one op alone needs more than the budget: no use to look for a plan without parts."""
        return isinstance(self.budget, int) and self.budget < joint.describe(self.runner.name).floor.bytes

    # ---- steps ----

    def _join_step(self, joint: JointGraph, plan: Plan, natural_peak: int) -> None:
        """What planning this graph together with others of its step takes."""
        inputs = sum(v.bytes for v in joint.values if v.kind in ("parameter", "input"))
        as_planned = Room(self.resident, 0)
        kept_now = kept_bytes(plan, joint)

        def limit(room: Room) -> None:
            joint.fixed_bytes, joint.later_bytes = room.resident + slack(self.device), room.later
            border = joint.units[joint.boundary]
            tangents = sum(joint.values[v].bytes for v in border.outputs)
            border.workspace = 0 if room.kept is None else max(
                0, self.budget - joint.fixed_bytes - inputs - room.kept - room.later - tangents)

        def may_fit(room: Room) -> bool:
            limit(room)
            return least_bytes(joint) <= self.budget

        def plan_with(room: Room) -> Plan:
            natural, _ = free_plan("time")
            limit(room)
            request = self._request(time_limit=self.settings.time_limit / 4, search_least=False)
            return fitting(natural, joint, request) or make_plan(joint, self.runner.name, request)

        def free_plan(objective: str) -> tuple[Plan, int]:
            limit(as_planned)
            made = make_plan(joint, self.runner.name, self._request(budget=None, objective=objective))
            return made, kept_bytes(made, joint)

        self.steps.members[self.key] = Member(self.key, self.resident, kept_now, free_plan, natural_peak,
                                              self._set_budget, may_fit, plan_with, self.runner.break_place())

    def _entered(self) -> Callable[[], None]:
        """Called before a forward pass; returns what is to be called when its backward pass can no longer come."""
        call = self.steps.entered(self.key)
        first = len(self.steps.open) == 1
        if self._watched() or (first and self._shares_for_the_first_time()):
            torch.cuda.reset_peak_memory_stats(self.device)
        return functools.partial(self.steps.given_up, call)

    def _returns(self) -> None:
        self.steps.returns(self.key)

    def _failed(self, error: BaseException) -> None:
        """A pass ended by an error: the step is given up."""
        self.steps.open.clear()
        if isinstance(error, torch.OutOfMemoryError) and hasattr(error, "add_note"):
            budget = "" if self.report.budget is None else f", within the budget of {format_bytes(self.report.budget)}"
            error.add_note(f"neap planned a peak of {format_bytes(self.report.plan.peak)}{budget}; the device has less "
                           "free. Give a smaller budget, or free what else is on the device")

    def _watched(self) -> bool:
        """Whether this is the first step of a graph that has the budget for itself, on a device that counts."""
        return (self.calls == 0 and self.device.type == "cuda" and self.report.budget is not None
                and self.given is None)

    def _shares_for_the_first_time(self) -> bool:
        return self.calls == 0 and self.given is not None and self.device.type == "cuda"

    def _left(self) -> None:
        if self._watched():
            most = torch.cuda.max_memory_reserved if self.settings.strict else torch.cuda.max_memory_allocated
            self.excess = max(0, most(self.device) - self.budget)
        self.steps.left(self.key)
        if not self.steps.open and self._shares_for_the_first_time():
            excess = torch.cuda.max_memory_allocated(self.device) - self.budget
            if excess > 0:
                log.warning("neap: a step of several graphs went %s over its budget; give a budget that is smaller by as "
                            "much, or remove graph breaks", format_bytes(excess))
