"""Read rows of a split by number, by a few calls of kernels for all shards together.

Every buffer of every record batch is reached from one base address, as an index into one array over the stretch of the
address space in which they lie. Kernels read from slices of it, because the compiler sees that an index cannot be
negative: eight times as fast as indices into the whole memory. Rows are located first and then copied: they are all
over the memory, and many are waited for at once.

Promise: whatever bytes a mapped file holds, nothing is read outside of the buffers of its columns, and no id comes out
that the vocabulary does not have: such rows raise Damaged, which names their file.

Promise: a record batch is compared with its digests once, when its first row is asked for: as long as few were read,
before a row comes out, and else on a thread next to the reader. Once one is found to be damaged every call raises
Damaged, and so does `check_read`, which waits: it returns only if all that was read so far is what was written.

Cost: see `shards.reading.loader`.
"""

import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpora.kernels.arrays import Bytes, Ids, Int32s, Int64s, UInt16s, UInt64s
from corpora.kernels.compiling import kernel
from corpora.kernels.packed import store8
from corpora.store.damage import Damaged
from corpora.store.tables import MappedBatch, map_part_table
from shards.masks.masking import MAX_MASKED_LENGTH, Masks
from shards.reading.files.shard_set import DOCUMENT_COLUMNS, ShardSet

EXAMPLE_ID, BOUNDARY, LABEL = range(3)  # rows of `plain` below
FLAG_PADDING_BYTES = 8  # bytes after the flags of `copy_bits` that it may write to
_SPREAD, _BIT_OF_BYTE = np.uint64(0x0101010101010101), np.uint64(0x8040201008040201)
_LOW_SEVEN, _7, _8 = np.uint64(0x7F7F7F7F7F7F7F7F), np.uint64(7), np.uint64(8)


@kernel
def locate_lists(
    memory: Int32s,
    offset_starts: Int64s,
    counts: Int64s,
    batch_starts: Int64s,
    examples: Int64s,
    batches: Int64s,
    firsts: Int64s,
    offsets: Int64s,
) -> int:
    """Find the lists of some examples. Return the first row with a list outside its record batch's values, or -1.

    memory:        all memory as int32
    offset_starts: int64 [batches], the start of the offsets of each record batch in `memory`
    counts:        int64 [batches], the number of values of each record batch
    batch_starts:  int64 [batches + 1], the first example of each record batch, and the number of all examples
    examples:      int64 [n], which must be in range
    batches:       int64 [n], gets the record batch of each example
    firsts:        int64 [n], gets the number of the list's first value in its record batch
    offsets:       int64 [n + 1], gets the start of each list in the result
    """
    for row in range(len(examples)):
        low, size = 0, len(batch_starts) - 1
        while size > 1:  # without branches: what is drawn at random cannot be guessed
            half = size >> 1
            low += half * (batch_starts[low + half] <= examples[row])
            size -= half
        batches[row] = low
        position = offset_starts[low] + examples[row] - batch_starts[low]
        firsts[row] = memory[position]
        offsets[row + 1] = memory[position + 1]
    offsets[0] = 0
    for row in range(len(examples)):
        first, end = firsts[row], offsets[row + 1]
        if not 0 <= first <= end <= counts[batches[row]]:
            return row
        offsets[row + 1] = offsets[row] + end - first
    return -1


@kernel
def gather_lists(
    memory: Any, values: Int64s, limit: int, batches: Int64s, firsts: Int64s, offsets: Int64s, copied: Any
) -> int:
    """Copy lists from memory. Return the first index in `copied` with a value that is not below `limit`, or -1.

    values: int64 [batches], the start of the values of each record batch in `memory`; the others are as in
            `locate_lists`
    """
    for row in range(len(batches)):
        source, target = memory[values[batches[row]] + firsts[row] :], copied[offsets[row] : offsets[row + 1]]
        for position in range(len(target)):
            target[position] = source[position]
    highest = copied.dtype.type(0)  # first the highest, which vectors find at once
    for position in range(len(copied)):
        highest = max(highest, copied[position])
    if highest >= limit:
        for position in range(len(copied)):
            if copied[position] >= limit:
                return position
    return -1


