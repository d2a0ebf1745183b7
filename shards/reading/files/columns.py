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
    """Find where the lists of the given examples start and end in a list column, and check that they are within bounds.

    Args:
        memory: int32, a view of all mapped memory.
        offset_starts: int64 [batches], the index in `memory` at which the list offsets of each record batch begin.
        counts: int64 [batches], the number of values in each record batch.
        batch_starts: int64 [batches + 1], the index of the first example of each record batch. The last entry is not
            read.
        examples: int64 [n], indices of examples. They are not bounds-checked.
        batches: int64 [n], filled with the record batch of each example.
        firsts: int64 [n], filled with the index of the list's first value within its record batch.
        offsets: int64 [n + 1], filled with the start of each list when all lists are concatenated.

    Returns:
        -1, or the index in `examples` of the first list outside its record batch's values. In that case the outputs
        must not be used.
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
    """Concatenate lists and check that their values are below `limit`.

    Args:
        memory: A view of all mapped memory as items of the column's type.
        values: int64 [batches], the index in `memory` at which the values of each record batch begin.
        limit: Exclusive upper bound of valid values.
        batches: int64 [n], the record batch of each list, from `locate_lists`.
        firsts: int64 [n], the index of each list's first value within its record batch, from `locate_lists`.
        offsets: int64 [n + 1], the start of each list in `copied`, from `locate_lists`.
        copied: [values], the output array.

    Returns:
        -1, or the first index in `copied` with a value that is not below `limit`.
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
    """Copy the id, first-segment length and label of each example, and check the lengths.

    No first segment may be longer than its example.

    Args:
        memory_64, memory_16, memory_8: Views of all mapped memory as integers of 64, 16 and 8 bits.
        column_starts: int64 [columns, batches], the index in its view at which each column of each record batch begins.
        batch_starts: int64 [batches + 1], the index of the first example of each record batch.
        examples: int64 [n], indices of examples.
        batches: int64 [n], the record batch of each example, from `locate_lists`.
        offsets: int64 [n + 1], the start of each example's tokens, from `locate_lists`.
        example_ids: uint64 [n], the output array.
        boundary: int64 [n], filled with the number of tokens of the first segment.
        labels: int64 [n], the output array. It may be empty if the shards have no labels.

    Returns:
        -1, or the index in `examples` of the first example that is shorter than its first segment. The values of all
        examples are copied in either case.
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
    """Unpack lists of packed bits into `flags`, which has one byte (0 or 1) per bit.

    The bits of a byte are stored least significant bit first, as in Arrow.

    Args:
        memory: uint8, a view of all mapped memory.
        values: int64 [batches], the index in `memory` at which the bits of each record batch begin.
        batches: int64 [n], the record batch of each list, from `locate_lists`.
        firsts: int64 [n], the index of each list's first bit within its record batch, from `locate_lists`.
        offsets: int64 [n + 1], the start of each list in `flags`, from `locate_lists`.
        flags: uint8 [bits + FLAG_PADDING_BYTES], the output array. Bytes are written eight at a time, so the padding is
            overwritten.
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
    """A batch of n examples as stored on disk, one after another, without masks."""

    ids: Ids
    word_starts: Bytes  # one a token
    offsets: Int64s  # [n + 1], into both
    example_ids: UInt64s  # [n]
    boundary: Int64s  # [n]
    labels: Int64s | None  # [n]


class _ListColumn(NamedTuple):
    """Location of a list column in memory.

    Attributes:
        dtype: Type of the values.
        offset_starts: int64 [batches], the index in memory, in 32-bit items, of each record batch's list offsets.
        value_starts: int64 [batches], the index in memory, in items of `dtype`, of each record batch's values.
        counts: int64 [batches], the number of values in each record batch.
    """

    dtype: Any
    offset_starts: Int64s
    value_starts: Int64s
    counts: Int64s


class _ListRows(NamedTuple):
    """Location of n lists.

    Attributes:
        batches: int64 [n], the record batch of each list.
        firsts: int64 [n], the index of each list's first value within its record batch.
        offsets: int64 [n + 1], the start of each list when all lists are concatenated.
    """

    batches: Int64s
    firsts: Int64s
    offsets: Int64s


