"""The processes that measure the rows of bench/torch_gpu, and who measures which row when."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time

import torch_rows
from torch_jobs import Board

HERE = os.path.dirname(os.path.abspath(__file__))
GRACE = 20  # seconds that a row has beyond --minutes
START = 180  # seconds in which a process has to start
FRESH = 2  # processes that are started for one row each


class Worker:
    """A process that runs jobs, one after the other; it is started again when one has ended it or takes too long."""

    def __init__(self, args, environment):
        self.args = args
        self.environment = {**os.environ, **environment}
        if args.verbose:
            self.environment["NEAP_BENCH_VERBOSE"] = "1"
        self.process = None
        self.about = None
        self.loaded = None  # the network that it has

    def start(self):
        """Starts the process; `about` says which PyTorch and device it has, or why it did not start."""
        self.log = None if self.args.verbose else tempfile.TemporaryFile("w+")
        command = [sys.executable, os.path.join(HERE, "torch_peers.py"), self.args.device]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
                                        env=self.environment, start_new_session=True)
        self.pending = b""
        self.loaded = None
        self.about = self._answer(START)
        return self.about

    def is_ready(self):
        """Starts the process if it does not run; whether it does now."""
        return self.process is not None or "error" not in self.start()

    def run(self, job, seconds):
        """The row of the job."""
        if not self.is_ready():
            return self.about
        self.loaded = job["model"]
        try:
            self.process.stdin.write((json.dumps(job) + "\n").encode())
            self.process.stdin.flush()
        except OSError:
            return self._ended()
        row = self._answer(seconds)
        if row.pop("fatal", False):
            self.close()
        return row

    def _answer(self, seconds):
        """The next line of the process."""
        deadline = time.monotonic() + seconds
        stream = self.process.stdout.fileno()
        while b"\n" not in self.pending:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([stream], [], [], left)[0]:
                self.close()
                return {"error": f"gave up after {seconds:.0f} s", "late": True}
            data = os.read(stream, 1 << 16)
            if not data:
                return self._ended()
            self.pending += data
        text, self.pending = self.pending.split(b"\n", 1)
        return json.loads(text)

    def _ended(self):
        status = self.process.wait()
        words = self._last_words()
        self.close()
        return {"error": f"the process ended with status {status}: {words}"}

    def _last_words(self):
        if self.log is None:
            return ""
        self.log.seek(0)
        lines = [text.strip() for text in self.log if text.strip()]
        return lines[-1][:300] if lines else ""

    def close(self):
        """Ends the process; the next job starts a new one."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)  # with the compilers it has started
            self.process.wait()
            self.process = None


# ---- processors ----


def physical_cores():
    """The processors that this process may use, by the core that they share."""
    cores = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        try:
            with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", encoding="ascii") as file:
                name = file.read()
        except OSError:
            name = str(cpu)
        cores.setdefault(name, []).append(cpu)
    return list(cores.values())


def divided_processors():
    """Processors for the process that measures, for new processes, and for all others; None where there are few."""
    cores = physical_cores()
    count = sum(map(len, cores))
    if count < 12:
        return None
    parts, sizes = [[], []], (3, 2)
    for part, size in zip(parts, sizes):
        while len(part) < size:
            part += cores.pop(0)
    return *parts, [cpu for core in cores for cpu in core]


def environments(args, cache, folder):
    """The environment of a process that measures many rows, and of one that measures a single row."""
    shared = {"NEAP_CACHE_DIR": os.path.join(cache, "neap"), "TORCHINDUCTOR_CACHE_DIR": os.path.join(cache, "inductor")}
    if args.parallel < 2:
        return shared, shared
    shared["NEAP_BENCH_TURN"] = os.path.join(folder, "turn")
    divided = divided_processors()
    if divided is None:
        return shared, shared
    quiet, new, others = (",".join(map(str, part)) for part in divided)
    shared["TORCHINDUCTOR_COMPILE_THREADS"] = "3"
    return {**shared, "NEAP_BENCH_CORES": f"{quiet}:{others}"}, {**shared, "NEAP_BENCH_CORES": f"{quiet}:{new}"}


def host_memory():
    """Bytes that the host can give without swapping."""
    with open("/proc/meminfo", encoding="ascii") as file:
        sizes = {words[0]: int(words[1]) << 10 for words in map(str.split, file)}
    return sizes["MemAvailable:"]


# ---- rows ----


