#!/usr/bin/env python3
"""Small random graphs and random plans for them, from a seed.

    random_graph.py SEED COUNT OUTDIR      writes OUTDIR/NNN.graph.json and OUTDIR/NNN.plan.json

Every graph is valid. Plans with an even number are legal ("method": "random-valid"); those with an odd number
are legal plans with one random change ("random-mutated"), which makes most of them illegal. Plans use
transfers about half the time, so replay them with a link. The same seed and number always give the same files,
whatever COUNT is. Every third plan or so carries offsets.

    random_graph(rng)           a graph: 2 to 9 ops, of both passes; with whole_step=True at times state and updates
    random_training(rng)        a graph: 3 layers, a loss, the layers backward; sizes and times of a few units. Two of three
                                have plans that trade time for memory; of random_graph's, one of four
    random_plan(rng, graph)     a legal plan for it; with in_place=True some ops run in place
    mutated(rng, plan, graph)   the plan with one step, or one offset, dropped, swapped, duplicated or altered
"""
import copy
import json
import os
import random
import sys

TIMES = [0, 0.001, 0.001, 0.002, 0.003, 0.0105, 1e-06, 0.25, 1]
SIZES = [0, 1, 4, 64, 100, 100, 128, 200, 256, 1000]


def random_graph(rng, name="random", max_ops=9, whole_step=False):
    count = rng.randint(2, max_ops)
    forward = rng.randint(1, count - 1)
    values, ops = [], []
    roots = []  # value -> the value whose storage it lies on
    last = []  # the outputs of the op before: read often, so that chains come about

    def add_value(kind, size=None, view_of=None):
        v = len(values)
        values.append({"name": "v%d" % v, "bytes": rng.choice(SIZES) if size is None else size, "kind": kind})
        if view_of is not None:
            values[v].update(bytes=0, view_of=view_of)
        roots.append(v if view_of is None else roots[view_of])
        return v

    for i in range(rng.randint(1, 3)):
        add_value("input", view_of=rng.randrange(i) if i and rng.random() < 0.15 else None)
    for o in range(count):
        kind = "activation" if o < forward else "gradient"
        if rng.random() < 0.1:  # an input that appears late: inputs need not have the lowest ids
            add_value("input")
        reads = rng.sample(range(len(values)), rng.randint(0, min(3, len(values))))
        reads = sorted(set(reads) | set(rng.sample(last, min(len(last), rng.randint(0, 2)))))
        op = {"name": "op%d" % o, "type": "random", "pass": "forward" if o < forward else "backward", "inputs": reads, "outputs": []}
        for _ in range(rng.choice([1, 1, 1, 1, 2, 2, 3, 0] if o else [1, 2])):
            near = reads + op["outputs"]  # a view lies on something that its op reads or makes
            base = rng.choice(near) if near and rng.random() < 0.25 else None
            op["outputs"].append(add_value(kind, view_of=base))
        if rng.random() < 0.5:
            rng.shuffle(op["outputs"])
        add_costs(rng, op)
        add_marks(rng, op, values)
        last = op["outputs"] or last
        ops.append(op)
    if whole_step and rng.random() < 0.5:
        add_updates(rng, values, ops)
    produced = [v for op in ops for v in op["outputs"]]
    outputs = rng.sample(produced, rng.randint(0, min(3, len(produced))))
    if rng.random() < 0.1:
        outputs.append(0)  # an input may be an output
    return {
        "neap": "graph",
        "version": 1,
        "name": name,
        "fixed_bytes": rng.choice([0, 0, 1, 96, 4096]),
        "values": values,
        "ops": ops,
        "outputs": sorted(set(outputs) | set(last[:1])),
    }


