"""Copies to the host: memory stays where it is until the copy from it has ended."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
import torch
from torch import fx, nn

import neap.torch
from neap.torch import runtime
from neap.torch.program import Program


def chain() -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(*(layer for _ in range(12) for layer in (nn.Linear(64, 64), nn.Tanh())))


def programs(monkeypatch: pytest.MonkeyPatch, link: neap.Link) -> list[Program]:
    """Those of a step of chain() in which copies take time."""
    made: list[Program] = []
    backend = sys.modules["neap.torch.backend"]
    build = backend.build
    monkeypatch.setattr(backend, "build", lambda joint, plan: made.append(build(joint, plan)) or made[-1])
    torch._dynamo.reset()
    run = torch.compile(chain(), backend=neap.torch.backend(
        budget="60%", kernels="eager", offload=link, measure=False, cache=False, time_limit=1))
    run(torch.randn(512, 64)).square().mean().backward()
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
    found = [one for program in programs(monkeypatch, neap.Link(1e8, 1e8)) for one in departures(program)]
    for source, copy, _ in found:
        last = last_user(source)
        assert (last.target, last.args) == (runtime.release, (source, copy)), f"{source} is gone while it is copied"
    assert any(stays for *_, stays in found) and not all(stays for *_, stays in found)
