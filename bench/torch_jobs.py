"""Which rows bench/torch_gpu measures, in the order of their value, and what each of them waits for."""

import torch_rows

# By value: these first, in both kinds of kernels, then all others.
FIRST = {"eager": ["resnet50", "vit_b_16", "gpt2", "bert", "unet", "llama_1b"], "inductor": ["resnet50", "vit_b_16", "gpt2"]}
MODELS = [*FIRST["eager"], "vgg19", "densenet201", "convnext_t", "gpt2_xl"]
MORE_MODELS = ["convnext_b"]  # only where they are asked for
KINDS = ["eager", "inductor"]
KNOBS = [1, 0.5, 0.25, 0]
PEERS = ["eager", "checkpoint", "knob", "save_on_cpu"]
NEAP = ["all", "budgets", "half", "match", "strict", "offload", "start"]
BUDGETS = ["50", "35"]
REPEATS = 5  # steps of store-all that are compared: some kernels add up in any order
LEVELS = ["1", "2", "3"]
WORK = {"densenet201": 5, "gpt2_xl": 4, "resnet50": 2, "llama_1b": 2, "convnext_b": 2}  # of capturing and compiling; others: 1


def job_of(name, way, kind, **options):
    job = {"name": name, "way": way, "kind": kind, "knob": None, "budget": None, "percent": None, "strict": False,
           "offload": False, "fresh": False, "results": 1}
    return {**job, **options}


def eager_job():
    return job_of("eager", "eager", "eager")


def peer_jobs(args, kind):
    """PyTorch's own ways, as (level, job)."""
    if kind == "eager" and "eager" in args.peers:
        yield 1, eager_job()
    if "knob" in args.peers:
        backend = "aot_eager" if kind == "eager" else "inductor"
        for knob in KNOBS:
            yield 1 if knob in (1, 0.5) else 2, job_of(f"{backend} {knob:g}", "knob", kind, knob=knob)
    if "checkpoint" in args.peers:
        yield 2, job_of("checkpoint", "checkpoint", kind)
    if kind == "eager" and "save_on_cpu" in args.peers:
        yield 2, job_of("save_on_cpu", "save_on_cpu", kind)


def neap_jobs(args, kind):
    """neap at budgets that are known beforehand, as (level, job)."""
    if "all" in args.neap:
        yield 1, job_of("neap store-all", "neap", kind, results=REPEATS if kind == "eager" else 1)
    for percent in args.budgets if "budgets" in args.neap else []:
        yield 1, job_of(f"neap {percent}%", "neap", kind, percent=float(percent))
    for position, percent in enumerate(args.budgets):
        for flag in ("strict", "offload"):
            if flag in args.neap:
                job = job_of(f"neap {percent}% {flag}", "neap", kind, percent=float(percent))
                common = position == 0 and (flag == "strict" or kind == "eager")
                yield 2 if common else 3, {**job, flag: True}
    if "start" in args.neap and args.budgets:
        percent = args.budgets[0]
        yield 2, job_of(f"neap {percent}% new process", "neap", kind, percent=float(percent), fresh=True, results=0)