def random_training(rng, name="training", layers=3):
    values, ops = [], []

    def add_value(kind, size=None, view_of=None):
        values.append({"name": "v%d" % len(values), "bytes": rng.randint(1, 8) if size is None else size, "kind": kind})
        if view_of is not None:
            values[-1]["view_of"] = view_of
        return len(values) - 1

    def add_op(kind, reads, outputs):
        workspace = [rng.choice([0, 0, 0, 2, 5]) for _ in range(2)]
        op = {"name": "op%d" % len(ops), "type": "layer", "pass": kind, "inputs": sorted(set(reads)), "outputs": outputs}
        ms = rng.randint(1, 4)
        op.update(time=ms / 1000, workspace=workspace[0])
        if rng.random() < 0.2:
            op["variants"] = [{"time": t / 1000, "workspace": w} for t, w in ((ms, workspace[0]), (ms + 1, workspace[1] // 2))]
        ops.append(op)

    made = [add_value("input", rng.randint(0, 2))]  # what each layer hands on, the data first
    saved = []  # what each layer's backward op reads in addition to the gradient
    for _ in range(layers):
        reads = [made[-1]] + rng.sample(made, rng.random() < 0.3)  # at times a connection from further up
        size, base = (0, made[-1]) if rng.random() < 0.15 else (None, None)
        outputs = [add_value("activation", size, base)]
        made.append(outputs[0])
        if rng.random() < 0.25:
            outputs.append(add_value("activation"))  # a mask, say
        saved.append(rng.sample(reads[:1] + outputs, rng.randint(1, 2)))
        add_op("forward", reads, outputs)
    gradient = add_value("gradient")
    add_op("backward", made[-1:], [gradient])
    results = []
    for needs in reversed(saved):
        outputs = [add_value("gradient")]
        if rng.random() < 0.3:
            results.append(add_value("gradient", rng.randint(0, 2)))  # of the weights
            outputs.append(results[-1])
        add_op("backward", [gradient, *needs], outputs)
        gradient = outputs[0]
    fixed = rng.choice([0, 0, 10])
    graph = {"neap": "graph", "version": 1, "name": name, "fixed_bytes": fixed, "values": values, "ops": ops}
    return {**graph, "outputs": sorted({gradient, *results})}


def add_costs(rng, op):
    def cost():
        return {"time": rng.choice(TIMES), "workspace": rng.choice([0, 0, 0, 16, 64, 300])}

    op.update(cost())
    if rng.random() < 0.35:
        own = {"time": op["time"], "workspace": op["workspace"]}
        op["variants"] = [own] + [cost() for _ in range(rng.randint(0, 2))]


def add_marks(rng, op, values):
    if rng.random() < 0.15:
        op["random"] = True
    whole = [v for v in op["outputs"] if "view_of" not in values[v]]
    takes = [v for v in op["inputs"] if "view_of" not in values[v] and values[v]["kind"] != "input"]
    if whole and takes and rng.random() < 0.3:
        old, new = rng.choice(takes), rng.choice(whole)
        values[new]["bytes"] = values[old]["bytes"]
        op["in_place"] = [old, new]


def add_updates(rng, values, ops):
    """Some inputs become state, with or without moments, and ops at the end update some of them."""
    produced = {v for op in ops for v in op["outputs"]}
    for v in [v for v in range(len(values)) if v not in produced]:
        if rng.random() < 0.3:
            continue
        values[v]["state"] = True
        on_it = [u for u in range(len(values)) if values[u].get("view_of") == v or values[v].get("view_of") is not None]
        if rng.random() < 0.3 or any(u not in produced for u in on_it) or "view_of" in values[v]:
            continue  # parameters of other layers, or frozen ones
        updates = [v]
        if rng.random() < 0.5:
            values.append({"name": "m%d" % v, "bytes": values[v]["bytes"], "kind": "state", "state": True})
            updates.append(len(values) - 1)
        gradient = rng.sample(sorted(produced), min(len(produced), 1))
        op = {"name": "update%d" % v, "type": "update", "pass": "backward", "inputs": updates + gradient, "outputs": [], "updates": updates}
        add_costs(rng, op)
        ops.append(op)


class Stuck(Exception):
    """What is needed again reads something that was updated."""


class Writer:
    """Writes a legal plan: knows what is resident and what is on the host, and does only what is legal."""

    def __init__(self, rng, graph, in_place=False, calm=False):
        self.rng, self.calm, self.writes_over = rng, calm, in_place
        self.ops, self.values = graph["ops"], graph["values"]
        self.producer = {v: o for o, op in enumerate(self.ops) for v in op["outputs"]}
        self.state = {v for v, value in enumerate(self.values) if value.get("state")}
        self.transfers = rng.random() < 0.5
        may_leave = sorted(self.state - set(graph["outputs"])) if self.transfers else []
        self.host_at_start = {v for v in may_leave if rng.random() < 0.4}
        self.resident = {v for v in range(len(self.values)) if v not in self.producer} - self.host_at_start
        self.host, self.done, self.steps, self.updated = set(self.host_at_start), set(), [], set()

    def root(self, v):
        return self.root(self.values[v]["view_of"]) if "view_of" in self.values[v] else v

    def may_run(self, o):
        """Whether no update stands in the way of the op itself."""
        if self.ops[o].get("updates"):
            return o not in self.done
        return all(self.root(v) not in self.updated for v in self.ops[o]["inputs"])

    def in_place(self, o):
        """Whether the op can run in place now."""
        pair = self.ops[o].get("in_place")
        if not pair or pair[0] not in self.producer or "view_of" in self.values[pair[1]]:
            return False
        root = self.root(pair[0])
        alone = not any(self.root(v) == root for v in self.resident - {pair[0]})
        dead = not any(self.root(v) == pair[1] for v in self.resident)
        apart = not any(self.root(v) == root for v in self.ops[o]["outputs"])
        return alone and dead and apart and self.values[root]["bytes"] == self.values[pair[1]]["bytes"]

    def free(self, v):
        self.resident.remove(v)
        self.steps.append(["free", v])

    def offload(self, v):
        self.host.add(v)
        self.steps.append(["offload", v])

    def prefetch(self, v):
        self.resident.add(v)
        self.steps.append(["prefetch", v])

    def compute(self, o):
        """Runs the op; brings its inputs back and frees its outputs first where needed."""
        if not self.may_run(o) or len(self.steps) > 200:
            raise Stuck
        while not set(self.ops[o]["inputs"]) <= self.resident:  # what is written over on the way comes again
            for v in self.ops[o]["inputs"]:
                self.bring(v)
        for v in self.ops[o]["outputs"]:
            if v in self.resident:
                self.free(v)
        step = ["compute", o]
        variants = len(self.ops[o].get("variants", [0]))
        if self.rng.random() < 0.5:
            step.append(self.rng.randrange(variants))
        if self.writes_over and self.in_place(o) and self.rng.random() < 0.5:
            step[2:] = [self.rng.randrange(variants), "in_place"]
            self.resident.remove(self.ops[o]["in_place"][0])
        self.steps.append(step)
        self.resident.update(self.ops[o]["outputs"])
        self.done.add(o)
        for v in self.ops[o].get("updates", []):
            self.updated.add(self.root(v))
            self.host = {h for h in self.host if self.root(h) != self.root(v)}

    def bring(self, v):
        """Makes v resident. What it frees on the way it also brings back."""
        if v in self.resident:
            return
        can_run = v in self.producer and self.may_run(self.producer[v])
        if v in self.host and (not can_run or self.rng.random() < 0.6):
            self.prefetch(v)
        elif can_run:
            self.compute(self.producer[v])
        else:
            raise Stuck

    def wander(self):
        """One random legal move, if there is one of the kind drawn."""
        here = sorted(self.resident & (set(self.producer) | self.state))
        loose = [v for v in here if v not in self.state or v in self.host]
        again = [o for o in sorted(self.done) if self.may_run(o)]
        away = sorted(self.host - self.resident)
        kind = self.rng.choice(["free", "free", "offload", "offload+free", "prefetch", "compute"])
        if kind == "compute" and again and self.rng.random() < 0.5:
            self.compute(self.rng.choice(again))
        elif kind == "prefetch" and away:
            self.prefetch(self.rng.choice(away))
        elif kind == "free" and loose:
            self.free(self.rng.choice(loose))
        elif kind.startswith("offload") and here and self.transfers:
            v = self.rng.choice(here)
            self.offload(v)
            if kind == "offload+free":
                self.free(v)

    def ready(self):
        """The ops not yet run whose inputs have been made at least once."""
        known = {v for o in self.done for v in self.ops[o]["outputs"]} | (self.resident - set(self.producer))
        return [o for o in range(len(self.ops)) if o not in self.done and set(self.ops[o]["inputs"]) <= known | self.state]

    def settle_state(self):
        """State goes where it began."""
        for v in sorted(self.state):
            if v in self.host_at_start:
                if v not in self.host:
                    self.offload(v)
                if v in self.resident:
                    self.free(v)
            else:
                self.bring(v)


def random_plan(rng, graph, in_place=False):
    for repeat in (rng.choice([0, 0.3, 0.5, 0.7]), 0.4, 0.2, 0.1):
        try:
            return write_plan(rng, graph, Writer(rng, graph, in_place), repeat)
        except (Stuck, RecursionError):
            pass
    return write_plan(rng, graph, Writer(rng, graph, calm=True), 0)


def write_plan(rng, graph, writer, repeat):
    while len(writer.done) < len(graph["ops"]):
        while rng.random() < repeat:
            writer.wander()
        ready = writer.ready()
        writer.compute(rng.choice(ready) if rng.random() < 0.3 and not writer.calm else ready[0])
    while rng.random() < repeat:
        writer.wander()
    while not set(graph["outputs"]) - writer.state <= writer.resident:
        for v in set(graph["outputs"]) - writer.state:
            writer.bring(v)
    writer.settle_state()
    for v in sorted(writer.resident & set(writer.producer) - set(graph["outputs"])):
        if rng.random() < 0.7:
            writer.free(v)
    workspace = [x["workspace"] for op in graph["ops"] for x in [op] + op.get("variants", [])]
    plan = {
        "neap": "plan",
        "version": 1,
        "graph": graph["name"],
        "method": "random-valid",
        "budget_bytes": graph["fixed_bytes"] + sum(v["bytes"] for v in graph["values"]) + max(workspace),
        "steps": writer.steps,
    }
    if writer.host_at_start:
        plan["host_at_start"] = sorted(writer.host_at_start)
    if rng.random() < 0.35:
        add_offsets(rng, graph, plan)
    return plan


def add_offsets(rng, graph, plan):
    """Places each storage and workspace at the lowest address free when it comes, sometimes a little higher."""
    values = graph["values"]
    placed = {}  # storage -> (begin, end), while live
    on_it = {}  # storage -> the resident values on it
    offsets = []

    def root(v):
        return root(values[v]["view_of"]) if "view_of" in values[v] else v

    def allocate(size):
        begin = graph["fixed_bytes"] + rng.choice([0, 0, 0, 8])
        for b, e in sorted(placed.values()):
            if max(begin, b) < min(begin + size, e):
                begin = e
        offsets.append(begin)
        tops.append(begin + size)
        return begin, begin + size

    def arrive(v):
        s = root(v)
        if not on_it.setdefault(s, set()):
            placed[s] = allocate(values[s]["bytes"])
        on_it[s].add(v)

    tops = [graph["fixed_bytes"]]
    produced = {v for op in graph["ops"] for v in op["outputs"]}
    for v in range(len(values)):
        if v not in produced and v not in plan.get("host_at_start", []):
            arrive(v)
    for kind, x, *variant in plan["steps"]:
        if kind == "compute":
            op = graph["ops"][x]
            if "in_place" in variant:
                old, new = op["in_place"]
                placed[new], on_it[new], on_it[root(old)] = placed.pop(root(old)), {new}, set()
            for v in op["outputs"]:
                arrive(v)
            workspace = op.get("variants", [op])[variant[0] if variant else 0]["workspace"]
            if workspace:
                allocate(workspace)
        elif kind == "prefetch":
            arrive(x)
        elif kind == "free":
            on_it[root(x)].remove(x)
            if not on_it[root(x)]:
                del placed[root(x)]
    plan["offsets"] = offsets
    plan["arena_bytes"] = max(tops) + rng.choice([0, 0, 32])


def mutated(rng, plan, graph):
    plan = copy.deepcopy(plan)
    plan["method"] = "random-mutated"
    if plan.get("offsets") and rng.random() < 0.6:
        mutate_offsets(rng, plan)
        return plan
    plan.pop("offsets", None)  # they would not fit the new steps
    plan.pop("arena_bytes", None)
    steps = plan["steps"]
    i, j = rng.randrange(len(steps)), rng.randrange(len(steps))
    how = rng.choice(["drop", "swap", "duplicate", "alter", "alter", "host"])
    if how == "host":
        return {**plan, "host_at_start": sorted(set(plan.get("host_at_start", [])) ^ {rng.randrange(len(graph["values"]))})}
    if how == "drop":
        del steps[i]
    elif how == "swap":
        steps[i], steps[j] = steps[j], steps[i]
    elif how == "duplicate":
        steps.insert(j, list(steps[i]))
    else:
        alter(rng, steps[i], graph)
    return plan


def mutate_offsets(rng, plan):
    i = rng.randrange(len(plan["offsets"]))
    how = rng.choice(["move", "drop", "add", "shrink"])
    if how == "move":
        plan["offsets"][i] = max(0, plan["offsets"][i] + rng.choice([-100, -1, 1, 4, 64, 5000]))
    elif how == "drop":
        del plan["offsets"][i]
    elif how == "add":
        plan["offsets"].insert(i, plan["offsets"][i])
    else:
        plan["arena_bytes"] = max(0, plan["arena_bytes"] - rng.choice([1, 33]))


def alter(rng, step, graph):
    """Another kind, another id (at times one past the last), or another variant."""
    what = rng.choice(["kind", "id", "id", "variant"])
    if what == "variant" and step[0] == "compute":
        step[2:] = [0, "in_place"] if rng.random() < 0.5 else [rng.randint(0, 3)]
    elif what == "kind":
        step[0] = rng.choice(["compute", "free", "offload", "prefetch"])
        del step[2:]
    else:
        step[1] = rng.randint(0, len(graph["ops" if step[0] == "compute" else "values"]))
        del step[2:]


def case(seed, number):
    """The graph and the plan of one number."""
    rng = random.Random("%s/%d" % (seed, number))
    graph = random_graph(rng, "random-%s-%03d" % (seed, number), whole_step=number % 4 > 1)
    plan = random_plan(rng, graph, in_place=number % 4 > 1)
    return graph, mutated(rng, plan, graph) if number % 2 else plan


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: random_graph.py SEED COUNT OUTDIR")
    seed, count, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    os.makedirs(folder, exist_ok=True)
    for number in range(count):
        for kind, data in zip(("graph", "plan"), case(seed, number)):
            with open(os.path.join(folder, "%03d.%s.json" % (number, kind)), "w", encoding="utf-8") as file:
                json.dump(data, file)
                file.write("\n")


if __name__ == "__main__":
    main()
