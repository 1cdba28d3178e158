#!/usr/bin/env python3
"""Rejects functions that src/, cli/ and include/ must not use, and messages that src/ must not have.

    tools/check_banned.py [ROOT]

Comments and strings do not count, nor do members of that name (`allocator->free`). To allow a
function in one more file, add it to its rule below.

Messages of the library state facts; options and commands of the program are the program's to name.
"""

import os
import re
import sys

sys.dont_write_bytecode = True
import c_source  # noqa: E402

EVERYWHERE = ("src/", "include/", "cli/")
LIBRARY = ("src/", "include/")


class Rule:
    """The names, where they are banned, where they are allowed after all, and what to use."""

    def __init__(self, names, instead, where=EVERYWHERE, allowed=(), any_use=False):
        self.names = names.split()
        self.instead = instead
        self.where = where
        self.allowed = allowed
        self.any_use = any_use  # banned as a bare name too, not only called or passed on


RULES = [
    Rule(
        "malloc calloc realloc reallocarray aligned_alloc posix_memalign free strdup strndup",
        "memory comes from, and goes back to, the caller's neap_allocator",
        allowed=("src/base/allocator.c",),
    ),
    Rule("alloca", "the stack has no limit check: use the neap_allocator or an arena"),
    Rule("strcpy strcat", "use memcpy with a checked length, or snprintf"),
    Rule("sprintf vsprintf", "use snprintf or vsnprintf, and check what they return"),
    Rule("gets", "use fgets, or read with a known capacity"),
    Rule("strtok", "it keeps hidden state: scan with strchr, strspn and strcspn"),
    Rule("atoi atol atoll atof", "they hide errors: use strtoll or strtod, check end and range"),
    Rule("rand srand", "use a generator whose seed the caller gives"),
    Rule("setlocale", "it changes the whole process; number formats must not depend on it"),
    Rule("abort", "return a neap_status"),
    Rule(
        "exit _exit _Exit quick_exit",
        "return a status; only cli/main.c decides when the process ends",
        allowed=("cli/main.c",),
    ),
    Rule(
        "printf vprintf puts putchar perror",
        "the library never prints: fill the caller's diagnostic, or call its progress callback",
        where=LIBRARY,
    ),
    Rule(
        "stdout stderr",
        "the library never prints: write to a stream or buffer the caller gave",
        where=LIBRARY,
        any_use=True,
    ),
    Rule(
        "signal sigaction",
        "the library traps no signal: look at the caller's interrupt request",
        where=LIBRARY,
    ),
]

MEMBER = re.compile(r"(?:\.|->)\s*\Z")
# A name that stands where a value stands: `= free;`, `(malloc, free)`, `return free;`, `(free)(p)`.
BEFORE_VALUE = re.compile(r"(?:[=(,&?:{]|\breturn)\s*\Z")
AFTER_VALUE = re.compile(r"\s*[),;:}]")
# `(*free)(...)` declares or calls a pointer of that name.
POINTER = re.compile(r"\(\s*\*\s*\Z")
DEFINE = re.compile(r"[ \t]*#[ \t]*define\b.*\Z")


# `__attribute__((format(printf, 1, 2)))` and `((malloc))` name no function; parentheses nest.
ATTRIBUTE = re.compile(r"\b__attribute__\s*\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\)")


def is_use(code, start, end, any_use):
    before, after = code[max(0, start - 200) : start], code[end : end + 200]
    if MEMBER.search(before) or POINTER.search(before):
        return False
    if any_use or re.match(r"\s*\(", after):
        return True
    if DEFINE.search(before[before.rfind("\n") + 1 :]):
        return True
    return bool(BEFORE_VALUE.search(before) and AFTER_VALUE.match(after))


def offences(path, text):
    """Yields (line, name, rule) for every banned use in the text of one file."""
    rules = {
        name: rule
        for rule in RULES
        if path.startswith(rule.where) and path not in rule.allowed
        for name in rule.names
    }
    code = c_source.blank(text, literals=True)
    code = ATTRIBUTE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), code)
    for match in re.finditer(r"[A-Za-z_]\w*", code):
        rule = rules.get(match.group())
        if rule and is_use(code, match.start(), match.end(), rule.any_use):
            yield c_source.line_of(code, match.start()), match.group(), rule


STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
COMMAND_LINE = re.compile(r"(?<![\w-])--[a-z][a-z-]*|`neap\b[^`\"]*`?")


def advice(path, text):
    """Yields (line, words) for every option or command of the program that a string of src/ names."""
    if not path.startswith("src/"):
        return
    code = c_source.blank(text, literals=False)
    for literal in STRING.finditer(code):
        for match in COMMAND_LINE.finditer(literal.group()):
            yield c_source.line_of(code, literal.start()), match.group()


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(here)
    found = 0
    for path in c_source.files(root, ("include", "src", "cli")):
        for line, name, rule in offences(path, c_source.read(root, path)):
            print(f"{path}:{line}: {name} is banned here: {rule.instead}")
            found += 1
        for line, words in advice(path, c_source.read(root, path)):
            print(f"{path}:{line}: {words} in a message: the library states facts, the command advises")
            found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
