#!/usr/bin/env python3
"""Judges plans that another program judged already, and compares.

    judge_lines.py FILE

Each line of the file has a graph, a plan, a link and what the other judge says:

    {"out": "3", "in": "1", "latency": "0.25", "duplex": true, "budget": 12, "peak": 11, "time": 4.25,
     "graph": {...}, "plan": {...}}

No link has "out": "0". Prints the number of plans on which both agree; exits with 1 at the first on which they do not.
Times of the other judge are whole ticks: they may differ by a billionth.
"""
import sys

import judge


def compare(line, number):
    case = judge.parse(line)
    link = None
    if case["out"] != "0":
        link = judge.Link(case["out"], case["in"], case["latency"], case["duplex"])
    try:
        got = judge.replay(judge.Graph(case["graph"]), case["plan"], link, case["budget"])
    except judge.Illegal as illegal:
        sys.exit(f"line {number}: step {illegal.step}: {illegal.reason}\n{line}")
    time, said = float(got["time"]), float(case["time"])
    if got["peak"] != case["peak"] or abs(time - said) > 1e-9 * max(time, 1):
        sys.exit(f"line {number}: peak {got['peak']}, not {case['peak']}; time {time}, not {said}\n{line}")


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: judge_lines.py FILE")
    number = 0
    with open(sys.argv[1], encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            compare(line, number)
    print(number)


if __name__ == "__main__":
    main()
