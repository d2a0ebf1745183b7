"""A call on a worker of a cluster: in a pool of processes of its own, with everything that the local pool promises.

Limits of time and memory, the pulse, and the record that a process worked on when it ended: a worker has them from
`corpora.store.worker_pool`. A call whose task was cancelled (its client stopped, was killed, or lost the scheduler)
is ended with its processes within half a second. The processes stay for the next calls, and go REST_SECONDS
after the last one.

A nanny starts its worker as a daemon of Python's, which may have no children. That is lifted here: the processes of a
pool end themselves when the process that started them is gone.
"""

import multiprocessing
import os
import pickle
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from distributed import Worker, get_worker
from distributed.core import Status

from corpora.errors import InputError
from corpora.store.worker_pool import PoolClosed, WorkerLimits, WorkerPool
from flows.engines.version_match import PROGRAM, Identity, differences, identity
from flows.environment import QUIET

REST_SECONDS = 60.0
DONE, RAISED, UNFIT = "done", "raised", "unfit"
_WORKS = (Status.running, Status.paused, Status.closing_gracefully)


class Answer(NamedTuple):
    """The outcome of a call. value: pickled; for an unfit worker the reason. notices: calls that were made again"""

    how: str
    value: bytes
    worker: str
    notices: tuple[str, ...] = ()


class TakenBack(Exception):
    """Raised where nobody waits for this call any more."""


class _Pools:
    """The pools of this process, one for each set of limits and state of the program, while there are calls."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pools: dict[tuple[WorkerLimits, str], WorkerPool] = {}
        self._calls = Counter[tuple[WorkerLimits, str]]()
        self._heard = threading.local()

    @contextmanager
    def at_work(self, limits: WorkerLimits, program: str, notices: list[str]) -> Iterator[WorkerPool]:
        """Yield the pool for a call, which stays open until the block ends."""
        key = (limits, program)
        self._heard.notices = notices
        with self._lock:
            if key not in self._pools:
                self._pools[key] = WorkerPool(_threads(), limits, self._tell, on_poll=refuse_taken_back)
            self._calls[key] += 1
            pool = self._pools[key]
        try:
            yield pool
        finally:
            with self._lock:
                self._calls[key] -= 1
                idle = not self._calls[key]
            if idle:
                timer = threading.Timer(REST_SECONDS, self._close_idle, (key, pool))
                timer.daemon = True
                timer.start()

    def _tell(self, line: str) -> None:
        self._heard.notices.append(line)

    def _close_idle(self, key: tuple[WorkerLimits, str], pool: WorkerPool) -> None:
        """Close a pool, unless there are calls now, or it was closed meanwhile."""
        with self._lock:
            if self._pools.get(key) is not pool or self._calls[key]:
                return
            del self._pools[key]
        pool.close()


_pools = _Pools()


def perform(call: bytes, limits: WorkerLimits, wanted: Identity) -> Answer:
    """Make a call on a process of this worker; nothing that it raises is raised here, except what ends the worker.

    call:   a module-level function and its arguments, pickled
    wanted: what this worker must be like
    """
    worker = get_worker()
    if (other := unfit(worker, wanted)) is not None:
        return other
    os.environ.update(QUIET)
    multiprocessing.current_process().daemon = False
    notices: list[str] = []

    def run() -> object:
        function, args = pickle.loads(call)
        with _pools.at_work(limits, wanted[PROGRAM], notices) as pool:
            return pool.run(function, *args)

    return answer_of(worker.address, run, notices)


def unfit(worker: Worker, wanted: Identity) -> Answer | None:
    """Return the answer of a worker that is not as it must be."""
    unlike = differences(wanted, identity())
    return Answer(UNFIT, unlike.encode(), worker.address) if unlike else None


def answer_of(where: str, call: Callable[[], object], notices: list[str]) -> Answer:
    """Return the outcome of a call on a worker. notices: collected on the way, for the caller"""
    try:
        return Answer(DONE, pickle.dumps(call()), where, tuple(notices))
    except TakenBack as error:
        return Answer(RAISED, pickle.dumps(PoolClosed(str(error))), where)
    except ModuleNotFoundError as error:
        missing = InputError(
            f"The worker {where} has no module {error.name!r}, which this run needs: install there what is installed "
            "here, and start the worker again."
        )
        return Answer(RAISED, pickle.dumps(missing), where)
    except Exception as error:  # of any kind: it is raised again at the caller
        error.add_note(f"On the worker {where} of the cluster.")
        return Answer(RAISED, pickle.dumps(error), where, tuple(notices))


def value_of(answer: Answer) -> Any:
    """Return what a call returned. Raises what it raised, and InputError where the worker was unfit for it."""
    if answer.how == UNFIT:
        raise InputError(
            f"The worker {answer.worker} is not like this machine: it has {answer.value.decode()}. Install the same "
            "versions of everything there, and start it again."
        )
    value = pickle.loads(answer.value)
    if answer.how == RAISED:
        raise value
    return value


def is_taken_back(worker: Worker, task: Any) -> bool:
    """Return whether nobody waits for a task any more, or its worker leaves."""
    state = worker.state.tasks.get(task)
    return state is None or state.state == "cancelled" or worker.status not in _WORKS


def refuse_taken_back() -> None:
    """Raise TakenBack where the task of this thread was cancelled, or its worker leaves."""
    worker = get_worker()
    if is_taken_back(worker, worker.get_current_task()):
        raise TakenBack("The task was taken back.")


def _threads() -> int:
    return int(get_worker().state.nthreads)
