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
                  "Rprop": 2, "RMSprop": 1, "ASGD": 1, "Muon": 1}

# Temporaries per parameter while an optimizer runs. Weight decay that is added to the gradients takes one more, but
# Adam frees it before it makes its own.
_TEMPORARIES = {"SGD": 0, "Adam": 1, "AdamW": 1, "NAdam": 1, "RAdam": 1, "Adamax": 1, "RMSprop": 1, "ASGD": 1, "Rprop": 2,
                "Adadelta": 2, "Adagrad": 2}


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


def trained_sizes(inputs: Sequence[object]) -> dict[int, int]:
    """The parameters among a call's inputs, with the bytes of their gradients."""
    return {id(t): rounded(t.numel() * t.element_size(), t.device) for t in inputs
            if isinstance(t, torch.Tensor) and t.is_leaf and t.requires_grad}


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
    """Bytes that the optimizers of these parameters will take in their first step, for all parameters that they have:
    other graphs may train the rest."""
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
    for optimizer in _optimizers():
        all_of_them = [(group, parameter) for group in optimizer.param_groups for parameter in group["params"]]
        if not any(id(parameter) in mine for _, parameter in all_of_them):
            continue
        for group, parameter in all_of_them:
            state = optimizer.state.get(parameter)
            if not state and parameter.requires_grad and parameter.device == device:
                coming += _size(parameter, device) * _state_tensors(optimizer, group)
            elif state and id(parameter) in mine:
                present += sum(storage_sizes(state.values(), device).values())
        for _, parameter in all_of_them:
            mine.pop(id(parameter), None)
    without = sum(_size(t, device) for t in mine.values() if t.requires_grad)
    return State(coming, present, without)


def _size(tensor: torch.Tensor, device: torch.device) -> int:
    return rounded(tensor.untyped_storage().nbytes(), device)


def update_bytes(inputs: Sequence[object], device: torch.device) -> int:
    """Memory that the optimizers of these parameters need while they run: temporaries of all parameters of a group at
    once, or of one after another."""
    if device.type != "cuda":
        return 0  # one parameter after another, while all activations are gone
    mine = {id(t): t for t in inputs if isinstance(t, torch.Tensor) and t.is_leaf and t.requires_grad}
    most = 0
    for optimizer in _optimizers():
        for group in optimizer.param_groups:
            sizes = storage_sizes([p for p in group["params"] if id(p) in mine], device).values()
            most = max(most, temporary_bytes(optimizer, group, list(sizes)))
    return most


def temporary_bytes(optimizer: torch.optim.Optimizer, group: dict, sizes: Sequence[int]) -> int:
    """Bytes that an optimizer takes and frees again while it updates parameters of these sizes on a GPU."""
    name = _known_kind(optimizer, _TEMPORARIES)
    if name is None or group.get("fused") or not sizes:
        return 0
    adds_to_gradients = bool(group.get("maximize")) or (
        bool(group.get("weight_decay")) and not group.get("decoupled_weight_decay"))
    if group.get("foreach") is False:
        return (_TEMPORARIES[name] + adds_to_gradients + 2) * max(sizes)
    return (_TEMPORARIES[name] + (adds_to_gradients and name not in ("Adam", "AdamW"))) * sum(sizes)


def _known_kind(optimizer: torch.optim.Optimizer, table: dict[str, int]) -> str | None:
    """The optimizer of PyTorch that this one is, or is derived from."""
    return next((kind.__name__ for kind in type(optimizer).__mro__ if kind.__name__ in table), None)


def _optimizers() -> list[torch.optim.Optimizer]:
    """The optimizers that are alive. A process has hundreds of thousands of objects: their types are looked up in a
    set, which takes milliseconds."""
    kinds = {torch.optim.Optimizer}
    fresh = list(kinds)
    while fresh:
        fresh = [kind for one in fresh for kind in type.__subclasses__(one) if kind not in kinds]
        kinds.update(fresh)
    return [thing for thing in gc.get_objects() if type(thing) in kinds]


def _state_tensors(optimizer: torch.optim.Optimizer, group: dict) -> int:
    name = _known_kind(optimizer, {**_STATE_TENSORS, "SGD": 0})
    count = _STATE_TENSORS.get(name, 0)
    if name == "SGD":
        count = 1 if group.get("momentum") else 0
    if name == "RMSprop":
        count += bool(group.get("momentum")) + bool(group.get("centered"))
    return count + bool(group.get("amsgrad"))
