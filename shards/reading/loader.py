"""The loader: slots in, flat token ids with their masks out, straight from memory-mapped shards.

Promise: what a slot holds is a pure function of (shards, seed, slot): the same in any share of any rank, on any
machine, after any restart. Dynamic masks are drawn with each example's own epoch; static ones are read. Nothing of
a shard is copied but the rows asked for, and nothing is done per example in Python.

Every buffer of every record batch is reached from one base address, as an index into one array over the stretch of
the address space in which they lie; so one call of a kernel gathers from all shards.

Cost: examples of 128 tokens in random order, with dynamic masks, at 75 million tokens a second in batches of 256 and
108 million in batches of 2,048; with whole-word masks at 43 and 57 million (one x86-64 core, shared at the time).
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpora.kernels.arrays import Bools, Bytes, Ids, Int32s, Int64s, UInt64s
from corpora.kernels.compiling import kernel
from corpora.store.manifest import Manifest
from corpora.store.settings import bind
from corpora.store.tables import open_table
from shards.masks.masking import (
    Masks,
    MaskSettings,
    MaskVocabulary,
    ShardVocabulary,
    draw_masks,
    masked_places,
    masks_plain,
    vocabulary_facts,
)
from shards.reading.order import epochs_at, example_plain, examples_at
from shards.reading.shard_set import HELD, ShardSet
from shards.schema import id_type

Slots: TypeAlias = range | Int64s  # a stretch of them, or any
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
    targets:     uint16 or uint32 [M], the tokens that were there
    example_ids: uint64 [B]
    epochs:      int64 [B], of each example's slot
    deleted:     slots whose example is deleted
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

    @property
    def tallies(self) -> Int64s:
        """What was read of each component of a mixture: int64 [components, TALLIES]."""
        if self.by_component is not None:
            return self.by_component
        counts = (self.num_examples + self.deleted, self.deleted, len(self.ids), len(self.masked))
        return np.array([counts], np.int64)

    @property
    def num_examples(self) -> int:
        """B."""
        return len(self.offsets) - 1

    @property
    def longest(self) -> int:
        """Tokens of the longest example; 0 where there is none."""
        return int(np.diff(self.offsets).max(initial=0))


class Loader:
    """Examples of one split by slot. `seed` decides their order; the masks' seed is in the shards' manifest."""

    def __init__(self, shard_set: ShardSet, seed: int) -> None:
        self._set = shard_set
        self._seed = seed
        self._masking = bind(MaskSettings, shard_set.manifest.settings["masking"], "shards.masking")
        self._vocabulary = mask_vocabulary(shard_set.manifest)

    def __len__(self) -> int:
        """Examples of an epoch, deleted ones included."""
        return len(self._set)

    @cached_property
    def _columns(self) -> "_Columns":
        return _Columns(self._set)

    def gather(self, slots: Slots) -> GatheredExamples:
        """What is in these slots, in their order."""
        numbers, examples, live = self._find(slots)
        return self._masked(examples[live], epochs_at(numbers, len(self))[live], len(slots) - int(live.sum()))

    def lengths(self, slots: Slots) -> Int64s:
        """Tokens of each slot's example, without reading them: int64 [slots], 0 where it is deleted."""
        numbers, examples, live = self._find(slots)
        lengths = np.zeros(len(numbers), np.int64)
        lengths[live] = self._columns.lengths("ids", self._columns.find(examples[live]))
        return lengths

    def _find(self, slots: Slots) -> tuple[Int64s, Int64s, Bools]:
        """Slots as numbers, their examples, and which of these are live."""
        numbers = np.arange(slots.start, slots.stop, dtype=np.int64) if isinstance(slots, range) else slots
        examples = examples_at(numbers, len(self), self._seed) if len(numbers) else numbers
        return numbers, examples, self._set.live[examples]

    def _masked(self, examples: Int64s, epochs: Int64s, deleted: int) -> GatheredExamples:
        columns, rows = self._columns, self._columns.find(examples)
        ids, offsets = columns.lists("ids", rows)
        example_ids = columns.values("example_id", rows)
        if self._masking.kind == "static":
            masks = Masks(*columns.lists("mask_positions", rows), columns.lists("mask_ids", rows)[0])
        else:
            whole_words = self._masking.unit == "whole-word"  # nothing else reads the words
            starts = columns.bits("word_starts", rows) if whole_words else np.zeros(len(ids), np.uint8)
            masks = draw_masks(ids, offsets, starts, example_ids, epochs, self._masking, self._vocabulary)
        masked = masked_places(offsets, masks)
        targets = ids[masked]
        ids[masked] = masks.replacements
        return GatheredExamples(
            ids=ids,
            offsets=offsets.astype(np.int32),
            boundary=columns.values("boundary", rows).astype(np.int64),
            labels=columns.values("label", rows).astype(np.int64) if columns.has("label") else None,
            masked=masked,
            targets=targets,
            example_ids=example_ids,
            epochs=epochs,
            deleted=deleted,
        )

    def token_counts(self, most: int) -> Int64s:
        """How often each ordinary token occurs in about `most` tokens of the split: int64 [vocabulary].

        They are read from record batches at equal distances; all of a smaller split are.
        """
        counts = np.zeros(len(self._vocabulary.is_special), np.int64)
        buffers = self._columns.flat("ids")
        for ids in buffers[:: max(1, sum(map(len, buffers)) // most)]:
            counts += np.bincount(ids, minlength=len(counts))
        counts[self._vocabulary.is_special == 1] = 0
        return counts


def mask_vocabulary(manifest: Manifest) -> MaskVocabulary:
    """What masks must know of the vocabulary, as the shards' manifest tells it."""
    facts = manifest.facts
    return vocabulary_facts(ShardVocabulary(facts["vocab_size"], facts["special_ids"]))


def ahead(cuts: Iterable[Cut], prepare: Callable[[Cut], Ready]) -> Iterator[Ready]:
    """Each cut prepared, in order, the next one always already under way on a thread (kernels hold no lock)."""
    with ThreadPoolExecutor(1, "ahead") as thread:
        waiting = deque[Future[Ready]]()
        for cut in cuts:
            waiting.append(thread.submit(prepare, cut))
            if len(waiting) > 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


class _Rows(NamedTuple):
    """Where examples lie: the number of the record batch, and the row in it."""

    batch: Int64s
    row: Int64s


class _Columns:
    """The columns of all record batches of a split, reached by address."""

    def __init__(self, shard_set: ShardSet) -> None:
        folder = shard_set.manifest.stage_folder
        names = [name for name in shard_set.schema.names if name not in HELD]
        # Mapped, not read: what is in the files is checked by who trains on them (`verification.py`).
        tables = (
            open_table(shard_set.place, folder, part, "examples", names, checked=False) for part in shard_set.parts
        )
        self._batches = [batch for table in tables for batch in table]  # they keep the memory mapped
        self._starts = np.cumsum([0, *(batch.num_rows for batch in self._batches)])
        buffers = [b for batch in self._batches for column in batch.columns for b in column.buffers() if b is not None]
        self._base = min(buffer.address for buffer in buffers if buffer.size) & ~7
        self._size = max(buffer.address + buffer.size for buffer in buffers) - self._base
        self._first: dict[tuple[str, int], Int64s] = {}

    def has(self, name: str) -> bool:
        """Whether the shards have a column."""
        return name in self._batches[0].schema.names

    def find(self, examples: Int64s) -> _Rows:
        """The rows of examples by number."""
        batch = np.searchsorted(self._starts, examples, side="right") - 1
        return _Rows(batch, examples - self._starts[batch])

    def values(self, name: str, rows: _Rows) -> npt.NDArray[Any]:
        """A plain column's values at rows."""
        dtype = self._type(name).to_pandas_dtype()
        return np.asarray(self._memory(dtype)[self._addresses(name, 1, dtype)[rows.batch] + rows.row])

    def lists(self, name: str, rows: _Rows) -> tuple[Any, Int64s]:
        """The lists of a column at rows end to end, and int64 [rows + 1] where each begins."""
        starts, offsets = self._spans(name, rows)
        dtype = self._type(name).value_type.to_pandas_dtype()
        values = np.empty(offsets[-1], dtype)
        _copy_runs(self._memory(dtype), self._addresses(name, 3, dtype)[rows.batch] + starts, offsets, values)
        return values, offsets

    def lengths(self, name: str, rows: _Rows) -> Int64s:
        """How long the lists of a column are at rows."""
        return np.diff(self._spans(name, rows)[1])

    def bits(self, name: str, rows: _Rows) -> Bytes:
        """The lists of a column of truth values at rows end to end, 0 or 1 each."""
        starts, offsets = self._spans(name, rows)
        values = np.empty(offsets[-1], np.uint8)
        firsts = self._addresses(name, 3, np.uint8)[rows.batch]
        _copy_bits(self._memory(np.uint8), firsts * 8 + starts, offsets, values)
        return values

    def flat(self, name: str) -> list[npt.NDArray[Any]]:
        """The values of a list column, record batch by record batch."""
        return [batch.column(name).flatten().to_numpy() for batch in self._batches]

    def _spans(self, name: str, rows: _Rows) -> tuple[Int64s, Int64s]:
        """Where the lists begin among their record batch's values, and in what is made of them."""
        memory, places = self._memory(np.int32), self._addresses(name, 1, np.int32)[rows.batch] + rows.row
        starts = memory[places].astype(np.int64)
        return starts, np.cumsum([0, *(memory[places + 1] - starts)], dtype=np.int64)

    def _type(self, name: str) -> pa.DataType:
        return self._batches[0].schema.field(name).type

    def _addresses(self, name: str, buffer: int, dtype: npt.DTypeLike) -> Int64s:
        """Where a column's buffer begins in every record batch, in values of a type from the base on."""
        key = name, buffer
        if key not in self._first:
            columns = [batch.column(name) for batch in self._batches]
            assert all(column.offset == 0 for column in columns), "a file's columns begin where their buffers do"
            found = [column.buffers()[buffer] for column in columns]
            addresses = [b.address if b is not None and b.size else self._base for b in found]  # nothing is read there
            self._first[key] = (np.array(addresses, np.int64) - self._base) // np.dtype(dtype).itemsize
        return self._first[key]

    def _memory(self, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """The stretch of the address space that holds all buffers, as values of a type. Between them is nothing."""
        kind = np.dtype(dtype)
        shape = (-(-self._size // kind.itemsize),)
        interface = {"data": (self._base, True), "shape": shape, "typestr": kind.str, "version": 3}
        return np.asarray(SimpleNamespace(__array_interface__=interface))


@kernel
def _copy_runs(memory: Any, starts: Int64s, offsets: Int64s, values: Any) -> None:
    """Slices, because an index that cannot be negative is seen to be so: eight times as fast as places in the whole."""
    for row in range(len(starts)):
        source, copied = memory[starts[row] :], values[offsets[row] : offsets[row + 1]]
        for place in range(len(copied)):
            copied[place] = source[place]


@kernel
def _copy_bits(memory: Bytes, starts: Int64s, offsets: Int64s, values: Bytes) -> None:
    """`starts` counts bits; in Arrow the first one of a byte is its lowest."""
    for row in range(len(starts)):
        source, copied = memory[starts[row] >> 3 :], values[offsets[row] : offsets[row + 1]]
        first = np.uint64(starts[row] & 7)
        for place in range(len(copied)):
            bit = first + np.uint64(place)
            copied[place] = source[bit >> np.uint64(3)] >> (bit & np.uint64(7)) & 1


def gather_plain(shard_set: ShardSet, seed: int, slots: range) -> GatheredExamples:
    """What `Loader.gather` gives, example by example."""
    masking = bind(MaskSettings, shard_set.manifest.settings["masking"], "shards.masking")
    vocabulary = mask_vocabulary(shard_set.manifest)
    found = [(slot // len(shard_set), example_plain(slot, len(shard_set), seed)) for slot in slots]
    live = [(epoch, shard_set[number]) for epoch, number in found if shard_set.live[number]]
    offsets = np.cumsum([0, *(len(example.ids) for _, example in live)])
    seen, masked, targets = list[Any](), list[Any](), list[Any]()
    for (epoch, example), first in zip(live, offsets[:-1], strict=True):
        positions, replacements = example.mask_positions, example.mask_ids
        if masking.kind == "dynamic":
            ends, starts = np.array([0, len(example.ids)]), example.word_starts.astype(np.uint8)
            key = np.array([example.example_id], np.uint64)
            masks = masks_plain(example.ids, ends, starts, key, epoch, masking, vocabulary)
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
        epochs=np.array([epoch for epoch, _ in live], np.int64),
        deleted=len(found) - len(live),
    )
