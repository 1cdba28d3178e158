"""What the ops of a joint graph cost on the user's device: time and workspace, measured once for each
signature.

    model = CostModel(torch.device("cuda"))
    costs = model.price(graph.nodes)        # node -> OpCost
    model.flush()

Measurements are kept in memory and on disk, so the next process of the same model prices its graph at once.
Where there is no device to measure on, or an op cannot be run alone, its time is estimated from the bytes it
moves and the arithmetic it does.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from dataclasses import dataclass
from typing import Any, Callable, Sequence

import torch
from torch.fx import Node

from . import roofline
from .cost_cache import CostCache, cache_folder
from .device import cache_bytes, device_key, rounded, settings_key, speed_of
from .measure import How, Measurement, Stopwatch, isolated
from .op_inputs import Unsafe
from .op_signature import (
    Signer, call_of, inner_call, is_getitem, leaves, output_tensors, signature, tensor_arguments, value_of,
)  # fmt: skip
from .reuse import cached_shares
from .trim import trim

__all__ = ["CostModel", "OpCost", "rounded", "signature", "tensor_arguments"]

log = logging.getLogger("neap.torch")

Progress = Callable[[int, int, str], None]

# Views that their schemas do not declare.
_UNDECLARED_VIEWS = {"_unsafe_view", "_reshape_alias", "alias", "detach", "lift_fresh"}


@dataclass(frozen=True)
class OpCost:
    """What one run of an op costs."""

    seconds: float
    """Time on the device."""
    workspace: int
    """Bytes that exist only while the op runs, beyond its inputs and outputs."""
    measured: bool
    """Whether the op was run, or its cost estimated."""
    alias: tuple[int | None, ...]
    """For each output, the index of the tensor argument whose storage it shares, in the order of
    ``tensor_arguments``, or None.
    """
    dispatch: float = 0.0
    """Host seconds to launch the op; what it takes where the device waits for the host. 0: not known."""
    cold: float = 0.0
    """Time on the device with nothing in its cache; 0 where it was not measured."""
    storage: tuple[int, ...] = ()
    """Bytes of each output's own storage where measured, 0 for views. A kernel may return a part of a larger
    buffer.
    """


class CostModel:
    """Prices the nodes of fx graphs on one device.

    device: where the graph runs. measure: run ops that are not in the cache; otherwise they are estimated.
    cache_dir: folder of the cache, by default $NEAP_CACHE_DIR or neap in the user's cache folder. progress:
    called as progress(done, total, what) while measuring. reuse: what an op finds in the device's cache:
    "graph" for what the nodes before it left there, "warm" for all its inputs, "cold" for nothing.

    Measuring resets the device's peak memory statistics and empties PyTorch's cache of free blocks.
    """

    def __init__(
        self,
        device: torch.device | str,
        cache_dir: str | None = None,
        measure: bool = True,
        progress: Progress | None = None,
        reuse: str = "graph",
    ):
        self.device = _with_index(torch.device(device))
        self.reuse = reuse
        self._measure = measure and _is_here(self.device)
        self._progress = progress
        self._cache = CostCache(cache_dir or cache_folder(), device_key(self.device))
        self._cache_bytes = cache_bytes(self.device)
        self._speed = speed_of(self.device)
        self._refused: set[str] = set()

    def price(self, nodes: Sequence[Node]) -> dict[Node, OpCost]:
        """The cost of every call_function node among ``nodes``; others are left out. Nodes carry their values
        in meta["val"].
        """
        costs = self._price_alone(nodes)
        if self._cache_bytes and self.reuse == "graph":
            shares = cached_shares(nodes, {node: cost.alias for node, cost in costs.items()}, self._cache_bytes)
            return {node: _mixed(cost, shares.get(node, 0.0)) for node, cost in costs.items()}
        if self.reuse == "cold":
            return {node: _mixed(cost, 0.0) for node, cost in costs.items()}
        return costs

    def _price_alone(self, nodes: Sequence[Node]) -> dict[Node, OpCost]:
        settings = settings_key(self.device)
        signer = Signer()
        costs: dict[Node, OpCost] = {}
        pending: dict[str, list[Node]] = {}
        known: dict[str, OpCost] = {}
        for node in nodes:
            if node.op != "call_function":
                continue
            free = _free(node)
            if free is not None:
                costs[node] = free
                continue
            try:
                text = signer.signature(node)
            except ValueError:  # a size that only the running program knows
                costs[node] = OpCost(self._speed.launch, 0, False, _declared_alias(node))
                continue
            if text not in known:
                entry = self._cache.get(settings, text)
                if entry is None:
                    pending.setdefault(text, []).append(node)
                    continue
                known[text] = _from_entry(entry)
            costs[node] = known[text]
        if pending:
            self._price_new(pending, settings, costs)
        return costs

    def price_variant(self, node: Node, name: str, how: How) -> OpCost | None:
        """The measured cost of running a node another way, ``how(target, args, kwargs)``; None where it cannot
        be measured.

        ``name`` tells the way apart from others in the cache.
        """
        text = f"{signature(node)} {name}"
        settings = settings_key(self.device)
        entry = self._cache.get(settings, text)
        if entry is not None:
            return _from_entry(entry)
        if not self._measure or text in self._refused:
            return None
        with isolated(self.device):
            try:
                cost = self._try(Stopwatch(self.device), node, text, how)
            finally:
                self._clean_up()
        if cost is not None:
            self._cache.put(settings, text, _to_entry(cost))
        return cost

    def flush(self) -> None:
        """Writes what was measured to the cache on disk, merged with what other processes wrote."""
        self._cache.flush()

    def _price_new(self, pending: dict[str, list[Node]], settings: str, costs: dict[Node, OpCost]) -> None:
        runnable = {text: group for text, group in pending.items() if self._measure and text not in self._refused}
        for text, group in pending.items():
            if text not in runnable:
                self._estimate_group(group, costs)
        if not runnable:
            return
        try:
            with isolated(self.device):
                self._measure_all(runnable, settings, costs)
        finally:  # what was measured before an interrupt is kept
            self.flush()

    def _measure_all(self, groups: dict[str, list[Node]], settings: str, costs: dict[Node, OpCost]) -> None:
        try:
            watch = Stopwatch(self.device)
            watch.wake()
            for done, (text, group) in enumerate(groups.items()):
                if self._progress:
                    self._progress(done, len(groups), str(group[0].target))
                cost = self._try(watch, group[0], text)
                if cost is None:
                    self._estimate_group(group, costs)
                    continue
                self._cache.put(settings, text, _to_entry(cost))
                costs.update(dict.fromkeys(group, cost))
            if self._progress:
                self._progress(len(groups), len(groups), "")
        finally:
            self._clean_up()

    def _try(self, watch: Stopwatch, node: Node, text: str, how: How | None = None) -> OpCost | None:
        """The measured cost of a node, or None where it cannot be run: then it is estimated."""
        trim(self.device)
        try:
            return _priced(node, watch.measure(call_of(node), how))
        except torch.OutOfMemoryError:
            log.info("not enough memory to measure %s; estimated", text)
        except Unsafe as reason:
            log.debug("%s; estimated", reason)
            self._refused.add(text)
        except (RuntimeError, TypeError, ValueError, NotImplementedError, IndexError) as error:
            log.info("%s cannot be run alone (%s); estimated", text, str(error).partition("\n")[0])
            self._refused.add(text)
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        return None

    def _estimate_group(self, group: list[Node], costs: dict[Node, OpCost]) -> None:
        cost = OpCost(roofline.estimate(group[0], self._speed), 0, False, _declared_alias(group[0]))
        costs.update(dict.fromkeys(group, cost))

    def _clean_up(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(self.device)


def _is_here(device: torch.device) -> bool:
    return device.type == "cpu" or (device.type == "cuda" and torch.cuda.is_available())


def _with_index(device: torch.device) -> torch.device:
    if device.type == "cuda" and device.index is None and torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return device


def _free(node: Node) -> OpCost | None:
    """The cost of a node that launches nothing: views, picks from tuples, arithmetic on sizes. None for all
    others.
    """
    if is_getitem(node):
        return OpCost(0.0, 0, True, (0,))
    target, args, _ = inner_call(node)
    if not isinstance(target, torch._ops.OpOverload):
        outputs = output_tensors(node)
        if any(output is not None for output in outputs):
            return None
        return OpCost(0.0, 0, True, (None,) * len(outputs))
    if target._opname in _UNDECLARED_VIEWS or (target.is_view and not _may_copy(target)):
        return OpCost(0.0, 0, True, (0,) * len(output_tensors(node)))
    return None


@functools.cache
def _may_copy(target: torch._ops.OpOverload) -> bool:
    """Whether an op that is declared a view may copy, as reshape and contiguous do."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), "CompositeImplicitAutograd")


