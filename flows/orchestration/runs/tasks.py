"""Stages as Prefect tasks, each a decoration, a call and a return.

Prefect records, retries and shows; the store alone decides what is done. A task takes one value that says what to do
(`task_payload.py`; `quote`: Prefect does not look into it), caches nothing and persists nothing. What the user can fix
is the message of a failed state, not a traceback.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, Protocol, TypeVar

from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed
from prefect.utilities.annotations import quote

from corpora.errors import InputError
from corpora.store.manifest import Manifest
from corpora.store.stage import build_parts, publish
from corpora.store.workers.pool import PoolClosed, WorkerDied
from flows.engines.contract import TrainingEngine
from flows.orchestration.pages.page_artifacts import leave_artifacts, parts_built, summary, whole_in_store
from flows.orchestration.runs.run_state import the_run
from flows.orchestration.runs.task_payload import PartsWork, PublishWork, ReuseWork
from flows.orchestration.runs.training_task import Event, watch_training
from flows.run.policies import RETRIES, RETRY_DELAY_SECONDS
from trainer.jobs.job import TrainingJob
from trainer.launching.launch import train
from trainer.launching.stopping import Stop

Result = TypeVar("Result")


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


def is_input_error(state: State[Any]) -> bool:
    """Tell whether a task failed for a reason that trying again cannot fix."""
    return isinstance(state.result(raise_on_failure=False), InputError)


def once(work: Callable[[Any], Any]) -> Task[[Any], Any]:
    """Make a piece of work a task that is not tried again."""
    return task(cache_policy=NO_CACHE, persist_result=False)(work)


def tried_again(work: Callable[[Any], Any]) -> Task[[Any], Any]:
    """Make a piece of work a task that is tried again, unless it failed for a reason that only the user can fix."""
    return once(work).with_options(
        retries=RETRIES,
        retry_delay_seconds=RETRY_DELAY_SECONDS,
        retry_condition_fn=lambda _task, _run, state: not is_input_error(state),
    )


@tried_again
def build_range(work: Any) -> Any:
    """Build a range of parts on a worker; what is finished already is not built again."""
    todo: PartsWork = work
    build = the_run().call
    return state_of(lambda: len(build(build_parts, todo.place, todo.stage, todo.plans, todo.distrusted)), parts_built)


def train_somewhere(todo: PartsWork, job: TrainingJob, hear: Callable[[Event], None], stop: Stop) -> None:
    """Train a model on a machine of the engine if it has one, else here."""
    engine = the_run().pool
    if isinstance(engine, TrainingEngine):
        if engine.train(todo.place, todo.stage, todo.plans, todo.distrusted, hear, stop):
            return
    train(job, hear, stop)


@tried_again
def train_range(work: Any) -> Any:
    """Train a model in a process of its own, then take it into the store; tried again, it resumes from a checkpoint."""
    todo: PartsWork = work

    def train_and_keep() -> int:
        watch_training(todo.stage, todo.plans[0].job, the_run().advance, partial(train_somewhere, todo))
        return len(build_parts(todo.place, todo.stage, todo.plans, todo.distrusted))

    return state_of(train_and_keep, parts_built)


@once
def publish_stage(work: Any) -> Any:
    """Make the artifact appear, and leave its ledger where people look."""
    todo: PublishWork = work

    def publish_and_show() -> Manifest:
        manifest = publish(todo.place, todo.stage, todo.survey)
        leave_artifacts(todo.place, manifest, todo.privacy)
        return manifest

    return state_of(publish_and_show, summary)


@once
def reuse_stage(work: Any) -> Any:
    """Report a stage that the store holds whole."""
    todo: ReuseWork = work

    def show() -> Manifest:
        leave_artifacts(todo.place, todo.manifest, todo.privacy)
        return todo.manifest

    return state_of(show, whole_in_store, lambda: "Reused")


class Doing(Protocol):
    """A task that is under way."""

    def result(self, timeout: float | None = None, raise_on_failure: bool = True) -> Any:
        """Return its result, once it has ended. Raises what it raised, or returns that."""
        ...


class FlowTasks:
    """Runs work as tasks of the flow run that this is called in."""

    def submit(self, work: Task[[Any], Any], name: str, todo: Any) -> Doing:
        """Begin a piece of work on a thread."""
        return work.with_options(task_run_name=plainly(name)).submit(quote(todo))

    def do(self, work: Task[[Any], Any], name: str, todo: Any) -> Any:
        """Do a piece of work. Raises what it raised."""
        return work.with_options(task_run_name=plainly(name))(quote(todo), return_state=True).result()


class LoneTasks:
    """Runs work without an orchestrator. What ended with its worker is tried again."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads

    def submit(self, work: Task[[Any], Any], name: str, todo: Any) -> Doing:
        """Begin a piece of work on a thread."""
        return _Alone(self._threads.submit(copy_context().run, self.do, work, name, todo))

    def do(self, work: Task[[Any], Any], name: str, todo: Any) -> Any:
        """Do a piece of work. Raises what it raised."""
        return _tried(partial(work.fn, todo), RETRIES if work.retries else 0).result()


class _Alone:
    def __init__(self, future: "Future[Any]") -> None:
        self._future = future

    def result(self, timeout: float | None = None, raise_on_failure: bool = True) -> Any:
        if raise_on_failure:
            return self._future.result(timeout)
        return self._future.exception(timeout) or self._future.result()


def _tried(work: Callable[[], Any], retries: int) -> Any:
    """Do a piece of work, again if its worker has ended, and return its result."""
    for seconds in RETRY_DELAY_SECONDS[:retries]:
        try:
            return work()
        except PoolClosed:
            raise
        except (WorkerDied, OSError):
            time.sleep(seconds)
    return work()


def plainly(name: str) -> str:
    """Return a name that Prefect shows as it is: it fills in whatever is in braces.

    >>> plainly("tickets {2026}").format()
    'tickets {2026}'
    """
    return name.replace("{", "{{").replace("}", "}}")
