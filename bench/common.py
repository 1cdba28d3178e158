"""What the benches share: building, starting programs, tables, the folder of results."""

import argparse
import math
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build", "bench")
GIVEN = os.environ.get("NEAP")  # a command that is built already, on a machine without compilers
MIB = 1 << 20


def arguments(description, *options):
    """Parses the command line. Each option is (name, help, default): a number or, if False, a flag."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", default=os.path.join(BUILD, "results"), help="folder for SVG files (%(default)s)"
    )
    for name, meaning, default in options:
        if default is False:
            parser.add_argument(name, help=meaning, action="store_true")
        else:
            parser.add_argument(name, help=f"{meaning} (%(default)s)", type=type(default), default=default)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    return args


def build():
    """Builds the command and the programs of bench/, optimized, into build/bench; NEAP=FILE is used as it is."""
    if GIVEN:
        return
    configure = ["cmake", "-S", ROOT, "-B", BUILD, "-G", "Ninja", "--log-level=WARNING"]
    configure += ["-DCMAKE_BUILD_TYPE=Release", "-DNEAP_BUILD_BENCH=ON"]
    make = ["cmake", "--build", BUILD, "--target", "neap", "neap_shared", "bench_programs"]
    for command in (configure, make):
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if run.returncode != 0:
            sys.exit(run.stdout)


def path_of(program):
    """A program of bench/, or "neap". With NEAP=FILE, programs are in the folder bench/ beside it."""
    if program == "neap":
        return GIVEN or os.path.join(BUILD, "neap")
    return os.path.join(os.path.dirname(GIVEN) if GIVEN else BUILD, "bench", program)


def output_of(program, *words):
    """What a program of bench/ (or "neap") prints; ends the bench with its message if it fails."""
    run = subprocess.run(
        [path_of(program), *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    if run.returncode != 0:
        sys.exit(f"{program} {' '.join(map(str, words))}: {run.stderr.strip()}")
    return run.stdout


def print_table(head, rows):
    """A table as Markdown has it: numbers right, words left."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [head, *cells]) for i in range(len(head))]
    right = [all(not row[i] or row[i][0] in "-+.0123456789" for row in cells) for i in range(len(head))]

    def line(row):
        parts = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right)]
        return "| " + " | ".join(parts) + " |"

    print(line(head))
    print("|" + "|".join("-" * (w + 1) + (":" if r else "-") for w, r in zip(widths, right)) + "|")
    for row in cells:
        print(line(row))


def fitted_exponent(xs, ys):
    """e of y = c x^e, by least squares on the logarithms."""
    lx, ly = [math.log(x) for x in xs], [math.log(y) for y in ys]
    mx, my = sum(lx) / len(lx), sum(ly) / len(ly)
    return sum((x - mx) * (y - my) for x, y in zip(lx, ly)) / sum((x - mx) ** 2 for x in lx)
