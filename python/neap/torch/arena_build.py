"""Compiles and loads the allocator hook of arena.h, once per machine and release of PyTorch.

Only a C++ compiler is needed, which torch.compile needs, too. The result is kept in neap's cache
folder, under a name that changes with the sources, PyTorch, Python, the compiler and its flags.
"""

from __future__ import annotations

import functools
import glob
import hashlib
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from types import ModuleType

import torch

from ..errors import UnsupportedError
from .cost_cache import cache_folder

__all__ = ["extension", "has_cuda_part"]

SOURCES = ("arena.cpp", "arena_cuda.cpp", "arena_module.cpp", "arena_replay.cpp")
HEADERS = ("arena.h", "arena_python.h")
MODULE = "neap_arena"
OLDEST, NEWEST = (2, 9), (2, 15)  # releases of PyTorch whose allocator arena_cuda.cpp knows


@functools.cache
def extension() -> ModuleType:
    """The compiled module. The first call on a machine takes some seconds.

    Raises UnsupportedError, with what to install, if it cannot be compiled here.
    """
    if sys.platform != "linux":
        raise UnsupportedError(f"strict=True needs Linux; this is {sys.platform}")
    compiler, flags = _compiler(), _flags()
    name = f"{MODULE}-{_key(compiler, flags)}.so"
    folder = cache_folder()
    if folder is None:
        return _build_and_load(tempfile.mkdtemp(prefix="neap-"), name, compiler, flags)
    path = os.path.join(folder, name)
    if os.path.exists(path):
        try:
            return _load(path)
        except ImportError:
            pass  # damaged: build it again
    return _build_and_load(folder, name, compiler, flags)


def has_cuda_part() -> bool:
    """Whether extension() can also stand in front of CUDA's allocator here."""
    return torch.version.cuda is not None and _cuda_headers() is not None


def _build_and_load(folder: str, name: str, compiler: list[str], flags: list[str]) -> ModuleType:
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".build-", dir=folder) as work:
            library = _compile(work, compiler, flags)
            path = os.path.join(folder, name)
            os.replace(library, path)  # atomic: another process may build the same
    except OSError as error:
        raise UnsupportedError(
            f"strict=True cannot compile its allocator in {folder}: {error}; "
            "set NEAP_CACHE_DIR to a folder that can be written"
        ) from None
    return _load(path)


def _load(path: str) -> ModuleType:
    loader = importlib.machinery.ExtensionFileLoader(MODULE, path)
    spec = importlib.util.spec_from_file_location(MODULE, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


# ---- The compiler ----


def _compiler() -> list[str]:
    asked = os.environ.get("CXX", "").split()
    for command in [asked] if asked else [["g++"], ["clang++"], ["c++"]]:
        if shutil.which(command[0]):
            return command
    where = f"CXX is {asked[0]}, which is not there" if asked else "there is none here"
    raise UnsupportedError(
        f"strict=True needs a C++ compiler, and {where}; install g++ or clang++, or set CXX"
    )


def _flags() -> list[str]:
    root = os.path.join(os.path.dirname(torch.__file__), "include")
    python = sysconfig.get_paths()["include"]
    if not os.path.exists(os.path.join(python, "Python.h")):
        raise UnsupportedError(
            f"strict=True compiles against Python, and there is no Python.h in {python}; "
            "install the development package of your Python (python3-dev on Debian and Ubuntu)"
        )
    release = _release()
    standard = 17 if release <= (2, 11) else 20  # as PyTorch's own headers need
    flags = [f"-std=c++{standard}", "-O2", "-fPIC", "-fvisibility=hidden", "-w"]
    flags += [f"-DNEAP_TORCH={release[0] * 100 + release[1]}"]
    flags += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"]
    folders = [root, python]
    if has_cuda_part() and OLDEST <= release <= NEWEST:
        flags += ["-DNEAP_CUDA"]
        folders += _cuda_headers() or []
    return flags + [word for folder in folders for word in ("-isystem", folder)]


def _release() -> tuple[int, int]:
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def explain_no_cuda() -> str:
    """Why the extension has no part for CUDA, and what would help."""
    release = _release()
    if torch.version.cuda is None:
        return "strict=True on a GPU needs a PyTorch built for CUDA"
    if not OLDEST <= release <= NEWEST:
        supported = " to ".join(".".join(map(str, one)) for one in (OLDEST, NEWEST))
        return f"strict=True knows the allocator of PyTorch {supported}, not {torch.__version__}"
    return (
        "strict=True needs the headers of CUDA (cuda_runtime_api.h): set CUDA_HOME, or "
        f"pip install nvidia-cuda-runtime-cu{torch.version.cuda.split('.')[0]}"
    )


def _cuda_headers() -> list[str] | None:
    """Folders with CUDA's headers: those of a toolkit, of NVIDIA's wheels, or of Triton."""
    toolkits = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    folders = [os.path.join(path, "include") for path in toolkits if path]
    site = os.path.dirname(os.path.dirname(torch.__file__))
    folders += sorted(glob.glob(os.path.join(site, "nvidia", "*", "include")))
    folders += ["/usr/local/cuda/include"]
    folders += [os.path.join(site, "triton", "backends", "nvidia", "include")]

    def has(folder: str, header: str) -> bool:
        return os.path.exists(os.path.join(folder, header))

    runtime = [folder for folder in folders if has(folder, "cuda_runtime_api.h")]
    complete = [folder for folder in runtime if has(folder, "crt/host_defines.h")]
    if complete:
        return complete[:1]
    parts = [folder for folder in folders if has(folder, "crt/host_defines.h")]
    return runtime[:1] + parts[:1] if runtime and parts else None


def _key(compiler: list[str], flags: list[str]) -> str:
    digest = hashlib.sha256()
    here = os.path.dirname(__file__)
    for name in (*SOURCES, *HEADERS):
        with open(os.path.join(here, name), "rb") as file:
            digest.update(file.read())
    for word in (torch.__version__, str(torch.version.cuda), sys.version, *compiler, *flags):
        digest.update(word.encode() + b"\0")
    return digest.hexdigest()[:16]


def _compile(work: str, compiler: list[str], flags: list[str]) -> str:
    """Compiles the sources side by side and links them; the path of the library."""
    here = os.path.dirname(__file__)
    objects = [os.path.join(work, name + ".o") for name in SOURCES]
    running = [
        _start([*compiler, *flags, "-c", os.path.join(here, source), "-o", target])
        for source, target in zip(SOURCES, objects)
    ]
    for process in running:
        _finish(process)
    library = os.path.join(work, MODULE + ".so")
    folder = os.path.join(os.path.dirname(torch.__file__), "lib")
    libraries = ["-lc10"] + (["-lc10_cuda"] if "-DNEAP_CUDA" in flags else [])
    _finish(_start([*compiler, "-shared", "-o", library, *objects, "-L", folder, *libraries]))
    return library


def _start(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )


def _finish(process: subprocess.Popen[str]) -> None:
    output, _ = process.communicate()
    if process.returncode == 0:
        return
    lines = [line for line in output.splitlines() if "error" in line] or output.splitlines()
    raise UnsupportedError(
        f"strict=True cannot compile its allocator with {process.args[0]}: "  # type: ignore[index]
        f"{lines[0].strip() if lines else f'exit status {process.returncode}'}"
    )
