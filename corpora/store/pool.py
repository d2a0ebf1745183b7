"""The worker pool: plain functions on other processes, which die with the one that started them.

Workers are spawned, not forked: no inherited locks, threads or half-written buffers. Each watches its parent
and ends itself when the parent is gone, however it went (SIGKILL included), so no process is left behind.
A worker that dies (out of memory, a crash in a library) fails the calls that were on the pool; the pool is
made anew for the next call, so a retry of the same range goes on where its part records stand.
"""

import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from types import TracebackType
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class WorkerDied(Exception):
    """A worker process ended in the middle of its work."""


class WorkerPool:
    """A shared pool of spawned worker processes. Safe to call from many threads."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._lock = threading.Lock()
        self._executor: ProcessPoolExecutor | None = None

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Call a module-level function on a worker and wait for its result.

        Raises what the function raised, or WorkerDied where the process did not live to say.
        """
        executor = self._current()
        try:
            future: Future[Result] = executor.submit(function, *args, **kwargs)
            return future.result()
        except BrokenProcessPool as error:
            self._forget(executor)
            raise WorkerDied(
                f"A worker process ended while it ran {function.__qualname__} (out of memory, or killed)."
            ) from error

    def close(self) -> None:
        """End the workers; what they are doing is abandoned."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=True, cancel_futures=True)

    def _current(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._executor is None:
                context = multiprocessing.get_context("spawn")
                self._executor = ProcessPoolExecutor(self.workers, context, initializer=_die_with_parent)
            return self._executor

    def _forget(self, executor: ProcessPoolExecutor) -> None:
        with self._lock:
            if self._executor is executor:
                self._executor = None


def _die_with_parent() -> None:
    """End this worker as soon as its parent is gone; a thread waits on the parent's sentinel."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="die-with-parent", daemon=True).start()
