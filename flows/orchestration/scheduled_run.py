"""One run of a recipe that is on a schedule: Prefect calls `scheduled_run` in a process of its own.

The recipe is read as its file says it now, and the program is what is on the disk now: the folder of compiled
kernels is chosen again before anything that compiles is imported, which is why this module imports so little. How a
run fails is said in the log of the command as on a terminal, and in the state of the run. The process stops as
`flows.stopping` says, also when the one that started it is gone.
"""

import logging
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import UUID

import httpx
from prefect import flow, runtime
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterId,
    FlowRunFilter,
    FlowRunFilterExpectedStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import State, StateType
from prefect.logging import get_run_logger
from prefect.settings import PREFECT_API_URL
from prefect.states import Cancelled, Completed, Failed
from prefect.task_runners import ThreadPoolTaskRunner

from corpora.errors import InputError
from flows.environment import home_folder, prepare
from flows.stopping import answer_signals, stop

_begun = threading.Event()  # in the process of a run, which tells itself how it fails
_stopping = threading.Event()  # in the process that starts runs: it ends them itself
NOTHING: Mapping[str, str] = MappingProxyType({})
MERGED = "Merged"  # the state of a run of the schedule that another one followed for
PARENT_SECONDS = 1.0  # between two looks at whether the parent is still there
THREADS: Any = ThreadPoolTaskRunner(max_workers=16)  # as in `cloze run`: they wait for the worker processes


def run_name() -> str:
    """What a run that begins now is called: as one that `cloze run` starts."""
    return f"{runtime.deployment.name} {time.strftime('%Y-%m-%d %H:%M:%S')}"


def tell_failure(flow: Any, flow_run: Any, state: State[Any]) -> None:
    """Say why a run failed, or where its process went: a paragraph, after a traceback where the fault is not a user's.

    Prefect calls this in the process of the run, or in that of the command where the run's process is gone.
    """
    say_failure(state, Path(flow_run.parameters["recipe"]), flow_run.parameters.get("overrides") or {})


def say_failure(state: State[Any], path: Path, overrides: Mapping[str, str] = NOTHING) -> None:
    """Say why a run of the recipe in a file failed; where its process is gone, tell who is to be told."""
    error = state.result(raise_on_failure=False) if state.is_failed() else None
    if isinstance(error, BaseException) and not isinstance(error, InputError):
        say("".join(traceback.format_exception(error)).rstrip())
    say(f"cloze: {state.message}")
    if state.is_crashed() and not (_begun.is_set() or _stopping.is_set()):
        tell_crash(path, overrides, str(state.message))


def tell_no_crash() -> None:
    """From now on nobody is told of a run whose process is gone: it is this process that ends it."""
    _stopping.set()


def tell_crash(path: Path, overrides: Mapping[str, str], message: str) -> None:
    """Tell who is to be told of a run whose process is gone, so that it could not do so itself."""
    from flows.orchestration.notifying import tell_by_file

    tell_by_file(path, overrides, home_folder(os.environ), message, say)


@flow(
    name="cloze",
    flow_run_name=run_name,
    task_runner=THREADS,
    persist_result=False,
    on_failure=[tell_failure],
    on_crashed=[tell_failure],
)
def scheduled_run(
    recipe: str, overrides: dict[str, str] | None = None, store: str | None = None, workers: int | None = None
) -> State[Any]:
    """A recipe's run as its schedule or its deployment's page asks for it.

    Args:
        recipe: the recipe's file
        overrides: keys of the recipe and other values for them
        store: a store instead of the recipe's
        workers: worker processes; without a number, one a core
    """
    os.setpgid(0, 0)  # Ctrl-C reaches all of a terminal's group: this one is told by its service, once
    begin_here()
    end_with_parent()
    return carried_out(lambda home: build(Path(recipe), overrides or {}, store, workers, home))


def begin_here() -> None:
    """This is the process of a run: it says itself how the run fails, and stops as every command does."""
    _begun.set()
    answer_signals()
    for name in ("prefect.flow_runs", "prefect.engine"):
        logging.getLogger(name).addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a line of Prefect's log says more than its traceback: what a user can mend is said in one paragraph."""
    return not (record.exc_info and isinstance(record.exc_info[1], InputError))


def carried_out(run: Callable[[Path], tuple[str, str]]) -> State[Any]:
    """How a run ended, by its name and message; `run` is given the home folder. What a user can mend is Failed."""
    try:
        name, message = run(prepare(os.environ))
        return Completed(name=name, message=message)
    except InputError as error:
        return Failed(message=str(error), data=error)


def build(path: Path, overrides: dict[str, str], store: str | None, workers: int | None, home: Path) -> tuple[str, str]:
    """Build what is missing of a recipe inside of the flow run that this is called in; the state's name, and what came
    of it.

    Raises InputError for what the user can mend, and whatever a stage failed with.
    """
    from flows.orchestration.execute import begin, carry_out, on_record
    from flows.orchestration.notifying import failure_told, read_or_tell
    from flows.orchestration.performing import closed_when_stopped, perform_recipe
    from flows.orchestration.recording import Recording, during
    from flows.recipes.recipe import with_store

    logger = get_run_logger()

    def note(line: str) -> None:
        logger.info("%s", line)
        say(line)

    with closed_when_stopped():
        follow_for_all_that_are_due(note)
        recipe = read_or_tell(path, overrides, home, note)
        asked = with_store(recipe, store) if store else recipe
        with failure_told(asked, note) as notifier:
            begun = begin(asked, home, note, workers)
            with on_record(begun, workers, note) as ending, during(Recording(PREFECT_API_URL.value(), say)):
                finished = carry_out(ending, say, perform_recipe, notifier)  # it logs its stages itself
    note(f"Report: {finished.report_path}")
    assert ending.context is not None
    return ending.context.end(), ending.context.conclude(finished.outcome)


def follow_for_all_that_are_due(tell: Callable[[str], None]) -> None:
    """Let this run of a schedule be the follow-up of all others that are due by now: they would find nothing to do.

    Runs that somebody asked for, or that have other parameters, stay.
    """
    mine, with_id = runtime.flow_run.id, runtime.deployment.id
    if mine is None or with_id is None:
        return
    try:
        due = _merge(UUID(mine), UUID(with_id))
    except httpx.HTTPError as error:
        tell(f"Other runs that are due follow each by itself: the Prefect server does not say which ({error}).")
        return
    if due:
        tell(f"{due} more run{'s' * (due > 1)} of the schedule became due meanwhile: this one follows for all.")


def _merge(mine: UUID, deployment: UUID) -> int:
    """End all runs of a schedule that are due by now as Merged, but for one of them; how many."""
    with get_client(sync_client=True) as client:
        me = client.read_flow_run(mine)
        due = [
            run
            for run in client.read_flow_runs(
                deployment_filter=DeploymentFilter(id=DeploymentFilterId(any_=[deployment])),
                flow_run_filter=FlowRunFilter(
                    state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.SCHEDULED])),
                    expected_start_time=FlowRunFilterExpectedStartTime(before_=datetime.now(UTC)),  # type: ignore[arg-type]
                ),
            )
            if run.auto_scheduled and run.id != me.id and run.parameters == me.parameters
        ]
        merged: State[None] = Cancelled(name=MERGED, message=f"Due while another run was going; {me.name} followed.")
        for run in due:
            client.set_flow_run_state(run.id, merged)
    return len(due)


def say(line: str) -> None:
    """A line for the terminal of `cloze serve`, at once."""
    print(line, flush=True)


def end_with_parent() -> None:
    """Stop this process when its parent is gone."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_SECONDS)
        stop(signal.SIGTERM)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()