@kernel
def gather_fixed_width(
    memory_64: UInt64s,
    memory_16: UInt16s,
    memory_8: Bytes,
    column_starts: Int64s,
    batch_starts: Int64s,
    examples: Int64s,
    batches: Int64s,
    offsets: Int64s,
    example_ids: UInt64s,
    boundary: Int64s,
    labels: Int64s,
) -> int:
    """Copy each example's id, boundary and label. Return the first row that ends before its boundary, or -1.

    memory_64, memory_16, memory_8: all memory as numbers of this many bits
    column_starts:                  int64 [columns, batches], the start of each column in its memory
    labels:                         int64 [n], or empty if the shards have none
    """
    bad_row = -1
    for row in range(len(examples)):
        batch = batches[row]
        row_in_batch = examples[row] - batch_starts[batch]
        example_ids[row] = memory_64[column_starts[EXAMPLE_ID, batch] + row_in_batch]
        boundary[row] = memory_16[column_starts[BOUNDARY, batch] + row_in_batch]
        if len(labels):
            labels[row] = memory_8[column_starts[LABEL, batch] + row_in_batch]
        if boundary[row] > offsets[row + 1] - offsets[row] and bad_row < 0:
            bad_row = row
    return bad_row


@kernel
def gather_bits(memory: Bytes, values: Int64s, batches: Int64s, firsts: Int64s, offsets: Int64s, flags: Bytes) -> None:
    """Copy lists of bits to one byte each, 0 or 1. In Arrow the first bit of a byte is its lowest.

    flags: uint8 [values + FLAG_PADDING_BYTES]; eight are written at a time, and those past a row are overwritten by the
           next
    """
    for row in range(len(batches)):
        source, shift = memory[values[batches[row]] + (firsts[row] >> 3) :], np.uint64(firsts[row] & 7)
        length = offsets[row + 1] - offsets[row]
        for position in range(0, length, 8):
            pair = np.uint64(source[position >> 3])
            if np.int64(shift) + length - position > 8:
                pair |= np.uint64(source[(position >> 3) + 1]) << _8
            bits = pair >> shift & np.uint64(0xFF)
            chosen = (bits * _SPREAD) & _BIT_OF_BYTE
            store8(flags, offsets[row] + position, ((chosen + _LOW_SEVEN) >> _7 | chosen >> _7) & _SPREAD)


UNREAD, READ, SOUND = 0, 1, 2  # what is known of a record batch
MAX_BATCHES_AT_ONCE = 16  # are checked at once, in a millisecond or two
_FIXED_WIDTH = {"example_id": np.uint64, "boundary": np.uint16, "label": np.uint8}  # as the kernels number them


class ExampleRows(NamedTuple):
    """n examples as they are stored, one after another."""

    ids: Ids
    word_starts: Bytes  # one a token
    offsets: Int64s  # [n + 1], into both
    example_ids: UInt64s  # [n]
    boundary: Int64s  # [n]
    labels: Int64s | None  # [n]


class _ListColumn(NamedTuple):
    """A column of lists: for each record batch, where its offsets and values begin in memory, and how many it has."""

    dtype: Any
    offset_starts: Int64s
    value_starts: Int64s
    counts: Int64s


class _ListRows(NamedTuple):
    """The lists of n rows: the record batch of each, its first value there, and where it begins in the result."""

    batches: Int64s
    firsts: Int64s
    offsets: Int64s


