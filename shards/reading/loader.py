"""The loader: slots in, flat token ids with their masks out, straight from memory-mapped shards.

Promise: what a slot holds is a pure function of (shards, seed, slot): the same in any share of any rank, on any
machine, after any restart. Dynamic masks are drawn with each example's own epoch; static ones are read. Nothing of a
shard is copied but the rows asked for, and nothing is done per example in Python.

Cost: of a batch of 256 examples of some 115 tokens in random order 45 microseconds and what their masks cost
(`shards.masks`; one x86-64 core); `benchmarks.loader` compares it with what others do. Files are checked once, next to
the reading: 2 to 7 % of the CPU time of reading a first epoch (`benchmarks.shard_checks`; 18 and 120 MB of shards).
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from corpora.kernels.arrays import Bools, Ids, Int32s, Int64s, UInt16s, UInt64s
from corpora.store.settings import bind_settings
from corpora.store.tables import read_part_table
from shards.frequencies import read_frequencies
from shards.masks.masking import (
    MaskSettings,
    MaskVocabulary,
    ShardVocabulary,
    build_mask_vocabulary,
    mask_tokens,
    to_flat_positions,
    with_frequencies,
)
from shards.masks.plain import draw_masks_plain, with_rate_at
from shards.reading.files.columns import ExampleColumns
from shards.reading.files.shard_cache import ShardCache, WindowCache
from shards.reading.files.shard_set import ShardSet
from shards.reading.order import GlobalOrder, Order, WindowedOrder, find_example_plain
from shards.schema import choose_id_type

Slots: TypeAlias = range | Int64s  # a stretch of them, or any
MAX_SAMPLED_SHARDS = 16  # of which tokens are counted, of a set in an object store
TALLY_NAMES = ("slots", "deleted", "tokens", "masked")
Item = TypeVar("Item")
Prepared = TypeVar("Prepared")


@dataclass(frozen=True, slots=True, kw_only=True)
class GatheredExamples:
    """A batch of training examples: B examples that are not deleted, with T tokens in total, of which M are masked.

    Attributes:
        ids: uint16 or uint32 [T], the token ids as the model sees them, with masks applied, one example after another.
        offsets: int32 [B + 1], the start of each example in `ids`. The last entry is T.
        boundary: int64 [B], the number of tokens of the first segment, or the length of the example if it has one
            segment.
        labels: int64 [B], the label of each segment pair, or None if the shards have no labels.
        masked: int64 [M], the positions of the masked tokens in `ids`.
        targets: uint16 or uint32 [M], the original tokens at these positions.
        example_ids: uint64 [B], the id of each example.
        epochs: int64 [B], the epoch in which each example is read.
        deleted: Number of requested examples that were left out because they are deleted.
        by_component: int64 [shard sets, TALLY_NAMES], counts for each shard set of a mixture, or None without a
            mixture.
        word_starts: bool [M], whether each target begins a word, or None if this was not requested.
    """

    ids: Ids
    offsets: Int32s
    boundary: Int64s
    labels: Int64s | None
    masked: Int64s
    targets: Ids
    example_ids: UInt64s
    epochs: Int64s
    deleted: int
    by_component: Int64s | None = None
    word_starts: Bools | None = None

    @property
    def tallies(self) -> Int64s:
        """Counts of each shard set of a mixture, in the order of `TALLY_NAMES`: int64 [shard sets, counts].

        There is one row if the batch is not from a mixture.
        """
        if self.by_component is not None:
            return self.by_component
        counts = (self.num_examples + self.deleted, self.deleted, len(self.ids), len(self.masked))
        return np.array([counts], np.int64)

    @property
    def num_examples(self) -> int:
        """Number of examples in the batch."""
        return len(self.offsets) - 1

    @property
    def max_length(self) -> int:
        """Length of the longest example in tokens, or 0 if the batch is empty."""
        return int(np.diff(self.offsets).max(initial=0))


class SlotReader(Protocol):
    """Reads training examples by slot, a position in the endless training order.

    Implemented by `Loader` for one shard set and by `Mixture` for several.
    """

    def __len__(self) -> int:
        """Return the number of slots, counted from slot 0, that can be read before any example is repeated.

        The result is 0 if there are no examples.
        """

    def gather(self, slots: Slots) -> GatheredExamples:
        """Read and mask the examples at some slots, in the given order. Deleted examples are left out and counted.

        Args:
            slots: A range, or int64 [slots], of positions in the training order. They must not be negative.

        Raises:
            Damaged: A shard is damaged or was changed.
        """

    def find_lengths(self, slots: Slots) -> Int64s:
        """Return the length in tokens of the example at each slot: int64 [slots], 0 for deleted examples."""

    def check_read(self) -> None:
        """Wait until all data that this reader has read so far has been verified.

        Raises:
            Damaged: A shard is damaged or was changed.
        """

    def locate_examples(self, slots: Slots) -> tuple[UInt16s, Int64s]:
        """Look up the shard set and the example at each slot (a position in the training order), without reading
        shards.

        Slots must not be negative, and may lie in any epoch.

        Returns:
            The index of the shard set in the mixture (uint16 [slots], 0 if there is only one), and the index of the
            example in that shard set (int64 [slots]).
        """

    def sample_token_counts(self, num_tokens: int) -> Int64s:
        """Count how often each non-special token occurs in a sample of about `num_tokens` tokens.

        Returns:
            int64 [vocabulary], 0 for special tokens.
        """


class Loader:
    """Reads and masks the examples of one split of a shard set by slot, a position in the endless training order.

    Args:
        shard_set: The split to read.
        seed: Determines the order of the examples. The seed of the masks is stored with the shards.
        window: Number of shards to shuffle together, see `WindowedOrder`. None shuffles all examples of the split.
        shard_cache: Local folder for the shards in use, if the shard set is in an object store. It is ignored without
            `window`.
        with_word_starts: Whether `gather` also returns which masked tokens begin a word.
        mask_rate: Share of tokens to mask, in place of the rate stored with the shards. It is only allowed if the
            shards have dynamic masks without a schedule (AssertionError otherwise).
    """

    def __init__(
        self,
        shard_set: ShardSet,
        seed: int,
        window: int | None = None,
        shard_cache: ShardCache | None = None,
        with_word_starts: bool = False,
        mask_rate: float | None = None,
    ) -> None:
        self._set = shard_set
        self._with_word_starts = with_word_starts
        self._order: Order = GlobalOrder(len(shard_set), seed)
        self._window_cache: WindowCache | None = None
        if window is not None:
            self._order = WindowedOrder([part.count_rows("examples") for part in shard_set.parts], window, seed)
            if shard_cache is not None:
                self._window_cache = WindowCache(shard_set, self._order, shard_cache)
        self._epochs_ended = 0  # of those that were read
        self._is_live = shard_set.is_live if shard_set.deleted_rows else None
        self._masking = read_mask_settings(shard_set)
        if mask_rate is not None:
            assert self._masking.kind == "dynamic" and self._masking.schedule is None, (
                "masks without a rate of their own"
            )
            self._masking = replace(self._masking, rate=mask_rate)
        self._vocabulary = read_mask_vocabulary(shard_set)

    def __len__(self) -> int:
        """Return the number of examples in an epoch, including deleted ones."""
        return len(self._set)

    @cached_property
    def _local_columns(self) -> ExampleColumns:
        """The open columns of all shards of the split, for reading without a shard cache."""
        return ExampleColumns(self._set)

    def _open_columns(self, slots: Int64s) -> ExampleColumns:
        """Return the open columns of the shards that contain the examples at these slots.

        A shard cache fetches the shards first.

        Raises:
            Damaged: A shard is damaged or was changed.
            InputError: The shards do not fit into the shard cache.
        """
        return self._local_columns if self._window_cache is None else self._window_cache.open_columns_for_slots(slots)

    def gather(self, slots: Slots) -> GatheredExamples:
        """Read and mask the examples of this split at some slots, in order. Deleted examples are left out and counted.

        Args:
            slots: A range, or int64 [slots], of positions in the training order. They must not be negative.

        Raises:
            Damaged: A shard is damaged or was changed. Once many record batches have been read, verification runs in
                the background, and the error may come from a later call (see `check_read`).
        """
        numbers = to_slot_array(slots)
        examples, epochs = self._order.find_examples(numbers), self._order.find_epochs(numbers)
        ended = (int(numbers.max(initial=-1)) + 1) // max(1, len(self._set))
        if self._is_live is not None:
            is_live = self._is_live[examples]
            numbers, examples, epochs = numbers[is_live], examples[is_live], epochs[is_live]
        gathered = self.gather_examples(examples, epochs, numbers, len(slots) - len(examples))
        if ended > self._epochs_ended:
            self.check_read()
            self._epochs_ended = ended
        return gathered

    def check_read(self) -> None:
        """Wait until all data read so far has been verified.

        `gather` does this itself when it reaches the end of an epoch. Call it before you store results that depend on
        data read since then.

        Raises:
            Damaged: A shard is damaged or was changed.
        """
        if self._window_cache is not None:
            self._window_cache.check_read()
        elif "_local_columns" in vars(self):
            self._local_columns.check_read()

    def find_lengths(self, slots: Slots) -> Int64s:
        """Return the length in tokens of this split's example at each slot: int64 [slots]. Deleted examples get 0."""
        numbers = to_slot_array(slots)
        examples = self._order.find_examples(numbers)
        lengths = self._open_columns(numbers).find_lengths(examples)
        return lengths if self._is_live is None else lengths * self._is_live[examples]

    def locate_examples(self, slots: Slots) -> tuple[UInt16s, Int64s]:
        """Look up the index of the example at each slot (a position in the training order) in the only shard set.

        Returns:
            Zeros (uint16 [slots]), because there is only one shard set, and the indices of the examples (int64
            [slots]).
        """
        numbers = to_slot_array(slots)
        return np.zeros(len(numbers), np.uint16), self._order.find_examples(numbers)

    def gather_examples(self, examples: Int64s, epochs: Int64s, slots: Int64s, deleted: int = 0) -> GatheredExamples:
        """Read and mask examples by their index in the split. Deleted examples are read like any others.

        Args:
            examples: int64 [n], indices of examples. They are not bounds-checked.
            epochs: int64 [n], the epoch of each example, which determines its dynamic mask.
            slots: int64 [n], the slot of each example, which determines its mask rate and the shards to open.
            deleted: Number of deleted examples that the caller has left out. It is copied to the result.

        Raises:
            Damaged: A shard is damaged or was changed. It may also be raised by a later call (see `check_read`).
        """
        columns = self._open_columns(slots)
        needs_word_starts = self._masking.kind == "dynamic" and self._masking.unit != "token"  # nothing else reads them
        rows = columns.read_rows(examples, needs_word_starts or self._with_word_starts)
        ids, offsets, example_ids = rows.ids, rows.offsets, rows.example_ids
        if self._masking.kind == "static":
            masks = columns.read_masks(examples, rows)
            flat_positions = to_flat_positions(offsets, masks)
            targets = ids[flat_positions]
            ids[flat_positions] = masks.replacements
        else:
            flat_positions, targets, _ = mask_tokens(
                ids, offsets, rows.word_starts, example_ids, epochs, self._masking, self._vocabulary,
                self._masking.compute_rates(epochs, slots),
            )  # fmt: skip
        return GatheredExamples(
            ids=ids,
            offsets=offsets.astype(np.int32),
            boundary=rows.boundary,
            labels=rows.labels,
            masked=flat_positions,
            targets=targets,
            example_ids=example_ids,
            epochs=epochs,
            deleted=deleted,
            word_starts=rows.word_starts[flat_positions].astype(bool) if self._with_word_starts else None,
        )

    def sample_token_counts(self, num_tokens: int) -> Int64s:
        """Count how often each non-special token occurs in a sample of about `num_tokens` tokens: int64 [vocabulary].

        Special tokens get 0. The sample consists of evenly spaced record batches. A split with fewer tokens is counted
        completely. With a shard cache, it consists of the first rows of fewer than twice `MAX_SAMPLED_SHARDS` shards.
        """
        counts = np.zeros(len(self._vocabulary.is_special), np.int64)
        for ids in self._iter_sampled_ids(num_tokens):
            counts += np.bincount(ids, minlength=len(counts))
        counts[self._vocabulary.is_special == 1] = 0
        return counts

    def _iter_sampled_ids(self, num_tokens: int) -> Iterator[npt.NDArray[Any]]:
        """Yield arrays of token ids, about `num_tokens` in total."""
        if self._window_cache is None:
            yield from self._local_columns.sample_values("ids", num_tokens)
            self.check_read()
            return
        parts = self._set.parts[:: max(1, len(self._set.parts) // MAX_SAMPLED_SHARDS)]
        total = sum(part.ledger.figures["example tokens"] for part in parts)
        for part in parts:
            rows = range(-(-part.count_rows("examples") * min(num_tokens, total) // total))
            folder = self._set.manifest.stage_folder
            for batch in read_part_table(self._set.place, folder, part, "examples", ("ids",), rows):
                yield batch.column("ids").flatten().to_numpy()


def to_slot_array(slots: Slots) -> Int64s:
    """Convert a range of slots to an int64 array. An array is returned unchanged."""
    return np.arange(slots.start, slots.stop, dtype=np.int64) if isinstance(slots, range) else slots


def read_mask_settings(shard_set: ShardSet) -> MaskSettings:
    """Return the mask settings that are stored in the manifest of a shard set.

    The held-out split gets a constant mask rate, the final rate of the schedule.
    """
    settings = bind_settings(MaskSettings, shard_set.manifest.settings["masking"], "shards.masking")
    return settings.held_out_settings if shard_set.split == "held-out" else settings


def read_mask_vocabulary(shard_set: ShardSet) -> MaskVocabulary:
    """Build the vocabulary tables for masking from a shard set's manifest and, if needed, its token frequencies.

    Raises:
        Damaged: The file of token frequencies is damaged or was changed.
    """
    facts = shard_set.manifest.facts
    vocabulary = build_mask_vocabulary(ShardVocabulary(facts["vocab_size"], facts["special_ids"]))
    if read_mask_settings(shard_set).random == "uniform":
        return vocabulary
    return with_frequencies(vocabulary, read_frequencies(shard_set.place, shard_set.manifest))


def prefetch(items: Iterable[Item], prepare: Callable[[Item], Prepared]) -> Generator[Prepared, None, None]:
    """Yield `prepare(item)` for each item, in order, while a background thread prepares the next item.

    An exception raised by `prepare` is raised here when the result for its item is requested.
    """
    with ThreadPoolExecutor(1, "ahead") as thread:
        pending = deque[Future[Prepared]]()
        for item in items:
            pending.append(thread.submit(prepare, item))
            if len(pending) > 1:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def gather_plain(shard_set: ShardSet, seed: int, slots: range) -> GatheredExamples:
    """Reference implementation of `Loader.gather` in plain Python, for tests.

    Args:
        shard_set: The split to read.
        seed: Seed of the `GlobalOrder`.
        slots: The slots to read.
    """
    masking = read_mask_settings(shard_set)
    vocabulary = read_mask_vocabulary(shard_set)
    numbered = [(slot, find_example_plain(slot, len(shard_set), seed)) for slot in slots]
    live = [(slot, shard_set[number]) for slot, number in numbered if shard_set.is_live[number]]
    offsets = np.cumsum([0, *(len(example.ids) for _, example in live)])
    ids, masked, targets = list[Any](), list[Any](), list[Any]()
    for (slot, example), first in zip(live, offsets[:-1], strict=True):
        positions, replacements = example.mask_positions, example.mask_ids
        if masking.kind == "dynamic":
            ends, starts = np.array([0, len(example.ids)]), example.word_starts.astype(np.uint8)
            key = np.array([example.example_id], np.uint64)
            epoch = slot // len(shard_set)
            now = with_rate_at(masking, epoch, slot)
            masks = draw_masks_plain(example.ids, ends, starts, key, epoch, now, vocabulary)
            positions, replacements = masks.positions, masks.replacements
        masked_ids = example.ids.copy()
        masked_ids[positions] = replacements
        ids += masked_ids.tolist()
        masked += (positions + first).tolist()
        targets += example.ids[positions].tolist()
    dtype = choose_id_type(shard_set.manifest.facts["vocab_size"]).to_pandas_dtype()
    labels = [example.label for _, example in live]
    return GatheredExamples(
        ids=np.array(ids, dtype),
        offsets=offsets.astype(np.int32),
        boundary=np.array([example.boundary for _, example in live], np.int64),
        labels=np.array(labels, np.int64) if shard_set.manifest.facts["pair_labels"] else None,
        masked=np.array(masked, np.int64),
        targets=np.array(targets, dtype),
        example_ids=np.array([example.example_id for _, example in live], np.uint64),
        epochs=np.array([slot // len(shard_set) for slot, _ in live], np.int64),
        deleted=len(numbered) - len(live),
    )
