"""Copies to the host: memory stays where it is until the copy from it has ended."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch
from torch import fx, nn

import neap.torch
from neap.torch import runtime
from neap.torch.joint import JointGraph
from neap.torch.program import Program


def programs(monkeypatch: pytest.MonkeyPatch, module: nn.Module, inputs: torch.Tensor, budget: str,
             link: neap.Link) -> list[Program]:
    """Those of a step."""
    made: list[Program] = []
    backend = sys.modules["neap.torch.backend"]
    build = backend.build
    monkeypatch.setattr(backend, "build", lambda joint, plan: made.append(build(joint, plan)) or made[-1])
    torch._dynamo.reset()
    run = torch.compile(module, backend=neap.torch.backend(
        budget=budget, kernels="eager", offload=link, measure=False, cache=False, time_limit=1))
    run(inputs).square().mean().backward()
    return made


def last_user(node: fx.Node) -> fx.Node:
    order = {one: i for i, one in enumerate(node.graph.nodes)}
    return max(node.users, key=order.__getitem__)


def departures(program: Program) -> Iterator[tuple[fx.Node, fx.Node, bool]]:
    """Each tensor that is copied to the host, its copy, and whether it stays until the backward pass."""
    results = program.forward.graph.output_node().args[0]
    entries = [node for node in program.backward.graph.nodes if node.op == "placeholder"]
    saved = dict(zip(results[program.outputs:], entries))
    for module in (program.forward, program.backward):
        for copy in module.graph.find_nodes(op="call_function", target=runtime.offload):
            source = copy.args[0]
            stays = module is program.forward and source in saved
            yield (saved[source], saved[copy], True) if stays else (source, copy, False)


def test_memory_stays_until_the_copy_from_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever pass the plan frees it in."""
    chain = nn.Sequential(*(layer for _ in range(12) for layer in (nn.Linear(64, 64), nn.Tanh())))
    made = programs(monkeypatch, chain, torch.randn(512, 64), "60%", neap.Link(1e8, 1e8))
    found = [one for program in made for one in departures(program)]
    for source, copy, _ in found:
        last = last_user(source)
        assert (last.target, last.args) == (runtime.release, (source, copy)), f"{source} is gone while it is copied"
    assert any(stays for *_, stays in found) and not all(stays for *_, stays in found)


def test_the_caller_gets_what_has_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients may be moved to the host and back in the backward pass."""
    build = sys.modules["neap.torch.backend"].build

    def moving(joint: JointGraph, plan: neap.Plan) -> Program:
        gradients = [joint.value_of[node] for node in joint.backward_outputs if node in joint.value_of]
        moves = [(kind, value, 0) for value in gradients for kind in ("offload", "free", "prefetch")]
        return build(joint, SimpleNamespace(steps=[*plan.steps, *moves]))

    monkeypatch.setattr(sys.modules["neap.torch.backend"], "build", moving)
    (program,) = programs(monkeypatch, nn.Linear(8, 8), torch.randn(8, 8), "1GiB", neap.Link(1e9, 1e9))
    back = program.backward.graph.find_nodes(op="call_function", target=runtime.prefetch)
    assert len(back) == 2
    for node in back:
        assert [user.target for user in node.users] == [runtime.wait, "output"]
