"""What a worker of a Dask cluster does: it answers a call in a pool of processes, or trains a model as its children.

A call has everything that the local pool promises: limits of time and memory, heartbeats, and the record that a process
worked on when it ended (`corpora.store.worker_pool`). If its task was cancelled (its client stopped, was killed, or
lost the scheduler), it is ended with its processes within half a second. The processes stay for the next calls, and end
IDLE_SECONDS after the last one. A nanny starts its worker as a daemon of Python's, which may have no children. That is
lifted here: the processes of a pool end themselves when the process that started them is gone.

A training sends each event to the client as a message of the scheduler. If its task is cancelled, the trainer is
stopped, and the worker is free when the checkpoint is written. The part is built here as well, so that the machine of
the run needs nothing of a model on an object store.

Checkpoints are in the work folder next to the model. If the store is no folder, they are on this machine, with a copy
of the newest in the store, from which another worker continues if this one is lost:

    STORE/models/NAME/FINGERPRINT/work/checkpoints/step-.../     the newest checkpoint, its complete.json last
                                      metrics.jsonl              the events up to there, or further

Promise: a copy that has its complete.json is whole, and the trainer checks every byte of it before it continues from
it. Cost: the checkpoint over the network whenever one is written; the trainer continues meanwhile.
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
from flows.engines.worker_checks import PROGRAM, Identity, describe_differences, read_identity
from flows.environment import QUIET
from trainer.build import locate_work_folder
from trainer.job import TrainingJob
from trainer.launch import Stop, train
from trainer.metrics import METRICS_FILE

IDLE_SECONDS = 60.0
DONE, RAISED, UNFIT = "done", "raised", "unfit"
_WORKING_STATES = (Status.running, Status.paused, Status.closing_gracefully)


class Answer(NamedTuple):
    """A worker's response to a call.

    Attributes:
        outcome: DONE, RAISED or UNFIT (the worker did not make the call because its program versions differ).
        value: The pickled result (DONE) or exception (RAISED); for UNFIT, the differing versions, as UTF-8 text.
        worker: The address of the worker.
        notices: One message for each time the worker repeated the call.
    """

    outcome: str
    value: bytes
    worker: str
    notices: tuple[str, ...] = ()


class TaskCancelled(Exception):
    """Raised within a call if its Dask task was cancelled, because the result is no longer needed."""


class _Pools:
    """The process pools of this worker, one for each combination of limits and program version that is in use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pools: dict[tuple[WorkerLimits, str], WorkerPool] = {}
        self._calls = Counter[tuple[WorkerLimits, str]]()
        self._thread = threading.local()

    @contextmanager
    def hold_pool(self, limits: WorkerLimits, program: str, notices: list[str]) -> Iterator[WorkerPool]:
        """Yield the process pool for a call, and keep it open during the block.

        Args:
            limits: Limits of time and memory for each process.
            program: Version of Cloze; each version has its own pool.
            notices: List to which a message is appended each time the call is repeated.
        """
        key = (limits, program)
        self._thread.notices = notices
        with self._lock:
            if key not in self._pools:
                threads = int(get_worker().state.nthreads)
                self._pools[key] = WorkerPool(threads, limits, self._add_notice, on_poll=raise_if_cancelled)
            self._calls[key] += 1
            pool = self._pools[key]
        try:
            yield pool
        finally:
            with self._lock:
                self._calls[key] -= 1
                idle = not self._calls[key]
            if idle:
                timer = threading.Timer(IDLE_SECONDS, self._close_idle, (key, pool))
                timer.daemon = True
                timer.start()

    def _add_notice(self, line: str) -> None:
        """Append a message to the notices of the call that the current thread is performing."""
        self._thread.notices.append(line)

    def _close_idle(self, key: tuple[WorkerLimits, str], pool: WorkerPool) -> None:
        """Close a pool, unless it is in use or was already closed."""
        with self._lock:
            if self._pools.get(key) is not pool or self._calls[key]:
                return
            del self._pools[key]
        pool.close()