class ExampleColumns:
    """The memory-mapped columns of a split, for reading examples by index.

    Args:
        shard_set: The split. It must contain examples.
        shards: Indices of the shards to open, ascending. None opens all shards.

    Raises:
        Damaged: The layout of a file differs from its metadata. File contents are only verified when rows are read.
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
        """Read examples by index, in the given order. Deleted examples are read like any others.

        Args:
            examples: int64 [n], indices of examples, which must be in open shards. This is not checked.
            with_word_starts: Whether to read the word starts. If False, they are all 0.

        Raises:
            Damaged: A row lies outside its file's buffers or contains an id that is not in the vocabulary. Other damage
                is raised here or, once many record batches have been read, by a later call (see `check_read`).
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
        """Return the length of each example in tokens, without reading the tokens: int64 [n].

        Args:
            examples: int64 [n], indices of examples, which must be in open shards. This is not checked.

        Raises:
            Damaged: A list of tokens is outside its file's buffers, or damage was found earlier.
        """
        return np.diff(self._find_lists("ids", examples).offsets)

    def read_masks(self, examples: Int64s, rows: ExampleRows) -> Masks:
        """Read the static masks of examples.

        Args:
            examples: int64 [n], indices of examples.
            rows: The result of `read_rows` for these examples.

        Raises:
            Damaged: A masked position lies past the end of its example, or positions and replacements differ in number.
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
        """Sample about `num_values` values of a list column: one array for each record batch that was sampled.

        The record batches are evenly spaced. If the column has fewer values, all are returned.

        Args:
            name: Name of the column.
            num_values: Number of values, positive.

        Raises:
            Damaged: Damage has been found in data read so far.
        """
        total = sum(len(batch.column(name).flatten()) for batch in self._batches)
        numbers = np.arange(0, len(self._batches), max(1, total // num_values))
        self._note_read(numbers)
        return [self._batches[number].column(name).flatten().to_numpy() for number in numbers.tolist()]

    def check_read(self) -> None:
        """Wait until all data read so far from these columns has been verified.

        The check also runs in the calling thread, because a forked process does not have the background thread.

        Raises:
            Damaged: A file is damaged or was changed.
        """
        while len(numbers := np.flatnonzero(self._states == READ)):
            for number in numbers.tolist():
                self._checks[number]()
                self._states[number] = SOUND

    def _note_read(self, numbers: Int64s) -> None:
        """Register record batches as read, and verify them now or in the background.

        Args:
            numbers: int64, indices of the record batches.

        Raises:
            Damaged: Damage was found, now or earlier.
        """
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
        """Verify all data read so far (in the background thread). Damage is stored and raised by the next call."""
        try:
            self.check_read()
        except Damaged as damage:
            self._damage = damage

    def _find_lists(self, name: str, examples: Int64s) -> _ListRows:
        """Locate the lists of a column for some examples.

        Args:
            name: Name of the column.
            examples: int64 [n], indices of examples.

        Raises:
            Damaged: A list is outside the column's values, or damage was found earlier.
        """
        num, column = len(examples), self._lists[name]
        lists = _ListRows(np.empty(num, np.int64), np.empty(num, np.int64), np.empty(num + 1, np.int64))
        bad_row = locate_lists(
            self._view(np.int32), column.offset_starts, column.counts, self._starts, examples, *lists
        )
        self._refuse(bad_row, examples, f"a list of column {name} is not among the column's values")
        self._note_read(lists.batches)
        return lists

    def _read_values(self, name: str, examples: Int64s, limit: int) -> tuple[Any, _ListRows]:
        """Read and concatenate the lists of a column for some examples.

        Args:
            name: Name of the column.
            examples: int64 [n], indices of examples.
            limit: Exclusive upper bound of valid values.

        Returns:
            The values, and where they came from.

        Raises:
            Damaged: A value is not below `limit`, or a list is outside the column's values.
        """
        column, lists = self._lists[name], self._find_lists(name, examples)
        values = np.empty(lists.offsets[-1], column.dtype)
        bad_value = gather_lists(self._view(column.dtype), column.value_starts, limit, *lists, values)
        row = int(np.searchsorted(lists.offsets, bad_value, side="right")) - 1
        self._refuse(row, examples, f"column {name} holds a number that is not below {limit}")
        return values, lists

    def _read_word_starts(self, lists: _ListRows) -> Bytes:
        """Read whether each token of some examples begins a word: uint8 [tokens], 0 or 1.

        `lists` is the location of these examples' lists in the column of word starts.
        """
        flags = np.empty(lists.offsets[-1] + FLAG_PADDING_BYTES, np.uint8)
        gather_bits(self._view(np.uint8), self._lists["word_starts"].value_starts, *lists, flags)
        return flags[:-FLAG_PADDING_BYTES]

    def _refuse(self, row: int, examples: Int64s, problem: str) -> None:
        """Raise Damaged for the example at index `row` of `examples`, or do nothing if `row` is -1.

        Args:
            row: Index in `examples`, or -1 if no example is damaged.
            examples: int64 [n], indices of examples.
            problem: The error message.
        """
        if row >= 0:
            raise Damaged(self._set.find_path(int(examples[row])), problem)

    def _locate_lists(self, name: str) -> _ListColumn:
        """Find where a list column begins in every record batch. `name` is the name of the column."""
        value_type = self._set.schema.field(name).type.value_type
        dtype = np.uint8 if pa.types.is_boolean(value_type) else value_type.to_pandas_dtype()
        counts = np.array([len(batch.column(name).values) for batch in self._batches])
        return _ListColumn(dtype, self._locate(name, 1, np.int32), self._locate(name, 3, dtype), counts)

    def _locate(self, name: str, buffer: int, dtype: npt.DTypeLike) -> Int64s:
        """Return the start of a column's buffer in each record batch: int64 [batches], counted in items of `dtype`.

        Args:
            name: Name of the column.
            buffer: Index of the buffer in the Arrow column.
            dtype: Type of the buffer's items.
        """
        columns = [batch.column(name) for batch in self._batches]
        assert all(column.offset == 0 for column in columns), "a file's columns begin where their buffers do"
        buffers = [column.buffers()[buffer] for column in columns]
        addresses = [b.address if b is not None and b.size else self._base for b in buffers]  # nothing is read there
        starts: Int64s = (np.array(addresses, np.int64) - self._base) // np.dtype(dtype).itemsize
        return starts

    def _view(self, item_type: Any) -> npt.NDArray[Any]:
        """Return all memory from the first to the last buffer as a read-only array of `item_type`.

        Gaps between buffers must not be read.
        """
        if item_type not in self._memories:
            dtype = np.dtype(item_type)
            shape = (-(-self._size // dtype.itemsize),)
            interface = {"data": (self._base, True), "shape": shape, "typestr": dtype.str, "version": 3}
            self._memories[item_type] = np.asarray(SimpleNamespace(__array_interface__=interface))
        return self._memories[item_type]


def _find_first(flags: npt.NDArray[np.bool_]) -> int:
    """Return the index of the first True value, or -1 if there is none."""
    return int(flags.argmax()) if flags.any() else -1
