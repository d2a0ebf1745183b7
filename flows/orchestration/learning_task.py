"""Fine-tuning of a run's model on a task, in a process of its own, watched from the flow run's page.

Its lines are in the log of the flow run, and a progress bar goes over the models that learn: one a seed. A trainer that
dies is started again by the task's retries, and goes on where it was.
"""

from dataclasses import dataclass, field

from corpora.store.stage import Stage
from flows.orchestration.pages import Living, log
from flows.orchestration.training_task import Advance
from flows.run.record.task_scores import Listener
from flows.signals import being_stopped, last_word
from trainer.launch import Stop
from trainer.metrics import Event
from trainer.tasks.build import TaskJob, learn


def watch_learning(stage: Stage, job: TaskJob, advance: Advance) -> None:
    """Learn a task, and show its progress. Raises InputError, or TrainingFailed with the log's end."""
    watch = LearningWatch(what=stage.stage_folder, task=job.task.name, advance=advance)
    watch.progress.show(0.0, f"{watch.what}: models learnt for {watch.task}")
    message = f"{watch.what}: fine-tuning ends with the step that it is in, and saves it; a second signal ends it now."
    stop = Stop()
    with last_word(stop, message, patient=True):
        learn(job, watch.hear, stop)
    watch.progress.show(100.0, f"{watch.what}: models learnt for {watch.task}")


@dataclass(kw_only=True)
class LearningWatch:
    """Passes the events of the trainer to the pages of a run, until that is stopped."""

    what: str
    task: str
    advance: Advance
    progress: Living = field(init=False)
    _listener: Listener = field(init=False)
    _steps: int = 1

    def __post_init__(self) -> None:
        self.progress = Living(key=f"learning-{self.what}-{self.task}")
        self._listener = Listener(lambda line: log(f"{self.what}: {line}"))

    def hear(self, event: Event) -> None:
        """Show one event."""
        if being_stopped():
            return
        self._listener.hear(event)
        if event["event"] == "run":
            done, of = event["number"] - 1, event["of"]
            self.progress.show(100.0 * done / of, f"{self.what}: {done} of {of} models learnt for {self.task}")
        elif event["event"] == "start":
            self._steps = event["steps"]
        elif event["event"] == "step":
            self.advance(f"{self.what} steps", event["step"], self._steps)
