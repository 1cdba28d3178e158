"""Models that Dynamo captures in several graphs: planned together, within one budget, and each break is named."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
import torch
from blocks import DeepLoss, batch
from harness import assert_same_training, planned, reference, train
from zoo import Problem

import neap


class InTheMiddle(DeepLoss):
    """A break between two halves."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers[:2]:
            x = x + layer(x)
        torch._dynamo.graph_break()
        for layer in self.layers[2:]:
            x = x + layer(x)
        return x.square().mean()


class AfterEachBlock(DeepLoss):
    """A break in a loop: Dynamo leaves the loop alone and captures each layer, the same graph many times in a step."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer(x)
            torch._dynamo.graph_break()
        return x.square().mean()


class NumberFromTensor(DeepLoss):
    """A branch on a number that only the running model knows."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers[:2]:
            x = x + layer(x)
        if x.mean().item() > 100:
            x = x / 2
        for layer in self.layers[2:]:
            x = x + layer(x)
        return x.square().mean()


class Messages(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@pytest.fixture
def messages():
    handler = Messages()
    logging.getLogger("neap").addHandler(handler)
    yield handler.texts
    logging.getLogger("neap").removeHandler(handler)


@pytest.mark.parametrize("kind", [InTheMiddle, AfterEachBlock, NumberFromTensor])
def test_equal_within_the_budget_and_named(kind: Callable[[], torch.nn.Module], messages: list[str]) -> None:
    def problem() -> Problem:
        torch.manual_seed(0)
        return Problem(kind(depth=4), lambda step: (batch(step),))

    first = problem()
    expected = train(first, reference(first.module), steps=5)
    natural = expected.peak()
    del first
    second = problem()
    budget = natural * 75 // 100
    try:
        ours = train(second, planned(second.module, budget), steps=5)
    except neap.InfeasibleError as refused:
        pytest.fail(str(refused))
    assert_same_training(ours, expected)
    assert max(ours.live[1:]) <= budget
    assert natural > budget
    assert any("graphs" in text for text in messages), "nothing is said about several graphs"
    if kind is not AfterEachBlock:  # Dynamo gives no place for a break in a loop
        named = [text for text in messages if "graph breaks at" in text and "test_graph_breaks.py:" in text]
        assert named, f"no message names the place: {messages}"
