"""Runs a recipe, as `cloze run` does: as a flow of Prefect if somebody watches, else on threads of this process.

    prepare_run ─► find_unchanged ─► (the store holds everything: report and release)
                        └► is_watched ─► run_in_flow (`flow.py`) or run_on_threads ─► complete_run

Both take the steps in `steps.py`. Faults of the recipe are reported before any server starts, and so are raw files that
cannot be found or hashed.

Promise: a run that nobody watches has the same store to the byte, since only the store decides what is done; records,
limits, quarantine and reports are those of any run. What its pages would have shown is kept, and sent when an API
answers (`late_runs.py`). It saves a server, eight seconds of a core, and Prefect in this process, three.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from corpora.errors import InputError
from corpora.generic_types import Result, Tell
from corpora.store.places.address import without_password
from corpora.store.places.place import Place
from corpora.store.worker_pool import WorkerPool
from flows.engines.open_engine import MAX_FORKS, is_safe_to_fork
from flows.orchestration.late_runs import STOPPED, describe_failure, keep_run, send_late_run
from flows.orchestration.notifications import report_failure
from flows.orchestration.recording import (
    LateTask,
    Recording,
    explain_no_server,
    find_answering_api,
    find_profile_api,
    keep_pages,
    record_run,
)
from flows.orchestration.run_state import RunState, ignore_progress
from flows.orchestration.stages import StageBuild, WorkResult, is_worth_retrying
from flows.orchestration.steps import (
    complete_run,
    find_unchanged,
    open_workers,
    prepare_run,
    record_failure,
    release_run,
    report_run,
)
from flows.recipes.recipe import Recipe
from flows.recipes.run_settings import LOCAL_ENGINE
from flows.run.policies import RETRIES, RETRY_DELAY_SECONDS, choose_num_threads, count_cores
from flows.run.record.run_status import Advance
from flows.run.stage_kinds import STAGES
from flows.signals import call_on_stop, wait_if_stopping

MAX_UNWATCHED_SECONDS = 120.0  # for which a run may be expected to take, and nobody looks
NOTHING_NEW = "Nothing is to be built."
BYTES_PER_SECOND = 4_000_000  # of raw files, by a worker: the lower end of docs/performance.md


def run_recipe(
    recipe: Recipe,
    home: Path,
    tell: Tell,
    workers: int | None = None,
    own_server: bool = False,
    on_progress: Advance = ignore_progress,
    watch: bool | None = None,
) -> RunState:
    """Run a recipe: build the artifacts (stored results of its pipeline stages) that the store does not have yet.

    If requested or useful, the run is a Prefect flow run with a page in Prefect's UI; otherwise it uses threads.

    Args:
        recipe: The recipe.
        home: CLOZE_HOME, the folder of this installation's caches and server.
        tell: Called with each line of the run's output, to print it.
        workers: The number of worker processes. If None, it depends on the amount of raw files.
        own_server: True to start a Prefect server for this run even if the user's Prefect profile names another API.
        on_progress: Called with a pipeline stage, the number of its parts (output files) built so far, and the number
            to build.
        watch: True to run as a Prefect flow, False not to; if None, `is_watched` decides.

    Returns:
        The state of the completed run, with its record and its results.

    Raises:
        InputError: For an error that the user can fix.
        Exception: Any exception that a stage raises.
    """
    find_api = partial(find_answering_api, home, own_server)
    with report_failure(recipe, tell) as notifier, fork_workers(recipe, workers, tell) as pool:
        run = prepare_run(recipe, home, tell, workers)
        run.set_notifier(notifier)
        run.on_progress = on_progress
        with record_failure(run):
            report = find_unchanged(run)
            if report is not None:
                with keep_pages(run.tell, run.pages, find_api):
                    for record, manifest in zip(run.records, run.manifests.values(), strict=True):
                        run.print_stage(record, manifest)
                    report_run(run, report, "nothing new")
                    release_run(run)
                run.tell(NOTHING_NEW)
                return run
            run.is_watched = is_watched(run, own_server, watch, find_api)
            with open_workers(run, pool):
                if run.is_watched:
                    with (
                        record_run(home, own_server, run.tell, run.pages, import_flow) as recording,
                        keep_failure(run, recording),
                    ):
                        if not import_flow()(run):
                            run_on_threads(run)
                    return run
                profile = find_profile_api(own_server)
                if profile and not find_api():
                    shown = without_password(profile)
                    run.tell(explain_no_server(f"The Prefect API {shown} of your profile does not answer."))
                with keep_pages(run.tell, run.pages, find_api) as recording, keep_failure(run, recording):
                    run_on_threads(run)
    return run


def import_flow() -> Callable[[RunState], bool]:
    """Import Prefect, and return `run_in_flow`, the function that completes a run as a flow.

    Prefect reads its settings during the import, which takes about half as long as starting its server.
    """
    from flows.orchestration.flow import run_in_flow

    return run_in_flow


def is_watched(run: RunState, own_server: bool, watch: bool | None, find_api: Callable[[], str]) -> bool:
    """Decide whether a run should be a Prefect flow run, which has a page in Prefect's UI.

    It should be one if it trains a model, if it may take minutes, or if a Prefect API answers.

    Args:
        run: The run, from `prepare_run`.
        own_server: True if the user asks for a Prefect server for this run.
        watch: The user's choice, which takes precedence; None if the user made none.
        find_api: Function that returns the URL of a Prefect API that answers, or "" if none does.
    """
    if watch is not None:
        return watch
    trains = run.recipe.model is not None or bool(run.recipe.tasks)
    seconds = run.lock.raw_bytes / (BYTES_PER_SECOND * run.pulse.workers)
    return own_server or trains or seconds > MAX_UNWATCHED_SECONDS or bool(find_api())


@contextmanager
def fork_workers(recipe: Recipe, workers: int | None, tell: Tell) -> Iterator[WorkerPool | None]:
    """Open a pool of forked workers for a run, or yield None if forking is not safe.

    Call this before the run does anything else: forking is safe only until the run starts threads, locks files or
    connects to a server.

    Args:
        recipe: The recipe.
        workers: The number of workers; if None, one per core.
        tell: Called with each line to print.
    """
    if recipe.engine != LOCAL_ENGINE or not Place(recipe.store).is_local or not is_safe_to_fork():
        yield None
        return
    with WorkerPool(workers or count_cores(), recipe.workers, tell) as pool:
        pool.fork_workers(MAX_FORKS)
        yield pool


@contextmanager
def keep_failure(run: RunState, recording: Recording) -> Iterator[None]:
    """Report a run that is not a Prefect flow run to Prefect if it fails or is stopped during the block.

    If no Prefect API answers, the run is stored, and reported later. The exception is raised again.

    Args:
        run: The run.
        recording: The recording of the run. Nothing is reported if it has no buffer.
    """

    def keep_stopped() -> None:
        if recording.buffer is not None:
            keep_run(run.describe_late_run(STOPPED), run.tell)

    with call_on_stop(keep_stopped):
        try:
            yield
        finally:
            if (error := sys.exception()) is not None and recording.buffer is not None:
                wait_if_stopping()
                send_late_run(recording.find_api_now(), run.describe_late_run(describe_failure(error)), run.tell)


# A run that nobody watches


def run_on_threads(run: RunState) -> None:
    """Complete a run without a Prefect server, with its tasks on threads.

    Args:
        run: The run, which must come from `prepare_run` and have workers from `open_workers`.

    Raises:
        Exception: Any exception that a pipeline stage raises.
    """
    with ThreadPoolExecutor(choose_num_threads(run.pool.num_workers)) as threads:
        try:
            complete_run(run, ThreadTasks(threads, run.pages.tasks))
        finally:
            threads.shutdown(cancel_futures=True)


class ThreadTasks:
    """Runs the tasks of a run on threads of this process.

    Args:
        threads: The pool of threads.
        tasks: List to which an entry is appended for each task that has ended.
    """

    def __init__(self, threads: ThreadPoolExecutor, tasks: list[LateTask]) -> None:
        self._threads = threads
        self._tasks = tasks

    def submit(self, name: str, work: Callable[[StageBuild], WorkResult[Any]], build: StageBuild) -> "Future[Any]":
        """Submit a task that calls `work(build)` on a thread. The call is retried after errors that may be temporary.

        Args:
            name: The name of the task.
            work: `stages.build_stage` or `stages.train_stage`.
            build: The stage to build.

        Returns:
            A future for the value in the `WorkResult` that `work` returns.
        """
        return self._threads.submit(copy_context().run, self._try_again, name, work, build)

    def call_subflow(self, group: str, stages: Sequence[str], work: Callable[[], Result]) -> Result:
        """Call `work` without a subflow, and return its result. The other arguments are not used."""
        return work()

    def _try_again(self, name: str, work: Callable[[StageBuild], WorkResult[Any]], build: StageBuild) -> Any:
        """Do the work of a task. If it fails and a retry may help, it is retried up to RETRIES times.

        Appends an entry about the task to the list of ended tasks, and raises the last exception if all attempts fail.

        Args:
            name: The name of the task.
            work: The function to call.
            build: Its argument, the stage to build.

        Returns:
            The value in the `WorkResult` that `work` returned.
        """
        began, attempts, ended = datetime.now(UTC), 0, None
        try:
            while ended is None:
                attempts += 1
                try:
                    ended = work(build)
                except Exception as error:
                    if attempts > RETRIES or not is_worth_retrying(error):
                        raise
                    time.sleep(RETRY_DELAY_SECONDS[attempts - 1])
            return ended.value
        finally:
            why = sys.exception()
            traced = "" if isinstance(why, InputError) else f"{type(why).__name__}: "
            self._tasks.append(
                LateTask(
                    name=name,
                    group=STAGES[build.stage.kind].group,
                    began=began.isoformat(),
                    ended=datetime.now(UTC).isoformat(),
                    type="FAILED" if ended is None else "COMPLETED",
                    state="Failed" if ended is None else ended.name,
                    message=f"{traced}{why}" if ended is None else ended.text,
                    attempts=attempts,
                )
            )
