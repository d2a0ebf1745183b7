"""The worker pool: plain functions on other processes, which die with the one that started them.

Workers are spawned, not forked: no inherited locks, threads or half-written buffers. Each watches its parent
and ends itself when the parent is gone, however it went (SIGKILL included), so no process is left behind. Each
has a pipe of its own, whose end we hold tells at once that it died (out of memory, a crash in a library): that
fails the one call it was on, and another worker takes its place, so a retry of the same range goes on where its
part records are. (`ProcessPoolExecutor` fails all calls when one worker dies, and may not notice until another
call ends: it wakes the thread that watches the workers before it has started the next of them.)

A worker that says which record it reads (`corpora.store.current_record`) is ended when that record takes more processor
time or the worker more memory than `Limits` allow; `WorkerDied` then names the record, as it does after a crash.

Cost: a tenth of a second a worker to start, when it is first needed, and what importing the function's module
takes; a call costs the pickling of its arguments and of its result, and a look at the worker four times a second.
"""

import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from corpora.store.current_record import SIZE_BYTES, read_sheet, reading, watch_over
from corpora.store.settings import check_range

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


LOOK_SECONDS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one record may cost before its worker is ended; they decide no bytes.

    record_cpu_seconds: processor time that reading one record may take
    memory_bytes:       resident memory of a worker that reads a record
    """

    record_cpu_seconds: float = 120.0
    memory_bytes: int = 3_000_000_000

    def __post_init__(self) -> None:
        check_range("workers.record_cpu_seconds", self.record_cpu_seconds, 0.1, 1e6)
        check_range("workers.memory_bytes", self.memory_bytes, 100_000_000, 1 << 50)


class WorkerDied(Exception):
    """A worker process ended in the middle of its work. reading: the record it was reading, "" for none."""

    def __init__(self, message: str, reading: str = "") -> None:
        super().__init__(message, reading)
        self.message = message
        self.reading = reading

    def __str__(self) -> str:
        return self.message


class WorkerPool:
    """A shared pool of spawned worker processes. Safe to call from many threads, which wait for a free worker."""

    def __init__(self, workers: int, limits: Limits | None = None) -> None:
        self.workers = workers
        self.limits = limits or Limits()
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
            returned, value = worker.call(function, args, kwargs, self.limits)
        except (EOFError, ConnectionError) as error:
            reading = worker.reading() if worker in self._crew else ""  # not where the pool was closed meanwhile
            why = str(error) if isinstance(error, _OverLimit) else "out of memory, or killed"
            over = f" over {reading}" if reading else ""
            message = f"A worker process ended while it ran {function.__qualname__}{over} ({why})."
            raise WorkerDied(message, reading) from error
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


class _OverLimit(EOFError):
    """The worker was ended because the record it read cost too much. The message says what of."""


class _Worker:
    """One process and the pipe to it; `busy` from the sending of a call until its answer."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._sheet = context.RawArray("c", SIZE_BYTES)
        self._process = context.Process(target=_work, args=(theirs, self._sheet), daemon=True)
        self._process.start()
        theirs.close()  # from now on only the worker holds its end, and with it ends the pipe
        self.busy = False

    def call(self, function: Callable[..., object], args: Any, kwargs: Any, limits: Limits) -> tuple[bool, Any]:
        """(True, what the function returned) or (False, what it raised). Raises EOFError where the process dies."""
        # Raises before the worker hears of the call. Bytes: a view into the pickler's buffer that outlives the
        # buffer, as in the traceback of a broken pipe, ends a Python 3.12 process.
        call = bytes(ForkingPickler.dumps((function, args, kwargs)))
        self.busy = True
        self._pipe.send_bytes(call)
        record, since = "", 0.0
        while not self._pipe.poll(LOOK_SECONDS):
            if self.reading() != record:
                record, since = self.reading(), self._cpu_seconds()
            if record:
                self._refuse(limits, since)
        answer = self._pipe.recv_bytes()
        self.busy = False
        returned, value = pickle.loads(answer)
        return returned, value

    def reading(self) -> str:
        """The record that the process reads, or read when it ended."""
        return read_sheet(self._sheet)

    def _refuse(self, limits: Limits, since: float) -> None:
        """End the process where its record has taken too much. Raises _OverLimit."""
        spent, resident = self._cpu_seconds() - since, self._resident_bytes()
        why = ""
        if spent > limits.record_cpu_seconds:
            why = f"over {limits.record_cpu_seconds:g} s of processor time, workers.record_cpu_seconds"
        if resident > limits.memory_bytes:
            why = f"over {limits.memory_bytes:,} bytes of memory, workers.memory_bytes"
        if why:
            self.end()
            raise _OverLimit(why)

    def _cpu_seconds(self) -> float:
        """User and system time of the process so far; 0 where it is gone."""
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _resident_bytes(self) -> int:
        """Resident memory of the process; 0 where it is gone."""
        try:
            pages = Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]
        except (FileNotFoundError, ProcessLookupError):
            return 0
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def is_alive(self) -> bool:
        """Whether the process lives."""
        return self._process.is_alive()

    def end(self) -> None:
        """Kill the process and wait until it is gone."""
        self._process.kill()
        self._process.join()


def _work(pipe: Connection, sheet: Any) -> None:
    """A worker's life: calls in, answers out, until the pipe ends. sheet: where it says which record it reads."""
    watch_over(sheet)
    # An interrupt from the keyboard reaches every process of the terminal; the one that started us answers it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with_parent()
    while True:
        try:
            call = pipe.recv_bytes()
        except (EOFError, ConnectionError):  # the one that calls has closed it, or is gone
            return
        reading("")
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