class ExampleColumns:
    """The columns of a split, open for reading rows.

    shards: the numbers of the shards to open, ascending; None: all

    Raises Damaged if a file is not laid out as its record says. Its contents are compared with their digests when rows
    are read.
    """

    def __init__(self, shard_set: ShardSet, shards: Sequence[int] | None = None) -> None:
        folder, schema = shard_set.manifest.stage_folder, shard_set.schema
        names = [name for name in schema.names if name not in DOCUMENT_COLUMNS]
        self._set = shard_set
        self._vocab_size: int = shard_set.manifest.facts["vocab_size"]
        mapped, starts = list[MappedBatch](), list[int]()
        for shard in range(len(shard_set.parts)) if shards is None else shards:
            first, part = shard_set.find_first_example(shard), shard_set.parts[shard]
            for batch in map_part_table(shard_set.place, folder, part, "examples", names):
                mapped.append(batch)
                starts.append(first)
                first += batch.rows.num_rows
        self._batches = [batch.rows for batch in mapped]  # they keep the memory mapped
        self._checks = [batch.check for batch in mapped]
        self._states = np.zeros(len(mapped), np.uint8)
        self._thread: threading.Thread | None = None
        self._damage: Damaged | None = None
        self._starts = np.array([*starts, len(shard_set)], np.int64)
        buffers = [b for batch in self._batches for column in batch.columns for b in column.buffers() if b is not None]
        self._base = min(buffer.address for buffer in buffers if buffer.size) & ~7
        self._size = max(buffer.address + buffer.size for buffer in buffers) - self._base
        self._memories: dict[Any, npt.NDArray[Any]] = {}
        self._lists = {name: self._locate_lists(name) for name in names if pa.types.is_list(schema.field(name).type)}
        self._fixed_starts = np.stack(
            [self._locate(name, 1, kind) for name, kind in _FIXED_WIDTH.items() if name in names]
        )
        self._has_labels = "label" in names

    def read_rows(self, examples: Int64s, with_word_starts: bool) -> ExampleRows:
        """Read examples by number, in the given order, also deleted ones.

        examples:         int64 [n]; they must be in open shards, which is not checked
        with_word_starts: if False, word starts are not read and are all 0

        Raises Damaged if a row lies outside its file's buffers or has an id that is not in the vocabulary. Any other
        damage is raised here or, once many record batches were read, by a later call: see `check_read`.
        """
        ids, lists = self._read_values("ids", examples, self._vocab_size)
        num = len(examples)
        example_ids, boundary = np.empty(num, np.uint64), np.empty(num, np.int64)
        labels = np.empty(num if self._has_labels else 0, np.int64)
        bad_row = gather_fixed_width(
            self._view(np.uint64), self._view(np.uint16), self._view(np.uint8), self._fixed_starts, self._starts,
            examples, lists.batches, lists.offsets, example_ids, boundary, labels,
        )  # fmt: skip
        self._refuse(bad_row, examples, "the second segment of an example begins past its end")
        starts = self._read_word_starts(lists) if with_word_starts else np.zeros(len(ids), np.uint8)
        return ExampleRows(ids, starts, lists.offsets, example_ids, boundary, labels if self._has_labels else None)

    def find_lengths(self, examples: Int64s) -> Int64s:
        """Return the length of each example in tokens: int64 [examples]. The tokens are not read."""
        return np.diff(self._find_lists("ids", examples).offsets)

    def read_masks(self, examples: Int64s, rows: ExampleRows) -> Masks:
        """Read the static masks of examples. rows: what `read_rows` returned for them

        Raises Damaged if a masked position is past the end of its example.
        """
        positions, lists = self._read_values("mask_positions", examples, MAX_MASKED_LENGTH)
        replacements, others = self._read_values("mask_ids", examples, self._vocab_size)
        differs = np.diff(lists.offsets) != np.diff(others.offsets)
        self._refuse(
            _find_first(differs), examples, "an example has other numbers of masked places and of what is seen there"
        )
        owners = np.repeat(np.arange(len(examples)), np.diff(lists.offsets))
        late = _find_first(positions >= np.diff(rows.offsets)[owners])
        self._refuse(int(owners[late]) if late >= 0 else -1, examples, "a masked place is past the end of its example")
        return Masks(positions, lists.offsets, replacements)

    def sample_values(self, name: str, num_values: int) -> list[npt.NDArray[Any]]:
        """Return about `num_values` values of a list column; all if it has fewer.

        They are from record batches at equal distances.
        """
        total = sum(len(batch.column(name).flatten()) for batch in self._batches)
        numbers = np.arange(0, len(self._batches), max(1, total // num_values))
        self._note_read(numbers)
        return [self._batches[number].column(name).flatten().to_numpy() for number in numbers.tolist()]

    def check_read(self) -> None:
        """Wait until all that was read so far is checked. Raises Damaged if a file is not what was written.

        It is checked here as well as on the thread, so that nothing depends on the thread: a forked process has none.
        """
        while len(numbers := np.flatnonzero(self._states == READ)):
            for number in numbers.tolist():
                self._checks[number]()
                self._states[number] = SOUND

    def _note_read(self, numbers: Int64s) -> None:
        """Have the record batches checked that are being read. Raises Damaged if one is known to be damaged."""
        if self._damage is not None:
            raise self._damage
        new = numbers[self._states[numbers] == UNREAD]
        if not len(new):
            return
        self._states[new] = READ
        if np.count_nonzero(self._states) <= MAX_BATCHES_AT_ONCE:
            self.check_read()
        elif self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._check_aside, daemon=True)
            self._thread.start()

    def _check_aside(self) -> None:
        """Check what was read, on the thread, and keep the damage for the next call."""
        try:
            self.check_read()
        except Damaged as damage:
            self._damage = damage

    def _find_lists(self, name: str, examples: Int64s) -> _ListRows:
        """Locate the lists of a column for these examples."""
        num, column = len(examples), self._lists[name]
        lists = _ListRows(np.empty(num, np.int64), np.empty(num, np.int64), np.empty(num + 1, np.int64))
        bad_row = locate_lists(
            self._view(np.int32), column.offset_starts, column.counts, self._starts, examples, *lists
        )
        self._refuse(bad_row, examples, f"a list of column {name} is not among the column's values")
        self._note_read(lists.batches)
        return lists

    def _read_values(self, name: str, examples: Int64s, limit: int) -> tuple[Any, _ListRows]:
        """Read the lists of a column, one after another, and return them with their location.

        Raises Damaged if a value is not below `limit`.
        """
        column, lists = self._lists[name], self._find_lists(name, examples)
        values = np.empty(lists.offsets[-1], column.dtype)
        bad_value = gather_lists(self._view(column.dtype), column.value_starts, limit, *lists, values)
        row = int(np.searchsorted(lists.offsets, bad_value, side="right")) - 1
        self._refuse(row, examples, f"column {name} holds a number that is not below {limit}")
        return values, lists

    def _read_word_starts(self, lists: _ListRows) -> Bytes:
        """Read one flag per token, 0 or 1."""
        flags = np.empty(lists.offsets[-1] + FLAG_PADDING_BYTES, np.uint8)
        gather_bits(self._view(np.uint8), self._lists["word_starts"].value_starts, *lists, flags)
        return flags[:-FLAG_PADDING_BYTES]

    def _refuse(self, row: int, examples: Int64s, problem: str) -> None:
        """Raise Damaged for this row, unless it is -1."""
        if row >= 0:
            raise Damaged(self._set.find_path(int(examples[row])), problem)

    def _locate_lists(self, name: str) -> _ListColumn:
        """Locate a list column in every record batch."""
        value_type = self._set.schema.field(name).type.value_type
        dtype = np.uint8 if pa.types.is_boolean(value_type) else value_type.to_pandas_dtype()
        counts = np.array([len(batch.column(name).values) for batch in self._batches])
        return _ListColumn(dtype, self._locate(name, 1, np.int32), self._locate(name, 3, dtype), counts)

    def _locate(self, name: str, buffer: int, dtype: npt.DTypeLike) -> Int64s:
        """Return where a column's buffer begins in every record batch, counted from the base address in items of this
        type.
        """
        columns = [batch.column(name) for batch in self._batches]
        assert all(column.offset == 0 for column in columns), "a file's columns begin where their buffers do"
        buffers = [column.buffers()[buffer] for column in columns]
        addresses = [b.address if b is not None and b.size else self._base for b in buffers]  # nothing is read there
        starts: Int64s = (np.array(addresses, np.int64) - self._base) // np.dtype(dtype).itemsize
        return starts

    def _view(self, item_type: Any) -> npt.NDArray[Any]:
        """Return the memory from the first buffer to the last as items of a type. What is between buffers must not be
        read.
        """
        if item_type not in self._memories:
            dtype = np.dtype(item_type)
            shape = (-(-self._size // dtype.itemsize),)
            interface = {"data": (self._base, True), "shape": shape, "typestr": dtype.str, "version": 3}
            self._memories[item_type] = np.asarray(SimpleNamespace(__array_interface__=interface))
        return self._memories[item_type]


def _find_first(flags: npt.NDArray[np.bool_]) -> int:
    """Return the index of the first flag that is set, or -1."""
    return int(flags.argmax()) if flags.any() else -1
