"""From what AOTAutograd traced to a step that can be planned: what the backend and neap.torch.capture share."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from . import memory, rewrite
from .costs import CostModel, Progress
from .device import rounded
from .joint import JointGraph, Unit, UnitCost
from .split import LEAST_WORKSPACE, can_split, conv_split_variants

COUNTED_AS = {"meta": "cuda"}  # devices that hold nothing stand for those that a model on them is meant for


def device_of(args: Sequence[Any]) -> torch.device:
    """The device that a step runs on: the first of its arguments' that is not the CPU."""
    devices = [a.device for a in args if isinstance(a, torch.Tensor)]
    for device in devices:
        if device.type != "cpu":
            return device
    return torch.device("cpu")


def trains(args: Sequence[Any]) -> bool:
    """Whether a call with these arguments builds a backward pass."""
    return torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in args)


def decompositions(kernels: str) -> dict:
    """The ops that are taken apart while tracing."""
    if kernels == "inductor":
        from . import inductor

        return inductor.decompositions()
    return {}


def resident(args: Sequence[Any], device: torch.device) -> int:
    """Bytes besides the step's own: what is there now and what its optimizers will take."""
    memory.warm_libraries(device)
    return memory.resident_bytes(args, device) + memory.coming_state_bytes(args, device)


def slack(device: torch.device) -> int:
    """Room for small tensors that come and go between steps (a loss, a counter), and for the allocator: it
    splits a cached block only where more than 1 MiB is left over, and counts the whole block as allocated."""
    return 16 << 20 if device.type == "cuda" else 1 << 16


def priced_joint(module: fx.GraphModule, forward_outputs: int, device: torch.device, *, kernels: str = "eager",
                 fixed_bytes: int = 0, update_bytes: int = 0, measure: bool = True, progress: Progress | None = None) -> JointGraph:
    """The joint graph with the costs of its ops on the device.

    fixed_bytes: what is resident besides the graph's values. update_bytes: what the optimizer needs while it runs. measure: run ops whose costs are not known yet;
    otherwise they are estimated.
    """
    device = torch.device(COUNTED_AS.get(device.type, device))
    model = CostModel(device, measure=measure, progress=progress)
    groups = None
    if kernels == "inductor":
        from . import inductor

        groups = inductor.fusion_groups(module)
    else:
        rewrite.prepare(module)
    joint = JointGraph(module, forward_outputs, lambda size: rounded(size, device), groups)
    if kernels == "inductor":
        units = [unit for unit in joint.units if unit.nodes]
        fused = dict(zip((u.id for u in units), inductor.price_units([u.nodes for u in units], model)))
        joint.set_costs(lambda unit: UnitCost(*fused[unit.id]))
    else:
        prices = model.price([n for n in module.graph.nodes if n.op == "call_function"])
        joint.set_costs(lambda unit: _unit_cost(unit, prices))
        _use_real_sizes(joint, prices)
    model.flush()
    joint.fixed_bytes = fixed_bytes
    if update_bytes > 0:
        joint.add_update(update_bytes)
    return joint


def _use_real_sizes(joint: JointGraph, prices: dict) -> None:
    """Some kernels return part of a larger storage; the traced size does not show it."""
    for node, value in joint.value_of.items():
        op, index = (node.args[0], node.args[1]) if node.target is operator.getitem else (node, 0)
        real = prices[op].storage if op in prices else ()
        if index < len(real) and joint.values[value].view_of is None:
            joint.values[value].bytes = max(joint.values[value].bytes, joint.rounding(real[index]))


def _unit_cost(unit: Unit, prices: dict) -> UnitCost:
    mine = [prices[node] for node in unit.nodes if node in prices]
    return UnitCost(sum(p.seconds for p in mine), max((p.workspace for p in mine), default=0))


def has_large_convolutions(joint: JointGraph) -> bool:
    """Whether a convolution has so much workspace that running it in parts may help."""
    return any(unit.workspace >= LEAST_WORKSPACE and any(can_split(node.target) for node in unit.nodes)
               for unit in joint.units)


def offer_splits(joint: JointGraph, device: torch.device) -> None:
    """Adds variants in parts along the batch to convolutions with much workspace."""
    model = CostModel(device)
    for unit in joint.units:
        for node in unit.nodes:
            if can_split(node.target):
                unit.variants = [tuple(variant) for variant in conv_split_variants(node, model)]
    model.flush()
