"""A networkx graph as the fields of a graph file. networkx itself is not imported."""

from __future__ import annotations

import heapq
import math
from collections.abc import Hashable, Mapping
from typing import Any

from . import errors

_OP_FIELDS = ("type", "random", "flops", "bytes_moved", "variants")
_INPUT_KINDS = ("input", "parameter")


def graph_dict_of(graph: Any, name: str) -> dict[str, Any]:
    """The graph file of a directed graph (neap.Graph.from_networkx documents the attributes)."""
    if not (hasattr(graph, "is_directed") and hasattr(graph, "predecessors")):
        raise errors.InvalidError(
            f"{type(graph).__name__} is not a directed networkx graph; use networkx.DiGraph"
        )
    order = _topological_order(graph)
    value_of = {node: index for index, node in enumerate(order)}
    values, ops, outputs = [], [], []
    for node in order:
        attributes = graph.nodes[node]
        is_input = attributes.get("kind") in _INPUT_KINDS
        values.append(_value(node, attributes, is_input))
        inputs = sorted({value_of[reader] for reader in graph.predecessors(node)})
        if is_input and inputs:
            raise errors.InvalidError(
                f'node "{node}" is of kind "{attributes["kind"]}" and has predecessors; '
                "leave out its kind to make it an op"
            )
        if not is_input:
            ops.append(_op(node, attributes, inputs, value_of[node]))
        is_sink = not is_input and not any(True for _ in graph.successors(node))
        if attributes.get("output", is_sink):
            outputs.append(value_of[node])
    return {
        "neap": "graph",
        "version": 1,
        "name": str(name),
        "values": values,
        "ops": ops,
        "outputs": outputs,
    }


def _topological_order(graph: Any) -> list[Hashable]:
    """The nodes in the order of insertion, as far as the edges allow."""
    rank = {node: index for index, node in enumerate(graph.nodes)}
    nodes = list(rank)
    waiting = {node: len(set(graph.predecessors(node))) for node in nodes}
    ready = [rank[node] for node in nodes if waiting[node] == 0]
    order: list[Hashable] = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        order.append(node)
        for reader in set(graph.successors(node)):
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heapq.heappush(ready, rank[reader])
    if len(order) < len(nodes):
        stuck = next(node for node in nodes if waiting[node] > 0)
        raise errors.InvalidError(
            f'the graph has a cycle through or before node "{stuck}"; '
            "a training step is a directed acyclic graph"
        )
    return order


def _number(node: Hashable, attributes: Mapping[str, Any], field: str, default: float) -> Any:
    number = attributes.get(field, default)
    try:
        valid = not isinstance(number, (bool, str)) and math.isfinite(number) and number >= 0
    except TypeError:
        valid = False
    if not valid:
        raise errors.InvalidError(
            f'node "{node}": {field} is {number!r}; it must be a number, 0 or more'
        )
    return number


def _size(node: Hashable, attributes: Mapping[str, Any], field: str) -> int:
    return int(_number(node, attributes, field, 0))


def _value(node: Hashable, attributes: Mapping[str, Any], is_input: bool) -> dict[str, Any]:
    if "bytes" not in attributes:
        raise errors.InvalidError(f'node "{node}" has no attribute bytes, the size of its output')
    backward = attributes.get("pass") == "backward"
    kind = attributes["kind"] if is_input else ("gradient" if backward else "activation")
    return {"name": str(node), "kind": kind, "bytes": _size(node, attributes, "bytes")}


def _op(
    node: Hashable, attributes: Mapping[str, Any], inputs: list[int], output: int
) -> dict[str, Any]:
    run_in = attributes.get("pass", "forward")
    if run_in not in ("forward", "backward"):
        raise errors.InvalidError(
            f'node "{node}": pass is {run_in!r}; it must be "forward" or "backward"'
        )
    op = {
        "name": str(node),
        "type": "op",
        "pass": run_in,
        "inputs": inputs,
        "outputs": [output],
        "time": float(_number(node, attributes, "time", 1)),
        "workspace": _size(node, attributes, "workspace"),
    }
    op.update((field, attributes[field]) for field in _OP_FIELDS if field in attributes)
    return op
