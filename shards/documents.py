"""Read the documents of a shard from the token parts of a generation, in order, as flat arrays.

    token parts ─► record batches that may hold the range ─► their rows of the range, copied ─► one order ─► documents

Promise: the documents whose shuffle hash lies in the range, by (shuffle, id), however rows are cut into parts and
batches. Of a part those record batches are read whose first and last shuffle hash enclose some of the range, whole, and
of these the columns of documents that `COLUMNS` names, and the source where sources are chosen.

Cost: unpacking every batch once, where one thread reads ranges in their order, and copying every token three times;
for each part and shard 0.1 ms, and 0.6 ms more where a part is opened (one x86-64 core, shared at the time). Memory:
the tokens of a shard twice, and `KEPT_BYTES` of batches that later ranges continue in; parts whose batches find no room
are opened for every shard.

The kernels that take the documents of a shard from record batches and put them in order.

Promise: rows of lists are copied as they are; a bit becomes a byte. Cost: of numbers that of copying memory, of bits
a nanosecond each.
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
from corpora.kernels.fixed_width import fixed_bytes
from corpora.store.manifest import Part
from corpora.store.places.place import Place
from corpora.store.randomness import fold
from corpora.store.tables import open_table, rows_between
from corpora.text.buffers import read_only
from shards.builders.contract import DocumentTokens
from shards.schema import token_schema


@kernel
def copy_lists(values: Any, offsets: Int64s, rows: Int64s, places: Int64s, copied: Any) -> None:
    """Put the lists of some rows at their places. offsets: [rows of the column + 1], into values"""
    for number in range(len(rows)):
        first, last = offsets[rows[number]], offsets[rows[number] + 1]
        place = places[number]
        copy_values(values[first:last], copied[place : place + last - first])


@kernel
def copy_bits(bits: Bytes, skipped: int, offsets: Int64s, rows: Int64s, places: Int64s, copied: Bytes) -> None:
    """Put the lists of bits of some rows at their places, a byte each. skipped: bits before the first value"""
    for number in range(len(rows)):
        first, last = skipped + offsets[rows[number]], skipped + offsets[rows[number] + 1]
        shift = places[number] - first
        for bit in range(first, last):
            copied[bit + shift] = (bits[bit >> 3] >> (bit & 7)) & 1


KEPT_BYTES = 64 << 20  # those of some 325 parts: more are merged first
COLUMNS = ("shuffle", "id", "revision", "held_out", "ids", "word_starts", "sentence_lengths")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRange:
    """A choice of documents: of shuffle hashes in [first, last], of one split, of some sources (none named: of any)."""

    first: int = 0
    last: int = (1 << 64) - 1
    held_out: bool = False
    sources: tuple[str, ...] = ()


class ShardDocuments(NamedTuple):
    """The documents of a shard in canonical order, and the name of each."""

    tokens: DocumentTokens
    ids: Bytes  # [documents, ID_BYTES]
    revisions: Int64s  # [documents]


class Rows(NamedTuple):
    """Rows of token parts as flat arrays: chosen of one record batch, or of several end to end."""

    shuffle: UInt64s  # [rows]
    ids: Bytes  # [rows, ID_BYTES]
    revisions: Int64s  # [rows]
    num_tokens: Int64s  # [rows]
    num_sentences: Int64s  # [rows]
    token_ids: Ids  # [tokens]
    word_starts: Bytes  # [tokens]
    sentence_lengths: Int32s  # [sentences]


def read_documents(
    place: Place, stage_folder: str, parts: Iterable[Part], shard: ShardRange, ids: pa.DataType
) -> ShardDocuments:
    """The documents of a shard, of a generation's parts. ids: the type of token ids. Raises Damaged.

    A thread that reads one range after another unpacks each record batch once: one that continues in later ranges is
    kept, for as many parts as there is room for.
    """
    before, room = getattr(_kept, "batches", {}), KEPT_BYTES
    _kept.batches = {}
    pieces = [no_rows(ids)]
    for part in parts:
        address = (place, stage_folder, part.record, shard.held_out, shard.sources)
        unpacked_batch: Unpacked | None = None
        for unpacked_batch in _batches(place, stage_folder, part, shard, before.get(address)):
            pieces.append(unpacked_batch.between(shard.first, shard.last))
        if unpacked_batch is not None and unpacked_batch.last_key > shard.last and unpacked_batch.num_bytes <= room:
            _kept.batches[address] = unpacked_batch
            room -= unpacked_batch.num_bytes
    rows = joined(pieces)
    pieces.clear()  # their tokens are copied once more
    return in_order(rows)


_kept = threading.local()


class Unpacked(NamedTuple):
    """The rows of a record batch that are of one split and of some sources, in their order."""

    place: range  # of all rows of the batch in its part
    last_key: int  # the shuffle hash of its last row
    rows: Rows
    tokens: Int64s  # [rows + 1], where the tokens of each begin
    sentences: Int64s  # [rows + 1]

    @property
    def num_bytes(self) -> int:
        """The bytes of memory that it takes."""
        return sum(column.nbytes for column in self.rows)

    def between(self, first: int, last: int) -> Rows:
        """The rows whose shuffle hash lies in [first, last]; a copy, where these are not all."""
        rows, keys = self.rows, self.rows.shuffle
        start = int(np.searchsorted(keys, np.uint64(first), "left"))
        stop = int(np.searchsorted(keys, np.uint64(last), "right"))
        if stop - start == len(keys):
            return rows
        tokens = slice(self.tokens[start], self.tokens[stop])
        sentences = slice(self.sentences[start], self.sentences[stop])
        return Rows(
            shuffle=keys[start:stop].copy(),
            ids=rows.ids[start:stop].copy(),
            revisions=rows.revisions[start:stop].copy(),
            num_tokens=rows.num_tokens[start:stop].copy(),
            num_sentences=rows.num_sentences[start:stop].copy(),
            token_ids=rows.token_ids[tokens].copy(),
            word_starts=rows.word_starts[tokens].copy(),
            sentence_lengths=rows.sentence_lengths[sentences].copy(),
        )


def _batches(
    place: Place, stage_folder: str, part: Part, shard: ShardRange, kept: Unpacked | None
) -> Iterator[Unpacked]:
    """The record batches of a part that may hold the range. kept: one of them, if the range before ended in it"""
    span = rows_between(place, stage_folder, part, "tokens", shard.first, shard.last)
    if kept is not None and kept.place.start == span.start:
        yield kept
        span = range(kept.place.stop, span.stop)
    columns = (*COLUMNS, "source") if shard.sources else COLUMNS
    start = span.start
    for batch in open_table(place, stage_folder, part, "tokens", columns, span) if span else ():
        yield unpacked(batch, shard, start)
        start += batch.num_rows


def unpacked(batch: pa.RecordBatch, shard: ShardRange, start: int = 0) -> Unpacked:
    """The rows of a batch that are of the chosen split and sources. start: its first row in its part"""
    keys = batch.column("shuffle").to_numpy()
    wanted = batch.column("held_out").to_numpy(zero_copy_only=False) == shard.held_out
    if shard.sources:
        sources = pa.array(shard.sources, pa.string())
        wanted &= pc.is_in(batch.column("source"), value_set=sources).to_numpy(zero_copy_only=False)
    rows = taken(batch, np.flatnonzero(wanted))
    return Unpacked(
        place=range(start, start + batch.num_rows),
        last_key=int(keys[-1]) if len(keys) else 0,
        rows=rows,
        tokens=ends(rows.num_tokens),
        sentences=ends(rows.num_sentences),
    )


def taken(batch: pa.RecordBatch, rows: Int64s) -> Rows:
    """Some rows of a batch, copied."""
    tokens, starts, lengths = (batch.column(name) for name in ("ids", "word_starts", "sentence_lengths"))
    token_ids, num_tokens = _lists(tokens.values.to_numpy(), tokens.offsets.to_numpy(), rows)
    sentence_lengths, num_sentences = _lists(lengths.values.to_numpy(), lengths.offsets.to_numpy(), rows)
    return Rows(
        shuffle=batch.column("shuffle").to_numpy()[rows],
        ids=fixed_bytes(batch.column("id"))[rows],
        revisions=batch.column("revision").to_numpy()[rows],
        num_tokens=num_tokens,
        num_sentences=num_sentences,
        token_ids=token_ids,
        word_starts=_bits(starts, rows, num_tokens),
        sentence_lengths=sentence_lengths,
    )


def no_rows(ids: pa.DataType) -> Rows:
    """Return the rows of a shard without documents. ids: the type of token ids"""
    batch = pa.RecordBatch.from_pylist([], token_schema(ids))
    return taken(batch, np.zeros(0, np.int64))


def joined(pieces: Sequence[Rows]) -> Rows:
    """The rows of all pieces, one piece after another."""
    return Rows(*(np.concatenate(column) for column in zip(*pieces, strict=True)))


def in_order(rows: Rows) -> ShardDocuments:
    """The documents of some rows by (shuffle, id)."""
    big_endian = rows.ids.view(">u8").astype(np.uint64)
    order = np.lexsort((big_endian[:, 1], big_endian[:, 0], rows.shuffle))
    tokens, sentences = ends(rows.num_tokens), ends(rows.num_sentences)
    sentence_lengths, num_sentences = _lists(rows.sentence_lengths, sentences, order)
    ids, revisions = rows.ids[order], rows.revisions[order]
    columns = DocumentTokens(
        ids=_lists(rows.token_ids, tokens, order)[0],
        word_starts=_lists(rows.word_starts, tokens, order)[0],
        sentences=ends(sentence_lengths),
        documents=ends(num_sentences),
        keys=document_keys(ids, revisions),
    )
    return ShardDocuments(tokens=columns, ids=ids, revisions=revisions)


def documents_plain(table: pa.Table, shard: ShardRange) -> ShardDocuments:
    """Return what `in_order` gives of the chosen rows of a table of tokens, by Arrow's own means: the definition."""
    keys, held_out = table.column("shuffle"), table.column("held_out")
    first, last = pa.scalar(shard.first, pa.uint64()), pa.scalar(shard.last, pa.uint64())
    wanted = pc.and_(pc.greater_equal(keys, first), pc.less_equal(keys, last))
    wanted = pc.and_(wanted, pc.equal(held_out, shard.held_out))
    if shard.sources:
        sources = pa.array(shard.sources, pa.string())
        wanted = pc.and_(wanted, pc.is_in(table.column("source"), value_set=sources))
    rows = table.filter(wanted).sort_by([("shuffle", "ascending"), ("id", "ascending")])
    ids = fixed_bytes(rows.column("id").combine_chunks())
    revisions = rows.column("revision").to_numpy()
    columns = DocumentTokens(
        ids=pc.list_flatten(rows.column("ids")).to_numpy(),
        word_starts=pc.list_flatten(rows.column("word_starts")).to_numpy().astype(np.uint8),
        sentences=ends(pc.list_flatten(rows.column("sentence_lengths")).to_numpy()),
        documents=ends(pc.list_value_length(rows.column("sentence_lengths")).to_numpy()),
        keys=document_keys(ids, revisions),
    )
    return ShardDocuments(tokens=columns, ids=ids, revisions=revisions)


