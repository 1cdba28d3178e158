"""The memory models of Hong et al., "GPU Memory Usage Optimization for Backward Propagation in Deep Network
Training", exactly as published, and the paper's sets of checkpoints for the two networks.

d is a list d_0 .. d_n; a set of checkpoints is a list as in the paper's Table 2: without 0, with n.
"""

import json

import common

ALGORITHM_6 = [2, 4, 6, 9, 11, 14, 16, 19, 21, 23, 24]  # VGG-19
ALGORITHM_3 = [3, 6, 24]  # and ACG's
FIGURE_5 = [3, 11, 24]  # "our algorithm" in Figures 5 to 7
SQRT = [5, 10, 15, 20, 24]
ALEXNET_6 = [2, 4, 6, 8, 12, 14, 15]
ALEXNET_3 = [2, 4, 12, 15]
ALEXNET_SQRT = [4, 8, 12, 15]

# The columns of Tables 2 and 3: their checkpoints, peaks in MiB and seconds of a step by batch; None: out of memory.
COLUMNS = ("Algorithm 6", "Algorithm 3", "ACG solver", "O(sqrt(n))", "PyTorch")
TABLE_2 = {
    "hong-vgg19": {
        "sets": (ALGORITHM_6, ALGORITHM_3, ALGORITHM_3, SQRT, "all"),
        128: (6444, 6835, 6836, 8404, 11262),
        256: (11220, 12004, 12004, 15139, 20850),
        320: (13609, 14592, 14592, 18511, None),
        384: (15997, 17177, 17177, None, None),
        400: (16594, 17824, 17824, None, None),
    },
    "hong-alexnet": {
        "sets": (ALEXNET_6, ALEXNET_3, ALEXNET_3, ALEXNET_SQRT, "all"),
        128: (1002, 1003, 1003, 1106, 1174),
        4096: (9866, 9866, 9866, 13182, 15275),
    },
}
TABLE_3 = {
    "hong-vgg19": {
        "sets": (ALGORITHM_6, ALGORITHM_3, ALGORITHM_3, SQRT, None),
        128: (0.779, 0.779, 0.779, 0.780, 0.585),
        256: (1.541, 1.540, 1.540, 1.541, 1.158),
        320: (1.921, 1.920, 1.920, 1.922, None),
        384: (2.292, 2.289, 2.289, None, None),
        400: (2.849, 2.335, 2.335, None, None),
    },
    "hong-alexnet": {
        "sets": (ALEXNET_6, ALEXNET_3, ALEXNET_3, ALEXNET_SQRT, None),
        128: (0.046, 0.046, 0.046, 0.046, 0.038),
        4096: (1.206, 1.206, 1.206, 1.216, 1.058),
    },
}


def sets_on(model, batch, sets):
    """The JSON output of bench/least_peak_set.c for sets on a built-in model."""
    words = [s if isinstance(s, str) else ",".join(map(str, s)) for s in sets]
    return json.loads(common.output_of("least_peak_set", model, f"batch={batch}", *words))


def chain_of(model, settings):
    """The chain of a model alone: n, d, base, and the phase of each op."""
    return json.loads(common.output_of("least_peak_set", model, settings, "all"))


def equation_6(d, checkpoints):
    ends = [0, *checkpoints]
    segments = [sum(d[h + 1 : i]) for h, i in zip(ends, ends[1:])]
    return sum(d[i] for i in ends) + max(segments, default=0)


def equation_9(d, checkpoints):
    return max(algorithm_4(d, checkpoints)[len(d) - 1 :])


def algorithm_4(d, checkpoints):
    """Memory in phases 1 .. 2n: at the end of a forward phase; in a backward one by equations 9 and 10."""
    n, ends = len(d) - 1, [0, *checkpoints]
    phases = [sum(d[c] for c in ends if c < i) + d[i] for i in range(1, n + 1)]
    for i in range(n, 0, -1):
        h = max(c for c in ends if c < i)
        end = min(c for c in ends if c >= i)
        stored = sum(d[c] for c in ends if c <= h)
        phases.append(stored + sum(d[h + 1 : i + 1]) + max(d[h:end]))
    return phases
