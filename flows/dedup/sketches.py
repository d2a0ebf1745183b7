"""The sketch of a piece: what decides about its rows, without their texts. Runs on a worker.

A row without text, or one that cannot be read, has the set hash of the empty set and no text hash. The rows of
different groups never meet: the hash of a row's group is mixed into its keys and hashes.
Cost: reading, and 5 ns a byte of text. Memory: a chunk; of the longest text 20 times its bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh3_128_digest

from corpora.duplicates.bands import band_keys
from corpora.duplicates.candidates import hash64
from corpora.duplicates.signatures import EMPTY_SET, signatures
from corpora.duplicates.survivors import DuplicateSettings
from corpora.duplicates.verify import ShingleSets, shingle_sets
from corpora.kernels.arrays import Bools, Int32s, UInt64s
from corpora.kernels.hashing import GOLDEN_RATIO
from corpora.sources.files.fields import look_up
from corpora.sources.files.parquet import values_of
from corpora.text.buffers import text_buffers
from flows.dedup.columns import Kinds, kinds_of, merged
from flows.dedup.inputs import InputPiece, RowChunk, chunks, is_lines, parquet_schema

HAS_TEXT, NO_TEXT, UNREADABLE = 0, 1, 2
SAMPLES = 64  # of a chunk, at most about so many texts
SAMPLE_BYTES = (200, 50_000)  # of a text that copies are made of


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """The sketches of some rows, one after another.

    text_hash: uint64 [n, 2], XXH3; keys: uint64 [bands, n]; state: HAS_TEXT, NO_TEXT or UNREADABLE
    ids:       what names the rows, where asked for
    kinds:     the types of the columns, where they are asked for; samples: a few texts
    shingles:  of all rows, the distinct ones of one after another, in blocks; empty where they are not held
    held:      where in a file these begin, in bytes; -1 where it does not have them
    """

    text_hash: UInt64s
    set_hash: UInt64s
    keys: UInt64s
    num_shingles: Int32s
    state: Int32s
    text_bytes: int
    ids: Sequence[str]
    kinds: Kinds
    samples: Sequence[str]
    shingles: Sequence[UInt64s] = ()
    held: int = -1


def sketch_piece(
    piece: InputPiece, settings: DuplicateSettings, near: bool, num_samples: int, typed: bool = True, hold: int = 0
) -> Sketch:
    """Sketch the rows of a piece. Raises InputError.

    near: sketch shingles, not only whole texts; typed: the types of all columns are asked for
    hold: so many bytes of shingles may be held, all of the piece or none
    """
    schema = parquet_schema(piece)
    with_fields = typed and is_lines(piece)
    found, shingles = [], list[UInt64s]()
    for chunk in chunks(piece, with_fields=with_fields):
        sketch, own = _sketch_chunk(chunk, piece, settings, near, hold > 0)
        found.append(sketch)
        shingles.append(own)
        hold -= own.nbytes
    sketch = replace(joined(found, settings, num_samples), shingles=shingles if hold > 0 else ())
    return sketch if schema is None else replace(sketch, kinds={field.name: field.type for field in schema})


def joined(found: Sequence[Sketch], settings: DuplicateSettings, num_samples: int) -> Sketch:
    """Sketches one after another as one."""
    empty = np.empty((0, 2), np.uint64), np.empty((settings.bands, 0), np.uint64), np.empty(0, np.int32)
    return Sketch(
        text_hash=np.concatenate([empty[0], *(each.text_hash for each in found)]),
        set_hash=np.concatenate([np.empty(0, np.uint64), *(each.set_hash for each in found)]),
        keys=np.concatenate([each.keys for each in found] or [empty[1]], axis=1),
        num_shingles=np.concatenate([empty[2], *(each.num_shingles for each in found)]),
        state=np.concatenate([empty[2], *(each.state for each in found)]),
        text_bytes=sum(each.text_bytes for each in found),
        ids=[id for each in found for id in each.ids],
        kinds=merged(each.kinds for each in found),
        samples=[text for each in found for text in each.samples][:num_samples],
    )


def _sketch_chunk(
    chunk: RowChunk, piece: InputPiece, settings: DuplicateSettings, near: bool, hold: bool
) -> tuple[Sketch, UInt64s]:
    texts = chunk.texts.fill_null("")
    rows = len(texts)
    data, offsets = text_buffers(texts)
    digests = [xxh3_128_digest(data.data[first:last]) for first, last in pairwise(offsets.tolist())]
    hashes = np.frombuffer(b"".join(digests), np.uint64).reshape(-1, 2).copy()
    shingles = np.empty(0, np.uint64)
    if near:
        sketch = signatures(texts, settings.signature, hold)
        shingles = sketch.shingles
        keys = np.ascontiguousarray(band_keys(sketch.signature, settings.band).T)
        sets, num_shingles = sketch.set_hash, sketch.num_shingles
    else:
        keys, sets = np.empty((0, rows), np.uint64), np.zeros(rows, np.uint64)
        num_shingles = np.asarray(pc.binary_length(texts).to_numpy() // 8, np.int32)
    state = np.where(chunk.texts.is_null().to_numpy(zero_copy_only=False), NO_TEXT, HAS_TEXT).astype(np.int32)
    if not isinstance(chunk.fields, pa.RecordBatch):
        state[[row for row, fields in enumerate(chunk.fields) if fields is None]] = UNREADABLE
    if piece.within:
        groups = group_hashes(chunk, piece.within)
        hashes[:, 0] ^= groups
        keys ^= groups
        sets = np.where(sets == EMPTY_SET, EMPTY_SET, np.maximum((sets ^ groups) * GOLDEN_RATIO, np.uint64(1)))
    low, high = SAMPLE_BYTES
    lengths = pc.binary_length(texts).to_numpy()
    fitting = np.flatnonzero((lengths > low) & (lengths < high))[:: max(1, rows // SAMPLES)]
    made = Sketch(
        text_hash=hashes,
        set_hash=sets,
        keys=keys,
        num_shingles=num_shingles,
        state=state,
        text_bytes=int(lengths.sum()),
        ids=_values(chunk, piece.id) if piece.id else (),
        kinds=kinds_of(chunk.fields),
        samples=texts.take(pa.array(fitting)).to_pylist(),
    )
    return made, shingles


def group_hashes(chunk: RowChunk, within: str) -> UInt64s:
    """A hash of the group of each row of a chunk."""
    return np.array([hash64(value) for value in _values(chunk, within)], np.uint64)


def _values(chunk: RowChunk, name: str) -> list[str]:
    """What the rows of a chunk have in a column, as texts; "" for nothing."""
    if isinstance(chunk.fields, pa.RecordBatch):
        there = name in chunk.fields.schema.names
        values = values_of(chunk.fields.column(name)) if there else [None] * chunk.fields.num_rows
    else:
        values = [look_up(fields, name) if fields is not None else None for fields in chunk.fields]
    return ["" if value is None else str(value) for value in values]


def sets_of(piece: InputPiece, wanted: Bools, settings: DuplicateSettings) -> ShingleSets:
    """The shingle sets of some rows of a piece, one after another. Raises InputError."""
    found = []
    for chunk in chunks(piece, wanted):
        rows = np.flatnonzero(wanted[chunk.first : chunk.first + len(chunk.texts)])
        if len(rows):
            found.append(shingle_sets(chunk.texts.take(pa.array(rows)).fill_null(""), settings.shingle_words))
    sizes = np.concatenate([np.zeros(1, np.int64), *(np.diff(each.offsets) for each in found)])
    return ShingleSets(np.concatenate([np.empty(0, np.uint64), *(each.values for each in found)]), np.cumsum(sizes))
