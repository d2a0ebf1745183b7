"""A Dask cluster as an engine: one task a call, no data in between, and every retry is reported.

Promises: what a call raised is raised here unchanged. A worker with other programs builds nothing: at the start it ends
the run with a paragraph, later it is skipped and reported. If the scheduler is lost, or all workers are, calls wait up
to RECONNECT_SECONDS for another one under the same address, and are made again: parts that were finished meanwhile are
not built again, those that were being built are. `close` cancels all tasks, which ends them on the workers. A call may
be made twice if a worker is lost in the middle of it: the scheduler gives its task to another one, up to three times.
What is built is the same, and appears whole.

A training goes to a worker that declares a GPU (`dask worker --resources "GPU=1"`):

    this thread ─► one task that needs a GPU ─► a worker ─► trainer.launch ─► the ranks
      on_event  ◄───── the trainer's events ◄──────┘

Its events arrive in their order. A stop from here ends the current step of the training, writes its checkpoint and is
waited for; if this process ends, or loses the scheduler, the worker does the same by itself. If the worker is lost, its
ranks end, and another worker with a GPU continues from the newest checkpoint that it finds.

Cost: a call some 5 ms, and its arguments once over the network; a training has a client of its own, and an event takes
some milliseconds by way of the scheduler.
"""

import json
import pickle
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from queue import Empty, SimpleQueue
from typing import Any

from distributed import CancelledError, Client, Future, KilledWorker

from corpora.errors import InputError
from corpora.generic_types import Result, Tell
from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, Stage
from corpora.store.worker_pool import PoolClosed, WorkerDied, WorkerLimits
from flows.engines.connect import (
    CLOSE_SECONDS,
    GPU,
    RECONNECT_SECONDS,
    SchedulerLost,
    ask_all,
    connect_again,
    connect_at_start,
    connect_client,
    explain_start,
    get_workers,
    list_training_workers,
)
from flows.engines.dask_worker import BEGAN, LEFT, UNFIT, Answer, perform_call, perform_training, unpack_answer
from flows.engines.worker_checks import (
    Identity,
    SharedPaths,
    check_visible,
    describe_differences,
    find_invisible_path,
    read_identity,
)
from flows.run.record.counts_text import format_count
from trainer.launch import Stop, TrainingFailed

EVENT_SECONDS = 0.2
SECONDS_BETWEEN_GPU_CHECKS = 2.0  # between two checks of the workers
BEGIN_SECONDS_OF_CANCELLED = 3.0  # for a cancelled task to report that it has begun

OnEvent = Callable[[Mapping[str, Any]], None]


def train_on_worker(address: str, model: str, work: bytes, on_event: OnEvent, stop: Stop, tell: Tell) -> bool:
    """Train a model on a Dask worker that declares a GPU, and write the model into the store.

    Args:
        address: The address of the scheduler.
        model: The name of the model, for messages.
        work: The pickled argument of `perform_training`.
        on_event: Called with each event of the trainer (a dict), on this thread.
        stop: Object that another thread calls to stop the training run.
        tell: Called with a line to print if there is no such worker, or if the connection to the scheduler is lost.

    Returns:
        True once the model is in the store; False if no worker declares a GPU.

    Raises:
        InputError: If all workers with GPUs are gone for RECONNECT_SECONDS; or if no worker declares a GPU and torch is
            not installed here.
        Exception: The exception that the trainer raised on the worker.
    """
    try:
        client = connect_client(address)
    except OSError:  # it was there when the run began
        client = connect_again(address, tell)
    try:
        if not list_training_workers(client):
            _check_torch_installed(address, model)
            tell(f"{model}: no worker of the cluster has the resource {GPU}, so it is trained on this machine.")
            return False
        while True:
            training = RemoteTraining(client, address, model, work, tell)
            stop.set_process(training)
            try:
                unpack_answer(training.listen(on_event))
                return True
            except SchedulerLost:
                client.close(CLOSE_SECONDS)
                client = connect_again(address, tell)
            finally:
                stop.end()
    finally:
        client.close(CLOSE_SECONDS)


