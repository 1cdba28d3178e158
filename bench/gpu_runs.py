"""What the benches of backend cuda share: networks, measured graphs, plans made in parallel, trainings, PyTorch beside.

NEAP=FILE names a command that is built already; otherwise it is built. GPU time is scarce, so a process for each network
(bench/worker.c) finds its kernels while others are measured, measures them once, and trains one plan after the other,
which are made on all processors but a few; rows are printed as they come. Measurements take turns. `--backend onednn
--tiny` tries everything on a processor, with tiny networks.
"""

import argparse
import atexit
import collections
import concurrent.futures
import fcntl
import json
import os
import select
import subprocess
import sys
import threading
import time

import common

GB, GIB, MIB = 10**9, 1 << 30, 1 << 20
ALIGNMENT = 64  # of `neap train`
TYPES = ("f32", "tf32", "bf16")
MOST_WORKSPACE = 12 * GIB

Network = collections.namedtuple("Network", "title model words tiny")

SMALL_IMAGES = ("--image", 48, "--set", "width=10", "--set", "classes=5")
SMALL_TOKENS = ("--seq", 16, "--set", "vocab=24", "--set", "hidden=12", "--set", "heads=2", "--set", "layers=2")


def images(title, model, batch, *words, tiny=SMALL_IMAGES):
    return Network(title, model, ("--batch", batch, *words), ("--batch", 4, *tiny))


# As bench/gpu_torch.py has them in PyTorch, and those of the papers.
NETWORKS = {
    "resnet50": images("ResNet-50", "resnet50", 128),
    "vgg19": images("VGG-19", "vgg19", 128),
    "densenet201": images("DenseNet-201", "densenet201", 64),
    "unet": images("U-Net", "unet", 16, "--image", 416),
    "mobilenet_v2": images("MobileNet v2", "mobilenet_v2", 128),
    "vit_b_16": images("ViT-B/16", "vit_b_16", 64, tiny=("--image", 48, "--set", "classes=5", "--set", "hidden=12",
                                                         "--set", "heads=2", "--set", "layers=2")),
    "bert-base": Network("BERT base", "bert-base", ("--batch", 32, "--seq", 384), ("--batch", 4, *SMALL_TOKENS)),
    "gpt2": Network("GPT-2 small", "gpt2", ("--batch", 8, "--seq", 1024), ("--batch", 4, *SMALL_TOKENS)),
    "resnet101": images("ResNet-101", "resnet101", 64),
    "densenet121": images("DenseNet-121", "densenet121", 64),
    "inception_v3": images("Inception v3", "inception_v3", 64, "--image", 224, "--set", "aux=0",
                           tiny=("--image", 75, "--set", "width=4", "--set", "aux=0")),
    "vgg16": images("VGG16", "vgg16", 256),
    "mobilenet_v1": images("MobileNet v1", "mobilenet_v1", 512),
    "densenet-chain": images("DenseNet-121 as a chain", "densenet-chain", 64),
}  # fmt: skip


# ---- The command line ----


