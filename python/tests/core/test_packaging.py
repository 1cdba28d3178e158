"""How the package is built: which tools, which library, which platform tag."""

import importlib.util
import os
import re
import stat

import neap
import pytest
from core_support import CHECKOUT


@pytest.fixture
def library(monkeypatch):
    """python/packaging/library.py, without the settings of whoever runs the tests."""
    for name in ("NEAP_LIBRARY", "NEAP_COMPILER", "CC"):
        monkeypatch.delenv(name, raising=False)
    path = CHECKOUT / "python" / "packaging" / "library.py"
    spec = importlib.util.spec_from_file_location("neap_packaging_library", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tool(folder, name, script):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def names(requirements):
    return {re.split("[=>]", text)[0] for text in requirements}


def test_version(library):
    assert library.version() == neap.__version__


def test_requirements(library, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert names(library.requirements()) == {"highsbox", "cmake", "ninja", "ziglang"}
    tool(tmp_path, "cmake", "echo cmake version 3.21.9")  # too old
    tool(tmp_path, "cc", "exit 1")  # a compiler without headers
    tool(tmp_path, "ninja", "exit 0")
    assert names(library.requirements()) == {"highsbox", "cmake", "ziglang"}
    tool(tmp_path, "cmake", "echo cmake version 3.22.1")
    tool(tmp_path, "gcc", "exit 0")
    assert names(library.requirements()) == {"highsbox"}
    assert library.compiler() == str(tmp_path / "gcc")
    monkeypatch.setenv("NEAP_COMPILER", "zig")
    assert names(library.requirements()) == {"highsbox", "ziglang"}
    monkeypatch.setenv("NEAP_LIBRARY", "/some/libneap.so")
    assert library.requirements() == []


def test_takes_a_library(library, monkeypatch, tmp_path):
    source, target = tmp_path / "build", tmp_path / "package" / "_lib"
    (source / "deps" / "lib").mkdir(parents=True)
    (source / "libneap.so").write_bytes(b"neap")
    (source / "deps" / "lib" / "libhighs.so").write_bytes(b"highs")
    monkeypatch.setenv("NEAP_LIBRARY", str(source / "libneap.so"))
    library.put_library(target)
    assert (target / "libneap.so").read_bytes() == b"neap"
    assert (target / "deps" / "lib" / "libhighs.so").read_bytes() == b"highs"
    assert library.platform_tag(target) == f"linux_{os.uname().machine}"
    monkeypatch.setenv("NEAP_LIBRARY", str(source / "none.so"))
    with pytest.raises(SystemExit, match="none.so"):
        library.put_library(target)


def test_platform_tag(library, tmp_path):
    machine = os.uname().machine
    (tmp_path / "libneap.so").write_bytes(b"\0GLIBC_2.4\0GLIBC_2.28\0GLIBC_2.3\0")
    (tmp_path / "libhighs.so").write_bytes(b"\0GLIBC_2.14\0GLIBCXX_3.4.19\0")
    assert library.platform_tag(tmp_path) == f"manylinux_2_28_{machine}"
    (tmp_path / "libneap.so").write_bytes(b"\0GLIBC_2.4\0")
    assert library.platform_tag(tmp_path) == f"manylinux_2_17_{machine}"
