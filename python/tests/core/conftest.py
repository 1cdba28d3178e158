"""What the tests of the core package share: graphs, the command, an independent judge.

    NEAP_COMMAND   the command `neap` to compare with; else the newest one in build/ of the checkout
"""

from __future__ import annotations

import importlib.util
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import neap
import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
MIB = 1 << 20


def chain_dict(stages: int, size: int = MIB) -> dict[str, Any]:
    """A training step of a chain: each backward op reads the activations around its forward op."""
    values: list[dict[str, Any]] = [{"name": "x", "bytes": size, "kind": "input"}]
    ops: list[dict[str, Any]] = []
    for i in range(stages):
        values.append({"name": f"a{i}", "bytes": size, "kind": "activation"})
        ops.append({"name": f"f{i}", "inputs": [i], "outputs": [i + 1], "time": 0.001})
    for i in reversed(range(stages)):
        values.append({"name": f"d{i}", "bytes": size, "kind": "gradient"})
        last = len(values) - 1
        reads = [i, i + 1] + ([last - 1] if i < stages - 1 else [])
        ops.append({"name": f"b{i}", "inputs": reads, "outputs": [last], "time": 0.002})
        ops[-1]["pass"] = "backward"
    return {
        "neap": "graph",
        "version": 1,
        "name": f"chain{stages}",
        "values": values,
        "ops": ops,
        "outputs": [len(values) - 1],
    }


def uneven_dict(stages: int) -> dict[str, Any]:
    """The same with sizes and times of every kind: hard to plan."""
    fields, rng = chain_dict(stages), random.Random(stages)
    fields["name"] = f"uneven{stages}"
    for value in fields["values"]:
        value["bytes"] = rng.randrange(100, MIB)
    for op in fields["ops"]:
        op["time"] *= rng.uniform(0.1, 2)
    return fields


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def judge() -> Callable[..., dict[str, Any]]:
    """tests/oracle/judge.py, which shares no code with neap."""
    return _module(CHECKOUT / "tests" / "oracle" / "judge.py").judge


@pytest.fixture(scope="session")
def training_dicts() -> list[dict[str, Any]]:
    """Random training steps with views, masks, variants and workspaces."""
    make = _module(CHECKOUT / "tests" / "oracle" / "random_graph.py").random_training
    rng = random.Random(20)
    return [make(rng, f"training{i}", layers=4 + i) for i in range(6)]


@pytest.fixture
def chain() -> neap.Graph:
    return neap.Graph.from_dict(chain_dict(24))


@pytest.fixture
def short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal takes less time; the least budget that it names may be less good."""
    monkeypatch.setattr(neap._no_plan, "SECONDS", 0.5)


@pytest.fixture(scope="session")
def command() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command neap; tests that need it are skipped where it is not built."""
    found = [Path(p) for p in [os.environ.get("NEAP_COMMAND", "")] if p]
    found += sorted(CHECKOUT.glob("build/*/neap"), key=lambda p: -p.stat().st_mtime)
    path = next((p for p in found if p.is_file()), None)
    if path is None:
        pytest.skip("no command neap in build/ (make build); NEAP_COMMAND names another")

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(path), *map(str, arguments)], capture_output=True, text=True, timeout=60
        )

    return run


@pytest.fixture(scope="session")
def resnet(command: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graph file of ResNet-18, written by the command."""
    path = tmp_path_factory.mktemp("graphs") / "resnet18.json"
    made = command("graph", "resnet18", "--batch", 32, "-o", path)
    assert made.returncode == 0, made.stderr
    return path


def run_python(code: str, **variables: str | None) -> subprocess.CompletedProcess[str]:
    """Runs Python code in a new process; a variable of None is not set there."""
    environment = {**os.environ, **variables}
    kept = {name: text for name, text in environment.items() if text is not None}
    kept["PYTHONPATH"] = str(Path(neap.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=kept
    )
