"""Cuts a program into segments: stretches of nodes that Inductor compiles apart and that run in plan order.

Inductor orders and fuses freely inside of a graph. Given a whole pass it runs recomputations early, and the memory
that the plan saves is lost. A segment is short enough for that not to matter and long enough for fusion.

A cut costs: what crosses it is written to memory and read again. `cut` chooses the cuts at low points of the bytes
that cross, never inside of a unit of the plan, and never lets a unit and its recomputation into one segment.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import fx

from .op_kinds import is_view

SEGMENT_NODES = 60
_LENGTH_WEIGHT = 0.1  # of a segment's length, against the bytes at its end
_COMPILE_WEIGHT = 0.3  # of a segment of the target length that occurs once
_SEGMENT_WORK = 0.3  # compiling any segment, in segments of the target length
_NEAR = 40  # items


@dataclass
class Segment:
    """Nodes that are compiled together. Views are made again where they are read and are not listed."""

    nodes: list[fx.Node]
    inputs: list[fx.Node] = field(default_factory=list)
    outputs: list[fx.Node] = field(default_factory=list)


@dataclass
class _Item:
    """Nodes that no cut may separate."""

    nodes: list[fx.Node]
    unit: object

    @property
    def length(self) -> int:
        return sum(node.target is not operator.getitem for node in self.nodes)


def is_compiled(node: fx.Node) -> bool:
    """Whether Inductor compiles the node. Python functions, such as copies to the host, run between segments."""
    if node.target is operator.getitem:
        return is_compiled(node.args[0])
    return node.op == "call_function" and isinstance(
        node.target, (torch._ops.OpOverload, torch._ops.HigherOrderOperator))


def cut(module: fx.GraphModule, segment_nodes: int = SEGMENT_NODES) -> list[Segment | fx.Node]:
    """The program as segments of about `segment_nodes` nodes and single nodes that are no ops, in the order of the graph."""
    steps: list[Segment | fx.Node] = []
    crossing = _bytes_after(module.graph)
    for stretch in _stretches(module.graph):
        if isinstance(stretch, fx.Node):
            steps.append(stretch)
            continue
        starts = _choose(stretch, crossing, segment_nodes)
        for begin, end in zip(starts, [*starts[1:], len(stretch)]):
            steps.append(Segment([node for item in stretch[begin:end] for node in item.nodes]))
    _connect(module.graph, steps)
    return steps


def advance_writes(graph: fx.Graph) -> int:
    """Moves units that overwrite an input to where the last of what they read is computed; returns how many moved.

    AOTAutograd traces them at the end of a pass. Next to a batch norm, the update of its running statistics shares
    the kernel of its sums; anywhere else it takes kernels of its own.
    """
    runs = _runs(graph)
    home = {node: number for number, run in enumerate(runs) for node in run}
    last = [run[-1] for run in runs]
    count = 0
    for number, run in enumerate(runs):
        written = {base_of(node.args[0]) for node in run if has_effect(node)}
        source = max((home[s] for node in run for s in node.all_input_nodes if home.get(s, number) != number), default=number)
        readers = {home.get(user, number) for value in written for user in _users(value)}
        moves = any(not any(map(has_effect, between)) for between in runs[source + 1:number])
        if not written or not moves or any(source < reader != number for reader in readers):
            continue
        for node in run:
            last[source].append(node)
            last[source] = node
        count += 1
    return count


def has_effect(node: fx.Node) -> bool:
    """Whether the node overwrites one of its arguments."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _runs(graph: fx.Graph) -> list[list[fx.Node]]:
    """The nodes of each unit that stand together; a node without a unit stands alone."""
    runs: list[list[fx.Node]] = []
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        unit = node.meta.get("neap_unit")
        if runs and unit is not None and runs[-1][-1].meta.get("neap_unit") == unit:
            runs[-1].append(node)
        else:
            runs.append([node])
    return runs


def base_of(node: fx.Node) -> fx.Node:
    """The node whose storage a view, or an op that overwrites its argument, returns; else the node itself."""
    while is_compiled(node) and (is_view(node) or node.target is torch.ops.aten.copy_.default):
        node = node.args[0]
    return node


# ---- stretches ----


def _stretches(graph: fx.Graph) -> list[list[_Item] | fx.Node]:
    """The items between nodes that are not compiled, and those nodes."""
    result: list[list[fx.Node] | fx.Node] = []
    for node in graph.nodes:
        if node.op != "call_function" or (is_compiled(node) and is_view(node)):
            continue
        if not is_compiled(node):
            result.append(node)
        elif node.target is operator.getitem:
            _append_item(result, node)
        elif result and isinstance(result[-1], list):
            result[-1].append(node)
        else:
            result.append([node])
    return [part if isinstance(part, fx.Node) else _items(part) for part in result]


def _append_item(parts: list[list[fx.Node] | fx.Node], node: fx.Node) -> None:
    """An op and the items of its result stay together."""
    home = next(part for part in reversed(parts) if isinstance(part, list) and node.args[0] in part)
    home.append(node)


