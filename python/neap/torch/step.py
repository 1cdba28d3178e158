"""From what AOTAutograd traced to a step that can be planned: what the backend and neap.torch.capture share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from . import memory
from .costs import CostModel, Progress
from .device import rounded
from .joint import JointGraph, Unit, UnitCost

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
    return memory.resident_bytes(args, device) + memory.coming_state_bytes(args, device)


def slack(device: torch.device) -> int:
    """Room for the small tensors that come and go between steps: a loss, a counter."""
    return 1 << 20 if device.type == "cuda" else 1 << 16


def priced_joint(module: fx.GraphModule, forward_outputs: int, device: torch.device, *, fixed_bytes: int = 0,
                 measure: bool = True, progress: Progress | None = None) -> JointGraph:
    """The joint graph with the costs of its ops on the device.

    fixed_bytes: what is resident besides the graph's values. measure: run ops whose costs are not known yet;
    otherwise they are estimated.
    """
    device = torch.device(COUNTED_AS.get(device.type, device))
    joint = JointGraph(module, forward_outputs, lambda size: rounded(size, device))
    model = CostModel(device, measure=measure, progress=progress)
    prices = model.price([n for n in module.graph.nodes if n.op == "call_function"])
    model.flush()
    joint.set_costs(lambda unit: _unit_cost(unit, prices))
    joint.fixed_bytes = fixed_bytes
    return joint


def _unit_cost(unit: Unit, prices: dict) -> UnitCost:
    mine = [prices[node] for node in unit.nodes if node in prices]
    return UnitCost(sum(p.seconds for p in mine), max((p.workspace for p in mine), default=0))
