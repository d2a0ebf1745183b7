"""The loader: slots in, flat token ids with their masks out, straight from memory-mapped shards.

Promise: what a slot holds is a pure function of (shards, seed, slot): the same in any share of any rank, on any
machine, after any restart. Dynamic masks are drawn with each example's own epoch; static ones are read. Nothing of
a shard is copied but the rows asked for, and nothing is done per example in Python.

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
from corpora.store.settings import bind
from corpora.store.tables import open_table
from shards.frequencies import read_frequencies
from shards.masks.masking import (
    MaskSettings,
    MaskVocabulary,
    ShardVocabulary,
    masked_places,
    put_masks,
    vocabulary_facts,
    weighted,
)
from shards.masks.plain import masks_plain, settings_at
from shards.reading.files.columns import Columns
from shards.reading.files.shard_cache import NearFiles, NearWindows
from shards.reading.files.shard_set import ShardSet
from shards.reading.order import GlobalOrder, Order, WindowedOrder, example_plain
from shards.schema import id_type

Slots: TypeAlias = range | Int64s  # a stretch of them, or any
SAMPLED_SHARDS = 16  # of which tokens are counted, of a set in an object store
TALLIES = ("slots", "deleted", "tokens", "masked")
Cut = TypeVar("Cut")
Ready = TypeVar("Ready")


@dataclass(frozen=True, slots=True, kw_only=True)
class GatheredExamples:
    """The live examples of some slots, end to end: B examples of T tokens, M of them masked.

    ids:         uint16 or uint32 [T], as the model sees them (masks put in)
    offsets:     int32 [B + 1], where each example begins; the last is T
    boundary:    int64 [B], tokens of the first segment; the length where there is but one
    labels:      int64 [B], 0 where the second segment follows the first; None where the shards have none
    masked:      int64 [M], places of the masked tokens among the T
    targets:     uint16 or uint32 [M], the original tokens
    example_ids: uint64 [B]
    epochs:      int64 [B], of each example's slot
    deleted:     slots whose example is deleted
    word_starts: bool [M], whether each target begins a word; None where it was not requested
    by_component: int64 [components, TALLIES], of a mixture; None where there is but one component
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
        """The tallies of each component of a mixture: int64 [components, TALLIES]."""
        if self.by_component is not None:
            return self.by_component
        counts = (self.num_examples + self.deleted, self.deleted, len(self.ids), len(self.masked))
        return np.array([counts], np.int64)

    @property
    def num_examples(self) -> int:
        """The number B of examples."""
        return len(self.offsets) - 1

    @property
    def longest(self) -> int:
        """Tokens of the longest example; 0 where there is none."""
        return int(np.diff(self.offsets).max(initial=0))


class SlotReader(Protocol):
    """Examples by slot: what a training uses of a loader of one shard set, and of a mixture of several."""

    def __len__(self) -> int:
        """Slots in which no example comes twice, counted from the first one; 0 where there is no example."""

    def gather(self, slots: Slots) -> GatheredExamples:
        """Read the content of these slots, in their order."""

    def lengths(self, slots: Slots) -> Int64s:
        """Tokens of each slot's example; 0 where it is deleted: int64 [slots]."""

    def check_read(self) -> None:
        """Wait until all that was read so far is checked. Raises Damaged if a shard is not what was written."""

    def where(self, slots: Slots) -> tuple[UInt16s, Int64s]:
        """The component of each slot, of which there may be one alone, and the number of its example in that."""

    def token_counts(self, most: int) -> Int64s:
        """Count how often each ordinary token occurs in about `most` tokens: int64 [vocabulary]."""


