"""Candidates: all documents of the generations so far, in columns, and what is determined about each.

They are in the order of the inputs (generation, source, part, row), which a new generation only extends, so a
row keeps its number. The marks are made one after another: forgotten, superseded, duplicate; a row that is
marked is out of all later ones.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import pyarrow as pa

from corpora.duplicates.bands import band_keys
from corpora.duplicates.survivors import LONGEST, DuplicateSettings, judge_duplicates
from corpora.duplicates.verify import ShingleStore
from corpora.kernels.arrays import Int32s, Int64s, UInt32s, UInt64s
from corpora.schema import DOCUMENTS, ID_BYTES, Document, documents, occurrence_id
from corpora.store.manifest import Manifest, ManifestAddress
from corpora.store.places.place import Place
from corpora.store.settings import check_range
from corpora.store.stage import manifest_at
from corpora.store.tables import open_table
from corpora.tombstones import Tombstones, text_hash

REVISIONS = pa.schema([pa.field("id", pa.binary(ID_BYTES), nullable=False), pa.field("revision", pa.int64())])


def signature_schema(permutations: int) -> pa.Schema:
    """Return the columns of a sketch: its document, what decides its place in the order, and its MinHash lanes."""
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
    """Held-out documents, for evaluation alone.

    share: of the groups (or of the documents without one) that are held out, by hash
    """

    share: float = 0.01
    seed: int = 42

    def __post_init__(self) -> None:
        check_range("held_out.share", self.share, 0.0, 0.5)
        check_range("held_out.seed", self.seed, 0, (1 << 64) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One source of one generation: its documents and their sketches. `priority`: the lower survives."""

    generation: int
    priority: int
    documents: Manifest
    signatures: Manifest

    @property
    def address(self) -> "InputAddress":
        """The input as a job carries it."""
        return InputAddress(
            generation=self.generation,
            priority=self.priority,
            documents=self.documents.address,
            signatures=self.signatures.address,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InputAddress:
    """An `Input`, its manifests by their addresses."""

    generation: int
    priority: int
    documents: ManifestAddress
    signatures: ManifestAddress


def open_input(place: Place, address: InputAddress) -> Input:
    """The input at an address. Raises Damaged where a manifest is gone or another one."""
    return Input(
        generation=address.generation,
        priority=address.priority,
        documents=manifest_at(place, address.documents),
        signatures=manifest_at(place, address.signatures),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictsJob:
    """Everything that verdicts look at."""

    inputs: tuple[InputAddress, ...]
    duplicates: DuplicateSettings
    split: SplitSettings
    tombstones: Tombstones


def hash64(text: str) -> int:
    """64 bits of the sha256 of a text."""
    return int.from_bytes(text_hash(text.encode())[:8], "little")


@dataclass(slots=True, kw_only=True)
class Candidates:
    """All documents that are judged together, as columns of equal length, and what has been determined so far."""

    ids: list[bytes]
    keyed: list[bool]
    revision: list[int]
    since: list[int]
    priority: Int32s
    quality: Int32s
    split_keys: UInt64s
    text_hash: list[bytes]
    set_hash: UInt64s
    num_shingles: Int32s
    signature: UInt32s
    newest: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    generation: list[int] = field(default_factory=list)
    reasons: list[str | None] = field(default_factory=list)
    survivor: list[int] = field(default_factory=list)
    similarity: list[float | None] = field(default_factory=list)
    missing: list[float | None] = field(default_factory=list)


def read_candidates(place: Place, inputs: Sequence[Input], settings: DuplicateSettings) -> Candidates:
    """The sketches of all inputs in order, with occurrences numbered and `since` worked out."""
    tables = [_read_sketches(place, item, settings) for item in inputs]
    table = pa.concat_tables(tables)
    generation = np.repeat([item.generation for item in inputs], [t.num_rows for t in tables]).tolist()
    priority = np.repeat([item.priority for item in inputs], [t.num_rows for t in tables])
    keyed = table.column("keyed").to_pylist()
    ids = number_occurrences(table.column("id").to_pylist(), keyed)
    revision = [
        own if own is not None else created_in
        for own, created_in in zip(table.column("revision").to_pylist(), generation, strict=True)
    ]
    dropped = list(_dropped_revisions(place, inputs))
    first: dict[bytes, int] = {}
    for id, created_in in chain(zip(ids, generation, strict=True), ((id, created_in) for id, _, created_in in dropped)):
        first[id] = min(created_in, first.get(id, created_in))
    group_keys = table.column("group_key").to_pylist()
    rows = table.num_rows
    return Candidates(
        ids=ids,
        keyed=keyed,
        revision=revision,
        since=[first[id] for id in ids],
        priority=priority.astype(np.int32),
        quality=table.column("quality").to_numpy(),
        split_keys=np.array(
            [hash64(id.hex()) if key is None else key for id, key in zip(ids, group_keys, strict=True)], np.uint64
        ),
        text_hash=table.column("text_hash").to_pylist(),
        set_hash=table.column("set_hash").to_numpy(),
        num_shingles=table.column("num_shingles").to_numpy(),
        signature=lanes(table.column("signature"), settings.permutations),
        newest=_newest(zip(ids, revision, generation, keyed, strict=True), dropped),
        generation=generation,
        reasons=[None] * rows,
        survivor=[-1] * rows,
        similarity=[None] * rows,
        missing=[None] * rows,
    )


def _read_sketches(place: Place, item: Input, settings: DuplicateSettings) -> pa.Table:
    folder = item.signatures.stage_folder
    schema = signature_schema(settings.permutations)
    parts = item.signatures.parts
    batches = [batch for part in parts for batch in open_table(place, folder, part, "signatures", schema.names)]
    return pa.Table.from_batches(batches, schema)


def lanes(signatures: pa.ChunkedArray, permutations: int) -> UInt32s:
    """A column of signatures as numbers: uint32 [n, permutations]."""
    numbers = np.empty((len(signatures), permutations), np.uint32)
    row = 0
    for chunk in signatures.chunks:
        stored = np.frombuffer(chunk.buffers()[1] or b"", np.uint32).reshape(-1, permutations)
        numbers[row : row + len(chunk)] = stored[chunk.offset : chunk.offset + len(chunk)]
        row += len(chunk)
    return numbers


def _dropped_revisions(place: Place, inputs: Sequence[Input]) -> Iterator[tuple[bytes, int, int]]:
    """(id, revision, generation) of keyed records that were dropped: they supersede what they revise."""
    for item in inputs:
        folder = item.signatures.stage_folder
        for part in item.signatures.parts:
            for batch in open_table(place, folder, part, "revisions", REVISIONS.names):
                for row in batch.to_pylist():
                    revision = row["revision"] if row["revision"] is not None else item.generation
                    yield row["id"], revision, item.generation


def number_occurrences(ids: list[bytes], keyed: list[bool]) -> list[bytes]:
    """Give records without a key that are equal byte for byte ids of their own, by occurrence in order."""
    seen: Counter[bytes] = Counter()
    numbered = []
    for id, has_key in zip(ids, keyed, strict=True):
        numbered.append(id if has_key else occurrence_id(id, seen[id]))
        seen[id] += not has_key
    return numbered


def _newest(
    rows: Iterable[tuple[bytes, int, int, bool]], dropped: Iterable[tuple[bytes, int, int]]
) -> dict[bytes, tuple[int, int]]:
    """The newest (revision, generation) of each keyed id."""
    newest: dict[bytes, tuple[int, int]] = {}
    for id, revision, generation in chain(((i, r, g) for i, r, g, keyed in rows if keyed), dropped):
        newest[id] = max((revision, generation), newest.get(id, (revision, generation)))
    return newest


REMOVED = ("forgotten", "repeated", "superseded", "exact duplicate", "near duplicate")  # what the marks say


def mark_forgotten(candidates: Candidates, tombstones: Tombstones) -> None:
    """Remove what is on the tombstone list, by id or by text."""
    for row, (id, text) in enumerate(zip(candidates.ids, candidates.text_hash, strict=True)):
        if tombstones.holds(id, text):
            candidates.reasons[row] = "forgotten"


def mark_superseded(candidates: Candidates) -> None:
    """Keep, of the rows of one keyed id, the newest text, in the oldest row that has it.

    Newest is by (revision, generation), of equals the last in order. So a page that a later dump repeats
    unchanged stays where it is ("repeated"), and a changed one takes its place ("superseded"). Where the
    newest revision was dropped on the way, no row stays.
    """
    newest: dict[bytes, int] = {}
    for row, id in enumerate(candidates.ids):
        stamp = (candidates.revision[row], candidates.generation[row])
        if candidates.keyed[row] and stamp == candidates.newest[id]:
            newest[id] = row
    standing: set[bytes] = set()
    for row, id in enumerate(candidates.ids):
        if not candidates.keyed[row] or candidates.reasons[row] is not None:
            continue
        same = id in newest and candidates.text_hash[row] == candidates.text_hash[newest[id]]
        if not same or id in standing:
            candidates.reasons[row] = "repeated" if same else "superseded"
        standing.update([id] if same else [])


def mark_duplicates(
    place: Place, candidates: Candidates, inputs: Sequence[Input], settings: DuplicateSettings
) -> dict[str, int]:
    """Judge what is left in the total order; note each removed row's survivor, similarity and what it lacks."""
    if not settings.enabled:
        return {}
    live = [row for row, reason in enumerate(candidates.reasons) if reason is None]
    order = sorted(live, key=lambda row: order_key(candidates, row, settings.prefer))
    keys = band_keys(candidates.signature[order], settings.band)
    sets = ShingleStore(settings.signature, TextReader(place, inputs, order))
    verdicts = judge_duplicates(candidates.set_hash[order], keys, sets, settings)
    for rank in np.flatnonzero(verdicts.survivor >= 0):
        row = order[rank]
        candidates.reasons[row] = "exact duplicate" if verdicts.exact[rank] else "near duplicate"
        candidates.survivor[row] = order[verdicts.survivor[rank]]
        candidates.similarity[row] = float(verdicts.similarity[rank])
        candidates.missing[row] = float(verdicts.missing[rank])
    return {"pairs compared": verdicts.num_compared, "comparisons cut off": verdicts.num_cut}


def order_key(candidates: Candidates, row: int, prefer: str) -> tuple[int, int, int, int, bytes]:
    """A document's place in the total order of deduplication."""
    return (
        candidates.since[row],
        int(candidates.priority[row]),
        -int(candidates.num_shingles[row]) if prefer == LONGEST else 0,
        -int(candidates.quality[row]),
        candidates.ids[row],
    )


class TextReader:
    """Texts of documents by their place in the order: reads only the parts that hold them."""

    def __init__(self, place: Place, inputs: Sequence[Input], order: Sequence[int]) -> None:
        self._place = place
        self._rows = np.array(order, np.int64)
        self._parts = [(item.documents, part) for item in inputs for part in item.documents.parts]
        self._starts = np.cumsum([0, *(part.rows("documents") for _, part in self._parts)])

    def __call__(self, places: Sequence[int]) -> pa.Array:
        """The texts of these documents, in their order, as large_string."""
        rows = self._rows[np.array(places, np.int64)]
        order = np.argsort(rows, kind="stable")
        ascending = rows[order]
        parts, firsts = np.unique(np.searchsorted(self._starts, ascending, side="right") - 1, return_index=True)
        groups = zip(parts.tolist(), np.split(ascending, firsts[1:]), strict=False)
        texts = pa.chunked_array([self._read(part, group) for part, group in groups], pa.large_string())
        return texts.combine_chunks().take(pa.array(np.argsort(order)))

    def _read(self, index: int, rows: Int64s) -> pa.Array:
        """The texts of some ascending rows, all of one part. Reads only the batches from the first to the last."""
        manifest, part = self._parts[index]
        within = rows - self._starts[index]
        between = range(int(within[0]), int(within[-1]) + 1)
        batches = open_table(self._place, manifest.stage_folder, part, "documents", ("text",), between)
        return pa.Table.from_batches(batches).column("text").take(pa.array(within - within[0])).combine_chunks()


def documents_at(place: Place, judged: Sequence[Manifest], rows: Collection[int]) -> dict[int, Document]:
    """Return the documents of rows of verdicts, by row; rows are in the order of the judged documents' parts."""
    documents_by_row: dict[int, Document] = {}
    first = 0
    for manifest in judged:
        for part in manifest.parts:
            stop = first + part.rows("documents")
            if here := sorted(row for row in rows if first <= row < stop):
                rows_there = [row - first for row in here]
                batches = open_table(place, manifest.stage_folder, part, "documents", DOCUMENTS.names, rows_there)
                documents_by_row.update(zip(here, documents(batches), strict=True))
            first = stop
    return documents_by_row
