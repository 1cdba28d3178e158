"""An explanation as text for a terminal of 80 columns."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ..text import format_bytes, format_seconds

if TYPE_CHECKING:
    from .explain import Explanation, Peak, Point

WIDTH = 80
BAR = 30
SHOWN_MODULES = 5


def describe(e: "Explanation") -> str:
    """The whole text."""
    costs = "measured" if e.measured else "estimated"
    blocks = [
        [f"{shorten(e.name, 24)}: {e.graph.op_count} ops with {e.kernels} kernels; times {costs} on {e.device}",
         f"{format_bytes(e.peak.bytes)} and {format_seconds(e.time)} a step without a plan"],
        _peak_block(e.peak, e.optimizer_hint),
        _holder_block(e.peak),
        _curve_block(e),
        _advice_block(e),
    ]
    if e.plan is not None:
        blocks.append(_plan_block(e))
    return "\n\n".join("\n".join(line[:WIDTH].rstrip() for line in block) for block in blocks if block)


def _peak_block(peak: "Peak", hint: int) -> list[str]:
    lines = [f"What makes the peak ({_moment(peak)})"]
    for kind, size in peak.parts.items():
        share = size / peak.bytes
        lines.append(f"  {kind:<20} {format_bytes(size):>9} {share:>6.1%}  {_bar(share)}")
    if hint:
        lines.append(f"  No optimizer has {format_bytes(hint)} of the parameters yet; Adam will add twice that.")
    return lines


def _moment(peak: "Peak") -> str:
    if not peak.op:
        return "between ops"
    where = f" of {shorten(peak.module, 20)}" if peak.module else ""
    return f"{shorten(peak.op, 22)}{where}, {'backward' if peak.backward else 'forward'}"


def _holder_block(peak: "Peak") -> list[str]:
    if not peak.holders:
        return []
    lines = ["Modules whose tensors take most of it"]
    for holder in peak.holders:
        share = holder.bytes / peak.bytes
        lines.append(f"  {format_bytes(holder.bytes):>9} {share:>6.1%}  {shorten(holder.name, 26):<26} "
                     f"{shorten(holder.op, 16):<16} {shorten(holder.line, 16)}")
    return lines


def _curve_block(e: "Explanation") -> list[str]:
    lines = ["What a budget costs", "     budget             peak       time  slower"]
    slowest = max(point.overhead for point in e.curve)
    for point in reversed(e.curve):
        mark = ">" if point is e.suggestion else " "
        share = point.budget / e.peak.bytes
        lines.append(f"{mark} {format_bytes(point.budget):>9} {share:>6.1%} {format_bytes(point.peak):>9} "
                     f"{format_seconds(point.time):>10} {point.overhead:>7.1%}  "
                     f"{_bar(point.overhead / slowest if slowest > 0 else 0, 20)}")
    return lines


def _advice_block(e: "Explanation") -> list[str]:
    why = f" ({shorten(e.least_op, 40)} needs it)" if e.least_op else ""
    point = e.suggestion
    lines = [f"Least budget that works: {format_bytes(e.least_budget)}{why}"]
    if point.budget < e.peak.bytes:
        lines.append(f'Suggested: budget="{budget_text(point)}", {1 - point.budget / e.peak.bytes:.0%} less memory '
                     f"for {point.overhead:.1%} more time")
    else:
        lines.append("Suggested: no budget; plans save no memory here")
    return lines


def _plan_block(e: "Explanation") -> list[str]:
    plan = e.plan
    assert plan is not None and e.budget is not None
    lines = [f"The plan for {format_bytes(e.budget)}: peak {format_bytes(plan.peak)}, {format_seconds(plan.time)} "
             f"({plan.overhead:+.1%})"]
    if plan.recomputed_ops == 0 and plan.offloaded_bytes == 0:
        lines.append("  Nothing is recomputed or copied.")
    else:
        lines.append(f"  {plan.recomputed_ops} recomputations; {format_bytes(plan.offloaded_bytes)} copied to the host")
    for module in e.recomputed[:SHOWN_MODULES]:
        runs = "runs" if module.runs > 1 else "run "
        lines.append(f"  {format_seconds(module.seconds):>9} {module.runs:>4} {runs}  {shorten(module.name, 34):<34} "
                     f"{shorten(module.line, 20)}")
    left = len(e.recomputed) - SHOWN_MODULES
    if left > 0:
        rest = sum(module.seconds for module in e.recomputed[SHOWN_MODULES:])
        lines.append(f"  {format_seconds(rest):>9} in {left} more")
    return lines


def budget_text(point: "Point") -> str:
    """A budget to write into a program: not below the point's, in whole KiB or MiB."""
    unit, name = (1 << 20, "MiB") if point.budget >= 100 << 20 else (1 << 10, "KiB")
    return f"{-(-point.budget // unit)}{name}"


def shorten(text: str, width: int) -> str:
    """The end of a text that is too long: of a path, that is what tells it apart."""
    return text if len(text) <= width else ".." + text[len(text) - width + 2:]


def _bar(share: float, width: int = BAR) -> str:
    block = "█"
    try:
        block.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        block = "#"
    return block * round(share * width)
