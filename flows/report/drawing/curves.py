"""The curves of a training run as SVG: masked loss of training and of the held-out split, and the learning rate.

Promises: the same events give the same bytes; of a long run at most `POINTS` steps are drawn, at even distances. The
dotted line is the unigram entropy of the held-out tokens, what a model scores that knows only how frequent they are;
it and the held-out loss are drawn phase by phase, because each phase may read other text.
Cost: 0.1 s a figure (CPU time, one x86-64 core), and matplotlib's import before.
"""

import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from flows.report.drawing.figures import BAR, GRID, INK, STYLE, inline_svg

POINTS = 400
BLUE, PALE = "#2f6fb3", "#dddddd"

Event = Mapping[str, Any]


def loss_curve(events: Sequence[Event], inline: str | None = None) -> str:
    """The curve of a run's events, of which those named "step" and "evaluation" are drawn.

    inline: name of the figure in a page whose font and colours it takes; None: a picture by itself
    """
    return _figure(lambda axes: _draw_losses(axes, events), inline, "loss", 2.8)


def rate_curve(events: Sequence[Event], inline: str) -> str:
    """The learning rate over the steps of a run, as a figure in a page. inline: its name there."""
    return _figure(lambda axes: _draw_rates(axes, events), inline, "rate", 1.5)


def _figure(draw: Callable[[Axes], None], inline: str | None, name: str, height: float) -> str:
    name = inline or name
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=(6.4, height), layout="constrained")
        draw(figure.subplots())
        stream = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        background: dict[str, Any] = {"transparent": True} if inline else {"facecolor": "white"}
        figure.savefig(stream, format="svg", metadata=nothing, **background)
    svg = stream.getvalue()
    return inline_svg(svg, name) if inline else svg.replace(BAR, BLUE).replace(GRID, PALE)


def _draw_losses(axes: Axes, events: Sequence[Event]) -> None:
    steps = steps_of(events)
    evaluations = [event for event in events if event["event"] == "evaluation"]
    if steps:
        axes.plot(*_line(steps, "masked_loss"), color=BAR, linewidth=1, label="training")
    for phase, (first, last) in phase_spans(events).items():
        within = [event for event in evaluations if event["phase"] == phase]
        if within:
            names = ("held out", "unigram entropy") if within[0] is evaluations[0] else (None, None)
            axes.plot(*_line(within, "masked_loss"), color=INK, linewidth=1.4, marker="o", markersize=3, label=names[0])
            entropy = within[-1]["unigram_entropy"]
            axes.plot((first, last), (entropy, entropy), color=INK, linewidth=1, linestyle=":", label=names[1])
    _finish(axes, events)
    axes.set_ylabel("masked loss, nats")
    if steps or evaluations:
        axes.legend(frameon=False, ncols=3, loc="upper right")


def _draw_rates(axes: Axes, events: Sequence[Event]) -> None:
    axes.plot(*_line(steps_of(events), "learning_rate"), color=BAR, linewidth=1.2)
    _finish(axes, events)
    axes.set_ylabel("learning rate")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(3))


def _finish(axes: Axes, events: Sequence[Event]) -> None:
    """The axis of steps, and where each phase begins if there are several."""
    axes.set_xlabel("steps")
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    spans = phase_spans(events)
    for number, (first, _) in enumerate(spans.values() if len(spans) > 1 else (), 1):
        axes.axvline(first, color=GRID, linewidth=1)
        axes.text(first, 1.01, f" phase {number}", transform=axes.get_xaxis_transform(), va="bottom", fontsize=8)


def phase_spans(events: Sequence[Event]) -> dict[int, tuple[int, int]]:
    """The first and the last step that was said of each phase."""
    spans: dict[int, tuple[int, int]] = {}
    for event in events:
        if event["event"] in ("step", "evaluation"):
            first, _ = spans.get(event["phase"], (event["step"], 0))
            spans[event["phase"]] = (first, event["step"])
    return spans


def steps_of(events: Sequence[Event]) -> list[Event]:
    """The training steps among the events: at most POINTS at even distances, and the last."""
    steps = [event for event in events if event["event"] == "step"]
    return [*steps[: -1 : max(1, -(-len(steps) // POINTS))], *steps[-1:]]


def _line(events: Sequence[Event], name: str) -> tuple[list[int], list[float]]:
    """Steps, and the value of each; what was no number is a gap."""
    values = (event[name] for event in events)
    return [event["step"] for event in events], [math.nan if value is None else value for value in values]
