"""Exact mode: a program op by op, with the kernels that PyTorch runs without a compiler.

`compile_graph` turns an fx graph into the text of one Python function with a line for every op and a `del` after
every last use, so that a step costs what calling its ops costs. The function takes a list of arguments and empties it:
nothing outside holds what it frees.
"""

from __future__ import annotations

import linecache
import operator
from collections.abc import Callable
from itertools import count
from typing import Any

import torch
from torch import fx

_numbers = count()


def compile_graph(
    module: fx.GraphModule, name: str, begin: Callable[[int], None] | None = None
) -> Callable[[list], tuple]:
    """A function of a list of arguments that runs the graph's nodes in their order.

    `begin` is called before each of `units(module)` with its number.
    """
    writer = _Writer(module, name, begin)
    source = writer.write()
    path = f"<neap {name} {next(_numbers)}>"
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)  # for tracebacks
    exec(compile(source, path, "exec"), writer.names)
    function = writer.names[name]
    function._boxed_call = True
    function.source = source
    return function


def units(module: fx.GraphModule) -> list[fx.Node]:
    """The nodes that may allocate memory, in order."""
    return [node for node in module.graph.nodes if node.op == "call_function" and node.target is not operator.getitem]


class _Writer:
    def __init__(self, module: fx.GraphModule, name: str, begin: Callable[[int], None] | None) -> None:
        self.module = module
        self.name = name
        self.unit_of = {node: i for i, node in enumerate(units(module))} if begin else {}
        self.names: dict[str, Any] = {"_begin": begin} if begin else {}
        self.known: dict[int, str] = {}
        self.lines: list[str] = []

    def write(self) -> str:
        nodes = list(self.module.graph.nodes)
        dies = last_uses(nodes)
        arguments = [node.name for node in nodes if node.op == "placeholder"]
        self.lines.append(f"def {self.name}(args):")
        if arguments:
            self._line(f"[{', '.join(arguments)}] = args")
        self._line("args.clear()")
        unread = [node.name for node in nodes if node.op == "placeholder" and not node.users]
        if unread:
            self._line(f"del {', '.join(unread)}")
        for node in nodes:
            if node.op == "output":
                self._line(f"return {self._text(node.args[0])}")
            elif node.op != "placeholder":
                self._statement(node)
            dead = [n.name for n in dies.get(node, ()) if n.op != "get_attr"]
            if dead and node.op != "output":
                self._line(f"del {', '.join(dead)}")
        return "\n".join(self.lines) + "\n"

    def _line(self, text: str) -> None:
        self.lines.append("    " + text)

    def _statement(self, node: fx.Node) -> None:
        if node.op == "get_attr":
            return
        if node in self.unit_of:
            self._line(f"_begin({self.unit_of[node]})")
        if node.target is operator.getitem:
            text = f"{self._text(node.args[0])}[{self._text(node.args[1])}]"
        else:
            parts = [self._text(a) for a in node.args] + [f"{k}={self._text(v)}" for k, v in node.kwargs.items()]
            text = f"{self._function(node.target)}({', '.join(parts)})"
        self._line(f"{node.name} = {text}" if node.users else text)

    def _function(self, target: Any) -> str:
        if isinstance(target, torch._ops.OpOverload):
            return self._constant(target._op, str(target).replace(".", "_").replace(":", "_"))
        return self._constant(target, getattr(target, "__name__", "function"))

    def _constant(self, value: Any, hint: str) -> str:
        if id(value) not in self.known:
            name = f"_{hint}_{len(self.names)}" if hint.isidentifier() else f"_constant_{len(self.names)}"
            self.known[id(value)] = name
            self.names[name] = value
        return self.known[id(value)]

    def _text(self, value: Any) -> str:
        if isinstance(value, fx.Node):
            if value.op != "get_attr":
                return value.name
            found: Any = self.module
            for part in str(value.target).split("."):
                found = getattr(found, part)
            return self._constant(found, "attribute")
        if isinstance(value, (list, tuple)):
            inner = ", ".join(self._text(v) for v in value)
            if isinstance(value, tuple):
                return f"({inner},)" if value else "()"
            return f"[{inner}]"
        if value is None or type(value) in (bool, int, str):
            return repr(value)
        if isinstance(value, torch._ops.OpOverload):  # as it is: whoever runs it may ask which one it is
            return self._constant(value, f"op_{value._opname}")
        return self._constant(value, type(value).__name__)


def last_uses(nodes: list[fx.Node]) -> dict[fx.Node, list[fx.Node]]:
    """For each node, the nodes that it reads last."""
    seen: set[fx.Node] = set()
    dies: dict[fx.Node, list[fx.Node]] = {}
    for node in reversed(nodes):
        for source in node.all_input_nodes:
            if source not in seen:
                seen.add(source)
                dies.setdefault(node, []).append(source)
    return dies
