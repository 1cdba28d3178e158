#!/usr/bin/env python3
"""The exhaustive optimum of many tiny graphs, in one process.

    least_many.py FILE      FILE has an object a line: {"graph": {...}, "budgets": [300, 400]}

Prints a line for each: the least peak of any plan, then for each budget the least time within it, in units of
10^-15 s, -1 where nothing fits.
"""
import json
import sys
from fractions import Fraction

import judge
import least


def answer(line):
    task = json.loads(line, parse_float=Fraction)
    graph = judge.Graph(task["graph"])
    times = (least.least_time(graph, budget) for budget in task["budgets"])
    return [least.least_peak(graph)] + [-1 if time is None else int(time * 10**15) for time in times]


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: least_many.py FILE")
    with open(sys.argv[1], encoding="utf-8") as file:
        for line in file:
            print(*answer(line))


if __name__ == "__main__":
    main()
