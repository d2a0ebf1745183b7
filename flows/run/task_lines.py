"""The events of fine-tuning and of a suite's runs as lines for people."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from corpora.generic_types import Tell
from flows.run.policies import METRIC_SECONDS
from flows.run.record.counts_text import counted
from trainer.metrics import Event
from trainer.tasks.suites.baselines import baseline_lines

NUMBERS = ("epoch", "restart", "loss", "learning_rate")  # of a line, next to the scores
_OTHERS = ("event", "step", "again", "gradient_norm", "sequences", "tokens", "seconds", "output", "metric")
NO_SCORES = frozenset((*_OTHERS, "baselines", *NUMBERS))


def _run_line(event: Event) -> str:
    return f"run {event['number']} of {event['of']}: {event['task']}, seed {event['seed']}"


def _judged_line(event: Event) -> str:
    scores = ", ".join(f"{name} {score:.4g}" for name, score in event["scores"].items())
    return f"{event['split']}: {event['examples']:,} examples{', ' + scores if scores else ', answered'}"


SUITE_LINES: Mapping[str, Callable[[Event], str]] = {"run": _run_line, "judged": _judged_line}


class Listener:
    """Turns the events of a fine-tuning run into lines for people."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._last = 0.0
        self._steps = 0

    def hear(self, event: Event) -> None:
        """Print one event."""
        if event["event"] in SUITE_LINES:
            self._tell(SUITE_LINES[event["event"]](event))
        elif event["event"] == "warning":
            self._tell(f"warning: {event['message']}")
        elif event["event"] == "start":
            self._steps = event["steps"]
            for line in starting(event):
                self._tell(line)
        elif event.get("again"):
            self._tell(f"{event['output']} is done already, with the same settings and files: {_figures(event)}")
        elif event["event"] == "step" and time.monotonic() - self._last < METRIC_SECONDS:
            return
        elif event["event"] != "checkpoint":
            self._last = time.monotonic()
            self._tell(progress(event, self._steps))
        if event["event"] == "done" and event["metric"] in event:
            for line in baseline_lines(event["metric"], event[event["metric"]], event.get("baselines", {})):
                self._tell(line)


def starting(event: Event) -> Iterator[str]:
    """Yield the first lines: what became of the records of each file, and how the training goes."""
    for name in ("training", "evaluation"):
        yield f"{name}: {ledger_line(event[name])}"
    settings = {name: value for name, value in event["settings"].items() if value not in (None, [], ())}
    yield f"settings: {', '.join(f'{name} {_readable(value)}' for name, value in settings.items())}"
    if event["resumed"]:
        yield f"resumes after step {event['step']}"


def ledger_line(ledger: Mapping[str, Any]) -> str:
    """Return what became of the records of a file."""
    [(unit, account)] = ledger["accounts"].items()
    figures = ledger["figures"]
    dropped = [f"{number} {reason}" for reason, number in account["outcomes"].items() if reason != "given"]
    counts = [
        counted(account["outcomes"]["given"], unit.removesuffix("s")),
        counted(figures["tokens"], "token"),
        *dropped,
    ]
    cut = f"{counted(figures['texts_cut'], 'text')} cut by {counted(figures['tokens_cut'], 'token')}"
    unknown = f"{counted(figures.get('unknown', 0), 'answer')} unknown to the model, which count as wrong"
    return ", ".join(counts + [cut] * bool(figures["texts_cut"]) + [unknown] * bool(figures.get("unknown")))


def progress(event: Event, steps: int) -> str:
    """Return an event on one line.

    >>> progress({"event": "step", "step": 3, "epoch": 1, "loss": 0.6931}, 9)
    'step 3/9: epoch 1, loss 0.6931'
    """
    parts = [_figures(event), *([f"output {event['output']}"] if "output" in event else [])]
    return f"{event['event']} {event['step']}/{steps}: {', '.join(filter(None, parts))}"


def _figures(event: Event) -> str:
    scores = [name for name, value in event.items() if name not in NO_SCORES and value is not None]
    return ", ".join(f"{name} {_readable(event[name])}" for name in (*NUMBERS, *scores) if name in event)


def _readable(value: Any) -> str:
    if isinstance(value, list):
        return " to ".join(map(_readable, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
