"""Shared by the tests of neap.torch: one thread, a cache of their own, no compiled code from other tests."""

from __future__ import annotations

import logging
import os
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NEAP_CACHE_DIR", tempfile.mkdtemp(prefix="neap-tests-"))
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _fresh_compiler() -> None:
    torch._dynamo.reset()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache folder for this test alone."""
    monkeypatch.setenv("NEAP_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def arena_extension() -> None:
    """The compiled hook of strict steps; skips where it cannot be compiled."""
    from neap.errors import UnsupportedError
    from neap.torch import arena_build

    try:
        arena_build.extension()
    except UnsupportedError as error:
        pytest.skip(str(error))


class Messages(logging.Handler):
    """Collects what neap logs."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@pytest.fixture
def messages():
    """What neap logs during the test."""
    handler, log = Messages(), logging.getLogger("neap")
    log.addHandler(handler)
    yield handler.texts
    log.removeHandler(handler)
    log.setLevel(logging.NOTSET)
