"""What bench/whole_step and bench/largest_model share: the step as it is, and as it was without updates in the plan.

Without them a step ends with all gradients in memory, parameters and optimizer state never move, and no op runs in
place; the updates follow, one after the other.
"""

import json
import os
import subprocess

import common

NEAP = os.path.join(common.BUILD, "neap")


def neap(*words):
    """What a neap command prints as JSON; an empty dictionary if that is nothing."""
    run = subprocess.run([NEAP, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        return json.loads(run.stdout)
    except ValueError:
        return {}


def without_updates(graph):
    """The graph without its updates, which take so many seconds: their gradients are outputs, state is fixed."""
    updates = [op for op in graph["ops"] if op.get("updates")]
    made = {value for op in graph["ops"] for value in op["outputs"]}
    gradients = {value for op in updates for value in op["inputs"] if value in made}
    graph["ops"] = [op for op in graph["ops"] if not op.get("updates")]
    graph["outputs"] = sorted({*graph["outputs"], *gradients})
    for op in graph["ops"]:
        op.pop("in_place", None)
    for value in graph["values"]:
        value.pop("state", None)
    return sum(op["time"] for op in updates)


class Step:
    """A training step: files of its graph, with updates (`after`) and without (`before`)."""

    def __init__(self, folder, words):
        os.makedirs(folder, exist_ok=True)
        self.after, self.before = os.path.join(folder, "after.json"), os.path.join(folder, "before.json")
        subprocess.run([NEAP, "graph", *map(str, words), "-o", self.after], stdout=subprocess.DEVNULL, check=True)
        self.figures = neap("graph", self.after, "--json")
        with open(self.after, encoding="utf-8") as file:
            graph = json.load(file)
        self.update_time = without_updates(graph)
        with open(self.before, "w", encoding="utf-8") as file:
            json.dump(graph, file)
        self.base_time = self.figures["base_time"]
        self.natural_peak = self.figures["natural_peak_bytes"]

    def plan(self, before, budget, *words):
        """The overhead of a plan within so many bytes; None: none was found."""
        found = neap("plan", self.before if before else self.after, "--budget", f"{int(budget)}B", "--json", *words)
        if not found.get("time") or found.get("arena_bytes") is None:
            return None
        return (found["time"] + (self.update_time if before else 0)) / self.base_time - 1

    def least(self, before, *words):
        """The least memory for which a plan was found; None: none."""
        found = neap("plan", self.before if before else self.after, "--objective", "peak", "--json", *words)
        return found.get("arena_bytes")
