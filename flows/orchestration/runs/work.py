"""The pieces of work of a run, each a value: what does it, and how to describe its result. No orchestrator.

`flow_tasks.py` makes each a task of a flow run. `lone_tasks.py` calls it on a thread of a run that nobody watches. What
is done is decided by the store only, so the two build the same.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from corpora.errors import FileFault, raise_all
from corpora.store.manifest import Manifest, Part
from corpora.store.stage import PartPlan, Stage, Survey, build_parts, publish
from flows.engines.contract import TrainingEngine
from flows.orchestration.pages.page_artifacts import leave_artifacts as show_stage
from flows.orchestration.runs.run_state import RunState

if TYPE_CHECKING:
    from trainer.jobs.job import TrainingJob
    from trainer.launching.stopping import Stop
    from trainer.metrics import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class StageWork:
    """A piece of work.

    act:      does it
    describe: describes its result in a few words
    end_name: the name of the state that it ends in if it succeeds
    """

    act: Callable[[], Any]
    describe: Callable[[Any], str]
    end_name: str = "Completed"


class PendingWork(Protocol):
    """A piece of work that has begun."""

    def result(self) -> Any:
        """Wait until it has ended, and return its result. Raises what it raised."""
        ...


class TaskRunner(Protocol):
    """Runs pieces of work, each under a name."""

    def submit(self, name: str, work: StageWork) -> PendingWork:
        """Begin a piece of work on a thread; it is tried again if that may help."""
        ...

    def do(self, name: str, work: StageWork) -> Any:
        """Do a piece of work on this thread. Raises what it raised."""
        ...


# What the tasks of a run call


def build_range(
    run: RunState, stage: Stage, pieces: Sequence[Sequence[PartPlan]], distrusted: frozenset[str]
) -> list[Part]:
    """Build a range of parts, each piece of it on a worker; what is finished already is not built again.

    A run on many workers has more pieces than task runs. If pieces fail, the others are built to their end.
    """
    builds = [partial(run.call, build_parts, run.place, stage.bare, plans, distrusted) for plans in pieces]
    return builds[0]() if len(builds) == 1 else build_side_by_side(builds)


def build_side_by_side(builds: Sequence[Callable[[], list[Part]]]) -> list[Part]:
    """Build pieces of a range at once. Raises the faults of all raw files; of other errors the first."""
    with ThreadPoolExecutor(len(builds)) as threads:
        under_way = [threads.submit(build) for build in builds]
    parts, faults = list[Part](), list[FileFault]()
    for future in under_way:
        try:
            parts += future.result()
        except FileFault as fault:
            faults.append(fault)
    raise_all(faults)
    return parts


def train_range(run: RunState, stage: Stage, plans: Sequence[PartPlan], distrusted: frozenset[str]) -> list[Part]:
    """Train a model in a process of its own, then take it into the store; tried again, it resumes from a checkpoint."""
    from flows.orchestration.runs.training_task import watch_training  # only a run that trains needs the trainer
    from trainer.launching.launch import train

    def train_somewhere(job: "TrainingJob", hear: "Callable[[Event], None]", stop: "Stop") -> None:
        engine = run.pool
        if isinstance(engine, TrainingEngine) and engine.train(run.place, stage, plans, distrusted, hear, stop):
            return
        train(job, hear, stop)

    watch_training(stage, plans[0].job, run.advance, train_somewhere)
    return build_parts(run.place, stage, plans, distrusted)


def fine_tune_range(run: RunState, stage: Stage, plans: Sequence[PartPlan], distrusted: frozenset[str]) -> list[Part]:
    """Fine-tune a model on tasks in a process of its own, one after another; tried again, it goes on where it was."""
    from flows.orchestration.runs.learning_task import watch_learning

    for plan in plans:
        watch_learning(stage, plan.job, run.advance)
    return build_parts(run.place, stage, plans, distrusted)


def build_alone(run: RunState, stage: Stage, plans: Sequence[PartPlan], distrusted: frozenset[str]) -> list[Part]:
    """Build parts one after another on this thread; each is a process of its own that takes all cores."""
    return build_parts(run.place, stage, plans, distrusted)


def complete_stage(run: RunState, stage: Stage, survey: Survey, parts: Sequence[Part]) -> Manifest:
    """Publish a stage, unless the store holds it whole, and show its ledger on the page of the run.

    parts: those that were built
    """
    manifest = survey.manifest or publish(run.place, stage, survey, parts)
    show_stage(run.place, manifest, run.recipe.privacy.samples)
    return manifest
