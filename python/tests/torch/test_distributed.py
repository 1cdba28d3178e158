"""Two processes over gloo: DDP and FSDP2 with planned modules compute what they compute unplanned."""

from __future__ import annotations

import functools
import json
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
# The ways to train, and their budgets. Where blocks are sharded a step has several graphs, of which each must leave
# room for the others: a share of what one needs would be too little.
WAYS = {
    "ddp_of_compiled": "70%",
    "compiled_ddp": "60%",
    "ddp_with_static_graph": "70%",
    "fsdp_root": "70%",
    "fsdp_compiled_blocks": "16MiB",
    "fsdp_blocks": "16MiB",
}


@functools.lru_cache(maxsize=1)
def results() -> dict[str, dict]:
    """What the two processes say, by the way of training: one start for all, since starting takes longest."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += [str(HERE / "distributed_worker.py"), *(f"{way}={budget}" for way, budget in WAYS.items())]
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
    assert result["overhead"] > 0 or not WAYS[way].endswith("%"), "nothing is recomputed"
    assert result["same plans"], "the ranks ran different plans"
    assert result["equal"], "losses, gradients or parameters differ from the unplanned run"
