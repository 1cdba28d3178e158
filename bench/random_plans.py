"""Random plans for a graph file, in the form of docs/formats.md: values are freed, moved to the host and computed again
wherever that is legal, as tests/support/random_plan.c does it. An op is computed by the same variant each time, so that its
bits are those of plain training.
"""

import random


class Writer:
    """Writes one plan. `transfers`: values may move to the host, and some state begins there."""

    def __init__(self, graph, seed, transfers):
        self.graph, self.random, self.transfers, self.steps = graph, random.Random(seed), transfers, []
        self.values, self.ops = graph["values"], graph["ops"]
        self.producer = {v: o for o, op in enumerate(self.ops) for v in op["outputs"]}
        self.variant = [self.random.randrange(len(op.get("variants", [0]))) for op in self.ops]
        self.on_host, self.computed, self.updating = set(), set(), False
        inputs = [v for v in range(len(self.values)) if v not in self.producer]
        self.from_host = {v for v in inputs if transfers and self.is_state(v) and self.chance(50)}
        self.resident = set(inputs) - self.from_host
        self.on_host |= self.from_host

    def chance(self, percent):
        return self.random.randrange(100) < percent

    def is_state(self, value):
        return self.values[value].get("state", False)

    def step(self, kind, value):
        self.steps.append([kind, value])
        if kind == "free":
            self.resident.discard(value)
        elif kind == "offload":
            self.on_host.add(value)
        else:
            self.resident.add(value)

    def compute(self, first):
        """Computes an op, after whatever it takes to bring its inputs back; without recursion, for chains are long."""
        stack = [first]
        while stack:
            op = self.ops[stack[-1]]
            missing = next((v for v in op["inputs"] if v not in self.resident), None)
            if missing is None:
                self.run(stack.pop())
            elif missing in self.on_host and (self.is_state(missing) or self.updating or self.chance(60)):
                self.step("prefetch", missing)
            else:
                stack.append(self.producer[missing])

    def run(self, o):
        op = self.ops[o]
        for v in op["outputs"]:
            if v in self.resident:
                self.step("free", v)
        self.steps.append(["compute", o, self.variant[o]])
        self.resident.update(op["outputs"])
        self.on_host -= set(op.get("updates", ()))
        self.computed.add(o)

    def make_outputs(self):
        for v in self.graph["outputs"]:
            if v not in self.resident and self.updating:
                self.step("prefetch", v)
            elif v not in self.resident:
                self.compute(self.producer[v])

    def begin_updates(self, first):
        """Before the first update: nothing can be computed again after it, so all that later ops need is made."""
        needed = [v for op in self.ops[first:] for v in op["inputs"] if self.producer.get(v, first) < first]
        for v in needed:
            if v not in self.resident:
                self.compute(self.producer[v])
        self.make_outputs()
        self.updating = True

    def wander(self):
        v = self.random.randrange(len(self.values))
        if v not in self.producer and not self.is_state(v):
            return
        keeps = self.is_state(v) or self.updating
        if v in self.resident and keeps and v not in self.on_host:
            if self.transfers:
                self.step("offload", v)
        elif v not in self.resident and v in self.on_host:
            self.step("prefetch", v)
        elif v not in self.resident and not self.updating and self.producer[v] in self.computed and self.chance(30):
            self.compute(self.producer[v])
        elif v in self.resident and self.transfers and self.chance(50):
            self.step("offload", v)
        elif v in self.resident:
            self.step("free", v)

    def settle(self):
        """State goes back to where it was."""
        for v in range(len(self.values)):
            if not self.is_state(v):
                continue
            if v in self.from_host and v not in self.on_host:
                self.step("offload", v)
            if v in self.from_host and v in self.resident:
                self.step("free", v)
            if v not in self.from_host and v not in self.resident:
                self.step("prefetch", v)


def random_plan(graph, seed, transfers=False, restless=40):
    """A plan as a dictionary. `restless`: percent of the choices that go to something else than the next op."""
    w = Writer(graph, seed, transfers)
    following = 0
    while following < len(w.ops):
        if w.chance(restless):
            w.wander()
            continue
        if not w.updating and w.ops[following].get("updates"):
            w.begin_updates(following)
        w.compute(following)
        following += 1
    w.make_outputs()
    w.settle()
    plan = {"neap": "plan", "version": 1, "graph": graph["name"], "method": "random", "steps": w.steps}
    if w.from_host:
        plan["host_at_start"] = sorted(w.from_host)
    return plan