def _items(nodes: Sequence[fx.Node]) -> list[_Item]:
    items: list[_Item] = []
    item_of: dict[fx.Node, _Item] = {}
    for node in nodes:
        if node.target is operator.getitem:
            item_of[node] = item_of[node.args[0]]
            item_of[node].nodes.append(node)
            continue
        unit = node.meta.get("neap_unit")
        if items and unit is not None and items[-1].unit == unit and not _repeats(items[-1], node):
            items[-1].nodes.append(node)
        else:
            items.append(_Item([node], unit))
        item_of[node] = items[-1]
    return _with_writes(items)


def _with_writes(items: list[_Item]) -> list[_Item]:
    """Items that overwrite an input with what the item before them computes become part of it."""
    result: list[_Item] = []
    for item in items:
        if result and any(map(has_effect, item.nodes)):
            sources = {base_of(s) for node in item.nodes for s in node.all_input_nodes}
            if not sources.isdisjoint(result[-1].nodes):
                result[-1].nodes += item.nodes
                continue
        result.append(item)
    return result


def _repeats(item: _Item, node: fx.Node) -> bool:
    """Whether the node starts another run of the unit that it follows."""
    origin = node.meta.get("neap_origin")
    return origin is not None and any(n.meta.get("neap_origin") == origin for n in item.nodes)


def _bytes_after(graph: fx.Graph) -> dict[fx.Node, int]:
    """For each node the bytes of computed values that later nodes read."""
    last: dict[fx.Node, fx.Node] = {}
    for node in graph.nodes:
        if node.op != "output":
            for source in node.all_input_nodes:
                last[base_of(source)] = node
    ending: dict[fx.Node, list[fx.Node]] = {}
    for value, reader in last.items():
        ending.setdefault(reader, []).append(value)
    live, result = 0, {}
    for node in graph.nodes:
        if node.op == "call_function" and node in last:
            live += value_bytes(node)
        live -= sum(value_bytes(v) for v in ending.get(node, ()) if v.op == "call_function")
        result[node] = live
    return result


