"""A run that nobody watches: the same stages on threads of this process, without a server and without Prefect.

    is_watched(...)    whether somebody can look at the run while it goes on, or will want to
    run_alone(run)     carries it out, and notes when each of its tasks began and ended

Promise: the store is the same to the byte, since it alone decides what is done; records, limits, quarantine and reports
are those of any run. What its pages would have shown is kept, and sent when an API answers (`pages/late_runs.py`).
A server costs eight seconds of a core, and Prefect in this process three.
"""

import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from corpora.errors import InputError
from corpora.store.workers.pool import PoolClosed, WorkerDied
from flows.orchestration.pages.late_runs import EndedTask
from flows.orchestration.runs.run_state import RunState
from flows.orchestration.runs.stage_tasks import perform_recipe, threads_for
from flows.orchestration.runs.work import StageWork
from flows.orchestration.server.api_recorder import answering_api
from flows.run.pipeline import Outcome
from flows.run.policies import RETRIES, RETRY_DELAY_SECONDS

MAX_SECONDS = 120.0  # for which a run may be expected to take, and nobody looks
BYTES_PER_SECOND = 4_000_000  # of raw files, by a worker: the lower end of docs/performance.md


def is_watched(run: RunState, home: Path, own_server: bool, watch: bool | None) -> bool:
    """Return whether a run is a flow of Prefect: if an API answers, if it trains, if it may take minutes.

    watch: what the user asks for; None: nothing
    """
    if watch is not None:
        return watch
    trains = run.recipe.model is not None or bool(run.recipe.tasks)
    seconds = run.lock.raw_bytes / (BYTES_PER_SECOND * run.pulse.workers)
    return own_server or trains or seconds > MAX_SECONDS or bool(answering_api(home, own_server))


def run_alone(run: RunState) -> Outcome:
    """Carry out a run without a server. Raises what a stage raised."""
    with ThreadPoolExecutor(threads_for(run.pool.workers)) as threads:
        try:
            return perform_recipe(run, ThreadTasks(threads, run.tasks))
        finally:
            threads.shutdown(cancel_futures=True)


class ThreadTasks:
    """Runs work on threads. What ended with its worker, or by the disk, is tried again.

    ended: gets a line for each piece of work
    """

    def __init__(self, threads: ThreadPoolExecutor, ended: list[EndedTask]) -> None:
        self._threads = threads
        self._ended = ended

    def submit(self, name: str, work: StageWork) -> "Future[Any]":
        """Begin a piece of work on a thread."""
        return self._threads.submit(copy_context().run, self._try_repeatedly, name, work)

    def do(self, name: str, work: StageWork) -> Any:
        """Do a piece of work. Raises what it raised."""
        with self._noted(name, work) as task:
            task.result = work.act()
        return task.result

    def _try_repeatedly(self, name: str, work: StageWork) -> Any:
        """Do a piece of work, again if its worker has ended, and return its result."""
        with self._noted(name, work) as task:
            for seconds in RETRY_DELAY_SECONDS[:RETRIES]:
                try:
                    task.result = work.act()
                    return task.result
                except PoolClosed:
                    raise
                except (WorkerDied, OSError):
                    task.attempts += 1
                    time.sleep(seconds)
            task.result = work.act()
        return task.result

    @contextmanager
    def _noted(self, name: str, work: StageWork) -> "Iterator[_Task]":
        task, began = _Task(), datetime.now(UTC)
        try:
            yield task
        finally:
            error = sys.exception()
            traced = "" if isinstance(error, InputError) or error is None else f"{type(error).__name__}: "
            self._ended.append(
                EndedTask(
                    name=name,
                    began=began.isoformat(),
                    ended=datetime.now(UTC).isoformat(),
                    type="COMPLETED" if error is None else "FAILED",
                    state=work.end_name if error is None else "Failed",
                    message=work.describe(task.result) if error is None else f"{traced}{error}",
                    attempts=task.attempts,
                )
            )


class _Task:
    """A piece of work that is under way."""

    result: Any = None
    attempts = 1
