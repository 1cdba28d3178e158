"""Makes AOTAutograd's joint graph what Inductor would compile, before it is planned.

Inductor does not compile the joint graph as it is traced. It matches patterns (attention), replaces random ops by
functions of a seed, chooses the layout of convolutions, and decides which cheap values the backward pass computes
again inside of its kernels instead of reading them. `prepare_joint` does the same with Inductor's own passes, so that
a plan that stores everything is the program that Inductor runs by default, and every other plan starts from there.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence

import torch
from torch import fx

from .layout import use_channels_last

log = logging.getLogger(__name__)


def prepare_joint(module: fx.GraphModule, joint_inputs: Sequence[object], *, num_fwd_outputs: int,
                  static_lifetime_input_indices: list[int] | None = None) -> fx.GraphModule:
    """The joint graph that Inductor compiles, in the form in which AOTAutograd passes it to a partitioner.

    Placeholders and outputs are those of `module`. Random ops are functions of seeds that one op draws, so
    computing dropout again gives the same numbers. Nodes that the backward pass computes again have copies, with
    `meta["neap_pass"] == "backward"`.
    """
    from torch._inductor.virtualized import V

    mode = _fake_mode(module)
    with _without_code(), V.set_fake_mode(mode) if mode is not None else contextlib.nullcontext():
        module = _inductor_passes(module)
        module = use_channels_last(module)
        return _recompute_fused(module, joint_inputs, num_fwd_outputs, static_lifetime_input_indices)


def _without_code() -> contextlib.AbstractContextManager:
    """Inside of the block PyTorch generates the Python code of a graph only if it is run."""
    try:
        from torch.fx._lazy_graph_module import _use_lazy_graph_module
    except ImportError:
        return contextlib.nullcontext()
    return _use_lazy_graph_module(True)


def _fake_mode(module: fx.GraphModule) -> object | None:
    for node in module.graph.nodes:
        mode = getattr(node.meta.get("val"), "fake_mode", None)
        if mode is not None:
            return mode
    return None


def _devices(module: fx.GraphModule) -> list[torch.device]:
    values = [node.meta.get("val") for node in module.graph.nodes if node.op == "placeholder"]
    found = dict.fromkeys(v.device for v in values if isinstance(v, torch.Tensor))
    return sorted(found, key=lambda device: device.type == "cpu")


def _inductor_passes(module: fx.GraphModule) -> fx.GraphModule:
    from torch._inductor import compile_fx

    device = next(iter(_devices(module)), torch.device("cpu"))
    try:
        return compile_fx._recursive_joint_graph_passes(module, skip_invoke_subgraph=True, input_device=device)
    except TypeError:  # PyTorch before 2.10 takes fewer arguments
        return compile_fx._recursive_joint_graph_passes(module)


# ---- what the backward pass computes again inside of its kernels ----


def _recompute_fused(module: fx.GraphModule, joint_inputs: Sequence[object], forward_outputs: int,
                     static: list[int] | None) -> fx.GraphModule:
    """Applies the default partition of Inductor and puts both halves together again."""
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    output_meta = dict(next(iter(module.graph.find_nodes(op="output"))).meta)
    with _default_partitioner():
        forward, backward = min_cut_rematerialization_partition(
            module, joint_inputs, compiler="inductor", num_fwd_outputs=forward_outputs,
            static_lifetime_input_indices=static)
    return _join(module, forward, backward, forward_outputs, output_meta)


@contextlib.contextmanager
def _default_partitioner() -> Iterator[None]:
    from torch._functorch import config

    settings = {"activation_memory_budget": 1.0}
    if hasattr(config, "enable_activation_offloading"):
        settings["enable_activation_offloading"] = False
    with config.patch(settings):
        yield


def _join(module: fx.GraphModule, forward: fx.GraphModule, backward: fx.GraphModule, forward_outputs: int,
          output_meta: dict) -> fx.GraphModule:
    graph = fx.Graph()
    at: dict[str, fx.Node] = {}
    for node in forward.graph.nodes:
        if node.op != "output":
            at[node.name] = _copy(graph, node, at)
    returned = [n for n in _results(forward)[:forward_outputs]]
    outputs = [at[n.name] if isinstance(n, fx.Node) else n for n in returned]
    inside = {node.name: at[node.name] for node in forward.graph.nodes if node.op != "output"}
    local: dict[str, fx.Node] = {}
    pending = [node for node in backward.graph.nodes if node.op == "placeholder" and node.name not in inside]
    for node in pending:  # the tangents; placeholders stand first in a graph
        last = next(n for n in reversed(graph.find_nodes(op="placeholder")))
        with graph.inserting_after(last):
            local[node.name] = _copy(graph, node, {})
    for node in backward.graph.nodes:
        if node.op == "placeholder":
            local.setdefault(node.name, inside.get(node.name))
        elif node.op != "output":
            local[node.name] = _copy(graph, node, local)
            local[node.name].meta["neap_pass"] = "backward"
    outputs += [local[n.name] if isinstance(n, fx.Node) else n for n in _results(backward)]
    graph.output(outputs).meta.update(output_meta)
    graph.lint()
    return fx.GraphModule(module, graph)


def _copy(graph: fx.Graph, node: fx.Node, at: dict[str, fx.Node]) -> fx.Node:
    copy = graph.node_copy(node, lambda source: at[source.name])
    copy.meta = dict(node.meta)
    return copy


def _results(module: fx.GraphModule) -> list[object]:
    return list(next(iter(module.graph.find_nodes(op="output"))).args[0])
