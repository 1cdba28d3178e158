"""Makes plans for the benches with the built command: their figures, and the time and memory that planning took."""

import json
import os
import subprocess
import sys
import time

import common

NEAP = common.path_of("neap")
NO_PLAN = 3  # exit status: nothing fits the budget


def run(*words):
    """(exit status, what it printed, seconds, peak resident KiB) of a neap command.

    Ends the bench if the command fails without output: one that runs out of time prints its JSON and fails.
    """
    start = time.monotonic()
    process = subprocess.Popen([NEAP, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    printed = process.stdout.read()
    message = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    process.stderr.close()
    seconds = time.monotonic() - start
    if process.returncode not in (0, NO_PLAN) and not printed:
        sys.exit(f"neap {' '.join(map(str, words))}: {message.decode().strip()}")
    return process.returncode, printed.decode(), seconds, usage.ru_maxrss


def plan(model, method, budget, *words, options=(), output=None):
    """The figures of `neap plan` as a dictionary, with wall_seconds and rss_kib; time is None where nothing fits."""
    command = ["plan", model, "--method", method, "--budget", budget, "--json", *words]
    for option in options:
        command += ["--option", option]
    if output:
        command += ["-o", output]
    _, printed, seconds, rss = run(*command)
    return {**json.loads(printed), "wall_seconds": seconds, "rss_kib": rss}


def compare(model, methods, budget, *words, options=()):
    """{method: the figures of `neap compare`}, each with wall_seconds of them all; time is None where nothing fits.

    Quicker than plan() where nothing does, for compare looks for no method that could.
    """
    command = ["compare", model, "--method", ",".join(methods), "--budget", budget, "--json", *words]
    for option in options:
        command += ["--option", option]
    _, printed, seconds, _ = run(*command)
    return {figures["method"]: {**figures, "wall_seconds": seconds} for figures in json.loads(printed)}


def ends(model, method, *words):
    """(the least budget that the method is known to have a plan for, or None; what training takes without a plan)"""
    floor = compare(model, [method], "1B", *words)[method].get("floor_bytes", 1)  # below it no method is asked
    figures = compare(model, [method], f"{floor}B", *words)[method]
    least = figures["peak_bytes"] if figures["time"] else figures["least_budget_bytes"]
    return least, figures["natural_peak_bytes"]


def curve(model, methods, budgets, *words):
    """{method: [time, or None where nothing fits, for each budget]}."""
    path = os.path.join(common.BUILD, "curve.csv")
    run("curve", model, "--method", ",".join(methods), "--budgets", ",".join(map(str, budgets)),
        "--csv", path, *words)  # fmt: skip
    times = {method: [] for method in methods}
    with open(path, encoding="utf-8") as file:
        names = file.readline().strip().split(",")
        for line in file:
            fields = dict(zip(names, line.rstrip("\n").split(",")))
            times[fields["method"]].append(float(fields["time"]) if fields["time"] else None)
    os.remove(path)
    return times


def percent(share):
    """0.0512 as +5.1%."""
    return f"{100 * share:+.1f}%"


def size(count):
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count} B"


def duration(seconds):
    for unit, scale in (("min", 60), ("s", 1), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