class Loader:
    """Examples of one split by slot. `seed` decides their order; the masks' seed is in the shards' manifest.

    window: shards whose examples are mixed (`WindowedOrder`); None: examples of all
    near:   where the windows in use are kept, of a set that is in an object store
    words:  whether what is gathered says which targets begin a word
    mask_rate: share of tokens to guess, in place of that of dynamic masks in the shards' manifest
    """

    def __init__(
        self,
        shard_set: ShardSet,
        seed: int,
        window: int | None = None,
        near: NearFiles | None = None,
        words: bool = False,
        mask_rate: float | None = None,
    ) -> None:
        self._set = shard_set
        self._words = words
        self._order: Order = GlobalOrder(len(shard_set), seed)
        self._near: NearWindows | None = None
        if window is not None:
            self._order = WindowedOrder([part.rows("examples") for part in shard_set.parts], window, seed)
            if near is not None:
                self._near = NearWindows(shard_set, self._order, near)
        self._epochs_ended = 0  # of those that were read
        self._live = shard_set.live if shard_set.deleted_rows else None
        self._masking = mask_settings(shard_set)
        if mask_rate is not None:
            assert self._masking.kind == "dynamic" and self._masking.schedule is None, (
                "masks without a rate of their own"
            )
            self._masking = replace(self._masking, rate=mask_rate)
        self._vocabulary = mask_vocabulary(shard_set)

    def __len__(self) -> int:
        """Examples of an epoch, deleted ones included."""
        return len(self._set)

    @cached_property
    def _all_columns(self) -> Columns:
        return Columns(self._set)

    def _columns(self, slots: Int64s) -> Columns:
        """The columns that hold the examples of slots."""
        return self._all_columns if self._near is None else self._near.columns_at(slots)

    def gather(self, slots: Slots) -> GatheredExamples:
        """Read the content of these slots, in their order. Raises Damaged if a shard is not what was written."""
        numbers = slot_numbers(slots)
        examples, epochs = self._order.examples(numbers), self._order.epochs(numbers)
        ended = (int(numbers.max(initial=-1)) + 1) // max(1, len(self._set))
        if self._live is not None:
            live = self._live[examples]
            numbers, examples, epochs = numbers[live], examples[live], epochs[live]
        gathered = self.masked(examples, epochs, numbers, len(slots) - len(examples))
        if ended > self._epochs_ended:
            self.check_read()
            self._epochs_ended = ended
        return gathered

    def check_read(self) -> None:
        """Wait until all that was read so far is checked. Raises Damaged if a shard is not what was written.

        `gather` calls it with the last slot of an epoch, or if others read that one, with the first slots of the next.
        Call it before you keep what came of what you read in between.
        """
        if self._near is not None:
            self._near.check_read()
        elif "_all_columns" in vars(self):
            self._all_columns.check_read()

    def lengths(self, slots: Slots) -> Int64s:
        """Tokens of each slot's example, without reading them: int64 [slots], 0 where it is deleted."""
        numbers = slot_numbers(slots)
        examples = self._order.examples(numbers)
        lengths = self._columns(numbers).lengths(examples)
        return lengths if self._live is None else lengths * self._live[examples]

    def where(self, slots: Slots) -> tuple[UInt16s, Int64s]:
        """Zeros, for there is one component, and the number of each slot's example."""
        numbers = slot_numbers(slots)
        return np.zeros(len(numbers), np.uint16), self._order.examples(numbers)

    def masked(self, examples: Int64s, epochs: Int64s, slots: Int64s, deleted: int = 0) -> GatheredExamples:
        """Live examples by number, as their epochs see them. slots: of each, for masks and shards"""
        columns = self._columns(slots)
        of_masks = self._masking.kind == "dynamic" and self._masking.unit != "token"  # nothing else reads them
        rows = columns.gather(examples, of_masks or self._words)
        ids, offsets, example_ids = rows.ids, rows.offsets, rows.example_ids
        if self._masking.kind == "static":
            masks = columns.masks(examples, rows)
            masked = masked_places(offsets, masks)
            targets = ids[masked]
            ids[masked] = masks.replacements
        else:
            masked, targets, _ = put_masks(
                ids, offsets, rows.word_starts, example_ids, epochs, self._masking, self._vocabulary,
                self._masking.rates(epochs, slots),
            )  # fmt: skip
        return GatheredExamples(
            ids=ids,
            offsets=offsets.astype(np.int32),
            boundary=rows.boundary,
            labels=rows.labels,
            masked=masked,
            targets=targets,
            example_ids=example_ids,
            epochs=epochs,
            deleted=deleted,
            word_starts=rows.word_starts[masked].astype(bool) if self._words else None,
        )

    def token_counts(self, most: int) -> Int64s:
        """Count how often each ordinary token occurs in about `most` tokens of the split: int64 [vocabulary].

        They are read from record batches at equal distances, of a set in an object store from the beginning of some
        shards; all of a smaller split are.
        """
        counts = np.zeros(len(self._vocabulary.is_special), np.int64)
        for ids in self._sample(most):
            counts += np.bincount(ids, minlength=len(counts))
        counts[self._vocabulary.is_special == 1] = 0
        return counts

    def _sample(self, most: int) -> Iterator[npt.NDArray[Any]]:
        """Ids of about `most` tokens."""
        if self._near is None:
            yield from self._all_columns.sample("ids", most)
            self.check_read()
            return
        parts = self._set.parts[:: max(1, len(self._set.parts) // SAMPLED_SHARDS)]
        total = sum(part.ledger.figures["example tokens"] for part in parts)
        for part in parts:
            rows = range(-(-part.rows("examples") * min(most, total) // total))
            folder = self._set.manifest.stage_folder
            for batch in open_table(self._set.place, folder, part, "examples", ("ids",), rows):
                yield batch.column("ids").flatten().to_numpy()


def slot_numbers(slots: Slots) -> Int64s:
    """Slots as numbers: int64 [slots]."""
    return np.arange(slots.start, slots.stop, dtype=np.int64) if isinstance(slots, range) else slots


def mask_settings(shard_set: ShardSet) -> MaskSettings:
    """The masks under which a split is read: held-out examples always at the last rate."""
    settings = bind(MaskSettings, shard_set.manifest.settings["masking"], "shards.masking")
    return settings.last if shard_set.split == "held-out" else settings


def mask_vocabulary(shard_set: ShardSet) -> MaskVocabulary:
    """Return the facts that masks need of the vocabulary, from the shards."""
    facts = shard_set.manifest.facts
    facts_of_masks = vocabulary_facts(ShardVocabulary(facts["vocab_size"], facts["special_ids"]))
    if mask_settings(shard_set).random == "uniform":
        return facts_of_masks
    return weighted(facts_of_masks, read_frequencies(shard_set.place, shard_set.manifest))


def ahead(cuts: Iterable[Cut], prepare: Callable[[Cut], Ready]) -> Generator[Ready, None, None]:
    """Each cut prepared, in order, the next one always already under way on a thread (kernels hold no lock)."""
    with ThreadPoolExecutor(1, "ahead") as thread:
        waiting = deque[Future[Ready]]()
        for cut in cuts:
            waiting.append(thread.submit(prepare, cut))
            if len(waiting) > 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def gather_plain(shard_set: ShardSet, seed: int, slots: range) -> GatheredExamples:
    """Return what `Loader.gather` gives, example by example."""
    masking = mask_settings(shard_set)
    vocabulary = mask_vocabulary(shard_set)
    numbered = [(slot, example_plain(slot, len(shard_set), seed)) for slot in slots]
    live = [(slot, shard_set[number]) for slot, number in numbered if shard_set.live[number]]
    offsets = np.cumsum([0, *(len(example.ids) for _, example in live)])
    seen, masked, targets = list[Any](), list[Any](), list[Any]()
    for (slot, example), first in zip(live, offsets[:-1], strict=True):
        positions, replacements = example.mask_positions, example.mask_ids
        if masking.kind == "dynamic":
            ends, starts = np.array([0, len(example.ids)]), example.word_starts.astype(np.uint8)
            key = np.array([example.example_id], np.uint64)
            epoch = slot // len(shard_set)
            now = settings_at(masking, epoch, slot)
            masks = masks_plain(example.ids, ends, starts, key, epoch, now, vocabulary)
            positions, replacements = masks.positions, masks.replacements
        ids = example.ids.copy()
        ids[positions] = replacements
        seen += ids.tolist()
        masked += (positions + first).tolist()
        targets += example.ids[positions].tolist()
    dtype = id_type(shard_set.manifest.facts["vocab_size"]).to_pandas_dtype()
    labels = [example.label for _, example in live]
    return GatheredExamples(
        ids=np.array(seen, dtype),
        offsets=offsets.astype(np.int32),
        boundary=np.array([example.boundary for _, example in live], np.int64),
        labels=np.array(labels, np.int64) if shard_set.manifest.facts["pair_labels"] else None,
        masked=np.array(masked, np.int64),
        targets=np.array(targets, dtype),
        example_ids=np.array([example.example_id for _, example in live], np.uint64),
        epochs=np.array([slot // len(shard_set) for slot, _ in live], np.int64),
        deleted=len(numbered) - len(live),
    )
