"""Makes the joint graph of exact mode as cheap as the step that PyTorch runs without a compiler.

Tracing takes some ops apart or replaces them by slower ones, and makes copies that autograd does not. `prepare` undoes
this, node by node, without a change to any result: what replaces a node gives the same bits, or, for batch norm on a
GPU, the bits that PyTorch gives without a compiler.
"""

from __future__ import annotations

import operator

import torch
from torch import fx

from . import batch_norm as norms

aten = torch.ops.aten

_NORM = aten._native_batch_norm_legit_functional.default
_NORM_GRADIENTS = aten.native_batch_norm_backward.default


def prepare(module: fx.GraphModule) -> fx.GraphModule:
    """Rewrites the joint graph in place and returns it. Placeholders and outputs stay."""
    use_cudnn(module.graph)
    module.graph.lint()
    return module


# ---- batch norm ----


def runs_in_cudnn(source: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None,
                  running_mean: torch.Tensor, running_var: torch.Tensor, eps: float) -> bool:
    """Whether a training batch norm of these tensors runs in cuDNN without a compiler."""
    select = getattr(torch._C, "_select_batch_norm_backend", None)
    if select is None or source.device.type != "cuda" or weight is None or bias is None:
        return False
    return select(source, weight, bias, running_mean, running_var, True, eps) == torch._C._BatchNormBackend.Cudnn


def use_cudnn(graph: fx.Graph) -> int:
    """Replaces training batch norms and their gradients by cuDNN's; returns how many."""
    count = 0
    for node in graph.find_nodes(op="call_function", target=_NORM):
        gradients = [user for user in _readers(node) if user.target is _NORM_GRADIENTS]
        if _is_cudnn_norm(node) and all(_same_norm(node, each) for each in gradients):
            count += _replace_norm(graph, node, gradients)
    return count


def _readers(node: fx.Node) -> list[fx.Node]:
    """The nodes that read the saved mean of a batch norm."""
    return [user for item in node.users if item.args[1] == 1 for user in item.users]


def _is_cudnn_norm(node: fx.Node) -> bool:
    source, weight, bias, mean, var, training, _, eps = node.args
    tensors = [n.meta.get("val") if n is not None else None for n in (source, weight, bias, mean, var)]
    return training is True and runs_in_cudnn(*tensors, eps)


def _same_norm(node: fx.Node, gradients: fx.Node) -> bool:
    """Whether `gradients` is the backward op of the batch norm `node`, in training mode."""
    _, source, weight, _, _, mean, inverse, train, eps, _ = gradients.args
    saved = {item.args[1]: item for item in node.users}
    return ((source, weight, eps) == (node.args[0], node.args[1], node.args[7]) and train is True
            and (mean, inverse) == (saved.get(1), saved.get(2)))


def _replace_norm(graph: fx.Graph, node: fx.Node, gradients: list[fx.Node]) -> bool:
    source, weight, bias, mean, var, _, momentum, eps = node.args
    new = _call(graph, node, norms.batch_norm, (source, weight, bias, mean, var, momentum, eps))
    backward = [_call(graph, each, norms.batch_norm_gradients, (each.args[0], source, weight, None, None, None, eps),
                      like=(each.args[0], source, weight)) for each in gradients]
    if not all(_same_layout(a, b, moved) for a, b, moved in
               [(node, new, _MOVED)] + [(a, b, {}) for a, b in zip(gradients, backward)]):
        for each in (*backward, new):
            graph.erase_node(each)
        return False
    _move_items(node, new, _MOVED)
    for old, each in zip(gradients, backward):
        each.args = (old.args[0], source, weight, old.args[5], old.args[6], _item(graph, new, 3), eps)
        _move_items(old, each, {})
        graph.erase_node(old)
    graph.erase_node(node)
    return True


_MOVED = {3: 4, 4: 5}  # outputs of the traced batch norm that stand elsewhere among cuDNN's: the next statistics


def _call(graph: fx.Graph, before: fx.Node, target: torch._ops.OpOverload, args: tuple,
          like: tuple | None = None) -> fx.Node:
    """A node in front of `before`, with its values. `like` are the arguments that decide about them."""
    with graph.inserting_before(before):
        node = graph.call_function(target, args)
    node.meta = dict(before.meta)
    values = fx.node.map_arg(like or args, lambda n: n.meta["val"])
    mode = values[0].fake_mode
    with mode:
        node.meta["val"] = (norms.FAKE[target])(*values)
    return node


def _same_layout(old: fx.Node, new: fx.Node, moved: dict[int, int]) -> bool:
    """Whether every output that is read keeps its sizes, strides and type."""
    for item in old.users:
        before, after = item.meta["val"], new.meta["val"][moved.get(item.args[1], item.args[1])]
        if (before.shape, before.stride(), before.dtype) != (after.shape, after.stride(), after.dtype):
            return False
    return True


def _move_items(old: fx.Node, new: fx.Node, moved: dict[int, int]) -> None:
    for item in list(old.users):
        item.args = (new, moved.get(item.args[1], item.args[1]))


def _item(graph: fx.Graph, node: fx.Node, index: int) -> fx.Node:
    for user in node.users:
        if user.target is operator.getitem and user.args[1] == index:
            return user
    with graph.inserting_after(node):
        item = graph.call_function(operator.getitem, (node, index))
    item.meta = {key: node.meta[key] for key in ("stack_trace",) if key in node.meta}
    item.meta["val"] = node.meta["val"][index]
    return item
