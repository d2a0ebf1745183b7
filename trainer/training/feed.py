"""The feed: what this process reads of the shards, step by step, as batches.

Every process reads a step in as many micro-batches as the others do, some of them without an example where slots are
few or their examples deleted: gathering the weights of a layer takes all processes. With `micro_batch_tokens` examples
are dealt out by their lengths (`shards/reading/budgets.py`), and every micro-batch is filled to a shape; else each
process cuts a contiguous share by number. One step is prepared ahead on a thread.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from corpora.errors import InputError
from corpora.kernels.arrays import Int64s
from corpora.store.places import Place
from shards.reading.budgets import cut_step, fitting_shape, whole_share
from shards.reading.loader import GatheredExamples, Loader, ahead
from shards.reading.order import cut, share, step_slots
from shards.reading.shard_set import ShardSet
from trainer.job import TrainingJob
from trainer.model.batches import Batch, filled, to_batch
from trainer.training.parallel import Ranks

STEP_COUNTS = ("masked_tokens", "pairs", "tokens", "sequences", "deleted", "slots", "dummy_tokens")
UNIGRAM_TOKENS = 10_000_000  # of the training split, enough to know how frequent each token is


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """A micro-batch. targets: its masked tokens, in main memory; counts: its STEP_COUNTS."""

    batch: Batch
    targets: npt.NDArray[Any]
    counts: Int64s


class Feed:
    """The shards of one phase, as one process reads them."""

    def __init__(self, job: TrainingJob, phase: int, ranks: Ranks) -> None:
        self._job = job
        self._phase = phase
        self._settings = job.training.phase[phase]
        self._ranks = ranks
        self._budget = self._token_budget()
        self._train = self._loader("train")
        if not len(self._train):
            raise InputError(
                f"The shards {job.shards[phase].folder} have no example to train on: give them more text, or a smaller "
                "held-out share."
            )

    def _loader(self, split: str) -> Loader:
        shard_set = ShardSet(Place(self._job.store), self._job.shard_set(self._phase), split)
        window = self._job.training.mixed_shards if split == "train" else None
        return Loader(shard_set, self._job.training.seed, window)

    def steps(self, first: int, slot: int) -> Iterator[list[MicroBatch]]:
        """The micro-batches of every step of the phase from its step `first` on, whose slots begin at `slot`."""
        batch = self._settings.batch
        slots = (step_slots(step, batch, slot) for step in range(self._settings.steps - first))
        return ahead(slots, lambda step: list(self._micro_batches(self._train, step)))

    def held_out(self) -> Iterator[MicroBatch]:
        """The first `evaluate_examples` of the held-out split in its first order, under the masks of epoch 0."""
        if not len(self._held_out):
            return iter(())
        slots = range(min(len(self._held_out), self._job.training.evaluate_examples))
        return self._micro_batches(self._held_out, slots)

    @cached_property
    def _held_out(self) -> Loader:
        return self._loader("held-out")

    @cached_property
    def token_counts(self) -> Int64s:
        """How often each token occurs in a sample of the training split: int64 [vocabulary]."""
        return self._train.token_counts(UNIGRAM_TOKENS)

    def _micro_batches(self, loader: Loader, slots: range) -> Iterator[MicroBatch]:
        """What this process reads of slots, in as many micro-batches as every other process."""
        if self._budget is None:
            return self._by_number(loader, slots, self._job.training.micro_batch or self._settings.batch)
        batch = self._settings.batch
        steps = cut(slots, batch, -(-len(slots) // batch))
        return itertools.chain.from_iterable(self._by_tokens(loader, step, self._budget) for step in steps)

    def _by_number(self, loader: Loader, slots: range, size: int) -> Iterator[MicroBatch]:
        """This process's share of slots in micro-batches of at most `size`."""
        mine = share(slots, self._ranks.rank, self._ranks.count)
        most = -(-len(slots) // self._ranks.count)
        return (self._micro_batch(loader.gather(some), len(some)) for some in cut(mine, size, -(-most // size)))

    def _by_tokens(self, loader: Loader, slots: range, budget: int) -> Iterator[MicroBatch]:
        """What this process is dealt of a step, in micro-batches of at most so many tokens."""
        numbers = np.array(slots, np.int64)
        dealt = cut_step(loader.lengths(numbers), self._ranks.count, budget)
        for capacity, places in zip(dealt.tokens.tolist(), dealt.of(self._ranks.rank), strict=True):
            yield self._micro_batch(loader.gather(numbers[places]), len(places), capacity)

    def _token_budget(self) -> int | None:
        """Most tokens of a micro-batch. Raises InputError where an example may have more."""
        budget, length = self._job.training.micro_batch_tokens, self._job.shard_set(self._phase).facts["length"]
        self._job.training.check_length(f"The shards {self._job.shards[self._phase].folder}", length)
        return budget and min(budget, whole_share(self._settings.batch, self._ranks.count, length))

    def _micro_batch(self, gathered: GatheredExamples, num_slots: int, capacity: int | None = None) -> MicroBatch:
        """capacity: the tokens that it is filled to; None: it stays as it is"""
        batch = to_batch(gathered)
        if capacity is not None:
            shape = fitting_shape(batch.shape, capacity, self._job.model.positions)
            batch = filled(batch, shape, self._job.inputs.special_ids.pad)
        return MicroBatch(
            batch=batch.pinned() if self._ranks.device.type == "cuda" else batch,
            targets=gathered.targets,
            counts=_counts(gathered, num_slots, len(batch.ids)),
        )


def _counts(gathered: GatheredExamples, num_slots: int, num_held: int) -> Int64s:
    """STEP_COUNTS. num_held: tokens of the batch, those that fill it included"""
    pairs, tokens = 0 if gathered.labels is None else gathered.num_examples, len(gathered.ids)
    counts = (len(gathered.masked), pairs, tokens, gathered.num_examples, gathered.deleted, num_slots)
    return np.array([*counts, num_held - tokens], np.int64)