def value_bytes(node: fx.Node) -> int:
    """Bytes of a node's result; 0 for views and for nodes with several results (their items count)."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or (is_compiled(node) and node.op == "call_function" and is_view(node)):
        return 0
    return int(value.numel()) * value.element_size()


# ---- cuts ----


def _choose(stretch: list[_Item], crossing: dict[fx.Node, int], target: int) -> list[int]:
    """Dynamic program over the ends of segments.

    The price of a segment: the bytes that cross its end, in parts of the most that cross anywhere; the work of
    compiling it, shared by all stretches of items that look the same; and its length where it is far from the target.
    """
    after = [crossing[item.nodes[-1]] for item in stretch]
    scale = max(after, default=0) or 1
    longest = max(2 * target, 1)
    repeats = _Repeats(stretch, longest)
    best: list[float] = [0.0]
    origin: list[int] = [0]
    for end in range(1, len(stretch) + 1):
        price = 0.0 if end == len(stretch) else after[end - 1] / scale
        best.append(float("inf"))
        origin.append(end - 1)
        length, seen = 0, set()
        for begin in range(end - 1, -1, -1):
            item = stretch[begin]
            length += item.length
            if begin < end - 1 and (length > longest or item.unit in seen):
                break
            if item.unit is not None:
                seen.add(item.unit)
            work = _COMPILE_WEIGHT * (_SEGMENT_WORK + length / target) / repeats.count(begin, end)
            value = best[begin] + price + work + _LENGTH_WEIGHT * (length / target - 1) ** 2
            if value < best[end]:
                best[end], origin[end] = value, begin
    starts, end = [], len(stretch)
    while end > 0:
        starts.append(origin[end])
        end = origin[end]
    return starts[::-1] or [0]


class _Repeats:
    """How often a run of items occurs in a stretch. Models repeat their layers; equal segments are compiled once."""

    def __init__(self, stretch: list[_Item], longest: int) -> None:
        position = {node: i for i, item in enumerate(stretch) for node in item.nodes}
        numbers: dict[str, int] = {}
        self.looks = [numbers.setdefault(_look(item, i, position), len(numbers)) for i, item in enumerate(stretch)]
        self.length = [item.length for item in stretch]
        self.longest = longest
        self.counts: dict[tuple[int, ...], int] = {}
        for begin in range(len(stretch)):
            total = 0
            for end in range(begin + 1, len(stretch) + 1):
                total += self.length[end - 1]
                if total > longest and end > begin + 1:
                    break
                run = tuple(self.looks[begin:end])
                self.counts[run] = self.counts.get(run, 0) + 1

    def count(self, begin: int, end: int) -> int:
        return self.counts.get(tuple(self.looks[begin:end]), 1)


def _look(item: _Item, index: int, position: dict[fx.Node, int]) -> str:
    """What an item does, without names: ops, constants, layouts, and how far back its inputs are computed."""
    inside = {node: i for i, node in enumerate(item.nodes)}

    def show(source: fx.Node) -> _Name:
        if source in inside:
            return _Name(f"n{inside[source]}")
        base = base_of(source)
        distance = index - position[base] if base in position else 0
        value = source.meta.get("val")
        shape = f"{tuple(value.shape)}{value.dtype}" if isinstance(value, torch.Tensor) else ""
        return _Name(f"{distance if distance <= _NEAR else 'far'}:{shape}")

    return ";".join(f"{_target(n)} {fx.node.map_arg((n.args, dict(n.kwargs)), show)!r}" for n in item.nodes)


# ---- inputs and outputs ----


def _connect(graph: fx.Graph, steps: list[Segment | fx.Node]) -> None:
    """Finds what each segment reads from outside and what others read of it."""
    output = next(iter(graph.find_nodes(op="output")))
    returned = [n for n in output.all_input_nodes]
    home = {node: step for step in steps if isinstance(step, Segment) for node in step.nodes}
    needed: dict[fx.Node, None] = {}
    for step in steps:
        for source in _reads(step):
            if home.get(source) is not step:
                needed.setdefault(source)
        if isinstance(step, Segment):
            inside = set(step.nodes)
            step.inputs = [s for s in _reads(step) if s not in inside]
    for node in returned:
        needed.setdefault(base_of(node))
    shown = {base_of(n): n for n in returned if base_of(n) is not n}
    for node in needed:
        if node in home:
            home[node].outputs.append(node)
    for base, view in shown.items():  # a view of what only the caller gets is returned instead of what it shows
        if base in home and all(_is_within(home[base], user) for user in _users(base)) and returned_once(base, returned):
            outputs = home[base].outputs
            outputs[outputs.index(base)] = view


def returned_once(base: fx.Node, returned: Sequence[fx.Node]) -> bool:
    return sum(base_of(node) is base for node in returned) == 1


def _is_within(segment: Segment, user: fx.Node) -> bool:
    return user.op == "output" or user in segment.nodes


def _users(node: fx.Node) -> list[fx.Node]:
    found = []
    for user in node.users:
        found += _users(user) if is_compiled(user) and is_view(user) else [user]
    return found


def _reads(step: Segment | fx.Node) -> list[fx.Node]:
    """The values that a step reads, through views, in the order of reading."""
    found: dict[fx.Node, None] = {}
    for node in step.nodes if isinstance(step, Segment) else [step]:
        for source in node.all_input_nodes:
            found.setdefault(base_of(source))
    return list(found)


# ---- the graph of a segment ----


def segment_key(segment: Segment, describe: Callable[[fx.Node], str], dying: set[fx.Node]) -> str:
    """A text that is equal for segments whose compiled code is the same."""
    names = {node: f"i{i}" for i, node in enumerate(segment.inputs)}
    lines = [f"{names[n]} {describe(n)} {n in dying}" for n in segment.inputs]
    for node in _with_views(segment):
        args, kwargs = fx.node.map_arg((node.args, dict(node.kwargs)), lambda s: _Name(names[s]))
        names[node] = f"n{len(names)}"
        lines.append(f"{names[node]} = {_target(node)} {args!r} {sorted(kwargs.items())!r}")
    lines.append("return " + " ".join(names[n] for n in segment.outputs))
    return "\n".join(lines)


def build_graph(segment: Segment, dying: set[fx.Node]) -> fx.GraphModule:
    """The segment as an fx module with names that depend on its structure alone.

    Inputs that die in it have names that Inductor takes for buffers that it may free.
    """
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for index, node in enumerate(segment.inputs):
        copies[node] = graph.placeholder(f"saved_{index}" if node in dying else f"primals_{index}")
    for node in _with_views(segment):
        copies[node] = graph.create_node("call_function", node.target,
                                         *fx.node.map_arg((node.args, dict(node.kwargs)), copies.__getitem__),
                                         name=f"op_{len(copies)}")
        if node.meta.get("neap_kept"):
            copies[node].meta["inductor_realize_to_strides"] = True  # Inductor keeps it, as the plan does
    output = graph.output(tuple(copies[n] for n in segment.outputs))
    output.meta["user_visible_output_idxs"] = list(range(len(segment.outputs)))
    graph.lint()
    return fx.GraphModule({}, graph)


def _with_views(segment: Segment) -> list[fx.Node]:
    """The nodes of a segment with the views that they read, each before its first reader."""
    done: dict[fx.Node, None] = dict.fromkeys(segment.inputs)

    def add(node: fx.Node) -> None:
        if node in done:
            return
        if is_compiled(node) and is_view(node):
            add(node.args[0])
        done[node] = None

    for node in segment.nodes:
        for source in node.all_input_nodes:
            add(source)
        done[node] = None
    for node in segment.outputs:
        add(node)
    inputs = set(segment.inputs)
    return [node for node in done if node not in inputs]


class _Name(str):
    def __repr__(self) -> str:
        return str(self)


def _target(node: fx.Node) -> str:
    return node.target.name() if hasattr(node.target, "name") and callable(node.target.name) else str(node.target)
