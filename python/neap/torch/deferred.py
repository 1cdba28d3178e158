"""The kernels of several graphs: compiled side by side, and each one once.

Inductor names kernels by their number in a graph, starts to compile them in worker processes, and waits for them
before it goes on to the next graph. A program in segments is many graphs, with many kernels in common.
`deferred_kernels` names a kernel by its code, so that equal kernels of two graphs are one, and waits at the end.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import torch

log = logging.getLogger(__name__)
_active = False


@contextlib.contextmanager
def deferred_kernels() -> Iterator[None]:
    """Inside of the block Inductor goes on to the next graph while worker processes compile the kernels of the last.

    Waiting for kernels and storing graphs in Inductor's cache are put off to the end of the outermost block. Where
    PyTorch's internals are not as expected, nothing is put off, and kernels are compiled for each graph.
    """
    global _active
    if _active:
        yield
        return
    with contextlib.ExitStack() as stack:
        for change in (_one_wait, _one_kernel_for_equal_code):
            try:
                stack.enter_context(change())
            except (ImportError, AttributeError, KeyError) as error:
                log.debug("%s: %s", change.__name__, error)
        _active = True
        try:
            yield
        finally:
            _active = False


# ---- waiting ----


@contextlib.contextmanager
def _one_wait() -> Iterator[None]:
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.codecache import FxGraphCache
    from torch._inductor.triton_bundler import TritonBundler

    wait, save = AsyncCompile.wait, FxGraphCache.__dict__["_save_graph"]
    collect = (TritonBundler.begin_compile, TritonBundler.collect, TritonBundler.end_compile)
    pending: list[tuple[list, tuple | None]] = []
    waits: list[tuple] = []

    def later_wait(self: object, scope: dict) -> None:
        waits.append((self, scope))

    def later_save(*args: object, **kwargs: object) -> None:
        pending.append((list(waits), (args, kwargs, torch._guards.TracingContext.try_get())))
        waits.clear()

    AsyncCompile.wait, FxGraphCache._save_graph = later_wait, staticmethod(later_save)
    try:
        yield
    finally:
        AsyncCompile.wait = wait
        FxGraphCache._save_graph = save
        pending.append((waits, None))
        for owed, saving in pending:
            _settle(owed, saving, wait, collect)


def _settle(owed: list, saving: tuple | None, wait: Callable, collect: tuple[Callable, ...]) -> None:
    """Waits for the kernels of a graph and stores it in the cache, as Inductor does after each graph."""
    from torch._inductor.codecache import FxGraphCache

    begin, gather, end = collect
    begin()
    try:
        for compiler, scope in owed:
            wait(compiler, scope)
        bundle, _ = gather()
    finally:
        end()
    if saving is not None:
        args, kwargs, context = saving
        graph = next((a for a in (*args, *kwargs.values()) if hasattr(a, "set_triton_bundle")), None)
        if graph is not None:
            graph.set_triton_bundle(bundle)
            with torch._guards.tracing(context):
                FxGraphCache._save_graph(*args, **kwargs)


# ---- equal kernels ----


@contextlib.contextmanager
def _one_kernel_for_equal_code() -> Iterator[None]:
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.codegen.triton import TritonScheduling
    from torch._inductor.virtualized import V

    define, start = TritonScheduling.define_kernel, AsyncCompile.triton
    kernels: dict[tuple, Any] = {}

    def define_by_code(self: object, code: str, *args: object, **kwargs: object) -> str:
        wrapper = V.graph.wrapper_code
        wrapper.next_kernel_suffix = lambda: hashlib.sha256(code.encode()).hexdigest()[:8]
        try:
            return define(self, code, *args, **kwargs)
        finally:
            del wrapper.next_kernel_suffix

    def start_once(self: object, name: str, code: str, *args: object, **kwargs: object) -> Any:
        key = (name, code, args, tuple(sorted(kwargs.items())))
        if key not in kernels:
            kernels[key] = _shared(start(self, name, code, *args, **kwargs))
        return kernels[key]

    TritonScheduling.define_kernel, AsyncCompile.triton = define_by_code, start_once
    try:
        yield
    finally:
        TritonScheduling.define_kernel, AsyncCompile.triton = define, start


def _shared(kernel: Any) -> Any:
    """A kernel, or the promise of one, that several graphs may ask for."""
    from torch._inductor.codecache import CodeCacheFuture, LambdaFuture

    if not isinstance(kernel, CodeCacheFuture):
        return kernel
    made: list = []

    def once() -> Any:
        if not made:
            made.append(kernel.result())
        return made[0]

    return LambdaFuture(once, getattr(kernel, "future", None))
