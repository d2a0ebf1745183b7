"""The run as a flow of Prefect, with its tasks. No other file makes states of Prefect of what a run does.

    cloze                 a run that is prepared: build, judge, report, release (`complete_run` in `steps.py`)
      build_stage         builds what a stage lacks on all workers, and publishes it; a complete stage is reused
      models, tasks       subflows, because trainings take long and have logs and curves of their own
        train_stage       trains a model, fine-tunes one, or lets one answer

A run that nobody watches takes the same steps and the same functions without Prefect (`run_recipe.py`).
A recipe on a schedule is a flow with these tasks, too (`scheduled_run.py`). A task has the tag of its stage's group:
data, vocabulary, shards, train or tasks.

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
from flows.orchestration.steps import complete_run, open_workers, prepare_run, record_failure
from flows.recipes.recipe import Recipe
from flows.run.pipeline import Outcome
from flows.run.policies import RETRIES, RETRY_DELAY_SECONDS, choose_num_threads
from flows.run.stage_kinds import STAGES

STAGE_FAILED = "Stage failed"  # of a subflow: an automation that waits for "Failed" sends one notice a run
# What a flow works on; its parameters are only what a person wants to see of it.
_run: ContextVar[RunState] = ContextVar("the run of a flow")
_work: ContextVar[Callable[[], Any]] = ContextVar("the work of a subflow")


@flow(name="cloze", persist_result=False)
def cloze(recipe_name: str, recipe_toml: str) -> State[Outcome]:
    """Build, judge, report and release a prepared run (`run_in_flow`). The parameters are only for its page."""
    run = _run.get()
    with close_when_stopped():
        show_run(run)
        return keep_end(lambda: run_to_state(partial(complete_run, run, FlowTasks())))


def run_in_flow(run: RunState) -> bool:
    """Complete a run that is prepared and has its workers as a new flow run. Raises what a stage raised.

    Return False if no server answers before it begins: nothing is done then. Once it has begun, nothing runs twice: if
    the server goes away meanwhile, the run ends as its work did.
    """
    named = cloze.with_options(
        name=flow_called(run.recipe.name),  # the orchestrator keeps the runs of each recipe apart
        flow_run_name=escape_braces(name_run(run.recipe.name, run.started)),
        task_runner=ThreadPoolTaskRunner(max_workers=choose_num_threads(run.pool.num_workers)),  # type: ignore[arg-type]
    )
    _run.set(run)
    state = FlowEnd().call(lambda: named(**parameters_of(run.recipe), return_state=True))
    if state is None:
        return False
    if state.state_details.flow_run_id is not None:
        wait_until_recorded(state.state_details.flow_run_id)
    state.result(raise_on_failure=True)
    return True


def run_in_this_flow(
    recipe: Recipe, home: Path, tell: Tell, workers: int | None, begun: Tell, shown: Callable[[], object]
) -> RunState:
    """Prepare and complete a run of a recipe inside the current flow run, with workers of its own.

    begun: is called with the run's id before anything is printed
    shown: is called when the page of the flow run shows how far the run is
    Raises InputError, and what a stage raised.
    """
    with report_failure(recipe, tell) as notifier:
        run = prepare_run(recipe.to_scheduled(), home, tell, workers, begun)
        run.notifier = notifier
        with record_failure(run), open_workers(run, None):
            show_run(run)
            shown()
            complete_run(run, FlowTasks())
    return run


def show_run(run: RunState) -> None:
    """Show how far the run is on its page, and tag it. The page and the report of the run link to each other."""
    mine, id = recording(), flow_run.id
    assert mine is not None and id is not None, "a flow run is recorded"
    run.progress.show()
    show_tags(UUID(id), run_tags(run.recipe, "builds"))
    run.flow_run = flow_run_at(mine.address, id, mine.embedded)
    report = report_shown(run.place, run.run_id, id, mine.embedded or bool(own_password(mine.address)), run.tell)
    show_once(f"report-{run.recipe.name}", report, f"{run.recipe.name}: the report of this run")


# Subflows


@flow(name="models", persist_result=False)
def models(stages: list[str]) -> State[list[Manifest]]:
    """Train the model of a run."""
    return run_subflow("train")


@flow(name="tasks", persist_result=False)
def fine_tuning(stages: list[str]) -> State[list[Manifest]]:
    """Fine-tune the model of a run on a task, or let it answer new documents."""
    return run_subflow("tasks")


def run_subflow(tag: str) -> State[Any]:
    """Do the work of the current subflow, and return its final state."""
    with close_when_stopped():
        show_tags(UUID(flow_run.id), [tag])
        return keep_end(lambda: run_to_state(_work.get(), failed=STAGE_FAILED, expected=Exception))


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
    return run_task(build, lambda: stages.build_stage(build))


@task(**STAGE_TASK)
def train_stage(name: str, build: StageBuild) -> State[Manifest]:
    """Train a model, fine-tune one or let one answer, in a process of its own; tried again, it resumes."""
    return run_task(build, lambda: stages.train_stage(build))


TASK_OF: Mapping[Callable[..., Ended[Any]], Task[..., Any]] = {
    stages.build_stage: build_stage,
    stages.train_stage: train_stage,
}
SUBFLOW_OF: Mapping[str, Flow[..., Any]] = {"train": models, "tasks": fine_tuning}


class FlowTasks:
    """Runs the tasks of a run in the flow run that it is used in."""

    def submit(self, name: str, work: Callable[[StageBuild], Ended[Any]], build: StageBuild) -> PendingTask:
        """Begin a task on a thread; it is tried again if that may help."""
        return TASK_OF[work].submit(name, quote(build))

    def call_subflow(self, group: str, stages: Sequence[str], work: Callable[[], Result]) -> Result:
        """Call `work` as a subflow, or directly if no server answers before it begins. Raises what it raised."""
        named = SUBFLOW_OF[group].with_options(flow_run_name=escape_braces(", ".join(stages)))
        _work.set(lambda: Ended(work(), f"{', '.join(stages)} is whole"))
        state = FlowEnd().call(lambda: named([*stages], return_state=True))  # type: ignore[arg-type, return-value]
        return work() if state is None else state.result(raise_on_failure=True)


def run_task(build: StageBuild, work: Callable[[], Ended[Result]]) -> State[Result]:
    """Do the work of the current task, tag it with the group of its stage, and return its final state.

    Tags that are given when a task is submitted make Prefect ask its server for the concurrency limits of tags, and a
    server that is busy then fails the task. So the tag is set on the task run, which shows it once the task has ended.
    """
    context = TaskRunContext.get()
    assert context is not None, "this is called in a task"
    context.task_run.tags = [STAGES[build.stage.kind].group]
    return run_to_state(work)


def run_to_state(
    work: Callable[[], Ended[Result]], failed: str = "Failed", expected: type[Exception] = InputError
) -> State[Result]:
    """Do some work and return its final state. A failed state has the paragraph of an InputError as its message.

    failed:   the name of the state if the work raised an exception of the type `expected`
    expected: exceptions of other types are raised, and Prefect records their traceback
    """
    try:
        ended = work()
    except expected as error:
        shown = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        return Failed(name=failed, message=shown, data=error)
    return Completed(name=ended.name, message=ended.text, data=ended.value)
