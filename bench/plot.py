"""Line plots as self-contained SVG, for the benches: lines, markers, log axes, a legend.

    figure = Plot("time against layers", x="layers", y="seconds", log_x=True, log_y=True)
    figure.line("hong", layers, seconds)
    figure.level(1.0, "one second")
    write("growth.svg", figure)               # several plots stand below each other

A series is told by colour, marker and dash, so that a picture holds in grey print; each marker shows
its numbers as a tooltip. Points with a y of None break a line. Standard library only.
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
    """Where numbers lie between the ends of an axis, and which of them get a tick."""

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
        """A round step that gives about so many ticks."""
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
        longest = max((len(series[0]) for series in self.series), default=0)
        legend = LEGEND_GAP + SWATCH + 8 + longest * CHARACTER if longest else 0
        return LEFT + WIDTH + max(legend, 24) + 8, TOP + HEIGHT + BOTTOM

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
        parts += self._legend()
        parts.append("</g>")
        return parts

    def _place(self, x, y):
        return LEFT + WIDTH * self.ax.share(x), TOP + HEIGHT * (1 - self.ay.share(y))

    def _frame(self):
        right, bottom = LEFT + WIDTH, TOP + HEIGHT
        yield f'<text x="{LEFT}" y="26" font-size="15" font-weight="bold">{html.escape(self.title)}</text>'
        for value in self.ax.minor():
            x = number(LEFT + WIDTH * self.ax.share(value))
            yield f'<path d="M{x} {TOP}V{bottom}" stroke="#f2f2f2"/>'
        for value in self.ay.minor():
            y = number(TOP + HEIGHT * (1 - self.ay.share(value)))
            yield f'<path d="M{LEFT} {y}H{right}" stroke="#f2f2f2"/>'
        for value, label in self.ax.ticks():
            x = number(LEFT + WIDTH * self.ax.share(value))
            yield f'<path d="M{x} {TOP}V{bottom}" stroke="#ddd"/>'
            yield f'<text x="{x}" y="{bottom + 18}" text-anchor="middle">{label}</text>'
        for value, label in self.ay.ticks():
            y = TOP + HEIGHT * (1 - self.ay.share(value))
            yield f'<path d="M{LEFT} {number(y)}H{right}" stroke="#ddd"/>'
            yield f'<text x="{LEFT - 8}" y="{number(y + 4)}" text-anchor="end">{label}</text>'
        yield f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="#444"/>'
        yield f'<text x="{LEFT + WIDTH / 2}" y="{bottom + 42}" text-anchor="middle">{html.escape(self.x_label)}</text>'
        yield (
            f'<text transform="translate(20 {TOP + HEIGHT / 2}) rotate(-90)" '
            f'text-anchor="middle">{html.escape(self.y_label)}</text>'
        )
        for value, text in self.levels:
            y = TOP + HEIGHT * (1 - self.ay.share(value))
            yield f'<path d="M{LEFT} {number(y)}H{right}" stroke="#666" stroke-dasharray="1 3"/>'
            yield f'<text x="{right - 4}" y="{number(y - 4)}" text-anchor="end" fill="#666">{html.escape(text)}</text>'
        for value, text in self.uprights:
            x = LEFT + WIDTH * self.ax.share(value)
            yield f'<path d="M{number(x)} {TOP}V{bottom}" stroke="#666" stroke-dasharray="1 3"/>'
            yield f'<text x="{number(x)}" y="{TOP - 5}" text-anchor="middle" fill="#666">{html.escape(text)}</text>'

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
            shape = self._marker(index, *self._place(x, y), color)
            yield f"<g>{shape}<title>{text}</title></g>"

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

    def _legend(self):
        left = LEFT + WIDTH + LEGEND_GAP
        for index, (name, _, marker, line, dash, color, _) in enumerate(self.series):
            y = TOP + 10 + index * LEGEND_ROW
            color, dashes = self._style(index, dash, color)
            if line:
                yield f'<path d="M{left} {y}h{SWATCH}" stroke="{color}" stroke-width="1.8"{dashes}/>'
            if marker:
                yield self._marker(index, left + SWATCH / 2, y, color)
            yield f'<text x="{left + SWATCH + 8}" y="{y + 4}">{html.escape(name)}</text>'


def write(path, *plots):
    """Writes the plots, below each other, as one SVG file."""
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
