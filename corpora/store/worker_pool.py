"""The worker pool: plain functions on other processes, which die with the one that started them.

Workers are spawned, which inherits no locks, threads or half-written buffers, unless the pool is told that there are
none yet (`fork_workers`): a fork has all that this process has imported and loaded, a second and a half of a core. Each
watches its parent and ends itself when the parent is gone, however it went (SIGKILL included), so no worker is left
over. Each has a pipe of its own; our end of it tells at once when the worker died (out of memory, a crash in a
library): that fails the one call it was on, and another worker takes its place, so a retry of the same range resumes at
the first part without a record. (`ProcessPoolExecutor` fails all calls when one worker dies, and may not notice until
another call ends: it wakes the thread that watches the workers before it has started the next of them.)

A worker reports its work (`corpora.store.current_record`). It is ended when a record, a batch of records or rows take
more processor time, or it more memory, than `WorkerLimits` allow. `WorkerDied` names the record, as it does after a
crash. If it was a batch, the call is made again with the items of that batch one by one, so that the record can be
named.

A worker that hangs, without processor time and without a report, is replaced and its call made again, twice at
most: that is never the fault of a record. This clock pauses while we were stopped ourselves, or the machine
slept.

Cost: a tenth of a second to start a worker, when it is first needed, and what importing the function's module takes; a
call costs the pickling of its arguments and of its result, a thread, and a look at the worker four times a second, of
0.3 ms.
"""

import gc
import multiprocessing
import os
import pickle
import signal
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from types import TracebackType
from typing import Any, ParamSpec

from corpora.errors import InputError
from corpora.generic_types import Result
from corpora.kernels.compiling import set_compiling_callback
from corpora.lean_process import hide_pandas_from_pyarrow, raise_gc_threshold
from corpora.store.current_record import (
    NO_ACTIVITY,
    Activity,
    ActivitySheet,
    begin_call,
    read_activity,
    report_compiling,
    set_sheet,
)
from corpora.store.processes import (
    is_any_runnable,
    list_process_tree,
    name_process,
    read_cpu_seconds,
    read_resident_bytes,
)
from corpora.store.settings import check_range

Arguments = ParamSpec("Arguments")


