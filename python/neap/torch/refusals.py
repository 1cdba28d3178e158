"""Refused budgets in the words of someone who trains a model."""

from __future__ import annotations

from .. import errors
from ..text import format_bytes
from .joint import BOUNDARY, JointGraph, source_line


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
    return errors.InfeasibleError(message, budget=error.budget, floor=error.floor, floor_op=error.floor_op,
                                  least_budget=error.least_budget, least_plan=error.least_plan, op=error.op,
                                  is_proven=error.is_proven)


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
