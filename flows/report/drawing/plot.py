"""A plot as SVG: two axes with their ticks, and bars, lines and marks between them.

Promises: the same numbers give the same bytes; nothing in the SVG points outside it; text stays text. A plot in a page
has the page's font and colours (`currentColor`, `--bar`, `--line`), so it is right in light and dark; a stand-alone
picture has colours of its own. A value that is not a number is a gap in its line.
Cost: a millisecond.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from markupsafe import Markup

from corpora.kernels.arrays import Float64s, Int64s
from flows.report.templates import drawings, number, pixels

LETTER = 5.2  # width of a letter, on average
BOTTOM, RIGHT, ROW = 32.0, 14.0, 12.0
MARGIN = 0.05  # of the span of a line's values, above and below
BINS = 32  # of a histogram
FEWEST_TICKS = 2  # of a logarithmic axis; with fewer it has those of a linear one


@dataclass(frozen=True, slots=True, kw_only=True)
class Colours:
    """Colours of a plot: text and strong lines, the data, the grid. background: None for the page's"""

    ink: str = "currentColor"
    bar: str = "var(--bar)"
    grid: str = "var(--line)"
    background: str | None = None


IN_PAGE = Colours()
ALONE = Colours(ink="#010203", bar="#2f6fb3", grid="#dddddd", background="#ffffff")


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """The span of an axis, and the values that it names."""

    low: float
    high: float
    ticks: Sequence[float]
    label: str = ""
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """Return the position of a value: 0 at the beginning of the axis, 1 at its end."""
        low, high, value = (math.log(max(x, 0.5)) if self.logarithmic else x for x in (self.low, self.high, value))
        return (value - low) / (high - low)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """The frame of a plot. rows: of text above it"""

    width: float
    height: float
    across: Axis
    up: Axis
    rows: int = 0
    colours: Colours = IN_PAGE

    @property
    def left(self) -> float:
        """The left end of the horizontal axis: right of the labels of the other."""
        longest = max((len(number(tick)) for tick in self.up.ticks), default=1)
        return 10 + LETTER * longest + (ROW + 2 if self.up.label else 0)

    @property
    def right(self) -> float:
        """The right end of the horizontal axis."""
        return self.width - RIGHT

    @property
    def top(self) -> float:
        """The upper end of the vertical axis."""
        return 8 + ROW * self.rows

    @property
    def bottom(self) -> float:
        """The lower end of the vertical axis."""
        return self.height - BOTTOM

    def x(self, value: float) -> float:
        """Return the position of a value on the horizontal axis."""
        return self.left + self.across.share(value) * (self.right - self.left)

    def y(self, value: float) -> float:
        """Return the position of a value on the vertical axis."""
        return self.bottom - self.up.share(value) * (self.bottom - self.top)

    def bars(self, edges: Float64s, counts: Int64s) -> Markup:
        """Return a bar from each edge towards the next, as high as its count."""
        drawn = []
        for (start, end), count in zip(pairwise(edges.tolist()), counts.tolist(), strict=True):
            if count:
                x, top = self.x(start), self.y(count)
                width = self.x(start + 0.94 * (end - start)) - x
                drawn.append(f"M{pixels(x)} {pixels(self.bottom)}V{pixels(top)}h{pixels(width)}V{pixels(self.bottom)}z")
        return Markup(f'<path d="{"".join(drawn)}" fill="{self.colours.bar}"/>')

    def line(self, points: Sequence[tuple[float, float]], colour: str, width: float, dotted: bool = False) -> Markup:
        """Return a line through points; a value that is not a number is a gap."""
        drawn, pen_down = [], False
        for across, up in points:
            if math.isfinite(up):
                drawn.append(f"{'L' if pen_down else 'M'}{pixels(self.x(across))} {pixels(self.y(up))}")
            pen_down = math.isfinite(up)
        dashes = f' stroke-dasharray="{pixels(width)} {pixels(2 * width)}"' if dotted else ""
        return Markup(f'<path d="{"".join(drawn)}" fill="none" stroke="{colour}" stroke-width="{width}"{dashes}/>')

    def dots(self, points: Sequence[tuple[float, float]], colour: str, radius: float) -> Markup:
        """Return a dot at each point whose value is a number."""
        return Markup("").join(
            Markup(f'<circle cx="{pixels(self.x(across))}" cy="{pixels(self.y(up))}" r="{radius}" fill="{colour}"/>')
            for across, up in points
            if math.isfinite(up)
        )

    def upright(self, x: float) -> Markup:
        """Return a line of the grid from the bottom to the top."""
        path = f"M{pixels(x)} {pixels(self.bottom)}V{pixels(self.top)}"
        return Markup(f'<path d="{path}" stroke="{self.colours.grid}"/>')

    def furthest(self, tick: float) -> float:
        """Return the furthest place of a tick on the horizontal axis: not past the end of the drawing."""
        return self.width - LETTER * len(number(tick)) / 2 - 1

    def text(self, x: float, y: float, content: str, anchor: str = "start") -> Markup:
        """Return a line of text at a place of the drawing."""
        return Markup(drawings().text(x, y, content, self.colours.ink, anchor))

    def legend(self, entries: Sequence[tuple[str, str, bool]]) -> Markup:
        """Return the meaning of lines, in the first row above the plot. entries: name, colour, whether dotted"""
        placed, x = [], self.right
        for name, colour, dotted in reversed(entries):
            x -= LETTER * len(name)
            placed.append((name, colour, dotted, x))
            x -= 30
        return Markup(drawings().legend(self, placed))

    def picture(self, name: str, drawn: Sequence[Markup], inline: bool = True) -> Markup:
        """Return the SVG. name: says what it is, letters and dashes; inline: an element of a page, else a picture"""
        return Markup(drawings().plot(self, name, drawn, inline))


