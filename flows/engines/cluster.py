"""A Dask cluster as an engine: one task a call, no data in between, and every retry is reported.

Promises: what a call raised is raised here unchanged. A worker of another identity builds nothing: at the start it ends
the run with a paragraph, later it is skipped and reported. Where the scheduler goes, or all workers do, calls wait
up to PATIENCE_SECONDS for another one under the same address, and are made again: parts that were finished meanwhile
are not built again, those that were being built are. `close` cancels all tasks, which ends them on the workers.
A call may be made twice where a worker is lost in the middle of it: the scheduler gives its task to another one, up to
three times. What is built is the same, and appears whole.

Cost: a call some 5 ms, and its arguments once over the network.
"""

import pickle
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from distributed import CancelledError, Client, Future, KilledWorker

from corpora.errors import InputError
from corpora.generic_types import Result
from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, Stage
from corpora.store.worker_pool import PoolClosed, WorkerDied, WorkerLimits
from flows.engines.connect import (
    CLOSE_SECONDS,
    PATIENCE_SECONDS,
    Lost,
    ask_all,
    connected_again,
    first_connected,
    how_to_start,
    workers_of,
)
from flows.engines.on_worker import UNFIT, Answer, perform, value_of
from flows.engines.shared_paths import Sight, refuse_unseen, unseen
from flows.engines.training import Hear, train_on
from flows.engines.version_match import Identity, differences, identity
from flows.run.record.counts_text import counted
from trainer.launching.stopping import Stop

WORKERS_SECONDS = 10.0  # to wait for the first worker when a run begins
LOOK_SECONDS = 5.0  # between two checks whether there are workers


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
        """Train a model on a worker that has GPUs, as `flows.engines.training` says; False where there is none."""
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
                answer: Answer = future.result(timeout=LOOK_SECONDS)
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
            if now - self._looked >= LOOK_SECONDS:
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
        """Wait for the first worker. Raises InputError where none comes."""
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
