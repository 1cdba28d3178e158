#!/usr/bin/env python3
"""Packs the inputs of a fuzz target into one file, and unpacks them.

    tools/fuzz_corpus.py list [TARGET...]        name and size of every input
    tools/fuzz_corpus.py unpack FOLDER           FOLDER/<target>/<name> for every input of every target
    tools/fuzz_corpus.py add TARGET FILE...      adds or replaces inputs
    tools/fuzz_corpus.py pack FOLDER             rewrites the packs from FOLDER/<target>/

tests/fuzz/corpus/<target>.pack is a sequence of inputs in the order of their names:

    SIZE NAME <newline> SIZE bytes <newline>

An input that a fuzzer found (libFuzzer names a file by the SHA-1 of its content) is called found-
and the first eight digits. tests/fuzz/test_replay.c reads the packs.
"""

import os
import re
import sys

CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "fuzz", "corpus")


def targets():
    return sorted(n[: -len(".pack")] for n in os.listdir(CORPUS) if n.endswith(".pack"))


def pack_path(target):
    return os.path.join(CORPUS, target + ".pack")


def read_pack(target):
    """Returns {name: content}."""
    with open(pack_path(target), "rb") as file:
        data = file.read()
    inputs, at = {}, 0
    while at < len(data):
        end = data.index(b"\n", at)
        size, name = data[at:end].decode().split(" ")
        at = end + 1 + int(size) + 1
        if data[at - 1 : at] != b"\n":
            sys.exit(f"{pack_path(target)}: {name}: no newline after {size} bytes")
        inputs[name] = data[end + 1 : at - 1]
    return inputs


def write_pack(target, inputs):
    with open(pack_path(target), "wb") as file:
        for name, content in sorted(inputs.items()):
            file.write(b"%d %s\n%s\n" % (len(content), name.encode(), content))


def read_files(paths):
    inputs = {}
    for path in paths:
        name = os.path.basename(path)
        if re.fullmatch("[0-9a-f]{40}", name):
            name = "found-" + name[:8]
        if re.search(r"\s", name):
            sys.exit(f"{path}: a name without white space, please")
        with open(path, "rb") as file:
            inputs[name] = file.read()
    return inputs


def files_of(folder):
    return [os.path.join(folder, name) for name in os.listdir(folder)]


def unpack(folder):
    for target in targets():
        os.makedirs(os.path.join(folder, target), exist_ok=True)
        for name, content in read_pack(target).items():
            with open(os.path.join(folder, target, name), "wb") as file:
                file.write(content)


def main():
    match sys.argv[1:]:
        case ["list", *names]:
            for target in names or targets():
                for name, content in read_pack(target).items():
                    print(f"{target} {name} {len(content)}")
        case ["unpack", folder]:
            unpack(folder)
        case ["add", target, first, *more]:
            known = read_pack(target) if target in targets() else {}
            write_pack(target, known | read_files([first, *more]))
        case ["pack", folder]:
            for target in sorted(os.listdir(folder)):
                write_pack(target, read_files(files_of(os.path.join(folder, target))))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
