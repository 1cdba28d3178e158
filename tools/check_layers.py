#!/usr/bin/env python3
"""Enforces which folder may include which, and that no source grows past 1,000 lines.

    tools/check_layers.py [ROOT]

A room is a folder of src/, or of src/planners/, with all its subfolders. CONTRIBUTING.md explains
the table.
"""

import os
import posixpath
import re
import sys

sys.dont_write_bytecode = True
import c_source  # noqa: E402

# What each room may include beside itself, written out in full.
ROOMS = {
    "base": (),
    "graph": ("base",),
    "models": ("graph", "base"),
    "cost": ("graph", "base"),
    "plan": ("graph", "base"),
    "check": ("graph", "plan", "base"),
    "layout": ("plan", "graph", "base"),
    "lp": ("base",),
    "planners/common": ("check", "plan", "graph", "base"),
    "planners/chain": ("planners/common", "check", "plan", "graph", "base"),
    "planners/offload": ("planners/common", "check", "plan", "graph", "base"),
    "planners/neap": ("planners/common", "lp", "check", "plan", "graph", "base"),
    "planners/checkmate": ("planners/common", "lp", "check", "plan", "graph", "base"),
    "solve": ("planners/common", "layout", "check", "cost", "plan", "graph", "base"),
    "run": ("plan", "layout", "cost", "graph", "base"),
    "train": ("run", "solve", "plan", "layout", "cost", "graph", "models", "base"),
    "report": ("plan", "check", "graph", "base"),
}

# The room each public header belongs to. A new header gets a line here.
PUBLIC_HEADERS = {
    "status.h": "base",
    "allocator.h": "base",
    "progress.h": "base",
    "version.h": "base",
    "text.h": "base",
    "graph.h": "graph",
    "network.h": "graph",
    "chain.h": "graph",
    "models.h": "models",
    "cost.h": "cost",
    "plan.h": "plan",
    "check.h": "check",
    "layout.h": "layout",
    "planner.h": "planners/common",
    "batch.h": "solve",
    "curve.h": "solve",
    "run.h": "run",
    "train.h": "train",
    "data.h": "train",
    "optimizer.h": "train",
    "safetensors.h": "train",
    "report.h": "report",
}
UMBRELLA = "neap.h"  # includes them all; for cli/, tests/ and examples/

STANDARD_C = set(
    """assert.h complex.h ctype.h errno.h fenv.h float.h inttypes.h iso646.h limits.h locale.h
    math.h setjmp.h signal.h stdalign.h stdarg.h stdatomic.h stdbool.h stddef.h stdint.h stdio.h
    stdlib.h stdnoreturn.h string.h tgmath.h threads.h time.h uchar.h wchar.h wctype.h""".split()
)
POSIX = set(
    """dirent.h dlfcn.h fcntl.h fnmatch.h getopt.h glob.h langinfo.h libgen.h poll.h pthread.h
    pwd.h regex.h sched.h semaphore.h spawn.h strings.h termios.h unistd.h sys/ioctl.h sys/mman.h
    sys/resource.h sys/select.h sys/stat.h sys/time.h sys/times.h sys/types.h sys/utsname.h
    sys/wait.h""".split()
)

# Headers of other libraries, and the one file behind which each of them stays.
OWNERS = {
    "interfaces/highs_c_api.h": "src/lp/highs_model.c",
    "oneapi/dnnl/dnnl.h": "src/run/backends/onednn/dnnl_api.c",
    "png.h": "src/train/png_image.c",
}

LINE_LIMIT = 1000
LINE_FOLDERS = ("include", "src", "cli", "python", "tests", "bench", "examples", "tools")
LINE_SUFFIXES = (".c", ".h", ".cu", ".py")

INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[ \t]*(?:<([^>\n]*)>|\"([^\"\n]*)\"|([^\n]*))", re.M)


class Include:
    """One #include line: where it stands, what it names, and what that turns out to be."""

    def __init__(self, root, path, line, name, angled):
        self.path, self.line, self.name, self.angled = path, line, name, angled
        self.file = self._resolve(root)

    def _resolve(self, root):
        """The file meant, relative to root, or None for one outside the project."""
        own = posixpath.dirname(self.path)
        folders = ("src", "include") if self.angled else (own, "src", "include")
        candidates = [posixpath.normpath(posixpath.join(folder, self.name)) for folder in folders]
        for candidate in candidates:
            if os.path.isfile(os.path.join(root, candidate)):
                return candidate
        # Not there (yet, or not to be reached from here): judge it by its name.
        if self.name.startswith("neap/"):
            return "include/" + self.name
        if ".." in self.name.split("/"):
            return candidates[0]
        return "src/" + self.name if room_of("src/" + self.name) else None

    def __str__(self):
        return f"<{self.name}>" if self.angled else f'"{self.name}"'


