"""Plans at Inductor's speed: what `kernels="inductor"` adds to the backend.

    decompositions()                    the ops that AOTAutograd traces for Inductor
    prepare_joint(...)                  Inductor's passes on the joint graph, before it is planned
    fusion_groups(joint)                the units to plan: what Inductor fuses
    price_units(units, model)           time and workspace of each unit
    compile_in_order(pass, inputs)      a pass of a plan, compiled in segments that run in plan order
    deferred_kernels()                  a block in which all passes compile their kernels side by side
    plain(module, inputs)               Inductor without a plan, where everything fits
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

import torch
from torch import fx

from .costs import CostModel
from .deferred import deferred_kernels
from .device import speed_of
from .fusion import fusion_groups
from .in_order import OrderedProgram, compile_in_order
from .joint_passes import prepare_joint
from .op_kinds import Kind, kind_of

__all__ = ["OrderedProgram", "compile_in_order", "decompositions", "deferred_kernels", "fusion_groups", "library_kernel",
           "plain", "prepare_joint", "price_units", "unit_traffic"]


def decompositions() -> dict:
    """The decompositions that Inductor wants AOTAutograd to apply. Starts Inductor's compiling processes, too."""
    import torch._inductor.lowering  # some decompositions need it and do not import it
    from torch._inductor.decomposition import select_decomp_table

    start_workers()
    return dict(select_decomp_table())


def start_workers() -> None:
    """Starts the processes that compile kernels, so that they are ready when the first kernel comes."""
    try:
        from torch._inductor.async_compile import maybe_warm_pool
    except ImportError:  # older: Inductor starts them itself
        return
    maybe_warm_pool()


def plain(module: fx.GraphModule, example_inputs: Sequence[object]) -> Callable:
    """Compiles a model with Inductor as `torch.compile` does by default: its own partitioner, no plan."""
    from torch._inductor.compile_fx import compile_fx

    return compile_fx(module, list(example_inputs))


# ---- costs ----


def price_units(units: Sequence[Sequence[fx.Node]], model: CostModel) -> list[tuple[float, int]]:
    """Seconds and workspace bytes of each unit.

    Library kernels (products, convolutions, attention) are measured by the cost model. A unit that Inductor generates
    takes the time of its memory traffic, and a launch; views take none.
    """
    kernels = [library_kernel(nodes) for nodes in units]
    measured = model.price([kernel for kernel in kernels if kernel is not None])
    speed = speed_of(model.device)
    prices = []
    for nodes, kernel in zip(units, kernels):
        if kernel is not None:
            prices.append((measured[kernel].seconds, measured[kernel].workspace))
        elif all(kind_of(node) is Kind.VIEW for node in nodes):
            prices.append((0.0, 0))
        else:
            prices.append((unit_traffic(nodes) / speed.bandwidth + speed.launch, 0))
    return prices


def library_kernel(nodes: Sequence[fx.Node]) -> fx.Node | None:
    """The op of a unit that a library runs, or None if Inductor generates all of it."""
    for node in nodes:
        if node.target is not operator.getitem and kind_of(node) is Kind.EXTERN:
            return node
    return None


def unit_traffic(nodes: Sequence[fx.Node]) -> int:
    """Bytes that a unit reads from outside and writes for others."""
    inside = set(nodes)
    read = {source for node in nodes for source in node.all_input_nodes if source not in inside}
    written = [node for node in nodes if kind_of(node) is not Kind.VIEW
               and any(user not in inside for user in node.users)]
    return sum(_bytes(n) for n in read) + sum(_bytes(n) for n in written)


def _bytes(node: fx.Node) -> int:
    value = node.meta.get("val")
    tensors = value if isinstance(value, (tuple, list)) else [value]
    return sum(int(t.numel()) * t.element_size() for t in tensors if isinstance(t, torch.Tensor))
