"""Graphs and helpers for the tests of the core package."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import neap

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


def run_python(code: str, **variables: str | None) -> subprocess.CompletedProcess[str]:
    """Runs Python code in a new process; a variable of None is not set there."""
    environment = {**os.environ, **variables}
    kept = {name: text for name, text in environment.items() if text is not None}
    kept["PYTHONPATH"] = str(Path(neap.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=kept
    )
