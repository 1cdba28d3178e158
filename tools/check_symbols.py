#!/usr/bin/env python3
"""Checks the symbols of a build: the static library defines only names that begin with neap_, and the
shared library exports exactly the functions that the public headers declare.

    tools/check_symbols.py BUILD
"""

import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
import c_source  # noqa: E402

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
DECLARATION = re.compile(r"\bNEAP_API\b[^;{]*?\b(neap_\w+)\s*(?:\(|;|\[)")


def defined(*arguments):
    """The symbols that nm lists, without the sanitizers' own and the names of versions.

    Names with a dot are the compiler's (clang's resolvers of cloned functions): no C name meets them.
    """
    lines = subprocess.run(
        ["nm", "--defined-only", *arguments], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    found = (line.split() for line in lines)
    return {
        fields[2].split("@")[0]
        for fields in found
        if len(fields) == 3 and fields[1] != "A" and not fields[2].startswith("__odr_asan")
        and "." not in fields[2].split("@")[0]
    }


def declared():
    names = set()
    for path in c_source.files(ROOT, ("include",)):
        text = c_source.blank(c_source.read(ROOT, path), literals=True)
        names |= set(DECLARATION.findall(re.sub(r"^[ \t]*#.*", "", text, flags=re.M)))
    return names


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    static, shared = (os.path.join(sys.argv[1], "libneap" + end) for end in (".a", ".so"))
    public, exported, errors = declared(), defined("-D", shared), []
    for name in sorted(defined("-g", static)):
        if not name.startswith("neap_"):
            errors.append(f"{static}: {name} does not begin with neap_")
    for name in sorted(exported - public):
        errors.append(f"{shared}: exports {name}, which no public header declares")
    for name in sorted(public - exported):
        errors.append(f"{shared}: does not export {name}, which a public header declares")
    for error in errors:
        print(error)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
