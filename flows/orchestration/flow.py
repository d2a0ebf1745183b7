"""The run as a flow of Prefect, with its tasks. No other file makes states of Prefect of what a run does.

    cloze                 one run of a recipe: prepare, build, judge, report, release (`steps.py`)
      build_stage         a stage: its missing parts are built by all workers, then it is published; or it is whole
      models, tasks       flows of their own, because they last and have logs and curves
        train_stage       a model, a fine-tuning, or its answers

A run that nobody watches goes through the same steps and the same functions without Prefect (`unwatched_run.py`).
A recipe on a schedule is a flow with these tasks, too (`scheduled_run.py`). Tasks and these two flows have the tags
data, vocabulary, shards, train and tasks.

Prefect records, retries and shows; the store alone decides what is done. Flows take only what their pages show, since
Prefect sends parameters to its server; tasks take values that Prefect does not look into (`quote`). Importing this file
imports Prefect, which takes two seconds of a core and reads PREFECT_API_URL then.
"""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect import Flow, Task, flow, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.context import TaskRunContext
from prefect.runtime import flow_run
from prefect.states import Completed, Failed
from prefect.task_runners import ThreadPoolTaskRunner
from prefect.utilities.annotations import quote

from corpora.errors import InputError
from corpora.generic_types import Result, Tell
from corpora.store.manifest import Manifest
from flows.orchestration import stages
from flows.orchestration.embedded_server import own_password
from flows.orchestration.flow_end import FlowEnd, close_when_stopped, keep_end, wait_until_recorded
from flows.orchestration.notifications import report_failure
from flows.orchestration.pages import (
    escape_braces,
    flow_called,
    flow_run_at,
    name_run,
    parameters_of,
    report_shown,
    run_tags,
    show_once,
    show_tags,
)
from flows.orchestration.recording import recording
from flows.orchestration.run_state import RunState
from flows.orchestration.stages import Ended, PendingTask, StageBuild, is_worth_retrying
from flows.orchestration.steps import carry_out, open_workers, prepare_run, record_failure
from flows.orchestration.unwatched_run import run_alone
from flows.recipes.recipe import Recipe
from flows.run.pipeline import Outcome
from flows.run.policies import RETRIES, RETRY_DELAY_SECONDS, threads_for
from flows.run.stage_kinds import STAGES

STAGE_FAILED = "Stage failed"  # of a flow below another: an automation that waits for "Failed" sends one notice a run
# What a flow works on: its parameters are only what a person wants to see of it.
_run: ContextVar[RunState] = ContextVar("the run of a flow")
_work: ContextVar[Callable[[], Any]] = ContextVar("the work of a flow below another")


@flow(name="cloze", persist_result=False)
def cloze(recipe_name: str, recipe_toml: str) -> State[Outcome]:
    """One run of a recipe, which was prepared before there was a server: build, judge, report, release."""
    run = _run.get()
    with close_when_stopped():
        show_run(run)
        return keep_end(lambda: state_of(partial(carry_out, run, FlowTasks())))


def run_in_flow(run: RunState) -> Outcome:
    """Carry out a run as a flow of its own, or without one if no server answers. Raises what a stage raised."""
    named = cloze.with_options(
        name=flow_called(run.recipe.name),  # the orchestrator keeps the runs of each recipe apart
        flow_run_name=escape_braces(name_run(run.recipe.name, run.started)),
        task_runner=ThreadPoolTaskRunner(max_workers=threads_for(run.pool.num_workers)),  # type: ignore[arg-type]
    )
    _run.set(run)
    state = FlowEnd().call(lambda: named(**parameters_of(run.recipe), return_state=True))
    if state is None:
        return run_alone(run)
    if state.state_details.flow_run_id is not None:
        wait_until_recorded(state.state_details.flow_run_id)
    outcome: Outcome = state.result(raise_on_failure=True)
    return outcome


def run_in_this_flow(recipe: Recipe, home: Path, tell: Tell, workers: int | None, begun: Tell) -> RunState:
    """Run a recipe from its first step, as the flow run that this is called in. Raises as `run_recipe`.

    begun: is called with the run's id, before its first line
    """
    with report_failure(recipe, tell) as notifier:
        run = prepare_run(recipe.on_schedule(), home, tell, workers, begun)
        run.notifier = notifier
        with record_failure(run), open_workers(run, None):
            show_run(run)
            carry_out(run, FlowTasks())
    return run


