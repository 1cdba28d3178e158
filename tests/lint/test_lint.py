#!/usr/bin/env python3
"""Shows that the checks of tools/ reject what they should, and only that.

Each tests/lint/<check>/*.txt is a small tree of sources, kept out of the compiler's sight:

    expect: src/graph/a.c:2: malloc        a line the check must print, by its beginning
    file: src/graph/a.c                    what follows is that file

A sample passes if the check complains exactly as often as the sample expects, at those places;
a sample without `expect:` must be accepted.
"""

import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOOLS = os.path.join(HERE, "..", "..", "tools")
CHECKS = {
    "banned": [sys.executable, os.path.join(TOOLS, "check_banned.py")],
    "layers": [sys.executable, os.path.join(TOOLS, "check_layers.py")],
    "python": [sys.executable, os.path.join(TOOLS, "check_python.py")],
    "docs": [sys.executable, os.path.join(TOOLS, "check_docs.py")],
    "format": [os.path.join(TOOLS, "check_format.sh")],
}


def parse(text):
    """Returns the expected complaints and the files, as {path: content}."""
    expected, files, path = [], {}, None
    for line in text.splitlines(keepends=True):
        if line.startswith("file: "):
            path = line[len("file: ") :].strip()
            files[path] = ""
        elif path is not None:
            files[path] += line
        elif line.startswith("expect: "):
            expected.append(line[len("expect: ") :].strip())
        elif line.strip():
            raise ValueError(f"neither expect: nor file: in {line!r}")
    return expected, files


def complaints(check, files):
    """Runs a check over the files; returns its exit status and the lines that name a place."""
    with tempfile.TemporaryDirectory() as root:
        for path, content in files.items():
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write(content)
        run = subprocess.run(
            CHECKS[check] + [root], capture_output=True, text=True, check=False, timeout=60
        )
    lines = (run.stdout + run.stderr).splitlines()
    return run.returncode, [line for line in lines if line.startswith(tuple(files))]


def judge(check, expected, files):
    """Returns what is wrong with the check's answer, or None."""
    status, found = complaints(check, files)
    answer = "\n    ".join([f"exit status {status}"] + found)
    if (status != 0) != bool(expected):
        return f"{'accepted' if expected else 'rejected'} it:\n    {answer}"
    left = list(found)
    for beginning in expected:
        match = next((line for line in left if line.startswith(beginning)), None)
        if match is None:
            return f"did not print {beginning!r}:\n    {answer}"
        left.remove(match)
    if left:
        return f"complained more than expected:\n    {answer}"
    return None


def samples():
    for check in sorted(CHECKS):
        folder = os.path.join(HERE, check)
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                yield (check, name, *parse(file.read()))
    # Too long to keep as files.
    lines = "int neap_x;\n"
    yield "layers", "1,000 lines", [], {"src/base/x.c": lines * 1000}
    yield "layers", "1,001 lines", ["src/base/x.c:1001: 1001 lines"], {"src/base/x.c": lines * 1001}


def main():
    count = failed = 0
    for check, name, expected, files in samples():
        wrong = judge(check, expected, files)
        count += 1
        if wrong:
            failed += 1
            print(f"tests/lint/{check}/{name}: the check {wrong}")
    print(f"lint samples: {count - failed} of {count} as expected")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
