"""An explanation as an SVG figure: what makes the peak, memory through the step, and what a budget costs.

The figure has no background. Lines and text take the colour of the text around it in a notebook, and follow the
reader's light or dark setting in a file, so that it shows on both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from ..text import format_bytes, format_seconds
from .explain_text import shorten

if TYPE_CHECKING:
    from ..plans import Plan
    from .explain import Explanation, Point

WIDTH, HEIGHT = 780, 520
COLORS = {"activations": "#1f83c4", "activation gradients": "#56b4e9", "parameters": "#009e73",
          "parameter gradients": "#cc79a7", "optimizer state": "#e69f00", "workspace": "#d55e00",
          "inputs and buffers": "#8c6bb1", "other": "#888888"}
PLAN, NATURAL = "#d55e00", "#1f83c4"
FILE_STYLE = ("svg{color:#24292f}@media (prefers-color-scheme:dark){svg{color:#e6edf3}}")
HIGHEST = 50.0  # percent of overhead at the top of the curve, at most
SAMPLES = 400  # most points of a memory line

Points = Sequence[tuple[float, float]]


def figure(e: "Explanation", inherit: bool = False) -> str:
    """The SVG. inherit: it stands in a page, whose text colour it takes."""
    title = f"{e.name}: {format_bytes(e.peak.bytes)} and {format_seconds(e.time)} a step without a plan"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="100%" '
        f'style="max-width:{WIDTH}px" font-family="system-ui, \'Helvetica Neue\', Arial, sans-serif" font-size="12" '
        f'role="img" aria-label="{escape(title)}">',
        "" if inherit else f"<style>{FILE_STYLE}</style>",
        '<g fill="currentColor">',
        _text(0, 18, title, size=15, weight="600"),
        *_parts(e),
        *_memory(e),
        *_curve(e),
        "</g></svg>",
    ]
    return "\n".join(part for part in parts if part)


# ---- what makes the peak ----


def _parts(e: "Explanation") -> Iterator[str]:
    where = f"{e.peak.op} {e.peak.module}".strip() if e.peak.op else "between ops"
    yield _text(0, 48, f"What makes the peak, at {shorten(where, 70)}", weight="600")
    x = 0.0
    for kind, size in e.peak.parts.items():
        width = WIDTH * size / e.peak.bytes
        yield (f'<rect x="{x:.1f}" y="58" width="{max(width - 1, 0.5):.1f}" height="24" fill="{_color(kind)}">'
               f"<title>{escape(kind)}: {format_bytes(size)}</title></rect>")
        x += width
    x, y = 0.0, 102
    for kind, size in e.peak.parts.items():
        label = f"{kind} {format_bytes(size)} ({size / e.peak.bytes:.0%})"
        if x + 18 + 6.6 * len(label) > WIDTH:
            x, y = 0.0, y + 18
        yield f'<rect x="{x:.1f}" y="{y - 10}" width="11" height="11" fill="{_color(kind)}"/>'
        yield _text(x + 16, y, label)
        x += 34 + 6.6 * len(label)


def _color(kind: str) -> str:
    return COLORS.get(kind, "#888888")


# ---- axes ----


class _Axes:
    """A plot's frame and its scales, both from 0."""

    def __init__(self, left: float, width: float, x_most: float, y_most: float) -> None:
        self.left, self.width = left, width
        self.top, self.bottom = 198.0, 470.0
        self.x_most, self.y_most = x_most or 1.0, y_most or 1.0

    def x(self, value: float) -> float:
        return self.left + self.width * value / self.x_most

    def y(self, value: float) -> float:
        return self.bottom - (self.bottom - self.top) * value / self.y_most

    def frame(self, title: str, x_label: str, y_ticks: Sequence[tuple[float, str]],
              x_ticks: Sequence[tuple[float, str]]) -> Iterator[str]:
        right = self.left + self.width
        yield _text(self.left - 62, self.top - 30, title, weight="600")
        for value, label in y_ticks:
            y = self.y(value)
            yield (f'<path d="M{self.left:.1f} {y:.1f}H{right:.1f}" stroke="currentColor" opacity=".15"/>'
                   + _text(self.left - 8, y + 4, label, anchor="end"))
        for value, label in x_ticks:
            yield _text(self.x(value), self.bottom + 18, label, anchor="middle")
        yield f'<path d="M{self.left:.1f} {self.bottom}H{right:.1f}" stroke="currentColor" opacity=".5"/>'
        yield _text(self.left + self.width / 2, self.bottom + 38, x_label, anchor="middle")

    def line(self, points: Points, color: str, width: float = 2) -> str:
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        return (f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{width}" '
                f'stroke-linejoin="round"/>')

    def area(self, points: Points, color: str) -> str:
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        first, last = self.x(points[0][0]), self.x(points[-1][0])
        return (f'<polygon points="{first:.1f},{self.bottom:.1f} {path} {last:.1f},{self.bottom:.1f}" '
                f'fill="{color}" opacity=".18"/>')