_pools = _Pools()


def perform_call(call: bytes, limits: WorkerLimits, expected: Identity) -> Answer:
    """Run a function in a process of this worker, and return its result or its exception as an answer.

    Args:
        call: A pickled tuple (function, arguments); the function must be at module level.
        limits: Limits of time and memory for the process.
        expected: The program versions that this worker must have (from `read_identity`); otherwise the outcome is
            UNFIT.
    """
    worker = get_worker()
    if (refusal := refuse_mismatch(worker, expected)) is not None:
        return refusal
    os.environ.update(QUIET)
    multiprocessing.current_process().daemon = False
    notices: list[str] = []

    def run() -> object:
        function, args = pickle.loads(call)
        with _pools.hold_pool(limits, expected[PROGRAM], notices) as pool:
            return pool.run(function, *args)

    return answer_call(worker.address, run, notices)


def refuse_mismatch(worker: Worker, expected: Identity) -> Answer | None:
    """Compare this worker's program versions with the versions that a call expects.

    Args:
        worker: This worker.
        expected: The expected versions, from `read_identity` on the caller's machine.

    Returns:
        The UNFIT answer if they differ; None if they are equal.
    """
    mismatch = describe_differences(expected, read_identity())
    return Answer(UNFIT, mismatch.encode(), worker.address) if mismatch else None


def answer_call(worker: str, call: Callable[[], object], notices: list[str]) -> Answer:
    """Call a function, and wrap its result or exception in an answer. Exceptions of the function are not raised.

    Args:
        worker: The address of this worker.
        call: The function to call, without arguments.
        notices: List of messages for the caller, which `call` may append to.
    """
    try:
        return Answer(DONE, pickle.dumps(call()), worker, tuple(notices))
    except TaskCancelled as error:
        return Answer(RAISED, pickle.dumps(PoolClosed(str(error))), worker)
    except ModuleNotFoundError as error:
        missing = InputError(
            f"The worker {worker} has no module {error.name!r}, which this run needs: install there what is installed "
            "here, and start the worker again."
        )
        return Answer(RAISED, pickle.dumps(missing), worker)
    except Exception as error:  # of any kind: it is raised again at the caller
        error.add_note(f"On the worker {worker} of the cluster.")
        return Answer(RAISED, pickle.dumps(error), worker, tuple(notices))


def unpack_answer(answer: Answer) -> Any:
    """Return the result in an answer, or raise its exception.

    Raises:
        InputError: If the worker had other program versions than the call expects.
        Exception: The exception that the call raised on the worker.
    """
    if answer.outcome == UNFIT:
        raise InputError(
            f"The worker {answer.worker} is not like this machine: it has {answer.value.decode()}. Install the same "
            "versions of everything there, and start it again."
        )
    value = pickle.loads(answer.value)
    if answer.outcome == RAISED:
        raise value
    return value


def is_cancelled(worker: Worker, task: Any) -> bool:
    """Return True if a Dask task was cancelled, or its worker is leaving the cluster.

    Args:
        worker: This worker.
        task: The key of the task.
    """
    state = worker.state.tasks.get(task)
    return state is None or state.state == "cancelled" or worker.status not in _WORKING_STATES


def raise_if_cancelled() -> None:
    """Raise TaskCancelled if the current Dask task was cancelled, or its worker is leaving the cluster."""
    worker = get_worker()
    if is_cancelled(worker, worker.get_current_task()):
        raise TaskCancelled("The task was taken back.")


CHECKPOINTS = "checkpoints"


