"""What was seen: how many slots, deleted examples, tokens and masked ones of each shard set, phase by phase.

Every process counts what it reads, without a word to the others; they add it up where a checkpoint or the export is
written. A checkpoint holds the sums, so a run that was killed counts nothing twice and loses nothing.
"""

from collections.abc import Sequence

import numpy as np

from corpora.kernels.arrays import Int64s
from shards.reading.loader import TALLIES
from trainer.jobs.job import TrainingJob
from trainer.training.parallel import Ranks


class SeenCounts:
    """The counts of one process. tallies: int64 [components, TALLIES] of each phase; none where nobody counts"""

    def __init__(self, tallies: Sequence[Int64s]) -> None:
        self._tallies = list(tallies)

    @staticmethod
    def of(job: TrainingJob) -> "SeenCounts":
        """Nothing yet."""
        numbers = (len(job.inputs_of(phase)) for phase in range(len(job.training.phase)))
        return SeenCounts([np.zeros((number, len(TALLIES)), np.int64) for number in numbers])

    @staticmethod
    def restored(seen: Sequence[Sequence[Sequence[int]]], job: TrainingJob, ranks: Ranks) -> "SeenCounts":
        """What a checkpoint holds, on the first process: the sum over all of them is that of the run.

        A checkpoint from before this was counted holds nothing: then nobody counts.
        """
        return (
            SeenCounts.of(job) if seen and ranks.rank else SeenCounts([np.array(tallies, np.int64) for tallies in seen])
        )

    def add(self, phase: int, tallies: Sequence[Int64s]) -> None:
        """What this process read of a step."""
        for each in tallies if self._tallies else ():
            self._tallies[phase] += each

    def total(self, ranks: Ranks) -> list[list[list[int]]]:
        """Over all processes, which must all call it."""
        if not self._tallies:
            return []
        whole = ranks.total(np.concatenate([tallies.ravel() for tallies in self._tallies]).tolist())
        ends = np.cumsum([tallies.size for tallies in self._tallies])[:-1]
        parts = np.split(np.array(whole, np.int64), ends)
        return [part.reshape(-1, len(TALLIES)).tolist() for part in parts]
