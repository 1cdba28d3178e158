#!/usr/bin/env python3
"""An independent judge of neap's plans: replays a plan against its graph, step by step.

    judge.py GRAPH PLAN [--link OUT_BYTES_PER_S[,IN]] [--latency S] [--duplex] [--budget B]

It prints one JSON line and exits with 0 when the plan is legal, 1 when it is not:

    {"ok": true, "peak": 4600, "time": 0.004, "compute_time": 0.004, "recomputed": 0, "offloaded_bytes": 0}
    {"ok": false, "step": 3, "reason": "..."}        step is null when no one step is to blame

It is written from the file contract alone, to be obviously right rather than fast. Times are exact
fractions of the decimal text. Where the contract is silent:

- a transfer moves the bytes of its value's storage, also for a view, and takes latency + bytes / bandwidth;
- a transfer starts when the compute stream has come to it, its engine is free and every earlier copy of the
  same value has ended; transfers of one engine run in the order of the list;
- a free waits, on the compute stream, for any copy of that value, either way, still in flight;
- a host copy stays valid to the end of the plan, also when the value is recomputed;
- a value that becomes resident while its storage is live re-uses that storage;
- random marks change nothing; in_place marks neither, unless the step says "in_place";
- a computation in place waits for every copy still in flight of the value it writes over, as a free does, and an
  update for every copy of what it updates;
- nothing is written over in place while the output's storage is live (by a view of it), nor by an op with an output that
  lies on the storage written over;
- an update of a value reaches every value on its storage; an op with updates of its own may read what another updated;
- a copy on the host that an update has made old may not be prefetched;
- the plan's own budget_bytes is not judged, only --budget.
"""
import argparse
import json
import sys
from fractions import Fraction


class Illegal(Exception):
    """The reason why a graph or a plan is not legal, and the step to blame (None: no one step)."""

    def __init__(self, reason, step=None):
        super().__init__(reason)
        self.reason, self.step = reason, step


def need(condition, reason):
    if not condition:
        raise Illegal(reason)


def is_int(x):
    return isinstance(x, int) and not isinstance(x, bool)


def is_size(x):
    return is_int(x) and x >= 0


def is_time(x):
    return (is_int(x) or isinstance(x, Fraction)) and x >= 0


def parse(text):
    """JSON with exact numbers: 0.1 is one tenth."""

    def constant(word):
        raise Illegal("not a number: " + word)

    try:
        return json.loads(text, parse_float=Fraction, parse_constant=constant)
    except ValueError as error:
        raise Illegal("not JSON: %s" % error) from None


