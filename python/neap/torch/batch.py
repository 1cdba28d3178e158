"""The largest batch that trains within a memory budget."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from .. import errors
from ..plans import Link, Plan
from ..text import format_bytes, format_seconds, parse_bytes
from .capture import Captured, Loss, link_of, trace
from .plans import Request, make_plan
from .progress import Meter

__all__ = ["BatchSuggestion", "Trial", "suggest_batch"]


def suggest_batch(model: Callable, make_inputs: Callable[[int], Any], budget: int | str, *,
                  slower: float | None = None, start: int = 1, multiple: int = 1, most: int | None = None,
                  tolerance: float = 0.0, loss: Loss | None = None, kernels: str | None = None,
                  offload: bool | Link = False, measure: bool = True, time_limit: float = 5.0) -> "BatchSuggestion":
    """Finds the largest batch whose training step has a plan within the budget.

        found = neap.torch.suggest_batch(model, lambda n: torch.randn(n, 3, 224, 224, device="cuda"), "16GiB",
                                         slower=0.1, multiple=8)
        print(found)
        found.batch, found.plan.peak, found.plan.overhead

    make_inputs  a function of the batch size: the input of the model, a tuple of inputs, or a dict of named ones
    budget       bytes or "16GiB"
    slower       the most that a sample may take longer than without a plan: 0.1 is 10%. None: as long as it takes
    start        the first batch to try; at least 2 for models with batch norm on single features
    multiple     try only multiples of this
    most         stop at this batch
    tolerance    stop once the answer is known to this fraction: 0.05 saves time. 0: exact
    loss, measure    as in neap.torch.capture
    kernels, offload as in neap.torch.explain
    time_limit   seconds of planning for each batch

    The batch grows until it does not fit; then the interval is bisected. The model is not run: each batch is captured,
    and ops of new sizes are measured; later calls take the costs from the cache. Make the optimizer first, so that its
    state is counted.

    Raises InfeasibleError if the first batch does not fit.
    """
    _check(slower, start, multiple, most, tolerance)
    size = _bytes(budget)
    with Meter() as meter:
        search = _Search(model, make_inputs, size, slower, loss, kernels, offload, measure, time_limit, meter)
        return search.run(-(-start // multiple), multiple, None if most is None else most // multiple, tolerance)


@dataclass(frozen=True)
class Trial:
    """One batch that was tried. `reason` says why it is not taken; "" if it fits."""

    batch: int
    natural_peak: int  # bytes without a plan
    plan: Plan | None = field(repr=False)
    reason: str = ""

    @property
    def fits(self) -> bool:
        return not self.reason


@dataclass(frozen=True)
class BatchSuggestion:
    """The largest batch that fits, and why the next one does not."""

    batch: int
    budget: int
    plan: Plan = field(repr=False)
    next_batch: int | None  # the smallest batch known not to fit; None: `most` was reached
    reason: str  # why it does not fit
    trials: tuple[Trial, ...] = field(repr=False)

    @property
    def unplanned_batch(self) -> int | None:
        """The largest batch of those tried that fits without a plan."""
        return max((t.batch for t in self.trials if t.natural_peak <= self.budget), default=None)

    @property
    def time_per_sample(self) -> float:
        """Predicted seconds."""
        return self.plan.time / self.batch

    def __str__(self) -> str:
        lines = [
            f"batch {self.batch} fits {format_bytes(self.budget)}: peak {format_bytes(self.plan.peak)}, "
            f"{format_seconds(self.plan.time)} a step",
            f"  {format_seconds(self.time_per_sample)} a sample, {self.plan.overhead:.1%} more than without a plan",
        ]
        if self.unplanned_batch is not None and self.unplanned_batch < self.batch:
            lines.append(f"  batch {self.unplanned_batch} fits without a plan")
        if self.next_batch is not None:
            lines.append(f"  batch {self.next_batch} does not fit: {self.reason}")
        return "\n".join(lines)


@dataclass
class _Search:
    """The batches tried so far."""

    model: Callable
    make_inputs: Callable[[int], Any]
    budget: int
    slower: float | None
    loss: Loss | None
    kernels: str | None
    offload: bool | Link
    measure: bool
    time_limit: float
    meter: Meter
    trials: list[Trial] = field(default_factory=list)

    def run(self, first: int, multiple: int, most: int | None, tolerance: float) -> BatchSuggestion:
        """Grows the batch, then bisects. Counts are in multiples."""
        fits = self.try_batch(first * multiple)
        if not fits.fits:
            raise errors.InfeasibleError(f"batch {fits.batch} does not fit: {fits.reason}", budget=self.budget)
        fails: Trial | None = None
        low, high = first, first
        while fails is None and (most is None or low < most):
            high = max(2 * low, self.unplanned_guess() // multiple)
            high = high if most is None else min(high, most)
            trial = self.try_batch(high * multiple)
            low, fits, fails = (high, trial, None) if trial.fits else (low, fits, trial)
        while fails is not None and high - low > max(1, tolerance * low):
            middle = (low + high) // 2
            trial = self.try_batch(middle * multiple)
            if trial.fits:
                low, fits = middle, trial
            else:
                high, fails = middle, trial
        assert fits.plan is not None
        return BatchSuggestion(fits.batch, self.budget, fits.plan, fails.batch if fails else None,
                               fails.reason if fails else "", tuple(self.trials))

    def unplanned_guess(self) -> int:
        """The largest batch that needs no plan, if the peak without one grows as between the last two batches."""
        if len(self.trials) < 2:
            return 0
        a, b = self.trials[-2:]
        rate = (b.natural_peak - a.natural_peak) / (b.batch - a.batch)
        return b.batch + int((self.budget - b.natural_peak) / rate) if rate > 0 else 0

    def try_batch(self, batch: int) -> Trial:
        self.meter.prefix = f"neap: batch {batch}"
        self.meter.say("capturing")
        try:
            step = self._trace(batch)
        except torch.OutOfMemoryError:
            trial = Trial(batch, self.budget + 1, None, "the device ran out of memory while it was captured")
        else:
            trial = self._plan(step, batch)
        self.trials.append(trial)
        return trial

    def _trace(self, batch: int) -> Captured:
        inputs = self.make_inputs(batch)
        gc.collect()  # what the batch before left on the device would count as resident
        args, kwargs = ((), inputs) if isinstance(inputs, Mapping) else (_tuple(inputs), {})
        return trace(self.model, args, kwargs, loss=self.loss, kernels=self.kernels, measure=self.measure,
                     progress=self.meter.measuring)

    def _plan(self, step: Captured, batch: int) -> Trial:
        graph = step.graph()
        peak, floor = graph.natural_arena(step.alignment), graph.floor
        if floor.bytes > self.budget:
            what = f"op {floor.op}" if floor.op else "the outputs alone"
            return Trial(batch, peak, None, f"{what} needs {format_bytes(floor.bytes)}")
        self.meter.say("planning")
        try:
            request = Request(self.budget, link=link_of(self.offload, step.device), time_limit=self.time_limit,
                              alignment=step.alignment, search_least=False)
            plan = make_plan(step.joint, step.name, request)
        except (errors.InfeasibleError, errors.Interrupted) as error:
            return Trial(batch, peak, None, str(error))
        if self.slower is not None and plan.overhead > self.slower:
            reason = f"its plan is {plan.overhead:.1%} slower; at most {self.slower:.1%} is allowed"
            return Trial(batch, peak, plan, reason)
        return Trial(batch, peak, plan)


def _tuple(inputs: Any) -> tuple:
    return tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)


def _bytes(budget: int | str) -> int:
    if isinstance(budget, str) and budget.strip().endswith("%"):
        raise errors.InvalidError(f"budget {budget!r}: a share has no meaning here, as every batch has another peak; "
                                  "give bytes, such as 16GiB")
    return parse_bytes(budget)


def _check(slower: float | None, start: int, multiple: int, most: int | None, tolerance: float) -> None:
    if start < 1 or multiple < 1:
        raise errors.InvalidError(f"start is {start} and multiple is {multiple}; both must be at least 1")
    if most is not None and most < max(start, multiple):
        raise errors.InvalidError(f"most is {most}; it must be at least the first batch, {max(start, multiple)}")
    if slower is not None and slower < 0:
        raise errors.InvalidError(f"slower is {slower}; it must be 0 or more, such as 0.1 for 10%")
    if not 0 <= tolerance < 1:
        raise errors.InvalidError(f"tolerance is {tolerance}; it must be from 0 to below 1")
