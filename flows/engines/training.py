"""A training on a worker of a cluster that has GPUs: sent there, heard here, stopped from here.

    this thread ─► one task that needs a GPU ─► a worker ─► trainer.launching ─► the ranks
         hear   ◄───── the trainer's events ◄──────┘

A worker has GPUs where it says so: `dask worker --resources "GPU=1"`.

Promise: events are heard in their order. A stop from here ends the current step of the training, writes its checkpoint
and is waited for; where this process goes, or loses the scheduler, the same happens on the worker by itself. Where the
worker goes, its ranks go, and a worker with GPUs continues from the newest checkpoint that it finds.

Cost: a client of its own, and an event some milliseconds by way of the scheduler.
"""

import json
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from queue import Empty, SimpleQueue
from typing import Any

from distributed import CancelledError, Client, KilledWorker

from corpora.errors import InputError
from corpora.generic_types import Tell
from corpora.store.worker_pool import PoolClosed
from flows.engines.connect import (
    CLOSE_SECONDS,
    GPU,
    PATIENCE_SECONDS,
    Lost,
    connected,
    connected_again,
    how_to_start,
    trainers_of,
    workers_of,
)
from flows.engines.on_worker import Answer, value_of
from flows.engines.training_on_worker import BEGAN, LEFT, perform_training
from flows.engines.version_match import identity
from trainer.launching.launch import TrainingFailed
from trainer.launching.stopping import Stop

HEAR_SECONDS = 0.2
LOOK_SECONDS = 2.0  # between two checks of the workers
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
            stop.started(training)
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
        """Return whether there is more to hear. Raises Lost, and InputError where nobody can train it any more."""
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
        """Look at the workers every few seconds. Raises InputError where none has GPUs for too long."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
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