def save_checkpoint(place: Place, stage: Stage, work: Path) -> None:
    """Copy the newest complete checkpoint from a trainer's work folder into the store, then remove older copies.

    Does nothing if there is no complete checkpoint, or the store already contains the newest one.

    Args:
        place: The store.
        stage: The stage of the model. Its name determines the folder of the copies.
        work: The trainer's work folder on this machine.
    """
    steps = _list_local_steps(work)
    if not steps or (newest := steps[-1]) in _list_stored_steps(place, stage):
        return
    _upload(work / METRICS_FILE, place, f"{_get_copy_folder(stage)}/{METRICS_FILE}")
    folder = work / CHECKPOINTS / newest
    for name in (*list_files(folder), COMPLETE_FILE):
        _upload(folder / name, place, f"{_get_copy_folder(stage)}/{CHECKPOINTS}/{newest}/{name}")
    _remove_copies(place, stage, newest)


def fetch_checkpoint(place: Place, stage: Stage, work: Path) -> None:
    """Copy the newest checkpoint from the store into a trainer's work folder.

    Does nothing if the folder has a checkpoint that is at least as new, or the store has no complete checkpoint.

    Args:
        place: The store.
        stage: The stage of the model. Its name determines the folder of the copies.
        work: The trainer's work folder on this machine. It is created if necessary.
    """
    if not (stored_steps := _list_stored_steps(place, stage)):
        return
    work.mkdir(parents=True, exist_ok=True)
    with hold_lock(work / "fetching"):
        if _list_local_steps(work)[-1:] >= stored_steps[-1:]:
            return
        base, final = f"{_get_copy_folder(stage)}/", work / CHECKPOINTS / stored_steps[-1]
        new = final.with_name(f"fetched-{final.name}")  # until it is whole: not the name of a checkpoint
        shutil.rmtree(new, ignore_errors=True)
        for path in place.list_files(f"{base}{CHECKPOINTS}/{stored_steps[-1]}"):
            _download(place, path, new / path.removeprefix(f"{base}{CHECKPOINTS}/{stored_steps[-1]}/"))
        _download(place, f"{base}{METRICS_FILE}", work / METRICS_FILE)
        shutil.rmtree(final, ignore_errors=True)
        new.rename(final)


def remove_checkpoints(place: Place, stage: Stage) -> None:
    """Remove the copies of checkpoints and metrics from the store. Call this once the model is in the store.

    Args:
        place: The store.
        stage: The stage of the model. Its name determines the folder of the copies.
    """
    _remove_copies(place, stage, "")
    if place.find_size(f"{_get_copy_folder(stage)}/{METRICS_FILE}") is not None:
        place.delete(f"{_get_copy_folder(stage)}/{METRICS_FILE}")


def _get_copy_folder(stage: Stage) -> str:
    """Return the folder in the store for copies of a model's checkpoints."""
    return f"{stage.folder}/work"


def _list_local_steps(work: Path) -> list[str]:
    """Return the names of the complete checkpoints in a work folder, such as "step-00001000", oldest first."""
    return sorted(path.parent.name for path in (work / CHECKPOINTS).glob(f"step-*/{COMPLETE_FILE}"))


def _list_stored_steps(place: Place, stage: Stage) -> list[str]:
    """Return the names of a model's complete checkpoints in the store, such as "step-00001000", oldest first."""
    paths = (Path(path) for path in place.list_files(f"{_get_copy_folder(stage)}/{CHECKPOINTS}"))
    return sorted(path.parent.name for path in paths if path.name == COMPLETE_FILE)


def _remove_copies(place: Place, stage: Stage, kept_step: str) -> None:
    """Remove copies of checkpoints from the store, starting with the files that mark them as complete.

    Args:
        place: The store.
        stage: The stage of the model. Its name determines the folder of the copies.
        kept_step: The name of the checkpoint to keep; "" removes all.
    """
    paths = [Path(path) for path in place.list_files(f"{_get_copy_folder(stage)}/{CHECKPOINTS}")]
    for path in sorted(paths, key=lambda path: path.name != COMPLETE_FILE):
        if not kept_step or kept_step not in path.parts:
            place.delete(path.as_posix())


