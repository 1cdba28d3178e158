"""What the benches of the method `neap` share: instances, runs with a hard limit, and results that survive an
interruption.
"""

import collections
import hashlib
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time

import common
import plans

GRACE = 1.5, 30.0  # a run is killed after this factor times its limit plus this many seconds
MEMORY = 12 << 30  # address space of a run, so that one that grows without limit fails alone
LINK = ("--link", "55GB/s", "--duplex")  # pinned copies of an H200, both ways at once

# A graph to plan: the arguments that name it, and whether there are published figures for it.
Instance = collections.namedtuple("Instance", "name words published")

# What replaces a missing file: a similar built-in network, or nothing.
STAND_INS = {
    "monet_resnet50_184": ("resnet50", "--batch", "184", "--kernels", "layer"),
    "monet_vgg16_176": ("vgg16", "--batch", "176", "--kernels", "layer"),
    "torch_vgg19_b128": ("vgg19", "--batch", "128", "--kernels", "torch"),
    "torch_resnet50_b128": ("resnet50", "--batch", "128", "--kernels", "torch"),
    "torch_unet_b16_r416": ("unet", "--batch", "16", "--image", "416", "--kernels", "torch"),
    "torch_gpt2_b8": ("gpt2", "--batch", "8", "--kernels", "torch"),
    "torch_densenet201_b64": ("densenet201", "--batch", "64", "--kernels", "torch"),
    "moccasin_unet": ("unet", "--batch", "32", "--kernels", "layer"),
    "moccasin_rl100": None,
    "moccasin_rl500": None,
}
TORCH = tuple(name for name in STAND_INS if name.startswith("torch_"))


def say(text):
    """Progress: on stderr, so that the table can go to a file."""
    print(text, file=sys.stderr, flush=True)


# ---- Instances ----


def folder():
    return os.path.join(os.path.dirname(common.ROOT), "shared", "instances")


def options(parser, names, limit):
    """Adds what all of these benches take: --instances, --folder, --time-limit, --threads, --fresh, --out."""
    parser.add_argument("--out", default=os.path.join(common.BUILD, "results"),
                        help="folder for results, and for what an interrupted run has found (%(default)s)")  # fmt: skip
    parser.add_argument("--time-limit", type=float, default=limit, help="seconds for each plan (%(default)g)")
    parser.add_argument("--threads", type=int, default=0, help="of each plan; 0 is all there are (%(default)s)")
    parser.add_argument("--fresh", action="store_true", help="forget what an interrupted run has found")
    if names:
        parser.add_argument("--instances", type=lambda text: chosen(parser, text, names), default=list(names),
                            help=f"some of {', '.join(names)}; all by default")  # fmt: skip
        parser.add_argument("--folder", default=folder(), help="folder of the graph files (%(default)s)")


def chosen(parser, text, names):
    """The names of a list separated by commas, each one of `names`."""
    unknown = [name for name in text.split(",") if name not in names]
    if unknown:
        parser.error(f"no {unknown[0]}; there are {', '.join(names)}")
    return text.split(",")


def find(args):
    """The instances asked for. Says which files are missing, and what is planned instead."""
    found = []
    for name in args.instances:
        path = os.path.join(args.folder, f"{name}.json")
        if os.path.exists(path):
            found.append(Instance(name, (path,), True))
        elif STAND_INS[name]:
            say(f"there is no {path}: neap's own {' '.join(STAND_INS[name])} instead")
            found.append(Instance(f"{name} (built-in)", STAND_INS[name], False))
        else:
            say(f"there is no {path}, and nothing like it is built in: left out")
    return found


# ---- Runs ----


def ended_run(words, most_seconds):
    """(exit status, stdout, stderr, seconds, peak resident KiB) of a neap command; killed when its time is over.

    Output goes through files, for a long log would fill a pipe.
    """

    def limit_memory():
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.monotonic()
        process = subprocess.Popen([plans.NEAP, *map(str, words)], stdout=out, stderr=err, preexec_fn=limit_memory)
        timer = threading.Timer(most_seconds, process.kill)
        timer.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            raise
        finally:
            timer.cancel()
        seconds = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return process.returncode, out.read().decode(), err.read().decode(), seconds, usage.ru_maxrss


