"""Two independent measures of the memory of a training step on the processor.

`LiveBytes` sees every operator that reaches the dispatcher (the plan's own, those of AOTAutograd's runtime,
of autograd and of the loss) and follows the storages of their arguments and results until each is freed. It
counts tensors: parameters, buffers, inputs, gradients, whatever is saved for the backward pass.

`Allocator` counts what PyTorch's own allocator hands out, scratch inside kernels included, in any code,
while a graph is captured and compiled too. It needs a C++ compiler once (see allocator.cpp).
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import pathlib
import subprocess
import tempfile
import weakref
from collections.abc import Iterable

import torch
from torch._subclasses.fake_tensor import is_fake
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def resident_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes of the distinct storages of `tensors`."""
    return sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}.values())


class LiveBytes(TorchDispatchMode):
    """Peak of the live tensor bytes while the mode is active, counted after every operator.

    An operator's arguments are still alive when it returns, so the peak has inputs and outputs together, as
    a plan's peak has. `resident` are tensors that exist from the start. PyTorch keeps one Python object for
    a storage as long as the storage lives: its finalizer runs exactly when the memory is freed.

    TorchDynamo runs the module uncompiled under a dispatch mode that does not say otherwise: see
    `ignore_compile_internals`. The compiled code's operators still reach the mode.
    """

    # In older releases (2.9) Dynamo's guards fail under any mode, and every step would be compiled anew.
    SEES_COMPILED = hasattr(torch._C._dynamo.guards, "set_is_in_mode_without_ignore_compile_internals")

    def __init__(self, resident: Iterable[torch.Tensor]) -> None:
        super().__init__()
        self.live = 0
        self.peak = 0
        self.peak_operator = "(start)"
        self.operators = 0
        self._storages: dict[int, int] = {}
        for tensor in resident:
            self._follow(tensor)
        self.peak = self.live

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # noqa: ANN001, ANN204
        for leaf in tree_leaves((args, kwargs)):
            self._follow(leaf)
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            self._follow(leaf)
        self.operators += 1
        if self.live > self.peak:
            self.peak = self.live
            self.peak_operator = str(func)
        return result

    def _follow(self, value: object) -> None:
        if not isinstance(value, torch.Tensor):
            return
        storage = value.untyped_storage()
        key = storage._cdata
        if key in self._storages or is_fake(value):  # tracing uses fake tensors, which have no memory
            return
        self._storages[key] = storage.nbytes()
        self.live += storage.nbytes()
        weakref.finalize(storage, self._freed, key).atexit = False

    def _freed(self, key: int) -> None:
        self.live -= self._storages.pop(key)


class Allocator:
    """Live and peak bytes of PyTorch's processor allocator, counted from `install` on."""

    _library: ctypes.CDLL | None = None

    @classmethod
    def install(cls) -> "Allocator":
        """Replaces PyTorch's allocator by one that counts, once per process."""
        if cls._library is None:
            cls._library = ctypes.CDLL(str(_built()))
            for function in ("live", "peak"):
                getattr(cls._library, f"counting_{function}").restype = ctypes.c_int64
            cls._library.counting_install()
        return cls()

    def live(self) -> int:
        return self._library.counting_live()

    def peak(self) -> int:
        """The most that was live at once since the last `reset`."""
        return self._library.counting_peak()

    def reset(self) -> None:
        self._library.counting_reset()


def _built() -> pathlib.Path:
    """The compiled allocator.cpp, built once for each version of PyTorch."""
    source = pathlib.Path(__file__).with_name("allocator.cpp")
    folder = pathlib.Path(tempfile.gettempdir()) / f"neap-tests-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    library = folder / f"allocator-{torch.__version__}-{source.stat().st_mtime_ns}.so"
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.exists():
            _compile(source, library)
    return library


def _compile(source: pathlib.Path, library: pathlib.Path) -> None:
    torch_folder = pathlib.Path(torch.__file__).parent
    partial = library.with_suffix(".part")
    command = [os.environ.get("CXX", "g++"), "-std=c++20", "-O1", "-shared", "-fPIC", "-w"]
    command += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"]
    command += [f"-I{torch_folder}/include", str(source), f"-L{torch_folder}/lib", "-lc10", "-o", str(partial)]
    subprocess.run(command, check=True)
    partial.rename(library)
