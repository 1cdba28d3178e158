"""Channels-last layout for convolutions, decided once for the joint graph.

Inductor lays out the tensors around convolutions as channels last where its heuristics expect that to be faster
(`GraphLowering.decide_layout_opt`). It decides for each graph that it compiles and keeps the original layout at
the graph's inputs and outputs. A program in segments has many of those; so the layout is changed in the joint graph
instead, and all segments take and return channels-last tensors.
"""

from __future__ import annotations

import copy
import logging

import torch
from torch import fx

aten = torch.ops.aten
log = logging.getLogger(__name__)

_COPY = "neap_layout_copy"  # marks the copies that change the layout of an input
_FIXED_STRIDES = {aten.as_strided.default, aten.as_strided_scatter.default, aten.empty_strided.default,
                  aten.new_empty_strided.default}


def use_channels_last(module: fx.GraphModule) -> fx.GraphModule:
    """The same graph with convolutions in channels-last layout, or `module` itself where that does not help or fit.

    Only the graph of the result is up to date: its code is never run.
    """
    if not _helps(module) or any(node.target in _FIXED_STRIDES for node in module.graph.nodes):
        return module
    changed = copy.copy(module)
    changed.graph = copy.deepcopy(module.graph)
    for old, new in zip(module.graph.nodes, changed.graph.nodes):
        new.meta = dict(old.meta)
    try:
        strides = _output_strides(changed)
        _convert_inputs(changed.graph)
        _propagate(changed)
        _restore_outputs(changed.graph, strides)
    except Exception as error:  # an op that does not take this layout; the original graph is always right
        log.debug("channels-last layout is not used: %s", error)
        return module
    changed.graph.lint()
    return changed


def _helps(module: fx.GraphModule) -> bool:
    from torch._inductor.graph import GraphLowering

    if not any(_is_convolution(node) for node in module.graph.nodes):
        return False
    try:
        return bool(GraphLowering.decide_layout_opt(module, is_inference=False))
    except Exception as error:  # a private function: without it the layout stays
        log.debug("Inductor's layout decision is not available: %s", error)
        return False


def _is_convolution(node: fx.Node) -> bool:
    return node.target is aten.convolution.default and _is_image(node.args[0]) and _is_image(node.args[1])


def _is_image(node: object) -> bool:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return isinstance(value, torch.Tensor) and value.dim() == 4


def _output_strides(module: fx.GraphModule) -> list[tuple[int, ...] | None]:
    output = next(iter(module.graph.find_nodes(op="output")))
    values = [n.meta.get("val") if isinstance(n, fx.Node) else None for n in output.args[0]]
    return [tuple(v.stride()) if isinstance(v, torch.Tensor) else None for v in values]


def _convert_inputs(graph: fx.Graph) -> None:
    """Copies the images and weights that convolutions read from the graph's inputs into channels-last layout."""
    converted: dict[fx.Node, fx.Node] = {}
    for node in list(graph.nodes):
        if not _is_convolution(node):
            continue
        for source in node.args[:2]:
            if source.op not in ("placeholder", "get_attr"):
                continue
            if source not in converted:
                if source.meta["val"].is_contiguous(memory_format=torch.channels_last):
                    continue
                with graph.inserting_before(node):
                    converted[source] = graph.call_function(
                        aten.clone.default, (source,), {"memory_format": torch.channels_last})
                converted[source].meta = {"val": source.meta["val"], _COPY: True}
            node.replace_input_with(source, converted[source])
    for node in list(graph.nodes):
        if node.target is aten.convolution_backward.default:
            for source in node.args[1:3]:
                if source in converted:
                    node.replace_input_with(source, converted[source])


def _propagate(module: fx.GraphModule) -> None:
    """Recomputes the layouts that follow from the copies. An op that does not take the layout that it gets raises."""
    from torch._inductor.virtualized import V

    mode = V.fake_mode
    changed: set[fx.Node] = set()
    for node in list(module.graph.nodes):
        if node.op == "get_attr" and "val" not in node.meta:
            node.meta["val"] = mode.from_tensor(getattr(module, node.target))
        elif node.op == "call_function" and (_COPY in node.meta or not changed.isdisjoint(node.all_input_nodes)):
            if node.target is aten.view.default and not _is_viewable(node):
                _insert_dense_copy(node, mode)
            before = _strides(node.meta.get("val"))
            _evaluate(node, mode)
            if _COPY in node.meta or _strides(node.meta["val"]) != before:
                changed.add(node)


def _insert_dense_copy(node: fx.Node, mode: object) -> None:
    source = node.args[0]
    with node.graph.inserting_before(node):
        dense = node.graph.call_function(aten.clone.default, (source,), {"memory_format": torch.contiguous_format})
    dense.meta = dict(source.meta)
    node.replace_input_with(source, dense)
    _evaluate(dense, mode)


def _strides(value: object) -> object:
    if isinstance(value, (tuple, list)):
        return [_strides(v) for v in value]
    return tuple(value.stride()) if isinstance(value, torch.Tensor) else None


def _evaluate(node: fx.Node, mode: object) -> None:
    args, kwargs = fx.node.map_arg((node.args, dict(node.kwargs)), lambda source: source.meta["val"])
    with mode, torch.no_grad():
        node.meta["val"] = node.target(*args, **kwargs)
    node.meta.pop("tensor_meta", None)


def _is_viewable(node: fx.Node) -> bool:
    value = node.args[0].meta["val"]
    like = torch.empty_strided(tuple(value.shape), value.stride(), device="meta")
    try:
        like.view(node.args[1])
    except RuntimeError:
        return False
    return True


def _same_strides(value: torch.Tensor, stride: tuple[int, ...]) -> bool:
    """Whether a tensor has these strides. The stride of a dimension of size 1 means nothing."""
    return all(size == 1 or mine == other for size, mine, other in zip(value.shape, value.stride(), stride))


def _restore_outputs(graph: fx.Graph, strides: list[tuple[int, ...] | None]) -> None:
    """Copies results whose layout has changed back into the layout that their readers outside expect."""
    from torch._inductor.virtualized import V

    output = next(iter(graph.find_nodes(op="output")))
    results = list(output.args[0])
    for index, (node, stride) in enumerate(zip(results, strides)):
        if stride is None or not isinstance(node, fx.Node) or _same_strides(node.meta["val"], stride):
            continue
        like = torch.empty_strided(tuple(node.meta["val"].shape), stride, device="meta")
        if like.is_contiguous():
            layout = torch.contiguous_format
        elif like.dim() == 4 and like.is_contiguous(memory_format=torch.channels_last):
            layout = torch.channels_last
        else:
            raise ValueError(f"the result {node.name} has strides {stride}")
        with graph.inserting_after(node):
            back = graph.call_function(aten.clone.default, (node,), {"memory_format": layout})
        back.meta = {k: v for k, v in node.meta.items() if k not in ("val", "tensor_meta")}
        _evaluate(back, V.fake_mode)
        results[index] = back
    output.args = (type(output.args[0])(results),)
