"""A Dask cluster as an engine: one task a call, no data in between, and every retry is reported.

Promises: what a call raised is raised here unchanged. A worker of another identity builds nothing: at the start it ends
the run with a paragraph, later it is skipped and reported. Where the scheduler goes, or all workers do, calls wait
up to PATIENCE_SECONDS for another one under the same address, and are made again: parts that were finished meanwhile
are not built again, those that were being built are. `close` cancels all tasks, which ends them on the workers.
A call may be made twice where a worker is lost in the middle of it: the scheduler gives its task to another one, up to
three times. What is built is the same, and appears whole.

Cost: a call some 5 ms, and its arguments once over the network.

A training on a worker of a cluster that has GPUs: sent there, heard here, stopped from here.

    this thread ─► one task that needs a GPU ─► a worker ─► trainer.launching ─► the ranks
         hear   ◄───── the trainer's events ◄──────┘

A worker has GPUs where it says so: `dask worker --resources "GPU=1"`.

Promise: events are heard in their order. A stop from here ends the current step of the training, writes its checkpoint
and is waited for; where this process goes, or loses the scheduler, the same happens on the worker by itself. Where the
worker goes, its ranks go, and a worker with GPUs continues from the newest checkpoint that it finds.

Cost: a client of its own, and an event some milliseconds by way of the scheduler.
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
    PATIENCE_SECONDS,
    Lost,
    ask_all,
    connected,
    connected_again,
    first_connected,
    how_to_start,
    trainers_of,
    workers_of,
)
from flows.engines.dask_worker import BEGAN, LEFT, UNFIT, Answer, perform, perform_training, value_of
from flows.engines.worker_checks import Identity, Sight, differences, identity, refuse_unseen, unseen
from flows.run.record.counts_text import counted
from trainer.launch import Stop, TrainingFailed

HEAR_SECONDS = 0.2
SECONDS_BETWEEN_LOOKS = 2.0  # between two checks of the workers
BEGIN_SECONDS = 3.0  # for a cancelled task to report that it has begun

Hear = Callable[[Mapping[str, Any]], None]


def train_on(address: str, what: str, work: bytes, hear: Hear, stop: Stop, tell: Tell) -> bool:
    """Train a model on a worker with GPUs, and put it into the store; returns False, and a line, where there is none.

    what: the model, for people
    work: what `training_on_worker` is given
    Raises what the trainer raised there, and InputError where no worker with GPUs is left.
    """
    client = _client(address, tell)
    try:
        if not trainers_of(client):
            _refuse_without_torch(address, what)
            tell(f"{what}: no worker of the cluster has the resource {GPU}, so it is trained on this machine.")
            return False
        while True:
            training = RemoteTraining(client, address, what, work, tell)
            stop.set_process(training)
            try:
                value_of(training.listen(hear))
                return True
            except Lost:
                client.close(CLOSE_SECONDS)
                client = connected_again(address, tell)
            finally:
                stop.end()
    finally:
        client.close(CLOSE_SECONDS)


class RemoteTraining:
    """A training on a worker, which is stopped and waited for as a process is."""

    def __init__(self, client: Client, address: str, what: str, work: bytes, tell: Tell) -> None:
        self._client, self._address, self._what, self._tell = client, address, what, tell
        self._messages: SimpleQueue[str] = SimpleQueue()
        self._stopped: float | None = None  # when it was told to stop
        self._ended = threading.Event()
        self._worker, self._left = "", False
        self._looked, self._seen = 0.0, time.monotonic()
        topic = f"cloze-training-{uuid.uuid4().hex}"
        client.subscribe_topic(topic, lambda event: self._messages.put(event[1]))
        self._future = client.submit(
            perform_training, work, topic, identity(), key=topic, pure=False, retries=0, resources={GPU: 1}
        )

    def terminate(self) -> None:
        """Tell the trainer to write its checkpoint and leave."""
        self._stopped = self._stopped or time.monotonic()
        with suppress(OSError, TimeoutError, CancelledError):  # the scheduler is gone, and the worker notices that
            self._client.cancel([self._future], force=True)

    kill = terminate  # where nobody listens any more

    def wait(self) -> int:
        """Wait until it has ended, or nothing more can be heard of it."""
        self._ended.wait()
        return 0

    def listen(self, hear: Hear) -> Answer:
        """Hear the trainer until it has ended. Raises Lost, TrainingFailed, InputError, and PoolClosed once stopped."""
        try:
            while self._is_under_way():
                self._hear_next(hear, HEAR_SECONDS)
            while not self._messages.empty():
                self._hear_next(hear, 0.0)
            if self._stopped is not None:
                raise PoolClosed(f"{self._what}: the training was stopped.")
            answer: Answer = self._future.result(timeout=CLOSE_SECONDS)
            return answer
        except KilledWorker as error:
            raise TrainingFailed(
                f"{self._what}: worker after worker of the cluster ended while it trained (the last was "
                f"{error.last_worker.address}): out of memory, killed, or cut off."
            ) from error
        except (CancelledError, OSError) as error:
            raise Lost(str(error)) from error
        finally:
            self._ended.set()

    def _is_under_way(self) -> bool:
        """Return whether there is more to hear. Raises Lost, and InputError if nobody can train it any more."""
        if self._client.status != "running":
            if self._stopped is None:
                raise Lost("the scheduler is gone")
            return False
        self._look()
        if self._stopped is None:
            return not self._future.done()
        begun = bool(self._worker) or time.monotonic() - self._stopped < BEGIN_SECONDS
        return begun and not self._left

    def _look(self) -> None:
        """Look at the workers every few seconds. Raises InputError if none has GPUs for too long."""
        now = time.monotonic()
        if now - self._looked < SECONDS_BETWEEN_LOOKS:
            return
        self._looked = now
        self._left = self._left or (bool(self._worker) and self._worker not in workers_of(self._client))
        if trainers_of(self._client) or self._stopped is not None:
            self._seen = now
        elif now - self._seen > PATIENCE_SECONDS:
            raise InputError(
                f"{self._what}: the scheduler at {self._address} has had no worker with the resource {GPU} for "
                f"{now - self._seen:.0f} s. {how_to_start(self._address)}, with `--resources {GPU}=1`; then run again, "
                "which continues from the newest checkpoint."
            )

    def _hear_next(self, hear: Hear, seconds: float) -> None:
        try:
            event = json.loads(self._messages.get(timeout=seconds))
        except Empty:
            return
        if BEGAN in event:
            self._worker, self._left = event[BEGAN], False
            self._tell(f"{self._what}: trains on the worker {self._worker}.")
        elif LEFT in event:
            self._left = event[LEFT] == self._worker
        else:
            hear(event)


def _client(address: str, tell: Tell) -> Client:
    """Return a client of a scheduler that was there when the run began."""
    try:
        return connected(address)
    except OSError:
        return connected_again(address, tell)


def _refuse_without_torch(address: str, what: str) -> None:
    if find_spec("torch") is None:
        raise InputError(
            f"{what}: no worker of the cluster at {address} has the resource {GPU}, and torch is not installed here. "
            f"Start a worker where there are GPUs and torch, with `--resources {GPU}=1`, or install torch here."
        )


WORKERS_SECONDS = 10.0  # to wait for the first worker when a run begins
SECONDS_BETWEEN_WORKER_CHECKS = 5.0  # between two checks whether there are workers


class Cluster:
    """The workers of a scheduler. Safe to call from many threads."""

    def __init__(self, address: str, limits: WorkerLimits, tell: Callable[[str], None]) -> None:
        self.address = address
        self.num_workers = 0
        self._limits, self._tell = limits, tell
        self._identity: Identity = identity()
        self._changed = threading.Lock()
        self._client: Client | None = None
        self._futures: set[Future[Answer]] = set()
        self._unfit: dict[str, str] = {}
        self._empty_since: float | None = None
        self._looked = 0.0
        self._closed = False
        self._answered = 0

    def connect(self, sight: Sight) -> None:
        """Find the scheduler and its workers, and check them against this run's needs. Raises InputError."""
        self._client = first_connected(self.address)
        self._await_worker(self._client)
        self._refuse_unlike(ask_all(self._client, identity))
        refuse_unseen(ask_all(self._client, unseen, sight))
        workers = workers_of(self._client)
        self.num_workers = sum(int(worker["nthreads"]) for worker in workers.values())
        self._tell(f"{counted(len(workers), 'worker')} with {counted(self.num_workers, 'thread')} at {self.address}.")

    def run(self, function: Callable[..., Result], *args: Any) -> Result:
        """Call a module-level function on a worker and wait for its result.

        Raises what the function raised; WorkerDied where the process died unanswered, or worker after worker went
        with it; InputError where no scheduler or worker is left.
        """
        call = pickle.dumps((function, args))
        while True:
            client = self._client
            assert client is not None, "a cluster is connected before it is called"
            try:
                answer = self._ask(client, function.__qualname__, call)
            except Lost:
                self._connect_again(client)
                continue
            self._answered += 1
            for line in answer.notices:
                self._tell(line)
            if answer.how == UNFIT:
                self._pass_over(answer.worker, answer.value.decode())
                continue
            result: Result = value_of(answer)
            return result

    def train(
        self, place: Place, stage: Stage, plans: Sequence[PartPlan], distrusted: frozenset[str], hear: Hear, stop: Stop
    ) -> bool:
        """Train a model on a worker that has GPUs, as `flows.engines.dask_cluster` says; False if there is none."""
        work = pickle.dumps((place, stage, plans, distrusted))
        return train_on(self.address, stage.stage_folder, work, hear, stop, self._tell)

    def get_progress(self) -> int:
        """Return how many calls were answered: what the workers do now is not known here."""
        return self._answered

    def close(self) -> None:
        """Cancel what is under way, which ends it on the workers, and leave. Callers get PoolClosed."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
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
        """Send one task and wait for it. Raises Lost, and what `run` raises."""
        self._refuse_closed(purpose)
        future = client.submit(
            perform, call, self._limits, self._identity,
            key=f"{purpose}-{uuid.uuid4().hex}", pure=False, retries=0, workers=self._fit(client),
        )  # fmt: skip
        with self._changed:
            self._futures.add(future)
        try:
            return self._wait(client, future)
        except KilledWorker as error:
            raise WorkerDied(
                f"Worker after worker of the cluster ended while it ran {purpose} (the last was "
                f"{error.last_worker.address}): out of memory, killed, or cut off."
            ) from error
        except (CancelledError, OSError) as error:
            self._refuse_closed(purpose)
            raise Lost(str(error)) from error
        finally:
            with self._changed:
                self._futures.discard(future)

    def _wait(self, client: Client, future: Future[Answer]) -> Answer:
        while True:
            try:
                answer: Answer = future.result(timeout=SECONDS_BETWEEN_WORKER_CHECKS)
                return answer
            except TimeoutError:
                if client.status != "running":
                    raise Lost("the scheduler is gone") from None
                self._look(client)

    def _refuse_closed(self, purpose: str) -> None:
        if self._closed:
            raise PoolClosed(f"The cluster was left while it ran {purpose}.")

    def _look(self, client: Client) -> None:
        """Check whether there are workers, once for all threads. Raises InputError after too long without any."""
        with self._changed:
            now = time.monotonic()
            if now - self._looked >= SECONDS_BETWEEN_WORKER_CHECKS:
                self._looked = now
                fit = set(workers_of(client)) - set(self._unfit)
                self._empty_since = None if fit else (self._empty_since or now)
            empty = now - self._empty_since if self._empty_since is not None else 0.0
        if empty > PATIENCE_SECONDS:
            raise InputError(
                f"The scheduler at {self.address} has had no fit worker for {empty:.0f} s. "
                f"{how_to_start(self.address)}; then run again, which continues from the finished parts."
            )

    def _connect_again(self, lost: Client) -> None:
        """Open a client in place of one that has lost the scheduler. Raises InputError."""
        with self._changed:
            if self._client is lost and not self._closed:
                lost.close(CLOSE_SECONDS)
                self._client = connected_again(self.address, self._tell)
                self._unfit.clear()

    def _await_worker(self, client: Client) -> None:
        """Wait for the first worker. Raises InputError if none comes."""
        try:
            client.wait_for_workers(1, timeout=WORKERS_SECONDS)
        except TimeoutError as error:
            raise InputError(f"The scheduler at {self.address} has no worker. {how_to_start(self.address)}.") from error

    def _refuse_unlike(self, identities: Mapping[str, Identity]) -> None:
        for worker, theirs in sorted(identities.items()):
            if unlike := differences(self._identity, theirs):
                raise InputError(
                    f"The worker {worker} is not like this machine, so it could produce other bytes: it has "
                    f"{unlike}. Install the same versions of everything, as with `pip install -c constraints.txt`, and "
                    "start the worker again."
                )

    def _pass_over(self, worker: str, unlike: str) -> None:
        """Skip a worker that joined and is not like this machine."""
        with self._changed:
            reported, self._unfit[worker] = worker in self._unfit, unlike
        if not reported:
            self._tell(f"The worker {worker} is skipped because it is not like this machine: it has {unlike}.")

    def _fit(self, client: Client) -> list[str] | None:
        """Return the workers that may be asked; None for all."""
        if not self._unfit:
            return None
        return [worker for worker in workers_of(client) if worker not in self._unfit] or ["none"]
