"""Ways to use a compiled module besides forward, backward, step: all as without a plan, to the bit."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from blocks import Deep, DeepLoss, TwoOutputs, batch
from harness import gradients, planned, same_as_reference
from torch import nn

import neap.torch


def test_gradients_accumulate_over_micro_batches() -> None:
    def drive(module: nn.Module, run) -> dict[str, torch.Tensor]:
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        for step in range(3):
            optimizer.zero_grad()
            for micro in range(2):
                (run(batch(10 * step + micro)) / 2).backward()
            optimizer.step()
        return gradients(module) | dict(module.named_parameters())

    same_as_reference(DeepLoss, drive)


def test_two_forwards_before_two_backwards() -> None:
    """Both wait in memory at once: the budget has room for what the first saves, and not for all of both."""

    def drive(module: nn.Module, run) -> dict[str, torch.Tensor]:
        first, second = run(batch(1)), run(batch(2))
        second.backward()
        first.backward()
        return gradients(module) | {"first": first, "second": second}

    same_as_reference(DeepLoss, drive, budget="150%")


def test_two_forwards_in_one_loss() -> None:
    def drive(module: nn.Module, run) -> dict[str, torch.Tensor]:
        loss = run(batch(1)) * run(batch(2))
        loss.backward()
        return gradients(module) | {"loss": loss}

    same_as_reference(DeepLoss, drive, budget="150%")


def test_backward_twice_through_a_retained_graph() -> None:
    def drive(module: nn.Module, run) -> dict[str, torch.Tensor]:
        loss = run(batch())
        loss.backward(retain_graph=True)
        once = {f"once: {name}": value.clone() for name, value in gradients(module).items()}
        loss.backward()
        return gradients(module) | once

    same_as_reference(DeepLoss, drive)


def test_evaluation_between_steps_needs_no_plan() -> None:
    def drive(module: nn.Module, run) -> dict[str, torch.Tensor]:
        seen = {}
        for step in range(3):
            module.train()
            run(batch(step)).backward()
            module.eval()
            with torch.no_grad():
                seen[f"evaluated {step}"] = run(batch(100 + step))
            module.train()
            with torch.no_grad():
                seen[f"without gradients {step}"] = run(batch(200 + step))
        return gradients(module) | seen

    reports = same_as_reference(DeepLoss, drive)
    assert len(reports) == 1


def test_evaluation_only() -> None:
    module = DeepLoss().eval()
    backend = neap.torch.backend(budget=4096, kernels="eager")  # far too little to train
    with torch.no_grad():
        loss = torch.compile(module, backend=backend)(batch())
        assert torch.equal(loss, module(batch()))
    assert not backend.reports


def test_batch_sizes_that_change() -> None:
    sizes = (256, 192, 256, 320, 192)

    def drive(module: nn.Module, run) -> dict[str, torch.Tensor]:
        losses = {}
        for step, rows in enumerate(sizes):
            losses[f"loss {step}"] = run(batch(step, rows))
            losses[f"loss {step}"].backward()
        return gradients(module) | losses

    reports = same_as_reference(DeepLoss, drive, budget="70%")
    assert len({report.natural_peak - report.resident for report in reports}) == len(set(sizes)), "a plan for every size"


@pytest.mark.parametrize("dynamic", [None, True])
def test_python_floats_that_change(dynamic: bool | None) -> None:
    """One plan serves all values of a weight; the epsilon of a norm is part of the graph. With dynamic=True
    all floats of the model are inputs."""

    class Weighted(Deep):
        def forward(self, x: torch.Tensor, weight: float, epsilon: float) -> torch.Tensor:
            y = F.layer_norm(super().forward(x), (x.shape[1],), eps=epsilon)
            return y.square().mean() * (1 - weight) + (y.long().sum() * weight).sin()

    def drive(module: nn.Module, run) -> dict[str, torch.Tensor]:
        losses = {}
        for step in range(6):
            losses[f"loss {step}"] = run(batch(step), 0.1 * step, 1e-5 if step < 4 else 1e-3)
            losses[f"loss {step}"].backward()
        return gradients(module) | losses

    reports = same_as_reference(lambda: Weighted(depth=3), drive, budget="80%", dynamic=dynamic)
    assert len(reports) == (2 if dynamic else 3)


def test_loss_outside_of_the_compiled_module() -> None:
    def drive(module: nn.Module, run) -> dict[str, torch.Tensor]:
        output = run(batch())
        loss = F.cross_entropy(output, torch.arange(len(output)) % output.shape[1])
        loss.backward()
        return gradients(module) | {"output": output, "loss": loss}

    same_as_reference(Deep, drive)


def test_several_outputs() -> None:
    def drive(module: nn.Module, run) -> dict[str, torch.Tensor]:
        first, second, third = run(batch())
        (first.mean() + second.square().sum()).backward()
        return gradients(module) | {"first": first, "second": second, "third": third}

    same_as_reference(TwoOutputs, drive)


def test_outputs_that_the_loss_does_not_read() -> None:
    def drive(module: nn.Module, run) -> dict[str, torch.Tensor]:
        _, second, _ = run(batch())
        second.square().sum().backward()
        return gradients(module)

    same_as_reference(TwoOutputs, drive)


def test_inputs_with_gradients() -> None:
    def drive(module: nn.Module, run) -> dict[str, torch.Tensor]:
        x = batch().requires_grad_()
        run(x).backward()
        return gradients(module) | {"gradient of the input": x.grad}

    same_as_reference(DeepLoss, drive)


def test_frozen_parameters() -> None:
    def frozen() -> nn.Module:
        module = DeepLoss()
        for layer in module.layers[:4]:
            layer.requires_grad_(False)
        return module

    def drive(module: nn.Module, run) -> dict[str, torch.Tensor]:
        run(batch()).backward()
        return gradients(module)

    same_as_reference(frozen, drive, budget="80%")


def test_hooks_on_parameters_run() -> None:
    def drive(module: nn.Module, run) -> dict[str, torch.Tensor]:
        norms = {}
        for name, parameter in module.named_parameters():
            parameter.register_post_accumulate_grad_hook(lambda p, name=name: norms.update({name: p.grad.norm()}))
        run(batch()).backward()
        return norms

    same_as_reference(DeepLoss, drive)


def test_memory_is_given_back_after_a_failed_step() -> None:
    """A forward pass whose backward never comes leaves nothing behind."""
    from memory import Allocator

    module = DeepLoss()
    run = planned(module, "60%")
    run(batch()).backward()
    module.zero_grad()
    allocator = Allocator.install()
    run(batch()).backward()
    module.zero_grad()
    before = allocator.live()
    for _ in range(3):
        loss = run(batch())
        del loss
    assert allocator.live() <= before


def test_a_loss_that_is_dropped_is_not_part_of_the_next_step() -> None:
    """A forward pass without a backward pass, as in a validation with gradients on."""
    module = DeepLoss(depth=4)
    backend = neap.torch.backend(budget="60%", kernels="eager", time_limit=1)
    run = torch.compile(module, backend=backend)
    run(batch()).backward()
    run(batch())
    run(batch(rows=128)).backward()
    assert len(backend.reports) == 2
    assert all(report.budget and report.plan.peak <= report.budget for report in backend.reports)
