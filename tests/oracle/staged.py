#!/usr/bin/env python3
"""The exhaustive optimum of tiny graphs over staged plans: Checkmate's problem, without its linear program.

    staged.py GRAPH BUDGET      prints, for each form, {"least_time": 26, "peak": 4, "steps": [...]}, null where nothing fits
    staged.py GRAPH             prints, for each form, the trade-off curve [[peak, time], ...]

    optimum(graph, form, budget)   (time, peak, steps) of a plan of the least time within the budget and, of those, of the
                                   least peak; None where nothing fits. Time is a Fraction of seconds
    curve(graph, form)             all (peak, time) that no plan of the form betters in one without loss in the other, by
                                   ascending peak: the least time within a budget changes exactly at these peaks

`graph` is a judge.Graph, or the object that json reads. A plan of n ops falls into stages; a stage runs some ops, each at
most once, in ascending order. Values are freed whenever it helps. An op runs by one variant throughout the plan. The
forms (Jain et al., Checkmate: sections 4.2 and 4.6) differ in what a stage may run:

    partitioned     n stages; stage t ends with op t, its first run, and may run any of the ops before t again
    unpartitioned   n stages; each may run any op, and every op runs in one of them
    any             as many stages as help: a plan of any order, for comparison

The search goes through the slots (stage, op) in order and holds, for each set of values that can be resident there, the
least (time, peak) to come to it within the budget: pairs compare by time first, and stay in order whatever is added to
the time and taken into the peak, so that the best way to a state is part of a best way through it. At a slot the op is
left out, or runs where its inputs are resident and its outputs are not. Frees cost nothing: whatever a set of values
can be reached with, its subsets can be too.

Two facts keep it small, and neither changes the answer:

- a value that no op reads and that is no output of the graph may as well be freed when its op has run;
- an op has run if an output of it is resident, or if an op that reads one has run. So only an op all of whose outputs are
  such values needs a mark in the state to say that it has run.
"""
import json
import sys
from fractions import Fraction
from itertools import count, product, repeat
from math import inf, lcm

import judge
import least


def stages(form, ops):
    """The stages of a form: each a list of (op, whether it must run)."""
    free_stage = [(o, False) for o in range(ops)]
    return {
        "partitioned": [[(o, o == t) for o in range(t + 1)] for t in range(ops)],
        "unpartitioned": [free_stage] * ops,
        "any": repeat(free_stage),
    }[form]


FORMS = ("partitioned", "unpartitioned", "any")


class Problem(least.Space):
    """A graph, its values and ops as bit sets. A state has a bit for each resident value and for each marked op that has run.

    gives[o]   the bits that a run of op o leaves set
    goal       the bits of the end
    """

    def __init__(self, graph):
        super().__init__(graph)
        self.wanted = self.outputs
        for reads in self.reads:
            self.wanted |= reads
        mark = {o: 1 << len(self.graph.bytes) + o for o in self.ops if self.writes[o] & self.wanted == 0}
        self.gives = [mark.get(o, self.writes[o] & self.wanted) for o in self.ops]
        self.goal = self.outputs | sum(mark.values())
        self.unit = lcm(*(Fraction(time).denominator for op in self.graph.variants for time, _ in op))  # whole numbers are faster
        self.known = {}  # state -> bytes

    def bytes_live(self, state):
        if state not in self.known:
            self.known[state] = self.memory(state)
        return self.known[state]

    def assignments(self):
        """Every choice of a variant (time, workspace, number) for each op, the fastest first. One that is as slow as
        another of its op, and as large, is left out."""
        choices = []
        for op in self.graph.variants:
            good = []
            for time, workspace, k in sorted((int(time * self.unit), workspace, k) for k, (time, workspace) in enumerate(op)):
                if not good or workspace < good[-1][1]:
                    good.append((time, workspace, k))
            choices.append(good)
        return sorted(product(*choices), key=least_total)


def least_total(assignment):
    """The time of running each op once."""
    return sum(time for time, _, _ in assignment)


def search(problem, form, assignment, budget):
    """The best (time, peak, ..., trail) of a plan by the given variants within the budget, or None.

    A trail is None or (op, the state it ran in, the trail before). The number before it makes the older of equal labels
    the lesser one."""
    numbers = count()
    best = {0: (0, problem.base, next(numbers), None)}  # state -> label
    for stage in stages(form, len(problem.ops)):
        changed = False
        for op, must in stage:
            time, workspace, _ = assignment[op]
            reads, writes, gives = problem.reads[op], problem.writes[op], problem.gives[op]
            made = []
            for state, (spent, peak, _, trail) in best.items():
                if reads & ~state == 0 and writes & state == 0:
                    memory = problem.bytes_live(state | writes) + workspace
                    if memory <= budget:
                        made.append((state | gives, (spent + time, max(peak, memory), next(numbers), (op, state, trail))))
            if must:
                best = {}
            for state, label in made:
                changed |= enter(best, state, label, problem.wanted)
        if not changed:
            break  # nor will a later stage of the same ops; or an op that must run cannot
    return min((label for state, label in best.items() if problem.goal & ~state == 0), default=None)


def enter(best, state, label, freeable):
    """Gives the label to the state and to all that frees lead to, where it betters what is there."""
    todo = [state]
    changed = False
    while todo:
        state = todo.pop()
        if state in best and best[state] <= label:
            continue  # and so are those of its subsets
        best[state] = label
        changed = True
        left = state & freeable
        while left:
            value = left & -left
            todo.append(state ^ value)
            left ^= value
    return changed


def steps_of(problem, assignment, trail):
    """The steps of a trail: before each op, what does not stay for it is freed."""
    runs = []
    while trail:
        op, state, trail = trail
        runs.append((op, state))
    steps, resident = [], 0
    for op, state in reversed(runs):
        steps += [["free", v] for v, _ in problem.freed(resident & ~state)]
        steps.append(["compute", op, assignment[op][2]])
        resident = resident & state | problem.writes[op]
    return steps


def solve(problem, form, budget):
    """optimum() with the time in units of the problem."""
    best = None
    if problem.base > budget:
        return None
    for assignment in problem.assignments():
        if best and least_total(assignment) > best[0]:
            break
        found = search(problem, form, assignment, budget)
        if found and (best is None or found[:2] < best[:2]):
            best = (*found[:2], assignment, found[3])
    return best


def optimum(graph, form, budget):
    problem = Problem(graph)
    found = solve(problem, form, budget)
    if found is None:
        return None
    time, peak, assignment, trail = found
    return Fraction(time, problem.unit), peak, steps_of(problem, assignment, trail)


def curve(graph, form):
    """From the loosest budget down: the next point lies below the peak of the last."""
    problem = Problem(graph)
    points = []
    found = solve(problem, form, inf)
    while found:
        time, peak = found[:2]
        points.append((peak, Fraction(time, problem.unit)))
        found = solve(problem, form, peak - 1)
    return points[::-1]


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: staged.py GRAPH [BUDGET]")
    with open(sys.argv[1], encoding="utf-8") as file:
        graph = judge.Graph(judge.parse(file.read()))
    answers = {}
    for form in FORMS:
        if len(sys.argv) == 2:
            answers[form] = [(peak, float(time)) for peak, time in curve(graph, form)]
            continue
        found = optimum(graph, form, int(sys.argv[2]))
        answers[form] = found and {"least_time": float(found[0]), "peak": found[1], "steps": found[2]}
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
