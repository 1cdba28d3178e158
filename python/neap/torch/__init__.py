"""neap for PyTorch: train within a memory budget.

    import torch, neap.torch
    model = torch.compile(model, backend=neap.torch.backend(budget="6GiB"))
"""

from __future__ import annotations

from ..plans import Link
from .backend import Backend, Report, Settings

__all__ = ["Backend", "Report", "backend"]


def backend(budget: int | str | None = None, *, kernels: str = "inductor", strict: bool = False,
            offload: bool | Link = False, split: bool | str = "auto", time_limit: float = 10.0, gap: float = 0.001,
            measure: bool = True, cache: bool = True) -> Backend:
    return Backend(Settings(budget, kernels, strict, offload, split, time_limit, gap, measure, cache))
