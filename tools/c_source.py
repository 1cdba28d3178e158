"""What the source checks share: finding C files, and blanking out what is not code."""

import os
import re

C_SUFFIXES = (".c", ".h", ".def", ".inc", ".cu", ".cuh", ".cc", ".cpp", ".hpp")

_TOKEN = re.compile(
    r"""
      (?P<comment> /\*.*?(?:\*/|\Z) | //(?:\\\n|[^\n])* )
    | (?P<literal> "(?:\\.|[^"\\\n])*"? | '(?:\\.|[^'\\\n])*'? )
    """,
    re.VERBOSE | re.DOTALL,
)


def files(root, folders, suffixes=C_SUFFIXES):
    """Yields the paths, relative to root and with '/', of the files below the folders, in order."""
    for folder in folders:
        for here, subfolders, names in os.walk(os.path.join(root, folder)):
            subfolders.sort()
            for name in sorted(names):
                if name.endswith(tuple(suffixes)):
                    path = os.path.relpath(os.path.join(here, name), root)
                    yield path.replace(os.sep, "/")


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def blank(text, literals):
    """Returns the text with comments (and, if literals, strings and characters) turned into spaces.

    Lines keep their numbers and columns.
    """

    def spaces(match):
        if match.group("literal") is not None and not literals:
            return match.group()
        return re.sub(r"[^\n]", " ", match.group())

    return _TOKEN.sub(spaces, text)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1