def arguments(description, networks, *options, types="tf32", steps=11):
    """Parses the command line. Options as for common.arguments; --quick is for each bench to interpret."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    option = parser.add_argument
    option("--networks", default=",".join(networks), help="some of %(default)s")
    option("--types", default=types, help=f"number types, of {','.join(TYPES)} (%(default)s)")
    option("--backend", default="cuda", help="whose kernels (%(default)s)")
    option("--tiny", action="store_true", help="tiny networks, to try the bench")
    option("--quick", action="store_true", help="fewer networks, points and steps")
    option("--minutes", type=float, default=0, help="start no row after this time (0: no limit)")
    option("--steps", type=int, default=steps, help="of each training; the median counts (%(default)s)")
    option("--limit", type=float, default=5, help="seconds for each plan (%(default)s)")
    option("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 4), help="plans made at a time (%(default)s)")
    option("--cache", help="file of measured kernel times (one in --out)")
    option("--fresh", action="store_true", help="measure kernels again that the file has")
    option("--no-torch", action="store_true", help="leave PyTorch out")
    option("--brief-torch", action="store_true", help="one way of PyTorch, channels-last and all in bf16, not the fastest of all")
    option("--json", help="add every figure to this file, one line of JSON each")
    option("--out", default=os.path.join(common.BUILD, "gpu"), help="folder for graphs, plans and pictures (%(default)s)")
    for name, meaning, default in options:
        if default is False:
            option(name, help=meaning, action="store_true")
        else:
            option(name, help=f"{meaning} (%(default)s)", type=type(default), default=default)
    args = parser.parse_args()
    args.networks = [name for name in args.networks.split(",") if name]
    unknown = [name for name in args.networks if name not in networks]
    if unknown:
        parser.error(f"no network {unknown[0]}; there are {', '.join(networks)}")
    args.types = args.types.split(",")
    if args.backend != "cuda" and not args.backend.startswith("cuda-"):
        args.types = ["f32"]  # what processors train in
    if args.quick:
        args.steps, args.limit = min(args.steps, 5), min(args.limit, 2)
    args.until = time.monotonic() + 60 * args.minutes if args.minutes else None
    os.makedirs(args.out, exist_ok=True)
    args.cache = args.cache or os.path.join(args.out, "profile.json")
    common.build()
    return args


def time_is_up(args):
    return args.until is not None and time.monotonic() > args.until


def say(text):
    """Progress: on stderr, so that the table can go to a file."""
    print(text, file=sys.stderr, flush=True)


def note(args, what, figures):
    """Adds figures to the file of --json."""
    if args.json:
        with open(args.json, "a", encoding="utf-8") as file:
            file.write(json.dumps({"bench": os.path.basename(sys.argv[0]), **what, **figures}) + "\n")


class Table:
    """A table as Markdown has it, whose rows are printed as they come, by any thread."""

    def __init__(self, *head, title=None):
        self.widths = [max(len(name), 8) for name in head]
        if title:
            self.put(f"\n## {title}\n")
        self.row(*head)
        self.put("|" + "|".join("-" * (width + 1) + ":" for width in self.widths) + "|")

    @staticmethod
    def put(line):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def row(self, *cells):
        self.put("| " + " | ".join(str(cell).rjust(width) for cell, width in zip(cells, self.widths)) + " |")


def brief(message):
    """A message for a cell of a table; the whole of it goes to stderr."""
    say(message)
    return message if len(message) <= 60 else message[:57] + "..."


def milliseconds(seconds):
    return "-" if seconds is None else f"{1e3 * seconds:.2f}"


def mebibytes(count):
    return "-" if count is None else f"{count / MIB:,.1f}"


def share(ratio):
    return "-" if ratio is None else f"{100 * ratio:+.2f}%"


def over(a, b):
    """a / b - 1; None where either is unknown."""
    return a / b - 1 if a is not None and b else None


def times(a, b):
    return f"{a / b:.3f}x" if a is not None and b else "-"


# ---- The command ----


def neap(*words, timeout=600):
    """(exit status, what it printed, its last message) of a neap command."""
    begin = time.monotonic()
    try:
        run = subprocess.run([common.path_of("neap"), *map(str, words)], capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return 124, "", f"no answer in {timeout:g} s"
    said = [line for line in run.stderr.strip().splitlines() if line]
    say(f"{time.monotonic() - begin:.1f} s: neap {' '.join(map(str, words))}")
    return run.returncode, run.stdout, said[-1].removeprefix("neap: ") if said else ""


def answer(*words, timeout=600):
    """The JSON that a command prints; {"error": message} if it fails."""
    status, printed, message = neap(*words, timeout=timeout)
    try:
        found = json.loads(printed)
        return found if status == 0 or printed.startswith("[") else {**found, "error": message or f"status {status}"}
    except ValueError:
        return {"error": message or f"status {status}"}


class Turn:
    """The GPU for one measurement at a time, also among benches that run at once with the same --out."""

    def __init__(self, args):
        self.path, self.file = os.path.join(args.out, "gpu.lock"), None

    def __enter__(self):
        self.file = self.file or open(self.path, "w", encoding="utf-8")
        fcntl.lockf(self.file, fcntl.LOCK_EX)

    def __exit__(self, *_):
        fcntl.lockf(self.file, fcntl.LOCK_UN)


class Worker:
    """A process of bench/worker.c, which keeps the kernels of a graph. It finds them first; of several workers that others
    wait for one at a time does, in the order in which they were made, on all processors."""

    latest, alive = None, set()  # of those that others wait for, the one made last; all that may have a process

    def __init__(self, graph, args, kind, *words, alone=True):
        self.name, self.process, self.closed = os.path.basename(graph).removesuffix(".json"), None, False
        self.changing = threading.Lock()  # process and closed
        self.command = [common.path_of("worker"), graph, args.backend, "--cache", args.cache, *map(str, words)]
        self.command += ["--tf32"] if kind != "f32" else []
        self.command += ["--fresh"] if args.fresh else []
        self.command += ["--threads", "1"] if args.backend != "cuda" else []
        self.log = os.path.join(args.out, "worker.log")
        self.begun, before = concurrent.futures.Future(), Worker.latest if alone else None
        Worker.latest = self if alone else Worker.latest
        Worker.alive.add(self)
        threading.Thread(target=self.begin, args=(before,), daemon=True).start()  # the end of a bench waits for none

    def begin(self, before):
        """Starts it; `begun` is what was wrong, or None."""
        try:
            if before:
                before.begun.exception()  # waits for it
            self.begun.set_result(self.find_kernels())
        except Exception as failure:  # told by ask()
            self.begun.set_exception(failure)

    def find_kernels(self):
        with self.changing:
            if self.closed:
                return {"error": "its worker was closed"}
            with open(self.log, "a", encoding="utf-8") as log:
                self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        begin, found = time.monotonic(), self.exchange("fit", 600)
        say(f"{time.monotonic() - begin:.1f} s: {self.name}: kernels found")
        return found if "error" in found else None

    def exchange(self, request, timeout):
        """The answer to a line; {"error": message} if there is none."""
        try:
            self.process.stdin.write(request + "\n")
            self.process.stdin.flush()
        except OSError:
            pass  # it has ended
        if not select.select([self.process.stdout], [], [], timeout)[0]:
            self.close()
            return {"error": f"no answer in {timeout:g} s"}
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": f"its worker ended with status {self.process.wait()}"}

    def ask(self, *words, timeout=600):
        """The answer to a request; {"error": message} if there is none."""
        failure = self.begun.result()
        if failure:
            return failure
        begin, request = time.monotonic(), " ".join(map(str, words))
        found = self.exchange(request, timeout)
        say(f"{time.monotonic() - begin:.1f} s: {self.name}: {request}")
        return found

    def close(self):
        with self.changing:
            self.closed = True
            if self.process:
                self.process.kill()
                self.process.wait()
        Worker.alive.discard(self)


@atexit.register
def close_workers():
    for worker in list(Worker.alive):
        worker.close()


class Subject:
    """A network in a number type on the backend; its graph with measured times is a file."""

    def __init__(self, args, network, kind="f32", batch=None, name=None, alone=True):
        self.args, self.network, self.kind = args, network, kind
        sizes = list(network.tiny if args.tiny else network.words)
        if batch and not args.tiny:
            sizes[sizes.index("--batch") + 1] = batch
        self.batch = sizes[sizes.index("--batch") + 1]
        self.name = name or f"{network.model}_b{self.batch}_{kind}"
        self.graph = os.path.join(args.out, f"{self.name}.json")
        self.natural = self.base = self.link = None
        self.alone = alone  # whether times matter
        self.alone_base = None  # `base` with kernels that run beside no copies, once the link is measured
        bare = self.graph.removesuffix(".json") + ".bare.json"
        words = ["graph", network.model, *sizes, "--optimizer", "sgd", "--dtype", kind, "-o", bare]
        self.failure = None if neap(*words)[0] == 0 else f"neap {' '.join(map(str, words))} failed"
        words = ["--lock", os.path.join(args.out, "gpu.lock")] if alone else ["--repetitions", 1]
        words += ["--most-workspace", MOST_WORKSPACE]  # so that several networks are measured side by side
        self.worker = None if self.failure else Worker(bare, args, kind, *words, alone=alone)

    def profile(self, link=False):
        """Measures the kernels, and the link if asked to, and writes the graph; the message if that failed, else None."""
        failure = self.failure or self.measure()
        if failure or not link:
            return failure
        self.alone_base, self.link = self.base, self.worker.ask("link")
        return self.link.get("error") or self.measure()

    def measure(self):
        """Measures the kernels that are not in the cache; of a link that is measured already, beside copies."""
        found = self.worker.ask("profile", self.graph)
        if "error" in found:
            return found["error"]
        say(f"{self.name}: {found['measured']} of {found['kernels']} kernels measured in {found['seconds']:.1f} s")
        figures = self.plan("store-all", None, output=self.plan_path("store-all"))
        self.natural, self.base = figures.get("natural_peak_bytes"), figures.get("base_time")
        return figures.get("error") if self.natural is None else None

    def plan(self, method, budget=None, *words, output=None, limit=None, graph=None):
        """The figures of `neap plan` on the measured graph; {"error": message} where there is no plan."""
        command = ["plan", graph or self.graph, "--method", method, "--alignment", ALIGNMENT, "--threads", 1, "--json"]
        command += ["--time-limit", f"{limit or self.args.limit:g}s", *words]
        if budget is not None:
            command += ["--budget", budget]
        if output:
            command += ["-o", output]
        found = answer(*command)
        if found.get("time") is None and "error" not in found:
            found["error"] = found.get("message") or found.get("status")
        return found

    def plan_path(self, *names):
        return os.path.join(self.args.out, "_".join([self.name, *map(str, names)]).replace("%", "") + ".plan.json")

    def train(self, plan, *words, steps=None):
        """Trains by the plan in a file: bytes, and the times of a step, predicted and measured; or {"error": message}."""
        return self.worker.ask("train", plan, steps or self.args.steps, *words)

    def train_plain(self):
        """Trains without a plan: every op runs once, with its fastest kernel."""
        return self.train(self.plan_path("store-all"))

    def verify(self, plan, *words, steps=2):
        return self.worker.ask("verify", plan, steps, *words)

    def close(self):
        """Gives back the memory of the GPU."""
        if self.worker:
            self.worker.close()


def ahead(args, rows, make, count=3):
    """Yields (row, its subject) while the subjects of the next rows find their kernels; stops when the time is up."""
    made = []
    for index, row in enumerate(rows):
        if time_is_up(args):
            say("the time was up before " + ", ".join(map(str, row)))
            break
        made += [make(*later) for later in rows[len(made) : index + count]]
        yield row, made[index]
    for subject in made:
        subject.close()


def planners(args):
    return concurrent.futures.ThreadPoolExecutor(max(1, args.jobs))


# ---- Memory of the GPU, from outside ----


class Watch:
    """The most memory of the GPU in use while something runs, less what was in use before, by nvidia-smi."""

    def __enter__(self):
        self.before, self.most, self.end = self.used(), None, threading.Event()
        self.thread = threading.Thread(target=self.look)
        if self.before is not None:
            self.thread.start()
        return self

    def look(self):
        while not self.end.is_set():
            used = self.used()
            self.most = max(used or 0, self.most or 0)

    def __exit__(self, *_):
        self.end.set()
        if self.thread.is_alive():
            self.thread.join()

    @staticmethod
    def used():
        try:
            query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", "0"]
            return int(subprocess.run(query, capture_output=True, text=True, timeout=20).stdout.split()[0]) * MIB
        except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
            return None

    def bytes(self):
        return self.most - self.before if self.most is not None else None


# ---- PyTorch ----


class Torch:
    """A process that runs bench/gpu_torch.py, started at once so that it imports PyTorch while kernels are measured."""

    def __init__(self, args):
        self.args, self.process, self.starts, self.turn = args, None, 0, Turn(args)
        self.asking = threading.Lock()
        self.reason = "left out" if args.no_torch else "not for tiny networks" if args.tiny else None
        if not self.reason:
            self.start()

    def start(self):
        self.starts += 1
        script = os.path.join(common.ROOT, "bench", "gpu_torch.py")
        with open(os.path.join(self.args.out, "torch.log"), "a", encoding="utf-8") as log:
            self.process = subprocess.Popen([sys.executable, script, "--serve"], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=log, text=True)  # fmt: skip

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def ask(self, timeout=180, **request):
        """The answer of gpu_torch.py, or {"error": reason}. A process that does not answer is replaced, twice."""
        with self.asking:
            return {"error": self.reason} if self.reason else self.request(timeout, request)

    def request(self, timeout, request):
        if not self.process:
            self.start()
        steps = {"quick": self.args.quick, "steps": max(10, self.args.steps), "brief": self.args.brief_torch}
        request = {**steps, **{name: value for name, value in request.items() if value is not None}}
        line, begin = "", time.monotonic()
        with self.turn:
            try:
                self.process.stdin.write(json.dumps(request) + "\n")
                self.process.stdin.flush()
                if select.select([self.process.stdout], [], [], timeout)[0]:
                    line = self.process.stdout.readline()
            except OSError:
                pass
        say(f"{time.monotonic() - begin:.1f} s: PyTorch, {request['network']} {request.get('type', '')}")
        found = json.loads(line) if line else {"error": "no answer; torch.log in --out may say why"}
        if not line:
            self.stop()
        if "error" in found:
            say(f"PyTorch, {request['network']}: {found['error']}")
            lasting = found["error"].startswith(("no PyTorch", "PyTorch has")) or (not line and self.starts > 2)
            self.reason = found["error"] if lasting else None
        return found

    def close(self):
        """Ends the process, and says why there were no figures of PyTorch, if so."""
        self.stop()
        if self.reason:
            print(f"\nPyTorch: {self.reason}")


def torch_cells(found):
    """(ms, MiB) of an answer of PyTorch, as text."""
    if "error" in found:
        return "-", "-"
    return f"{found['ms']:.2f}", "-" if found["mib"] is None else f"{found['mib']:,.1f}"
