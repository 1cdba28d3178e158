"""What counts as resident, and what optimizers need while they run, against what is measured."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
import torch
from memory import LiveBytes
from torch import nn

from neap.torch import memory as ours

CPU = torch.device("cpu")
MAKERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda p, **k: torch.optim.SGD(p, lr=0.1, momentum=0.9, **k),
    "sgd, decay": lambda p, **k: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1, **k),
    "adam": lambda p, **k: torch.optim.Adam(p, **k),
    "adam, decay": lambda p, **k: torch.optim.Adam(p, weight_decay=0.1, **k),
    "adamw": lambda p, **k: torch.optim.AdamW(p, **k),
    "nadam, decay": lambda p, **k: torch.optim.NAdam(p, weight_decay=0.1, **k),
    "radam, decay": lambda p, **k: torch.optim.RAdam(p, weight_decay=0.1, **k),
    "adamax, decay": lambda p, **k: torch.optim.Adamax(p, weight_decay=0.1, **k),
    "rmsprop, decay": lambda p, **k: torch.optim.RMSprop(p, weight_decay=0.1, **k),
    "adagrad, decay": lambda p, **k: torch.optim.Adagrad(p, weight_decay=0.1, **k),
    "adadelta, decay": lambda p, **k: torch.optim.Adadelta(p, weight_decay=0.1, **k),
    "rprop": lambda p, **k: torch.optim.Rprop(p, **k),
    "asgd, decay": lambda p, **k: torch.optim.ASGD(p, weight_decay=0.1, **k),
}


class Derived(torch.optim.AdamW):
    """An optimizer of the user's own, made of one that is known."""


def parameters() -> list[nn.Parameter]:
    made = [nn.Parameter(torch.randn(size)) for size in (1000, 5000, 20000)]
    for parameter in made:
        parameter.grad = torch.randn_like(parameter)
    return made


@pytest.mark.parametrize("foreach", [True, False])
@pytest.mark.parametrize("name", MAKERS)
def test_temporaries_of_optimizers(name: str, foreach: bool) -> None:
    """Not less than what they take, and no more than a tensor per parameter above it."""
    mine = parameters()
    optimizer = MAKERS[name](mine, foreach=foreach)
    optimizer.step()
    sizes = [p.numel() * 4 for p in mine]
    state = [v for s in optimizer.state.values() for v in s.values() if isinstance(v, torch.Tensor)]
    with LiveBytes([*mine, *(p.grad for p in mine), *state]) as live:
        before = live.live
        optimizer.step()
    taken = live.peak - before
    counted = ours.temporary_bytes(optimizer, optimizer.param_groups[0], sizes)
    small = 4096  # numbers as tensors
    assert taken <= counted + small, f"{taken / max(sizes if not foreach else [sum(sizes)])} tensors"
    assert counted <= taken + (sum(sizes) if foreach else 3 * max(sizes)) + small


@pytest.mark.parametrize("make", [*MAKERS.values(), Derived])
def test_state_of_the_first_step(make: Callable[..., torch.optim.Optimizer]) -> None:
    mine = parameters()
    optimizer = make(mine)
    before = ours.state_bytes(mine, CPU)
    optimizer.step()
    after = ours.state_bytes(mine, CPU)
    assert after.coming == 0
    assert abs(before.coming + before.present - after.present) <= 4096  # counters besides


def test_optimizers_are_found_once_each() -> None:
    mine = parameters()
    optimizer, derived = torch.optim.SGD(mine, momentum=0.9), Derived(mine)
    found = [o for o in ours._optimizers() if o is optimizer or o is derived]
    assert len(found) == 2
    del optimizer, derived, found
    gc.collect()


def test_gradients_and_tensors_of_the_user_are_resident() -> None:
    mine = parameters()
    sizes = sum(-(-p.numel() * 4 // 64) * 64 for p in mine)
    with_gradients = ours.resident_bytes(mine, CPU)
    held = torch.empty(300_000)
    assert ours.resident_bytes(mine, CPU) - with_gradients == held.numel() * 4
    for parameter in mine:
        parameter.grad = None
    assert with_gradients + held.numel() * 4 - ours.resident_bytes(mine, CPU) == sizes
