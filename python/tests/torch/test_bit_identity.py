"""Training under a budget computes what training without one computes, to the bit, and stays in the budget.

Every model of the zoo, ten steps with its optimizer, dropout and batch norm on, at 70, 50 and 35% of what
the unplanned step needs, or at the least budget that works where that is more.
"""

from __future__ import annotations

import functools

import pytest
import zoo
from harness import Record, assert_same_training, planned, reference, train

import neap

SHARES = (70, 50, 35)


@functools.lru_cache(maxsize=1)
def unplanned(name: str) -> Record:
    problem = zoo.make(name)
    return train(problem, reference(problem.module, fullgraph=True))


@functools.lru_cache(maxsize=1)
def least_budget(name: str) -> int:
    """What neap says is the least budget that works, when asked for one that cannot work."""
    problem = zoo.make(name)
    with pytest.raises(neap.InfeasibleError) as refused:
        planned(problem.module, 4096)(*problem.batch(0))
    assert refused.value.least_budget is not None
    return refused.value.least_budget


def cases() -> list:
    return [pytest.param(name, share, marks=pytest.mark.xdist_group(name)) for name in zoo.MODELS for share in SHARES]


@pytest.mark.parametrize("name, share", cases())
def test_ten_steps(name: str, share: int, record_property) -> None:
    expected = unplanned(name)
    natural = max(expected.allocated[1:])
    budget = natural * share // 100
    problem = zoo.make(name)
    try:
        ours = train(problem, planned(problem.module, budget))
    except neap.InfeasibleError as refused:
        budget = refused.least_budget
        problem = zoo.make(name)
        ours = train(problem, planned(problem.module, budget))
    record_property("budget", budget)
    print(f"{name} {share}%: {natural} bytes, budget {budget}, live {max(ours.live)}, allocated {max(ours.allocated)}")
    assert_same_training(ours, expected)
    assert max(ours.live) <= budget, f"live tensors exceed the budget by {max(ours.live) - budget} bytes"
    assert min(expected.live[1:]) > budget, "the unplanned step fits: the budget asks for nothing"
