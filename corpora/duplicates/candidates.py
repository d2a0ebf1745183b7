"""Candidates: all documents of the generations so far, in columns.

Rows are in the order of the inputs (generation, source, part, row). A new generation only appends rows, so a row keeps
its number. The data from the sketches (signatures) goes into a scratch table (`open_candidates`), with one more column
for the keys of each band. So changing the number of bands does not recompute any signature.

Cost: the sketches are read once, 1 us a row. On disk: some 70 bytes a row and 8 a band. Memory: a block of rows.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpora.duplicates.signatures import compute_band_keys, compute_text_keys, name_key_columns
from corpora.duplicates.survivors import DuplicateSettings
from corpora.duplicates.verify import ShingleSets, build_shingle_sets
from corpora.kernels.arrays import Int64s, UInt32s, UInt64s
from corpora.kernels.fixed_width import to_byte_matrix, to_number_pairs
from corpora.schema import DOCUMENTS, ID_BYTES, Document, iter_documents
from corpora.store.manifest import Manifest, ManifestAddress, Part
from corpora.store.places.place import Place
from corpora.store.scratch import ScratchTable, make_scratch_folder, open_scratch_table
from corpora.store.settings import check_range
from corpora.store.stage import read_manifest_at
from corpora.store.tables import read_part_table
from corpora.tombstones import Tombstones, hash_text

REVISIONS = pa.schema([pa.field("id", pa.binary(ID_BYTES), nullable=False), pa.field("revision", pa.int64())])


def build_signature_schema(permutations: int) -> pa.Schema:
    """Build the schema of the "signatures" table, which has one row per document.

    Args:
        permutations: Number of values in a signature.
    """
    return pa.schema(
        [
            pa.field("id", pa.binary(ID_BYTES), nullable=False),
            pa.field("keyed", pa.bool_(), nullable=False),
            pa.field("revision", pa.int64()),
            pa.field("group_key", pa.uint64()),
            pa.field("quality", pa.int32(), nullable=False),
            pa.field("text_hash", pa.binary(16), nullable=False),
            pa.field("set_hash", pa.uint64(), nullable=False),
            pa.field("num_shingles", pa.int32(), nullable=False),
            pa.field("signature", pa.binary(4 * permutations), nullable=False),
        ]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSettings:
    """The share of documents that is held out for evaluation.

    share: share of the groups that are held out. A document without a group is its own group
    """

    share: float = 0.01
    seed: int = 42

    def __post_init__(self) -> None:
        check_range("held_out.share", self.share, 0.0, 0.5)
        check_range("held_out.seed", self.seed, 0, (1 << 64) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """The documents of one source and generation, with their signatures.

    Attributes:
        generation: Number of the generation.
        priority: Priority of the source. Of the duplicates in the same generation, one with the lowest number is kept.
        documents: Manifest of the documents.
        signatures: Manifest of their signatures.
    """

    generation: int
    priority: int
    documents: Manifest
    signatures: Manifest

    @property
    def address(self) -> "InputAddress":
        """The same input with addresses instead of manifests, so that it can be sent to worker processes."""
        return InputAddress(
            generation=self.generation,
            priority=self.priority,
            documents=self.documents.address,
            signatures=self.signatures.address,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InputAddress:
    """The addresses of the manifests of an `Input`.

    Attributes:
        generation: Number of the generation.
        priority: Priority of the source; lower numbers are preferred.
        documents: Address of the manifest of the documents.
        signatures: Address of the manifest of their signatures.
    """

    generation: int
    priority: int
    documents: ManifestAddress
    signatures: ManifestAddress


def read_input(place: Place, address: InputAddress) -> Input:
    """Read the manifests of an input.

    Args:
        place: The store.
        address: The addresses of the manifests.

    Raises:
        Damaged: If a manifest is missing or damaged, or if its digest does not match the address.
    """
    return Input(
        generation=address.generation,
        priority=address.priority,
        documents=read_manifest_at(place, address.documents),
        signatures=read_manifest_at(place, address.signatures),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictsJob:
    """Input of the task that decides which documents are kept.

    Attributes:
        inputs: Addresses of the documents and signatures, in order.
        duplicates: Settings of the duplicate search.
        split: Settings that select the documents to hold out.
        tombstones: The ids and texts of forgotten documents.
    """

    inputs: tuple[InputAddress, ...]
    duplicates: DuplicateSettings
    split: SplitSettings
    tombstones: Tombstones


def hash_text_64(text: str) -> int:
    """Return the first 64 bits of the SHA-256 digest of a string in UTF-8, as a little-endian integer."""
    return int.from_bytes(hash_text(text.encode())[:8], "little")


PAIR = np.dtype((np.uint64, 2))
CANDIDATE_COLUMNS: Mapping[str, npt.DTypeLike] = {
    "id": PAIR,
    "keyed": np.bool_,
    "revision": np.int64,
    "text_hash": PAIR,
    "has_group": np.bool_,
    "split_key": np.uint64,
    "quality": np.int32,
    "num_shingles": np.int32,
    "set_hash": np.uint64,
}


@contextmanager
def open_candidates(place: Place, inputs: Sequence[Input], settings: DuplicateSettings) -> Iterator[ScratchTable]:
    """Read the signatures of all inputs into a scratch table, with one row per document in the order of the inputs.

    The table has the columns CANDIDATE_COLUMNS and one column of keys per band. The keys of a document without words
    are computed from its bytes. A record without a revision gets its generation number as the revision. The table is
    deleted when the block ends.

    Args:
        place: The store.
        inputs: The inputs.
        settings: Settings of the duplicate search.

    Yields:
        The table.

    Raises:
        Damaged: If a file is missing, damaged or modified.
        InputError: If there is not enough disk space.
    """
    kinds = {**CANDIDATE_COLUMNS, **dict.fromkeys(name_key_columns(settings.bands), np.uint64)}
    with open_scratch_table(make_scratch_folder(place), kinds) as table:
        table.reserve(sum(item.signatures.count_rows("signatures") for item in inputs))
        for item in inputs:
            for batch in _read_sketches(place, item, settings):
                table.append(_build_columns(batch, item.generation, settings))
        yield table


def _read_sketches(place: Place, item: Input, settings: DuplicateSettings) -> Iterator[pa.RecordBatch]:
    names = build_signature_schema(settings.permutations).names
    for part in item.signatures.parts:
        yield from read_part_table(place, item.signatures.stage_folder, part, "signatures", names)


def _build_columns(batch: pa.RecordBatch, generation: int, settings: DuplicateSettings) -> dict[str, UInt64s]:
    """Return the columns of the scratch table for a batch of signatures, by column name.

    Args:
        batch: Rows of the "signatures" table.
        generation: Number of the generation that added the documents. It is the revision of rows that have none.
        settings: Settings of the duplicate search.
    """
    text_hashes, set_hash = to_number_pairs(batch.column("text_hash")), batch.column("set_hash").to_numpy().copy()
    num_shingles = batch.column("num_shingles").to_numpy()
    keys = compute_band_keys(to_lanes(batch.column("signature")), settings.band)
    wordless = np.flatnonzero(num_shingles == 0)
    set_hash[wordless], keys[wordless] = compute_text_keys(text_hashes[wordless], settings.bands)
    return {
        "id": to_number_pairs(batch.column("id")),
        "keyed": batch.column("keyed").to_numpy(zero_copy_only=False),
        "revision": batch.column("revision").fill_null(generation).to_numpy(),
        "text_hash": text_hashes,
        "has_group": batch.column("group_key").is_valid().to_numpy(zero_copy_only=False),
        "split_key": _compute_split_keys(batch.column("group_key"), batch.column("id")),
        "quality": batch.column("quality").to_numpy(),
        "num_shingles": num_shingles,
        "set_hash": set_hash,
        **dict(zip(name_key_columns(settings.bands), keys.T, strict=True)),
    }


def _compute_split_keys(group_keys: pa.Array, ids: pa.Array) -> UInt64s:
    """Return a hash of each document's group, or of its id if it has no group: uint64 [n].

    It determines which documents are held out.

    Args:
        group_keys: uint64 column of n group hashes, null for documents without a group.
        ids: Binary column of n ids.
    """
    keys: UInt64s = group_keys.fill_null(0).to_numpy().copy()
    alone = np.flatnonzero(group_keys.is_null().to_numpy(zero_copy_only=False))
    keys[alone] = hash_ids(ids.take(pa.array(alone)))
    return keys


def hash_ids(ids: pa.Array) -> UInt64s:
    """Hash the hexadecimal form of each id in a binary column with `hash_text_64`: uint64 [n]."""
    digits, width = to_byte_matrix(ids).tobytes().hex().encode(), 2 * ID_BYTES
    digests = b"".join([sha256(digits[at : at + width]).digest() for at in range(0, len(digits), width)])
    return np.frombuffer(digests, np.uint64)[::4]


def to_lanes(signatures: pa.Array) -> UInt32s:
    """View a binary column of n signatures as uint32 [n, permutations], without copying."""
    return to_byte_matrix(signatures).view(np.uint32)


def read_document_sets(
    place: Place, inputs: Sequence[Input], rows: Int64s, settings: DuplicateSettings
) -> Iterator[ShingleSets]:
    """Yield the shingle sets of selected documents, in blocks of consecutive rows.

    In each part (file set), all texts from the first to the last selected row are read.

    Args:
        place: The store.
        inputs: The inputs that contain the documents.
        rows: int64, row indices over all inputs, in ascending order.
        settings: Settings that determine the shingles.

    Raises:
        Damaged: During iteration, if a file is missing, damaged or modified.
    """
    for manifest, part, rows_in_part in _locate_rows([item.documents for item in inputs], rows):
        at, stop = int(rows_in_part[0]), int(rows_in_part[-1]) + 1
        for batch in read_part_table(place, manifest.stage_folder, part, "documents", ("text",), range(at, stop)):
            begin, end = np.searchsorted(rows_in_part, (at, at + batch.num_rows))
            chosen = pa.array(rows_in_part[begin:end] - at)
            yield build_shingle_sets(batch.column("text").take(chosen), settings.shingle_words)
            at += batch.num_rows


def _locate_rows(judged: Sequence[Manifest], rows: Int64s) -> Iterator[tuple[Manifest, Part, Int64s]]:
    """Yield (manifest, part, row indices relative to the part) for each part that contains any of the rows.

    Args:
        judged: Manifests of the documents.
        rows: int64, row indices over all manifests, in ascending order.
    """
    first = 0
    for manifest in judged:
        for part in manifest.parts:
            stop = first + part.count_rows("documents")
            begin, end = np.searchsorted(rows, (first, stop))
            if begin < end:
                yield manifest, part, rows[begin:end] - first
            first = stop


def read_documents_at(place: Place, judged: Sequence[Manifest], rows: Collection[int]) -> dict[int, Document]:
    """Read selected documents by their row indices in the verdicts.

    Args:
        place: The store.
        judged: Manifests of the documents, in the order of the verdicts.
        rows: Zero-based row indices over all manifests.

    Returns:
        Maps each row index to its document, in ascending order.

    Raises:
        ValueError: If a row does not exist.
        Damaged: If a file is missing, damaged or modified.
    """
    wanted = np.array(sorted(rows), np.int64)
    found: list[Document] = []
    for manifest, part, rows_in_part in _locate_rows(judged, wanted):
        batches = read_part_table(
            place, manifest.stage_folder, part, "documents", DOCUMENTS.names, rows_in_part.tolist()
        )
        found.extend(iter_documents(batches))
    return dict(zip(wanted.tolist(), found, strict=True))
