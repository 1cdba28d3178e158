"""The backend under the name "neap", for programs that take the name of a backend:

    torch.compile(model, backend="neap", options={"budget": "6GiB"})

Options are the arguments of neap.torch.backend. What they leave out comes from the environment: NEAP_BUDGET,
NEAP_KERNELS.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import fx

from ..errors import InvalidError
from .backend import Backend, Settings

_VARIABLES = {"budget": "NEAP_BUDGET", "kernels": "NEAP_KERNELS"}
_made: dict[Settings, Backend] = {}  # graphs with equal settings belong to one step


def neap(module: fx.GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None,
         **others: Any) -> Callable:
    """Compiles a graph by the backend of these options."""
    if others.get("mode") not in (None, "default"):
        raise InvalidError(f"backend \"neap\" takes no mode ({others['mode']!r}); give it options={{...}}")
    given = {name: os.environ[key] for name, key in _VARIABLES.items() if os.environ.get(key)} | dict(options or {})
    try:
        settings = Settings(**given)
    except TypeError as error:
        raise InvalidError(f"backend \"neap\": {error}; options are the arguments of neap.torch.backend") from None
    return _made.setdefault(settings, Backend(settings))(module, example_inputs)
