#!/usr/bin/env python3
"""Enforces which folder may include which, and that no source grows past 1,000 lines.

    tools/check_layers.py [ROOT]       checks; prints what is wrong
    tools/check_layers.py --write      copies the table of rooms to CONTRIBUTING.md
    tools/check_layers.py --matrix     prints which room includes which, and how often

A room is a folder of src/, or of src/planners/, with all its subfolders. tools/rooms.toml is the
table. A permission that no file uses is an error, and so are a cycle of rooms, a cycle of files and
a table in CONTRIBUTING.md that differs. A ROOT without a table of its own is checked by ours.
"""

import os
import posixpath
import re
import sys
import tomllib

sys.dont_write_bytecode = True
import c_source  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = "tools/rooms.toml"
ROOMS = {}  # room: the rooms it may include in addition to itself
PURPOSES = {}  # room: what it is for
PUBLIC_HEADERS = {}  # header below include/neap/: its room


def load_table(root):
    """Fills the three tables above. Returns whether they are those of root itself."""
    own = os.path.join(root, TABLE)
    path = own if os.path.isfile(own) else os.path.join(os.path.dirname(HERE), TABLE)
    with open(path, "rb") as file:
        table = tomllib.load(file)
    for room, entry in table.items():
        ROOMS[room] = tuple(entry["includes"])
        PURPOSES[room] = entry["purpose"]
        for header in entry["headers"]:
            PUBLIC_HEADERS[header] = room
    return path == own


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