class Graph:
    """A checked graph.

    root[v]    the value whose storage v lies on (v itself unless v is a view)
    inputs     the values that no op produces, in id order; produced: all others
    reads[o], writes[o]   the values that op o reads and produces
    variants[o]           (time, workspace) for each variant of op o
    state                 the inputs that persist from step to step
    updates[o]            the state values that op o overwrites
    in_place[o]           (input, output) if op o may write the one over the other, else None
    """

    def __init__(self, data):
        need(isinstance(data, dict) and data.get("neap") == "graph", "graph: not a neap graph")
        need(is_int(data.get("version")) and data["version"] == 1, "graph: version is not 1")
        for field in ("values", "ops", "outputs"):
            need(isinstance(data.get(field), list), "graph: %s is not a list" % field)
        self.fixed = data.get("fixed_bytes", 0)
        need(is_size(self.fixed), "graph: fixed_bytes is not a size")
        self.read_values(data["values"])
        self.read_ops(data["ops"])
        self.outputs = data["outputs"]
        self.need_values(self.outputs, "graph: outputs")

    def need_values(self, ids, where):
        need(isinstance(ids, list), where + ": not a list")
        for v in ids:
            need(is_int(v) and 0 <= v < len(self.bytes), "%s: no value %r" % (where, v))

    def read_values(self, values):
        need(all(isinstance(v, dict) for v in values), "graph: a value is not an object")
        self.bytes = [v.get("bytes") for v in values]
        self.state = {v for v, value in enumerate(values) if value.get("state", False)}
        base = [v.get("view_of") for v in values]
        for v, size in enumerate(self.bytes):
            need(is_size(size), "value %d: bytes is not a size" % v)
            if base[v] is not None:
                self.need_values([base[v]], "value %d: view_of" % v)
                need(size == 0, "value %d: a view with bytes of its own" % v)
        self.root = []
        for v in range(len(values)):
            r, hops = v, 0
            while base[r] is not None:
                r, hops = base[r], hops + 1
                need(hops <= len(values), "value %d: views in a circle" % v)
            self.root.append(r)

    def read_ops(self, ops):
        self.reads, self.writes, self.variants, self.updates, self.in_place = [], [], [], [], []
        producer = {}
        for o, op in enumerate(ops):
            where = "op %d" % o
            need(isinstance(op, dict), where + ": not an object")
            self.need_values(op.get("inputs"), where + ": inputs")
            self.need_values(op.get("outputs"), where + ": outputs")
            for v in op["outputs"]:
                need(v not in producer, "%s: value %d is produced twice" % (where, v))
                producer[v] = o
            self.reads.append(op["inputs"])
            self.writes.append(op["outputs"])
            self.updates.append(op.get("updates", []))
            self.need_values(self.updates[o], where + ": updates")
            pair = op.get("in_place")
            if pair is not None:
                self.need_values(pair, where + ": in_place")
                need(len(pair) == 2, where + ": in_place is not a pair")
                need(pair[0] in op["inputs"] and pair[1] in op["outputs"], where + ": in_place: not its input and output")
            self.in_place.append(pair)
            own = self.read_variant(op, where)
            listed = op.get("variants") or []
            need(isinstance(listed, list), where + ": variants is not a list")
            variants = [self.read_variant(x, where + ": a variant") for x in listed]
            need(not variants or variants[0] == own, where + ": variant 0 is not the op's own time and workspace")
            self.variants.append(variants or [own])
        for o, reads in enumerate(self.reads):
            for v in reads:
                need(producer.get(v, -1) < o, "op %d: reads value %d before it is produced" % (o, v))
        self.produced = set(producer)
        self.check_updates()
        self.inputs = [v for v in range(len(self.bytes)) if v not in producer]

    def check_updates(self):
        need(not self.state & self.produced, "state that an op produces")
        updated = {}  # storage -> its updater
        for o, reads in enumerate(self.reads):
            for v in reads:
                need(self.updates[o] or self.root[v] not in updated, "op %d: reads value %d after its update" % (o, v))
            for v in self.updates[o]:
                need(v in self.state and v in reads, "op %d: updates %d, no state that it reads" % (o, v))
                need(self.root[v] not in updated, "op %d: updates value %d a second time" % (o, v))
                updated[self.root[v]] = o

    @staticmethod
    def read_variant(x, where):
        need(isinstance(x, dict), where + ": not an object")
        time, workspace = x.get("time"), x.get("workspace", 0)
        need(is_time(time), where + ": time is not a time")
        need(is_size(workspace), where + ": workspace is not a size")
        return time, workspace


class Link:
    """The way to the host: bytes per second each way, seconds per transfer, one engine or one each way."""

    def __init__(self, out, back=None, latency=0, duplex=False):
        self.bandwidth = {"offload": Fraction(out), "prefetch": Fraction(out if back is None else back)}
        self.latency = Fraction(latency)
        self.engine = {"offload": "out", "prefetch": "in" if duplex else "out"}


class Arena:
    """Checks a plan's offsets: the k-th allocation lies at offsets[k]."""

    def __init__(self, offsets, size, fixed):
        need(isinstance(offsets, list) and all(is_size(x) for x in offsets), "offsets: not a list of offsets")
        need(is_size(size), "offsets without arena_bytes")
        need(fixed <= size, "fixed_bytes pass arena_bytes")
        self.offsets, self.size = offsets, size
        self.taken = {"fixed bytes": (0, fixed)}  # what is live -> (begin, end)
        self.next = 0

    def allocate(self, what, size):
        need(self.next < len(self.offsets), "offsets: none for the %s" % what)
        begin = self.offsets[self.next]
        end = begin + size
        self.next += 1
        need(end <= self.size, "offsets: the %s passes arena_bytes" % what)
        for other, (b, e) in self.taken.items():
            need(max(begin, b) >= min(end, e), "offsets: the %s overlaps the %s" % (what, other))
        self.taken[what] = (begin, end)

    def release(self, what):
        del self.taken[what]

    def pass_on(self, what, to):
        self.taken[to] = self.taken.pop(what)


