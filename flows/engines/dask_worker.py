"""A call on a worker of a cluster: in a pool of processes of its own, with everything that the local pool promises.

Limits of time and memory, the pulse, and the record that a process worked on when it ended: a worker has them from
`corpora.store.worker_pool`. A call whose task was cancelled (its client stopped, was killed, or lost the scheduler)
is ended with its processes within half a second. The processes stay for the next calls, and go REST_SECONDS
after the last one.

A nanny starts its worker as a daemon of Python's, which may have no children. That is lifted here: the processes of a
pool end themselves when the process that started them is gone.

Copies of checkpoints on an object store: a lost worker takes its disk along, and another one continues.

    STORE/models/NAME/FINGERPRINT/work/checkpoints/step-.../     the newest checkpoint, its complete.json last
                                      metrics.jsonl              the events up to there, or further

Promise: a copy that has its complete.json is whole, and the trainer checks every byte of it before it continues from
it. Cost: the checkpoint over the network whenever one is written; the trainer continues meanwhile.

A training on a worker: the trainer's processes are its children, as in a run that trains by itself.

Each event goes to the listener as a message of the scheduler. Where the task is cancelled (its client stopped, was
killed, or lost the scheduler) the trainer is stopped, and the worker is free when the checkpoint is written. The
part is built here as well, so that the machine of the run needs nothing of a model on an object store.

Checkpoints are in the work folder next to the model; of a store that is no folder, on this machine and as a copy
there.
"""

import json
import multiprocessing
import os
import pickle
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from distributed import Worker, get_worker
from distributed.core import Status

from corpora.errors import InputError
from corpora.store.checked_folder import COMPLETE_FILE, list_files
from corpora.store.places.files import hold_lock
from corpora.store.places.place import Place
from corpora.store.stage import Stage, build_parts
from corpora.store.worker_pool import PoolClosed, WorkerLimits, WorkerPool
from flows.engines.connect import GPU
from flows.engines.worker_checks import PROGRAM, Identity, differences, identity
from flows.environment import QUIET
from trainer.build import locate_work_folder
from trainer.job import TrainingJob
from trainer.launch import Stop, train
from trainer.metrics import METRICS_FILE

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
    """Raise TakenBack if the task of this thread was cancelled, or its worker leaves."""
    worker = get_worker()
    if is_taken_back(worker, worker.get_current_task()):
        raise TakenBack("The task was taken back.")


def _threads() -> int:
    return int(get_worker().state.nthreads)


CHECKPOINTS = "checkpoints"


def keep_copy(place: Place, stage: Stage, work: Path) -> None:
    """Copy the newest checkpoint of a work folder into the store, and remove older copies."""
    steps = _steps_here(work)
    if not steps or (newest := steps[-1]) in _steps_there(place, stage):
        return
    _send(work / METRICS_FILE, place, f"{_base(stage)}/{METRICS_FILE}")
    folder = work / CHECKPOINTS / newest
    for name in (*list_files(folder), COMPLETE_FILE):
        _send(folder / name, place, f"{_base(stage)}/{CHECKPOINTS}/{newest}/{name}")
    _remove(place, stage, newest)


def fetch_copy(place: Place, stage: Stage, work: Path) -> None:
    """Put the copy in a store into a work folder, where its step is later than the folder's own."""
    if not (stored := _steps_there(place, stage)):
        return
    work.mkdir(parents=True, exist_ok=True)
    with hold_lock(work / "fetching"):
        if _steps_here(work)[-1:] >= stored[-1:]:
            return
        base, final = f"{_base(stage)}/", work / CHECKPOINTS / stored[-1]
        new = final.with_name(f"fetched-{final.name}")  # until it is whole: not the name of a checkpoint
        shutil.rmtree(new, ignore_errors=True)
        for path in place.list_files(f"{base}{CHECKPOINTS}/{stored[-1]}"):
            _fetch(place, path, new / path.removeprefix(f"{base}{CHECKPOINTS}/{stored[-1]}/"))
        _fetch(place, f"{base}{METRICS_FILE}", work / METRICS_FILE)
        shutil.rmtree(final, ignore_errors=True)
        new.rename(final)


