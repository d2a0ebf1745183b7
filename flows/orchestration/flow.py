"""The run as a flow of Prefect, with its tasks. No other file makes states of Prefect of what a run does.

    cloze                 a run that is prepared: build, judge, report, release (`steps.complete_run`)
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
from flows.orchestration.embedded_server import find_own_password
from flows.orchestration.flow_end import FlowEnd, close_when_stopped, keep_end, wait_until_recorded
from flows.orchestration.notifications import report_failure
from flows.orchestration.pages import (
    add_tags,
    build_flow_parameters,
    describe_flow_run,
    escape_braces,
    name_run,
    render_report_link,
    run_tags,
    show_artifact,
    to_flow_name,
)
from flows.orchestration.recording import get_recording
from flows.orchestration.run_state import RunState
from flows.orchestration.stages import PendingTask, StageBuild, WorkResult, is_worth_retrying
from flows.orchestration.steps import complete_run, open_workers, prepare_run, record_failure
from flows.recipes.recipe import Recipe
from flows.run.pipeline import Outcome
from flows.run.policies import RETRIES, RETRY_DELAY_SECONDS, choose_num_threads
from flows.run.stage_kinds import STAGES

STAGE_FAILED = "Stage failed"  # of a subflow: an automation that waits for "Failed" sends one notice a run
# What a flow works on; its parameters are only what a person wants to see of it.
_current_run: ContextVar[RunState] = ContextVar("the run of a flow")
_current_work: ContextVar[Callable[[], Any]] = ContextVar("the work of a subflow")


@flow(name="cloze", persist_result=False)
def cloze(recipe_name: str, recipe_toml: str) -> State[Outcome]:
    """Prefect flow of a run: builds its pipeline stages, checks its metrics, and reports and releases it.

    `run_in_flow` passes the run itself. The parameters are only displayed on the flow run's page. The result of the
    returned final state is the `Outcome` of the run.
    """
    run = _current_run.get()
    with close_when_stopped():
        show_run(run)
        return keep_end(lambda: run_to_state(lambda: complete_run(run, FlowTasks())))


def run_in_flow(run: RunState) -> bool:
    """Complete a run as a new Prefect flow run.

    If the Prefect server stops responding after the flow run has begun, the run is still completed.

    Args:
        run: The run, which must come from `prepare_run` and have workers from `open_workers`.

    Returns:
        True if the run was completed; False if no server answered, so that nothing was done.

    Raises:
        Exception: Any exception that a stage raises.
    """
    recipe_flow = cloze.with_options(
        name=to_flow_name(run.recipe.name),  # the orchestrator keeps the runs of each recipe apart
        flow_run_name=escape_braces(name_run(run.recipe.name, run.started)),
        task_runner=ThreadPoolTaskRunner(max_workers=choose_num_threads(run.pool.num_workers)),  # type: ignore[arg-type]
    )
    _current_run.set(run)
    state = FlowEnd().call(lambda: recipe_flow(**build_flow_parameters(run.recipe), return_state=True))
    if state is None:
        return False
    if state.state_details.flow_run_id is not None:
        wait_until_recorded(state.state_details.flow_run_id)
    state.result(raise_on_failure=True)
    return True


def run_in_this_flow(
    recipe: Recipe, home: Path, tell: Tell, workers: int | None, on_begin: Tell, on_shown: Callable[[], object]
) -> RunState:
    """Prepare and complete a run of a recipe inside the current Prefect flow run, with newly started worker processes.

    Args:
        recipe: The recipe as for a manual run. In this run, every source skips unreadable files.
        home: CLOZE_HOME, the folder of this installation's caches and server.
        tell: Called with each line of the run's output, to print it.
        workers: The number of worker processes. If None, it depends on the amount of raw files.
        on_begin: Called with the run's id before anything is printed.
        on_shown: Called once the page of the flow run shows the run's progress.

    Returns:
        The state of the completed run.

    Raises:
        InputError: For an error that the user can fix.
        Exception: Any exception that a stage raises.
    """
    with report_failure(recipe, tell) as notifier:
        run = prepare_run(recipe.to_scheduled(), home, tell, workers, on_begin)
        run.set_notifier(notifier)
        with record_failure(run), open_workers(run, None):
            show_run(run)
            on_shown()
            complete_run(run, FlowTasks())
    return run


def show_run(run: RunState) -> None:
    """Show the run's progress on the page of the current Prefect flow run, tag the flow run, and link the report."""
    recording, id = get_recording(), flow_run.id
    assert recording is not None and id is not None, "a flow run is recorded"
    run.progress.show()
    add_tags(UUID(id), run_tags(run.recipe, "builds"))
    run.flow_run = describe_flow_run(recording.address, id, recording.is_embedded)
    has_own_server = recording.is_embedded or bool(find_own_password(recording.address))
    report = render_report_link(run.place, run.run_id, id, has_own_server, run.tell)
    show_artifact(f"report-{run.recipe.name}", report, f"{run.recipe.name}: the report of this run")


# Subflows


@flow(name="models", persist_result=False)
def train_models(stages: list[str]) -> State[list[Manifest]]:
    """Prefect flow that trains the model of a run, as a subflow.

    `stages` is a parameter only so that Prefect's UI shows it. Returns the final state. Its result is the manifests of
    the stages.
    """
    return run_subflow("train")


