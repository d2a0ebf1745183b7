"""The worker pool: plain functions on other processes, which die with the one that started them.

Workers are spawned, not forked: no inherited locks, threads or half-written buffers. Each holds one end of a
pipe whose other end only the starting process has, and ends itself when that end is gone: when the pool is
closed, and when the process ends, however it went (SIGKILL included), so no process is left behind.
A worker that dies (out of memory, a crash in a library) fails the calls that were on the pool; the pool is
made anew for the next call, so a retry of the same range goes on where its part records stand.

Cost: about a tenth of a second a worker to start, once; a call costs the pickling of its arguments and result.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class WorkerDied(Exception):
    """A worker process ended in the middle of its work."""


@dataclass(frozen=True, slots=True)
class _Crew:
    """Worker processes, and our end of the pipe that they live by."""

    executor: ProcessPoolExecutor
    lifeline: Connection


class WorkerPool:
    """A shared pool of spawned worker processes. Safe to call from many threads."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._lock = threading.Lock()
        self._crew: _Crew | None = None

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        """Call a module-level function on a worker and wait for its result.

        Raises what the function raised, or WorkerDied where the process did not live to say.
        """
        crew = self._current()
        try:
            future: Future[Result] = crew.executor.submit(function, *args, **kwargs)
            return future.result()
        except CancelledError as error:
            raise WorkerDied(f"The worker pool was closed before it ran {function.__qualname__}.") from error
        except BrokenProcessPool as error:
            self._dismiss(crew)
            raise WorkerDied(
                f"A worker process ended while it ran {function.__qualname__} (out of memory, or killed)."
            ) from error

    def close(self) -> None:
        """End the workers at once; what they are doing is abandoned, and its callers get WorkerDied."""
        with self._lock:
            crew = self._crew
        if crew is not None:
            crew.executor.shutdown(wait=False, cancel_futures=True)
            self._dismiss(crew)
            crew.executor.shutdown(wait=True)

    def _current(self) -> _Crew:
        with self._lock:
            if self._crew is None:
                context = multiprocessing.get_context("spawn")
                theirs, ours = context.Pipe(duplex=False)
                executor = ProcessPoolExecutor(self.workers, context, initializer=_live_by, initargs=(theirs,))
                self._crew = _Crew(executor, ours)
            return self._crew

    def _dismiss(self, crew: _Crew) -> None:
        """Let go of the lifeline, and of the crew if it is still the current one."""
        with self._lock:
            crew.lifeline.close()
            if self._crew is crew:
                self._crew = None


def _live_by(lifeline: Connection) -> None:
    """End this worker as soon as the other end of its lifeline is gone.

    An interrupt from the keyboard reaches every process of the terminal; only the one that started us answers it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        wait([lifeline])
        os._exit(1)

    threading.Thread(target=watch, name="live-by", daemon=True).start()