def show_run(run: RunState) -> None:
    """Show where the run is, tag the flow run, and link its page to the report of the run, and the report to it."""
    mine, id = recording(), flow_run.id
    assert mine is not None and id is not None, "a flow run is recorded"
    run.progress.show()
    show_tags(UUID(id), run_tags(run.recipe, "builds"))
    run.flow_run = flow_run_at(mine.address, id, mine.embedded)
    report = report_shown(run.place, run.run_id, id, mine.embedded or bool(own_password(mine.address)), run.tell)
    show_once(f"report-{run.recipe.name}", report, f"{run.recipe.name}: the report of this run")


# Flows below that of a run


@flow(name="models", persist_result=False)
def models(stages: list[str]) -> State[list[Manifest]]:
    """Train the model of a run."""
    return work_below("train")


@flow(name="tasks", persist_result=False)
def tasks(stages: list[str]) -> State[list[Manifest]]:
    """Fine-tune the model of a run on a task, or let it answer new documents."""
    return work_below("tasks")


def work_below(tag: str) -> State[Any]:
    """Do the work of the flow below another that this is called in, and return its final state."""
    with close_when_stopped():
        show_tags(UUID(flow_run.id), [tag])
        return keep_end(lambda: state_of(_work.get(), failed=STAGE_FAILED, expected=Exception))


# Tasks


def is_worth_another_try(task: Any, task_run: Any, state: State[Any]) -> bool:
    """Return whether trying a failed task again may help."""
    return is_worth_retrying(state.result(raise_on_failure=False))


STAGE_TASK: dict[str, Any] = {
    "task_run_name": "{name}",
    "retries": RETRIES,
    "retry_delay_seconds": RETRY_DELAY_SECONDS,
    "retry_condition_fn": is_worth_another_try,
    "cache_policy": NO_CACHE,
    "persist_result": False,
}


@task(**STAGE_TASK)
def build_stage(name: str, build: StageBuild) -> State[Manifest]:
    """Build the missing parts of a stage on all workers, and publish it; one that is whole is reused."""
    return state_of_task(build, lambda: stages.build_stage(build))


@task(**STAGE_TASK)
def train_stage(name: str, build: StageBuild) -> State[Manifest]:
    """Train a model, fine-tune one or let one answer, in a process of its own; tried again, it resumes."""
    return state_of_task(build, lambda: stages.train_stage(build))


TASKS: Mapping[Callable[..., Ended[Any]], Task[..., Any]] = {
    stages.build_stage: build_stage,
    stages.train_stage: train_stage,
}
FLOWS: Mapping[str, Flow[..., Any]] = {"train": models, "tasks": tasks}


class FlowTasks:
    """Runs the tasks of a run in the flow run that it is used in."""

    def submit(self, name: str, work: Callable[[StageBuild], Ended[Any]], build: StageBuild) -> PendingTask:
        """Begin a task on a thread; it is tried again if that may help."""
        return TASKS[work].submit(name, quote(build))

    def call_below(self, group: str, stages: Sequence[str], work: Callable[[], Result]) -> Result:
        """Call something as a flow of its own, or without one if no server answers. Raises what it raised."""
        named = FLOWS[group].with_options(flow_run_name=escape_braces(", ".join(stages)))
        _work.set(lambda: Ended(work(), f"{', '.join(stages)} is whole"))
        state = FlowEnd().call(lambda: named([*stages], return_state=True))  # type: ignore[arg-type, return-value]
        return work() if state is None else state.result(raise_on_failure=True)


def state_of_task(build: StageBuild, work: Callable[[], Ended[Result]]) -> State[Result]:
    """Do the work of a task, tagged with the group of its stage, and return its final state.

    Given to Prefect when a task is submitted, a tag may have a limit: each task would then wait for the server.
    """
    context = TaskRunContext.get()
    assert context is not None, "this is called in a task"
    context.task_run.tags = [STAGES[build.stage.kind].group]
    return state_of(work)


def state_of(
    work: Callable[[], Ended[Result]], failed: str = "Failed", expected: type[Exception] = InputError
) -> State[Result]:
    """Do a piece of work and return its final state, which for an InputError has its paragraph.

    Any other exception is left to Prefect, which records its traceback.
    failed: the name of the state of a piece of work that failed with an exception that is expected
    """
    try:
        ended = work()
    except expected as error:
        shown = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        return Failed(name=failed, message=shown, data=error)
    return Completed(name=ended.name, message=ended.text, data=ended.value)
