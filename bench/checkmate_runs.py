"""What the benches of Jain et al. 2020, "Checkmate", share: networks, budgets, and planning in parallel.

Costs are those of a device (`flops` counts FLOPs, as the paper does except in figures 5 and 8); memory is what the
judge computes. A plan is a dictionary, as printed by `neap compare --json`; if there is no plan, its `time` is None and
`status` says why.
"""

import argparse
import collections
import concurrent.futures
import csv
import functools
import itertools
import math
import os
import sys
import time

import common
import keras_networks
import plans

GB = 10**9
V100 = 16 * GB  # its memory, the budget of sections 6.3 and 6.4

Network = collections.namedtuple("Network", "title model batch words chain")

# Batches where training without a plan takes more than a V100 has. The paper's U-Net took 23 GB for 32 images; ours,
# with batch normalization and a decoder that ends at full resolution, does for 16.
NETWORKS = {
    "mobilenet": Network("MobileNet v1", "mobilenet_v1", 512, ("--image", 224), True),
    "vgg16": Network("VGG16", "vgg16", 256, ("--image", 224), True),
    "vgg19": Network("VGG19", "vgg19", 256, ("--image", 224), True),
    "unet": Network("U-Net", "unet", 32, ("--image", "416x608"), False),
    "unet16": Network("U-Net", "unet", 16, ("--image", "416x608"), False),
    "resnet50": Network("ResNet50", "resnet50", 256, ("--image", 224), False),
    "fcn8": Network("FCN8", "fcn8", 32, ("--image", "416x608"), False),
    "segnet": Network("SegNet", "segnet", 16, ("--image", "416x608"), False),
}

# The paper's algorithm 2 on the relaxation of the program as printed and nothing besides, and with the search over eps
# that its appendix D suggests. THRESHOLDS is what the authors' program does beyond the paper's text. Algorithm 2 on neap's relaxation, for comparison.
AS_PUBLISHED = ("model=paper", "allowance=fixed", "eps=0.1", "start=no", "mend=no")
THRESHOLDS = (*AS_PUBLISHED, "rounding=thresholds")
WITH_SEARCH = ("model=paper", "allowance=search", "start=no", "mend=no")
ON_GAPS = ("model=gaps", *AS_PUBLISHED[1:])


def arguments(description, networks, kernels="lean", **defaults):
    """Parses the command line: --networks, --kernels, --quick, --out, and whatever has a default here."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)

    def option(name, meaning, default):
        parser.add_argument(f"--{name}", help=f"{meaning} (%(default)s)", type=type(default), default=default)

    option("out", "folder for SVG and CSV files", os.path.join(common.BUILD, "results"))
    if len(networks) > 1:
        option("networks", f"some of {', '.join(networks)}", ",".join(networks))
    option("kernels", "of the networks: lean, torch, layer, or keras for the paper's own (keras_networks.py)", kernels)
    for name, default in defaults.items():
        option(name, MEANINGS[name], default)
    parser.add_argument("--quick", help="one network, few budgets, short limits: a test", action="store_true")
    args = parser.parse_args()
    if len(networks) > 1:
        args.networks = args.networks.split(",")
        unknown = [name for name in args.networks if name not in networks]
        if unknown:
            parser.error(f"no network {unknown[0]}; there are {', '.join(networks)}")
    os.makedirs(args.out, exist_ok=True)
    return args


def keras_name(name):
    """What keras_networks.py calls it."""
    return "unet" if name == "unet16" else name


def network(name, args):
    """A network of NETWORKS with the kernels asked for; with layer's, MobileNet is padded as by Keras."""
    if args.kernels == "keras":
        batch = NETWORKS[name].batch
        path = os.path.join(common.BUILD, f"keras_{name}_{batch}.json")
        return NETWORKS[name]._replace(model=keras_networks.write(keras_name(name), path, batch), words=())
    words = ("--kernels", args.kernels)
    if args.kernels == "layer" and name == "mobilenet":
        words += ("--set", "keras=1")
    return NETWORKS[name]._replace(words=NETWORKS[name].words + words)


def result_path(args, name, suffix):
    """The path of a result; results for kernels other than the default have their own names."""
    kernels = "" if args.kernels == "lean" else f"_{args.kernels}"
    return os.path.join(args.out, f"{name}{kernels}.{suffix}")


MEANINGS = {
    "device": "whose times",
    "limit": "seconds for each solve by linear programming",
    "budgets": "how many budgets a network",
    "jobs": "solves at a time, each on one thread",
    "samples": "roundings at random",
    "draws": "roundings at random of R and S independently",
    "budget": "bytes of memory",
}


# ---- Plans ----


def say(text):
    """Progress: on stderr, so that the table can go to a file."""
    print(text, file=sys.stderr, flush=True)


