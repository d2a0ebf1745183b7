"""A run that nobody watches: its tasks on threads of this process, without a server and without Prefect.

    is_watched(...)    whether somebody can look at the run while it goes on, or will want to
    run_alone(run)     carries it out, and notes when each of its tasks began and ended

Promise: the store is the same to the byte, since it alone decides what is done; records, limits, quarantine and reports
are those of any run. What its pages would have shown is kept, and sent when an API answers (`late_runs.py`).
A server costs eight seconds of a core, and Prefect in this process three.
"""

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from datetime import UTC, datetime
from typing import Any

from corpora.errors import InputError
from corpora.generic_types import Result
from flows.orchestration.late_runs import EndedTask
from flows.orchestration.run_state import RunState
from flows.orchestration.stages import Ended, StageBuild, is_worth_retrying
from flows.orchestration.steps import carry_out
from flows.run.pipeline import Outcome
from flows.run.policies import RETRIES, RETRY_DELAY_SECONDS, threads_for
from flows.run.stage_kinds import STAGES

MAX_SECONDS = 120.0  # for which a run may be expected to take, and nobody looks
BYTES_PER_SECOND = 4_000_000  # of raw files, by a worker: the lower end of docs/performance.md


def is_watched(run: RunState, own_server: bool, watch: bool | None, find_api: Callable[[], str]) -> bool:
    """Return whether a run is a flow of Prefect: if an API answers, if it trains, if it may take minutes.

    watch: what the user asks for; None: nothing. find_api: returns the API that answers, or ""
    """
    if watch is not None:
        return watch
    trains = run.recipe.model is not None or bool(run.recipe.tasks)
    seconds = run.lock.raw_bytes / (BYTES_PER_SECOND * run.pulse.workers)
    return own_server or trains or seconds > MAX_SECONDS or bool(find_api())


def run_alone(run: RunState) -> Outcome:
    """Carry out a run without a server. Raises what a stage raised."""
    with ThreadPoolExecutor(threads_for(run.pool.num_workers)) as threads:
        try:
            return carry_out(run, ThreadTasks(threads, run.tasks)).value
        finally:
            threads.shutdown(cancel_futures=True)


class ThreadTasks:
    """Runs tasks on threads. ended: gets a line for each"""

    def __init__(self, threads: ThreadPoolExecutor, ended: list[EndedTask]) -> None:
        self._threads = threads
        self._ended = ended

    def submit(self, name: str, work: Callable[[StageBuild], Ended[Any]], build: StageBuild) -> "Future[Any]":
        """Begin a task on a thread; it is tried again if that may help."""
        return self._threads.submit(copy_context().run, self._try_repeatedly, name, work, build)

    def call_subflow(self, group: str, stages: Sequence[str], work: Callable[[], Result]) -> Result:
        """Call something that lasts."""
        return work()

    def _try_repeatedly(self, name: str, work: Callable[[StageBuild], Ended[Any]], build: StageBuild) -> Any:
        """Do the work of a task, again if it fails and that may help; return its value."""
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
            self._ended.append(
                EndedTask(
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
