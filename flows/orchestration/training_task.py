"""A training or fine-tuning run of a recipe, which is a separate process, watched from the page of its flow run.

    watch_training       trains a model: a log, a progress bar, a table of the metrics so far, and the loss curve
    watch_fine_tuning    fine-tunes a model on a task: a log, and a progress bar over the models that learn, one a seed

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
from flows.orchestration.pages import LiveArtifact, escape_alt, log, to_data_url
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

BASELINE_CAPTION = (
    "Dotted: the unigram entropy of the held-out tokens, what a model scores that knows only how frequent each token "
    "is."
)
CURVE_EVENTS = {"step": "training", "evaluation": "held out"}  # the events that make a curve, and what they measure
# Fields of these that the metrics file keeps and people do not need.
HIDDEN_FIELDS = frozenset(
    (
        "phase unigram_entropy gradient_norm masked_tokens tokens sequences deleted dummy_tokens seconds wait_seconds "
        "components"
    ).split()
)
PERCENT_FIELDS = {"mfu": "MFU", "wait_share": "waiting"}

Advance = Callable[[str, int, int], StageProgress]
Train = Callable[[TrainingJob, Callable[[Event], None], Stop], None]


def watch_training(stage: Stage, job: TrainingJob, advance: Advance, train: Train) -> None:
    """Train the model of a pipeline stage, and show its progress on the run's page in Prefect's UI.

    Args:
        stage: The pipeline stage that builds the model.
        job: The training job.
        advance: Called as `advance(label, done, total)`. The label is "KIND/NAME steps" (after the stage's folder);
            the other two count steps.
        train: Function that trains the model here or on a cluster. It is called with the job, a callback for events,
            and a `Stop` that can stop the trainer.

    Raises:
        InputError: For an error that the user can fix.
        TrainingFailed: If the trainer fails. The message contains the end of its log.
    """
    what = stage.stage_folder
    progress = LiveArtifact(key=f"training-{stage.name}")
    progress.show(0.0, f"{what}: steps trained")
    watch = TrainingPage(
        what=what,
        steps=job.training.steps,
        metrics_path=Path(job.work) / METRICS_FILE,
        progress=progress,
        table=LiveArtifact(key=f"metrics-{what}"),
        curve=LiveArtifact(key=f"loss-{what}"),
        advance=advance,
    )
    stop = Stop()
    message = f"{what}: training ends with the step that it is in, and saves it; a second signal ends it at once."
    with call_on_stop(stop, message, patient=True):
        try:
            train(job, partial(pass_event, watch), stop)
        finally:
            watch.show_metrics()  # also after a training that failed: the curve shows how


def pass_event(watch: "TrainingPage", event: Event) -> None:
    """Show a training event on the run's page. If the run is being stopped, print what the process is waiting for.

    Args:
        watch: The page of the training run.
        event: The event, a dict as described in `TrainingPage.add_event`.
    """
    if not is_stopping():
        watch.add_event(event)
    elif line := format_stop_line(watch.what, event):
        write_to_stderr(line)


def format_stop_line(what: str, event: Event) -> str | None:
    """Format an event of a training run that is being stopped as a line. Returns None for events without a line.

    Args:
        what: The stage's folder, `KIND/NAME`.
        event: The event, with the keys "event" (its kind) and "step".

    >>> format_stop_line("models/small", {"event": "checkpoint", "step": 7})
    'models/small: the checkpoint of step 7 is saved.'
    """
    lines = {
        "stopping": f"saving the checkpoint of step {event['step']} ...",
        "checkpoint": f"the checkpoint of step {event['step']} is saved.",
    }
    return f"{what}: {lines[event['event']]}" if event["event"] in lines else None


@dataclass(kw_only=True)
class TrainingPage:
    """The Prefect artifacts on the page of a training run: a progress bar, a table of metrics, and the loss curve.

    Attributes:
        what: The stage's folder in the store, `KIND/NAME`.
        steps: The total number of training steps.
        metrics_path: Path of the file with all metrics.
        progress: The artifact with the progress bar.
        table: The artifact with the metrics table.
        curve: The artifact with the loss curve.
        advance: Called as `advance(label, done, total)`. The label is `what` and "steps"; the other two count steps.
        curve_events: The events from which the curve is drawn, at most MAX_KEPT_EVENTS.
    """

    what: str
    steps: int
    metrics_path: Path
    progress: LiveArtifact
    table: LiveArtifact
    curve: LiveArtifact
    advance: Advance
    curve_events: list[Event] = field(default_factory=list)
    _started_at: float = field(default_factory=time.monotonic)
    _logged_at: float = 0.0
    _drawn_at: float = 0.0

    def add_event(self, event: Event) -> None:
        """Write a training event to the log, and update the metrics on the page from time to time.

        Args:
            event: A dict with the keys "event" (its kind, such as "step", "evaluation" or "resume") and "step", and the
                metrics of the event by name.
        """
        for each in (*read_earlier_events(event, self.metrics_path), event):
            self._keep_event(each)
        now = time.monotonic()
        if event["event"] != "step" or now - self._logged_at >= METRIC_SECONDS:
            log(format_event(event, self.steps))
            self._logged_at = now
            self._show_progress(event)
        if now - self._drawn_at >= max(CURVE_SECONDS, DRAW_SHARE * (now - self._started_at)):
            self.show_metrics()
            self._drawn_at = now

    def _keep_event(self, event: Event) -> None:
        if event["event"] in CURVE_EVENTS:
            self.curve_events.append(event)
        if len(self.curve_events) > MAX_KEPT_EVENTS:
            self.curve_events = drop_every_other_step(self.curve_events)

    def _show_progress(self, event: Event) -> None:
        step = int(event.get("step", 0))
        pace = self.advance(f"{self.what} steps", step, self.steps)
        text = describe_progress(f"{self.what} steps", pace.to_json(time.monotonic()))
        self.progress.show(100.0 * step / self.steps, f"{self.what}: {text}")

    def show_metrics(self) -> None:
        """Show the metrics so far as a table and as a loss curve. Shows nothing before the first event."""
        if not self.curve_events:
            return
        description = f"{self.what}: {describe_training(self.curve_events, self.steps)}"
        self.table.show(build_metric_rows(self.curve_events), description)
        self.curve.show(render_curves(self.curve_events, self.what), description)


def read_earlier_events(event: Event, metrics_path: Path) -> Iterator[Event]:
    """Yield the events in the metrics file up to the checkpoint that training resumes from.

    Args:
        event: The event that the trainer has just sent. Nothing is yielded unless its kind is "resume".
        metrics_path: The path of the metrics file.
    """
    if event["event"] == "resume":
        yield from (earlier for earlier in read_metrics(metrics_path) if earlier["step"] <= event["step"])


def drop_every_other_step(events: Sequence[Event]) -> list[Event]:
    """Remove every other "step" event, and return the remaining events."""
    steps = [event for event in events if event["event"] == "step"]
    kept = {id(event) for event in steps[::2]}
    return [event for event in events if event["event"] != "step" or id(event) in kept]


def render_curves(events: Sequence[Event], what: str) -> str:
    """Render the curve of each loss term with a caption, as Markdown.

    Args:
        events: The "step" and "evaluation" events of the training.
        what: The stage's folder in the store, `KIND/NAME`, for the alternative texts.
    """
    shown = []
    for number, term in enumerate(list_terms(events) or [MAIN_TERM]):
        caption = describe_term(term).caption + (f" {BASELINE_CAPTION}" if term == MAIN_TERM else "")
        name = f"{escape_alt(term)} loss curve" if number else "loss curve"
        picture = to_data_url(draw_loss_curve(events, term=term))
        shown.append(f"![{name} of {escape_alt(what)}]({picture})\n\n{caption}\n")
    return "\n".join(shown)


def build_metric_rows(events: Sequence[Event]) -> list[dict[str, str]]:
    """Build table rows from training events, newest first: all evaluations, and about MAX_METRIC_ROWS steps.

    All rows have the same keys, "step", "of" ("training" or "held out") and the names of the metrics, because the UI
    shows only the columns of the first row. Values are formatted for display.

    Args:
        events: The "step" and "evaluation" events of the training, in order.
    """
    steps = [event for event in events if event["event"] == "step"]
    stride = max(1, len(steps) // MAX_METRIC_ROWS)
    shown = {id(event) for event in [*steps[::stride], *steps[-1:]]}
    kept = [event for event in events if event["event"] == "evaluation" or id(event) in shown]
    columns = dict.fromkeys(name for event in kept for name, _ in format_fields(event))
    return [
        {
            "step": str(event["step"]),
            "of": CURVE_EVENTS[event["event"]],
            **dict.fromkeys(columns, ""),
            **dict(format_fields(event)),
        }
        for event in reversed(kept)
    ]


def describe_training(events: Sequence[Event], steps: int) -> str:
    """Describe the progress of a training run and its losses in one line.

    Args:
        events: The training events; must not be empty.
        steps: The total number of training steps.

    >>> describe_training([{"event": "step", "step": 3, "masked_loss": 8.25}], 10)
    'step 3 of 10, masked loss 8.25'
    """
    newest = {event["event"]: event for event in events}
    term = find_main_term(events)
    parts = [f"step {events[-1]['step']} of {steps}"]
    if "step" in newest:
        parts.append(f"{term} loss {format_value(newest['step'].get(f'{term}_loss'))}")
    if "evaluation" in newest:
        parts.append(f"held out {format_value(newest['evaluation'].get(f'{term}_loss'))}")
    return ", ".join(parts)


def format_event(event: Event, steps: int) -> str:
    """Format an event of a training run as one line for the log: its kind, step and metrics.

    Args:
        event: The event, with the keys "event" (its kind) and "step", and metrics by name.
        steps: The total number of training steps.

    >>> format_event({"event": "step", "step": 3, "phase": 0, "loss": 8.25, "learning_rate": 0.0001}, 10)
    'step 3/10: loss 8.25, learning rate 0.0001'
    """
    return f"{event['event']} {event['step']}/{steps}: " + ", ".join(f"{k} {v}" for k, v in format_fields(event))


def format_fields(event: Event) -> Iterator[tuple[str, str]]:
    """Yield the (name, value) pairs of the event fields to show to the user, formatted for display.

    Args:
        event: The event. Its kind and step are not yielded.
    """
    hidden = {"event", "step", *(HIDDEN_FIELDS if event["event"] in CURVE_EVENTS else ())}
    return (format_field(name, value) for name, value in event.items() if name not in hidden)


def format_field(name: str, value: Any) -> tuple[str, str]:
    """Format the name and value of an event field for display.

    >>> format_field("memory_bytes", 3_200_000_000), format_field("mfu", 0.4123), format_field("loss", 8.25)
    (('memory', '3.2 GB'), ('MFU', '41.2 %'), ('loss', '8.25'))
    """
    if name == "memory_bytes":
        return "memory", f"{value / 1e9:.1f} GB"
    if name in PERCENT_FIELDS:
        return PERCENT_FIELDS[name], f"{value:.1%}".replace("%", " %")
    return name.replace("_", " "), format_value(value)


def format_value(value: Any) -> str:
    """Format an event value for display: four significant digits, and large numbers as integers.

    None stands for a number that is not finite.

    >>> format_value(0.0123456), format_value(12690.4), format_value(3), format_value(None)
    ('0.01235', '12,690', '3', 'not finite')
    """
    if value is None:
        return "not finite"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)


def watch_fine_tuning(stage: Stage, job: TaskJob, advance: Advance) -> None:
    """Fine-tune a model on a task, and show the progress on the run's page in Prefect's UI.

    Args:
        stage: The pipeline stage that builds the fine-tuned models.
        job: The fine-tuning job.
        advance: Called as `advance(label, done, total)` for each model. The label is "KIND/NAME steps" (after the
            stage's folder); the other two count steps.

    Raises:
        InputError: For an error that the user can fix.
        TrainingFailed: If the trainer fails. The message contains the end of its log.
    """
    watch = FineTuningPage(what=stage.stage_folder, task=job.task.name, advance=advance)
    watch.progress.show(0.0, f"{watch.what}: models learnt for {watch.task}")
    message = f"{watch.what}: fine-tuning ends with the step that it is in, and saves it; a second signal ends it now."
    stop = Stop()
    with call_on_stop(stop, message, patient=True):
        train_and_answer(job, watch.add_event, stop)
    watch.progress.show(100.0, f"{watch.what}: models learnt for {watch.task}")


@dataclass(kw_only=True)
class FineTuningPage:
    """Shows the fine-tuning of models on a run's page in Prefect's UI, with a log and a progress bar.

    Attributes:
        what: The stage's folder in the store, `KIND/NAME`.
        task: The name of the fine-tuning task.
        advance: Called as `advance(label, done, total)` for the current model. The label is `what` and "steps"; the
            other two count steps.
        progress: The artifact with the progress bar.
    """

    what: str
    task: str
    advance: Advance
    progress: LiveArtifact = field(init=False)
    _listener: EventPrinter = field(init=False)
    _steps: int = 1

    def __post_init__(self) -> None:
        self.progress = LiveArtifact(key=f"learning-{self.what}-{self.task}")
        self._listener = EventPrinter(lambda line: log(f"{self.what}: {line}"))

    def add_event(self, event: Event) -> None:
        """Show an event of the trainer in the log and in the progress bar, unless the run is being stopped.

        Args:
            event: A dict with the key "event" (its kind, such as "run", "start" or "step") and further keys for each
                kind.
        """
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
