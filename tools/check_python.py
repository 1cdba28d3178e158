#!/usr/bin/env python3
"""Holds python/ to the public C API, and its core to Python itself.

    tools/check_python.py [ROOT]

- A file of python/neap/ (not of its folders) imports only its own package and the standard library,
  and never a folder of its own: the core works without PyTorch.
- Python calls only functions that python/neap/_library.py declares, and these are functions of
  include/neap with as many parameters. Its structures have the fields of their C namesakes: the
  same names in the same order, of the same types.
"""

import ast
import os
import re
import sys

sys.dont_write_bytecode = True
import c_source  # noqa: E402

CORE = "python/neap"
LIBRARY = "python/neap/_library.py"

CTYPES = {  # other words are structs or enumerations
    "int64_t": "c_int64", "uint32_t": "c_uint32", "uint64_t": "c_uint64", "size_t": "c_size_t",
    "double": "c_double", "bool": "c_bool", "int": "c_int", "char": "c_char",
}  # fmt: skip
POINTERS = ("c_void_p", "c_char_p", "POINTER", "Function")


# ---- C ----


class Headers:
    """What include/neap declares: functions {name: parameters}, structs {name: [(field, type)]}."""

    def __init__(self, root):
        self.functions, self.structs, self.enums = {}, {}, set()
        for path in c_source.files(root, ("include/neap",), (".h",)):
            text = c_source.blank(c_source.read(root, path), literals=False)
            self._read(re.sub(r"(?m)^[ \t]*#(?:.*\\\n)*.*$", "", text))

    def _read(self, text):
        for name, parameters in re.findall(r"NEAP_API[^;]*?\b(neap_\w+)\(([^;]*)\)[^;()]*;", text):
            empty = parameters.strip() in ("", "void")
            self.functions[name] = 0 if empty else parameters.count(",") + 1
        self.enums.update(re.findall(r"typedef enum (neap_\w+)", text))
        for name, body in re.findall(r"struct (neap_\w+)\s*\{(.*?)\n\}", text, re.S):
            self.structs[name] = [field for line in body.split(";") for field in fields(line)]

    def kind(self, word):
        """The word of _library.py for a C type; None if it is not known."""
        if word in self.enums:
            return "c_int"
        return CTYPES.get(word) or (python_name(word) if word in self.structs else None)


def fields(declaration):
    """Yields (name, C type) for each name of one declaration; pointers are of type "*"."""
    declaration = " ".join(declaration.split())
    function = re.search(r"\(\*(\w+)\)\(", declaration)
    if function:
        yield function.group(1), "*"
        return
    found = re.match(r"(?:const )?(?:struct )?(\w+)((?: .*)?)", declaration)
    for name in found.group(2).split(",") if found else ():
        pointer, name, array = re.fullmatch(
            r"\s*((?:\*(?:const )?)*)\s*(?:const )?(\w+)(\[\w+\])?\s*", name
        ).groups()
        yield name, "*" if pointer else found.group(1) + ("[]" if array else "")


def python_name(name):
    return "".join(part.capitalize() for part in name.removeprefix("neap_").split("_"))


# ---- Python ----


def trees(root):
    for path in c_source.files(root, ("python",), (".py",)):
        yield path, ast.parse(c_source.read(root, path), path)


def imported(node):
    """The modules that a statement imports; relative ones begin with a dot."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        dots, module = "." * node.level, node.module or ""
        return [dots + module] if module else [dots + alias.name for alias in node.names]
    return []


def import_errors(root, path, tree):
    for node in ast.walk(tree):
        for name in imported(node):
            top = name.lstrip(".").split(".")[0]
            if name.startswith(".") or top == "neap":
                inner = name.lstrip(".").removeprefix("neap.").split(".")[0]
                allowed = not os.path.isdir(os.path.join(root, CORE, inner or "?"))
            else:
                allowed = top in sys.stdlib_module_names
            if not allowed:
                yield f"{path}:{node.lineno}: imports {name}: the core needs only Python"


def call_errors(path, tree, declared):
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("neap_"):
            of_library = isinstance(node.value, ast.Name) and node.value.id.lstrip("_") == "lib"
            if of_library and node.attr not in declared:
                yield f"{path}:{node.lineno}: calls {node.attr}, which {LIBRARY} does not declare"


def declared_functions(tree):
    """{name: (line, parameters)} of the table _FUNCTIONS."""
    found = {}
    lists = {}  # lists that the table uses by name
    for node in tree.body:
        target = (
            node.target if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [None])[0]
        )
        if not isinstance(target, ast.Name):
            continue
        if isinstance(node.value, ast.List):
            lists[target.id] = len(node.value.elts)
        if target.id == "_FUNCTIONS":
            for key, value in zip(node.value.keys, node.value.values):
                items = value.elts[1].elts
                count = sum(lists[i.value.id] if isinstance(i, ast.Starred) else 1 for i in items)
                found[key.value] = key.lineno, count
    return found


def function_errors(declared, headers):
    for name, (line, count) in declared.items():
        public = headers.functions.get(name)
        if public is None:
            yield f"{LIBRARY}:{line}: {name} is not a function of include/neap"
        elif public != count:
            yield f"{LIBRARY}:{line}: {name} has {public} parameters in C, {count} here"


def structures(tree):
    """Yields (class name, line, [(field, type as text)]) of each Structure."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and any(
            ast.unparse(b) == "Structure" for b in node.bases
        ):
            pairs = next(s.value for s in node.body if isinstance(s, ast.Assign)).elts
            yield node.name, node.lineno, [(p.elts[0].value, ast.unparse(p.elts[1])) for p in pairs]


def is_type(text, c_type, headers):
    if c_type == "*":
        return any(word in text for word in POINTERS)
    kind = headers.kind(c_type.removesuffix("[]"))
    return text == kind or (c_type.endswith("[]") and text.startswith(f"{kind} * "))


def structure_errors(tree, headers):
    names = {python_name(name): name for name in headers.structs}
    for name, line, own in structures(tree):
        theirs = headers.structs.get(names.get(name))
        if theirs is None:
            yield f"{LIBRARY}:{line}: {name} is not a struct of include/neap"
            continue
        if [field for field, _ in own] != [field for field, _ in theirs]:
            yield f"{LIBRARY}:{line}: {name} has other fields than {names[name]}"
            continue
        for (field, text), (_, c_type) in zip(own, theirs):
            if not is_type(text, c_type, headers):
                yield f"{LIBRARY}:{line}: {name}.{field} is {text}, in C {c_type}"


def errors(root):
    if not os.path.isdir(os.path.join(root, CORE)):
        return
    found = dict(trees(root))
    declared = {}
    if LIBRARY in found:
        headers = Headers(root)
        declared = declared_functions(found[LIBRARY])
        yield from function_errors(declared, headers)
        yield from structure_errors(found[LIBRARY], headers)
    for path, tree in found.items():
        if os.path.dirname(path) == CORE:
            yield from import_errors(root, path, tree)
        yield from call_errors(path, tree, declared)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(here)
    found = list(errors(root))
    for error in found:
        print(error)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