class RemoteTraining:
    """A training run on a worker of a Dask cluster, with the methods of a process: `terminate`, `kill` and `wait`."""

    def __init__(self, client: Client, address: str, model: str, work: bytes, tell: Tell) -> None:
        self._client, self._address, self._model, self._tell = client, address, model, tell
        self._messages: SimpleQueue[str] = SimpleQueue()
        self._stopped_at: float | None = None  # when it was told to stop
        self._ended = threading.Event()
        self._worker, self._has_left = "", False
        self._checked_at, self._gpus_seen_at = 0.0, time.monotonic()
        topic = f"cloze-training-{uuid.uuid4().hex}"
        client.subscribe_topic(topic, lambda event: self._messages.put(event[1]))
        self._future = client.submit(
            perform_training, work, topic, read_identity(), key=topic, pure=False, retries=0, resources={GPU: 1}
        )

    def terminate(self) -> None:
        """Tell the trainer to write a checkpoint and stop."""
        self._stopped_at = self._stopped_at or time.monotonic()
        with suppress(OSError, TimeoutError, CancelledError):  # the scheduler is gone, and the worker notices that
            self._client.cancel([self._future], force=True)

    kill = terminate  # where nobody listens any more

    def wait(self) -> int:
        """Wait until `listen` has returned or raised an exception, and return 0 as the exit code."""
        self._ended.wait()
        return 0

    def listen(self, on_event: OnEvent) -> Answer:
        """Pass the trainer's events to `on_event` until the training run ends, and return the worker's answer.

        Raises:
            SchedulerLost: If the connection to the scheduler is lost; the training can be submitted again.
            TrainingFailed: If one worker after another ended during the training run.
            InputError: If no worker has had a GPU for RECONNECT_SECONDS.
            PoolClosed: If the training run was stopped by `terminate`.
        """
        try:
            while self._is_under_way():
                self._receive_event(on_event, EVENT_SECONDS)
            while not self._messages.empty():
                self._receive_event(on_event, 0.0)
            if self._stopped_at is not None:
                raise PoolClosed(f"{self._model}: the training was stopped.")
            answer: Answer = self._future.result(timeout=CLOSE_SECONDS)
            return answer
        except KilledWorker as error:
            raise TrainingFailed(
                f"{self._model}: worker after worker of the cluster ended while it trained (the last was "
                f"{error.last_worker.address}): out of memory, killed, or cut off."
            ) from error
        except (CancelledError, OSError) as error:
            raise SchedulerLost(str(error)) from error
        finally:
            self._ended.set()

    def _is_under_way(self) -> bool:
        """Return True if more events may arrive from the trainer.

        Raises:
            SchedulerLost: If the connection to the scheduler is lost.
            InputError: If no worker has had a GPU for RECONNECT_SECONDS.
        """
        if self._client.status != "running":
            if self._stopped_at is None:
                raise SchedulerLost("the scheduler is gone")
            return False
        self._check_workers()
        if self._stopped_at is None:
            return not self._future.done()
        has_begun = bool(self._worker) or time.monotonic() - self._stopped_at < BEGIN_SECONDS_OF_CANCELLED
        return has_begun and not self._has_left

    def _check_workers(self) -> None:
        """Check, at most every few seconds, that this training run's worker or a possible replacement is connected.

        Raises:
            InputError: If no worker has had a GPU for RECONNECT_SECONDS.
        """
        now = time.monotonic()
        if now - self._checked_at < SECONDS_BETWEEN_GPU_CHECKS:
            return
        self._checked_at = now
        self._has_left = self._has_left or (bool(self._worker) and self._worker not in get_workers(self._client))
        if list_training_workers(self._client) or self._stopped_at is not None:
            self._gpus_seen_at = now
        elif now - self._gpus_seen_at > RECONNECT_SECONDS:
            raise InputError(
                f"{self._model}: the scheduler at {self._address} has had no worker with the resource {GPU} for "
                f"{now - self._gpus_seen_at:.0f} s. {explain_start(self._address)}, with `--resources {GPU}=1`; then "
                "run again, which continues from the newest checkpoint."
            )

    def _receive_event(self, on_event: OnEvent, seconds: float) -> None:
        """Wait for a message from the worker, and pass a trainer event to `on_event`.

        Args:
            on_event: Called with the event (a dict). Not called if no message arrives, or if it is not from the
                trainer.
            seconds: Maximum time to wait.
        """
        try:
            event = json.loads(self._messages.get(timeout=seconds))
        except Empty:
            return
        if BEGAN in event:
            self._worker, self._has_left = event[BEGAN], False
            self._tell(f"{self._model}: trains on the worker {self._worker}.")
        elif LEFT in event:
            self._has_left = event[LEFT] == self._worker
        else:
            on_event(event)


def _check_torch_installed(address: str, model: str) -> None:
    """Check that torch is installed on this machine, where the model would be trained.

    Args:
        address: The address of the scheduler, for the message.
        model: The name of the model, for the message.

    Raises:
        InputError: If torch is not installed.
    """
    if find_spec("torch") is None:
        raise InputError(
            f"{model}: no worker of the cluster at {address} has the resource {GPU}, and torch is not installed here. "
            f"Start a worker where there are GPUs and torch, with `--resources {GPU}=1`, or install torch here."
        )


