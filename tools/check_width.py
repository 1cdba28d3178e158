#!/usr/bin/env python3
"""Finds comments that go past column 100. Code is left to clang-format, which does not break comments.

    tools/check_width.py [ROOT]

tools/check_format.sh runs it.
"""

import os
import sys

sys.dont_write_bytecode = True
import c_source  # noqa: E402

COLUMNS = 100
FOLDERS = ("include", "src", "cli", "tests", "examples", "bench", "python")


def errors(root):
    for path in c_source.files(root, FOLDERS, (".c", ".h")):
        text = c_source.read(root, path)
        code = c_source.blank(text, literals=False)
        for number, (line, rest) in enumerate(zip(text.split("\n"), code.split("\n")), 1):
            if len(line) > COLUMNS >= len(rest.rstrip()):
                yield f"{path}:{number}: a comment of {len(line)} columns; {COLUMNS} at most"


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(here)
    found = list(errors(root))
    print("".join(error + "\n" for error in found), end="")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