class Replay:
    """The state of the device while a plan runs."""

    def __init__(self, graph, link=None, budget=None, arena=None, host_at_start=()):
        self.graph, self.link, self.budget, self.arena = graph, link, budget, arena
        graph.need_values(list(host_at_start), "host_at_start")
        need(len(set(host_at_start)) == len(host_at_start), "host_at_start: a value twice")
        need(set(host_at_start) <= graph.state, "host_at_start: not a state value")
        self.host_at_start = set(host_at_start)
        self.updated = set()  # storages
        self.resident = set()
        self.live = {}  # storage -> how many resident values lie on it
        self.host = set(host_at_start)  # values that the host has as they are now
        self.peak = 0
        self.clock = Fraction(0)  # of the compute stream
        self.engine_free = {"out": Fraction(0), "in": Fraction(0)}
        self.copy_end = {}  # value -> end of its last copy, either way
        self.arrival = {}  # value -> end of its last prefetch
        self.runs = [0] * len(graph.reads)
        self.compute_time = Fraction(0)
        self.offloaded_bytes = 0
        for v in graph.inputs:
            if v not in self.host_at_start:
                self.make_resident(v)
        self.note_peak(0)

    def make_resident(self, v):
        root = self.graph.root[v]
        self.resident.add(v)
        if root not in self.live:
            self.live[root] = 0
            if self.arena:
                self.arena.allocate("storage of value %d" % root, self.graph.bytes[root])
        self.live[root] += 1

    def note_peak(self, workspace):
        now = self.graph.fixed + sum(self.graph.bytes[s] for s in self.live) + workspace
        self.peak = max(self.peak, now)
        need(self.budget is None or now <= self.budget, "%d bytes are past the budget" % now)

    def step(self, step):
        need(isinstance(step, list) and step and isinstance(step[0], str), "not a step: %r" % (step,))
        kind, args = step[0], step[1:]
        need(kind in ("compute", "free", "offload", "prefetch"), "no such step: %r" % kind)
        in_place = kind == "compute" and len(args) == 3 and args[2] == "in_place"
        if in_place:
            args = args[:2]
        need(len(args) == 1 or (kind == "compute" and len(args) == 2), "%s: wrong number of items" % kind)
        need(all(is_int(x) for x in args), "%s: not an id" % kind)
        if kind == "compute":
            self.compute(*args, in_place=in_place)
        else:
            need(0 <= args[0] < len(self.graph.bytes), "%s: no value %d" % (kind, args[0]))
            getattr(self, kind)(args[0])

    def check_in_place(self, op):
        pair = self.graph.in_place[op]
        need(pair is not None, "compute: op %d has no in_place" % op)
        i, o = pair
        need(i in self.graph.produced, "compute: in place over input %d" % i)
        need(self.live[self.graph.root[i]] == 1, "compute: another resident value on the storage of %d" % i)
        need(self.graph.root[o] not in self.live, "compute: the storage of %d is live" % o)
        lie = [v for v in self.graph.writes[op] if self.graph.root[v] == self.graph.root[i]]
        need(not lie, "compute: output %s lies on the storage written over" % lie)
        need(self.graph.root[o] == o, "compute: in place into a view, %d" % o)
        need(self.graph.bytes[self.graph.root[i]] == self.graph.bytes[o], "compute: in place over another size")

    def write_over(self, i, o):
        """The storage of i becomes that of o."""
        self.resident.remove(i)
        del self.live[self.graph.root[i]]
        self.resident.add(o)
        self.live[o] = 1
        if self.arena:
            self.arena.pass_on("storage of value %d" % self.graph.root[i], "storage of value %d" % o)

    def update(self, op):
        for v in self.graph.updates[op]:
            root = self.graph.root[v]
            self.updated.add(root)
            self.host = {h for h in self.host if self.graph.root[h] != root}

    def compute(self, op, variant=0, in_place=False):
        need(0 <= op < len(self.runs), "compute: no op %d" % op)
        need(0 <= variant < len(self.graph.variants[op]), "compute: op %d has no variant %d" % (op, variant))
        time, workspace = self.graph.variants[op][variant]
        for v in self.graph.reads[op]:
            need(v in self.resident, "compute: input %d of op %d is not resident" % (v, op))
        for v in self.graph.writes[op]:
            need(v not in self.resident, "compute: output %d of op %d is resident" % (v, op))
        need(not self.graph.updates[op] or self.runs[op] == 0, "compute: op %d updates state a second time" % op)
        for v in self.graph.reads[op]:
            late = self.graph.root[v] in self.updated and not self.graph.updates[op]
            need(not late, "compute: input %d of op %d was updated" % (v, op))
        if in_place:
            self.check_in_place(op)
        for v in self.graph.reads[op]:
            self.clock = max(self.clock, self.arrival.get(v, 0))
        for v in self.graph.updates[op] + ([self.graph.in_place[op][0]] if in_place else []):
            self.clock = max(self.clock, self.copy_end.get(v, 0))
        self.clock += time
        self.compute_time += time
        self.runs[op] += 1
        self.update(op)
        if in_place:
            self.write_over(*self.graph.in_place[op])
        for v in self.graph.writes[op]:
            if v not in self.resident:
                self.make_resident(v)
        if self.arena and workspace > 0:
            self.arena.allocate("workspace", workspace)
            self.arena.release("workspace")
        self.note_peak(workspace)

    def free(self, v):
        need(v in self.graph.produced or v in self.graph.state, "free: value %d is an input" % v)
        need(v in self.resident, "free: value %d is not resident" % v)
        need(v not in self.graph.state or v in self.host, "free: the host does not have state %d as it is" % v)
        self.clock = max(self.clock, self.copy_end.get(v, 0))
        self.resident.remove(v)
        root = self.graph.root[v]
        self.live[root] -= 1
        if self.live[root] == 0:
            del self.live[root]
            if self.arena:
                self.arena.release("storage of value %d" % root)

    def offload(self, v):
        need(v in self.graph.produced or v in self.graph.state, "offload: value %d is an input" % v)
        need(v in self.resident, "offload: value %d is not resident" % v)
        self.offloaded_bytes += self.transfer("offload", v)
        self.host.add(v)

    def prefetch(self, v):
        need(v not in self.resident, "prefetch: value %d is resident" % v)
        need(v in self.host, "prefetch: value %d is not on the host" % v)
        self.transfer("prefetch", v)
        self.arrival[v] = self.copy_end[v]
        self.make_resident(v)
        self.note_peak(0)

    def transfer(self, kind, v):
        """Books the copy on its engine; returns the bytes it moves."""
        need(self.link, "%s: no link was given" % kind)
        size = self.graph.bytes[self.graph.root[v]]
        engine = self.link.engine[kind]
        start = max(self.clock, self.engine_free[engine], self.copy_end.get(v, 0))
        end = start + self.link.latency + size / self.link.bandwidth[kind]
        self.engine_free[engine] = self.copy_end[v] = end
        return size

    def finish(self):
        for op, runs in enumerate(self.runs):
            need(runs > 0, "op %d is never computed" % op)
        for v in self.graph.outputs:
            need(v in self.resident, "output %d is not resident at the end" % v)
        for v in self.graph.state:
            if v in self.host_at_start:
                need(v in self.host, "the host does not have state %d as it is at the end" % v)
                need(v not in self.resident, "state %d is still on the device at the end" % v)
            else:
                need(v in self.resident, "state %d is not on the device at the end" % v)
        need(not self.arena or self.arena.next == len(self.arena.offsets), "offsets: more than allocations")