def solve(network, method, budget, device, limit=None, options=()):
    """One plan. A command that crashes counts as one without a plan, and is reported."""
    batch = [] if network.model.endswith(".json") else ["--batch", network.batch]  # a file has its own
    words = [*batch, *network.words, "--device", device, "--threads", 1]
    if limit:
        words += ["--time-limit", f"{limit:g}s"]
    start = time.monotonic()
    try:
        return plans.compare(network.model, [method], int(budget), *words, options=options)[method]
    except (SystemExit, ValueError) as failure:
        say(f"FAILED: {failure}")
        seconds = time.monotonic() - start
        return {"method": method, "status": "failed", "budget_bytes": int(budget), "time": None, "bound_time": None,
                "solve_seconds": seconds, "wall_seconds": seconds, "message": str(failure)}  # fmt: skip


def run_all(tasks, jobs):
    """{key: its result} for {key: a function without arguments}, several at a time."""
    with concurrent.futures.ThreadPoolExecutor(max(1, jobs)) as pool:
        waiting = {key: pool.submit(work) for key, work in tasks.items()}
        try:
            return {key: future.result() for key, future in waiting.items()}
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def solve_all(tasks, jobs):
    """{key: plan} for {key: (its description, a function without arguments)}, several at a time."""
    done = itertools.count(1)

    def one(words, make):
        plan = make()
        found = f"{plan['time']:.6g} s ({plans.percent(plan['overhead'])})" if plan["time"] else "no plan"
        say(f"[{next(done)}/{len(tasks)}] {words}: {plan['status']}, {found}, {plan['wall_seconds']:.1f} s")
        return plan

    return run_all({key: functools.partial(one, *entry) for key, entry in tasks.items()}, jobs)


def task(network, method, budget, device, limit=None, options=(), label=None):
    """An entry for solve_all."""
    words = f"{network.title} x {network.batch} {budget / GB:.2f} GB {label or method}"
    return words, functools.partial(solve, network, method, budget, device, limit, options)


# ---- Budgets ----


def ends(network, device, limit):
    """(the least budget that a plan was found for, what training takes without a plan)

    Given the floor, methods name the least they found. On graphs that are not chains checkmate may do with less than it
    says, so a lower budget is tried for as long as there is a plan.
    """
    say(f"{network.title} x {network.batch}: the least budget")
    least, natural = math.inf, None
    floor = solve(network, "store-all", 1000, device).get("floor_bytes", 1000)
    for method in ("checkmate", "rotor", "linear-greedy"):
        plan = solve(network, method, floor, device, limit)
        natural = plan.get("natural_peak_bytes", natural)
        least = min(least, plan["peak_bytes"] if plan["time"] else plan.get("least_budget_bytes") or math.inf)
    if natural is None or least == math.inf:
        sys.exit(f"{network.model}: no method says what it takes")
    while not network.chain:
        plan = solve(network, "checkmate", 0.95 * least, device, limit)
        if not plan["time"]:
            break
        least = plan["peak_bytes"]
    return least, natural


def spread(least, natural, count, first, last):
    """Budgets at equal distances: from and to a share of the way from the least to what needs no plan."""
    shares = [first + (last - first) * i / max(1, count - 1) for i in range(count)]
    return [int(math.ceil(least + share * (natural - least))) for share in shares]


# ---- Figures ----


def share_bounds(of_budget, methods):
    """{budget: {method: plan}}: a bound for plans in a budget holds in every smaller one, and for the other methods,
    whose bounds have the same scope."""
    best = {"bound_time": None}
    for budget in sorted(of_budget, reverse=True):
        found = [of_budget[budget][method] for method in methods]
        best = max([best, *found], key=lambda plan: plan["bound_time"] or 0)
        for plan in found:
            plan.update((key, best[key]) for key in ("bound_time", "bound_scope") if key in best)


def geometric_mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def contradictions(where, found):
    """Says which plan is faster than a bound that holds for it: {label: plan}, one budget. Returns how many."""
    count = 0
    for other, bounded in found.items():
        bound = bounded.get("bound_time")
        for label, plan in found.items():
            if bound and plan["time"] and plan["time"] < bound * (1 - 1e-9):
                scope = bounded.get("bound_scope", "any")
                print(f"ODD: {where}: {label} takes {plan['time']:.9g} s, below the bound of {other} "
                      f"(scope {scope}), {bound:.9g} s")  # fmt: skip
                count += scope == "any"
    return count


COLUMNS = ("network", "batch", "label", "method", "status", "budget_bytes", "peak_bytes", "arena_bytes", "time", "base_time",
           "overhead", "bound_time", "bound_scope", "rounded_time", "lp_time", "eps", "recomputed_ops",
           "solve_seconds", "wall_seconds", "message")  # fmt: skip


def row(network, label, plan):
    """A plan for write_plans."""
    return {**plan, "network": network.title, "batch": network.batch, "label": label}


def write_plans(path, rows):
    """Plans as CSV, with whatever columns above they have."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(path)
