"""Copies to the host: memory stays where it is until the copy from it has ended."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from torch import fx, nn

import neap.torch
from neap.torch import runtime
from neap.torch.joint import JointGraph
from neap.torch.program import Program

Steps = list[tuple[str, int, int]]


def program(monkeypatch: pytest.MonkeyPatch, change: Callable[[JointGraph, Steps], Steps]) -> Program:
    """That of a step whose plan stores everything, with other steps put in."""
    made: list[Program] = []
    backend = sys.modules["neap.torch.backend"]
    build = backend.build
    monkeypatch.setattr(backend, "build", lambda joint, plan: made.append(
        build(joint, SimpleNamespace(steps=change(joint, list(plan.steps))))) or made[-1])
    torch._dynamo.reset()
    module = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
    run = torch.compile(module, backend=neap.torch.backend(budget="1GiB", kernels="eager", measure=False, cache=False))
    run(torch.randn(8, 8)).square().mean().backward()
    return made[-1]


def last_user(node: fx.Node) -> fx.Node:
    order = {one: i for i, one in enumerate(node.graph.nodes)}
    return max(node.users, key=order.__getitem__)


def test_memory_stays_until_the_copy_from_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if that is in the other pass: the copy starts at the end of the forward pass."""

    def moving(joint: JointGraph, steps: Steps) -> Steps:
        border = next(i for i, step in enumerate(steps) if step[:2] == ("compute", joint.boundary))
        made = {v for kind, unit, _ in steps[:border] if kind == "compute" for v in joint.units[unit].outputs}
        reader, value = next((i, v) for i, (kind, unit, _) in enumerate(steps) if i > border and kind == "compute"
                             for v in joint.units[unit].inputs if v in made)
        return [*steps[:border], ("offload", value, 0), steps[border], ("free", value, 0), *steps[border + 1 : reader],
                ("prefetch", value, 0), *steps[reader:]]

    both = program(monkeypatch, moving)
    (copy,) = both.forward.graph.find_nodes(op="call_function", target=runtime.offload)
    results = both.forward.graph.output_node().args[0]
    saved = dict(zip(results[both.outputs :], both.backward.graph.find_nodes(op="placeholder")))
    source = saved[copy.args[0]]
    last = last_user(source)
    assert (last.target, last.args) == (runtime.release, (source, saved[copy]))


def test_the_caller_gets_what_has_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients may be moved to the host and back in the backward pass."""

    def moving(joint: JointGraph, steps: Steps) -> Steps:
        gradients = [joint.value_of[node] for node in joint.backward_outputs if node in joint.value_of]
        return steps + [(kind, value, 0) for value in gradients for kind in ("offload", "free", "prefetch")]

    both = program(monkeypatch, moving)
    back = both.backward.graph.find_nodes(op="call_function", target=runtime.prefetch)
    assert len(back) == 4
    for node in back:
        assert [user.target for user in node.users] == [runtime.wait, "output"]
