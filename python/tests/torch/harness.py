"""Trains a problem of the zoo with one compiler or another, and compares two trainings to the bit."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy
import torch
from memory import Allocator, LiveBytes, resident_bytes
from torch import nn
from zoo import Batch, Problem

STEPS = 10
SEED = 7


@dataclasses.dataclass(frozen=True)
class Bits:
    """A copy of a tensor's contents outside of PyTorch, so that it does not count as memory of the step."""

    shape: tuple[int, ...]
    type: torch.dtype
    bytes: numpy.ndarray

    @staticmethod
    def of(tensor: torch.Tensor) -> "Bits":
        flat = tensor.detach().contiguous().flatten().view(torch.uint8)
        return Bits(tuple(tensor.shape), tensor.dtype, flat.numpy().copy())

    def tensor(self) -> torch.Tensor:
        return torch.from_numpy(self.bytes.copy()).view(self.type)


@dataclasses.dataclass
class Record:
    """Everything a training computes: what two trainings must agree in."""

    steps: list[dict[str, Bits]]
    """The loss and the gradients of every step."""
    end: dict[str, Bits]
    """Parameters, buffers and the state of the random generator after the last step."""
    live: list[int]
    """Peak of the live tensor bytes of each step; 0 for the first, which compiles, and in PyTorch 2.9."""
    allocated: list[int]
    """Peak of the allocator in each step."""

    def peak(self) -> int:
        """What the training needs: live tensor bytes, or what the allocator says where those cannot be seen."""
        return max(self.live) or max(self.allocated)


def reference(module: nn.Module, **options: object) -> Callable:
    """`module` compiled without a plan: the same captured graph, every op once."""
    forget()
    return torch.compile(module, backend="aot_eager", **options)


def planned(module: nn.Module, budget: int | str, **options: object) -> Callable:
    """`module` compiled for `budget` with the exact kernels. `options` are the backend's."""
    import neap.torch

    forget()
    return torch.compile(module, backend=neap.torch.backend(budget=budget, kernels="eager", **({"time_limit": 2} | options)))


def same_as_reference(make: Callable[[], nn.Module], drive: Callable, budget: int | str = "60%",
                      unplanned: str = "aot_eager", dynamic: bool | None = None, **options: object) -> list:
    """Runs `drive(module, run)`, which returns named tensors, unplanned and planned, and compares the two.

    Fails if nothing was planned or if no plan is below the natural peak. Returns the backend's reports.
    """
    import neap.torch

    def driven(backend: object) -> dict[str, Bits]:
        forget()
        torch.manual_seed(SEED)
        module = make()
        taken = {name: Bits.of(t) for name, t in drive(module, torch.compile(module, backend=backend, dynamic=dynamic)).items()}
        taken["random state"] = Bits.of(torch.random.get_rng_state())
        return taken

    expected = driven(unplanned)
    backend = neap.torch.backend(budget=budget, kernels="eager", **({"time_limit": 2} | options))
    assert_same_bits(driven(backend), expected)
    assert backend.reports, "nothing was planned"
    assert all(report.plan.peak <= report.budget for report in backend.reports)
    return backend.reports


def gradients(module: nn.Module) -> dict[str, torch.Tensor]:
    """The gradients of a module, and its buffers, by name."""
    found = {f"gradient of {name}": p.grad for name, p in module.named_parameters() if p.grad is not None}
    return found | dict(module.named_buffers())


def forget() -> None:
    """Drops compiled code and what it keeps alive: all that is resident counts towards a budget."""
    torch._dynamo.reset()
    gc.collect()


def train(problem: Problem, run: Callable, steps: int = STEPS) -> Record:
    """Trains `problem.module` through `run`, which is the module compiled or itself."""
    torch.manual_seed(SEED)
    optimizer = problem.make_optimizer()
    record = Record([], {}, [], [])
    for step in range(steps):
        batch = problem.batch(step)
        optimizer.zero_grad()
        with measured([*resident_tensors(problem.module, optimizer), *batch], record):
            loss = run(*batch)
            loss.backward()
        record.steps.append(snapshot(problem.module, loss))
        del loss
        optimizer.step()
    record.end = {name: Bits.of(value) for name, value in problem.module.state_dict().items()}
    record.end["random state"] = Bits.of(torch.random.get_rng_state())
    return record


def resident_tensors(module: nn.Module, optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Everything of a training that lives between steps, gradients apart."""
    state = [t for s in optimizer.state.values() for t in s.values() if isinstance(t, torch.Tensor)]
    return [*module.parameters(), *module.buffers(), *state]


def snapshot(module: nn.Module, loss: torch.Tensor) -> dict[str, Bits]:
    """Copies of the loss and of all gradients."""
    taken = {"loss": Bits.of(loss)}
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, f"{name} has no gradient"
        taken[f"gradient of {name}"] = Bits.of(parameter.grad)
    return taken


@contextmanager
def measured(resident: list[torch.Tensor], record: Record) -> Iterator[None]:
    """Adds the peaks of one step, of forward and backward, to `record`."""
    allocator = Allocator.install()
    others = allocator.live() - resident_bytes(resident)
    allocator.reset()
    if record.allocated and LiveBytes.SEES_COMPILED:
        mode = LiveBytes(resident)
        with mode:
            yield
        assert mode.operators > 0
        record.live.append(mode.peak)
    else:
        yield
        record.live.append(0)
    record.allocated.append(allocator.peak() - others)


def assert_same_bits(ours: dict[str, Bits], theirs: dict[str, Bits], where: str = "") -> None:
    """Fails with the names of the tensors that differ in any bit."""
    assert ours.keys() == theirs.keys()
    different = [difference(name, ours[name], theirs[name]) for name in ours]
    different = [text for text in different if text]
    assert not different, f"{where}: {len(different)} of {len(ours)} differ: " + "; ".join(different[:5])


def difference(name: str, a: Bits, b: Bits) -> str:
    """What differs between two tensors, in words; empty if nothing does. NaN equals itself, -0 is not 0."""
    if a.shape != b.shape or a.type != b.type:
        return f"{name}: {a.shape} {a.type} and {b.shape} {b.type}"
    if numpy.array_equal(a.bytes, b.bytes):
        return ""
    return f"{name} by up to {(a.tensor().double() - b.tensor().double()).abs().max().item():.3g}"


def assert_same_training(ours: Record, theirs: Record) -> None:
    for step, (a, b) in enumerate(zip(ours.steps, theirs.steps, strict=True)):
        assert_same_bits(a, b, f"step {step}")
    assert_same_bits(ours.end, theirs.end, "after training")
