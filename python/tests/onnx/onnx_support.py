"""The benches of ONNX files as modules, for the tests."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[3]
BENCH = ROOT / "bench"
sys.path[:0] = [str(BENCH), str(ROOT / "tools")]
sys.dont_write_bytecode = True


def bench(name: str) -> ModuleType:
    """A bench, which is a script without a suffix, as a module."""
    loader = importlib.machinery.SourceFileLoader(f"bench_{name}", str(BENCH / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module
