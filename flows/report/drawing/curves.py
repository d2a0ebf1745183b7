"""The curves of a training run as SVG: each term's loss, of training and of the held-out split.

Promises: the same events give the same bytes; of a long run at most `POINTS` steps are drawn, at even distances. The
dotted line, of masked tokens, is the unigram entropy of the held-out tokens, what a model scores that knows
only how frequent they are; it and the held-out loss are drawn phase by phase, because each phase may read other text.
Cost: some milliseconds a figure.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np
from markupsafe import Markup

from flows.report.drawing.plot import ALONE, IN_PAGE, Axis, Plot, around, from_zero, ticks
from flows.report.model.terms import MAIN, main_term, words_of
from trainer.metrics import Event

POINTS = 400
WIDTH = 460.8
LAST_PHASE = 40.0  # width of a phase's name

Points = list[tuple[float, float]]


def loss_curve(events: Sequence[Event], inline: str | None = None, term: str | None = None) -> Markup:
    """Return the curve of a run's events; those named "step" and "evaluation" are drawn.

    inline: name of the figure in a page whose font and colours it takes; None: a stand-alone picture
    term:   whose loss; None: that of the term by which the model is judged
    """
    colours = IN_PAGE if inline else ALONE
    term = main_term(events) if term is None else term
    training, phases = _points(steps_of(events), f"{term}_loss"), _evaluated(events, term)
    values = [up for _, up in training] + [up for points, entropy in phases for _, up in (*points, *entropy)]
    plot = Plot(
        width=WIDTH,
        height=201.6,
        across=_steps(events),
        up=around(values, words_of(term).axis),
        rows=2 if len(phase_spans(events)) > 1 else 1,
        colours=colours,
    )
    drawn = [_phases(plot, events), plot.line(training, colours.bar, 1.0)]
    for points, entropy in phases:
        drawn += [plot.line(points, colours.ink, 1.4), plot.dots(points, colours.ink, 1.6)]
        drawn += [plot.line(entropy, colours.ink, 1.0, dotted=True)] if entropy else []
    entries = [("training", colours.bar, False)] if training else []
    entries += [("held out", colours.ink, False)] if phases else []
    entries += [("unigram entropy", colours.ink, True)] if phases and term == MAIN else []
    return plot.picture(inline or "loss", [*drawn, plot.legend(entries)], inline is not None)


def _steps(events: Sequence[Event]) -> Axis:
    """Return the axis of steps."""
    steps = [step for span in phase_spans(events).values() for step in span]
    return around([float(step) for step in steps], "steps", 8, whole=True)


def _evaluated(events: Sequence[Event], term: str) -> list[tuple[Points, Points]]:
    """Return the held-out losses of each phase that has some, and over all of it the unigram entropy, if it has one."""
    curves = []
    for phase, (first, last) in phase_spans(events).items():
        within = [event for event in events if event["event"] == "evaluation" and event["phase"] == phase]
        if within:
            entropy = _value(within[-1], "unigram_entropy")
            bound = [(float(first), entropy), (float(last), entropy)] if term == MAIN else []
            curves.append((_points(within, f"{term}_loss"), bound))
    return curves


def _phases(plot: Plot, events: Sequence[Event]) -> Markup:
    """Mark where each phase begins, if there are several; a phase too short for its name gets its number."""
    drawn = []
    begins = [plot.x(first) for first, _ in phase_spans(events).values()]
    for number, x in enumerate(begins if len(begins) > 1 else (), 1):
        room = begins[number] - x if number < len(begins) else LAST_PHASE
        name = f"phase {number}" if room >= LAST_PHASE else str(number)
        drawn.append(plot.upright(x))
        drawn.append(plot.text(min(x + 2, plot.right - LAST_PHASE), plot.top - 3, name))
    return Markup("").join(drawn)


def phase_spans(events: Sequence[Event]) -> dict[int, tuple[int, int]]:
    """Return the first and the last step reported for each phase."""
    spans: dict[int, tuple[int, int]] = {}
    for event in events:
        if event["event"] in ("step", "evaluation"):
            first, _ = spans.get(event["phase"], (event["step"], 0))
            spans[event["phase"]] = (first, event["step"])
    return spans


def steps_of(events: Sequence[Event]) -> list[Event]:
    """Return the training steps among the events: at most POINTS at even distances, and the last."""
    steps = [event for event in events if event["event"] == "step"]
    return [*steps[: -1 : max(1, -(-len(steps) // POINTS))], *steps[-1:]]


def _points(events: Sequence[Event], name: str) -> Points:
    """Return steps, each with a value; what is not a number is a gap."""
    return [(float(event["step"]), _value(event, name)) for event in events]


def _value(event: Event, name: str) -> float:
    value = event.get(name)  # a term of some phases alone
    return math.nan if value is None else float(value)


WIDTH, HEIGHT = 345.6, 165.6


def growth_chart(added: Sequence[int], unit: str) -> Markup:
    """Return a bar for each generation, as high as the sum until then; the part that it added is in another colour."""
    totals = np.array([*accumulate(added)], np.int64)
    edges = np.arange(len(added) + 1, dtype=np.float64) + 0.55
    named = ticks(1.0, max(2.0, float(len(added))), 8, whole=True)
    across = Axis(low=0.4, high=len(added) + 0.6, ticks=[tick for tick in named if tick >= 1], label="generation")
    plot = Plot(width=WIDTH, height=HEIGHT, across=across, up=from_zero(float(totals[-1]), unit, 4), rows=1)
    old = replace(plot, colours=replace(IN_PAGE, bar="var(--old)"))
    entries = [("from before", "var(--old)", False), ("added", IN_PAGE.bar, False)]
    return plot.picture(
        "growth-by-generation",
        [plot.bars(edges, totals), old.bars(edges, totals - np.array(added)), plot.legend(entries)],
    )
