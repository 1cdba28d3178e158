#!/usr/bin/env python3
"""The exhaustive optimum of tiny graphs, over all plans without transfers.

    least.py GRAPH BUDGET      prints {"least_peak": 4600, "least_time": 0.003}, null where nothing fits

    least_time(graph, budget)  the least total time of a plan within the budget: a Fraction, or None
    least_peak(graph)          the least peak of any plan
    least_plan(graph, budget)  (time, steps) of one plan of the least time, or None

`graph` is a judge.Graph, or the object that json reads. Dijkstra's algorithm over the states (resident
values, ops computed at least once), both as bit sets; the moves are every legal compute and every free. Two
facts keep it small, and neither changes the answer:

- variants of an op lead to the same state, so only the fastest that fits counts;
- every op runs at least once, so its fastest time is always paid: the search orders states by the time
  *beyond* that, which no move makes less.
"""
import heapq
import json
import sys
from fractions import Fraction
from math import lcm

import judge


def bits(ids):
    return sum(1 << i for i in set(ids))


class Space:
    """The states of a graph and the moves between them."""

    def __init__(self, graph):
        g = self.graph = as_graph(graph)
        inputs = bits(g.inputs)
        self.ops = range(len(g.reads))
        self.reads = [bits(x) & ~inputs for x in g.reads]  # inputs are resident throughout: leave them out
        self.writes = [bits(x) for x in g.writes]
        self.outputs = bits(g.outputs) & ~inputs
        self.freeable = [v for v in range(len(g.bytes)) if not inputs >> v & 1]
        always = {g.root[v] for v in g.inputs}
        self.base = g.fixed + sum(g.bytes[s] for s in always)
        storages = set(g.root) - always
        self.storages = [(bits(v for v in self.freeable if g.root[v] == s), g.bytes[s]) for s in storages]
        self.all_ops = bits(self.ops)

    def memory(self, resident):
        return self.base + sum(size for on_it, size in self.storages if resident & on_it)

    def is_goal(self, resident, done):
        return done == self.all_ops and self.outputs & ~resident == 0

    def legal_ops(self, resident):
        return [o for o in self.ops if self.reads[o] & ~resident == 0 and self.writes[o] & resident == 0]

    def freed(self, resident):
        """(value, state without it) for each value that can be freed."""
        return [(v, resident & ~(1 << v)) for v in self.freeable if resident >> v & 1]


def as_graph(graph):
    return graph if isinstance(graph, judge.Graph) else judge.Graph(exact(graph))


def exact(x):
    """Floats as the fractions of their shortest decimal text, as judge.parse reads them."""
    if isinstance(x, dict):
        return {key: exact(item) for key, item in x.items()}
    if isinstance(x, list):
        return [exact(item) for item in x]
    return Fraction(repr(x)) if isinstance(x, float) else x


def search(space, moves):
    """Dijkstra from the empty device. moves(cost, resident, done) yields (cost, resident, done, step), no cost
    below the one it got. Returns the goal's cost and the steps to it, or None."""
    start = (0, 0)
    best = {start: (0, None, None)}  # state -> cost, state before, step
    heap = [(0, 0, start)]  # of equal costs, the state with the most ops done comes first
    settled = set()
    while heap:
        cost, _, state = heapq.heappop(heap)
        if state in settled:
            continue
        settled.add(state)
        if space.is_goal(*state):
            steps = []
            while best[state][1] is not None:
                _, state, step = best[state]
                steps.append(step)
            return cost, steps[::-1]
        for new_cost, resident, done, step in moves(cost, *state):
            after = (resident, done)
            if after not in best or new_cost < best[after][0]:
                best[after] = (new_cost, state, step)
                heapq.heappush(heap, (new_cost, -done.bit_count(), after))
    return None


def least_plan(graph, budget):
    space = Space(graph)
    if space.base > budget:
        return None
    variants = space.graph.variants
    unit = lcm(*(Fraction(time).denominator for op in variants for time, _ in op))  # whole numbers are faster
    times = [[(int(time * unit), workspace) for time, workspace in op] for op in variants]
    fastest = [min(time for time, _ in op) for op in times]

    def moves(cost, resident, done):
        for o in space.legal_ops(resident):
            after = resident | space.writes[o]
            room = budget - space.memory(after)
            fitting = [(time, k) for k, (time, workspace) in enumerate(times[o]) if workspace <= room]
            if fitting:
                time, k = min(fitting)
                first = not done >> o & 1
                yield cost + time - (fastest[o] if first else 0), after, done | 1 << o, ["compute", o, k]
        for v, after in space.freed(resident):
            yield cost, after, done, ["free", v]

    found = search(space, moves)
    if found is None:
        return None
    extra, steps = found
    return Fraction(extra + sum(fastest), unit), steps


def least_time(graph, budget):
    found = least_plan(graph, budget)
    return None if found is None else found[0]


def least_peak(graph):
    """The same search, where the cost of a path is the most memory on it (beyond what is always there)."""
    space = Space(graph)
    workspace = [min(w for _, w in op) for op in space.graph.variants]

    def moves(cost, resident, done):
        for o in space.legal_ops(resident):
            after = resident | space.writes[o]
            yield max(cost, space.memory(after) - space.base + workspace[o]), after, done | 1 << o, None
        for _, after in space.freed(resident):
            yield cost, after, done, None

    return space.base + search(space, moves)[0]


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: least.py GRAPH BUDGET")
    with open(sys.argv[1], encoding="utf-8") as file:
        graph = judge.Graph(judge.parse(file.read()))
    time = least_time(graph, int(sys.argv[2]))
    print(json.dumps({"least_peak": least_peak(graph), "least_time": None if time is None else float(time)}))


if __name__ == "__main__":
    main()
