"""Examples as records and as rows of one width: plain arrays under the names that Hugging Face models have for them.

    ExampleRecords(shard_set)[7]           {"input_ids": ..., "token_type_ids": ..., "labels": ..., ...} of one example
    pad_examples(gathered, format, width)  the same of many, int64 [B, width] each

`ExampleRecords` is a random-access source, as Grain and map-style datasets of torch take one: a length, and an example
for each number below it. It imports neither.

Promise: number i of an epoch is its i-th live example in the loader's order, with the masks that the loader draws for
that epoch; so a set of numbers that holds each once holds each live example once. A source is pickled without what it
has opened: a worker opens the shards for itself.

Cost: reading as the loader's, and 10 microseconds a record for its arrays; a row of `to_rows` takes 0.1 microseconds.
If examples are deleted, 8 bytes and 0.1 microseconds for each example of an epoch, once an epoch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.kernels.arrays import Ids, Int64s
from corpora.kernels.compiling import kernel
from corpora.store.manifest import Manifest, compute_fingerprint
from corpora.store.settings import EPOCH, check_range
from shards.masks.masking import MaskedTokens
from shards.reading.files.shard_set import ShardSet
from shards.reading.loader import GatheredExamples, Loader
from shards.reading.order import find_global_examples

IGNORED = -100  # the label of a token that is not to be guessed
Record: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFormat:
    """Column names and padding values of records.

    Attributes:
        pad_id: Id of the padding token.
        label: Column of the label of a segment pair, "next_sentence_label" or "sentence_order_label", or None without
            labels.
        masked_only: Whether only masked tokens have a label. If False, every token is its own label.
    """

    pad_id: int
    label: str | None
    masked_only: bool = True

    @staticmethod
    def from_manifest(manifest: Manifest) -> "RecordFormat":
        """Return the format for the records of a shard set from its manifest (stored description).

        Raises:
            KeyError: The vocabulary has no padding token.
        """
        facts = manifest.facts
        labels = facts.get("labels", "next-sentence") if facts["pair_labels"] else None
        return RecordFormat(
            pad_id=facts["special_ids"]["pad"],
            label=f"{labels.replace('-', '_')}_label" if labels else None,
            masked_only=facts["masking"] != "none",
        )

    @property
    def fill_values(self) -> Mapping[str, int]:
        """Padding values of "input_ids", "attention_mask", "token_type_ids" and "labels", which have one value per
        token.
        """
        return {"input_ids": self.pad_id, "attention_mask": 0, "token_type_ids": 0, "labels": IGNORED}


def pad_examples(gathered: GatheredExamples, format: RecordFormat, width: int) -> Record:
    """Convert a batch to padded columns: int64 [B, width] each, and int64 [B] for the label of a segment pair.

    The columns are `input_ids`, `attention_mask`, `token_type_ids` and `labels`, as Hugging Face models take them.
    Unmasked and padding positions have the label -100.

    Args:
        gathered: The batch.
        format: Column names and padding values.
        width: Number of tokens to which each example is padded.

    Returns:
        The columns by name.

    Raises:
        InputError: An example has more than `width` tokens.
    """
    if gathered.max_length > width:
        raise InputError(
            f"An example has {gathered.max_length} tokens, and rows of width = {width} would cut it: "
            f"set a width of at least {gathered.max_length}."
        )
    num, lengths = gathered.num_examples, np.diff(gathered.offsets)
    rows = {name: np.full((num, width), fill, np.int64) for name, fill in format.fill_values.items()}
    is_token = np.arange(width) < lengths[:, None]
    targets = np.full(len(gathered.ids), IGNORED, np.int64) if format.masked_only else gathered.ids.astype(np.int64)
    targets[gathered.masked] = gathered.targets
    rows["input_ids"][is_token] = gathered.ids
    rows["attention_mask"][is_token] = 1
    rows["token_type_ids"][is_token & (np.arange(width) >= gathered.boundary[:, None])] = 1
    rows["labels"][is_token] = targets
    return rows if format.label is None or gathered.labels is None else {**rows, format.label: gathered.labels}


def to_records(gathered: GatheredExamples, format: RecordFormat, width: int = 0) -> list[Record]:
    """Convert a batch to one record (a dict of arrays) per example.

    Args:
        gathered: The batch.
        format: Column names and padding values.
        width: Number of tokens to which each record is padded. 0 means no padding.

    Raises:
        InputError: `width` is not 0 and an example has more tokens.
    """
    rows = pad_examples(gathered, format, width or gathered.max_length)
    ends = np.full(gathered.num_examples, width) if width else np.diff(gathered.offsets)
    return [
        {name: column[row, :end] if column.ndim == 2 else column[row] for name, column in rows.items()}
        for row, end in enumerate(ends.tolist())
    ]


class ExampleRecords:
    """A random-access data source: record i is the i-th example in training order that is not deleted.

    Args:
        shard_set: The split to read.
        seed: Determines the order of the examples. The seed of the masks is stored with the shards.
        epochs: Number of epochs, which follow one another. Each has its own order and its own masks.
        first: Zero-based epoch that record 0 belongs to.
        padded: Whether every record is padded to the maximum length of the shards' examples, so that batches have one
            shape.

    Raises:
        InputError: The split has no example that is not deleted, or `epochs` or `first` is out of range.
    """

    def __init__(
        self, shard_set: ShardSet, *, seed: int = 42, epochs: int = 1, first: int = 0, padded: bool = False
    ) -> None:
        check_range("epochs", epochs, 1, 1 << 32)
        EPOCH.check("first", first)
        self.shard_set, self.seed, self.epochs, self.first, self.padded = shard_set, seed, epochs, first, padded
        self._cached_slots: tuple[int, Int64s] | None = None
        if not self.num_live:
            raise InputError(
                f"The shards {shard_set.manifest.folder} have no example in the split {shard_set.split!r}: there is "
                "nothing to read. Give them more text, or read another split."
            )

    def __getstate__(self) -> dict[str, Any]:
        names = ("shard_set", "seed", "epochs", "first", "padded")
        return {"_cached_slots": None, **{name: getattr(self, name) for name in names}}

    def __repr__(self) -> str:
        """Return a text of everything that record indices depend on.

        Grain only resumes from a checkpoint with the same text.
        """
        asked = {**self.identity, "epochs": self.epochs, "first": self.first, "padded": self.padded, "len": len(self)}
        return f"ExampleRecords({', '.join(f'{name}={value!r}' for name, value in asked.items())})"

    def __len__(self) -> int:
        return self.epochs * self.num_live

    def __getitem__(self, number: int) -> Record:
        """Return the record with this index. Raises IndexError for an index out of range, including negative ones."""
        if not 0 <= number < len(self):
            raise IndexError(f"example {number} of {len(self)}")
        return self.read([number])[0]

    def read(self, numbers: Sequence[int] | Int64s) -> list[Record]:
        """Return the records (dictionaries of arrays) with these indices, in the given order, read in one call.

        Args:
            numbers: Indices of records. They must not be negative. Indices past the last epoch continue into later
                epochs.

        Raises:
            Damaged: A shard is damaged or was changed.
        """
        return to_records(
            self.gather(np.asarray(numbers, np.int64)), self.format, self.max_length if self.padded else 0
        )

    def gather(self, numbers: Int64s) -> GatheredExamples:
        """Return the examples with these record indices as one batch, after verifying all data read so far.

        Args:
            numbers: int64 [n], indices of records. They must not be negative. Indices past the last epoch continue into
                later epochs.

        Raises:
            Damaged: A shard is damaged or was changed.
        """
        gathered = self._loader.gather(self.to_slots(numbers))
        self._loader.check_read()
        assert not gathered.deleted
        return gathered

    def to_slots(self, numbers: Int64s) -> Int64s:
        """Convert record indices to slots: int64 [n].

        A slot is a position in the training order that includes deleted examples. Indices past the last epoch continue
        into later epochs.

        Args:
            numbers: int64 [n], indices of records, not negative.
        """
        if self._all_live:
            return numbers + self.first * self.num_live
        epochs, positions = np.divmod(numbers, self.num_live)
        slots = np.empty_like(numbers)
        for epoch in np.unique(epochs).tolist():
            in_epoch = epochs == epoch
            slots[in_epoch] = self._list_live_slots(epoch + self.first)[positions[in_epoch]]
        return slots

    @cached_property
    def num_live(self) -> int:
        """Number of examples in an epoch that are not deleted."""
        return int(self.shard_set.is_live.sum()) if self.shard_set.deleted_rows else len(self.shard_set)

    @property
    def _all_live(self) -> bool:
        """Whether no example of the split is deleted."""
        return self.num_live == len(self.shard_set)

    def _list_live_slots(self, epoch: int) -> Int64s:
        """Return the slots of an epoch without those of deleted examples, ascending. The last result is cached."""
        if self._cached_slots is None or self._cached_slots[0] != epoch:
            size = len(self.shard_set)
            slots = np.arange(epoch * size, (epoch + 1) * size, dtype=np.int64)
            self._cached_slots = epoch, slots[self.shard_set.is_live[find_global_examples(slots, size, self.seed)]]
        return self._cached_slots[1]

    @cached_property
    def _loader(self) -> Loader:
        """Loader of these records, opened at the first access."""
        return Loader(self.shard_set, self.seed)

    @cached_property
    def format(self) -> RecordFormat:
        """Column names and padding values of the records."""
        return RecordFormat.from_manifest(self.shard_set.manifest)

    @property
    def max_length(self) -> int:
        """Maximum length of an example in tokens, from the shards' settings."""
        return int(self.shard_set.manifest.facts["length"])

    @cached_property
    def identity(self) -> dict[str, Json]:
        """Values that determine which example an index refers to: "shards" (a fingerprint), "split" and "seed".

        They stay the same when examples are deleted.
        """
        parts = [part.content for part in self.shard_set.parts]
        return {"shards": compute_fingerprint(parts=parts), "split": self.shard_set.split, "seed": self.seed}


