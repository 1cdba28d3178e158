"""What a captured graph may contain: views, mutations, random numbers, mixed precision, tied weights."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from blocks import BATCH, WIDTH, Deep, DeepLoss, batch
from harness import gradients, same_as_reference
from torch import nn
from torch.utils.checkpoint import checkpoint

import neap.torch


def step(module: nn.Module, run) -> dict[str, torch.Tensor]:
    loss = run(batch())
    loss.backward()
    return gradients(module) | {"loss": loss}


def three_steps(module: nn.Module, run) -> dict[str, torch.Tensor]:
    losses = {}
    for number in range(3):
        losses[f"loss {number}"] = run(batch(number))
        losses[f"loss {number}"].backward()
    return gradients(module) | losses


def test_in_place_operators() -> None:
    class InPlace(DeepLoss):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x.clone()
            for layer in self.layers:
                y = layer(x)
                y.mul_(0.5).add_(x)
                y[:, ::2].sigmoid_()
                x = F.relu(y)
            return x.mean()

    same_as_reference(InPlace, step)


def test_views() -> None:
    class Views(DeepLoss):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                y = layer(x)
                left, right = y.chunk(2, 1)
                mixed = torch.cat([right, left], 1).view(-1, 4, WIDTH // 4).transpose(1, 2)
                x = mixed.reshape(-1, WIDTH).flip(0) + y.expand_as(y) + y.t().t()
            return x.unfold(0, 4, 2).mean()

    same_as_reference(Views, step)


def test_an_output_that_is_a_view_of_an_input() -> None:
    class Aliased(Deep):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = super().forward(x)
            return y, y.view(-1), x[1:]

    def drive(module: nn.Module, run) -> dict[str, torch.Tensor]:
        x = batch()
        y, flat, rest = run(x)
        assert flat.data_ptr() == y.data_ptr()
        assert rest.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        (y.sum() + flat.square().sum()).backward()
        return gradients(module) | {"y": y, "flat": flat, "rest": rest}

    same_as_reference(Aliased, drive)


@pytest.mark.parametrize("kind", ["transposed", "strided", "expanded", "offset"])
def test_inputs_that_are_not_contiguous(kind: str) -> None:
    def make_input() -> torch.Tensor:
        if kind == "transposed":
            return batch().t().contiguous().t()
        if kind == "strided":
            return torch.cat([batch(), batch(1)], 1)[:, ::2]
        if kind == "expanded":
            return batch()[:1].expand(BATCH, WIDTH)
        return batch(0, BATCH + 3)[3:]

    def drive(module: nn.Module, run) -> dict[str, torch.Tensor]:
        run(make_input()).backward()
        return gradients(module)

    same_as_reference(DeepLoss, drive)


def test_channels_last() -> None:
    class Convolutions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(
                nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()) for _ in range(5)
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = layer(x)
            return x.mean()

    def drive(module: nn.Module, run) -> dict[str, torch.Tensor]:
        x = torch.randn(8, 8, 16, 16, generator=torch.Generator().manual_seed(0))
        run(x.to(memory_format=torch.channels_last)).backward()
        return gradients(module)

    same_as_reference(lambda: Convolutions().to(memory_format=torch.channels_last), drive)


def test_buffers_that_the_forward_pass_changes() -> None:
    """The backward pass reads the counter as it was in the forward pass. The backend aot_eager reads the new one, and its
    gradients are wrong: the comparison is with eager mode."""

    class Counting(DeepLoss):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros((), dtype=torch.long))
            self.register_buffer("mean", torch.zeros(WIDTH))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            for layer in self.layers:
                x = x + layer(x) * (1 + self.calls)
                self.mean.lerp_(x.detach().mean(0), 0.1)
            return (x - self.mean).square().mean()

    same_as_reference(Counting, three_steps, unplanned="eager")


def test_batch_norm_statistics_advance_once_a_step() -> None:
    def drive(module: nn.Module, run) -> dict[str, torch.Tensor]:
        taken = three_steps(module, run)
        assert all(layer.norm.num_batches_tracked == 3 for layer in module.layers)
        return taken

    reports = same_as_reference(DeepLoss, drive, budget="55%")
    assert reports[0].plan.overhead > 0, "nothing is recomputed"


def test_random_operators() -> None:
    class Noisy(DeepLoss):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                noise = torch.randn_like(x) * 0.1
                keep = torch.rand(x.shape[0], 1) < 0.9
                x = x + layer(x) * torch.bernoulli(keep.float()) + F.dropout(noise, 0.3) * x
            return (x * torch.randint(0, 2, x.shape)).square().mean()

    reports = same_as_reference(Noisy, three_steps, budget="55%")
    assert reports[0].plan.overhead > 0, "nothing is recomputed"


def test_autocast() -> None:
    def drive(module: nn.Module, run) -> dict[str, torch.Tensor]:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = run(batch())
        loss.backward()
        return gradients(module) | {"loss": loss}

    same_as_reference(DeepLoss, drive)


def test_autocast_inside() -> None:
    class Inside(DeepLoss):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return super().forward(x).float()

    same_as_reference(Inside, step)


def test_a_model_in_bf16() -> None:
    def drive(module: nn.Module, run) -> dict[str, torch.Tensor]:
        loss = run(batch().bfloat16())
        loss.backward()
        return gradients(module) | {"loss": loss}

    same_as_reference(lambda: DeepLoss().bfloat16(), drive)


def test_tied_weights() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(WIDTH, WIDTH)
            self.body = Deep()
            self.head = nn.Linear(WIDTH, WIDTH, bias=False)
            self.head.weight = self.embedding.weight
            self.again = self.body.layers[0]

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            x = self.again(self.body(self.embedding(tokens)))
            return F.cross_entropy(self.head(x), tokens)

    def drive(module: nn.Module, run) -> dict[str, torch.Tensor]:
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        for number in range(2):
            optimizer.zero_grad()
            run(torch.randint(WIDTH, (BATCH,), generator=torch.Generator().manual_seed(number))).backward()
            optimizer.step()
        assert module.head.weight is module.embedding.weight
        return gradients(module) | dict(module.named_parameters())

    same_as_reference(Tied, drive)


@pytest.mark.parametrize("preserve", [True, False], ids=["random state kept", "not kept"])
def test_checkpoints_inside_the_model(preserve: bool) -> None:
    class Checkpointed(DeepLoss):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = x + checkpoint(layer, x, use_reentrant=False, preserve_rng_state=preserve)
            return x.square().mean()

    def without_dropout() -> nn.Module:
        return Checkpointed(dropout=0.1 if preserve else 0.0)

    same_as_reference(without_dropout, step, budget="80%")


def test_constants_of_the_model() -> None:
    class Constants(DeepLoss):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            mask = torch.triu(torch.ones(WIDTH, WIDTH), 1)
            scale = torch.tensor([2.0] * WIDTH)
            return super().forward(x @ mask * scale)

    same_as_reference(Constants, step)


def test_a_model_without_activations() -> None:
    """One op, nothing to plan: the natural peak is the least."""
    same_as_reference(lambda: nn.Linear(WIDTH, 1), lambda module, run: (
        run(batch()).sum().backward(), gradients(module))[1], budget="100%")  # fmt: skip


def test_parts_of_a_split_share_its_storage():
    """Freeing one part of a split frees no memory while another is in use."""

    class Parts(torch.nn.Module):
        def forward(self, x):
            first, second = (x * 2).split(x.shape[1] // 2, 1)
            return (first.sin() * torch.unbind(second.cos(), 0)[0]).sum()

    graph = neap.torch.capture(Parts(), torch.randn(8, 16, requires_grad=True), kernels="eager", measure=False)
    values = {value.name: value for value in graph.values}
    assert values["mul"].bytes > 0
    shared = [value for value in graph.values if value.name.startswith("getitem")]
    assert len(shared) >= 3
    assert all(value.bytes == 0 and value.view_of is not None for value in shared)
