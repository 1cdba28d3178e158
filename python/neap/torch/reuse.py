"""How much of what an op reads is still in the device's cache from the ops before it.

A kernel that reads what its predecessor wrote finds it in the device's last-level cache if it is small enough;
what the forward pass saved long ago comes from memory. The two differ by up to a third for ops on tensors of 10
to 50 MB, so costs are measured both ways and mixed by the bytes that each node reads either way when the graph
runs in its own order.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import torch
from torch.fx import Node

from .op_signature import is_getitem, leaves, output_tensors, spec_of, tensor_arguments, value_of

USABLE = 0.6  # of the cache: replacement is not strictly the least recently used, and outputs take their part


def cached_shares(
    nodes: Sequence[Node], alias: Mapping[Node, tuple[int | None, ...]], cache_bytes: int
) -> dict[Node, float]:
    """For each node of ``alias``, the part of its input bytes that were last touched within the cache's
    capacity.

    alias[node] says which outputs share an argument's storage, as ``OpCost.alias`` does.
    """
    capacity = USABLE * cache_bytes
    sizes: dict[Node, int] = {}
    roots: dict[Node, Any] = {}  # node -> what owns its storage: a node, or (node, number of the output)
    touched: dict[Any, int] = {}  # owner -> the clock when it was last read or written
    shares: dict[Node, float] = {}
    clock = 0  # bytes read and written so far
    for node in nodes:
        if node not in alias:
            continue
        if is_getitem(node):
            source = node.args[0]
            roots[node] = roots.get(source, (source, node.args[1]))
            continue
        sources = tensor_arguments(node)
        shared = alias[node][0] if alias[node] else None
        if shared is not None and shared < len(sources):
            roots[node] = roots.get(sources[shared], sources[shared])
            if not getattr(getattr(node.target, "_schema", None), "is_mutable", False):
                continue  # a view touches nothing
        owners = {roots.get(source, source): _size(source, sizes) for source in sources}
        cached = 0.0
        for owner, size in owners.items():
            if owner in touched:
                cached += min(size, max(0.0, capacity - (clock - touched[owner])))
        shares[node] = cached / (sum(owners.values()) or 1)
        clock += sum(owners.values())
        touched.update(dict.fromkeys(owners, clock))
        clock += _touch_outputs(node, roots, touched, clock)
    return shares


def _touch_outputs(node: Node, roots: dict[Node, Any], touched: dict[Any, int], clock: int) -> int:
    """Notes that a node has written its outputs; returns their bytes."""
    outputs = output_tensors(node)
    written = sum(spec_of(output).touched_bytes for output in outputs if output is not None)
    touched[roots.get(node, node)] = clock + written
    for index in range(len(outputs)):
        touched[(node, index)] = clock + written
    return written


def _size(node: Node, sizes: dict[Node, int]) -> int:
    if node not in sizes:
        sizes[node] = sum(spec_of(value).touched_bytes for value in leaves(value_of(node), torch.Tensor))
    return sizes[node]
