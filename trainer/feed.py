"""The feed reads this process's share of the shards, step by step, as batches.

In each step, all processes read the same number of micro-batches, because gathering the weights of a layer takes all
processes. Some micro-batches are empty if there are few slots or if examples are deleted. With `micro_batch_tokens`,
examples are distributed by length (`shards/reading/budgets.py`), and every micro-batch is padded to a fixed shape.
Otherwise, each process takes a contiguous share of the slots.

The next step is prepared on a thread, which also collects the counts of the other processes. They count their steps in
the same order, over separate connections, so neither the device nor a step waits for the counts.

Correct predictions of rarer words are counted separately. An accuracy over all masked tokens is dominated by commas,
`the` and the ends of words: a model reaches 0.15, and a loss well below the unigram entropy, without having learned a
word. Therefore evaluations also count only the masked tokens that begin a word and are not among the `COMMONEST` tokens
of the training split.
"""

import itertools
from collections.abc import Generator, Iterator
from fractions import Fraction
from functools import cached_property

import numpy as np

from corpora.errors import InputError
from corpora.kernels.arrays import Bools, Int64s
from corpora.store.places.place import Place
from shards.reading.budgets import compute_max_share_tokens, plan_micro_batches, round_shape_up
from shards.reading.files.shard_cache import ShardCache
from shards.reading.files.shard_set import ShardSet
from shards.reading.loader import GatheredExamples, Loader, SlotReader, Slots, prefetch, to_slot_array
from shards.reading.mixture import Mixture
from shards.reading.order import Interleave, apportion, split_slots, take_rank_share
from trainer.job import JobInput, TrainingJob, list_readings
from trainer.learn import MicroBatch, Step, make_step
from trainer.model.batches import fill_batch, to_batch
from trainer.ranks import Ranks

PLANNED_STEPS = 16  # times the examples of a step that are dealt out at once if they are of no step: held-out ones
COMMONEST = 100
UNIGRAM_TOKENS = 10_000_000  # of the training split, enough to know how frequent each token is