def _declared_alias(node: Node) -> tuple[int | None, ...]:
    """Which outputs share an argument's storage, as far as the schema says."""
    count = len(output_tensors(node))
    target = inner_call(node)[0]
    schema = getattr(target, "_schema", None)
    if schema is None or not any(result.alias_info for result in schema.returns):
        return (None,) * count
    position, owners = 0, {}
    _, args, kwargs = inner_call(node)
    named = {**dict(zip((argument.name for argument in schema.arguments), args)), **kwargs}
    for argument in schema.arguments:
        if argument.alias_info:
            for label in argument.alias_info.before_set:
                owners.setdefault(label, position)
        held = leaves(named.get(argument.name), Node)
        position += sum(isinstance(value_of(source), torch.Tensor) for source in held)
    alias = [
        next((owners.get(label) for label in result.alias_info.before_set), None) if result.alias_info else None
        for result in schema.returns
    ]
    return tuple(alias) if len(alias) == count else (alias[0],) * count


def _priced(node: Node, found: Measurement) -> OpCost:
    target = inner_call(node)[0]
    view = not target._schema.is_mutable and found.alias and all(owner is not None for owner in found.alias)
    seconds, cold = (0.0, 0.0) if view else (found.seconds, found.cold)
    return OpCost(seconds, found.workspace, True, found.alias, found.dispatch, cold, found.storage)


def _mixed(cost: OpCost, cached: float) -> OpCost:
    """The cost where ``cached`` of the input bytes are in the device's cache."""
    if cost.cold <= cost.seconds:
        return cost
    return dataclasses.replace(cost, seconds=cost.cold - cached * (cost.cold - cost.seconds))


def _to_entry(cost: OpCost) -> list[Any]:
    return [cost.seconds, cost.workspace, list(cost.alias), cost.dispatch, cost.cold, list(cost.storage)]


def _from_entry(entry: list[Any]) -> OpCost:
    seconds, workspace, alias, dispatch, cold, storage = entry
    return OpCost(seconds, workspace, True, tuple(alias), dispatch, cold, tuple(storage))
