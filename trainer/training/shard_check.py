"""The check of the shards: read once on every host while training runs, and waited for by all processes together.

Promise: no checkpoint and no export holds what was learnt from a shard that is not what was written: the first one
waits until every file is verified, and where one is damaged all processes stop with the same paragraph.

Cost: that of `shards.reading.files.verification`, once on a host and then again only for files that changed.
"""

from types import TracebackType
from typing import NamedTuple

from corpora.store.damage import Damaged
from corpora.store.places.place import Place
from shards.reading.files.verification import Verification
from trainer.jobs.job import TrainingJob
from trainer.metrics import MetricsLog
from trainer.training.parallel import Ranks

SECONDS = 10.0  # that all processes wait before they ask again: far below the time that a collective may take


class Verdict(NamedTuple):
    """The state of one process's check. damage: path and fault of a file."""

    finished: bool
    damage: tuple[str, str] | None = None


class ShardCheck:
    """The verification of all shards of a job, for the time of a `with` block."""

    def __init__(self, job: TrainingJob, ranks: Ranks, log: MetricsLog) -> None:
        self._job = job
        self._ranks = ranks
        self._log = log
        self._sound = False
        self._own: Verification | None = None

    def __enter__(self) -> "ShardCheck":
        shard_sets = self._job.shard_sets
        if self._ranks.host_rank == 0:
            self._own = Verification(Place(self._job.store), shard_sets, self._job.stamps, self._job.elsewhere)
            self._own.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._own is not None:
            self._own.__exit__(kind, error, traceback)

    def wait(self, step: int) -> None:
        """Wait until the shards are verified. All processes must call it. Raises Damaged on all of them."""
        announced = False
        while not self._sound:
            verdicts = self._ranks.collect(self._verdict())
            for verdict in verdicts:
                if verdict.damage is not None:
                    raise Damaged(*verdict.damage)
            self._sound = all(verdict.finished for verdict in verdicts)
            if not (self._sound or announced):
                self._log.say("waiting", step, message="The shards are verified before anything is written.")
                announced = True

    def _verdict(self) -> Verdict:
        if self._own is None:
            return Verdict(finished=True)
        try:
            damage = self._own.damage(SECONDS)
        except TimeoutError:
            return Verdict(finished=False)
        return Verdict(finished=True, damage=None if damage is None else (damage.path, damage.what))
