"""Two processes over gloo: DDP and FSDP2 with planned modules compute what they compute unplanned."""

from __future__ import annotations

import functools
import json
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
WAYS = ("ddp_of_compiled", "compiled_ddp", "ddp_with_static_graph", "fsdp_root", "fsdp_blocks")


@functools.lru_cache(maxsize=1)
def results() -> dict[str, dict]:
    """What the two processes say, by the way of training: one start for all, since starting takes longest."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += [str(HERE / "distributed_worker.py"), "70%", *WAYS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    found = {result["way"]: result for result in map(json.loads, lines)}
    if done.returncode:
        found["failed"] = {"error": done.stderr[-3000:]}
    return found


@pytest.mark.xdist_group("distributed")
@pytest.mark.parametrize("way", WAYS)
def test_equal_to_the_unplanned_run(way: str) -> None:
    found = results()
    assert way in found, found.get("failed", {}).get("error", "no result")
    result = found[way]
    assert result["error"] is None, result["error"]
    assert result["repeatable"], "the unplanned run differs from itself: nothing to compare with"
    assert result["plans"] > 0, "nothing was planned"
    assert result["same plans"], "the ranks ran different plans"
    assert result["equal"], "losses, gradients or parameters differ from the unplanned run"
