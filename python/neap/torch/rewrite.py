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
from .joint import aliased_input, is_impure, is_random, is_tangent, mutated_arguments, mutated_inputs

aten = torch.ops.aten

_NORM = aten._native_batch_norm_legit_functional.default
_NORM_GRADIENTS = aten.native_batch_norm_backward.default


def prepare(module: fx.GraphModule) -> fx.GraphModule:
    """Rewrites the joint graph in place and returns it. Placeholders and outputs stay."""
    count_together(module.graph)
    use_cudnn(module.graph)
    drop_copies(module.graph)
    drop_identities(module.graph)
    merge_repeats(module.graph)
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


# ---- counters ----


def count_together(graph: fx.Graph) -> int:
    """Computes the counters of batches that are returned (num_batches_tracked) by one op; returns how many."""
    output = next(iter(graph.find_nodes(op="output")))
    counts = [node for node in graph.find_nodes(op="call_function", target=aten.add.Tensor)
              if _is_count(node) and set(node.users) == {output}]
    if len(counts) < 2 or len({node.meta["val"].device for node in counts}) > 1:
        return 0
    with graph.inserting_before(counts[0]):
        together = graph.call_function(norms.count, ([node.args[0] for node in counts],))
        together.meta = {**counts[0].meta, "val": [node.meta["val"] for node in counts]}
        items = [graph.call_function(operator.getitem, (together, index)) for index in range(len(counts))]
    for node, item in zip(counts, items):
        item.meta = dict(node.meta)
        node.replace_all_uses_with(item)
        graph.erase_node(node)
    return len(counts)


def _is_count(node: fx.Node) -> bool:
    counter, value = node.args[0], node.meta["val"]
    return (isinstance(counter, fx.Node) and counter.op == "placeholder" and node.args[1:] == (1,) and not node.kwargs
            and value.dtype == torch.int64 and value.dim() == 0)


# ---- copies, identities and repeats ----


class _Storages:
    """Which nodes share a storage, and what must keep one of its own."""

    def __init__(self, graph: fx.Graph) -> None:
        self.base: dict[fx.Node, fx.Node] = {}
        output = next(iter(graph.find_nodes(op="output")))
        placeholders = graph.find_nodes(op="placeholder")
        for node in graph.nodes:
            source = _shared(node)
            self.base[node] = self.base[source] if source is not None else node
        self.returned = {self.base[n] for n in output.all_input_nodes}
        self.written = {self.base[n] for n in mutated_inputs(output, placeholders)}
        for node in graph.nodes:
            self.written.update(self.base[n] for n in mutated_arguments(node))

    def is_written(self, node: fx.Node) -> bool:
        return self.base[node] in self.written

    def is_returned(self, node: fx.Node) -> bool:
        """Whether the caller gets the node's storage."""
        return self.base[node] in self.returned


def _shared(node: fx.Node) -> fx.Node | None:
    """The node whose storage this one's tensor lies in."""
    if node.target is operator.getitem:
        return aliased_input(node.args[0], node.args[1])
    return aliased_input(node)


def drop_copies(graph: fx.Graph) -> int:
    """Takes out copies that nobody needs, such as dropout with probability 0; returns how many.

    A copy stays if it changes the layout, if the caller gets it, or if the step overwrites what it copies.
    """
    count = 0
    storages = _Storages(graph)
    for node in graph.find_nodes(op="call_function", target=aten.clone.default):
        source = node.args[0]
        if storages.is_returned(node) or storages.is_written(node) or storages.is_written(source):
            continue
        if _same_tensor(node, source):
            count += _replace(graph, node, source)
    return count


def drop_identities(graph: fx.Graph) -> int:
    """Takes out views that are the tensor itself: detach, expand to the same size; returns how many."""
    count = 0
    returned = set(next(iter(graph.find_nodes(op="output"))).all_input_nodes)
    for node in list(graph.nodes):
        source = aliased_input(node) if isinstance(node.meta.get("val"), torch.Tensor) else None
        if source is None or node in returned or mutated_arguments(node) or not _same_tensor(node, source):
            continue
        if node.meta["val"].storage_offset() == source.meta["val"].storage_offset():
            count += _replace(graph, node, source)
    return count


def _same_tensor(a: fx.Node, b: fx.Node) -> bool:
    """Whether both have the same sizes, strides and type."""
    one, other = a.meta["val"], b.meta.get("val")
    return isinstance(other, torch.Tensor) and _form(one) == _form(other)


def _form(tensor: torch.Tensor) -> tuple:
    return (tensor.shape, tensor.stride(), tensor.dtype, tensor.device, tensor.is_conj(), tensor.is_neg())


def _replace(graph: fx.Graph, node: fx.Node, other: fx.Node) -> bool:
    node.replace_all_uses_with(other)
    graph.erase_node(node)
    return True


def merge_repeats(graph: fx.Graph) -> int:
    """Computes equal calls once, such as the mask that every layer makes of the same tensor; returns how many went.

    Only calls of the same pass are merged: otherwise the forward pass would keep its result for the backward pass.
    """
    count = 0
    storages = _Storages(graph)
    after = _needs_tangents(graph)
    seen: dict[tuple, fx.Node] = {}
    for node in list(graph.nodes):
        if not _may_merge(node) or storages.is_returned(node) or storages.is_written(node):
            continue
        if any(map(storages.is_written, node.all_input_nodes)):
            continue
        key = (node in after, node.target, _key(node.args), _key(node.kwargs))
        first = seen.setdefault(key, node)
        if first is not node:
            count += _replace(graph, node, first)
    return count


def _may_merge(node: fx.Node) -> bool:
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return True
    if not isinstance(node.target, torch._ops.OpOverload) or node.target.namespace not in ("aten", "prims"):
        return False
    return not is_random(node) and not is_impure(node) and "empty" not in node.target._opname


def _key(value: object) -> object:
    """Something hashable that is equal for equal arguments. Numbers of different types differ."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_key, value))
    if isinstance(value, dict):
        return tuple((name, _key(item)) for name, item in sorted(value.items()))
    return value if isinstance(value, fx.Node) else (type(value), repr(value))


def _needs_tangents(graph: fx.Graph) -> set[fx.Node]:
    """The nodes from the first one on that depends on a tangent: the backward pass."""
    tangents = {n for n in graph.find_nodes(op="placeholder") if is_tangent(n)}
    nodes = [n for n in graph.nodes if n.op == "call_function"]
    first = next((i for i, n in enumerate(nodes) if not tangents.isdisjoint(n.all_input_nodes)), len(nodes))
    return set(nodes[first:])
