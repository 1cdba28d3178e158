"""Plans at Inductor's speed: what `kernels="inductor"` adds to the backend.

    decompositions()                    the ops that AOTAutograd traces for Inductor
    prepare_joint(...)                  Inductor's passes on the joint graph, before it is planned
    fusion_groups(joint)                the units to plan: what Inductor fuses
    unit_cost(nodes, ...)               time and workspace of a unit
    compile_in_order(pass, inputs)      a pass of a plan, compiled in segments that run in plan order
    plain(module, inputs)               Inductor without a plan, where everything fits
    measure_peak(run, args)             the peak of a compiled pass, to plan again where it is above the budget
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

import torch
from torch import fx

from .fusion import fusion_groups
from .in_order import OrderedProgram, compile_in_order
from .joint_passes import prepare_joint
from .op_kinds import Kind, kind_of

__all__ = ["OrderedProgram", "compile_in_order", "decompositions", "fusion_groups", "is_library_kernel", "measure_peak",
           "plain", "prepare_joint", "unit_cost"]


def decompositions() -> dict:
    """The decompositions that Inductor wants AOTAutograd to apply."""
    from torch._inductor.decomposition import select_decomp_table

    return dict(select_decomp_table())


def plain(module: fx.GraphModule, example_inputs: Sequence[object]) -> Callable:
    """Compiles a model with Inductor as `torch.compile` does by default: its own partitioner, no plan."""
    from torch._inductor.compile_fx import compile_fx

    return compile_fx(module, list(example_inputs))


# ---- costs ----


def is_library_kernel(nodes: Sequence[fx.Node]) -> fx.Node | None:
    """The op of a unit that a library runs (a product, a convolution, attention), or None if Inductor generates all of it."""
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


def unit_cost(nodes: Sequence[fx.Node], measure: Callable[[fx.Node], tuple[float, int]], bandwidth: float,
              launch: float) -> tuple[float, int]:
    """Seconds and workspace bytes of a unit.

    `measure(node)` gives those of a library kernel. A unit that Inductor generates takes the time of its memory
    traffic at `bandwidth` (bytes/s), and a launch; it needs no workspace.
    """
    if all(kind_of(node) is Kind.VIEW for node in nodes):
        return 0.0, 0
    kernel = is_library_kernel(nodes)
    if kernel is not None:
        return measure(kernel)
    return unit_traffic(nodes) / bandwidth + launch, 0


def _bytes(node: fx.Node) -> int:
    value = node.meta.get("val")
    tensors = value if isinstance(value, (tuple, list)) else [value]
    return sum(int(t.numel()) * t.element_size() for t in tensors if isinstance(t, torch.Tensor))


# ---- what a compiled pass really needs ----


def measure_peak(run: Callable[[list], tuple], args: Sequence[object]) -> int | None:
    """Bytes by which running a pass raises the peak of allocated memory above what is allocated before it.

    Runs the pass once; `args` stay alive. None where the arguments are not on a CUDA device.
    """
    devices = {a.device for a in args if isinstance(a, torch.Tensor) and a.device.type == "cuda"}
    if not devices:
        return None
    device = devices.pop()
    torch.cuda.synchronize(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    result = run(list(args))
    torch.cuda.synchronize(device)
    peak = torch.cuda.max_memory_allocated(device)
    del result
    return peak - before
