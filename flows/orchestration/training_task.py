"""A training or a fine-tuning of a run: a process of its own, watched from the page of its flow run.

    watch_training     trains a model: a log, a progress bar, a table of the metrics so far, and the loss curve
    watch_learning     fine-tunes a model on a task: a log, and a progress bar over the models that learn, one a seed

`trainer.launch` starts `python -m trainer` (under torchrun's agent with several ranks), here or where an engine has
GPUs. Each thing on the page is one artifact that changes in place while the model learns: a run of a week leaves as
many as a run of a minute, and is redrawn ever less often (`DRAW_SHARE`), because the orchestrator keeps every change as
an event. A trainer that dies is started again by the task's retries, and resumes from its last checkpoint; its curve
then begins where training began.

The curve is a picture inside Markdown, which both of the orchestrator's UIs draw. (They draw an image artifact as well,
but print its address with it, which takes pages for a picture that is its own address.)
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from corpora.store.stage import Stage
from flows.orchestration.pages import Living, as_address, in_alt, log
from flows.report.plots import MAIN_TERM, describe_term, draw_loss_curve, find_main_term, list_terms
from flows.run.policies import CURVE_SECONDS, DRAW_SHARE, MAX_KEPT_EVENTS, MAX_METRIC_ROWS, METRIC_SECONDS
from flows.run.record.counts_text import describe_progress
from flows.run.record.run_status import StageProgress
from flows.run.record.task_scores import EventPrinter
from flows.signals import call_on_stop, is_stopping, write_to_stderr
from trainer.job import TrainingJob
from trainer.launch import Stop
from trainer.metrics import METRICS_FILE, Event, read_metrics
from trainer.tasks.build import TaskJob, train_and_answer

DOTTED = (
    "Dotted: the unigram entropy of the held-out tokens, what a model scores that knows only how frequent each token "
    "is."
)
OF = {"step": "training", "evaluation": "held out"}  # the events that make a curve, and what they measure
# Fields of these that the metrics file keeps and people do not need.
HIDDEN = frozenset(
    (
        "phase unigram_entropy gradient_norm masked_tokens tokens sequences deleted dummy_tokens seconds wait_seconds "
        "components"
    ).split()
)
SHARES = {"mfu": "MFU", "wait_share": "waiting"}

Advance = Callable[[str, int, int], StageProgress]
Train = Callable[[TrainingJob, Callable[[Event], None], Stop], None]


def watch_training(stage: Stage, job: TrainingJob, advance: Advance, train: Train) -> None:
    """Train the model of a stage, and show its progress. Raises InputError, or TrainingFailed with the log's end.

    train: trains here or elsewhere, given the receiver of its events and what stops it
    """
    what = stage.stage_folder
    progress = Living(key=f"training-{stage.name}")
    progress.show(0.0, f"{what}: steps trained")
    watch = Watch(
        what=what,
        steps=job.training.steps,
        metrics_path=Path(job.work) / METRICS_FILE,
        progress=progress,
        table=Living(key=f"metrics-{what}"),
        curve=Living(key=f"loss-{what}"),
        advance=advance,
    )
    stop = Stop()
    message = f"{what}: training ends with the step that it is in, and saves it; a second signal ends it at once."
    with call_on_stop(stop, message, patient=True):
        try:
            train(job, partial(hear, watch), stop)
        finally:
            watch.show_metrics()  # also after a training that failed: the curve shows how


def hear(watch: "Watch", event: Event) -> None:
    """Pass an event to the pages of the run; while that is being stopped, print what it waits for."""
    if not is_stopping():
        watch.on_event(event)
    elif line := last_line(watch.what, event):
        write_to_stderr(line)


def last_line(what: str, event: Event) -> str | None:
    """Return the line for an event of a training that is being stopped, if there is one.

    >>> last_line("models/small", {"event": "checkpoint", "step": 7})
    'models/small: the checkpoint of step 7 is saved.'
    """
    lines = {
        "stopping": f"saving the checkpoint of step {event['step']} ...",
        "checkpoint": f"the checkpoint of step {event['step']} is saved.",
    }
    return f"{what}: {lines[event['event']]}" if event["event"] in lines else None


@dataclass(kw_only=True)
class Watch:
    """Holds the events of a training run so far, and what the page shows of them already."""

    what: str
    steps: int
    metrics_path: Path
    progress: Living
    table: Living
    curve: Living
    advance: Advance
    curve_events: list[Event] = field(default_factory=list)
    _begun: float = field(default_factory=time.monotonic)
    _logged: float = 0.0
    _drawn: float = 0.0

    def on_event(self, event: Event) -> None:
        """Log one event of the trainer, and redraw from time to time."""
        for each in (*earlier_events(event, self.metrics_path), event):
            self._keep(each)
        now = time.monotonic()
        if event["event"] != "step" or now - self._logged >= METRIC_SECONDS:
            log(event_line(event, self.steps))
            self._logged = now
            self._show_progress(event)
        if now - self._drawn >= max(CURVE_SECONDS, DRAW_SHARE * (now - self._begun)):
            self.show_metrics()
            self._drawn = now

    def _keep(self, event: Event) -> None:
        if event["event"] in OF:
            self.curve_events.append(event)
        if len(self.curve_events) > MAX_KEPT_EVENTS:
            self.curve_events = thinned(self.curve_events)

    def _show_progress(self, event: Event) -> None:
        step = int(event.get("step", 0))
        pace = self.advance(f"{self.what} steps", step, self.steps)
        text = describe_progress(f"{self.what} steps", pace.to_json(time.monotonic()))
        self.progress.show(100.0 * step / self.steps, f"{self.what}: {text}")

    def show_metrics(self) -> None:
        """Show the metrics so far as a table, thinned to METRIC_ROWS, and the loss curve."""
        if not self.curve_events:
            return
        description = f"{self.what}: {standing(self.curve_events, self.steps)}"
        self.table.show(metric_rows(self.curve_events), description)
        self.curve.show(curves(self.curve_events, self.what), description)


def earlier_events(event: Event, metrics_path: Path) -> Iterator[Event]:
    """Yield the earlier events of a training that resumes from a checkpoint; nothing before any other event."""
    if event["event"] == "resume":
        yield from (earlier for earlier in read_metrics(metrics_path) if earlier["step"] <= event["step"])


def thinned(events: Sequence[Event]) -> list[Event]:
    """Return every other step, and all evaluations."""
    steps = [event for event in events if event["event"] == "step"]
    kept = {id(event) for event in steps[::2]}
    return [event for event in events if event["event"] != "step" or id(event) in kept]


def curves(events: Sequence[Event], what: str) -> str:
    """Return the loss curve of each term with its caption, as Markdown. what: is trained"""
    shown = []
    for number, term in enumerate(list_terms(events) or [MAIN_TERM]):
        caption = f"{describe_term(term).caption} {DOTTED}" if term == MAIN_TERM else describe_term(term).caption
        name = f"{in_alt(term)} loss curve" if number else "loss curve"
        shown.append(f"![{name} of {in_alt(what)}]({as_address(draw_loss_curve(events, term=term))})\n\n{caption}\n")
    return "\n".join(shown)


def metric_rows(events: Sequence[Event]) -> list[dict[str, str]]:
    """Return events as rows of a table, the newest first: every evaluation, and steps at equal distances.

    All rows have the same columns, because the UI takes those of the first.
    """
    steps = [event for event in events if event["event"] == "step"]
    stride = max(1, len(steps) // MAX_METRIC_ROWS)
    shown = {id(event) for event in [*steps[::stride], *steps[-1:]]}
    kept = [event for event in events if event["event"] == "evaluation" or id(event) in shown]
    columns = dict.fromkeys(name for event in kept for name, _ in figures(event))
    return [
        {"step": str(event["step"]), "of": OF[event["event"]], **dict.fromkeys(columns, ""), **dict(figures(event))}
        for event in reversed(kept)
    ]


def standing(events: Sequence[Event], steps: int) -> str:
    """Describe the progress of a training run and its losses, on one line.

    >>> standing([{"event": "step", "step": 3, "masked_loss": 8.25}], 10)
    'step 3 of 10, masked loss 8.25'
    """
    newest = {event["event"]: event for event in events}
    term = find_main_term(events)
    parts = [f"step {events[-1]['step']} of {steps}"]
    if "step" in newest:
        parts.append(f"{term} loss {readable(newest['step'].get(f'{term}_loss'))}")
    if "evaluation" in newest:
        parts.append(f"held out {readable(newest['evaluation'].get(f'{term}_loss'))}")
    return ", ".join(parts)


def event_line(event: Event, steps: int) -> str:
    """Return an event on one line.

    >>> event_line({"event": "step", "step": 3, "phase": 0, "loss": 8.25, "learning_rate": 0.0001}, 10)
    'step 3/10: loss 8.25, learning rate 0.0001'
    """
    return f"{event['event']} {event['step']}/{steps}: " + ", ".join(f"{k} {v}" for k, v in figures(event))


def figures(event: Event) -> Iterator[tuple[str, str]]:
    """Yield the fields of an event for people, name by name."""
    hidden = {"event", "step", *(HIDDEN if event["event"] in OF else ())}
    return (readable_field(name, value) for name, value in event.items() if name not in hidden)


def readable_field(name: str, value: Any) -> tuple[str, str]:
    """Return the name and value of an event's field for people.

    >>> readable_field("memory_bytes", 3_200_000_000), readable_field("mfu", 0.4123), readable_field("loss", 8.25)
    (('memory', '3.2 GB'), ('MFU', '41.2 %'), ('loss', '8.25'))
    """
    if name == "memory_bytes":
        return "memory", f"{value / 1e9:.1f} GB"
    if name in SHARES:
        return SHARES[name], f"{value:.1%}".replace("%", " %")
    return name.replace("_", " "), readable(value)


def readable(value: Any) -> str:
    """Format a value of an event for people: four significant digits, and thousands whole.

    >>> readable(0.0123456), readable(12690.4), readable(3), readable(None)
    ('0.01235', '12,690', '3', 'not finite')
    """
    if value is None:
        return "not finite"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)


def watch_learning(stage: Stage, job: TaskJob, advance: Advance) -> None:
    """Learn a task, and show its progress. Raises InputError, or TrainingFailed with the log's end."""
    watch = LearningWatch(what=stage.stage_folder, task=job.task.name, advance=advance)
    watch.progress.show(0.0, f"{watch.what}: models learnt for {watch.task}")
    message = f"{watch.what}: fine-tuning ends with the step that it is in, and saves it; a second signal ends it now."
    stop = Stop()
    with call_on_stop(stop, message, patient=True):
        train_and_answer(job, watch.hear, stop)
    watch.progress.show(100.0, f"{watch.what}: models learnt for {watch.task}")


@dataclass(kw_only=True)
class LearningWatch:
    """Passes the events of the trainer to the pages of a run, until that is stopped."""

    what: str
    task: str
    advance: Advance
    progress: Living = field(init=False)
    _listener: EventPrinter = field(init=False)
    _steps: int = 1

    def __post_init__(self) -> None:
        self.progress = Living(key=f"learning-{self.what}-{self.task}")
        self._listener = EventPrinter(lambda line: log(f"{self.what}: {line}"))

    def hear(self, event: Event) -> None:
        """Show one event."""
        if is_stopping():
            return
        self._listener.print_event(event)
        if event["event"] == "run":
            done, of = event["number"] - 1, event["of"]
            self.progress.show(100.0 * done / of, f"{self.what}: {done} of {of} models learnt for {self.task}")
        elif event["event"] == "start":
            self._steps = event["steps"]
        elif event["event"] == "step":
            self.advance(f"{self.what} steps", event["step"], self._steps)
