"""Across processes: the cache on disk, whole or broken; the same result every time; Ctrl-C."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

WORKER = pathlib.Path(__file__).with_name("process_worker.py")


def train(cache: pathlib.Path) -> dict:
    environment = os.environ | {"NEAP_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, str(WORKER), "train"], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def first(tmp_path_factory) -> tuple[dict, pathlib.Path]:
    """The first process with an empty cache, and the cache that it leaves."""
    cache = tmp_path_factory.mktemp("cache")
    result = train(cache)
    assert result["overhead"] > 0, "nothing is recomputed"
    assert any(path.is_file() for path in cache.rglob("*")), "nothing is kept on disk"
    return result, cache


@pytest.mark.xdist_group("processes")
def test_the_next_process_takes_plan_and_costs_from_the_cache(first) -> None:
    result, cache = first
    kept = {path: path.read_bytes() for path in cache.rglob("*.json")}
    again = train(cache)
    assert (again["bits"], again["plan"]) == (result["bits"], result["plan"])
    assert again["seconds"] < result["seconds"]
    assert all(path.read_bytes() == content for path, content in kept.items()), "the cache was written again"


@pytest.mark.xdist_group("processes")
@pytest.mark.parametrize("damages", [("cut", "garbage"), ("another version", "empty")])
def test_a_corrupt_cache_is_made_anew(first, damages: tuple[str, str]) -> None:
    """The first damage is done to plans, the second to costs."""
    result, cache = first
    files = [path for path in cache.rglob("*") if path.is_file()]
    for path in files:
        damage = damages[0] if path.parent.name == "plans" else damages[1]
        content = path.read_bytes()
        path.write_bytes({
            "cut": content[: len(content) // 2],
            "garbage": b"\xff\x00{]" * 50,
            "empty": b"",
            "another version": b'{"version": 999, "neap": "plan", "entries": 5}\n',
        }[damage])  # fmt: skip
    again = train(cache)
    assert again["bits"] == result["bits"]
    if damages[0] == "cut":  # once is enough: a process takes seconds
        assert train(cache)["plan"] == again["plan"], "the cache was not repaired"


@pytest.mark.xdist_group("processes")
def test_a_cache_that_cannot_be_written(first, tmp_path: pathlib.Path) -> None:
    result, _ = first
    blocked = tmp_path / "cache"
    blocked.write_text("a file where a folder should be")
    again = train(blocked)
    assert again["bits"] == result["bits"]


def test_control_c_stops_planning_and_the_process_goes_on() -> None:
    process = subprocess.Popen([sys.executable, str(WORKER), "interrupt"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)  # fmt: skip
    try:
        assert json.loads(process.stdout.readline()) == {"planning": True}
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0, errors[-3000:]
    result = json.loads(output.splitlines()[-1])
    assert result["stopped"], "planning ended before it was interrupted"
    assert result["seconds"] < 60
