"""Progress reports, and ways to stop planning."""

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import neap
import pytest
from core_support import uneven_dict

HARD = 400  # stages: `neap` searches for much longer than a test may take


def hard_graph():
    return neap.Graph.from_dict(uneven_dict(HARD))


def test_reports(chain):
    events = []
    thread = threading.current_thread()
    plan = neap.plan(
        chain, "40%", progress=lambda e: events.append((e, threading.current_thread() is thread))
    )
    assert all(here for _, here in events)  # the caller's thread
    first, last = events[0][0], events[-1][0]
    assert first.phase == "planning" and last.phase == "done" and last.fraction == 1
    assert last.best_time == plan.time


def test_a_listener_that_returns_false_gets_the_best_plan_so_far():
    best = []

    def listen(event):
        best.append(event.best_time)
        return event.best_time is None

    begin = time.perf_counter()
    plan = neap.plan(hard_graph(), "10%", progress=listen)
    assert plan.outcome == "interrupted" and plan.check()
    assert plan.time <= best[-1] and time.perf_counter() - begin < 15


def test_stopped_before_there_is_a_plan():
    graph = neap.Graph.from_dict(uneven_dict(HARD))
    with pytest.raises(neap.Interrupted, match="before it had found a plan"):
        neap.plan(graph, graph.floor.bytes, progress=lambda e: False)


def test_a_listener_stops_the_search_for_the_least_budget():
    """What is refused stays refused; the least budget is then the best known so far."""
    graph = neap.Graph.from_dict(uneven_dict(1500))
    begin = time.perf_counter()
    with pytest.raises(neap.InfeasibleError) as caught:
        neap.plan(graph, graph.floor.bytes - 1, progress=lambda e: e.seconds < 0.2)
    assert time.perf_counter() - begin < 4  # of 5 seconds
    error = caught.value
    assert error.least_plan.outcome == "interrupted"
    assert error.least_plan.check(budget=error.least_budget)


def test_an_exception_of_the_listener_is_raised():
    class Enough(Exception):
        pass

    def listen(event):
        raise Enough

    with pytest.raises(Enough):
        neap.plan(hard_graph(), "10%", progress=listen)
    assert not [t for t in threading.enumerate() if t.name == "neap"]


def test_time_limit():
    begin = time.perf_counter()
    plan = neap.plan(hard_graph(), "10%", time_limit=0.5)
    assert plan.outcome == "time_limit" and time.perf_counter() - begin < 10


def test_a_plan_even_in_no_time():
    """A method without a plan in its time starts from that of a quick one."""
    graph = hard_graph()
    plan = neap.plan(graph, "10%", time_limit=1e-3)
    assert plan.method == "neap" and plan.peak <= plan.budget and plan.check()


INTERRUPTED = """
import signal, sys, time, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background begins without it
sys.path.insert(0, {tests!r})
import neap
from core_support import uneven_dict
graph = neap.Graph.from_dict(uneven_dict({stages}))
begin = None
def tell(event):
    global begin
    if begin is None and event.phase == "planning":
        begin = time.perf_counter()
        print("planning", flush=True)
try:
    neap.plan(graph, {budget}, progress=tell)
    print("a plan")
except KeyboardInterrupt:
    print("stopped", [t.name for t in threading.enumerate()], flush=True)
print(neap.plan(graph, "50%", method="sqrt").outcome)
"""


@pytest.mark.parametrize("stages, budget", [(HARD, "'10%'"), (1500, "graph.floor.bytes - 1")])
def test_ctrl_c(stages, budget):
    """Ctrl-C raises KeyboardInterrupt soon, also in a refusal; the process can go on planning."""
    code = INTERRUPTED.format(tests=str(Path(__file__).parent), stages=stages, budget=budget)
    package = str(Path(neap.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {package!r})\n{code}"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "planning\n"
    time.sleep(0.2)
    begin = time.perf_counter()
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "stopped ['MainThread']\n"
    assert time.perf_counter() - begin < 5
    rest, _ = process.communicate(timeout=30)
    assert rest == "feasible\n" and process.returncode == 0
