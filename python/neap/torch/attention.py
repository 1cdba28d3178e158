"""Takes masks out of attention that the model builds only because it is being compiled.

transformers passes no mask to scaled_dot_product_attention where `is_causal` says the same, or where nothing is masked.
While a model is traced by torch.compile it builds the mask all the same, and attention with a mask reads it, computes
twice as many scores, and excludes the fastest kernels. This pass finds such masks in the graph that Dynamo captured and
takes them out, so that the step runs the attention kernels that it runs without a compiler.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

DEVICES = {"cuda"}  # where a mask costs much: kernels for the CPU take it in their stride
_ATTENTION = torch.nn.functional.scaled_dot_product_attention
_BUILDERS = ("transformers/masking_utils.py", "transformers/modeling_attn_mask_utils.py")
_KEYWORDS = {"and_", "or_", "not_", "is_"}  # of operator; these end with an underscore and change nothing
_IN_PLACE = {"setitem", "delitem", "iadd", "iand", "iconcat", "ifloordiv", "ilshift", "imatmul", "imod", "imul", "ior",
             "ipow", "irshift", "isub", "itruediv", "ixor"}
_MOST_ELEMENTS = 1 << 28  # of a mask that is evaluated


def drop_needless_masks(module: fx.GraphModule) -> int:
    """Changes the attention calls of a Dynamo graph whose mask is causal or empty; returns how many."""
    count = 0
    known: dict[fx.Node, str] = {}
    for node in module.graph.find_nodes(op="call_function", target=_ATTENTION):
        mask = _argument(node, 3, "attn_mask")
        if not isinstance(mask, fx.Node) or _argument(node, 5, "is_causal") or not _built_for_tracing(mask):
            continue
        if mask not in known:
            known[mask] = _kind(mask)
        if known[mask]:
            node.args, node.kwargs = node.args[:3], _without_mask(node, known[mask] == "causal")
            count += 1
    if count:
        module.recompile()
    return count


def _argument(node: fx.Node, position: int, name: str) -> Any:
    return node.args[position] if len(node.args) > position else node.kwargs.get(name)


def _without_mask(node: fx.Node, causal: bool) -> dict[str, Any]:
    names = ("attn_mask", "dropout_p", "is_causal")
    given = {**dict(zip(names, node.args[3:])), **node.kwargs}
    return {**given, "attn_mask": None, "is_causal": causal}


def _built_for_tracing(mask: fx.Node) -> bool:
    """Whether the mask was built where transformers would have left it out without a compiler."""
    trace = (mask.meta.get("stack_trace") or "").replace("\\", "/")
    return any(builder in trace for builder in _BUILDERS)


def _kind(mask: fx.Node) -> str:
    """`causal`, `empty` (nothing is masked), or an empty string for any other mask."""
    example = mask.meta.get("example_value")
    if not isinstance(example, torch.Tensor) or example.dim() < 2:
        return ""
    if any(not isinstance(size, int) for size in (*example.shape, *example.stride())):
        return ""
    if _elements(example.shape, example.stride()) > _MOST_ELEMENTS:
        return ""
    value = _constant(mask)
    if value is None:
        return ""
    one = _without_repeats(value)
    allowed = one if one.dtype == torch.bool else one == 0
    if one.dtype != torch.bool and not bool((allowed | (one <= torch.finfo(one.dtype).min)).all()):
        return ""
    if bool(allowed.all()):
        return "empty"
    lower = torch.ones(allowed.shape[-2:], dtype=torch.bool).tril()
    square = value.shape[-1] == value.shape[-2] and allowed.shape[-2:] == value.shape[-2:]
    return "causal" if square and torch.equal(allowed, lower.expand_as(allowed)) else ""


def _elements(shape: tuple[int, ...], stride: tuple[int, ...]) -> int:
    count = 1
    for size, step in zip(shape, stride):
        count *= size if step else 1
    return count


def _without_repeats(value: torch.Tensor) -> torch.Tensor:
    for dim, step in enumerate(value.stride()):
        if step == 0 and value.shape[dim] > 1:
            value = value.narrow(dim, 0, 1)
    return value


def _constant(node: fx.Node) -> torch.Tensor | None:
    """The value of a node that depends on no input of the graph, computed on the CPU; else None."""
    values: dict[fx.Node, Any] = {}
    try:
        with torch.no_grad():
            for each in _needed(node):
                values[each] = _evaluate(each, values)
    except (_NotConstant, RuntimeError, TypeError, ValueError, NotImplementedError):
        return None
    return values[node] if isinstance(values[node], torch.Tensor) else None


class _NotConstant(Exception):
    pass


def _needed(node: fx.Node) -> Iterator[fx.Node]:
    """The node after everything it depends on."""
    found = {node}
    pending = [node]
    while pending:
        for source in pending.pop().all_input_nodes:
            if source not in found:
                found.add(source)
                pending.append(source)
    return (each for each in node.graph.nodes if each in found)


def _evaluate(node: fx.Node, values: dict[fx.Node, Any]) -> Any:
    if node.op not in ("call_function", "call_method") or "rand" in str(node.target):
        raise _NotConstant
    if any(map(_overwrites, (node, *node.users))):
        raise _NotConstant
    args, kwargs = fx.node.map_aggregate((node.args, dict(node.kwargs)), lambda a: _real(a, values))
    if node.op == "call_method":
        return getattr(args[0], str(node.target))(*args[1:], **kwargs)
    return node.target(*args, **kwargs)


def _overwrites(node: fx.Node) -> bool:
    """Whether the node may change one of its arguments in place."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    in_place = name.endswith("_") and not name.endswith("__") and name not in _KEYWORDS
    return in_place or name in _IN_PLACE or "out" in node.kwargs


def _real(argument: Any, values: dict[fx.Node, Any]) -> Any:
    if isinstance(argument, fx.Node):
        return values[argument]
    return torch.device("cpu") if isinstance(argument, torch.device) else argument
