"""The grid of section 6 of Beaumont, Eyraud-Dubois and Shilova 2020, "Optimal GPU-CPU Offloading Strategies", and its
plans.

A case is a network, an image size and a batch. One neap process plans a case with all methods at all memory limits,
which are equally spaced between the least budget of offloading (0%) and the natural peak (100%, the paper's M_peak). A
plan is a dictionary, one row of the CSV file; if there is no plan, its `time` is None.
"""

import collections
import csv
import functools
import itertools
import json
import math
import os
import threading

import checkmate_runs as runs
import plans

METHODS = ("offload-greedy", "offload-dp", "vdnn", "autoswap", "tflms", "offload")
LAYERS = " (layers)"  # behind the name of a method that moves whole layers, as in the paper: --option grain=stage

Network = collections.namedtuple("Network", "title family words")

# Inception has no auxiliary head here: 224 pixels are too few for it, and with it the network is not a chain.
NETWORKS = {
    **{f"resnet{n}": Network(f"ResNet-{n}", "ResNet", ()) for n in (18, 34, 50, 101, 152)},
    **{f"densenet{n}": Network(f"DenseNet-{n}", "DenseNet", ()) for n in (121, 161, 169, 201)},
    "inception_v3": Network("Inception v3", "Inception", ("--set", "aux=0")),
}
FAMILIES = ("ResNet", "DenseNet", "Inception")

BATCHES = {224: (16, 32, 64, 128), 500: (4, 8, 16, 32), 1000: (1, 2, 4, 8)}

Case = collections.namedtuple("Case", "network image batch")


def title(case):
    return f"{NETWORKS[case.network].title}, {case.image} pixels, batch {case.batch}"


def listed_methods():
    """The names that `neap methods` prints."""
    _, printed, _, _ = plans.run("methods")
    return {line.split()[0] for line in printed.splitlines()[1:] if line.strip()}


def has_grain(method):
    """Whether a method has an option for the unit of transfers."""
    return "grain=" in plans.run("methods", method)[1]


def name_of(way):
    """The method of a way to plan: "offload-dp" of "offload-dp (layers)"."""
    return way.removesuffix(LAYERS)


def ways_of(methods, grain):
    """The ways to plan by these methods; where both grains are asked for, those that have it do it twice."""
    if grain == "storage":
        return list(methods)
    both = [[method, method + LAYERS] if has_grain(method) else [method] for method in methods]
    return [way for ways in both for way in (ways if grain == "both" else ways[-1:])]


# ---- Plans as rows ----

TEXTS = ("network", "method", "status", "bound_scope", "message")
WHOLE = ("image", "batch", "least_bytes", "natural_peak_bytes", "budget_bytes", "peak_bytes", "arena_bytes",
         "offloaded_bytes", "moved_tensors", "recomputed_ops")  # fmt: skip
COLUMNS = ("network", "image", "batch", "percent", "budget_bytes", "method", "status", "time",
           "lower_bound", "bound_time", "bound_scope", "ratio", "ratio_to_bound", "images_per_second", "solve_seconds",
           "base_time", "least_bytes", "natural_peak_bytes", "peak_bytes", "arena_bytes", "offloaded_bytes",
           "moved_tensors", "recomputed_ops", "message")  # fmt: skip


