#!/usr/bin/env python3
"""The trade-off curves of the staged forms for many tiny graphs, in one process.

    staged_many.py FILE [FORM...]      FILE has an object a line: {"graph": {...}}

FORM is partitioned, unpartitioned or any (see staged.py); without one, the first two. Prints a line for each graph: for
each form the number of points of its curve, then the points, each a peak and the least time within it, by ascending
peak. Times are in units of 10^-15 s. Below the first peak nothing fits; between two the time is that of the lower.
"""
import json
import sys
from fractions import Fraction

import judge
import staged


def answer(line, forms):
    graph = judge.Graph(json.loads(line, parse_float=Fraction)["graph"])
    numbers = []
    for form in forms:
        points = staged.curve(graph, form)
        numbers.append(len(points))
        for peak, time in points:
            numbers += [peak, int(time * 10**15)]
    return numbers


def main():
    forms = sys.argv[2:] or ["partitioned", "unpartitioned"]
    if len(sys.argv) < 2 or not set(forms) <= set(staged.FORMS):
        sys.exit("usage: staged_many.py FILE [partitioned|unpartitioned|any ...]")
    with open(sys.argv[1], encoding="utf-8") as file:
        for line in file:
            print(*answer(line, forms))


if __name__ == "__main__":
    main()