@flow(name="tasks", persist_result=False)
def fine_tune_models(stages: list[str]) -> State[list[Manifest]]:
    """Prefect flow that fine-tunes a run's model on tasks, or applies a fine-tuned model to documents, as a subflow.

    `stages` is a parameter only so that Prefect's UI shows it. Returns the final state. Its result is the manifests of
    the stages.
    """
    return run_subflow("tasks")


def run_subflow(tag: str) -> State[Any]:
    """Do the work of the current Prefect subflow, and return its final state.

    If the work raises an exception, the state has the name "Stage failed" and the exception as its data.

    Args:
        tag: The tag for the subflow: the group of its stages, "train" or "tasks".
    """
    with close_when_stopped():
        add_tags(UUID(flow_run.id), [tag])
        return keep_end(lambda: run_to_state(_current_work.get(), failed=STAGE_FAILED, expected=Exception))


# Tasks


def can_retry(task: Any, task_run: Any, state: State[Any]) -> bool:
    """Return True if a failed task may succeed when retried. Prefect calls this with the task's failed state."""
    return is_worth_retrying(state.result(raise_on_failure=False))


TASK_OPTIONS: dict[str, Any] = {
    "task_run_name": "{name}",
    "retries": RETRIES,
    "retry_delay_seconds": RETRY_DELAY_SECONDS,
    "retry_condition_fn": can_retry,
    "cache_policy": NO_CACHE,
    "persist_result": False,
}


@task(**TASK_OPTIONS)
def build_stage(name: str, build: StageBuild) -> State[Manifest]:
    """Prefect task that builds the missing parts (output files) of a stage on all workers, and publishes the stage.

    A stage that is already complete in the store is reused. `name` is the name of the task run. Returns the final
    state. Its result is the manifest (description) of the stage's output.
    """
    return run_task(build, lambda: stages.build_stage(build))


@task(**TASK_OPTIONS)
def train_stage(name: str, build: StageBuild) -> State[Manifest]:
    """Prefect task that trains a model, fine-tunes models or applies one to documents, in a separate process.

    A retry resumes the work. `name` is the name of the task run. Returns the final state. Its result is the manifest
    (description) of the stage's output.
    """
    return run_task(build, lambda: stages.train_stage(build))


TASK_BY_WORK: Mapping[Callable[..., WorkResult[Any]], Task[..., Any]] = {
    stages.build_stage: build_stage,
    stages.train_stage: train_stage,
}
SUBFLOW_BY_GROUP: Mapping[str, Flow[..., Any]] = {"train": train_models, "tasks": fine_tune_models}


class FlowTasks:
    """Runs the tasks of a run as Prefect task runs of the current flow run."""

    def submit(self, name: str, work: Callable[[StageBuild], WorkResult[Any]], build: StageBuild) -> PendingTask:
        """Submit a Prefect task that calls `work(build)` on a thread, with retries after errors that may be temporary.

        Args:
            name: The name of the task run.
            work: `stages.build_stage` or `stages.train_stage`.
            build: The stage to build.

        Returns:
            The pending task. The caller can wait for its result.
        """
        return TASK_BY_WORK[work].submit(name, quote(build))

    def call_subflow(self, group: str, stages: Sequence[str], work: Callable[[], Result]) -> Result:
        """Call `work` as a Prefect subflow, and return its result. Raises what `work` raises.

        If no server answers before the subflow begins, `work` is called directly.

        Args:
            group: The group that the stages belong to, "train" or "tasks".
            stages: The names of the stages. They are displayed as the name of the subflow.
            work: Function without arguments that does the work.
        """
        subflow = SUBFLOW_BY_GROUP[group].with_options(flow_run_name=escape_braces(", ".join(stages)))
        _current_work.set(lambda: WorkResult(work(), f"{', '.join(stages)} is whole"))
        state = FlowEnd().call(lambda: subflow([*stages], return_state=True))  # type: ignore[arg-type, return-value]
        return work() if state is None else state.result(raise_on_failure=True)


def run_task(build: StageBuild, work: Callable[[], WorkResult[Result]]) -> State[Result]:
    """Do the work of the current Prefect task, and return its final state.

    Tags the task run with the group of its stage; the tag is shown once the task has ended. If the tag were set when
    the task is submitted, Prefect would query the concurrency limits of tags, and a busy server would fail the task.

    Args:
        build: The stage to build. Its group becomes the tag.
        work: Function without arguments that does the work. If it raises InputError, the state is a failed state.
    """
    context = TaskRunContext.get()
    assert context is not None, "this is called in a task"
    context.task_run.tags = [STAGES[build.stage.kind].group]
    return run_to_state(work)


def run_to_state(
    work: Callable[[], WorkResult[Result]], failed: str = "Failed", expected: type[Exception] = InputError
) -> State[Result]:
    """Do some work, and return the final state of its Prefect flow or task.

    If the work raises InputError, the error's text is the message of the failed state.

    Args:
        work: Function without arguments that returns a `WorkResult`: a value, and the name and message of the final
            state.
        failed: The name of the state if the work raises an exception of the type `expected`.
        expected: The exception type to convert. Other exceptions are raised, and Prefect records their traceback.
    """
    try:
        ended = work()
    except expected as error:
        message = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        return Failed(name=failed, message=message, data=error)
    return Completed(name=ended.name, message=ended.text, data=ended.value)
