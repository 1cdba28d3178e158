"""What the tests of the core package share: graphs, the command, an independent judge.

NEAP_COMMAND   the command `neap` to compare with; else the newest one in build/ of the checkout
"""

from __future__ import annotations

import importlib.util
import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import neap
import pytest
from core_support import CHECKOUT, chain_dict


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