class Schedule:
    """Measures row after row, several processes at a time, until the time is up."""

    def __init__(self, args, rows, cache):
        self.args = args
        self.rows = rows
        self.board = Board(args, rows)
        self.folder = tempfile.TemporaryDirectory(prefix="neap-bench-")
        many, single = environments(args, cache, self.folder.name)
        self.workers = [Worker(args, many) for _ in range(max(1, args.parallel))]
        self.fresh = [Worker(args, single) for _ in range(FRESH if args.parallel > 1 else 1)]
        self.begin = time.monotonic()
        self.change = threading.Condition()
        self.measured = set()  # in this run: what they need is in the cache
        self.stopped = False

    def seconds_left(self):
        return self.begin + self.args.minutes * 60 - time.monotonic() if self.args.minutes else float("inf")

    def run(self):
        """Returns what the processes said of themselves; ends when all rows are measured or the time is up."""
        about = self.workers[0].start()
        if "error" in about:
            sys.exit(about["error"])
        print(f"PyTorch {about['torch']}, {about['device']}; {self.args.warmup} + {self.args.steps} steps, "
              f"{len(self.workers)} processes", flush=True)
        threads = [threading.Thread(target=self._serve, args=(worker, worker in self.fresh), daemon=True)
                   for worker in [*self.workers, *self.fresh]]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():  # an interrupt is seen between the waits
                thread.join(0.5)

    def _serve(self, worker, fresh):
        while True:
            job = self._next(worker, fresh)
            if job is None:
                return
            if not worker.is_ready() and not worker.is_ready():
                self._print(f"a process did not start: {worker.about['error']}")
                with self.change:
                    self.board.put_back(job)
                    worker.loaded = None
                    self.change.notify_all()
                return
            measured = self._measure(worker, job)
            with self.change:
                (self.board.done if measured else self.board.put_back)(job)
                self.change.notify_all()

    def _next(self, worker, fresh):
        """The next job for a process; None at the end."""
        with self.change:
            while not self.stopped and self.seconds_left() > 0:
                others = [w.loaded for w in self.workers if w is not worker]
                job = self.board.take(fresh, worker.loaded, others)
                if job is not None:
                    if not fresh:
                        worker.loaded = job.model  # others leave it to this process
                    return job
                if not self.board.waiting and not self.board.running:
                    self.change.notify_all()
                    return None
                self.change.wait(1.0)
        return None

    def _measure(self, worker, job):
        """Measures and stores a row; whether there was time for it."""
        budget, reason = self._budget(job)
        if reason:
            self._print(f"{' '.join(job.key)}: not run: {reason}")
            return True
        sent = {**self._full(job), "budget": budget}
        begin = time.monotonic()
        if job.sent["fresh"]:
            self._fill_cache(worker, job, sent)
        limit = min(self.args.row_seconds, self.seconds_left() + GRACE)
        row = {"model": job.model, **job.sent, "budget": budget if isinstance(budget, int) else None,
               **worker.run(sent, limit)}
        row["wall"] = round(time.monotonic() - begin, 1)
        if job.sent["fresh"]:
            worker.close()
        if self.stopped or (row.pop("late", False) and limit < self.args.row_seconds):
            return False
        with self.change:
            self.rows.add({**row, "about": worker.about})
            self.measured.add(job.key)
        self._print(torch_rows.line(self.rows, row))
        return True

    def _full(self, job):
        """What the measuring process needs to know."""
        timed = 0 if job.sent["fresh"] else self.args.steps
        return {**job.sent, "model": job.model, "small": self.args.small, "steps": timed,
                "warmup": self.args.warmup if timed else 1, "plan_seconds": self.args.plan_seconds,
                "prime": not job.sent["fresh"]}

    def _fill_cache(self, worker, job, sent):
        """Has a new process find costs, plan and kernels in the cache, where an earlier run measured that row."""
        if (job.model, job.sent["kind"], f"neap {job.sent['percent']:g}%") not in self.measured:
            worker.run(sent, min(self.args.row_seconds, self.seconds_left() + GRACE))
            worker.close()
            worker.is_ready()

    def _print(self, text):
        print(f"{time.monotonic() - self.begin:5.0f} s  {text}", flush=True)

    def _budget(self, job):
        """The bytes of a row's budget, and why it is not worth running."""
        budget = job.sent["budget"]
        peak = (self.rows.get(job.model, "eager", "eager") or {}).get("peak")
        if job.sent["way"] == "save_on_cpu" and peak and 2.2 * peak > host_memory():
            return budget, "too little host memory for pinned copies of all activations"
        if job.sent["percent"] is not None:
            budget = f"{job.sent['percent']:g}%" if peak is None else int(peak * job.sent["percent"] / 100)
        if job.sent["fresh"]:
            like = self.rows.get(job.model, job.sent["kind"], f"neap {job.sent['percent']:g}%") or {}
            return like.get("budget") or budget, None  # of which a plan is in the cache
        if job.sent["way"] == "neap" and isinstance(budget, int):
            for row in self.rows.neap(job.model, job.sent["kind"]):
                same = (row["strict"], row["offload"]) == (job.sent["strict"], job.sent["offload"])
                if same and row.get("refused") and budget <= row["budget"]:
                    return budget, f"{row['name']} ran at the least budget already"
        return budget, None

    def close(self):
        """Ends all processes."""
        self.stopped = True
        for worker in [*self.workers, *self.fresh]:
            worker.close()
        self.folder.cleanup()
