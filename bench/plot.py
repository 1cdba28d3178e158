"""Self-contained SVG figures for the benches: line plots, bars, and matrices of marked cells.

    figure = Plot("time against layers", x="layers", y="seconds", log_x=True, log_y=True)
    figure.line("hong", layers, seconds)
    figure.level(1.0, "one second")
    write("growth.svg", figure)               # several plots are stacked vertically

A series is identified by colour, marker and dash, so that a figure is readable in greyscale; each marker shows its
numbers as a tooltip. Points with a y of None break a line. Panels has many small plots, Bars groups of bars, Matrices
panels side by side. Standard library only.

This is separate from src/report/curve_svg.c, which draws only overhead against budget: the figures of papers need
logarithmic axes, bars, panels and matrices, which users of the library do not need.
"""

import html
import math

# Okabe and Ito's colours that stand out on white, as in `neap curve --svg`.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444")
MARKERS = ("circle", "square", "triangle", "diamond", "cross", "plus")
DASHES = ("", "7 4", "2 4", "9 3 2 3")

WIDTH, HEIGHT = 620, 340  # of the plotting area
LEFT, TOP, BOTTOM = 84, 54, 60
LEGEND_GAP, LEGEND_ROW, SWATCH = 22, 21, 30
SIDE, TITLE = 24, 40  # of Panels: room for the y label and the title
CHARACTER = 6.9  # width of one at font size 12, about


