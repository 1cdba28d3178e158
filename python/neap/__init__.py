"""neap plans the training of neural networks within a memory budget.

    import neap

    graph = neap.Graph.read("graph.json")       # or from_dict, from_networkx, neap.torch.capture
    plan = neap.plan(graph, "6GiB")             # what to keep, recompute and move to the host
    print(plan.peak, plan.overhead)
    for kind, id, variant in plan.steps:
        ...

Graphs and plans are the same JSON files as those of the command `neap`. Planning happens in the C
library libneap; this package only calls it. PyTorch users want `neap.torch`, which captures,
plans and runs a model: `torch.compile(model, backend=neap.torch.backend(budget="6GiB"))`.
"""

from __future__ import annotations

from . import errors
from ._library import lib as _lib
from ._solving import Event
from .errors import (
    FileError,
    InfeasibleError,
    InternalError,
    Interrupted,
    InvalidError,
    LibraryError,
    NeapError,
    UnsupportedError,
)
from .graph import Floor, Graph, MemoryParts, Op, Value
from .methods import Method, Option, methods
from .planning import curve, plan
from .plans import Link, Plan, Verdict
from .text import format_bytes, format_seconds, parse_bytes

__version__: str = _lib.neap_version().decode()

__all__ = [
    "Event",
    "FileError",
    "Floor",
    "Graph",
    "InfeasibleError",
    "InternalError",
    "Interrupted",
    "InvalidError",
    "LibraryError",
    "Link",
    "MemoryParts",
    "Method",
    "NeapError",
    "Op",
    "Option",
    "Plan",
    "UnsupportedError",
    "Value",
    "Verdict",
    "curve",
    "errors",
    "format_bytes",
    "format_seconds",
    "methods",
    "parse_bytes",
    "plan",
]
