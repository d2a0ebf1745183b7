"""The worker pool: plain functions on other processes, which die with the one that started them.

Workers are spawned, not forked: no inherited locks, threads or half-written buffers. Each watches its parent
and ends itself when the parent is gone, however it went (SIGKILL included), so no process is left behind. Each
has a pipe of its own, whose end we hold tells at once that it died (out of memory, a crash in a library): that
fails the one call it was on, and another worker takes its place, so a retry of the same range goes on where its
part records stand. (`ProcessPoolExecutor` fails all calls when one worker dies, and may not notice until another
call ends: it wakes the thread that watches the workers before it has started the next of them.)

Cost: a tenth of a second a worker to start, when it is first needed, and what importing the function's module
takes; a call costs the pickling of its arguments and of its result.
"""

import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class WorkerDied(Exception):
    """A worker process ended in the middle of its work."""


class WorkerPool:
    """A shared pool of spawned worker processes. Safe to call from many threads, which wait for a free worker."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._changed = threading.Condition()
        self._crew: set[_Worker] = set()
        self._idle: list[_Worker] = []
        self._closings = 0

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
        worker = self._take(function.__qualname__)
        try:
            returned, value = worker.call(function, args, kwargs)
        except (EOFError, ConnectionError) as error:
            raise WorkerDied(
                f"A worker process ended while it ran {function.__qualname__} (out of memory, or killed)."
            ) from error
        finally:
            self._give_back(worker)
        if not returned:
            raise value
        result: Result = value
        return result

    def close(self) -> None:
        """End the workers at once; what they are doing is abandoned, and its callers get WorkerDied."""
        with self._changed:
            crew, self._crew, self._idle = self._crew, set(), []
            self._closings += 1
            self._changed.notify_all()
        for worker in crew:
            worker.end()

    def _take(self, purpose: str) -> "_Worker":
        """A worker that is free, or a new one while there are fewer than may be."""
        with self._changed:
            closings = self._closings
            while self._closings == closings:
                while self._idle:
                    worker = self._idle.pop()
                    if worker.is_alive():
                        return worker
                    self._crew.discard(worker)
                if len(self._crew) < self.workers:
                    worker = _Worker()
                    self._crew.add(worker)
                    return worker
                self._changed.wait()
        raise WorkerDied(f"The worker pool was closed before it ran {purpose}.")

    def _give_back(self, worker: "_Worker") -> None:
        """Keep a worker for the next call; one that is still on this call (its caller was interrupted) is ended."""
        if worker.busy:
            worker.end()
        with self._changed:
            if worker in self._crew:
                self._idle.append(worker)
            self._changed.notify()


class _Worker:
    """One process and the pipe to it; `busy` from the sending of a call until its answer."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()  # from now on only the worker holds its end, and with it ends the pipe
        self.busy = False

    def call(self, function: Callable[..., object], args: Any, kwargs: Any) -> tuple[bool, Any]:
        """(True, what the function returned) or (False, what it raised). Raises EOFError where the process dies."""
        # Raises before the worker hears of the call. Bytes: a view into the pickler's buffer that outlives the
        # buffer, as in the traceback of a broken pipe, ends a Python 3.12 process.
        call = bytes(ForkingPickler.dumps((function, args, kwargs)))
        self.busy = True
        self._pipe.send_bytes(call)
        answer = self._pipe.recv_bytes()
        self.busy = False
        returned, value = pickle.loads(answer)
        return returned, value

    def is_alive(self) -> bool:
        """Whether the process lives."""
        return self._process.is_alive()

    def end(self) -> None:
        """Kill the process and wait until it is gone."""
        self._process.kill()
        self._process.join()


def _work(pipe: Connection) -> None:
    """A worker's life: calls in, answers out, until the pipe ends."""
    # An interrupt from the keyboard reaches every process of the terminal; the one that started us answers it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with_parent()
    while True:
        try:
            call = pipe.recv_bytes()
        except EOFError:
            return
        pipe.send_bytes(_answer(call))


def _answer(call: bytes) -> bytes:
    try:
        function, args, kwargs = pickle.loads(call)
        return bytes(ForkingPickler.dumps((True, function(*args, **kwargs))))
    except Exception as error:  # of any kind: it is raised again where the call was made
        error.add_note("On a worker process:\n" + "".join(traceback.format_tb(error.__traceback__)))
        return bytes(ForkingPickler.dumps((False, error)))


def _die_with_parent() -> None:
    """End this worker as soon as its parent is gone; a thread waits on the parent's sentinel."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="die-with-parent", daemon=True).start()