def _upload(source: Path, place: Place, path: str) -> None:
    """Copy the local file `source` into the store, to `path`."""
    with place.create(path) as sink, source.open("rb") as file:
        shutil.copyfileobj(file, sink)


def _download(place: Place, path: str, target: Path) -> None:
    """Copy the file at `path` in the store to the local file `target`, and create its folder if necessary."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with place.open(path) as source, target.open("wb") as file:
        shutil.copyfileobj(source, file)


BEGAN, LEFT = "began", "left"
POLL_SECONDS = 0.25


def perform_training(work: bytes, topic: str, expected: Identity) -> Answer:
    """Train a model on this worker, and write it into the store.

    The value of the answer is the number of parts (outputs) built.

    Args:
        work: A pickled tuple (store, stage, plans of the missing parts, paths of damaged files).
        topic: The scheduler's topic to which the trainer's events are sent, as JSON.
        expected: The program versions that this worker must have (from `read_identity`); otherwise the outcome is
            UNFIT.
    """
    worker = get_worker()
    task = worker.get_current_task()

    def send_event(**message: object) -> None:
        worker.log_event(topic, json.dumps(message))

    if (refusal := refuse_mismatch(worker, expected)) is not None:
        return refusal
    os.environ.update(QUIET)
    send_event(**{BEGAN: worker.address})
    stop = Stop()
    try:
        with stop_when(stop, lambda: is_cancelled(worker, task)):
            return answer_call(worker.address, lambda: _train(work, send_event, stop), [])
    finally:
        send_event(**{LEFT: worker.address})


def _train(work: bytes, send_event: Callable[..., None], stop: Stop) -> int:
    """Train the models of a stage's missing parts on this worker, and build the parts in the store.

    Args:
        work: See `perform_training`.
        send_event: Called with the fields of each trainer event, as keyword arguments.
        stop: Object used to stop the training run.

    Returns:
        The number of parts (outputs of the stage).

    Raises:
        InputError: If torch is not installed on this worker.
        Exception: Whatever the trainer raised.
    """
    place, stage, plans, distrusted = pickle.loads(work)
    if find_spec("torch") is None:
        raise InputError(f"The worker has the resource {GPU} but no torch to train with: install it there.")
    work_here = str(locate_work_folder(place, stage))  # the plans name the folder of the machine that runs the recipe
    local_plans = [replace(plan, job=replace(plan.job, work=work_here)) for plan in plans]
    for plan in local_plans:
        _train_one(place, stage, plan.job, send_event, stop)
    built = len(build_parts(place, stage, local_plans, distrusted))
    if not place.is_local:
        remove_checkpoints(place, stage)
    return built


def _train_one(place: Place, stage: Stage, job: TrainingJob, send_event: Callable[..., None], stop: Stop) -> None:
    """Train the model of one job. If the store is not a local folder, each checkpoint is copied into it.

    Training resumes from the newest copied checkpoint.

    Args:
        place: The store.
        stage: The stage of the model.
        job: The training job. Its work folder is on this machine.
        send_event: Called with the fields of each trainer event, as keyword arguments.
        stop: Object used to stop the training run.
    """
    work = Path(job.work)

    def on_event(event: Mapping[str, Any]) -> None:
        if event["event"] == "checkpoint" and not place.is_local:
            save_checkpoint(place, stage, work)
        send_event(**event)

    if not place.is_local:
        fetch_checkpoint(place, stage, work)
    train(job, on_event, stop)


@contextmanager
def stop_when(stop: Stop, should_stop: Callable[[], bool]) -> Iterator[None]:
    """During the block, stop the training run as soon as `should_stop()` returns True.

    The function is called every POLL_SECONDS, on another thread.

    Args:
        stop: Object to call to stop the training run.
        should_stop: Function without arguments.
    """
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(POLL_SECONDS):
            if should_stop():
                return stop()

    watching = threading.Thread(target=watch, name="stop-of-a-training", daemon=True)
    watching.start()
    try:
        yield
    finally:
        is_over.set()
        watching.join()