WORKER_NAME = "cloze-worker"
POLL_SECONDS = 0.25
MAX_POLL_SECONDS = 1.0  # that count of the time between two looks: we may have been stopped meanwhile
MAX_END_SECONDS = 5.0  # to wait for a process that was killed; one that a dead disk holds ends later
MAX_STALLS = 3  # of one call
PARENT_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
MAX_SUSPECT_BATCHES = 1_000  # batches that are remembered
STALL_REMEDY = (
    "Does the disk answer that the raw files, the store and the temporary files are on? Then run again; where waiting "
    "so long is in order, raise workers.stall_seconds."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """The limits on time and memory for a worker process. They do not affect any output.

    record_cpu_seconds: maximum processor time for one record, or for a batch of records that are processed together. If
                        a batch exceeds it, its records are processed one by one. The time for compiling kernels is not
                        counted
    memory_bytes:       maximum resident memory of a worker while it processes texts
    stall_seconds:      time after which a worker that makes no progress and uses no processor time is replaced
    """

    record_cpu_seconds: float = 120.0
    memory_bytes: int = 3_000_000_000
    stall_seconds: float = 300.0

    def __post_init__(self) -> None:
        check_range("workers.record_cpu_seconds", self.record_cpu_seconds, 0.1, 1e6)
        check_range("workers.memory_bytes", self.memory_bytes, 100_000_000, 1 << 50)
        check_range("workers.stall_seconds", self.stall_seconds, 1.0, 1e9)


class WorkerDied(Exception):
    """Raised if a worker process ended before it finished a call.

    Attributes:
        message: Description of what happened.
        record: Name of the record that the worker was processing; "" if unknown.
    """

    def __init__(self, message: str, record: str = "") -> None:
        super().__init__(message, record)
        self.message = message
        self.record = record

    def __str__(self) -> str:
        return self.message


class PoolClosed(WorkerDied):
    """Raised by running or waiting calls if the pool is closed."""


def discard_line(line: str) -> None:
    """Ignore a message. This is the default for `WorkerPool(tell=...)`."""


def keep_waiting() -> None:
    """Do nothing, so that the pool keeps waiting for its workers. This is the default for `WorkerPool(on_poll=...)`."""


class WorkerPool:
    """A pool of worker processes that run module-level functions.

    The pool is thread-safe. Each call waits until a worker is free.

    Args:
        num_workers: Maximum number of workers. Each one is started when it is first needed.
        limits: Limits on time and memory (default: `WorkerLimits()`).
        tell: Called with a one-line message if a call is repeated. It may be called from any thread.
        on_poll: Called every POLL_SECONDS by the thread that waits for a call. If it raises an exception, the call is
            canceled, its worker is killed, and the exception is propagated.
    """

    def __init__(
        self,
        num_workers: int,
        limits: WorkerLimits | None = None,
        tell: Callable[[str], None] = discard_line,
        on_poll: Callable[[], None] = keep_waiting,
    ) -> None:
        self.num_workers = num_workers
        self.limits = limits or WorkerLimits()
        self.tell = tell
        self._on_poll = on_poll
        self._changed = threading.Condition()
        self._workers: set[_Worker] = set()
        self._idle: list[_Worker] = []
        self._closings = 0
        self._suspect_batches: deque[str] = deque(maxlen=MAX_SUSPECT_BATCHES)

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def fork_workers(self, number: int) -> None:
        """Start up to `number` workers by forking this process, which is faster than spawning them.

        If such a worker is replaced later, the new one is spawned. Call this only while the process has no threads that
        may hold a lock, no locked files and no server connections, because a fork would inherit them.
        """
        gc.freeze()  # a collection would write to pages that the forks share
        with self._changed:
            for _ in range(min(number, self.num_workers)):
                worker = _Worker(is_fork=True)
                self._workers.add(worker)
                self._idle.append(worker)

    def limit_workers(self, number: int) -> None:
        """Reduce the maximum number of workers to `number`, and end surplus idle workers.

        Must not be called while a call is running.
        """
        with self._changed:
            self.num_workers = number
            surplus_workers, self._idle = self._idle[number:], self._idle[:number]
            self._workers.difference_update(surplus_workers)
        for worker in surplus_workers:
            worker.end()

    def run(self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        """Call a module-level function in a worker process and return its result.

        The call is repeated if the worker hangs, or if it dies while it processes a batch of records. In the latter
        case, the repeated call processes these records one by one.

        Args:
            function: The function to call. The function, its arguments and its result must be picklable.
            *args: Positional arguments.
            **kwargs: Keyword arguments.

        Raises:
            WorkerDied: If the worker process ended before the function returned.
            PoolClosed: If the pool was closed meanwhile.
            InputError: If three workers hang in this call.

        Exceptions raised by `function` or `on_poll` are propagated with their original type.
        """
        stalls = 0
        while True:
            try:
                result: Result = self._call(function, args, kwargs)
                return result
            except _WorkerStalled as stall:
                stalls += 1
                if stalls == MAX_STALLS:
                    raise InputError(f"{stall} That was {stalls} times. {STALL_REMEDY}") from stall
                self.tell(f"{stall} Another one takes its place.")
            except _DiedOverBatch as death:
                with self._changed:
                    self._suspect_batches.append(death.batch)
                self.tell(f"{death} Its records are taken one by one.")

    def get_progress(self) -> tuple[Activity, ...]:
        """Return the current activity of each worker. It keeps changing as long as any worker makes progress."""
        with self._changed:
            workers = list(self._workers)
        return tuple(worker.read_activity() for worker in workers)

    def close(self) -> None:
        """Kill all workers at once. Running calls raise PoolClosed.

        The pool remains usable: later calls start new workers.
        """
        with self._changed:
            workers, self._workers, self._idle = self._workers, set(), []
            self._closings += 1
            self._changed.notify_all()
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.end()

    def _call(self, function: Callable[..., object], args: Any, kwargs: Any) -> Any:
        """Run one call on one worker, without repeating it, and return the function's result.

        Args:
            function: A module-level function.
            args: Positional arguments.
            kwargs: Keyword arguments.

        Raises:
            PoolClosed: If the pool was closed meanwhile.
            WorkerDied: If the worker process ended, and the call should not be repeated.
            _WorkerStalled, _DiedOverBatch: If `run` should repeat the call.

        Exceptions raised by the function are propagated.
        """
        worker = self._take_worker(function.__qualname__)
        with self._changed:
            suspect_batches = tuple(self._suspect_batches)
        try:
            returned, value = worker.call(function, args, kwargs, self.limits, suspect_batches, self._on_poll)
        except _WorkerEnded as end:
            if worker not in self._workers:
                raise PoolClosed(f"The worker pool was closed while it ran {function.__qualname__}.") from end
            raise _build_error(end, worker.read_activity(), function.__qualname__, suspect_batches) from end
        finally:
            self._return_worker(worker)
        if not returned:
            raise value
        return value

    def _take_worker(self, purpose: str) -> "_Worker":
        """Return an idle worker, or start a new one. Wait for a worker if the maximum number is reached.

        `purpose` is the name of the function to run, for the error message.

        Raises:
            PoolClosed: If the pool is closed while waiting.
        """
        with self._changed:
            closings = self._closings
            while self._closings == closings:
                while self._idle:
                    worker = self._idle.pop()
                    if worker.is_alive():
                        return worker
                    self._workers.discard(worker)
                if len(self._workers) < self.num_workers:
                    worker = _Worker()
                    self._workers.add(worker)
                    return worker
                self._changed.wait()
        raise PoolClosed(f"The worker pool was closed before it ran {purpose}.")

    def _return_worker(self, worker: "_Worker") -> None:
        """Make a worker available again. If its call was interrupted and still runs, kill it."""
        if worker.is_busy:
            worker.end()
        with self._changed:
            if worker in self._workers:
                self._idle.append(worker)
            self._changed.notify()


class _WorkerStalled(Exception):
    """Raised if a worker hung and was killed."""


class _DiedOverBatch(WorkerDied):
    """Raised if a worker died while it processed a batch of records that can be processed one by one."""

    def __init__(self, message: str, batch: str) -> None:
        super().__init__(message)
        self.batch = batch


class _WorkerEnded(Exception):
    """Raised if a worker process has ended.

    Attributes:
        is_blamed: True if the record or batch that it was processing is the likely cause.
        is_stalled: True if it was killed because it hung.
    """

    def __init__(self, why: str, is_blamed: bool = True, is_stalled: bool = False) -> None:
        super().__init__(why)
        self.is_blamed = is_blamed
        self.is_stalled = is_stalled


def _build_error(end: _WorkerEnded, activity: Activity, purpose: str, suspect_batches: Collection[str]) -> Exception:
    """Build the exception to raise for a worker that has ended: `_WorkerStalled`, `_DiedOverBatch` or `WorkerDied`.

    Args:
        end: The reason why the worker has ended.
        activity: The last activity that it reported.
        purpose: Name of the function that it ran, for the error message.
        suspect_batches: Names of the batches that it had to process one record at a time.
    """
    work = f" over {activity}" if str(activity) else ""
    if end.is_stalled:
        return _WorkerStalled(f"A worker process hung while it ran {purpose}{work}: {end}.")
    message = f"A worker process ended while it ran {purpose}{work} ({end})."
    if not end.is_blamed:
        return WorkerDied(message)
    if activity.batch and activity.batch not in suspect_batches:
        return _DiedOverBatch(message, activity.batch)
    return WorkerDied(message, activity.record)


class _Worker:
    """A worker process and the pipe to it. `is_busy` is True while a call is running."""

    def __init__(self, is_fork: bool = False) -> None:
        context: Any = multiprocessing.get_context("fork" if is_fork else "spawn")
        self._pipe, theirs = context.Pipe()
        self._sheet = context.RawValue(ActivitySheet)
        if is_fork:
            self._process = context.Process(target=_serve_as_fork, args=(self._pipe, theirs, self._sheet), daemon=True)
            with _block_signals(PARENT_SIGNALS), warnings.catch_warnings():
                # Python 3.12 warns of threads; those of numpy and Arrow are made again after a fork.
                warnings.simplefilter("ignore", DeprecationWarning)
                self._process.start()
        else:
            self._process = context.Process(target=_serve_calls, args=(theirs, self._sheet), daemon=True)
            resource_tracker.ensure_running()  # as it starts it lets interrupts through again
            with _block_signals([signal.SIGINT]):
                self._process.start()
        theirs.close()  # from now on only the worker holds its end, and with it ends the pipe
        self._killed = False
        self.is_busy = False

    def call(
        self,
        function: Callable[..., object],
        args: Any,
        kwargs: Any,
        limits: WorkerLimits,
        suspect_batches: Collection[str],
        on_poll: Callable[[], None],
    ) -> tuple[bool, Any]:
        """Run a function in the worker process.

        Args:
            function: A module-level function.
            args: Positional arguments.
            kwargs: Keyword arguments.
            limits: Limits on time and memory.
            suspect_batches: Names of the batches to process one record at a time.
            on_poll: Called every POLL_SECONDS while waiting.

        Returns:
            (True, result of the function) or (False, exception raised by the function).

        Raises:
            _WorkerEnded: If the process ended or was killed before the function returned.
        """
        # Raises before the worker hears of the call. Bytes: a view into the pickler's buffer that outlives the
        # buffer, as in the traceback of a broken pipe, ends a Python 3.12 process.
        call = bytes(ForkingPickler.dumps((function, args, kwargs, suspect_batches)))
        self.is_busy = True
        exchange = _Exchange(self._pipe, call)
        watch = _Watch(limits, self.pid)
        while not exchange.done.wait(POLL_SECONDS):
            if self._killed:
                raise _WorkerEnded("it was killed")
            on_poll()
            try:
                watch.check(self.read_activity(), time.monotonic())
            except _WorkerEnded:
                self.end()
                raise
        if exchange.answer is None:
            raise _WorkerEnded(self._describe_end())
        self.is_busy = False
        returned, value = pickle.loads(exchange.answer)
        return returned, value

    @property
    def pid(self) -> int:
        """The process id."""
        pid: int = self._process.pid
        return pid

    def read_activity(self) -> Activity:
        """Return the current activity of the process, or the last one if the process has ended."""
        return read_activity(self._sheet)

    def is_alive(self) -> bool:
        """Return True if the worker can accept a call: the process is running and has not been killed by this pool."""
        return not self._killed and self._process.is_alive()

    def kill(self) -> None:
        """Kill the process and all of its descendants, without waiting for them to end."""
        self._killed = True
        if self._process.is_alive():
            for pid in reversed(list_process_tree(self.pid)):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)

    def end(self) -> None:
        """Kill the process and its descendants, and wait up to MAX_END_SECONDS for the process to end."""
        self.kill()
        self._process.join(MAX_END_SECONDS)

    def _describe_end(self) -> str:
        self._process.join(MAX_END_SECONDS)
        code = self._process.exitcode
        if code is None or code >= 0:
            return f"it left with exit code {code}"
        name = signal.Signals(-code).name
        return "out of memory, or killed" if -code == signal.SIGKILL else f"a crash: {name}"


class _Exchange:
    """Sends a call and receives its result in a separate thread, so a hanging worker blocks no other calls."""

    def __init__(self, pipe: Connection, call: bytes) -> None:
        self.done = threading.Event()
        self.answer: bytes | None = None
        threading.Thread(target=self._run, args=(pipe, call), name="call-of-a-worker", daemon=True).start()

    def _run(self, pipe: Connection, call: bytes) -> None:
        try:
            pipe.send_bytes(call)
            self.answer = pipe.recv_bytes()
        except (EOFError, ConnectionError):  # it is gone
            pass
        finally:
            self.done.set()


class _Watch:
    """Measures the time and memory used by a worker since its reported activity last changed."""

    def __init__(self, limits: WorkerLimits, pid: int) -> None:
        self._limits = limits
        self._pid = pid
        self._activity = NO_ACTIVITY
        self._checked = time.monotonic()
        self._cpu = self._cpu_before = read_cpu_seconds(list_process_tree(pid))
        self._resident = self._resident_before = read_resident_bytes(pid)
        self._still_seconds = 0.0

    def check(self, activity: Activity, now: float) -> None:
        """Update the measurements, and compare them with the limits.

        Args:
            activity: The worker's current activity.
            now: The current time in seconds, from a monotonic clock.

        Raises:
            _WorkerEnded: If a limit is exceeded, or the worker has made no progress for too long.
        """
        pids = list_process_tree(self._pid)
        cpu, resident = read_cpu_seconds(pids), read_resident_bytes(self._pid)
        moved = cpu != self._cpu or activity != self._activity or is_any_runnable(pids)
        self._still_seconds = 0.0 if moved else self._still_seconds + min(now - self._checked, MAX_POLL_SECONDS)
        if activity.changes != self._activity.changes:  # a step has no limits of its own
            self._cpu_before, self._resident_before = cpu, self._resident
        self._activity, self._cpu, self._resident, self._checked = activity, cpu, resident, now
        if activity.is_limited:
            self._check_limits()
        if self._still_seconds >= self._limits.stall_seconds:
            raise _WorkerEnded(
                f"{self._still_seconds:.0f} s without processor time, workers.stall_seconds", is_stalled=True
            )

    def _check_limits(self) -> None:
        limits, growth = self._limits, self._resident - self._resident_before
        cpu = 0.0 if self._activity.compiling else self._cpu - self._cpu_before
        if cpu > limits.record_cpu_seconds:
            raise _WorkerEnded(f"over {limits.record_cpu_seconds:g} s of processor time, workers.record_cpu_seconds")
        if self._resident > limits.memory_bytes:
            # What a worker held before is not the fault of the record that it has come to.
            why = f"over {limits.memory_bytes:,} bytes of memory, workers.memory_bytes"
            raise _WorkerEnded(why, is_blamed=growth > limits.memory_bytes / 2)


@contextmanager
def _block_signals(numbers: Collection[signal.Signals]) -> Iterator[None]:
    """Block signals inside the block. A process that is started there begins with these signals blocked."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve_as_fork(parent_pipe: Connection, pipe: Connection, sheet: Any) -> None:
    """Run the worker loop (`_serve_calls`) in a forked process, until the pipe is closed.

    Before that, the parent's end of the pipe, which the fork inherits, is closed, and the signal handlers are reset.

    Args:
        parent_pipe: The parent's end of the pipe.
        pipe: The worker's end of the pipe.
        sheet: The shared memory in which the worker reports its current activity.
    """
    parent_pipe.close()
    signal.set_wakeup_fd(-1)
    for number in PARENT_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM, signal.SIGHUP])
    _serve_calls(pipe, sheet)


def _serve_calls(pipe: Connection, sheet: Any) -> None:
    """Run calls that arrive through the pipe and send back their results, until the pipe is closed.

    `sheet` is the shared memory in which the worker reports its current activity.
    """
    name_process(WORKER_NAME)
    raise_gc_threshold()
    hide_pandas_from_pyarrow()
    set_sheet(sheet)
    set_compiling_callback(report_compiling)
    # An interrupt from the keyboard reaches every process of the terminal; the one that started us answers it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _exit_with_parent()
    while True:
        try:
            call = pipe.recv_bytes()
        except (EOFError, ConnectionError):  # the one that calls has closed it, or is gone
            return
        pipe.send_bytes(_answer(call))


def _answer(call: bytes) -> bytes:
    try:
        function, args, kwargs, suspect_batches = pickle.loads(call)
        begin_call(suspect_batches)
        return bytes(ForkingPickler.dumps((True, function(*args, **kwargs))))
    except Exception as error:  # of any kind: it is raised again where the call was made
        error.add_note("On a worker process:\n" + "".join(traceback.format_tb(error.__traceback__)))
        return bytes(ForkingPickler.dumps((False, error)))


def _exit_with_parent() -> None:
    """Start a thread that waits for the parent process and ends this worker as soon as the parent has ended."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="die-with-parent", daemon=True).start()