WORKERS_SECONDS = 10.0  # to wait for the first worker when a run begins
SECONDS_BETWEEN_WORKER_CHECKS = 5.0  # between two checks whether there are workers


class Cluster:
    """An engine that calls functions on the workers of a Dask cluster. Thread-safe.

    Attributes:
        address: The address of the scheduler.
        num_workers: Total number of the workers' threads; 0 before `connect`.
    """

    def __init__(self, address: str, limits: WorkerLimits, tell: Callable[[str], None]) -> None:
        self.address = address
        self.num_workers = 0
        self._limits, self._tell = limits, tell
        self._identity: Identity = read_identity()
        self._lock = threading.Lock()
        self._client: Client | None = None
        self._futures: set[Future[Answer]] = set()
        self._skipped_workers: dict[str, str] = {}
        self._empty_since: float | None = None
        self._checked_at = 0.0
        self._is_closed = False
        self._num_answered = 0

    def connect(self, paths: SharedPaths) -> None:
        """Connect to the scheduler, and check its workers. Must be called before the other methods.

        Args:
            paths: The files that every worker must see.

        Raises:
            InputError: If no scheduler responds, it has no worker, or a worker has other program versions or does not
                see the files.
        """
        self._client = connect_at_start(self.address)
        self._wait_for_worker(self._client)
        self._check_identities(ask_all(self._client, read_identity))
        check_visible(ask_all(self._client, find_invisible_path, paths))
        workers = get_workers(self._client)
        self.num_workers = sum(int(worker["nthreads"]) for worker in workers.values())
        self._tell(
            f"{format_count(len(workers), 'worker')} with {format_count(self.num_workers, 'thread')} at {self.address}."
        )

    def run(self, function: Callable[..., Result], *args: Any) -> Result:
        """Call a module-level function on a worker of the cluster, and return its result.

        If the connection to the scheduler is lost and restored, the call is repeated.

        Args:
            function: The function to call.
            args: Its arguments, which must be picklable.

        Raises:
            WorkerDied: If the process that ran the function ended, or one worker after another did.
            InputError: If there was no scheduler or no suitable worker for RECONNECT_SECONDS.
            PoolClosed: If the cluster was closed.
            Exception: Whatever the function raised, unchanged.
        """
        call = pickle.dumps((function, args))
        while True:
            client = self._client
            assert client is not None, "a cluster is connected before it is called"
            try:
                answer = self._ask(client, function.__qualname__, call)
            except SchedulerLost:
                self._connect_again(client)
                continue
            self._num_answered += 1
            for line in answer.notices:
                self._tell(line)
            if answer.outcome == UNFIT:
                self._skip_worker(answer.worker, answer.value.decode())
                continue
            result: Result = unpack_answer(answer)
            return result

    def train(
        self,
        place: Place,
        stage: Stage,
        plans: Sequence[PartPlan],
        distrusted: frozenset[str],
        on_event: OnEvent,
        stop: Stop,
    ) -> bool:
        """Train a model on a worker of the cluster that declares a GPU, and write the model into the store.

        The arguments and exceptions are those of `TrainingEngine.train`.

        Returns:
            True once the model is in the store; False if there is no such worker.
        """
        work = pickle.dumps((place, stage, plans, distrusted))
        return train_on_worker(self.address, stage.stage_folder, work, on_event, stop, self._tell)

    def get_progress(self) -> int:
        """Return the number of calls that this cluster has completed so far; the progress within a call is unknown."""
        return self._num_answered

    def close(self) -> None:
        """Cancel all running tasks, which ends them on the workers, and disconnect.

        Pending calls of `run` raise PoolClosed.
        """
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            client, futures = self._client, list(self._futures)
        if client is None or client.status != "running":
            return
        try:
            client.cancel(futures, force=True)
        except (OSError, TimeoutError, CancelledError):  # it is gone, and with it our tasks
            return
        finally:
            client.close(CLOSE_SECONDS)

    def _ask(self, client: Client, purpose: str, call: bytes) -> Answer:
        """Submit one Dask task and wait for the worker's answer.

        Args:
            client: Client of the scheduler.
            purpose: Name of the called function, for messages.
            call: The pickled function and arguments, for `perform_call`.

        Raises:
            SchedulerLost: If the connection to the scheduler is lost. The call can be repeated.
            WorkerDied: If one worker after another ended.
            InputError: If there has been no suitable worker for RECONNECT_SECONDS.
            PoolClosed: If the cluster was closed.
        """
        self._raise_if_closed(purpose)
        future = client.submit(
            perform_call, call, self._limits, self._identity,
            key=f"{purpose}-{uuid.uuid4().hex}", pure=False, retries=0, workers=self._list_fit_workers(client),
        )  # fmt: skip
        with self._lock:
            self._futures.add(future)
        try:
            return self._wait(client, future)
        except KilledWorker as error:
            raise WorkerDied(
                f"Worker after worker of the cluster ended while it ran {purpose} (the last was "
                f"{error.last_worker.address}): out of memory, killed, or cut off."
            ) from error
        except (CancelledError, OSError) as error:
            self._raise_if_closed(purpose)
            raise SchedulerLost(str(error)) from error
        finally:
            with self._lock:
                self._futures.discard(future)

    def _wait(self, client: Client, future: Future[Answer]) -> Answer:
        """Wait for a task's answer, and regularly check that the scheduler and suitable workers are connected.

        Raises:
            SchedulerLost: If the connection to the scheduler is lost.
            InputError: If there has been no suitable worker for RECONNECT_SECONDS.
        """
        while True:
            try:
                answer: Answer = future.result(timeout=SECONDS_BETWEEN_WORKER_CHECKS)
                return answer
            except TimeoutError:
                if client.status != "running":
                    raise SchedulerLost("the scheduler is gone") from None
                self._check_workers(client)

    def _raise_if_closed(self, purpose: str) -> None:
        """Raise PoolClosed if this cluster was closed. `purpose` is the called function's name, for the message."""
        if self._is_closed:
            raise PoolClosed(f"The cluster was left while it ran {purpose}.")

    def _check_workers(self, client: Client) -> None:
        """Check that suitable workers are connected. All threads together check at most every few seconds.

        Raises:
            InputError: If there were none for RECONNECT_SECONDS.
        """
        with self._lock:
            now = time.monotonic()
            if now - self._checked_at >= SECONDS_BETWEEN_WORKER_CHECKS:
                self._checked_at = now
                fit_workers = set(get_workers(client)) - set(self._skipped_workers)
                self._empty_since = None if fit_workers else (self._empty_since or now)
            empty = now - self._empty_since if self._empty_since is not None else 0.0
        if empty > RECONNECT_SECONDS:
            raise InputError(
                f"The scheduler at {self.address} has had no fit worker for {empty:.0f} s. "
                f"{explain_start(self.address)}; then run again, which continues from the finished parts."
            )

    def _connect_again(self, lost: Client) -> None:
        """Replace a client that has lost its connection. If several threads call this, only the first one reconnects.

        Raises:
            InputError: If the scheduler does not come back.
        """
        with self._lock:
            if self._client is lost and not self._is_closed:
                lost.close(CLOSE_SECONDS)
                self._client = connect_again(self.address, self._tell)
                self._skipped_workers.clear()

    def _wait_for_worker(self, client: Client) -> None:
        """Wait until the scheduler has at least one worker.

        Raises:
            InputError: If none joins within WORKERS_SECONDS.
        """
        try:
            client.wait_for_workers(1, timeout=WORKERS_SECONDS)
        except TimeoutError as error:
            raise InputError(
                f"The scheduler at {self.address} has no worker. {explain_start(self.address)}."
            ) from error

    def _check_identities(self, identities: Mapping[str, Identity]) -> None:
        """Check that all workers have the same program versions as this machine.

        Args:
            identities: The result of `read_identity` on each worker, by the worker's address.

        Raises:
            InputError: If a worker has different versions.
        """
        for worker, identity in sorted(identities.items()):
            if mismatch := describe_differences(self._identity, identity):
                raise InputError(
                    f"The worker {worker} is not like this machine, so it could produce other bytes: it has "
                    f"{mismatch}. Install the same versions of everything, as with `pip install -c constraints.txt`, "
                    "and start the worker again."
                )

    def _skip_worker(self, worker: str, differences: str) -> None:
        """Exclude a worker from further calls because it joined the running cluster with other program versions.

        Args:
            worker: The address of the worker.
            differences: A description of the differences, for the message.
        """
        with self._lock:
            is_reported, self._skipped_workers[worker] = worker in self._skipped_workers, differences
        if not is_reported:
            self._tell(f"The worker {worker} is skipped because it is not like this machine: it has {differences}.")

    def _list_fit_workers(self, client: Client) -> list[str] | None:
        """List the addresses of the workers that may be called. Returns None if all of them may.

        If no worker is left, returns the list ["none"]. This is not an address, so the task waits.
        """
        if not self._skipped_workers:
            return None
        return [worker for worker in get_workers(client) if worker not in self._skipped_workers] or ["none"]
