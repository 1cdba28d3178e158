"""What is resident besides the graph: optimizer state, gradients from before, what the user holds."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor

from .device import rounded

# Tensors of state per parameter that an optimizer makes in its first step. Any other optimizer is counted
# once its state is there.
_STATE_TENSORS = {"Adam": 2, "AdamW": 2, "NAdam": 2, "RAdam": 2, "Adamax": 2, "SparseAdam": 2, "Adadelta": 2,
                  "Rprop": 2, "RMSprop": 1, "ASGD": 1}


def storage_sizes(tensors: Iterable[object], device: torch.device) -> dict[int, int]:
    """The storages of tensors on the device, by address."""
    sizes: dict[int, int] = {}
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor) or isinstance(tensor, FakeTensor):
            continue
        if tensor.device == device and tensor.layout is torch.strided:
            try:
                storage = tensor.untyped_storage()
                sizes[storage.data_ptr()] = rounded(storage.nbytes(), device)
            except (NotImplementedError, RuntimeError):
                continue  # a tensor without storage of its own: a wrapper
    sizes.pop(0, None)
    return sizes


def warm_libraries(device: torch.device) -> None:
    """Lets cuBLAS take the workspaces that it keeps, in this thread and in the one that runs backward passes."""
    if device.type == "cuda" and device not in _warm:
        _warm.add(device)
        with torch.enable_grad(), torch.autocast("cuda", enabled=False):
            factor = torch.ones(16, 16, device=device, requires_grad=True)
            (factor @ factor).sum().backward()
        torch.cuda.synchronize(device)


_warm: set[torch.device] = set()


def resident_bytes(inputs: Sequence[object], device: torch.device) -> int:
    """Bytes in use on the device that do not belong to the graph's inputs."""
    own = storage_sizes(inputs, device)
    if device.type == "cuda":
        return max(0, torch.cuda.memory_allocated(device) - idle_arena_bytes(device) - sum(own.values()))
    gradients = [t.grad for t in inputs if isinstance(t, torch.Tensor) and t.is_leaf and t.grad is not None]
    others = storage_sizes([*_live_tensors(), *gradients], device)
    return sum(size for address, size in others.items() if address not in own)


def idle_arena_bytes(device: torch.device) -> int:
    """Bytes of an arena of strict=True that no tensor uses now; PyTorch counts them as allocated."""
    from .arena_step import idle_bytes

    return idle_bytes(device)


def _live_tensors() -> list[torch.Tensor]:
    return [o for o in gc.get_objects() if type(o) in (torch.Tensor, torch.nn.Parameter)]


def coming_state_bytes(inputs: Sequence[object], device: torch.device) -> int:
    """Bytes that the optimizers of these parameters will take in their first step."""
    return state_bytes(inputs, device).coming


class State(NamedTuple):
    """Bytes of optimizers' state for a step's parameters."""

    coming: int  # taken in the optimizers' first step
    present: int  # there already
    without: int  # of the parameters that no optimizer has


def state_bytes(inputs: Sequence[object], device: torch.device) -> State:
    """The state of the optimizers that have these parameters."""
    mine = {id(t): t for t in inputs if isinstance(t, torch.nn.Parameter) or (
        isinstance(t, torch.Tensor) and t.is_leaf and t.requires_grad)}
    coming = present = 0
    for optimizer in filter(_is_optimizer, gc.get_objects()):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if id(parameter) not in mine:
                    continue
                state = optimizer.state.get(parameter)
                if state:
                    present += sum(storage_sizes(state.values(), device).values())
                elif parameter.requires_grad:
                    coming += _size(parameter, device) * _state_tensors(optimizer, group)
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                mine.pop(id(parameter), None)
    without = sum(_size(t, device) for t in mine.values() if t.requires_grad)
    return State(coming, present, without)


def _size(tensor: torch.Tensor, device: torch.device) -> int:
    return rounded(tensor.untyped_storage().nbytes(), device)


def update_bytes(inputs: Sequence[object], device: torch.device) -> int:
    """Memory that the optimizers of these parameters need while they run: those of Adam's kind that handle many
    tensors at once make a temporary for each."""
    mine = {id(t): t for t in inputs if isinstance(t, torch.Tensor) and t.is_leaf and t.requires_grad}
    most = 0
    for optimizer in gc.get_objects():
        if not _is_optimizer(optimizer) or type(optimizer).__name__ not in _STATE_TENSORS:
            continue
        groups = [g for g in optimizer.param_groups if not g.get("fused") and g.get("foreach") is not False]
        sizes = [storage_sizes([p for p in g["params"] if id(p) in mine], device) for g in groups]
        most = max([most, *(sum(s.values()) for s in sizes)])
    return most if device.type == "cuda" else 0  # on the CPU they take one tensor after another


def _is_optimizer(thing: object) -> bool:
    return isinstance(type(thing), type) and issubclass(type(thing), torch.optim.Optimizer)


def _state_tensors(optimizer: torch.optim.Optimizer, group: dict) -> int:
    name = type(optimizer).__name__
    count = _STATE_TENSORS.get(name, 0)
    if name == "SGD":
        count = 1 if group.get("momentum") else 0
    if name == "RMSprop":
        count += bool(group.get("momentum")) + bool(group.get("centered"))
    return count + bool(group.get("amsgrad"))
