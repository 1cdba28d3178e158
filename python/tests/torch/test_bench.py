"""bench/torch_gpu: which rows it measures, how its processes take turns, and what it says of its rows."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path


BENCH = Path(__file__).resolve().parents[3] / "bench"
sys.path.insert(0, str(BENCH))

import torch_checks  # noqa: E402
import torch_jobs  # noqa: E402
from torch_jobs import Board  # noqa: E402
from torch_rows import Rows, as_good, best_peers  # noqa: E402


def settings(**changes: object) -> argparse.Namespace:
    known = {"models": ["resnet50", "gpt2"], "kinds": ["eager", "inductor"], "budgets": ["50", "35"], "again": [],
             "peers": torch_jobs.PEERS, "neap": torch_jobs.NEAP, "levels": ["1", "2"], "device": "cuda"}
    return argparse.Namespace(**(known | changes))


def measured(job: torch_jobs.Job, peak: int, ms: float) -> dict:
    return {"model": job.model, **job.sent, "peak": peak, "first_peak": peak, "reserved": peak, "ms": ms, "first": 1.0}


def run_all(board: Board, rows: Rows) -> list[str]:
    """Measures every row as two processes would, one of them only new processes' rows; the rows in their order."""
    order = []
    while board.waiting:
        job = board.take(False, None, []) or board.take(True, None, [])
        assert job is not None, f"these wait for each other: {board.names()}"
        neap = job.sent["way"] == "neap"
        knob = job.sent["knob"] if job.sent["knob"] is not None else 1.0
        peak = job.sent["budget"] if neap and job.sent["budget"] else int(1000 * (0.5 + knob / 2))
        rows.add(measured(job, peak, 100 - 10 * knob - (5 if neap else 0)))
        order.append(job)
        board.done(job)
    return order


def test_every_row_is_measured_and_waits_for_what_it_builds_on() -> None:
    rows = Rows()
    order = run_all(Board(settings(), rows), rows)
    keys = [job.key for job in order]
    assert len(set(keys)) == len(keys)
    for model in ("resnet50", "gpt2"):
        at = {key[1:]: place for place, key in enumerate(keys) if key[0] == model}
        assert at["eager", "eager"] < at["eager", "neap 50%"]
        assert at["eager", "neap store-all"] < at["eager", "neap 50%"] < at["eager", "neap 50% new process"]
        for kind in ("eager", "inductor"):
            half = next(job for job in order if job.key == (model, kind, "neap half of least"))
            assert half.sent["budget"] == rows.least_peer(model, kind) // 2 == 250
            assert at[kind, "neap half of least"] > max(at[kind, name] for name in ("checkpoint", "neap 35%"))


def test_rows_of_an_earlier_run_are_not_measured_again(tmp_path) -> None:
    rows = Rows(str(tmp_path / "rows.json"))
    run_all(Board(settings(kinds=["eager"]), rows), rows)
    again = Rows(str(tmp_path / "rows.json"))
    assert not Board(settings(kinds=["eager"]), again).waiting
    others = [job for job in run_all(Board(settings(), again), again)]
    assert others and all(job.sent["kind"] == "inductor" for job in others)
    more = Board(settings(kinds=["eager"], again=["strict"]), again)
    assert {job.sent["name"] for job in more.waiting} == {"neap 50% strict"}


def test_a_slow_network_gets_more_processes() -> None:
    rows = Rows()
    board = Board(settings(models=["vgg19", "densenet201"], kinds=["inductor"], peers=["knob"]), rows)
    taken = []
    for _ in range(4):
        taken.append(board.take(False, None, taken).model)
    assert sorted(taken[:2]) == ["densenet201", "vgg19"] and taken[2:] == ["densenet201", "densenet201"]


def test_the_summary_says_what_holds(capsys) -> None:
    rows = Rows()
    run_all(Board(settings(), rows), rows)
    slow = rows.get("gpt2", "eager", "neap 50%")
    rows.add({**slow, "budget": 400, "peak": 500})
    torch_checks.print_summary(rows, torch_jobs.MODELS)
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in capsys.readouterr().out.splitlines()]
    head, body = lines[0], {tuple(line[:2]): line for line in lines[2:]}
    assert " of " in body["gpt2", "eager"][head.index("peak")]
    assert body["resnet50", "eager"][head.index("peak")] == "ok"
    assert body["resnet50", "inductor"][head.index("not slower")] == "ok"
    peer = best_peers(rows, "gpt2", "eager")[0]
    assert as_good({"peak": peer["peak"], "ms": peer["ms"] * 1.009}, peer)
    assert not as_good({"peak": peer["peak"] + 1, "ms": 1.0}, peer)


TURNS = """
import json, sys, time
import torch, torch_turn
turn = torch_turn.Turn()
torch_turn.hook(turn)
spans = []
for _ in range(20):
    with turn.taken():
        begin = time.monotonic()
        time.sleep(0.002)
        spans.append((begin, time.monotonic()))
    time.sleep(0.001)
print(json.dumps(spans))
"""


def test_processes_take_turns(tmp_path) -> None:
    """The hooks find what they replace in neap and PyTorch, and no two processes have a turn at the same time."""
    path = os.pathsep.join([str(BENCH), str(BENCH.parent / "python"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "NEAP_BENCH_TURN": str(tmp_path / "turn"), "PYTHONPATH": path}
    running = [subprocess.Popen([sys.executable, "-c", TURNS], env=environment, stdout=subprocess.PIPE) for _ in range(2)]
    spans = sorted(tuple(span) for process in running for span in json.loads(process.communicate(timeout=300)[0]))
    assert len(spans) == 40
    assert all(first[1] <= second[0] for first, second in zip(spans, spans[1:]))