# ---- memory through the step ----


def _memory(e: "Explanation") -> Iterator[str]:
    from .. import planning

    natural = planning.plan(e.graph, None, method="store-all", in_place=False)
    plan = e.plan or e.suggestion.plan
    budget = e.budget or e.suggestion.budget
    longest = max(natural.time, plan.time)
    axes = _Axes(62, 310, longest, max(e.peak.bytes, budget) * 1.02)
    yield from axes.frame("Memory through a step", "time", _byte_ticks(axes.y_most),
                          [(0, "0"), (longest, format_seconds(longest))])
    before, after = _profile(natural), _profile(plan)
    yield axes.area(before, NATURAL) + axes.line(before, NATURAL, 1.5)
    yield axes.area(after, PLAN) + axes.line(after, PLAN, 1.5)
    y = axes.y(budget)
    yield f'<path d="M{axes.left} {y:.1f}h{axes.width}" stroke="{PLAN}" stroke-dasharray="5 4"/>'
    key = ((axes.left, NATURAL, "without a plan"), (axes.left + 110, PLAN, f"planned for {format_bytes(budget)}"))
    for x, color, label in key:
        yield f'<rect x="{x}" y="{axes.top - 13}" width="11" height="3" fill="{color}"/>'
        yield _text(x + 16, axes.top - 8, label, size=11)


def _profile(plan: "Plan") -> list[tuple[float, float]]:
    """Bytes in use over time: the most of each interval, so that no peak is lost."""
    steps = plan.timeline()
    width = (max(step.end for step in steps) or 1.0) / SAMPLES
    most: dict[int, int] = {}
    for step in steps:
        slot = int(step.begin / width)
        most[slot] = max(most.get(slot, 0), step.live_bytes)
    points = [(slot * width, float(size)) for slot, size in sorted(most.items())]
    return points + [(max(step.end for step in steps), float(steps[-1].after_bytes))]


def _byte_ticks(most: float, count: int = 6) -> list[tuple[float, str]]:
    """Round sizes from 0 to the most, at most `count` above 0."""
    size = 1.0
    while most / size > count:
        size *= 2
    return [(k * size, format_bytes(int(k * size)) if k else "0") for k in range(int(most / size) + 1)]


# ---- the curve ----


def _curve(e: "Explanation") -> Iterator[str]:
    slowest = max(max(point.overhead for point in e.curve), 0.01) * 100
    most = max(point.budget for point in e.curve)
    axes = _Axes(466, 300, most, min(slowest, HIGHEST) * 1.08)
    yield from axes.frame("What a budget costs", "budget", _percent_ticks(axes.y_most), _byte_ticks(most, 4)[1:])
    x = axes.x(e.least_budget)
    yield (f'<rect x="{axes.left}" y="{axes.top}" width="{x - axes.left:.1f}" height="{axes.bottom - axes.top}" '
           f'fill="currentColor" opacity=".07"/>')
    yield _text((axes.left + x) / 2, axes.bottom - 8, "no plan", anchor="middle", size=11) if x - axes.left > 50 else ""
    yield axes.line([(point.budget, _height(point, axes)) for point in e.curve], NATURAL)
    for point in e.curve:
        yield _dot(axes, point, 3, NATURAL)
        if point.overhead * 100 > axes.y_most:
            yield _text(axes.x(point.budget) + 8, axes.top + 4, f"{point.overhead:+.0%}", size=11)
    yield _dot(axes, e.suggestion, 6, PLAN)
    x, y = axes.x(e.suggestion.budget), axes.y(_height(e.suggestion, axes))
    anchor = "end" if x > axes.left + axes.width - 110 else "start"
    label = f"{format_bytes(e.suggestion.budget)}, {e.suggestion.overhead:+.1%}"
    yield _text(x + (-9 if anchor == "end" else 9), y - 9, label, anchor=anchor, weight="600")


def _height(point: "Point", axes: _Axes) -> float:
    """The overhead in percent; a point above the axes lies on their edge."""
    return min(max(point.overhead * 100, 0.0), axes.y_most)


def _dot(axes: _Axes, point: "Point", radius: int, color: str) -> str:
    label = f"{format_bytes(point.budget)}: {point.overhead:+.1%}, {format_seconds(point.time)}"
    return (f'<circle cx="{axes.x(point.budget):.1f}" cy="{axes.y(_height(point, axes)):.1f}" r="{radius}" '
            f'fill="{color}"><title>{escape(label)}</title></circle>')


def _percent_ticks(most: float) -> list[tuple[float, str]]:
    size = 0.1
    for factor in (2, 2.5, 2) * 6:
        if most / size <= 5:
            break
        size *= factor
    return [(k * size, f"+{k * size:g}%" if k else "0%") for k in range(int(most / size + 1e-9) + 1)]


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12, weight: str = "400") -> str:
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}">'
            f"{escape(text)}</text>")
