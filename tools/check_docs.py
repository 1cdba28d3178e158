#!/usr/bin/env python3
"""Checks that what the docs name exists: links and their headings, paths in backticks, versions.

    tools/check_docs.py [ROOT]

Looks at README.md, CONTRIBUTING.md and docs/*.md. A word in backticks is a path if it begins with a
folder of the project (`src/base/`), or if its ending is that of a source (`chain/precise.c`); then
some file of the project must end so. `{a,b}` and `*` are expanded; `<placeholder>`, `mine` and
`NAME` stand for anything.
"""

import fnmatch
import glob
import os
import re
import sys

sys.dont_write_bytecode = True

FOLDERS = ("include", "src", "cli", "python", "tests", "bench", "examples", "docs", "tools", "cmake")
SOURCE = re.compile(r".*\.(c|h|def|py|sh|cmake|toml|md|map|pack)")
PATH = re.compile(r"[\w.<>{},*/-]+")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")

# Where else a version is written: (file, pattern); the group must be equal in all of a line.
VERSIONS = [
    [("docs/dependencies.md", r"CMake ([\d.]+)\+"), ("CMakeLists.txt", r"minimum_required\(VERSION ([\d.]+)")],
    [
        ("docs/dependencies.md", r"HiGHS ([\d.]+)\+"),
        ("cmake/highs.cmake", r"set\(highs_oldest ([\d.]+)"),
        ("tools/setup.sh", r"(?m)^highs_oldest=([\d.]+)"),
    ],
    [
        ("docs/dependencies.md", r"\.deps/highs-([\d.]+\d)"),
        ("cmake/highs.cmake", r"set\(highs_unpacked highs-([\d.]+)"),
        ("tools/setup.sh", r"(?m)^highs_version=([\d.]+)"),
        ("python/packaging/library.py", r'(?m)^HIGHS = "([\d.]+)"'),
    ],
    [
        ("docs/dependencies.md", r"\.deps/onednn-([\d.]+\d)"),
        ("cmake/onednn.cmake", r"NEAP_DEPS_DIR}/onednn-([\d.]+)"),
        ("tools/setup.sh", r"(?m)^dnnl_folder=onednn-([\d.]+)"),
    ],
    [("docs/dependencies.md", r"version ([\d.]+), which is oneDNN"), ("tools/setup.sh", r"(?m)^dnnl_version=([\d.]+)")],
]


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def project_files(root):
    """Every file and folder of the project, relative to root; folders end in '/'."""
    found = []
    for here, folders, names in os.walk(root):
        folders[:] = [f for f in folders if not f.startswith(".") and f not in ("build", "__pycache__")]
        base = os.path.relpath(here, root)
        base = "" if base == "." else base + "/"
        found += [base + name for name in names] + [base + folder + "/" for folder in folders]
    return found


def expand(path):
    """`a/{b,c}` as `a/b` and `a/c`."""
    match = re.search(r"\{([^{}]*)\}", path)
    if not match:
        return [path]
    ends = match.group(1).split(",")
    return [p for end in ends for p in expand(path[: match.start()] + end + path[match.end() :])]


def exists(path, files):
    """Is there such a file, under its full name or the end of one?"""
    pattern = re.sub(r"<[^>]*>|\bmine\b|\bNAME\b", "*", path)
    names = {pattern, pattern.rstrip("/") + "/"}
    if path.split("/")[0] not in FOLDERS:
        names |= {"*/" + name for name in names}
    return any(fnmatch.filter(files, name) for name in names)


def anchor(heading):
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def link_error(root, doc, target):
    if re.match(r"[a-z]+:", target):
        return None
    path, _, heading = target.partition("#")
    file = os.path.normpath(os.path.join(os.path.dirname(doc), path)) if path else doc
    if not os.path.exists(os.path.join(root, file)):
        return f"there is no {file}"
    if heading and heading not in map(anchor, re.findall(r"(?m)^#+ (.*)", read(root, file))):
        return f"{file} has no heading #{heading}"
    return None


def doc_errors(root, doc, files):
    fenced = False
    for number, line in enumerate(read(root, doc).splitlines(), 1):
        fenced ^= line.startswith("```")
        if fenced:
            continue
        for target in LINK.findall(line):
            error = link_error(root, doc, target)
            if error:
                yield f"{doc}:{number}: {error}"
        for word in re.findall(r"`([^`]+)`", line):
            is_path = PATH.fullmatch(word) and (
                word.split("/")[0] in FOLDERS and "/" in word or SOURCE.fullmatch(word)
            )
            for path in expand(word) if is_path else ():
                if not exists(path, files):
                    yield f"{doc}:{number}: there is no {path}"


def version_errors(root):
    for places in VERSIONS:
        found = {}
        for path, pattern in places:
            if os.path.exists(os.path.join(root, path)):
                match = re.search(pattern, read(root, path))
                found[path] = match.group(1) if match else "none"
        if len(set(found.values())) > 1:
            yield f"{places[0][0]}: versions differ: {found}"


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(here)
    files = project_files(root)
    docs = [p for p in ("README.md", "CONTRIBUTING.md") if p in files]
    docs += sorted(os.path.relpath(p, root) for p in glob.glob(os.path.join(root, "docs", "*.md")))
    errors = [error for doc in docs for error in doc_errors(root, doc, files)]
    errors += version_errors(root)
    for error in errors:
        print(error)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
