"""Trains the networks of Hong et al. with sets of checkpoints, by `neap train --method set`, and measures.

A set is a list as in the paper's Table 2, or None: every op runs once. Kernels are measured once for each network and
batch; their times are kept in the folder of results.
"""

import csv
import json
import os
import sys

import common
import hong_model

CACHE = "hong_profile.json"


def words(model, batch, image, checkpoints, folder):
    """The command line of a training."""
    command = ["train", model, "--batch", batch, "--optimizer", "momentum", "--json", "--rate", "1e-4"]
    command += ["--in-place", "no"]  # as in the paper
    if image:
        command += ["--image", image]
    if checkpoints:
        command += ["--method", "set", "--option", "at=" + ",".join(map(str, checkpoints))]
    return [*command, "--profile-cache", os.path.join(folder, CACHE)]


def times(model, batch, image, checkpoints, steps, folder):
    """(seconds of a step, seconds predicted): the median of the steps, after one that touches the memory."""
    print(f"{model}, batch {batch}, {checkpoints or 'no checkpoints'}: {steps} steps", file=sys.stderr)
    answer = json.loads(
        common.output_of("neap", *words(model, batch, image, checkpoints, folder), "--steps", steps + 1)
    )
    return answer["step_time"], answer["predicted_time"]


class Memory:
    """The memory of a training step by phase, in bytes, without parameters, their gradients and the optimizer.

    predicted: by Algorithm 4 of the paper; planned: live bytes of neap's plan at the end of the phase; measured: pages
    of the arena that are resident then; highest: the most pages in the phase, workspaces included. The input d_0 is
    in all of them. `constant` is what is left out: in each phase the parameters, the optimizer's state and the
    gradients that are there by then.
    """

    def __init__(self, model, batch, image, checkpoints, folder):
        print(f"{model}, batch {batch}, {checkpoints}", file=sys.stderr)
        settings = f"batch={batch}" + (f",image={image}" if image else "")
        chain = hong_model.chain_of(model, settings)
        self.n, self.d, self.checkpoints = chain["n"], chain["d"], checkpoints
        self.predicted = hong_model.algorithm_4(self.d, checkpoints)
        path = os.path.join(folder, "hong_memory.csv")
        command = words(model, batch, image, checkpoints, folder)
        common.output_of("neap", *command, "--steps", 2, "--save-memory", path)
        with open(path, encoding="utf-8") as file:
            self._by_phase(chain, list(csv.DictReader(file)))
        os.remove(path)

    def _by_phase(self, chain, rows):
        """Recomputed ops belong to the phase of the next backward op; what is done for the loss, to the layer's."""
        count = 2 * self.n
        base = chain["base"] - self.d[0]
        ends, highs, planned, constant = ([None] * (count + 1) for _ in range(4))
        phase = results = waiting = 0
        forward_left = chain["n_forward"]
        for row in rows:
            compute, op = row["kind"] == "compute", int(row["id"])
            if compute and op >= len(chain["op_phases"]):
                break  # the updates, which the paper leaves out
            again = compute and forward_left == 0 and op < chain["n_forward"]
            if compute and not again:
                results += chain["op_results"][op]
            if compute:
                phase = 0 if again else chain["op_phases"][op]
                forward_left -= forward_left > 0
            waiting = max(waiting, int(row["resident_during"]) - base - results)
            if phase == 0:
                continue
            ends[phase] = int(row["resident_after"]) - base - results
            planned[phase] = int(row["planned_after"]) - base - results
            constant[phase] = base + results
            highs[phase] = max(highs[phase] or 0, waiting)
            waiting = 0
        for k in range(1, count + 1):  # a phase without an op (a view) leaves everything as it was
            if ends[k] is None:
                ends[k] = highs[k] = ends[k - 1]
                planned[k], constant[k] = planned[k - 1], constant[k - 1]
        self.measured, self.highest, self.planned, self.constant = ends[1:], highs[1:], planned[1:], constant[1:]

    def error(self, predicted, scale=None):
        """The mean of |predicted - measured| / measured over the phases; with the constant part, and activations of
        `scale` times the batch, if a scale is given: the paper measures all memory."""
        parts = zip(predicted, self.measured, self.constant)
        if scale is None:
            errors = [abs(p - m) / m for p, m, _ in parts]
        else:
            errors = [scale * abs(p - m) / (scale * m + c) for p, m, c in parts]
        return sum(errors) / len(errors)
