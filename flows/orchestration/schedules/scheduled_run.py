"""One run of a deployed recipe, as for a schedule: the work of its flow (`recipe_flow.py`) in its process.

The recipe is read from its current file, and the program is the one on disk now: the folder of compiled kernels is
chosen again before anything that compiles is imported, which is why this module imports so little. A failure is
reported in the log of the command as on a terminal, and in the state of the run. The process stops as `flows.signals`
says, also when the `cloze serve` that started it is gone.
"""

import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from prefect import runtime
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilterExpectedStartTime
from prefect.client.schemas.objects import State, StateType
from prefect.logging import get_run_logger
from prefect.settings import PREFECT_API_URL
from prefect.states import Cancelled, Completed, Failed
from prefect.task_runners import ThreadPoolTaskRunner

from corpora.errors import InputError
from flows.environment import prepare
from flows.orchestration.schedules.housekeeping import read_runs, stamped
from flows.signals import answer_signals, stop

MERGED = "Merged"  # the state of a scheduled run that another run covers
PARENT = "CLOZE_RUNNER"  # in the environment of a run that `cloze serve` began: the process that started it
PARENT_SECONDS = 1.0  # between two checks that the parent still lives
THREADS: Any = ThreadPoolTaskRunner(max_workers=16)  # as in `cloze run`: they wait for the worker processes


class RunLog:
    """Prints lines to the terminal of `cloze serve`, without delay: each with the time and the run in this process."""

    def __init__(self) -> None:
        self._run = ""

    def begin(self, run_id: str) -> None:
        """Put the short id of a run before the lines from now on."""
        from flows.run.short_ids import short_run_ids  # not above: what it imports compiles

        self._run = f"[{short_run_ids([run_id])[run_id]}] "

    def __call__(self, text: str) -> None:
        print(stamped(text, self._run), flush=True)


say = RunLog()


def run_name() -> str:
    """Return the name of a run that begins now, as for one that `cloze run` starts."""
    return f"{runtime.deployment.name} {time.strftime('%Y-%m-%d %H:%M:%S')}"


def say_failure(state: State[Any], path: Path, overrides: Mapping[str, str]) -> None:
    """Print why a run failed: a paragraph, after a traceback if the fault is not the user's.

    Prefect calls this in the process of the run, or in that of its runner if the run's process is gone: then this
    also sends the notice.
    """
    error = state.result(raise_on_failure=False) if state.is_failed() else None
    if isinstance(error, BaseException) and not isinstance(error, InputError):
        say("".join(traceback.format_exception(error)).rstrip())
    say(f"cloze: {state.message}")
    if state.is_crashed():
        from flows.orchestration.runs.notifications import tell_by_file

        tell_by_file(path, overrides, str(state.message), say)


def begin_here() -> None:
    """Set up the process of a run, which stops as every command does."""
    answer_signals()
    if parent := os.environ.get(PARENT):
        end_with(int(parent), lambda: stop(signal.SIGTERM))


def carried_out(run: Callable[[Path], tuple[str, str]]) -> State[Any]:
    """Return the final state of a run, which returns its name and message. What a user can fix is Failed.

    run: is called with the home folder
    """
    try:
        name, message = run(prepare(os.environ))
        return Completed(name=name, message=message)
    except InputError as error:
        return Failed(message=str(error), data=error)


def build(path: Path, overrides: dict[str, str], workers: int | None, home: Path) -> tuple[str, str]:
    """Build what a recipe lacks inside the flow run that this is called in; return the state's name and message.

    Raises InputError for what the user can fix, and whatever a stage failed with.
    """
    from flows.orchestration.runs.notifications import read_or_tell
    from flows.orchestration.runs.run_flow import closed_when_stopped, perform_in_flow
    from flows.orchestration.runs.run_recipe import execute_below
    from flows.orchestration.server.api_recorder import Recording, during
    from flows.orchestration.server.embedded import use_api

    use_api(PREFECT_API_URL.value())
    logger = get_run_logger()

    def note(line: str) -> None:
        logger.info("%s", line)
        say(line)

    with closed_when_stopped():
        follow_for_all_that_are_due(note)
        recipe = read_or_tell(path, overrides, note)
        with during(Recording(PREFECT_API_URL.value(), say)):
            run = execute_below(recipe, home, say, workers, perform_in_flow, say.begin)  # it logs its lines itself
    note(f"Report: {run.report_path}")
    return run.end_name, run.conclude(run.outcome)


def follow_for_all_that_are_due(tell: Callable[[str], None]) -> None:
    """Let this run of a schedule cover all others that are due by now: they would have nothing to do.

    Runs that somebody requested, or that have other parameters, stay.
    """
    if runtime.deployment.id is None:
        return
    by_now = FlowRunFilterExpectedStartTime(before_=datetime.now(UTC))  # type: ignore[arg-type]
    try:
        with get_client(sync_client=True) as client:
            me = client.read_flow_run(UUID(runtime.flow_run.id))
            deployment_id = UUID(runtime.deployment.id)
            others = read_runs(client, deployment_id, [StateType.SCHEDULED], expected_start_time=by_now)
            same = [run for run in others if run.auto_scheduled and run.id != me.id and run.parameters == me.parameters]
            merged: State[None] = Cancelled(
                name=MERGED, message=f"Due while another run was going; {me.name} followed."
            )
            for run in same:
                client.set_flow_run_state(run.id, merged)
    except httpx.HTTPError as error:
        tell(f"Other runs that are due follow each by itself: the Prefect server does not say which ({error}).")
        return
    if same:
        tell(
            f"{len(same)} more run{'s' * (len(same) > 1)} of the schedule became due meanwhile: this one follows for "
            "all."
        )


def end_with(parent: int, end: Callable[[], object]) -> None:
    """End this process when its parent is gone. parent: as it was when this process was started"""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_SECONDS)
        end()

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()
