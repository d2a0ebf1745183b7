"""Pieces of work as Prefect tasks, or without an orchestrator; and those of a run.

Prefect records, retries and shows; the store alone decides what is done. A task takes the function that it calls
(`quote`: Prefect does not look into it), caches nothing and persists nothing. What the user can fix is the message of a
failed state, not a traceback.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, Protocol, TypeVar

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed
from prefect.utilities.annotations import quote

from corpora.errors import FileFault, InputError, raise_all
from corpora.store.manifest import Manifest, Part
from corpora.store.stage import PartPlan, Stage, Survey, build_parts, publish
from corpora.store.workers.pool import PoolClosed, WorkerDied
from flows.engines.contract import TrainingEngine
from flows.orchestration.pages.page_artifacts import leave_artifacts, parts_built, summary
from flows.orchestration.runs.learning_task import watch_learning
from flows.orchestration.runs.run_state import RunState
from flows.orchestration.runs.training_task import Event, watch_training
from flows.run.policies import RETRIES, RETRY_DELAY_SECONDS
from trainer.jobs.job import TrainingJob
from trainer.launching.launch import train
from trainer.launching.stopping import Stop

Result = TypeVar("Result")
Work = Callable[[], State[Any]]


def state_of(
    work: Callable[[], Result], say: Callable[[Result], str], name: Callable[[], str] = lambda: "Completed"
) -> State[Result]:
    """Return the final state of a piece of work: its results in a few words, or the paragraph of an InputError.

    name: gives the name of the state of work that succeeded
    Any other exception is left to Prefect, which records its traceback.
    """
    try:
        result = work()
    except InputError as error:
        return Failed(message=str(error), data=error)
    return Completed(name=name(), message=say(result), data=result)


# The work of a run


def build_range(
    run: RunState, stage: Stage, pieces: Sequence[Sequence[PartPlan]], distrusted: frozenset[str]
) -> State[list[Part]]:
    """Build a range of parts, each piece of it on a worker; what is finished already is not built again.

    A run on many workers has more pieces than task runs. If pieces fail, the others are built to their end.
    """
    run.ahead.wait_for(stage, [plan for plans in pieces for plan in plans])
    build = partial(run.call, build_parts, run.place, stage.bare)
    if len(pieces) == 1:
        return state_of(lambda: build(pieces[0], distrusted), parts_built)
    return state_of(lambda: side_by_side([partial(build, plans, distrusted) for plans in pieces]), parts_built)


def side_by_side(builds: Sequence[Callable[[], list[Part]]]) -> list[Part]:
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


def train_range(
    run: RunState, stage: Stage, plans: Sequence[PartPlan], distrusted: frozenset[str]
) -> State[list[Part]]:
    """Train a model in a process of its own, then take it into the store; tried again, it resumes from a checkpoint."""

    def train_somewhere(job: TrainingJob, hear: Callable[[Event], None], stop: Stop) -> None:
        engine = run.pool
        if isinstance(engine, TrainingEngine) and engine.train(run.place, stage, plans, distrusted, hear, stop):
            return
        train(job, hear, stop)

    def train_and_keep() -> list[Part]:
        watch_training(stage, plans[0].job, run.advance, train_somewhere)
        return build_parts(run.place, stage, plans, distrusted)

    return state_of(train_and_keep, parts_built)


def learn_range(
    run: RunState, stage: Stage, plans: Sequence[PartPlan], distrusted: frozenset[str]
) -> State[list[Part]]:
    """Fine-tune a model on tasks in a process of its own, one after another; tried again, it goes on where it was."""

    def learn_and_keep() -> list[Part]:
        for plan in plans:
            watch_learning(stage, plan.job, run.advance)
        return build_parts(run.place, stage, plans, distrusted)

    return state_of(learn_and_keep, parts_built)


def answer_range(
    run: RunState, stage: Stage, plans: Sequence[PartPlan], distrusted: frozenset[str]
) -> State[list[Part]]:
    """Answer documents with a fine-tuned model, which is a process of its own for each part."""
    return state_of(lambda: build_parts(run.place, stage, plans, distrusted), parts_built)


def finish_stage(run: RunState, stage: Stage, survey: Survey, parts: Sequence[Part]) -> State[Manifest]:
    """Make the artifact appear, unless the store holds it whole, and leave its ledger where people look.

    parts: those that were built
    """

    def publish_and_show() -> Manifest:
        manifest = survey.manifest or publish(run.place, stage, survey, parts)
        leave_artifacts(run.place, manifest, run.recipe.privacy.samples)
        return manifest

    if survey.manifest is None:
        return state_of(publish_and_show, summary)
    return state_of(publish_and_show, lambda manifest: f"whole in the store: {summary(manifest)}", lambda: "Reused")


# How it is done


@task(cache_policy=NO_CACHE, persist_result=False)
def do_work(work: Any) -> Any:
    """Do a piece of work."""
    return work()


def is_worth_another_try(task: Any, task_run: Any, state: State[Any]) -> bool:
    """Tell whether a task failed for a reason that trying again may fix."""
    return not isinstance(state.result(raise_on_failure=False), InputError)


class Doing(Protocol):
    """A piece of work that is under way."""

    def result(self) -> Any:
        """Return its result, once it has ended. Raises what it raised."""
        ...


class FlowTasks:
    """Runs work as tasks of the flow run that this is called in."""

    def submit(self, name: str, work: Work) -> Doing:
        """Begin a piece of work on a thread; it is tried again where that may help."""
        tried_again = do_work.with_options(
            task_run_name=plainly(name),
            retries=RETRIES,
            retry_delay_seconds=RETRY_DELAY_SECONDS,
            retry_condition_fn=is_worth_another_try,
        )
        return tried_again.submit(quote(work))

    def do(self, name: str, work: Work) -> Any:
        """Do a piece of work. Raises what it raised."""
        return do_work.with_options(task_run_name=plainly(name))(quote(work), return_state=True).result()


class LoneTasks:
    """Runs work without an orchestrator. What ended with its worker is tried again."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads

    def submit(self, name: str, work: Work) -> "Future[Any]":
        """Begin a piece of work on a thread."""
        return self._threads.submit(copy_context().run, _tried, work)

    def do(self, name: str, work: Work) -> Any:
        """Do a piece of work. Raises what it raised."""
        return work().result()


def _tried(work: Work) -> Any:
    """Do a piece of work, again if its worker has ended, and return its result."""
    for seconds in RETRY_DELAY_SECONDS[:RETRIES]:
        try:
            return work().result()
        except PoolClosed:
            raise
        except (WorkerDied, OSError):
            time.sleep(seconds)
    return work().result()


def plainly(name: str) -> str:
    """Return a name that Prefect shows as it is: it fills in whatever is in braces.

    >>> plainly("tickets {2026}").format()
    'tickets {2026}'
    """
    return name.replace("{", "{{").replace("}", "}}")
