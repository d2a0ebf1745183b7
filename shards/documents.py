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
from corpora.text.buffers import read_only
from shards.builders.contract import DocumentTokens
from shards.schema import build_token_schema


@kernel
def copy_lists(values: Any, offsets: Int64s, rows: Int64s, targets: Int64s, copied: Any) -> None:
    """Copy the lists of some rows into one array.

    values:  the column's values, lists one after another
    offsets: int64 [rows of the column + 1], the bounds of each list in `values`
    rows:    int64 [n], the rows to copy
    targets: int64 [at least n], the start of each list in `copied`
    """
    for number in range(len(rows)):
        first, last = offsets[rows[number]], offsets[rows[number] + 1]
        target = targets[number]
        copy_values(values[first:last], copied[target : target + last - first])


@kernel
def copy_bits(bits: Bytes, bits_before: int, offsets: Int64s, rows: Int64s, targets: Int64s, copied: Bytes) -> None:
    """Copy the lists of bits of some rows into one array, one byte for each bit. The first bit of a byte is its lowest.

    bits_before: number of bits in `bits` before the column's first value; the other arguments are as in `copy_lists`
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
    """Which documents a shard holds: shuffle hashes from `first` to `last` (both included), one split, some sources.

    sources: names of sources; empty for all
    """

    first: int = 0
    last: int = (1 << 64) - 1
    held_out: bool = False
    sources: tuple[str, ...] = ()


class ShardDocuments(NamedTuple):
    """The documents of a shard in canonical order, by (shuffle, id), with the id and revision of each."""

    tokens: DocumentTokens
    ids: Bytes  # [documents, ID_BYTES]
    revisions: Int64s  # [documents]


class TokenRows(NamedTuple):
    """Rows of token parts as flat arrays: rows chosen from one record batch, or the rows of several, joined."""

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
    """Read the documents of one shard from the parts of its generation.

    stage_folder: folder of the parts' artifact
    id_type:      Arrow type of token ids

    A thread that reads one range after another unpacks each record batch once: the last batch of each part is cached if
    later ranges continue in it, up to `MAX_CACHED_BYTES` in total.

    Raises Damaged if a part is not what was written.
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
    """The rows of a record batch that are of the selected split and sources, in their order."""

    rows_in_part: range  # of all rows of the batch in its part
    last_key: int  # the shuffle hash of its last row
    rows: TokenRows
    token_offsets: Int64s  # [rows + 1], where the tokens of each begin
    sentence_offsets: Int64s  # [rows + 1]

    @property
    def num_bytes(self) -> int:
        """Bytes of memory of the rows, without offsets."""
        return sum(column.nbytes for column in self.rows)

    def select_between(self, first: int, last: int) -> TokenRows:
        """Return the rows with a shuffle hash in [first, last]: a copy, unless these are all rows."""
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
    """Yield the record batches of a part that may hold the range.

    cached: the batch in which the thread's last range ended; None if there is none. It is used only if the range starts
            there.
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
    """Unpack the rows of a batch that are of the selected split and sources. start: the number of its first row in its
    part

    The range of hashes is not applied: see `UnpackedBatch.select_between`.
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
    """Copy some rows of a batch into flat arrays. rows: int64, numbers of rows"""
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
    """Build the rows of a shard without documents. id_type: Arrow type of token ids"""
    batch = pa.RecordBatch.from_pylist([], build_token_schema(id_type))
    return take_rows(batch, np.zeros(0, np.int64))


def join_rows(pieces: Sequence[TokenRows]) -> TokenRows:
    """Join rows, one piece after another."""
    return TokenRows(*(np.concatenate(column) for column in zip(*pieces, strict=True)))


def sort_documents(rows: TokenRows) -> ShardDocuments:
    """Sort rows by (shuffle, id) and return them as the documents of a shard."""
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
    """Return what `read_documents` returns for a table of all rows of a generation: the reference implementation, with
    Arrow's own functions, for tests.
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
    """Return a 64-bit hash of each document's id and revision: uint64 [documents]."""
    halves = ids.view(np.uint64)
    return fold(fold(halves[:, 0], halves[:, 1]), revisions.astype(np.uint64))


def to_offsets(lengths: npt.NDArray[Any]) -> Int64s:
    """Return where things of these lengths begin if they are one after another, and where the last ends: int64 [n + 1].

    >>> to_offsets(np.array([2, 3])).tolist()
    [0, 2, 5]
    """
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _copy_lists(values: npt.NDArray[Any], offsets: Int64s, rows: Int64s) -> tuple[npt.NDArray[Any], Int64s]:
    """Return the lists of some rows, one after another, and the length of each. offsets: of all rows, into `values`"""
    lengths = offsets[rows + 1] - offsets[rows]
    targets = to_offsets(lengths)
    copied = np.empty(targets[-1], values.dtype)
    copy_lists(read_only(values), read_only(offsets), rows, targets, copied)
    return copied, lengths


def take_lists(column: pa.LargeListArray, rows: Int64s) -> pa.LargeListArray:
    """Return the lists of some rows of a column of numbers or bits without nulls, as Arrow's `take` does."""
    offsets = column.offsets.to_numpy()
    targets = to_offsets(offsets[rows + 1] - offsets[rows])
    if pa.types.is_boolean(column.type.value_type):
        bits = np.packbits(_copy_bits(column, rows, np.diff(targets)), bitorder="little")
        values = pa.BooleanArray.from_buffers(pa.bool_(), int(targets[-1]), [None, pa.py_buffer(bits)])
    else:
        values = pa.array(_copy_lists(column.values.to_numpy(), offsets, rows)[0])
    return pa.LargeListArray.from_arrays(pa.array(targets), values)


def _copy_bits(column: pa.LargeListArray, rows: Int64s, lengths: Int64s) -> Bytes:
    """Return the lists of bits of some rows as bytes, one after another. lengths: the length of each of these lists"""
    targets, bits = to_offsets(lengths), column.values
    copied = np.empty(targets[-1], np.uint8)
    data = np.frombuffer(bits.buffers()[1] or b"", np.uint8)
    copy_bits(read_only(data), bits.offset, read_only(column.offsets.to_numpy()), rows, targets, copied)
    return copied