# Headers of other libraries, and the only file that may include each.
OWNERS = {
    "interfaces/highs_c_api.h": "src/lp/highs_model.c",
    "oneapi/dnnl/dnnl.h": "src/run/backends/onednn/dnnl_api.c",
    "png.h": "src/train/png_image.c",
    "onnx.pb-c.h": "src/onnx/proto.c",
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
        return "belongs to no room: add it to tools/rooms.toml"
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


def cli_complaint(path, include):
    """cli/: the public headers, its own folder, the system."""
    file = include.file
    if file is None:
        if include.angled and include.name in STANDARD_C | POSIX:
            return None
    elif file.startswith("cli/") or is_public(file):
        return None
    return "cli/ may include only <neap/...>, its own files and system headers"


def include_errors(root):
    judges = (
        ("include", header_complaint),
        ("src", source_complaint),
        ("cli", cli_complaint),
    )
    for folder, judge in judges:
        for path in c_source.files(root, (folder,)):
            if folder == "src" and room_of(path) is None:
                yield f"{path}:1: lies in no room; src/ has {', '.join(ROOMS)}"
                continue
            if folder == "include" and room_of(path) is None:
                if path != "include/neap/" + UMBRELLA:
                    yield f"{path}:1: add this header to tools/rooms.toml"
                    continue
            for include in includes(root, path):
                if isinstance(include, str):
                    yield include
                    continue
                complaint = judge(path, include)
                if complaint:
                    yield f"{path}:{include.line}: #include {include}: {complaint}"


def use_counts(root):
    """{(room, other room): how many #include lines of files in src/ and include/ lead there}."""
    counts = {}
    for path in c_source.files(root, ("include", "src")):
        room = room_of(path)
        for include in includes(root, path) if room else ():
            other = None if isinstance(include, str) else include.file and room_of(include.file)
            if other and other != room:
                counts[room, other] = counts.get((room, other), 0) + 1
    return counts


def find_cycle(edges):
    """A list of nodes, each with an edge to the next and the last to the first, or None."""
    state, path = {}, []

    def visit(node):
        state[node] = "open"
        path.append(node)
        for other in edges.get(node, ()):
            if state.get(other) == "open":
                return path[path.index(other) :]
            if other not in state:
                cycle = visit(other)
                if cycle:
                    return cycle
        path.pop()
        state[node] = "done"
        return None

    for node in sorted(edges):
        if node not in state:
            cycle = visit(node)
            if cycle:
                return cycle
    return None


def table_errors(root):
    """What is wrong with root's own table, and with the copy of it in CONTRIBUTING.md."""
    counts = use_counts(root)
    for room, others in ROOMS.items():
        for other in others:
            if other not in ROOMS:
                yield f"{TABLE}: {room} -> {other}: there is no room {other}"
            elif (room, other) not in counts:
                yield f"{TABLE}: permission {room} -> {other} is not used: drop it"
    cycle = find_cycle(ROOMS)
    if cycle:
        yield f"{TABLE}: a cycle of rooms: {' -> '.join(cycle + cycle[:1])}"
    for header, room in PUBLIC_HEADERS.items():
        if not os.path.isfile(os.path.join(root, "include/neap", header)):
            yield f"{TABLE}: {room}: include/neap/{header} does not exist"
    if os.path.isfile(os.path.join(root, GUIDE)):
        text = c_source.read(root, GUIDE)
        if with_table(text) != text:
            yield f"{GUIDE}: its table of rooms is not {TABLE}: run tools/check_layers.py --write"


def cycle_errors(root):
    edges = {}
    for path in c_source.files(root, ("include", "src", "cli")):
        found = (i for i in includes(root, path) if not isinstance(i, str))
        edges[path] = sorted({i.file for i in found if i.file and i.file != path})
    cycle = find_cycle(edges)
    if cycle:
        yield f"{cycle[0]}:1: includes itself: {' -> '.join(cycle + cycle[:1])}"


# --- the copy in CONTRIBUTING.md, and the matrix ---

GUIDE = "CONTRIBUTING.md"
BEGIN = f"<!-- rooms: made from {TABLE} by tools/check_layers.py --write -->\n"
END = "<!-- end of rooms -->\n"


def with_table(text):
    """The guide's text with the table between its two marks rewritten."""
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    lines = ["| folder | what it holds | may include |", "| --- | --- | --- |"]
    for room, others in ROOMS.items():
        lines.append(f"| `src/{room}/` | {PURPOSES[room]} | {', '.join(others)} |")
    return text[:begin] + "\n".join(lines) + "\n" + text[end:]


def write_table(root):
    text = c_source.read(root, GUIDE)
    with open(os.path.join(root, GUIDE), "w", encoding="utf-8") as file:
        file.write(with_table(text))


def print_matrix(root):
    """Rooms from the bottom up: a row includes only columns to its left, so there is no cycle."""
    counts = use_counts(root)
    order = []
    while len(order) < len(ROOMS):
        ready = [r for r in ROOMS if r not in order and all(o in order for r_, o in counts if r_ == r)]
        if not ready:
            print(f"a cycle among: {', '.join(r for r in ROOMS if r not in order)}")
            return 1
        order.append(ready[0])
    width = max(map(len, order)) + 4
    print(" " * width + "".join(f"{i + 1:5}" for i in range(len(order))))
    for i, room in enumerate(order):
        row = [counts.get((room, other), ".") if j < i else "" for j, other in enumerate(order)]
        print(f"{i + 1:2}  {room:{width - 4}}" + "".join(f"{n:>5}" for n in row).rstrip())
    print("no room includes one below it in this list: there is no cycle")
    return 0


def length_errors(root):
    for path in c_source.files(root, LINE_FOLDERS, LINE_SUFFIXES):
        lines = len(c_source.read(root, path).splitlines())
        if lines > LINE_LIMIT:
            yield f"{path}:{LINE_LIMIT + 1}: {lines} lines; past {LINE_LIMIT} it is two files"


def main():
    arguments = sys.argv[1:]
    mode = arguments.pop(0) if arguments and arguments[0].startswith("--") else None
    root = arguments[0] if arguments else os.path.dirname(HERE)
    own = load_table(root)
    if mode == "--write":
        write_table(root)
        return 0
    if mode == "--matrix":
        return print_matrix(root)
    if mode:
        sys.exit(__doc__)
    errors = [*include_errors(root), *cycle_errors(root), *length_errors(root)]
    if own:
        errors += table_errors(root)
    for error in errors:
        print(error)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
