"""Shared by the tests of ONNX files: a folder with the programs that they start, and exported networks."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from onnx_support import BENCH, ROOT

pytest.importorskip("onnxruntime")


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as benches expect it: neap, libneap.so and bench/onnx_step, which is compiled here."""
    import common

    library = Path(os.environ.get("NEAP_LIBRARY", ROOT / "build" / "release" / "libneap.so")).resolve()
    command = Path(os.environ.get("NEAP_COMMAND", library.parent / "neap")).resolve()
    folder = tmp_path_factory.mktemp("programs")
    (folder / "bench").mkdir()
    (folder / "neap").symlink_to(command)
    (folder / "libneap.so").symlink_to(library)
    words = ["cc", "-std=c17", "-O1", f"-I{ROOT / 'include'}", str(BENCH / "onnx_step.c"), "-o", str(folder / "bench" / "onnx_step")]
    subprocess.run([*words, str(library), f"-Wl,-rpath,{library.parent}"], check=True)
    common.GIVEN = str(folder / "neap")
    return folder


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory):
    """export(name, exporter, opset, mode): the path of a network's file."""
    import onnx_models

    folder = tmp_path_factory.mktemp("models")

    def export(name: str, exporter: str, opset: int, mode: str) -> str:
        (path,) = onnx_models.export_all([name], str(folder), [exporter], [opset], [mode])
        return path

    return export