class MaskedRows(NamedTuple):
    """A batch of n masked examples, padded to the length L of the longest."""

    input_ids: Int64s  # [n, L], the padding's id after the last token
    labels: Int64s  # [n, L], -100 for tokens that are not masked


def to_rows(ids: Ids, offsets: Int64s, masked: MaskedTokens, pad_id: int) -> MaskedRows:
    """Pad masked examples to the length of the longest one.

    Args:
        ids: [tokens], the concatenated masked ids of all examples.
        offsets: int64 [n + 1], the start of each example in `ids`.
        masked: The masked tokens, as returned by `mask_tokens`.
        pad_id: Id of the padding token.
    """
    num, max_length = len(offsets) - 1, int(np.diff(offsets).max(initial=0))
    rows = MaskedRows(np.empty((num, max_length), np.int64), np.empty((num, max_length), np.int64))
    _write_rows(
        ids, offsets, masked.flat_positions, masked.targets, masked.offsets, pad_id, rows.input_ids, rows.labels
    )
    return rows


@kernel
def _write_rows(
    ids: Ids,
    offsets: Int64s,
    flat_positions: Int64s,
    targets: Ids,
    mask_offsets: Int64s,
    pad_id: int,
    input_ids: Int64s,
    labels: Int64s,
) -> None:
    """Write the ids and labels of each example to its row of `input_ids` and `labels`, and pad the rest of the row.

    Args:
        ids: [tokens], the concatenated masked ids of all examples.
        offsets: int64 [n + 1], the start of each example in `ids`.
        flat_positions: int64 [masks], the positions of the masked tokens in `ids`.
        targets: [masks], the original tokens at these positions.
        mask_offsets: int64 [n + 1], the start of each example's masks in `flat_positions`.
        pad_id: Id of the padding token.
        input_ids: int64 [n, length], the output array.
        labels: int64 [n, length], filled with the original token at masked positions and -100 elsewhere.
    """
    for row in range(len(input_ids)):
        start, end = offsets[row], offsets[row + 1]
        source, target = ids[start:end], input_ids[row]
        for position in range(len(source)):
            target[position] = source[position]
        target[end - start :] = pad_id
        labels[row] = IGNORED
        for number in range(mask_offsets[row], mask_offsets[row + 1]):
            labels[row, flat_positions[number] - start] = targets[number]


def to_rows_plain(ids: Ids, offsets: Int64s, masked: MaskedTokens, pad_id: int) -> MaskedRows:
    """Reference implementation of `to_rows` in plain Python, for tests: pad masked examples to the longest one.

    Args:
        ids: [tokens], the concatenated masked ids of all examples.
        offsets: int64 [n + 1], the start of each example in `ids`.
        masked: The masked tokens, as returned by `mask_tokens`.
        pad_id: Id of the padding token.
    """
    max_length = max(np.diff(offsets).tolist(), default=0)
    labels = np.full(len(ids), IGNORED)
    labels[masked.flat_positions] = masked.targets
    input_ids, padded_labels = (
        [
            [*values[first:end].tolist(), *[filling] * (max_length - (end - first))]
            for first, end in pairwise(offsets.tolist())
        ]
        for values, filling in ((ids, pad_id), (labels, IGNORED))
    )
    shape = (len(offsets) - 1, max_length)
    return MaskedRows(np.array(input_ids, np.int64).reshape(shape), np.array(padded_labels, np.int64).reshape(shape))