class Feed:
    """Reads the shards of a phase for one process, as batches.

    Attributes:
        reading: The shard sets that the phase reads.
    """

    def __init__(self, job: TrainingJob, phase: int, ranks: Ranks) -> None:
        self._job = job
        self._settings = job.training.phase[phase]
        self._ranks = ranks
        self._objective = job.model.objective_settings
        self._terms = self._objective.list_terms(job.model.family_row, job.inputs)
        self.reading = list_readings(job)[phase]
        self._budget = self._compute_token_budget()
        self._positions = job.model.positions
        loaders = [self._open_loader(shards, "train") for shards in self.reading.inputs]
        mixture = Interleave(self.reading.shares), self.reading.begins
        self._train: SlotReader = loaders[0] if len(loaders) == 1 else Mixture(loaders, *mixture)
        if not len(self._train):
            raise InputError(
                f"The shards {self.reading.inputs[0].folder} have no example to train on: build them from more text, "
                "or a smaller held-out share."
            )

    def _open_loader(self, shards: JobInput, split: str) -> Loader:
        training, is_far, trains = self._job.training, split == self._job.fetched_split, split == "train"
        place = Place(self._job.source if is_far else self._job.store)
        near = ShardCache(place, self._job.windows_folder, training.cache_bytes) if is_far else None
        window, rate = (training.mixed_shards, self._settings.mask_rate) if trains else (None, None)
        shard_set = ShardSet(place, self._job.read_shard_set(shards), split)
        return Loader(shard_set, training.seed, window, near, with_word_starts=not trains, mask_rate=rate)

    def iter_steps(self, first: int, slot: int, before: int) -> Generator[Step, None, None]:
        """Yield the steps of the phase, starting with a given one.

        Each step has this process's micro-batches and the counts of all processes, so all processes must iterate. The
        next step is prepared on a thread. Close the generator while the other processes still respond, because the
        step after that is already being counted.

        Args:
            first: The zero-based index of the first step within the phase.
            slot: The slot (position in the training order) at which that step begins.
            before: The number of completed steps of the run, including earlier phases.
        """
        numbered = enumerate(self._iter_slots(first, slot), before + 1)

        def step(cut: tuple[int, range]) -> Step:
            number, slots = cut
            return make_step(number, list(self._iter_micro_batches(self._train, slots)), self._ranks)

        return prefetch(numbered, step)

    def _iter_slots(self, first: int, slot: int) -> Iterator[range]:
        begin = slot - self._settings.count_slots_before(first)
        return (self._settings.get_step_slots(step, begin) for step in range(first, self._settings.steps))

    def iter_held_out(self, component: int) -> Iterator[MicroBatch]:
        """Yield held-out examples of one shard set of the phase, in the order and with the masks of epoch 0.

        The number of examples is the set's share of `evaluate_examples`, or fewer if the set has fewer.

        Args:
            component: The zero-based index of the shard set in the phase.
        """
        loader = self._held_out[component]
        shares = [Fraction(part, sum(self.reading.shares)) for part in self.reading.shares]
        most = apportion(self._job.training.evaluate_examples, shares)[component]
        slots = range(min(len(loader), most))
        if not slots:
            return iter(())
        return self._iter_micro_batches(loader, slots)

    @cached_property
    def _held_out(self) -> list[Loader]:
        return [self._open_loader(shards, "held-out") for shards in self.reading.inputs]

    def check_read(self) -> None:
        """Wait until all data that the feed has read so far is verified. Raises Damaged if a shard is damaged."""
        for reader in (self._train, *vars(self).get("_held_out", ())):
            reader.check_read()

    @cached_property
    def token_counts(self) -> Int64s:
        """The number of occurrences of each token in a sample of the training split: int64 [vocabulary]."""
        return self._train.sample_token_counts(UNIGRAM_TOKENS)

    @cached_property
    def _commonest(self) -> Bools:
        return find_commonest(self.token_counts)

    def locate_examples(self, step: int, slot: int, micro_batch: int | None = None) -> dict[str, list[int]]:
        """Find the examples that a step of the phase reads. Deleted examples are omitted.

        Args:
            step: The zero-based index of the step within the phase.
            slot: The slot (position in the training order) at which the step begins.
            micro_batch: The index of one micro-batch of this process; None for the whole step.

        Returns:
            The indices of the examples in the training split of each shard set, keyed by the shard set's folder in the
            store.
        """
        slots = next(self._iter_slots(step, slot))
        cuts = [slots] if micro_batch is None else [some for some, _ in self._iter_cuts(self._train, slots)]
        numbers = to_slot_array(cuts[micro_batch or 0])
        components, examples = self._train.locate_examples(numbers)
        live = self._train.find_lengths(numbers) > 0
        return {
            shards.folder: examples[live & (components == component)].tolist()
            for component, shards in enumerate(self.reading.inputs)
            if (live & (components == component)).any()
        }

    def _iter_micro_batches(self, reader: SlotReader, slots: range) -> Iterator[MicroBatch]:
        """Yield this process's micro-batches of a range of slots (positions in the training order).

        All processes yield the same number of micro-batches, some of which may be empty.
        """
        for some, capacity in self._iter_cuts(reader, slots):
            yield self._build_micro_batch(reader.gather(some), len(some), capacity)

    def _iter_cuts(self, reader: SlotReader, slots: range) -> Iterator[tuple[Slots, int | None]]:
        """Yield the slots (positions in the training order) of each micro-batch of this process, and its padded size.

        The padded size is in tokens, or None if the micro-batch is not padded.
        """
        if self._budget is None:
            return self._split_by_number(slots, self._job.training.micro_batch or self._settings.batch)
        size = PLANNED_STEPS * self._settings.batch
        pieces = split_slots(slots, size, -(-len(slots) // size))
        return itertools.chain.from_iterable(self._split_by_tokens(reader, piece, self._budget) for piece in pieces)

    def _split_by_number(self, slots: range, size: int) -> Iterator[tuple[Slots, None]]:
        """Yield this process's share of the slots (positions in the training order), at most `size` per micro-batch.

        The second value of each pair is None, because the micro-batches are not padded.
        """
        mine = take_rank_share(slots, self._ranks.rank, self._ranks.count)
        most = -(-len(slots) // self._ranks.count)
        return ((some, None) for some in split_slots(mine, size, -(-most // size)))

    def _split_by_tokens(self, reader: SlotReader, slots: range, budget: int) -> Iterator[tuple[Slots, int]]:
        """Yield the slots of this process for each micro-batch, and the number of tokens to pad the micro-batch to.

        Args:
            reader: Reads the lengths of the examples.
            slots: The slots (positions in the training order) of all processes.
            budget: The maximum number of tokens of a micro-batch.
        """
        numbers = np.array(slots, np.int64)
        dealt = plan_micro_batches(reader.find_lengths(numbers), self._ranks.count, budget)
        for capacity, places in zip(dealt.capacities.tolist(), dealt.list_micro_batches(self._ranks.rank), strict=True):
            yield numbers[places], capacity

    def _compute_token_budget(self) -> int | None:
        """Return the maximum number of tokens in a micro-batch, or None if it is limited by the number of examples.

        Raises InputError if an example may be longer.
        """
        longest = 0
        for shards in self.reading.inputs:
            length = self._job.read_shard_set(shards).facts["length"]
            self._job.training.check_length(f"The shards {shards.folder}", length)
            longest = max(longest, length)
        budget = self._job.training.micro_batch_tokens
        return budget and min(budget, compute_max_share_tokens(self._settings.batch, self._ranks.count, longest))

    def _build_micro_batch(self, gathered: GatheredExamples, num_slots: int, capacity: int | None = None) -> MicroBatch:
        """Build a micro-batch, with its tensors, targets and counts, from the examples that were read for it.

        Args:
            gathered: The examples.
            num_slots: The number of slots (positions in the training order), including those of deleted examples.
            capacity: The number of tokens to pad to; None for no padding.
        """
        reads = self._objective.read(gathered, self._terms, self._job.training.seed)
        batch = to_batch(gathered, reads)
        if capacity is not None:
            shape = round_shape_up(batch.shape, capacity, self._positions)
            batch = fill_batch(batch, shape, self._job.inputs.special_ids.pad, reads.targets)
        return MicroBatch(
            batch=batch.pin() if self._ranks.device.type == "cuda" else batch,
            guessed=reads.guessed,
            counts=np.concatenate(
                [
                    _count_step(gathered, num_slots, len(batch.ids)),
                    np.array(self._objective.count_targets(gathered, self._terms), np.int64),
                ]
            ),
            tallies=gathered.tallies,
            rarer=None if gathered.word_starts is None else find_rarer_words(gathered, self._commonest),
        )


def _count_step(gathered: GatheredExamples, num_slots: int, num_held: int) -> Int64s:
    """Return the counts of a micro-batch that are named in STEP_COUNTS, in that order, as an int64 array.

    Args:
        gathered: The examples.
        num_slots: The number of slots (positions in the training order), including those of deleted examples.
        num_held: The number of tokens, including padding.
    """
    pairs, tokens = 0 if gathered.labels is None else gathered.num_examples, len(gathered.ids)
    counts = (len(gathered.masked), pairs, tokens, gathered.num_examples, gathered.deleted, num_slots)
    return np.array([*counts, num_held - tokens], np.int64)


def find_commonest(token_counts: Int64s, number: int = COMMONEST) -> Bools:
    """Mark the most common tokens of the vocabulary: bool [vocabulary].

    Args:
        token_counts: int64 [vocabulary], the number of occurrences of each token.
        number: The number of tokens to mark. Among equal counts, lower ids come first.

    >>> find_commonest(np.array([0, 7, 5, 9, 5]), 3).tolist()
    [False, True, True, True, False]
    """
    common = np.zeros(len(token_counts), bool)
    common[np.argsort(-token_counts, kind="stable")[:number]] = True
    return common


def find_rarer_words(gathered: GatheredExamples, common: Bools) -> Bools:
    """Mark the masked tokens that begin a word and are not among the most common tokens: bool [M].

    Args:
        gathered: Examples that were read together with their word starts.
        common: bool [vocabulary], True for the most common tokens.
    """
    assert gathered.word_starts is not None, "word starts were not asked for"
    return gathered.word_starts & ~common[gathered.targets]
