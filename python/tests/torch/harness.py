"""Trains a problem of the zoo with one compiler or another, and compares two trainings to the bit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from memory import Allocator, LiveBytes, resident_bytes
from torch import nn
from zoo import Batch, Problem

STEPS = 10
SEED = 7


@dataclasses.dataclass
class Record:
    """Everything a training computes: what two trainings must agree in."""

    steps: list[dict[str, torch.Tensor]]
    """The loss and the gradients of every step."""
    end: dict[str, torch.Tensor]
    """Parameters, buffers and the state of the random generator after the last step."""
    live: list[int]
    """Peak of the live tensor bytes of each step; 0 for the first, which compiles."""
    allocated: list[int]
    """Peak of the allocator in each step."""


def reference(module: nn.Module, **options: object) -> Callable:
    """`module` compiled without a plan: the same captured graph, every op once."""
    torch._dynamo.reset()
    return torch.compile(module, backend="aot_eager", **options)


def planned(module: nn.Module, budget: int | str, **options: object) -> Callable:
    """`module` compiled for `budget` with the exact kernels. `options` are the backend's."""
    import neap.torch

    torch._dynamo.reset()
    return torch.compile(module, backend=neap.torch.backend(budget=budget, kernels="eager", **options))


def train(problem: Problem, run: Callable, steps: int = STEPS) -> Record:
    """Trains `problem.module` through `run`, which is the module compiled or itself."""
    torch.manual_seed(SEED)
    optimizer = problem.make_optimizer()
    record = Record([], {}, [], [])
    for step in range(steps):
        batch = problem.batch(step)
        optimizer.zero_grad()
        with measured(problem.module, batch, record):
            loss = run(*batch)
            loss.backward()
        record.steps.append(snapshot(problem.module, loss))
        del loss
        optimizer.step()
    record.end = {name: value.detach().clone() for name, value in problem.module.state_dict().items()}
    record.end["random state"] = torch.random.get_rng_state()
    return record


def snapshot(module: nn.Module, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    """Copies of the loss and of all gradients."""
    taken = {"loss": loss.detach().clone()}
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, f"{name} has no gradient"
        taken[f"gradient of {name}"] = parameter.grad.clone()
    return taken


@contextmanager
def measured(module: nn.Module, batch: Batch, record: Record) -> Iterator[None]:
    """Adds the peaks of one step, of forward and backward, to `record`."""
    resident = [*module.parameters(), *module.buffers(), *batch]
    allocator = Allocator.install()
    others = allocator.live() - resident_bytes(resident)
    allocator.reset()
    if record.allocated:
        mode = LiveBytes(resident)
        with mode:
            yield
        assert mode.operators > 0
        record.live.append(mode.peak)
    else:
        yield
        record.live.append(0)
    record.allocated.append(allocator.peak() - others)


def assert_same_bits(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor], where: str = "") -> None:
    """Fails with the names of the tensors that differ in any bit."""
    assert ours.keys() == theirs.keys()
    different = [difference(name, ours[name], theirs[name]) for name in ours]
    different = [text for text in different if text]
    assert not different, f"{where}: {len(different)} of {len(ours)} differ: " + "; ".join(different[:5])


def difference(name: str, a: torch.Tensor, b: torch.Tensor) -> str:
    """What differs between two tensors, in words; empty if nothing does. NaN equals itself, -0 is not 0."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{name}: {tuple(a.shape)} {a.dtype} and {tuple(b.shape)} {b.dtype}"
    if torch.equal(_bytes(a), _bytes(b)):
        return ""
    return f"{name} by up to {(a.double() - b.double()).abs().max().item():.3g}"


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().flatten().view(torch.uint8)


def assert_same_training(ours: Record, theirs: Record) -> None:
    for step, (a, b) in enumerate(zip(ours.steps, theirs.steps, strict=True)):
        assert_same_bits(a, b, f"step {step}")
    assert_same_bits(ours.end, theirs.end, "after training")