def includes(root, path):
    """Yields an Include for each #include of a file, and a string for one that names a macro."""
    text = c_source.blank(c_source.read(root, path), literals=False)
    for match in INCLUDE.finditer(text):
        line = c_source.line_of(text, match.start())
        angled, quoted, other = match.groups()
        if other is not None:
            yield f"{path}:{line}: #include {other.strip()}: name the file, not a macro"
        else:
            name = angled if quoted is None else quoted
            yield Include(root, path, line, name, quoted is None)


def room_of(file):
    """The room of src/<room>/... or include/neap/<header>; None if it has none."""
    parts = file.split("/")
    if parts[0] == "src":
        for depth in (2, 1):
            room = "/".join(parts[1 : 1 + depth])
            if len(parts) > 1 + depth and room in ROOMS:
                return room
    if parts[:2] == ["include", "neap"] and len(parts) == 3:
        return PUBLIC_HEADERS.get(parts[2])
    return None


def is_public(file):
    return file is not None and file.startswith("include/neap/")


def room_complaint(room, include):
    """Why a file of this room may not include that, or None."""
    file = include.file
    if file is None:
        return None if include.angled else "found neither beside the file nor below src/"
    if file == "include/neap/" + UMBRELLA:
        return "the umbrella header is for cli/, tests/ and examples/; include the modules you use"
    other = room_of(file)
    if other is None and is_public(file):
        return "belongs to no room: add it to PUBLIC_HEADERS in tools/check_layers.py"
    if other is None:
        return f"leads out of the rooms of src/, to {file}"
    if other == room or other in ROOMS[room]:
        return None
    return f"{room} may include only {', '.join((room,) + ROOMS[room])}; this belongs to {other}"


def source_complaint(path, include):
    owner = OWNERS.get(include.name, path)
    if owner != path:
        return f"only {owner} may include it"
    return room_complaint(room_of(path), include)


def header_complaint(path, include):
    if include.file is None and include.angled and include.name in STANDARD_C:
        return None
    if not is_public(include.file):
        return "a public header may include only <neap/...> and standard C headers"
    if path == "include/neap/" + UMBRELLA:
        return None
    return room_complaint(room_of(path), include)


def client_complaint(path, include, own_folder, system):
    """cli/ and python/: the public headers, their own folder, the system."""
    file = include.file
    if file is None:
        if include.angled and include.name in system:
            return None
    elif file.startswith(own_folder):
        return None
    elif is_public(file):
        if file != "include/neap/" + UMBRELLA or own_folder == "cli/":
            return None
    return f"{own_folder} may include only <neap/...>, its own files and system headers"


def cli_complaint(path, include):
    return client_complaint(path, include, "cli/", STANDARD_C | POSIX)


def python_complaint(path, include):
    return client_complaint(path, include, "python/", STANDARD_C | POSIX | {"Python.h"})


def include_errors(root):
    judges = (
        ("include", header_complaint),
        ("src", source_complaint),
        ("cli", cli_complaint),
        ("python", python_complaint),
    )
    for folder, judge in judges:
        for path in c_source.files(root, (folder,)):
            if folder == "src" and room_of(path) is None:
                yield f"{path}:1: lies in no room; src/ has {', '.join(ROOMS)}"
                continue
            if folder == "include" and room_of(path) is None:
                if path != "include/neap/" + UMBRELLA:
                    yield f"{path}:1: add this header to PUBLIC_HEADERS in tools/check_layers.py"
                    continue
            for include in includes(root, path):
                if isinstance(include, str):
                    yield include
                    continue
                complaint = judge(path, include)
                if complaint:
                    yield f"{path}:{include.line}: #include {include}: {complaint}"


def length_errors(root):
    for path in c_source.files(root, LINE_FOLDERS, LINE_SUFFIXES):
        lines = len(c_source.read(root, path).splitlines())
        if lines > LINE_LIMIT:
            yield f"{path}:{LINE_LIMIT + 1}: {lines} lines; past {LINE_LIMIT} it is two files"


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(here)
    errors = list(include_errors(root)) + list(length_errors(root))
    for error in errors:
        print(error)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
