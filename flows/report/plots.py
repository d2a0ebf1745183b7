"""Plots of a report as SVG: histograms of lengths, the loss of a training run, and the growth of a corpus.

Promises: the same numbers give the same bytes; nothing in the SVG points outside it; text stays text. A plot in a page
has the page's font and colours (`currentColor`, `--bar`, `--line`), so it is right in light and dark; a stand-alone
picture has colours of its own. A value that is not a number is a gap in its line.

Losses: a loss is a sum of terms (masked tokens, pairs of segments). Masked tokens are judged next to the cost of
guessing by frequency; every other term has a curve of its own. A term of an objective from a package has no words here
and goes by its name. Of a long run at most `MAX_POINTS` steps are drawn, at even distances. The dotted line is the
unigram entropy of the held-out tokens: the loss of a model that knows only how frequent they are. It and the held-out
loss are drawn phase by phase, because each phase may read other text.
Cost: some milliseconds a plot.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from corpora.kernels.arrays import Float64s, Int64s
from flows.report.templates import format_number, format_px, load_drawings
from trainer.metrics import Event

LETTER_WIDTH = 5.2  # width of a letter, on average
BOTTOM_MARGIN, RIGHT_MARGIN, ROW_HEIGHT = 32.0, 14.0, 12.0
MARGIN = 0.05  # of the span of a line's values, above and below
NUM_BINS = 32  # of a histogram
MIN_TICKS = 2  # of a logarithmic axis; with fewer it has those of a linear one


@dataclass(frozen=True, slots=True, kw_only=True)
class Colours:
    """The colors of a plot, as CSS values.

    Attributes:
        ink: Color of text and emphasized lines.
        bar: Color of the data.
        grid: Color of grid lines.
        background: Background color; None for a transparent background.
    """

    ink: str = "currentColor"
    bar: str = "var(--bar)"
    grid: str = "var(--line)"
    background: str | None = None


PAGE_COLOURS = Colours()
STANDALONE_COLOURS = Colours(ink="#010203", bar="#2f6fb3", grid="#dddddd", background="#ffffff")


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis of a plot, with its range and ticks.

    Attributes:
        low: Value at the start of the axis.
        high: Value at the end of the axis, greater than `low`.
        ticks: Values that are labelled on the axis.
        label: Title of the axis; "" for none.
        logarithmic: If True, the scale is logarithmic, and values below 0.5 are drawn as 0.5.
    """

    low: float
    high: float
    ticks: Sequence[float]
    label: str = ""
    logarithmic: bool = False

    def compute_share(self, value: float) -> float:
        """Return the relative position of a value on the axis, from 0 at the start to 1 at the end of the axis."""
        low, high, value = (math.log(max(x, 0.5)) if self.logarithmic else x for x in (self.low, self.high, value))
        return (value - low) / (high - low)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """The frame of a plot, with its size and axes. The `draw_` methods return SVG elements.

    Attributes:
        width: Width of the picture in points.
        height: Height of the picture in points.
        across: The horizontal axis.
        up: The vertical axis.
        rows: Number of text rows above the plot area.
        colours: Colors of the plot.
    """

    width: float
    height: float
    across: Axis
    up: Axis
    rows: int = 0
    colours: Colours = PAGE_COLOURS

    @property
    def left(self) -> float:
        """The x position of the left end of the horizontal axis. The labels of the vertical axis are to its left."""
        longest = max((len(format_number(tick)) for tick in self.up.ticks), default=1)
        return 10 + LETTER_WIDTH * longest + (ROW_HEIGHT + 2 if self.up.label else 0)

    @property
    def right(self) -> float:
        """The x position of the right end of the horizontal axis."""
        return self.width - RIGHT_MARGIN

    @property
    def top(self) -> float:
        """The y position of the upper end of the vertical axis."""
        return 8 + ROW_HEIGHT * self.rows

    @property
    def bottom(self) -> float:
        """The y position of the lower end of the vertical axis."""
        return self.height - BOTTOM_MARGIN

    def to_x(self, value: float) -> float:
        """Convert a value on the horizontal axis to an x position."""
        return self.left + self.across.compute_share(value) * (self.right - self.left)

    def to_y(self, value: float) -> float:
        """Convert a value on the vertical axis to a y position."""
        return self.bottom - self.up.compute_share(value) * (self.bottom - self.top)

    def draw_bars(self, edges: Float64s, counts: Int64s) -> Markup:
        """Draw a bar for each count, from its edge to the next edge. Counts of zero have no bar.

        Args:
            edges: float64 [n + 1], values on the horizontal axis.
            counts: int64 [n], heights of the bars as values on the vertical axis.
        """
        drawn = []
        for (start, end), count in zip(pairwise(edges.tolist()), counts.tolist(), strict=True):
            if count:
                x, top, bottom = self.to_x(start), self.to_y(count), format_px(self.bottom)
                width = self.to_x(start + 0.94 * (end - start)) - x
                drawn.append(f"M{format_px(x)} {bottom}V{format_px(top)}h{format_px(width)}V{bottom}z")
        return Markup(f'<path d="{"".join(drawn)}" fill="{self.colours.bar}"/>')

    def draw_line(
        self, points: Sequence[tuple[float, float]], colour: str, width: float, dotted: bool = False
    ) -> Markup:
        """Draw a line through points. A y value that is not finite leaves a gap.

        Args:
            points: Pairs of a value on the horizontal axis and a value on the vertical axis.
            colour: Color of the line.
            width: Width of the line in points.
            dotted: If True, the line is dotted.
        """
        drawn, pen_down = [], False
        for across, up in points:
            if math.isfinite(up):
                drawn.append(f"{'L' if pen_down else 'M'}{format_px(self.to_x(across))} {format_px(self.to_y(up))}")
            pen_down = math.isfinite(up)
        dashes = f' stroke-dasharray="{format_px(width)} {format_px(2 * width)}"' if dotted else ""
        return Markup(f'<path d="{"".join(drawn)}" fill="none" stroke="{colour}" stroke-width="{width}"{dashes}/>')

    def draw_dots(self, points: Sequence[tuple[float, float]], colour: str, radius: float) -> Markup:
        """Draw a dot at each point with a finite y value.

        Args:
            points: Pairs of a value on the horizontal axis and a value on the vertical axis.
            colour: Color of the dots.
            radius: Radius of the dots in points.
        """
        places = (
            (format_px(self.to_x(across)), format_px(self.to_y(up))) for across, up in points if math.isfinite(up)
        )
        return Markup("").join(Markup(f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{colour}"/>') for x, y in places)

    def draw_upright(self, x: float) -> Markup:
        """Draw a vertical grid line at an x position."""
        path = f"M{format_px(x)} {format_px(self.bottom)}V{format_px(self.top)}"
        return Markup(f'<path d="{path}" stroke="{self.colours.grid}"/>')

    def limit_tick(self, tick: float) -> float:
        """Return the largest x position at which a tick's label fits inside the picture."""
        return self.width - LETTER_WIDTH * len(format_number(tick)) / 2 - 1

    def draw_text(self, x: float, y: float, content: str, anchor: str = "start") -> Markup:
        """Draw a line of text.

        Args:
            x: The x position.
            y: The y position of the baseline.
            content: The text.
            anchor: The point of the text that is placed at `x`: "start", "middle" or "end", as in SVG.
        """
        return Markup(load_drawings().text(x, y, content, self.colours.ink, anchor))

    def draw_legend(self, entries: Sequence[tuple[str, str, bool]]) -> Markup:
        """Draw a legend in the first text row above the plot area, ending at the right.

        Args:
            entries: A (name, color, True if dotted) tuple for each line of the plot.
        """
        placed, x = [], self.right
        for name, colour, dotted in reversed(entries):
            x -= LETTER_WIDTH * len(name)
            placed.append((name, colour, dotted, x))
            x -= 30
        return Markup(load_drawings().legend(self, placed))

    def render(self, name: str, drawn: Sequence[Markup], inline: bool = True) -> Markup:
        """Render the plot as SVG.

        Args:
            name: Identifier for what the plot shows, with letters, digits and hyphens only.
            drawn: Elements to show, from the `draw_` methods of this plot.
            inline: True for an element of an HTML page, False for a stand-alone SVG file.
        """
        return Markup(load_drawings().plot(self, name, drawn, inline))


def build_zero_axis(high: float, label: str = "", most: int = 5) -> Axis:
    """Build an axis from zero to slightly above `high`.

    Args:
        high: The largest value to show.
        label: Title of the axis.
        most: Approximate maximum number of ticks. Ticks are at whole numbers.
    """
    high = 1.05 * high if high > 0 else 1.0
    return Axis(low=0.0, high=high, ticks=choose_ticks(0.0, high, most, True), label=label)


def build_axis(values: Sequence[float], label: str = "", most: int = 5, whole: bool = False) -> Axis:
    """Build an axis that covers all finite values, with a margin at both ends.

    Args:
        values: The values; may be empty.
        label: Title of the axis.
        most: Approximate maximum number of ticks.
        whole: If True, ticks are at whole numbers.
    """
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(finite), max(finite)
    room = MARGIN * (high - low) or 0.5
    return Axis(low=low - room, high=high + room, ticks=choose_ticks(low - room, high + room, most, whole), label=label)


def build_log_axis(low: float, high: float, label: str = "") -> Axis:
    """Build a logarithmic axis with round numbers as ticks.

    Args:
        low: Value at the start of the axis.
        high: Value at the end of the axis, greater than `low`.
        label: Title of the axis.
    """
    ratio = high / max(low, 1.0)
    heads = (1, 2, 5) if ratio < 100 else (1, 3) if ratio < 10_000 else (1,)
    powers = range(math.floor(math.log10(max(low, 1.0))), math.ceil(math.log10(max(high, 2.0))) + 1)
    rounds = [head * 10.0**power for power in powers for head in heads if low <= head * 10.0**power <= high]
    tick_values = rounds if len(rounds) >= MIN_TICKS else choose_ticks(low, high, 5, whole=True)
    return Axis(low=low, high=high, ticks=tick_values, label=label, logarithmic=True)


def choose_ticks(low: float, high: float, most: int, whole: bool = False) -> list[float]:
    """Choose evenly spaced round numbers between `low` and `high`.

    Args:
        low: Lower bound of the ticks.
        high: Upper bound of the ticks, greater than `low`.
        most: Approximate maximum number of ticks.
        whole: If True, all ticks are whole numbers.

    >>> choose_ticks(0, 1050, 5, whole=True), choose_ticks(0.1, 0.5, 4)
    ([0.0, 250.0, 500.0, 750.0, 1000.0], [0.1, 0.2, 0.3, 0.4, 0.5])
    """
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    heads = (1, 2, 5, 10) if whole and power < 10 else (1, 2, 2.5, 5, 10)
    step = next(head * power for head in heads if head * power * most >= (high - low) * (1 - 1e-9))
    step = max(1.0, step) if whole else step
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{place * step:.10g}") for place in range(first, last + 1)]


def compute_bin_edges(lengths: Int64s) -> Float64s:
    """Compute the edges of histogram bins that cover all lengths, evenly spaced on a logarithmic scale.

    Args:
        lengths: int64, the lengths. Must not be empty.

    Returns:
        float64, distinct whole numbers in ascending order. The last one is greater than all lengths.
    """
    low, high = int(lengths.min()), int(lengths.max()) + 1
    edges = np.geomspace(max(1, low), max(2, high), NUM_BINS + 1)
    return np.unique(np.concatenate([[low], np.ceil(edges[1:])])).astype(np.float64)


def draw_histogram(lengths: Int64s, name: str, unit: str) -> Markup:
    """Draw a histogram of lengths on a logarithmic axis, as an SVG element for an HTML page.

    Args:
        lengths: int64, the lengths. Must not be empty.
        name: Identifier for what the plot shows, with letters, digits and hyphens only.
        unit: Title of the horizontal axis.
    """
    edges = compute_bin_edges(lengths)
    counts, _ = np.histogram(lengths, edges)
    across = build_log_axis(float(edges[0]), float(edges[-1]), unit)
    plot = Plot(width=345.6, height=144.0, across=across, up=build_zero_axis(float(counts.max())))
    return plot.render(name, [plot.draw_bars(edges, counts)])


LOSS_SUFFIX = "_loss"
FREQUENCY_LOSS = "unigram_loss"  # not a term: what guessing by frequency costs
MAIN_TERM = "masked"  # whose held-out loss is next to the unigram entropy of the same tokens


class TermWords(NamedTuple):
    """The texts that describe a term of the loss.

    Attributes:
        axis: Title of the vertical axis of the loss curve.
        caption: Caption of the loss curve, as a sentence.
    """

    axis: str
    caption: str


TERM_WORDS: Mapping[str, TermWords] = MappingProxyType(
    {
        "masked": TermWords("masked loss, nats", "Masked loss, in nats a token."),
        "pair": TermWords("pair loss, nats", "Loss of pairs of segments, in nats a pair; guessing costs 0.69."),
        "replaced": TermWords(
            "replaced-token loss, nats",
            "Loss of telling replaced tokens from those that were there, in nats a token; guessing costs 0.69.",
        ),
        "soft": TermWords("soft loss, nats", "Loss against the probabilities of the teacher, in nats a token."),
        "cosine": TermWords("cosine loss", "How far vectors are from the teacher's: one less their cosine."),
    }
)


def describe_term(term: str) -> TermWords:
    """Return texts that describe a term of the loss. The texts for an unknown term are built from its name.

    >>> describe_term("order").axis
    'order loss'
    """
    name = f"{term.replace('_', ' ')} loss"
    return TERM_WORDS.get(term, TermWords(name, f"{name[0].upper()}{name[1:]}."))


def list_terms(events: Iterable[Event]) -> list[str]:
    """List the loss terms that have a value in at least one of the training events. "masked" comes first.

    >>> list_terms([{"loss": 9.0, "pair_loss": 0.7, "masked_loss": 8.3, "unigram_loss": 6.0, "order_loss": None}])
    ['masked', 'pair']
    """
    terms = {
        name.removesuffix(LOSS_SUFFIX): None
        for event in events
        for name, value in event.items()
        if name.endswith(LOSS_SUFFIX) and name != FREQUENCY_LOSS and value is not None
    }
    return sorted(terms, key=lambda term: term != MAIN_TERM)


def find_main_term(events: Sequence[Event]) -> str:
    """Find the main loss term of a training run: "masked" if tokens are masked, otherwise the first reported term.

    >>> find_main_term([{"masked_loss": None, "pair_loss": 0.7, "unigram_entropy": 5.0}])
    'masked'
    >>> find_main_term([{"pair_loss": 0.7}])
    'pair'
    """
    terms = list_terms(events)
    guesses = any(event.get("unigram_entropy") is not None for event in events)
    return next((term for term in terms if term == MAIN_TERM or not guesses), MAIN_TERM)


MAX_POINTS = 400
CURVE_WIDTH = 460.8
PHASE_NAME_WIDTH = 40.0  # width of a phase's name

Points = list[tuple[float, float]]


def draw_loss_curve(events: Sequence[Event], inline: str | None = None, term: str | None = None) -> Markup:
    """Draw the training loss and held-out loss of a training run as SVG.

    Args:
        events: Training metrics: dicts with the keys "event", "step", "phase" and the losses. Only the events "step"
            and "evaluation" are drawn.
        inline: Name of the plot, if it is drawn for an HTML page, with the page's font and colors. None for a
            stand-alone SVG file.
        term: The loss term; None for the main term (`find_main_term`).
    """
    colours = PAGE_COLOURS if inline else STANDALONE_COLOURS
    term = find_main_term(events) if term is None else term
    training, phases = _list_points(sample_steps(events), f"{term}_loss"), _list_evaluations(events, term)
    values = [up for _, up in training] + [up for points, entropy in phases for _, up in (*points, *entropy)]
    steps = [float(step) for span in find_phase_spans(events).values() for step in span]
    plot = Plot(
        width=CURVE_WIDTH,
        height=201.6,
        across=build_axis(steps, "steps", 8, whole=True),
        up=build_axis(values, describe_term(term).axis),
        rows=2 if len(find_phase_spans(events)) > 1 else 1,
        colours=colours,
    )
    drawn = [_mark_phases(plot, events), plot.draw_line(training, colours.bar, 1.0)]
    for points, entropy in phases:
        drawn += [plot.draw_line(points, colours.ink, 1.4), plot.draw_dots(points, colours.ink, 1.6)]
        drawn += [plot.draw_line(entropy, colours.ink, 1.0, dotted=True)] if entropy else []
    entries = [("training", colours.bar, False)] if training else []
    entries += [("held out", colours.ink, False)] if phases else []
    entries += [("unigram entropy", colours.ink, True)] if phases and term == MAIN_TERM else []
    return plot.render(inline or "loss", [*drawn, plot.draw_legend(entries)], inline is not None)


def _list_evaluations(events: Sequence[Event], term: str) -> list[tuple[Points, Points]]:
    """Return the held-out loss and the unigram entropy of each training phase that has evaluations.

    Both are lists of (step, value) points. The entropy has two points, or none if `term` is not the main term.

    Args:
        events: Training events, in order.
        term: The loss term, such as "masked".
    """
    curves = []
    for phase, (first, last) in find_phase_spans(events).items():
        within = [event for event in events if event["event"] == "evaluation" and event["phase"] == phase]
        if within:
            entropy = _read_value(within[-1], "unigram_entropy")
            bound = [(float(first), entropy), (float(last), entropy)] if term == MAIN_TERM else []
            curves.append((_list_points(within, f"{term}_loss"), bound))
    return curves


def _mark_phases(plot: Plot, events: Sequence[Event]) -> Markup:
    """Draw a vertical line with the phase's name at the start of each training phase, if there are several.

    Short phases show only a number.

    Args:
        plot: The plot, with steps on its horizontal axis.
        events: Training events, in order.
    """
    drawn = []
    begins = [plot.to_x(first) for first, _ in find_phase_spans(events).values()]
    for phase, x in enumerate(begins if len(begins) > 1 else (), 1):
        room = begins[phase] - x if phase < len(begins) else PHASE_NAME_WIDTH
        name = f"phase {phase}" if room >= PHASE_NAME_WIDTH else str(phase)
        drawn.append(plot.draw_upright(x))
        drawn.append(plot.draw_text(min(x + 2, plot.right - PHASE_NAME_WIDTH), plot.top - 3, name))
    return Markup("").join(drawn)


def find_phase_spans(events: Sequence[Event]) -> dict[int, tuple[int, int]]:
    """Return the first and last steps in the events of each training phase, by phase index."""
    spans: dict[int, tuple[int, int]] = {}
    for event in events:
        if event["event"] in ("step", "evaluation"):
            first, _ = spans.get(event["phase"], (event["step"], 0))
            spans[event["phase"]] = (first, event["step"])
    return spans


def sample_steps(events: Sequence[Event]) -> list[Event]:
    """Return about MAX_POINTS evenly spaced training events of the kind "step", including the last one."""
    steps = [event for event in events if event["event"] == "step"]
    return [*steps[: -1 : max(1, -(-len(steps) // MAX_POINTS))], *steps[-1:]]


def _list_points(events: Sequence[Event], name: str) -> Points:
    """Return the (step, value) points of a metric, one for each event.

    Args:
        events: Training events.
        name: Name of the metric, such as "masked_loss". The value is NaN for events that lack it.
    """
    return [(float(event["step"]), _read_value(event, name)) for event in events]


def _read_value(event: Event, name: str) -> float:
    value = event.get(name)  # a term of some phases alone
    return math.nan if value is None else float(value)


CHART_WIDTH, CHART_HEIGHT = 345.6, 165.6


def draw_growth_chart(added: Sequence[int], unit: str) -> Markup:
    """Draw an SVG bar chart of the running total after each generation (the raw files that one run added).

    In each bar, the amount that the generation added has a different color.

    Args:
        added: The number of items that each generation added. Must not be empty.
        unit: Title of the vertical axis.
    """
    totals = np.array([*accumulate(added)], np.int64)
    edges = np.arange(len(added) + 1, dtype=np.float64) + 0.55
    tick_values = choose_ticks(1.0, max(2.0, float(len(added))), 8, whole=True)
    across = Axis(low=0.4, high=len(added) + 0.6, ticks=[tick for tick in tick_values if tick >= 1], label="generation")
    plot = Plot(
        width=CHART_WIDTH, height=CHART_HEIGHT, across=across, up=build_zero_axis(float(totals[-1]), unit, 4), rows=1
    )
    old = replace(plot, colours=replace(PAGE_COLOURS, bar="var(--old)"))
    entries = [("from before", "var(--old)", False), ("added", PAGE_COLOURS.bar, False)]
    return plot.render(
        "growth-by-generation",
        [plot.draw_bars(edges, totals), old.draw_bars(edges, totals - np.array(added)), plot.draw_legend(entries)],
    )
