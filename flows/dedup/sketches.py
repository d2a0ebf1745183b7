"""Sketches of rows: the hashes that decide about a row without its text.

A row without words is known by the bytes of its text; if only equal bytes count, every row is. Rows of different groups
never match: the hash of the group is mixed into the keys and hashes of a row.
Cost: reading, and 3 ns per byte of text. Memory: a chunk, and 20 times the bytes of the longest text.

While rows are sketched in this process, the shingles of the first rows are cached in a scratch file, so that their
texts need not be read again. Shingles of rows that share no band with another row are cached in vain.
Cost: 8 bytes per shingle on disk, 2 ns per byte of text. Memory: a block.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh3_64_intdigest, xxh3_128_digest

from corpora.duplicates.signatures import compute_band_keys, compute_signatures, compute_text_keys, name_key_columns
from corpora.duplicates.survivors import DuplicateSettings
from corpora.duplicates.verify import ShingleSets, build_shingle_sets, sort_sets
from corpora.kernels.arrays import Bools, Int32s, Int64s, UInt64s
from corpora.kernels.hashing import GOLDEN_RATIO
from corpora.sources.files.fields import find_value
from corpora.sources.files.parquet import list_values
from corpora.store.scratch import append_bytes, read_bytes
from corpora.text.buffers import to_text_buffers
from flows.dedup.columns import ColumnTypes, find_column_types, merge_types
from flows.dedup.inputs import InputPiece, RowChunk, is_json_lines, read_chunks, read_parquet_schema

HAS_TEXT, NO_TEXT, UNREADABLE = 0, 1, 2
CHUNK_SAMPLES = 64  # of a chunk, at most about so many texts
BLOCK_SHINGLES = 1 << 20  # of sets that are read at once, unless one set is larger
SAMPLE_BYTES = (200, 50_000)  # of a text that copies are made of


@dataclass(frozen=True, slots=True, kw_only=True)
class SketchSettings:
    """Settings for computing the sketches (hashes) of rows.

    Attributes:
        duplicates: Settings of the duplicate search.
        exact_only: If True, only texts that are equal byte for byte are duplicates.
        with_types: If True, the types of the columns are determined.
        num_samples: Maximum number of texts to sample from a piece (a range of a file).
        with_shingles: If True, the shingles (hashes of runs of words) of all rows are returned.
    """

    duplicates: DuplicateSettings
    exact_only: bool
    with_types: bool
    num_samples: int
    with_shingles: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """The sketches of n consecutive rows: hashes for finding duplicates without reading the texts again.

    Attributes:
        columns: Maps "set_hash" and the names of the band keys (hashes that similar rows tend to share) to uint64 [n]
            arrays.
        num_shingles: int32 [n], number of shingles (runs of words); 0 for rows that are compared by the bytes of their
            texts.
        state: int8 [n], HAS_TEXT, NO_TEXT or UNREADABLE.
        text_bytes: Total size of the texts in bytes.
        ids: The values of the id column; empty if there is no such column.
        types: The type of each column; empty if types were not requested.
        samples: Some of the texts.
        shingles: uint64, the distinct shingles (hashed) of all rows, in row order; empty if they were not requested.
    """

    columns: Mapping[str, UInt64s]
    num_shingles: Int32s
    state: npt.NDArray[np.int8]
    text_bytes: int
    ids: pa.ChunkedArray
    types: ColumnTypes
    samples: Sequence[str]
    shingles: UInt64s


def sketch_piece(piece: InputPiece, settings: SketchSettings) -> Sketch:
    """Compute the sketch (hashes for finding duplicates) of all rows of a piece (a range of a file).

    This function is called in worker processes.

    Args:
        piece: The piece to read.
        settings: What the sketch contains.

    Raises:
        InputError: If the file cannot be read.
    """
    return join_sketches([*sketch_chunks(piece, settings)])


def sketch_chunks(piece: InputPiece, settings: SketchSettings) -> Iterator[Sketch]:
    """Yield the sketches (hashes for finding duplicates) of a piece (a range of a file), chunk by chunk.

    For a Parquet file, the first sketch has no rows and contains the types of all columns, because not all columns are
    read.

    Args:
        piece: The piece to read.
        settings: What a sketch contains.

    Raises:
        InputError: During iteration, if the file cannot be read.
    """
    schema, num_samples = read_parquet_schema(piece), settings.num_samples
    if schema is not None:  # whose columns are known without rows, and not all read for a sketch
        fields = pa.RecordBatch.from_pylist([], schema)
        yield _sketch_chunk(RowChunk(first=0, texts=pa.nulls(0, pa.large_string()), fields=fields), piece, settings, 0)
    for chunk in read_chunks(piece, with_fields=settings.with_types and is_json_lines(piece)):
        sketch = _sketch_chunk(chunk, piece, settings, num_samples)
        num_samples -= len(sketch.samples)
        yield sketch


def join_sketches(sketches: Sequence[Sketch]) -> Sketch:
    """Concatenate the sketches (hashes for finding duplicates) of consecutive rows.

    The result for no sketches is an empty sketch.
    """
    names = sketches[0].columns if sketches else ()
    return Sketch(
        columns={name: np.concatenate([each.columns[name] for each in sketches]) for name in names},
        num_shingles=np.concatenate([np.empty(0, np.int32), *(each.num_shingles for each in sketches)]),
        state=np.concatenate([np.empty(0, np.int8), *(each.state for each in sketches)]),
        text_bytes=sum(each.text_bytes for each in sketches),
        ids=pa.chunked_array([chunk for each in sketches for chunk in each.ids.chunks], pa.large_string()),
        types=merge_types(each.types for each in sketches),
        samples=[text for each in sketches for text in each.samples],
        shingles=np.concatenate([np.empty(0, np.uint64), *(each.shingles for each in sketches)]),
    )


def _sketch_chunk(chunk: RowChunk, piece: InputPiece, settings: SketchSettings, max_samples: int) -> Sketch:
    """Compute the sketch (hashes for finding duplicates) of the rows of a chunk.

    Args:
        chunk: The rows.
        piece: The piece that the rows belong to. It specifies the id and group columns.
        settings: What the sketch contains.
        max_samples: Maximum number of texts to sample.
    """
    texts = chunk.texts.fill_null("") if chunk.texts.null_count else chunk.texts
    bands, shingles = settings.duplicates.bands, np.empty(0, np.uint64)
    if settings.exact_only:
        set_hash, num_shingles = np.empty(len(texts), np.uint64), np.zeros(len(texts), np.int32)
        keys = np.empty((len(texts), bands), np.uint64)
    else:
        sketch = compute_signatures(texts, settings.duplicates.signature, settings.with_shingles)
        set_hash, num_shingles, shingles = sketch.set_hash, sketch.num_shingles, sketch.shingles
        keys = compute_band_keys(sketch.signature, settings.duplicates.band)
    by_bytes = np.flatnonzero(num_shingles == 0)
    if len(by_bytes):
        set_hash[by_bytes], keys[by_bytes] = compute_text_keys(_hash_texts(texts.take(pa.array(by_bytes))), bands)
    if piece.group:
        groups = hash_groups(chunk, piece.group)
        keys ^= groups[:, None]
        set_hash = np.maximum((set_hash ^ groups) * GOLDEN_RATIO, np.uint64(1))
    state = np.where(chunk.texts.is_null().to_numpy(zero_copy_only=False), NO_TEXT, HAS_TEXT).astype(np.int8)
    if not isinstance(chunk.fields, pa.RecordBatch):
        state[[row for row, fields in enumerate(chunk.fields) if fields is None]] = UNREADABLE
    low, high = SAMPLE_BYTES
    lengths = pc.binary_length(texts).to_numpy()
    fitting = np.flatnonzero((lengths > low) & (lengths < high))[:: max(1, len(texts) // CHUNK_SAMPLES)][:max_samples]
    return Sketch(
        columns={"set_hash": set_hash, **dict(zip(name_key_columns(bands), keys.T, strict=True))},
        num_shingles=num_shingles,
        state=state,
        text_bytes=int(lengths.sum()),
        ids=pa.chunked_array([_list_values(chunk, piece.id_name)] if piece.id_name else [], pa.large_string()),
        types=find_column_types(chunk.fields),
        samples=texts.take(pa.array(fitting)).to_pylist() if max_samples else [],
        shingles=shingles,
    )


def _hash_texts(texts: pa.Array) -> UInt64s:
    """Return the 128-bit XXH3 hash of each text as uint64 [n, 2]."""
    data, offsets = to_text_buffers(texts)
    digests = [xxh3_128_digest(data.data[first:last]) for first, last in pairwise(offsets.tolist())]
    return np.frombuffer(b"".join(digests), np.uint64).reshape(-1, 2)


def hash_groups(chunk: RowChunk, group: str) -> UInt64s:
    """Return a hash of each row's group as uint64 [n].

    Args:
        chunk: The rows.
        group: Name of the column that contains the group.
    """
    return np.array([xxh3_64_intdigest(value.encode()) for value in _list_values(chunk, group)], np.uint64)


def _list_values(chunk: RowChunk, name: str) -> list[str]:
    """Return the value of a column in each row as a string; "" if there is no such column or the row has no value.

    Args:
        chunk: The rows.
        name: Name of the column.

    Returns:
        One string per row. Lone surrogates, which UTF-8 cannot encode, are replaced by escape sequences.
    """
    if isinstance(chunk.fields, pa.RecordBatch):
        is_present = name in chunk.fields.schema.names
        values = list_values(chunk.fields.column(name)) if is_present else [None] * chunk.fields.num_rows
    else:
        values = [find_value(fields, name) if fields is not None else None for fields in chunk.fields]
    texts = ["" if value is None else str(value) for value in values]
    return [each if each.isascii() else each.encode(errors="backslashreplace").decode() for each in texts]


def build_row_sets(piece: InputPiece, wanted: Bools, settings: DuplicateSettings) -> ShingleSets:
    """Read some rows of a piece (a range of a file), and build their sets of shingles, in row order.

    A shingle is a hash of a run of words.

    Args:
        piece: The piece to read.
        wanted: bool [rows of the piece], True for the rows to read.
        settings: Settings of the duplicate search.

    Raises:
        InputError: If the file cannot be read.
    """
    found = []
    for chunk in read_chunks(piece, wanted):
        rows = np.flatnonzero(wanted[chunk.first : chunk.first + len(chunk.texts)])
        if len(rows):
            found.append(build_shingle_sets(chunk.texts.take(pa.array(rows)).fill_null(""), settings.shingle_words))
    sizes = np.concatenate([np.zeros(1, np.int64), *(np.diff(each.offsets) for each in found)])
    return ShingleSets(np.concatenate([np.empty(0, np.uint64), *(each.values for each in found)]), np.cumsum(sizes))


class ShingleCache:
    """Stores the shingles (hashes of runs of words) of the first rows in a scratch file, up to a maximum size.

    Args:
        file: A file opened by `open_scratch_file`.
        folder: Folder of the file, shown in error messages.
        max_bytes: Maximum size of the file in bytes; 0 to store nothing.

    Attributes:
        num_rows: Number of rows in the cache.
    """

    def __init__(self, file: Any, folder: str, max_bytes: int) -> None:
        self._file, self._folder, self._room = file, folder, max_bytes
        self._is_full = max_bytes == 0
        self.num_rows = 0

    def add(self, sketch: Sketch) -> None:
        """Append the shingles of the next rows. Once the cache is full, nothing is added.

        Args:
            sketch: The sketch of these rows, with shingles.

        Raises:
            InputError: If the disk is full.
        """
        self._room -= sketch.shingles.nbytes
        self._is_full = self._is_full or self._room < 0
        if not self._is_full:
            append_bytes(self._file, self._folder, sketch.shingles.data.cast("B"))
            self.num_rows += len(sketch.num_shingles)

    def read_sets(self, rows: Int64s, num_shingles: Int32s) -> Iterator[ShingleSets]:
        """Yield the shingle sets of some cached rows in blocks.

        Args:
            rows: int64, row indices below `num_rows`, in ascending order.
            num_shingles: int32, the number of shingles of all rows, including those that are not cached.
        """
        ends = np.concatenate([[0], np.cumsum(num_shingles[: self.num_rows], dtype=np.int64)])
        begins, first = ends[rows], 0
        while first < len(rows):
            start = int(begins[first])
            stop = max(first + 1, int(np.searchsorted(begins, start + BLOCK_SHINGLES)))
            here = rows[first:stop]
            values = np.empty(int(ends[here[-1] + 1]) - start, np.uint64)
            read_bytes(self._file, 8 * start, values.data.cast("B"))
            offsets = np.concatenate([[0], np.cumsum(num_shingles[here], dtype=np.int64)])
            sets = np.empty(int(offsets[-1]), np.uint64)
            sort_sets(values, ends[here] - start, ends[here + 1] - start, sets)
            yield ShingleSets(sets, offsets)
            first = stop