def figures(command, words, limit):
    """What `neap plan` or `neap compare` of one method says with --json, and wall_seconds, rss_kib and log.

    A run that fails, or does not end, has status `failed` or `killed` and a message.
    """
    most = GRACE[0] * limit + GRACE[1]
    status, printed, log, seconds, rss = ended_run([command, *words, "--time-limit", f"{limit:g}s", "--json"], most)
    try:
        found = json.loads(printed)
        found = found[0] if isinstance(found, list) else found
    except ValueError:
        killed = seconds >= most
        message = f"did not end within {most:.0f} s" if killed else (log.strip().splitlines() or [f"exit status {status}"])[-1]
        found = {"status": "killed" if killed else "failed", "time": None, "message": message, "solve_seconds": seconds}
    return {**found, "wall_seconds": seconds, "rss_kib": rss, "log": log}


class Journal:
    """Results by key in a file, one per line, so that an interrupted bench continues where it stopped.

    It holds for one build of the command: results of another are put aside.
    """

    def __init__(self, path, fresh=False):
        self.path, self.results = path, {}
        with open(plans.NEAP, "rb") as file:
            build = hashlib.sha256(file.read()).hexdigest()[:16]
        os.makedirs(os.path.dirname(path), exist_ok=True)
        lines = [] if fresh or not os.path.exists(path) else self._lines()
        if lines and lines[0] == {"build": build}:
            self.results = {entry["key"]: entry["result"] for entry in lines[1:]}
            say(f"{path}: {len(self.results)} results are there already (--fresh forgets them)")
            return
        if os.path.exists(path):
            os.replace(path, path + ".old")
            say(f"{path}: started again; the previous results are in {path}.old")
        self._append({"build": build})

    def _lines(self):
        """The last one may be torn."""
        lines = []
        with open(self.path, encoding="utf-8") as file:
            for line in file:
                try:
                    lines.append(json.loads(line))
                except ValueError:
                    break
        return lines

    def _append(self, entry):
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    def get(self, command, words, limit, drop_log=True):
        """What figures() finds, or found before."""
        key = " ".join(map(str, (command, *words, "--time-limit", f"{limit:g}s")))
        if key not in self.results:
            result = figures(command, words, limit)
            if drop_log:
                del result["log"]
            self._append({"key": key, "result": result})
            self.results[key] = result
        return self.results[key]


# ---- What a log says ----

LOG_LINE = re.compile(r"^ *([\d.]+) +(-|[\d.]+ \S+) +(-|-?[\d.]+%) +(-|[\d.]+ \S+) +(-|-?[\d.]+%)$")


def log_lines(log):
    """(seconds, overhead or None, gap or None) of each line of --log."""
    share = lambda text: None if text == "-" else float(text.rstrip("%")) / 100
    matches = filter(None, map(LOG_LINE.match, log.splitlines()))
    return [(float(m[1]), share(m[3]), share(m[5])) for m in matches]


# ---- Words ----


def over(plan, bound):
    """Time beyond a bound, as a share; None without either."""
    return plan["time"] / bound - 1 if plan.get("time") and bound else None


def percent(share):
    """0.05123 as 5.12; a dash for None."""
    return "-" if share is None else f"{100 * share + 0.0:.2f}"


def why_not(plan, with_op=True):
    """A short reason why there is no plan: the least budget, and the op that needs it."""
    if plan["status"] == "infeasible" and plan.get("least_budget_bytes"):
        op = plan.get("blocking_op") if with_op else None
        return f">= {plans.size(plan['least_budget_bytes'])}" + (f" ({op})" if op else "")
    return plan["status"].replace("_", " ")
