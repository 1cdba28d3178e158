"""Refused budgets in the words of someone who trains a model."""

from __future__ import annotations

import os
import traceback

import torch

from .. import errors
from ..text import format_bytes
from .joint import BOUNDARY, JointGraph, source_line

_TORCH, _NEAP = (os.path.dirname(os.path.abspath(file)) + os.sep for file in (torch.__file__, errors.__file__))


def explained(error: errors.InfeasibleError, joint: JointGraph) -> errors.InfeasibleError:
    """The error of a budget that is too low, with what the outputs of a step are and where its ops stand in the
    model."""
    message = str(error)
    if error.floor_op is None and error.floor is not None and (error.budget or error.floor) < error.floor:
        _, _, least = message.partition("; ")
        message = (f"budget {format_bytes(error.budget)} is below {format_bytes(error.floor)}, which the end of the "
                   f"backward pass needs whatever is recomputed: {_at_the_end(joint)}" + (f"; {least}" if least else ""))
    for name in dict.fromkeys((error.floor_op, error.op)):
        where = _place(name, joint)
        if where:
            message = message.replace(f'op "{name}"', f'op "{name}", {where}', 1)
    return _reworded(error, message)


def of_one_graph(error: errors.InfeasibleError) -> errors.InfeasibleError:
    """The error of a graph whose step has others that are not known yet."""
    return _reworded(error, f"{error}. This is for the first graphs of the step; those that follow may need more")


def _reworded(error: errors.InfeasibleError, message: str) -> errors.InfeasibleError:
    return errors.InfeasibleError(message, budget=error.budget, floor=error.floor, floor_op=error.floor_op,
                                  least_budget=error.least_budget, least_plan=error.least_plan, op=error.op,
                                  is_proven=error.is_proven)


def caller(error: BaseException) -> str:
    """Which code called PyTorch when an error was raised inside it: ` (file:line)`; empty if that is a captured graph."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(_TORCH):
            known = not frame.filename.startswith((_NEAP, "<"))
            return f" ({frame.filename}:{frame.lineno})" if known else ""
    return ""


def _at_the_end(joint: JointGraph) -> str:
    """What is in memory when the last gradient has been computed."""
    given = sum(v.bytes for v in joint.values if v.kind in ("parameter", "input"))
    owners = {joint.owner(v).id for v in joint.output_values()}
    returned = sum(v.bytes for v in joint.values if v.id in owners and v.kind not in ("parameter", "input"))
    parts = [(given, "parameters and inputs"), (returned, "gradients of all parameters and the model's outputs"),
             (joint.fixed_bytes, "everything else on the device, the optimizer's state included")]
    return ", ".join(f"{format_bytes(size)} of {what}" for size, what in parts if size)


def _place(name: str | None, joint: JointGraph) -> str:
    """Where in the user's code an op comes from."""
    unit = next((u for u in joint.units if u.name == name), None) if name not in (None, BOUNDARY) else None
    return next(filter(None, map(source_line, unit.nodes)), "") if unit is not None else ""