def replay(graph, plan, link=None, budget=None):
    """The verdict with exact times; raises Illegal."""
    need(isinstance(plan, dict) and plan.get("neap") == "plan", "plan: not a neap plan")
    need(is_int(plan.get("version")) and plan["version"] == 1, "plan: version is not 1")
    need(isinstance(plan.get("steps"), list), "plan: steps is not a list")
    arena = None
    if plan.get("offsets") is not None:
        arena = Arena(plan["offsets"], plan.get("arena_bytes"), graph.fixed)
    host_at_start = plan.get("host_at_start") or []
    need(isinstance(host_at_start, list), "host_at_start: not a list")
    device = Replay(graph, link, budget, arena, host_at_start)
    for i, step in enumerate(plan["steps"]):
        try:
            device.step(step)
        except Illegal as illegal:
            raise Illegal(illegal.reason, i) from None
    device.finish()
    return {
        "ok": True,
        "peak": device.peak,
        "time": max([device.clock, *device.engine_free.values()]),
        "compute_time": device.compute_time,
        "recomputed": sum(runs - 1 for runs in device.runs),
        "offloaded_bytes": device.offloaded_bytes,
    }


def judge(graph_text, plan_text, link=None, budget=None):
    """The verdict on two texts, as it is printed."""
    try:
        verdict = replay(Graph(parse(graph_text)), parse(plan_text), link, budget)
    except Illegal as illegal:
        return {"ok": False, "step": illegal.step, "reason": illegal.reason}
    return {**verdict, "time": float(verdict["time"]), "compute_time": float(verdict["compute_time"])}


def read_link(text, latency, duplex):
    out, _, back = text.partition(",")
    link = Link(out, back or None, latency, duplex)
    if min(link.bandwidth.values()) <= 0 or link.latency < 0:
        raise ValueError("a bandwidth must be above 0, a latency not below")
    return link


def main():
    parser = argparse.ArgumentParser(description="Replays a neap plan against its graph.")
    parser.add_argument("graph")
    parser.add_argument("plan")
    parser.add_argument("--link", metavar="OUT_BYTES_PER_S[,IN]")
    parser.add_argument("--latency", metavar="S", default="0")
    parser.add_argument("--duplex", action="store_true")
    parser.add_argument("--budget", type=int, metavar="B")
    args = parser.parse_args()
    try:
        link = read_link(args.link, args.latency, args.duplex) if args.link else None
    except (ValueError, ZeroDivisionError) as error:
        parser.error("--link, --latency: %s" % error)
    with open(args.graph, encoding="utf-8") as graph, open(args.plan, encoding="utf-8") as plan:
        verdict = judge(graph.read(), plan.read(), link, args.budget)
    print(json.dumps(verdict))
    sys.exit(0 if verdict["ok"] else 1)


if __name__ == "__main__":
    main()
