"""neap for PyTorch: train within a memory budget.

    import torch, neap.torch
    model = torch.compile(model, backend=neap.torch.backend(budget="6GiB"))     # and train as before

The budget is the peak of a training step. neap captures the step, measures its ops, decides what to keep, what to
recompute and what to copy to the host, and runs it that way; the results stay the same.

    neap.torch.backend        the backend for torch.compile
    neap.torch.explain        what makes the peak, and what a budget costs
    neap.torch.suggest_batch  the largest batch that trains within a budget
    neap.torch.capture        the graph of a training step, for neap.plan and the command `neap`

docs/pytorch.md is the manual.
"""

from __future__ import annotations

from ..plans import Link
from .backend import Backend, Report, Settings
from .batch import BatchSuggestion, suggest_batch
from .capture import capture
from .explain import Explanation, explain

__all__ = ["Backend", "BatchSuggestion", "Explanation", "Report", "backend", "capture", "explain", "suggest_batch"]


def backend(budget: int | str | None = None, *, kernels: str = "inductor", strict: bool = False,
            offload: bool | Link = False, split: bool | str = "auto", time_limit: float = 10.0, gap: float = 0.001,
            measure: bool = True, cache: bool = True) -> Backend:
    """A backend for torch.compile that trains within a memory budget.

        model = torch.compile(model, backend=neap.torch.backend(budget="6GiB"))
        model.compile(backend=neap.torch.backend(budget="6GiB"))                # in place, for trainers

    budget      the most memory of a training step on the device, in bytes: 6442450944, "6GiB", "5e9", or "50%" of
                what the step takes without a plan. Everything on the device counts: parameters, gradients, optimizer
                state, inputs, workspaces of kernels, and what else the program holds. None: no limit
    kernels     "inductor" (default): the ops are fused and compiled by Inductor. "eager": PyTorch's own kernels, op by
                op; results are equal to the bit to those without a plan
    strict      keep what PyTorch's allocator reserves within the budget, too, by giving every tensor of the step its
                planned address
    offload     allow copies to host memory beside recomputation: True measures the link, a neap.Link describes it
    split       convolutions in parts along the batch, where their workspace sets the peak: True allows them, False
                never uses them, "auto" (default) uses them only if the budget cannot be met without, with a warning.
                The last bits of their weight gradients differ
    time_limit  seconds of planning for a graph
    gap         stop planning once the plan is proven within this fraction of the fastest
    measure     time ops on the device where their costs are not in the cache yet; False: estimate them
    cache       keep plans on disk, so that the next process starts at once

    Nothing happens before the first step, which captures, measures, plans and compiles; later steps only run. New
    shapes are planned when they come. Steps without gradients (eval(), no_grad()) run without a plan. Graphs of one
    step (graph breaks, several compiled modules) share the budget.

    The result has a list `reports`, with a Report for every graph that was planned:

        b = neap.torch.backend(budget="6GiB")
        ...
        print(b.reports[0], b.reports[0].plan.recomputed_ops)

    The first step raises InfeasibleError for a budget that cannot be met, with the least budget that works and the op
    that needs it, and UnsupportedError for a model that cannot be planned, with the reason and the line.
    """
    return Backend(Settings(budget, kernels, strict, offload, split, time_limit, gap, measure, cache))