def remove_copy(place: Place, stage: Stage) -> None:
    """Remove the copy: the model is in the store, so nothing of its training is needed."""
    _remove(place, stage, "")
    if place.find_size(f"{_base(stage)}/{METRICS_FILE}") is not None:
        place.delete(f"{_base(stage)}/{METRICS_FILE}")


def _base(stage: Stage) -> str:
    return f"{stage.folder}/work"


def _steps_here(work: Path) -> list[str]:
    """Return the whole checkpoints of a work folder, the oldest first."""
    return sorted(path.parent.name for path in (work / CHECKPOINTS).glob(f"step-*/{COMPLETE_FILE}"))


def _steps_there(place: Place, stage: Stage) -> list[str]:
    """Return the whole copies in a store, the oldest first."""
    paths = (Path(path) for path in place.list_files(f"{_base(stage)}/{CHECKPOINTS}"))
    return sorted(path.parent.name for path in paths if path.name == COMPLETE_FILE)


def _remove(place: Place, stage: Stage, but: str) -> None:
    """Remove copies, and first of each the file that says that it is whole."""
    paths = [Path(path) for path in place.list_files(f"{_base(stage)}/{CHECKPOINTS}")]
    for path in sorted(paths, key=lambda path: path.name != COMPLETE_FILE):
        if not but or but not in path.parts:
            place.delete(path.as_posix())


def _send(source: Path, place: Place, path: str) -> None:
    with place.create(path) as sink, source.open("rb") as file:
        shutil.copyfileobj(file, sink)


def _fetch(place: Place, path: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with place.open(path) as source, target.open("wb") as file:
        shutil.copyfileobj(source, file)


BEGAN, LEFT = "began", "left"
LOOK_SECONDS = 0.25


def perform_training(work: bytes, topic: str, wanted: Identity) -> Answer:
    """Train a model and build its part. work: place, stage, plans, and distrusted files, pickled"""
    worker = get_worker()
    task = worker.get_current_task()

    def say(**message: object) -> None:
        worker.log_event(topic, json.dumps(message))

    if (other := unfit(worker, wanted)) is not None:
        return other
    os.environ.update(QUIET)
    say(**{BEGAN: worker.address})
    stop = Stop()
    try:
        with stopped_where(stop, lambda: is_taken_back(worker, task)):
            return answer_of(worker.address, lambda: _train(work, say, stop), [])
    finally:
        say(**{LEFT: worker.address})


def _train(work: bytes, say: Callable[..., None], stop: Stop) -> int:
    place, stage, plans, distrusted = pickle.loads(work)
    if find_spec("torch") is None:
        raise InputError(f"The worker has the resource {GPU} but no torch to train with: install it there.")
    work_here = str(locate_work_folder(place, stage))  # the plans name the folder of the machine that runs the recipe
    here = [replace(plan, job=replace(plan.job, work=work_here)) for plan in plans]
    for plan in here:
        _train_one(place, stage, plan.job, say, stop)
    built = len(build_parts(place, stage, here, distrusted))
    if not place.is_local:
        remove_copy(place, stage)
    return built


def _train_one(place: Place, stage: Stage, job: TrainingJob, say: Callable[..., None], stop: Stop) -> None:
    """Train; for a store that is not a folder from its copy of the newest checkpoint, which each new one replaces."""
    work = Path(job.work)

    def on_event(event: Mapping[str, Any]) -> None:
        if event["event"] == "checkpoint" and not place.is_local:
            keep_copy(place, stage, work)
        say(**event)

    if not place.is_local:
        fetch_copy(place, stage, work)
    train(job, on_event, stop)


@contextmanager
def stopped_where(stop: Stop, wanted: Callable[[], bool]) -> Iterator[None]:
    """Stop a training as soon as that is wanted, for the time of the block."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(LOOK_SECONDS):
            if wanted():
                return stop()

    watching = threading.Thread(target=watch, name="stop-of-a-training", daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()
