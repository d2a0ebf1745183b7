"""The hand-off: a training run as a process of its own, watched from the flow run's page.

`train` starts `torchrun -m trainer` and turns what it says into a log, a progress bar, a table of the metrics so far
and the loss curve, as artifacts that are updated while it runs. A trainer that dies is started again by the task's
retries, and goes on from its last checkpoint.
"""

import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from prefect.artifacts import (
    create_image_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.logging import get_run_logger

from corpora.store.stage import Stage
from flows.policies import CURVE_SECONDS, METRIC_ROWS, METRIC_SECONDS
from flows.report.curves import loss_curve
from trainer.job import TrainingJob
from trainer.launch import train

Event = Mapping[str, Any]
Advance = Callable[[str, int, int], None]


def watch_training(stage: Stage, slug: Callable[[str], str], advance: Advance) -> None:
    """Train the model of a stage, and show how it goes. Raises InputError, or TrainingFailed with the log's end."""
    job: TrainingJob = stage.parts[0].job
    what = f"{stage.kind}/{stage.name}"
    progress = create_progress_artifact(0.0, key=slug(f"training-{stage.name}"), description=f"steps of {what}")
    assert isinstance(progress, UUID)
    watch = Watch(what=what, steps=job.training.steps, progress=progress, slug=slug, advance=advance)
    train(job, watch.on_event)
    watch.show_metrics()


@dataclass(kw_only=True)
class Watch:
    """What a training run has said so far, and what of it the page shows already."""

    what: str
    steps: int
    progress: UUID
    slug: Callable[[str], str]
    advance: Advance
    events: list[Event] = field(default_factory=list)
    _said: float = 0.0
    _drawn: float = 0.0

    def on_event(self, event: Event) -> None:
        """One line of the trainer: logged, and from time to time drawn."""
        self.events.append(event)
        now = time.monotonic()
        if event["event"] != "step" or now - self._said >= METRIC_SECONDS:
            get_run_logger().info("%s", event_line(event))
            self._said = now
            self._show_progress(event)
        if now - self._drawn >= CURVE_SECONDS:
            self.show_metrics()
            self._drawn = now

    def _show_progress(self, event: Event) -> None:
        step = int(event.get("step", 0))
        self.advance(f"{self.what} steps", step, self.steps)
        update_progress_artifact(self.progress, 100.0 * step / self.steps)

    def show_metrics(self) -> None:
        """The metrics so far as a table, thinned to METRIC_ROWS, and the loss curve."""
        curves = [event for event in self.events if event["event"] in ("step", "evaluation")]
        if not curves:
            return
        name = self.what.replace("/", "-")
        create_table_artifact(metric_rows(curves), key=self.slug(f"metrics-{name}"), description="training metrics")
        picture = b64encode(loss_curve(curves).encode()).decode()
        create_image_artifact(
            f"data:image/svg+xml;base64,{picture}", key=self.slug(f"loss-{name}"), description="loss curve"
        )


def metric_rows(events: list[Event]) -> list[dict[str, str]]:
    """Events as rows of a table: every evaluation, and steps at equal distances."""
    steps = [event for event in events if event["event"] == "step"]
    stride = max(1, len(steps) // METRIC_ROWS)
    shown = {id(event) for event in [*steps[::stride], *steps[-1:]]}
    kept = [event for event in events if event["event"] == "evaluation" or id(event) in shown]
    return [{name: readable(value) for name, value in event.items()} for event in kept]


def event_line(event: Event) -> str:
    """An event on one line.

    >>> event_line({"event": "step", "step": 3, "loss": 8.25})
    'step: step 3, loss 8.25'
    """
    return f"{event['event']}: " + ", ".join(f"{k} {readable(v)}" for k, v in event.items() if k != "event")


def readable(value: Any) -> str:
    """A value of an event for people: four significant digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