def write_rows(path, rows):
    """As a whole or not at all, so that a run that is stopped leaves what it had."""
    with open(path + ".part", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    os.replace(path + ".part", path)


def read_rows(path):
    """The rows of write_rows; empty if there is no file."""
    if not os.path.exists(path):
        return []

    def value(name, text):
        if name in TEXTS:
            return text
        if text == "":
            return None
        return int(text) if name in WHOLE else float(text)

    with open(path, encoding="utf-8", newline="") as file:
        return [{name: value(name, text) for name, text in row.items()} for row in csv.DictReader(file)]


def case_of(row):
    return Case(row["network"], row["image"], row["batch"])


def point_of(row):
    return case_of(row), row["budget_bytes"]


def by_point(rows):
    """{(case, budget): {method: row}}, in the order of the rows."""
    points = {}
    for row in rows:
        points.setdefault(point_of(row), {})[row["method"]] = row
    return points


def add_ratios(rows):
    """Gives each row what it takes the other methods to know: both bounds of its point, and the ratios to them.

    Every plan here runs each op once, so that a bound on such plans holds for it, whichever method proved it.
    """
    for found in by_point(rows).values():
        lower = max((row["lower_bound"] for row in found.values() if row["lower_bound"]), default=None)
        proven = max((row["bound_time"] for row in found.values() if holds_for_all(row)), default=None)
        for row in found.values():
            row["best_bound"] = proven
            row["lower_bound"] = lower
            row["ratio"] = row["time"] / lower if row["time"] and lower else None
            row["ratio_to_bound"] = row["time"] / proven if row["time"] and proven else None
            row["images_per_second"] = row["batch"] / row["time"] if row["time"] else None


def holds_for_all(row):
    return row["bound_time"] and row["bound_scope"] in ("any", "once")


# ---- Making plans ----


class Planner:
    """Plans cases, keeps the rows, and what went wrong."""

    def __init__(self, args):
        self.args, self.failures, self.seconds = args, [], 0.0
        self.table = {}  # {(case, method): rows}: also those of an earlier run that are not asked for now
        for row in read_rows(args.csv) if args.keep else []:
            self.table.setdefault((case_of(row), row["method"]), []).append(row)
        self.lock, self.done = threading.Lock(), itertools.count(1)

    def words(self, case, layers=False):
        """The options of neap that make the case, for tensors or for whole layers."""
        args = self.args
        words = ["--image", case.image, "--batch", case.batch, *NETWORKS[case.network].words, "--kernels", args.kernels]
        words += ["--device", args.device, "--link", args.link, "--threads", 1, "--time-limit", f"{args.limit:g}s"]
        return words + ["--option", "grain=stage"] * layers

    def ends(self, case):
        """(the least budget of offloading, what training takes without a plan)"""
        way = "offload" if "offload" in self.args.methods else self.args.methods[0]
        method = name_of(way)
        least, natural = plans.ends(case.network, method, *self.words(case, way != method))
        if not least:
            raise SystemExit(f"{method} does not say what it takes")
        return min(least, natural), natural

    def curves(self, case, ways, budgets):
        """The figures of `neap curve`, by the names of the ways."""
        found = []
        for layers in (False, True):
            methods = [name_of(way) for way in ways if way.endswith(LAYERS) == layers]
            for figures in self.curve(case, methods, budgets, layers) if methods else ():
                found.append({**figures, "method": figures["method"] + LAYERS * layers})
        return found

    def curve(self, case, methods, budgets, layers):
        """The same of one grain. A rejected plan ends it: then each method is asked alone, and that one told."""
        words = ["--method", ",".join(methods), "--budgets", ",".join(map(str, budgets)), "--json"]
        try:
            _, printed, seconds, _ = plans.run("curve", case.network, *words, *self.words(case, layers))
            found = json.loads(printed)
        except (SystemExit, ValueError) as failure:
            if len(methods) > 1:
                return [figures for method in methods for figures in self.curve(case, [method], budgets, layers)]
            self.fail(f"{title(case)}: {failure}")
            return []
        with self.lock:
            self.seconds += seconds
        return found

    def fail(self, text):
        runs.say(f"FAILED: {text}")
        with self.lock:
            self.failures.append(text)

    def row(self, case, least, natural, figures):
        span = natural - least
        percent = round(100 * (figures["budget_bytes"] - least) / span, 3) if span else 100.0
        own = {"percent": percent, "least_bytes": least}
        return {**dict.fromkeys(COLUMNS), **case._asdict(), **figures, **own}

    def plan_case(self, case, count):
        """Plans what the table does not have."""
        try:
            least, natural = self.ends(case)
        except (SystemExit, ValueError) as failure:
            self.fail(f"{title(case)}: {failure}")
            return
        budgets = list(dict.fromkeys(runs.spread(least, natural, self.args.points, 0, 1)))
        missing = [m for m in self.args.methods
                   if [row["budget_bytes"] for row in self.table.get((case, m), ())] != budgets]  # fmt: skip
        found = self.curves(case, missing, budgets) if missing else []
        with self.lock:
            for method in missing:
                rows = [self.row(case, least, natural, figures) for figures in found if figures["method"] == method]
                self.table[case, method] = rows
            rows = self.rows([case])
            add_ratios(rows)
            write_rows(self.args.csv, itertools.chain.from_iterable(self.table.values()))
            without = sum(not row["time"] for row in rows)
            runs.say(f"[{next(self.done)}/{count}] {title(case)}: {len(rows) - without} plans"
                     f"{f', {without} points without one' if without else ''}")  # fmt: skip

    def rows(self, cases):
        """The rows of what is asked for: by case, budget and method."""
        rows = [row for case in cases for m in self.args.methods for row in self.table.get((case, m), ())]
        place = {case: i for i, case in enumerate(cases)}
        return sorted(rows, key=lambda row: (place[case_of(row)], row["budget_bytes"]))

    def run(self, cases):
        """Plans the cases, several at a time, and returns their rows."""
        runs.run_all({case: functools.partial(self.plan_case, case, len(cases)) for case in cases}, self.args.jobs)
        rows = self.rows(cases)
        add_ratios(rows)
        return rows


def contradictions(rows):
    """What no row may say: that a plan is faster than a bound that holds for it."""
    said = []
    for (case, budget), found in by_point(rows).items():
        for method, row in found.items():
            where = f"{title(case)}, {plans.size(budget)}, {method}"
            if row["time"] and row["best_bound"] and row["time"] < row["best_bound"] * (1 - 1e-9):
                said.append(f"{where}: {row['time']:.9g} s is below the proven bound, {row['best_bound']:.9g} s")
            if row["time"] and row["lower_bound"] and row["time"] < row["lower_bound"] * (1 - 1e-9):
                said.append(f"{where}: {row['time']:.9g} s is below LB, {row['lower_bound']:.9g} s")
    return said


def mean(numbers):
    numbers = list(numbers)
    return math.fsum(numbers) / len(numbers) if numbers else None
