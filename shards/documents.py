"""Read the documents of a shard from the token parts of a generation, in order, as flat arrays.

    token parts ─► record batches that may hold the range ─► their rows of the range, copied ─► one order ─► documents

Promise: the documents with a shuffle hash in the range, by (shuffle, id), however rows are divided into parts and
batches. A record batch is read only if its first and last shuffle hash enclose some of the range, and only its columns
`TOKEN_COLUMNS`, with the source if sources are chosen. Kernels copy lists as they are; a bit becomes a byte.

Cost: unpacking every batch once, if one thread reads ranges in their order, and copying every token three times; for
each part and shard 0.1 ms, and 0.6 ms more if a part is opened; a nanosecond for each bit (one x86-64 core, shared at
the time). Memory: the tokens of a shard twice, and `MAX_CACHED_BYTES` of batches that later ranges continue in; a part
with a batch that finds no room is opened for every shard.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from corpora.kernels.arrays import Bytes, Ids, Int32s, Int64s, UInt64s, copy_values
from corpora.kernels.compiling import kernel
from corpora.kernels.fixed_width import to_byte_matrix
from corpora.store.manifest import Part
from corpora.store.places.place import Place
from corpora.store.randomness import fold
from corpora.store.tables import find_key_rows, read_part_table
from corpora.text.buffers import make_read_only
from shards.builders.contract import DocumentTokens
from shards.schema import build_token_schema


@kernel
def copy_lists(values: Any, offsets: Int64s, rows: Int64s, targets: Int64s, copied: Any) -> None:
    """Copy the selected rows of a list column into one contiguous array.

    Args:
        values: The column's values, one list after another.
        offsets: int64 [rows of the column + 1], the start of each list in `values`.
        rows: int64 [n], indices of the rows to copy.
        targets: int64 [at least n], the index in `copied` at which each list is written. It is computed by the caller.
        copied: The array to which the lists are written, with the type of `values`.
    """
    for number in range(len(rows)):
        first, last = offsets[rows[number]], offsets[rows[number] + 1]
        target = targets[number]
        copy_values(values[first:last], copied[target : target + last - first])


@kernel
def copy_bits(bits: Bytes, bits_before: int, offsets: Int64s, rows: Int64s, targets: Int64s, copied: Bytes) -> None:
    """Unpack the selected rows of a list column of packed bits into one array with one byte (0 or 1) per bit.

    The bits of a byte are stored least significant bit first, as in Arrow.

    Args:
        bits: uint8, the buffer with the column's bits.
        bits_before: Number of bits in the buffer before the column's first value.
        offsets: int64 [rows of the column + 1], the start of each list, in bits after `bits_before`.
        rows: int64 [n], indices of the rows to copy.
        targets: int64 [at least n], the index in `copied` at which each list is written. It is computed by the caller.
        copied: uint8, the output array.
    """
    for number in range(len(rows)):
        first, last = bits_before + offsets[rows[number]], bits_before + offsets[rows[number] + 1]
        shift = targets[number] - first
        for bit in range(first, last):
            copied[bit + shift] = (bits[bit >> 3] >> (bit & 7)) & 1


MAX_CACHED_BYTES = 64 << 20  # those of some 325 parts: more are merged first
TOKEN_COLUMNS = ("shuffle", "id", "revision", "held_out", "ids", "word_starts", "sentence_lengths")


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSelection:
    """Selects the documents of a shard by shuffle hash, split and source.

    Attributes:
        first: Lowest shuffle hash.
        last: Highest shuffle hash.
        held_out: Whether to select the held-out split instead of the training split.
        sources: Names of sources. If empty, all are selected.
    """

    first: int = 0
    last: int = (1 << 64) - 1
    held_out: bool = False
    sources: tuple[str, ...] = ()


class ShardDocuments(NamedTuple):
    """The documents of a shard, ordered by (shuffle hash, id), with the id and revision of each."""

    tokens: DocumentTokens
    ids: Bytes  # [documents, ID_BYTES]
    revisions: Int64s  # [documents]


class TokenRows(NamedTuple):
    """Rows of tokenized documents as flat arrays. The tokens and sentences of all rows are concatenated."""

    shuffle: UInt64s  # [rows]
    ids: Bytes  # [rows, ID_BYTES]
    revisions: Int64s  # [rows]
    num_tokens: Int64s  # [rows]
    num_sentences: Int64s  # [rows]
    token_ids: Ids  # [tokens]
    word_starts: Bytes  # [tokens]
    sentence_lengths: Int32s  # [sentences]


def read_documents(
    place: Place, stage_folder: str, parts: Iterable[Part], selection: DocumentSelection, id_type: pa.DataType
) -> ShardDocuments:
    """Read the documents of one shard, ordered by (shuffle hash, id).

    If the last record batch of a file extends past the range, it is cached for this thread, up to `MAX_CACHED_BYTES` in
    total. A thread that reads adjacent ranges in ascending order therefore unpacks such a batch only once.

    Args:
        place: The store.
        stage_folder: Folder of the artifact with the tokenized documents.
        parts: Parts of this artifact that may contain the documents.
        selection: Which documents to read.
        id_type: Arrow type of the token ids.

    Raises:
        Damaged: A part is damaged or was changed.
    """
    cached, free_bytes = getattr(_cache, "batches", {}), MAX_CACHED_BYTES
    _cache.batches = {}
    pieces = [build_empty_rows(id_type)]
    for part in parts:
        address = (place, stage_folder, part.record, selection.held_out, selection.sources)
        batch: UnpackedBatch | None = None
        for batch in _iter_batches(place, stage_folder, part, selection, cached.get(address)):
            pieces.append(batch.select_between(selection.first, selection.last))
        if batch is not None and batch.last_key > selection.last and batch.num_bytes <= free_bytes:
            _cache.batches[address] = batch
            free_bytes -= batch.num_bytes
    rows = join_rows(pieces)
    pieces.clear()  # their tokens are copied once more
    return sort_documents(rows)


_cache = threading.local()


class UnpackedBatch(NamedTuple):
    """The rows of a record batch that belong to the selected split and sources, in file order."""

    rows_in_part: range  # of all rows of the batch in its part
    last_key: int  # the shuffle hash of its last row
    rows: TokenRows
    token_offsets: Int64s  # [rows + 1], where the tokens of each begin
    sentence_offsets: Int64s  # [rows + 1]

    @property
    def num_bytes(self) -> int:
        """Memory used by the rows in bytes, without the offsets."""
        return sum(column.nbytes for column in self.rows)

    def select_between(self, first: int, last: int) -> TokenRows:
        """Return the rows with a shuffle hash in [first, last]. The arrays are copies, unless all rows are selected."""
        rows, keys = self.rows, self.rows.shuffle
        start = int(np.searchsorted(keys, np.uint64(first), "left"))
        stop = int(np.searchsorted(keys, np.uint64(last), "right"))
        if stop - start == len(keys):
            return rows
        tokens = slice(self.token_offsets[start], self.token_offsets[stop])
        sentences = slice(self.sentence_offsets[start], self.sentence_offsets[stop])
        return TokenRows(
            shuffle=keys[start:stop].copy(),
            ids=rows.ids[start:stop].copy(),
            revisions=rows.revisions[start:stop].copy(),
            num_tokens=rows.num_tokens[start:stop].copy(),
            num_sentences=rows.num_sentences[start:stop].copy(),
            token_ids=rows.token_ids[tokens].copy(),
            word_starts=rows.word_starts[tokens].copy(),
            sentence_lengths=rows.sentence_lengths[sentences].copy(),
        )


def _iter_batches(
    place: Place, stage_folder: str, part: Part, selection: DocumentSelection, cached: UnpackedBatch | None
) -> Iterator[UnpackedBatch]:
    """Yield the record batches of a part that may contain selected documents.

    Args:
        place: The store.
        stage_folder: Folder of the artifact.
        part: The part to read.
        selection: Which documents to read.
        cached: The batch of this part in which the thread's last range ended, or None. It is only used if the range
            starts in it.
    """
    span = find_key_rows(place, stage_folder, part, "tokens", selection.first, selection.last)
    if cached is not None and cached.rows_in_part.start == span.start:
        yield cached
        span = range(cached.rows_in_part.stop, span.stop)
    columns = (*TOKEN_COLUMNS, "source") if selection.sources else TOKEN_COLUMNS
    start = span.start
    for batch in read_part_table(place, stage_folder, part, "tokens", columns, span) if span else ():
        yield unpack_batch(batch, selection, start)
        start += batch.num_rows


def unpack_batch(batch: pa.RecordBatch, selection: DocumentSelection, start: int = 0) -> UnpackedBatch:
    """Unpack the rows of a record batch that belong to the selected split and sources.

    The selection's range of shuffle hashes is not applied. Use `UnpackedBatch.select_between` for that.

    Args:
        batch: Rows with the columns `TOKEN_COLUMNS`, and "source" if sources are selected.
        selection: Split and sources to select.
        start: Index of the batch's first row within its part.
    """
    keys = batch.column("shuffle").to_numpy()
    is_selected = batch.column("held_out").to_numpy(zero_copy_only=False) == selection.held_out
    if selection.sources:
        sources = pa.array(selection.sources, pa.string())
        is_selected &= pc.is_in(batch.column("source"), value_set=sources).to_numpy(zero_copy_only=False)
    rows = take_rows(batch, np.flatnonzero(is_selected))
    return UnpackedBatch(
        rows_in_part=range(start, start + batch.num_rows),
        last_key=int(keys[-1]) if len(keys) else 0,
        rows=rows,
        token_offsets=to_offsets(rows.num_tokens),
        sentence_offsets=to_offsets(rows.num_sentences),
    )


def take_rows(batch: pa.RecordBatch, rows: Int64s) -> TokenRows:
    """Copy the rows with these indices from a record batch of tokenized documents into flat arrays.

    Args:
        batch: Rows with the columns `TOKEN_COLUMNS`.
        rows: int64 [n], indices of rows of the batch.
    """
    tokens, word_starts, lengths = (batch.column(name) for name in ("ids", "word_starts", "sentence_lengths"))
    token_ids, num_tokens = _copy_lists(tokens.values.to_numpy(), tokens.offsets.to_numpy(), rows)
    sentence_lengths, num_sentences = _copy_lists(lengths.values.to_numpy(), lengths.offsets.to_numpy(), rows)
    return TokenRows(
        shuffle=batch.column("shuffle").to_numpy()[rows],
        ids=to_byte_matrix(batch.column("id"))[rows],
        revisions=batch.column("revision").to_numpy()[rows],
        num_tokens=num_tokens,
        num_sentences=num_sentences,
        token_ids=token_ids,
        word_starts=_copy_bits(word_starts, rows, num_tokens),
        sentence_lengths=sentence_lengths,
    )


def build_empty_rows(id_type: pa.DataType) -> TokenRows:
    """Build a `TokenRows` without rows, for token ids of this Arrow type (uint16 or uint32)."""
    batch = pa.RecordBatch.from_pylist([], build_token_schema(id_type))
    return take_rows(batch, np.zeros(0, np.int64))


def join_rows(pieces: Sequence[TokenRows]) -> TokenRows:
    """Concatenate the rows of several batches. `pieces` must not be empty."""
    return TokenRows(*(np.concatenate(column) for column in zip(*pieces, strict=True)))


def sort_documents(rows: TokenRows) -> ShardDocuments:
    """Sort rows by (shuffle hash, id) and convert them to the documents of a shard."""
    big_endian = rows.ids.view(">u8").astype(np.uint64)
    order = np.lexsort((big_endian[:, 1], big_endian[:, 0], rows.shuffle))
    tokens, sentences = to_offsets(rows.num_tokens), to_offsets(rows.num_sentences)
    sentence_lengths, num_sentences = _copy_lists(rows.sentence_lengths, sentences, order)
    ids, revisions = rows.ids[order], rows.revisions[order]
    columns = DocumentTokens(
        ids=_copy_lists(rows.token_ids, tokens, order)[0],
        word_starts=_copy_lists(rows.word_starts, tokens, order)[0],
        sentences=to_offsets(sentence_lengths),
        documents=to_offsets(num_sentences),
        keys=hash_documents(ids, revisions),
    )
    return ShardDocuments(tokens=columns, ids=ids, revisions=revisions)


def select_documents_plain(table: pa.Table, selection: DocumentSelection) -> ShardDocuments:
    """Reference implementation of `read_documents` with Arrow's own functions, for tests.

    Args:
        table: All rows of a corpus update, with the columns of `build_token_schema`.
        selection: Which documents to select.

    Returns:
        The selected documents, ordered by (shuffle hash, id).
    """
    keys, held_out = table.column("shuffle"), table.column("held_out")
    first, last = pa.scalar(selection.first, pa.uint64()), pa.scalar(selection.last, pa.uint64())
    is_selected = pc.and_(pc.greater_equal(keys, first), pc.less_equal(keys, last))
    is_selected = pc.and_(is_selected, pc.equal(held_out, selection.held_out))
    if selection.sources:
        sources = pa.array(selection.sources, pa.string())
        is_selected = pc.and_(is_selected, pc.is_in(table.column("source"), value_set=sources))
    rows = table.filter(is_selected).sort_by([("shuffle", "ascending"), ("id", "ascending")])
    ids = to_byte_matrix(rows.column("id").combine_chunks())
    revisions = rows.column("revision").to_numpy()
    columns = DocumentTokens(
        ids=pc.list_flatten(rows.column("ids")).to_numpy(),
        word_starts=pc.list_flatten(rows.column("word_starts")).to_numpy().astype(np.uint8),
        sentences=to_offsets(pc.list_flatten(rows.column("sentence_lengths")).to_numpy()),
        documents=to_offsets(pc.list_value_length(rows.column("sentence_lengths")).to_numpy()),
        keys=hash_documents(ids, revisions),
    )
    return ShardDocuments(tokens=columns, ids=ids, revisions=revisions)


def hash_documents(ids: Bytes, revisions: Int64s) -> UInt64s:
    """Return a 64-bit hash of each document's id and revision: uint64 [documents].

    Args:
        ids: Document ids, 16 bytes each.
        revisions: Revision of each document, in the same order.
    """
    halves = ids.view(np.uint64)
    return fold(fold(halves[:, 0], halves[:, 1]), revisions.astype(np.uint64))


def to_offsets(lengths: npt.NDArray[Any]) -> Int64s:
    """Return the start of each item when items of these lengths are concatenated, and the total length: int64 [n + 1].

    >>> to_offsets(np.array([2, 3])).tolist()
    [0, 2, 5]
    """
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _copy_lists(values: npt.NDArray[Any], offsets: Int64s, rows: Int64s) -> tuple[npt.NDArray[Any], Int64s]:
    """Concatenate some rows of a list column.

    Args:
        values: The column's values, one list after another.
        offsets: int64 [rows of the column + 1], the start of each list in `values`.
        rows: int64 [n], indices of the rows to copy.

    Returns:
        The concatenated values, and the length of each of these lists (int64 [n]).
    """
    lengths = offsets[rows + 1] - offsets[rows]
    targets = to_offsets(lengths)
    copied = np.empty(targets[-1], values.dtype)
    copy_lists(make_read_only(values), make_read_only(offsets), rows, targets, copied)
    return copied, lengths


def take_lists(column: pa.LargeListArray, rows: Int64s) -> pa.LargeListArray:
    """Return the rows of a list column at the indices in `rows`, in this order, as `pyarrow.compute.take` does.

    The column must be a list of numbers or booleans without nulls.
    """
    offsets = column.offsets.to_numpy()
    targets = to_offsets(offsets[rows + 1] - offsets[rows])
    if pa.types.is_boolean(column.type.value_type):
        bits = np.packbits(_copy_bits(column, rows, np.diff(targets)), bitorder="little")
        values = pa.BooleanArray.from_buffers(pa.bool_(), int(targets[-1]), [None, pa.py_buffer(bits)])
    else:
        values = pa.array(_copy_lists(column.values.to_numpy(), offsets, rows)[0])
    return pa.LargeListArray.from_arrays(pa.array(targets), values)


def _copy_bits(column: pa.LargeListArray, rows: Int64s, lengths: Int64s) -> Bytes:
    """Concatenate some rows of a boolean list column as bytes (0 or 1): uint8, flat.

    Args:
        column: The column.
        rows: int64 [n], indices of the rows to copy.
        lengths: int64 [n], the length of the list in each of these rows.
    """
    targets, bits = to_offsets(lengths), column.values
    copied = np.empty(targets[-1], np.uint8)
    data = np.frombuffer(bits.buffers()[1] or b"", np.uint8)
    copy_bits(make_read_only(data), bits.offset, make_read_only(column.offsets.to_numpy()), rows, targets, copied)
    return copied