def document_keys(ids: Bytes, revisions: Int64s) -> UInt64s:
    """64 bits of each document's identity: its id and revision."""
    halves = ids.view(np.uint64)
    return fold(fold(halves[:, 0], halves[:, 1]), revisions.astype(np.uint64))


def ends(lengths: npt.NDArray[Any]) -> Int64s:
    """Return where things of these lengths begin when they are put end to end, and where the last one ends.

    >>> ends(np.array([2, 3])).tolist()
    [0, 2, 5]
    """
    bounds = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=bounds[1:])
    return bounds


def _lists(values: npt.NDArray[Any], offsets: Int64s, rows: Int64s) -> tuple[npt.NDArray[Any], Int64s]:
    """The lists of some rows end to end, and how long each is. offsets: of every row, into values"""
    lengths = offsets[rows + 1] - offsets[rows]
    places = ends(lengths)
    copied = np.empty(places[-1], values.dtype)
    copy_lists(read_only(values), read_only(offsets), rows, places, copied)
    return copied, lengths


def lists_of_rows(column: pa.LargeListArray, rows: Int64s) -> pa.LargeListArray:
    """The lists of some rows of a column of numbers or bits without nulls: what Arrow's `take` gives."""
    offsets = column.offsets.to_numpy()
    places = ends(offsets[rows + 1] - offsets[rows])
    if pa.types.is_boolean(column.type.value_type):
        bits = np.packbits(_bits(column, rows, np.diff(places)), bitorder="little")
        values = pa.BooleanArray.from_buffers(pa.bool_(), int(places[-1]), [None, pa.py_buffer(bits)])
    else:
        values = pa.array(_lists(column.values.to_numpy(), offsets, rows)[0])
    return pa.LargeListArray.from_arrays(pa.array(places), values)


def _bits(column: pa.LargeListArray, rows: Int64s, lengths: Int64s) -> Bytes:
    """The lists of bits of some rows, a byte each. lengths: of these rows"""
    places, packed = ends(lengths), column.values
    copied = np.empty(places[-1], np.uint8)
    data = np.frombuffer(packed.buffers()[1] or b"", np.uint8)
    copy_bits(read_only(data), packed.offset, read_only(column.offsets.to_numpy()), rows, places, copied)
    return copied
