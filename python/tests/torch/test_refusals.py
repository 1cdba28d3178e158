"""What cannot be done is refused at the first call, by name, and the process goes on."""

from __future__ import annotations

import pytest
import torch
from blocks import WIDTH, DeepLoss, batch
from harness import assert_same_bits, forget, gradients, planned, snapshot
from torch import nn

import neap.torch


def step(budget: int | str) -> dict:
    """One step of a new model, from nothing."""
    forget()
    torch.manual_seed(0)
    module = DeepLoss()
    loss = planned(module, budget)(batch())
    loss.backward()
    return snapshot(module, loss)


def test_a_budget_below_the_floor_says_what_would_work() -> None:
    torch.manual_seed(0)
    module = DeepLoss()
    with pytest.raises(neap.InfeasibleError) as refused:
        planned(module, "64KiB")(batch())
    error = refused.value
    assert error.budget == 64 << 10
    assert error.least_budget > error.budget
    assert error.op, "the op that sets the least budget"
    assert error.op in str(error) and neap.format_bytes(error.least_budget) in str(error)
    assert "\n" not in str(error)
    del refused, error


def test_after_a_refusal_a_larger_budget_works() -> None:
    expected = step("100%")
    forget()
    try:
        step("64KiB")
        pytest.fail("64 KiB cannot be enough")
    except neap.InfeasibleError as refused:
        least = refused.least_budget
    assert_same_bits(step(least), expected)


def test_a_refusal_changes_nothing() -> None:
    module = DeepLoss()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    torch.manual_seed(3)
    state = torch.random.get_rng_state()
    with pytest.raises(neap.InfeasibleError):
        planned(module, "64KiB")(batch())
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert not gradients(module).keys() - dict(module.named_buffers()).keys()


def test_the_least_budget_is_not_far_from_too_little() -> None:
    """One per cent less than the least budget is refused, or the least was not the least."""
    module = DeepLoss()
    with pytest.raises(neap.InfeasibleError) as refused:
        planned(module, "64KiB")(batch())
    floor = refused.value.floor
    del refused
    with pytest.raises(neap.InfeasibleError):
        planned(module, floor - 1)(batch())


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_an_op_with_a_size_that_depends_on_data_is_named() -> None:
    class Selecting(DeepLoss):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = x + layer(x)
            return x[torch.nonzero(x[:, 0] > 0).squeeze(1)].mean()

    with pytest.raises(neap.UnsupportedError, match="nonzero"):
        planned(Selecting(), "70%")(batch()).backward()


def test_a_backward_function_that_depends_on_data_is_named() -> None:
    class Longest(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x.sum()

        @staticmethod
        def backward(ctx, gradient: torch.Tensor) -> torch.Tensor:
            return gradient * ctx.saved_tensors[0].norm().item() * torch.ones_like(ctx.saved_tensors[0])

    @torch._dynamo.allow_in_graph
    def longest(x: torch.Tensor) -> torch.Tensor:
        return Longest.apply(x)

    class Custom(DeepLoss):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return longest(self.layers[0](x))

    with pytest.raises(neap.UnsupportedError, match=r"_local_scalar_dense.*test_refusals\.py:\d+\) gives"):
        planned(Custom(), "70%")(batch()).backward()


@pytest.mark.parametrize(
    "arguments, says",
    [
        ({"budget": "6 bananas"}, "bananas"),
        ({"budget": -1}, "-1"),
        ({"budget": 0}, "0"),
        ({"budget": "x%"}, "x%"),
        ({"budget": "70%", "kernels": "cuda"}, "inductor"),
    ],
)
def test_wrong_arguments(arguments: dict, says: str) -> None:
    with pytest.raises(neap.InvalidError, match=says):
        backend = neap.torch.backend(**{"kernels": "eager"} | arguments)
        torch.compile(nn.Linear(WIDTH, 1), backend=backend)(batch()).sum().backward()


def test_the_least_budget_works_when_the_planner_has_no_time(cache, monkeypatch) -> None:
    """The plan that shows that a budget works is kept, in memory and on disk."""
    expected = step("100%")
    try:
        step("64KiB")
        pytest.fail("64 KiB cannot be enough")
    except neap.InfeasibleError as refused:
        least = refused.least_budget

    def out_of_time(*_: object, **__: object) -> None:
        raise neap.InfeasibleError("out of time", is_proven=False)

    monkeypatch.setattr(neap.planning, "plan", out_of_time)
    neap.torch.plans._plans.clear()
    assert_same_bits(step(least), expected)
    with pytest.raises(neap.InfeasibleError):
        step(least // 2)


def test_a_budget_below_the_gradients_says_so() -> None:
    module = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512))  # 2 MiB
    with pytest.raises(neap.InfeasibleError, match="gradients of all parameters") as refused:
        planned(module, "3MiB")(torch.randn(2, 512)).sum().backward()
    assert "2.00 MiB of parameters" in str(refused.value) or "2.01 MiB of parameters" in str(refused.value)
    assert str(refused.value.least_budget) in str(refused.value)
    assert "\n" not in str(refused.value)
    del refused


def test_a_refusal_names_the_line_of_the_op() -> None:
    with pytest.raises(neap.InfeasibleError, match=r"blocks\.py:\d+") as refused:
        planned(DeepLoss(), "200KiB")(batch())
    del refused