def number(value):
    """A short decimal for a coordinate."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def readable(value):
    """A number as a person writes it: 1,500; 0.25; 3e-07."""
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e10:
        text = f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}"
        return text
    return f"{value:.3g}"


def power(exponent):
    """A power of ten as a tick says it, with the exponent raised."""
    if -3 <= exponent <= 3:
        return readable(10.0**exponent)
    return f'10<tspan dy="-5" font-size="9">{exponent}</tspan>'


class Axis:
    """Maps numbers to positions on an axis and chooses the ticks."""

    def __init__(self, values, log, least=None, most=None, ticks=None):
        self.log = log
        values = [v for v in values if v is not None and (not log or v > 0)]
        low = min(values, default=1.0) if least is None else least
        high = max(values, default=10.0) if most is None else most
        if log:
            self.first, self.last = math.log10(low), math.log10(high)
            if least is None:
                self.first = math.floor(self.first + 1e-9)
            if most is None:
                self.last = math.ceil(self.last - 1e-9)
        else:
            if least is None and low > 0 and low < 0.6 * high:
                low = 0.0
            step = self._step(high - low)
            self.first = low if least is not None else math.floor(low / step + 1e-9) * step
            self.last = high if most is not None else math.ceil(high / step - 1e-9) * step
            self.step = step
        if self.last <= self.first:
            self.last = self.first + 1
        self.given = ticks

    @staticmethod
    def _step(span, about=6):
        """A round step that gives about the requested number of ticks."""
        if span <= 0:
            return 1.0
        raw = span / about
        base = 10.0 ** math.floor(math.log10(raw))
        return next(base * m for m in (1, 2, 2.5, 5, 10) if base * m >= raw * 0.999)

    def share(self, value):
        """0 at the first end, 1 at the last."""
        if self.log:
            value = math.log10(value)
        return (value - self.first) / (self.last - self.first)

    def ticks(self):
        """(value, label as SVG text) of each tick."""
        if self.given is not None:
            return [(v, html.escape(str(label))) for v, label in self.given]
        if self.log:
            every = max(1, math.ceil((self.last - self.first) / 8))
            exponents = range(math.ceil(self.first - 1e-9), math.floor(self.last + 1e-9) + 1, every)
            return [(10.0**e, power(e)) for e in exponents]
        start = math.ceil(self.first / self.step - 1e-9)
        end = math.floor(self.last / self.step + 1e-9)
        values = [round(i * self.step, 12) for i in range(start, end + 1)]
        return [(v, readable(v)) for v in values]

    def minor(self):
        """Values between the ticks of a log axis that get a thin line."""
        if not self.log or self.last - self.first > 8:
            return []
        exponents = range(math.floor(self.first), math.ceil(self.last))
        values = [m * 10.0**e for e in exponents for m in range(2, 10)]
        return [v for v in values if self.first <= math.log10(v) <= self.last]


class Plot:
    """One pair of axes and what is drawn on it.

    Ends of the axes come from the data unless given (x_least, x_most, y_least, y_most); x_ticks and
    y_ticks, lists of (value, label), replace the round numbers.
    """

    width, height = WIDTH, HEIGHT
    left, top, bottom = LEFT, TOP, BOTTOM  # around the plotting area
    title_size, title_gap, marker_scale, own_legend = 15, 28, 1, True

    def __init__(self, title, x="", y="", log_x=False, log_y=False, **limits):
        self.title, self.x_label, self.y_label = title, x, y
        self.log_x, self.log_y, self.limits = log_x, log_y, limits
        self.series, self.levels, self.uprights = [], [], []

    def line(self, name, xs, ys, marker=True, line=True, dash=None, color=None, steps=False):
        """Adds a series. dash: an index into DASHES; steps: hold each y until the next x."""
        points = [(x, y) for x, y in zip(xs, ys)]
        self.series.append((name, points, marker, line, dash, color, steps))

    def points(self, name, xs, ys, color=None):
        """A series of markers without a line."""
        self.line(name, xs, ys, line=False, color=color)

    def level(self, y, text=""):
        """A thin line across at y."""
        self.levels.append((y, text))

    def upright(self, x, text=""):
        """A thin line from top to bottom at x."""
        self.uprights.append((x, text))

    # ---- Drawing ----

    def size(self):
        return self.left + self.width + max(self.legend_width(), 24) + 8, self.top + self.height + self.bottom

    def legend_width(self):
        longest = max((len(series[0]) for series in self.series), default=0)
        return LEGEND_GAP + SWATCH + 8 + longest * CHARACTER if longest else 0

    def svg(self, top):
        """The elements of this plot, moved down by `top`."""
        limits = self.limits
        xs = [x for series in self.series for x, _ in series[1]] + [x for x, _ in self.uprights]
        ys = [y for series in self.series for _, y in series[1]] + [y for y, _ in self.levels]
        self.ax = Axis(xs, self.log_x, limits.get("x_least"), limits.get("x_most"), limits.get("x_ticks"))
        self.ay = Axis(ys, self.log_y, limits.get("y_least"), limits.get("y_most"), limits.get("y_ticks"))
        parts = [f'<g transform="translate(0 {top})">']
        parts += self._frame()
        for index, series in enumerate(self.series):
            parts += self._series(index, *series)
        if self.own_legend:
            parts += self.legend(self.left + self.width + LEGEND_GAP, self.top + 10)
        parts.append("</g>")
        return parts

    def _place(self, x, y):
        return self.left + self.width * self.ax.share(x), self.top + self.height * (1 - self.ay.share(y))

    def _frame(self):
        right, bottom = self.left + self.width, self.top + self.height
        place = f'x="{self.left}" y="{self.top - self.title_gap}" font-size="{self.title_size}"'
        yield f'<text {place} font-weight="bold">{html.escape(self.title)}</text>'
        for value in self.ax.minor():
            x = number(self.left + self.width * self.ax.share(value))
            yield f'<path d="M{x} {self.top}V{bottom}" stroke="#f2f2f2"/>'
        for value in self.ay.minor():
            y = number(self.top + self.height * (1 - self.ay.share(value)))
            yield f'<path d="M{self.left} {y}H{right}" stroke="#f2f2f2"/>'
        for value, label in self.ax.ticks():
            x = number(self.left + self.width * self.ax.share(value))
            yield f'<path d="M{x} {self.top}V{bottom}" stroke="#ddd"/>'
            yield f'<text x="{x}" y="{bottom + 18}" text-anchor="middle">{label}</text>'
        for value, label in self.ay.ticks():
            y = self.top + self.height * (1 - self.ay.share(value))
            yield f'<path d="M{self.left} {number(y)}H{right}" stroke="#ddd"/>'
            yield f'<text x="{self.left - 8}" y="{number(y + 4)}" text-anchor="end">{label}</text>'
        yield f'<path d="M{self.left} {self.top}V{bottom}H{right}" fill="none" stroke="#444"/>'
        yield f'<text x="{self.left + self.width / 2}" y="{bottom + 42}" text-anchor="middle">{html.escape(self.x_label)}</text>'
        yield (
            f'<text transform="translate(20 {self.top + self.height / 2}) rotate(-90)" '
            f'text-anchor="middle">{html.escape(self.y_label)}</text>'
        )
        for value, text in self.levels:
            y = self.top + self.height * (1 - self.ay.share(value))
            yield f'<path d="M{self.left} {number(y)}H{right}" stroke="#666" stroke-dasharray="1 3"/>'
            yield f'<text x="{right - 4}" y="{number(y - 4)}" text-anchor="end" fill="#666">{html.escape(text)}</text>'
        for value, text in self.uprights:
            x = self.left + self.width * self.ax.share(value)
            yield f'<path d="M{number(x)} {self.top}V{bottom}" stroke="#666" stroke-dasharray="1 3"/>'
            yield f'<text x="{number(x)}" y="{self.top - 5}" text-anchor="middle" fill="#666">{html.escape(text)}</text>'

    def _style(self, index, dash, color):
        dash = DASHES[index // len(COLORS) % len(DASHES) if dash is None else dash]
        return color or COLORS[index % len(COLORS)], f' stroke-dasharray="{dash}"' if dash else ""

    def _series(self, index, name, points, marker, line, dash, color, steps):
        color, dash = self._style(index, dash, color)
        if line:
            path, pen_down, last_y = "", False, None
            for x, y in points:
                if y is None:
                    pen_down = False
                    continue
                px, py = self._place(x, y)
                if steps and pen_down:
                    path += f"L{number(px)} {number(last_y)}"
                path += f"{'L' if pen_down else 'M'}{number(px)} {number(py)}"
                pen_down, last_y = True, py
            yield f'<path d="{path}" fill="none" stroke="{color}" stroke-width="1.8"{dash}/>'
        if not marker:
            return
        for x, y in points:
            if y is None:
                continue
            text = html.escape(f"{name}: {readable(x)}, {readable(y)}")
            at, scaled = self._place(x, y), ""
            if self.marker_scale != 1:
                scaled = f' transform="translate({number(at[0])} {number(at[1])}) scale({self.marker_scale})"'
                at = 0, 0
            yield f"<g{scaled}>{self._marker(index, *at, color)}<title>{text}</title></g>"

    @staticmethod
    def _marker(index, x, y, color):
        kind, r = MARKERS[index % len(MARKERS)], 3.6
        fill = f'fill="{color}"'
        if kind == "circle":
            return f'<circle cx="{number(x)}" cy="{number(y)}" r="{r}" {fill}/>'
        if kind == "square":
            return f'<path d="M{number(x - r)} {number(y - r)}h{2 * r}v{2 * r}h{-2 * r}z" {fill}/>'
        if kind == "triangle":
            return f'<path d="M{number(x)} {number(y - 4.4)}l4.2 7.4h-8.4z" {fill}/>'
        if kind == "diamond":
            return f'<path d="M{number(x)} {number(y - 4.8)}l4.8 4.8l-4.8 4.8l-4.8 -4.8z" {fill}/>'
        stroke = f'stroke="{color}" stroke-width="1.8" fill="none"'
        if kind == "cross":
            return f'<path d="M{number(x - r)} {number(y - r)}l{2 * r} {2 * r}m0 {-2 * r}l{-2 * r} {2 * r}" {stroke}/>'
        return f'<path d="M{number(x - 4.4)} {number(y)}h8.8m-4.4 -4.4v8.8" {stroke}/>'

    def legend(self, left, top):
        for index, (name, _, marker, line, dash, color, _) in enumerate(self.series):
            y = top + index * LEGEND_ROW
            color, dashes = self._style(index, dash, color)
            if line:
                yield f'<path d="M{left} {y}h{SWATCH}" stroke="{color}" stroke-width="1.8"{dashes}/>'
            if marker:
                yield self._marker(index, left + SWATCH / 2, y, color)
            yield f'<text x="{left + SWATCH + 8}" y="{y + 4}">{html.escape(name)}</text>'


class Panel(Plot):
    """A small plot, one of many in Panels; what the axes mean is said once, there."""

    width, height = 190, 120
    left, top, bottom = 52, 34, 30
    title_size, title_gap, marker_scale, own_legend = 12, 9, 0.7, False

    def size(self):
        return self.left + self.width + 12, self.top + self.height + self.bottom


class Panels:
    """Rows of small plots under one title, with the legend of the first at the right of them all.

    row(panels): the next row; each item is a Panel, or None for an empty place.
    """

    GAP = 10  # below the last row, for what the axes mean

    def __init__(self, title, x="", y=""):
        self.title, self.x_label, self.y_label, self.rows = title, x, y, []

    def row(self, panels):
        self.rows.append(panels)

    def _first(self):
        return next(panel for row in self.rows for panel in row if panel)

    def _area(self):
        """(width, height) of the panels together, and of one of them."""
        width, height = self._first().size()
        return width * max(map(len, self.rows)), height * len(self.rows), width, height

    def size(self):
        width, height, _, _ = self._area()
        return SIDE + width + self._first().legend_width() + 8, TITLE + height + self.GAP + 30

    def svg(self, top):
        all_wide, all_high, wide, high = self._area()
        parts = [f'<g transform="translate(0 {top})">']
        parts.append(f'<text x="{SIDE + 8}" y="26" font-size="15" font-weight="bold">{html.escape(self.title)}</text>')
        for i, row in enumerate(self.rows):
            for j, panel in enumerate(row):
                if panel:
                    parts.append(f'<g transform="translate({SIDE + j * wide} {TITLE + i * high})">')
                    parts += panel.svg(0)
                    parts.append("</g>")
        middle = number(SIDE + all_wide / 2)
        label = html.escape(self.x_label)
        parts.append(f'<text x="{middle}" y="{TITLE + all_high + self.GAP + 8}" text-anchor="middle">{label}</text>')
        parts.append(
            f'<text transform="translate(20 {number(TITLE + all_high / 2)}) rotate(-90)" '
            f'text-anchor="middle">{html.escape(self.y_label)}</text>'
        )
        parts += self._first().legend(SIDE + all_wide + LEGEND_GAP, TITLE + self._first().top + 10)
        parts.append("</g>")
        return parts


class Bars:
    """Groups of bars, one of each series in each group, with a label above each.

    series(name, [(height or None, label) for each group]); a colour of its own if it should have one
    """

    BAR, GAP = 22, 26  # widths of a bar and of the room between groups
    TURNED = 26  # room above the highest bar, for its label

    def __init__(self, title, groups, y=""):
        self.title, self.groups, self.y_label, self.all = title, groups, y, []

    def series(self, name, bars, color=None):
        self.all.append((name, bars, color or COLORS[len(self.all) % len(COLORS)]))

    def _width(self):
        return len(self.groups) * (len(self.all) * self.BAR + self.GAP) + self.GAP

    def size(self):
        longest = max((len(name) for name, _, _ in self.all), default=0)
        return LEFT + self._width() + LEGEND_GAP + SWATCH + 8 + longest * CHARACTER + 8, TOP + HEIGHT + BOTTOM

    def svg(self, top):
        heights = [height for _, bars, _ in self.all for height, _ in bars]
        axis = Axis([*heights, 0], False, least=0)
        right, bottom, room = LEFT + self._width(), TOP + HEIGHT, HEIGHT - self.TURNED
        parts = [f'<g transform="translate(0 {top})">']
        parts.append(f'<text x="{LEFT}" y="26" font-size="15" font-weight="bold">{html.escape(self.title)}</text>')
        for value, label in axis.ticks():
            y = number(bottom - room * axis.share(value))
            parts.append(f'<path d="M{LEFT} {y}H{right}" stroke="#ddd"/>')
            parts.append(f'<text x="{LEFT - 8}" y="{y}" dy="4" text-anchor="end">{label}</text>')
        for at, group in enumerate(self.groups):
            left = LEFT + self.GAP + at * (len(self.all) * self.BAR + self.GAP)
            middle = number(left + len(self.all) * self.BAR / 2)
            parts.append(f'<text x="{middle}" y="{bottom + 18}" text-anchor="middle">{html.escape(group)}</text>')
            for index, (name, bars, color) in enumerate(self.all):
                parts += self._bar(left + index * self.BAR, bottom, room, axis, color, name, *bars[at])
        parts.append(f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="#444"/>')
        parts.append(
            f'<text transform="translate(20 {TOP + HEIGHT / 2}) rotate(-90)" '
            f'text-anchor="middle">{html.escape(self.y_label)}</text>'
        )
        for index, (name, _, color) in enumerate(self.all):
            y = TOP + 10 + index * LEGEND_ROW
            box = f'x="{right + LEGEND_GAP}" y="{y - 7}" width="{SWATCH}" height="14"'
            parts.append(f'<rect {box} fill="{color}" stroke="#444"/>')
            parts.append(f'<text x="{right + LEGEND_GAP + SWATCH + 8}" y="{y + 4}">{html.escape(name)}</text>')
        parts.append("</g>")
        return parts

    def _bar(self, x, bottom, room, axis, color, name, height, label):
        if height is None:
            return
        y = bottom - room * axis.share(height)
        box = f'x="{number(x)}" y="{number(y)}" width="{self.BAR - 2}" height="{number(bottom - y)}"'
        title = f"<title>{html.escape(f'{name}: {label}')}</title>"
        yield f'<rect {box} fill="{color}" stroke="#444">{title}</rect>'
        at = f"translate({number(x + self.BAR / 2 + 3)} {number(y - 4)}) rotate(-90)"
        yield f'<text transform="{at}" font-size="10">{html.escape(str(label))}</text>'


class Matrices:
    """Panels side by side, each a matrix whose cells are empty, or marked in the colour of a kind.

    panel(title, n_rows, n_columns, {kind: [(row, column), ...]}); row 0 is at the top.
    """

    SIDE, GAP = 340, 40  # of a panel, and between two

    def __init__(self, title, kinds, x="", y=""):
        self.title, self.kinds, self.x_label, self.y_label, self.panels = title, kinds, x, y, []

    def panel(self, title, n_rows, n_columns, cells):
        self.panels.append((title, n_rows, n_columns, cells))

    def size(self):
        return LEFT + len(self.panels) * (self.SIDE + self.GAP), TOP + 26 + self.SIDE + 90

    def svg(self, top):
        parts = [f'<g transform="translate(0 {top})">']
        parts.append(f'<text x="{LEFT}" y="26" font-size="15" font-weight="bold">{html.escape(self.title)}</text>')
        above = TOP + 26
        for index, (title, n_rows, n_columns, cells) in enumerate(self.panels):
            left = LEFT + index * (self.SIDE + self.GAP)
            middle = left + self.SIDE / 2
            parts.append(f'<text x="{middle}" y="{above - 10}" text-anchor="middle">{html.escape(title)}</text>')
            scale = f"scale({self.SIDE / n_columns:.5f} {self.SIDE / n_rows:.5f})"
            parts.append(f'<g transform="translate({left} {above}) {scale}">')
            for kind, color in zip(self.kinds, COLORS):
                path = "".join(f"M{column} {row}h1v1h-1z" for row, column in cells.get(kind, ()))
                parts.append(f'<path d="{path}" fill="{color}"/>')
            parts.append("</g>")
            frame = f'x="{left}" y="{above}" width="{self.SIDE}" height="{self.SIDE}"'
            parts.append(f'<rect {frame} fill="none" stroke="#444"/>')
            for text, x, anchor in ((1, left, "start"), (n_columns, left + self.SIDE, "end")):
                parts.append(f'<text x="{x}" y="{above + self.SIDE + 16}" text-anchor="{anchor}">{text}</text>')
            for text, y in ((1, above + 10), (n_rows, above + self.SIDE)):
                parts.append(f'<text x="{left - 5}" y="{y}" text-anchor="end">{text}</text>')
            label = html.escape(self.x_label)
            parts.append(f'<text x="{middle}" y="{above + self.SIDE + 34}" text-anchor="middle">{label}</text>')
        parts.append(
            f'<text transform="translate(30 {above + self.SIDE / 2}) rotate(-90)" '
            f'text-anchor="middle">{html.escape(self.y_label)}</text>'
        )
        x, y = LEFT, above + self.SIDE + 62
        for kind, color in zip(self.kinds, COLORS):
            parts.append(f'<rect x="{number(x)}" y="{y - 10}" width="12" height="12" fill="{color}"/>')
            parts.append(f'<text x="{number(x + 18)}" y="{y}">{html.escape(kind)}</text>')
            x += 18 + CHARACTER * len(kind) + 24
        parts.append("</g>")
        return parts


def write(path, *plots):
    """Writes the plots, stacked vertically, as one SVG file."""
    sizes = [plot.size() for plot in plots]
    width, height = max(w for w, _ in sizes), sum(h for _, h in sizes)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {number(width)} {number(height)}" '
        f'width="{number(width)}" height="{number(height)}" font-family="sans-serif" font-size="12">',
        f'<rect width="{number(width)}" height="{number(height)}" fill="white"/>',
    ]
    top = 0
    for plot, (_, h) in zip(plots, sizes):
        parts += plot.svg(top)
        top += h
    parts.append("</svg>")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(parts) + "\n")