def later_jobs(args, rows, model, kind):
    """neap at budgets that depend on what PyTorch reached."""
    least = rows.least_peer(model, kind)
    if least is None:
        if "half" in args.neap and args.device == "cpu":  # no peaks there; a low budget all the same
            yield job_of("neap half of least", "neap", kind, percent=25.0, offload=True)
        return
    if "half" in args.neap:
        yield job_of("neap half of least", "neap", kind, budget=least // 2, offload=True)
    if "match" in args.neap:
        for peer in sorted(torch_rows.best_peers(rows, model, kind), key=lambda p: p["peak"]):
            if not any(torch_rows.as_good(row, peer) for row in rows.neap(model, kind)):
                copies = peer["way"] == "save_on_cpu"
                yield job_of(f"neap as {peer['name']}", "neap", kind, budget=peer["peak"], offload=copies)


def blocks(args):
    """(network, kernels, level) in the order of value."""
    first = [(model, kind) for kind in KINDS for model in FIRST[kind]]
    rest = [(model, kind) for kind in KINDS for model in [*MODELS, *MORE_MODELS] if (model, kind) not in first]
    order = [(*block, level) for part in (first, rest) for level in (1, 2) for block in part]
    order += [(*block, 3) for block in first + rest]
    return [b for b in order if b[0] in args.models and b[1] in args.kinds and str(b[2]) in args.levels]


class Job:
    """A row to measure. `value`: its place in the order; less is more valuable."""

    def __init__(self, model, sent, value):
        self.model = model
        self.sent = sent
        self.value = value
        self.key = (model, sent["kind"], sent["name"])


class Board:
    """The rows that are still to be measured."""

    def __init__(self, args, rows):
        self.args = args
        self.rows = rows
        self.waiting = []
        self.running = []
        self.later = []  # (model, kind, value): rows that are known when others are measured
        self.seen = set()
        for value, (model, kind, level) in enumerate(blocks(args)):
            mine = [job for at, job in [*peer_jobs(args, kind), *neap_jobs(args, kind)] if at == level]
            if mine:
                self._add(model, eager_job(), value)  # budgets are parts of its peak
            for job in mine:
                self._add(model, job, value)
            if level == 2:
                self.later.append((model, kind, value))
        self._add_later()

    def _add(self, model, sent, value):
        job = Job(model, sent, value)
        known = self.rows.get(*job.key)
        if job.key not in self.seen and (not known or self._again(known)):
            self.waiting.append(job)
        self.seen.add(job.key)

    def _again(self, row):
        return any(word in row["name"] or (word == "failed" and "error" in row) for word in self.args.again)

    def _add_later(self):
        for entry in list(self.later):
            model, kind, value = entry
            kinds = KINDS if kind == "inductor" else [kind]
            open_rows = [job for job in self.waiting + self.running if job.model == model and not job.sent["fresh"]
                         and (job.sent["kind"] == kind or (job.sent["kind"] in kinds and job.sent["way"] != "neap"))]
            if not open_rows:
                self.later.remove(entry)
                for job in later_jobs(self.args, self.rows, model, kind):
                    self._add(model, job, value)
        self.waiting.sort(key=lambda job: job.value)

    def take(self, fresh, loaded, others):
        """The next row, or None. loaded: the network that the process has. others: those of the other processes."""
        ready = [job for job in self.waiting if job.sent["fresh"] == fresh and self._ready(job)]
        near = [job for job in ready if job.value <= ready[0].value + len(self.args.models)]
        mine = [job for job in near if job.model == loaded]
        job = next(iter(mine), None) or max(near, key=lambda job: self._need(job.model, others), default=None)
        if job:
            self.waiting.remove(job)
            self.running.append(job)
        return job

    def _need(self, model, others):
        """Work that is left for a network, for each of the processes that it would then have."""
        left = sum(job.model == model for job in self.waiting)
        there = others.count(model)
        return there == 0, left * WORK.get(model, 1) / (1 + there)

    def _ready(self, job):
        """Whether the rows that this one builds on are there: plain eager's peak, and costs and plans in the cache."""
        kind, sent = job.sent["kind"], job.sent
        needs = []
        if sent["percent"] is not None:
            needs.append("eager")
        if sent["way"] == "neap" and kind == "eager" and sent["name"] != "neap store-all":
            needs.append("neap store-all")
        if sent["fresh"]:
            needs.append(f"neap {sent['percent']:g}%")
        keys = {(job.model, "eager" if name == "eager" else kind, name) for name in needs}
        return not any(other.key in keys for other in self.waiting + self.running)

    def done(self, job):
        self.running.remove(job)
        self._add_later()

    def put_back(self, job):
        """A row that was not measured for want of time."""
        self.running.remove(job)
        self.waiting.append(job)

    def names(self):
        return [" ".join(job.key) for job in self.waiting]