def from_zero(high: float, label: str = "", most: int = 5) -> Axis:
    """Return an axis from zero to a number, with some room above it."""
    high = 1.05 * high if high > 0 else 1.0
    return Axis(low=0.0, high=high, ticks=ticks(0.0, high, most, True), label=label)


def around(values: Sequence[float], label: str = "", most: int = 5, whole: bool = False) -> Axis:
    """Return an axis that holds values with some room at both ends."""
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(finite), max(finite)
    room = MARGIN * (high - low) or 0.5
    return Axis(low=low - room, high=high + room, ticks=ticks(low - room, high + room, most, whole), label=label)


def in_ratios(low: float, high: float, label: str = "") -> Axis:
    """Return a logarithmic axis between two numbers."""
    ratio = high / max(low, 1.0)
    heads = (1, 2, 5) if ratio < 100 else (1, 3) if ratio < 10_000 else (1,)
    powers = range(math.floor(math.log10(max(low, 1.0))), math.ceil(math.log10(max(high, 2.0))) + 1)
    rounds = [head * 10.0**power for power in powers for head in heads if low <= head * 10.0**power <= high]
    named = rounds if len(rounds) >= FEWEST_TICKS else ticks(low, high, 5, whole=True)
    return Axis(low=low, high=high, ticks=named, label=label, logarithmic=True)


def ticks(low: float, high: float, most: int, whole: bool = False) -> list[float]:
    """Return round numbers at even distances between two others, at most about so many. whole: without fractions

    >>> ticks(0, 1050, 5, whole=True), ticks(0.1, 0.5, 4)
    ([0.0, 250.0, 500.0, 750.0, 1000.0], [0.1, 0.2, 0.3, 0.4, 0.5])
    """
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    heads = (1, 2, 5, 10) if whole and power < 10 else (1, 2, 2.5, 5, 10)
    step = next(head * power for head in heads if head * power * most >= (high - low) * (1 - 1e-9))
    step = max(1.0, step) if whole else step
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{place * step:.10g}") for place in range(first, last + 1)]


def bin_edges(lengths: Int64s) -> Float64s:
    """Return edges of whole numbers that hold every length; bins in equal ratios."""
    low, high = int(lengths.min()), int(lengths.max()) + 1
    edges = np.geomspace(max(1, low), max(2, high), BINS + 1)
    return np.unique(np.concatenate([[low], np.ceil(edges[1:])])).astype(np.float64)


def histogram(lengths: Int64s, name: str, unit: str) -> Markup:
    """Return an SVG histogram of lengths. `name`: says what it is, letters and dashes."""
    edges = bin_edges(lengths)
    counts, _ = np.histogram(lengths, edges)
    across = in_ratios(float(edges[0]), float(edges[-1]), unit)
    plot = Plot(width=345.6, height=144.0, across=across, up=from_zero(float(counts.max())))
    return plot.picture(name, [plot.bars(edges, counts)])
