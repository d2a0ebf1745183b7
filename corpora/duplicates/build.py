"""Two stages: `signatures` (a sketch of every document, part by part) and `verdicts` (who stays, who goes).

Signatures depend on the documents alone, so a changed threshold sketches nothing again. Verdicts look at all
documents of the generations so far, in one total order:

    (since, source priority, -quality, id)

`since` is the generation in which the id first appeared. First the latest revision of each id supersedes the
others and the tombstone list is honoured; what is left is judged by `survivors.judge_duplicates`.
Memory of verdicts: the sketches of all documents (about 600 bytes each) and the shingles of those that share a
band with another.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpora.duplicates.bands import band_keys
from corpora.duplicates.signatures import signatures
from corpora.duplicates.survivors import DuplicateSettings, judge_duplicates
from corpora.duplicates.verify import Overlaps, ShingleSets, shingle_sets
from corpora.schema import ID_BYTES, occurrence_id
from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Manifest, Parent, Part
from corpora.store.places import Place
from corpora.store.randomness import stream, uniform
from corpora.store.settings import check_range, settings_json
from corpora.store.stage import PartPlan, PartWriter, Stage, library_versions, open_table
from corpora.tombstones import Tombstones, text_hash

SIGNATURES_VERSION = 1
VERDICTS_VERSION = 1

VERDICTS = pa.schema(
    [
        pa.field("id", pa.binary(ID_BYTES), nullable=False),
        pa.field("revision", pa.int64(), nullable=False),
        pa.field("since", pa.int32(), nullable=False),
        pa.field("held_out", pa.bool_(), nullable=False),
        pa.field("reason", pa.string()),  # null: kept
        pa.field("survivor", pa.binary(ID_BYTES)),
        pa.field("similarity", pa.float32()),
    ]
)

REVISIONS = pa.schema([pa.field("id", pa.binary(ID_BYTES), nullable=False), pa.field("revision", pa.int64())])


def signature_schema(permutations: int) -> pa.Schema:
    """A sketch: who it is of, what decides its place in the order, and its MinHash lanes."""
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
    """Held-out documents: a share of groups (or of documents without a group), by hash."""

    share: float = 0.01
    seed: int = 42

    def __post_init__(self) -> None:
        check_range("held_out.share", self.share, 0.0, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureJob:
    """One part of documents to sketch."""

    part: Part
    folder: str
    settings: DuplicateSettings


def plan_signatures(documents: Manifest, settings: DuplicateSettings) -> Stage:
    """The stage that sketches every document of one artifact; its parts mirror the documents'."""
    folder = f"{documents.kind}/{documents.name}"
    return Stage(
        kind="signatures",
        name=documents.name,
        build_version=SIGNATURES_VERSION,
        settings=settings_json(settings.signing()),
        parents=(parent_of(documents),),
        libraries=library_versions("datasketch"),
        parts=tuple(
            PartPlan(
                name=part.name,
                key=part.fingerprint,
                job=SignatureJob(part=part, folder=folder, settings=settings),
            )
            for part in documents.parts
        ),
        build=build_signatures_part,
    )


def parent_of(manifest: Manifest) -> Parent:
    """A manifest as another artifact's parent."""
    return Parent(role=manifest.kind, name=manifest.name, fingerprint=manifest.fingerprint)


def build_signatures_part(writer: PartWriter, plan: PartPlan) -> Ledger:
    """Sketch the documents of one part; note the ids and revisions of keyed records that were dropped."""
    job: SignatureJob = plan.job
    schema = signature_schema(job.settings.permutations)
    written = 0
    with writer.table("signatures", schema) as sink, writer.table("revisions", REVISIONS) as revisions:
        for batch in open_table(writer.place, job.folder, job.part, "documents"):
            sink.write(_sketch(batch, schema, job.settings))
            written += batch.num_rows
        for batch in open_table(writer.place, job.folder, job.part, "dropped"):
            keyed = batch.filter(batch.column("keyed"))
            revisions.write(keyed.select(REVISIONS.names).cast(REVISIONS))
    account = Account(unit="documents", total=job.part.rows("documents"), outcomes={"sketched": written})
    return Ledger(accounts=(account,))


def _sketch(batch: pa.RecordBatch, schema: pa.Schema, settings: DuplicateSettings) -> pa.RecordBatch:
    sketch = signatures(batch.column("text"), settings.signing())
    groups = zip(batch.column("source").to_pylist(), batch.column("group").to_pylist(), strict=True)
    columns = {
        **{name: batch.column(name) for name in ("id", "keyed", "revision", "quality")},
        "group_key": [None if group is None else _hash64(f"{source}\0{group}") for source, group in groups],
        "text_hash": [text_hash(text.encode()) for text in batch.column("text").to_pylist()],
        "set_hash": sketch.set_hash,
        "num_shingles": sketch.num_shingles,
        "signature": [row.tobytes() for row in sketch.signature],
    }
    arrays = [pa.array(columns[column.name], column.type) for column in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _hash64(text: str) -> int:
    return int.from_bytes(text_hash(text.encode())[:8], "little")


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One source of one generation: its documents and their sketches. `priority`: the lower survives."""

    generation: int
    priority: int
    documents: Manifest
    signatures: Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictsJob:
    """Everything that verdicts look at."""

    inputs: tuple[Input, ...]
    duplicates: DuplicateSettings
    split: SplitSettings
    tombstones: Tombstones


def plan_verdicts(
    name: str,
    inputs: Sequence[Input],
    duplicates: DuplicateSettings,
    split: SplitSettings,
    tombstones: Tombstones,
) -> Stage:
    """The stage that judges all documents of the generations so far: one part."""
    job = VerdictsJob(inputs=tuple(inputs), duplicates=duplicates, split=split, tombstones=tombstones)
    order = [[item.generation, item.documents.name, item.priority] for item in inputs]
    parents = tuple(parent_of(m) for item in inputs for m in (item.documents, item.signatures))
    return Stage(
        kind="verdicts",
        name=name,
        build_version=VERDICTS_VERSION,
        settings={
            "duplicates": settings_json(duplicates),
            "held_out": settings_json(split),
            "inputs": order,
            "tombstones": tombstones.fingerprint,
        },
        parents=parents,
        libraries={},
        parts=(PartPlan(name="verdicts", key=[parent.fingerprint for parent in parents], job=job),),
        build=build_verdicts,
    )


def build_verdicts(writer: PartWriter, plan: PartPlan) -> Ledger:
    """Judge every document: superseded, forgotten, duplicate or kept. One row each, in the order of the inputs."""
    job: VerdictsJob = plan.job
    candidates = read_candidates(writer.place, job)
    mark_forgotten(candidates, job.tombstones)
    mark_superseded(candidates)
    figures = mark_duplicates(writer.place, candidates, job)
    with writer.table("verdicts", VERDICTS) as sink:
        sink.write(_verdict_rows(candidates, job.split))
    total = sum(item.documents.rows("documents") for item in job.inputs)
    counts = Counter("kept" if reason is None else f"removed: {reason}" for reason in candidates.reasons)
    return Ledger(accounts=(Account(unit="documents", total=total, outcomes=counts),), figures=figures)


@dataclass(slots=True, kw_only=True)
class Candidates:
    """All documents that are judged together, as columns of equal length, and what has been found so far."""

    ids: list[bytes]
    keyed: list[bool]
    revision: list[int]
    since: list[int]
    priority: npt.NDArray[np.int32]
    quality: npt.NDArray[np.int32]
    split_keys: npt.NDArray[np.uint64]
    text_hash: list[bytes]
    set_hash: npt.NDArray[np.uint64]
    signature: npt.NDArray[np.uint32]
    newest: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    generation: list[int] = field(default_factory=list)
    reasons: list[str | None] = field(default_factory=list)
    survivor: list[int] = field(default_factory=list)
    similarity: list[float | None] = field(default_factory=list)


def read_candidates(place: Place, job: VerdictsJob) -> Candidates:
    """The sketches of all inputs in order, with occurrences numbered and `since` worked out."""
    tables = [_read_sketches(place, item, job.duplicates) for item in job.inputs]
    table = pa.concat_tables(tables)
    generation = np.repeat([item.generation for item in job.inputs], [t.num_rows for t in tables]).tolist()
    priority = np.repeat([item.priority for item in job.inputs], [t.num_rows for t in tables])
    keyed = table.column("keyed").to_pylist()
    ids = number_occurrences(table.column("id").to_pylist(), keyed)
    revision = [
        own if own is not None else born
        for own, born in zip(table.column("revision").to_pylist(), generation, strict=True)
    ]
    dropped = list(_dropped_revisions(place, job.inputs))
    first: dict[bytes, int] = {}
    for id, born in [*zip(ids, generation, strict=True), *((id, born) for id, _, born in dropped)]:
        first[id] = min(born, first.get(id, born))
    group_keys = table.column("group_key").to_pylist()
    lanes = np.frombuffer(b"".join(table.column("signature").to_pylist()), np.uint32)
    rows = table.num_rows
    return Candidates(
        ids=ids,
        keyed=keyed,
        revision=revision,
        since=[first[id] for id in ids],
        priority=priority.astype(np.int32),
        quality=table.column("quality").to_numpy(),
        split_keys=np.array(
            [_hash64(id.hex()) if key is None else key for id, key in zip(ids, group_keys, strict=True)], np.uint64
        ),
        text_hash=table.column("text_hash").to_pylist(),
        set_hash=table.column("set_hash").to_numpy(),
        signature=lanes.reshape(rows, job.duplicates.permutations),
        newest=_newest([*zip(ids, revision, generation, keyed, strict=True)], dropped),
        generation=generation,
        reasons=[None] * rows,
        survivor=[-1] * rows,
        similarity=[None] * rows,
    )


def _read_sketches(place: Place, item: Input, settings: DuplicateSettings) -> pa.Table:
    folder = f"{item.signatures.kind}/{item.signatures.name}"
    batches = [b for part in item.signatures.parts for b in open_table(place, folder, part, "signatures")]
    return pa.Table.from_batches(batches, signature_schema(settings.permutations))


def _dropped_revisions(place: Place, inputs: Sequence[Input]) -> Iterator[tuple[bytes, int, int]]:
    """(id, revision, generation) of keyed records that were dropped: they supersede what they revise."""
    for item in inputs:
        folder = f"{item.signatures.kind}/{item.signatures.name}"
        for part in item.signatures.parts:
            for batch in open_table(place, folder, part, "revisions"):
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
    rows: list[tuple[bytes, int, int, bool]], dropped: list[tuple[bytes, int, int]]
) -> dict[bytes, tuple[int, int]]:
    """The newest (revision, generation) of each keyed id."""
    newest: dict[bytes, tuple[int, int]] = {}
    for id, revision, generation in [*((i, r, g) for i, r, g, keyed in rows if keyed), *dropped]:
        newest[id] = max((revision, generation), newest.get(id, (revision, generation)))
    return newest


def mark_forgotten(candidates: Candidates, tombstones: Tombstones) -> None:
    """Remove what is on the tombstone list, by id or by text."""
    for row, (id, text) in enumerate(zip(candidates.ids, candidates.text_hash, strict=True)):
        if tombstones.holds(id, text):
            candidates.reasons[row] = "forgotten"


def mark_superseded(candidates: Candidates) -> None:
    """Of the rows of one keyed id, keep the newest text, in the oldest row that has it.

    Newest is by (revision, generation), of equals the last in order. So a page that a later dump repeats
    unchanged stays where it stands ("repeated"), and a changed one takes its place ("superseded"). Where the
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


def mark_duplicates(place: Place, candidates: Candidates, job: VerdictsJob) -> dict[str, int]:
    """Judge what is left in the total order; note each removed row's survivor and similarity."""
    if not job.duplicates.enabled:
        return {}
    live = [row for row, reason in enumerate(candidates.reasons) if reason is None]
    order = sorted(live, key=lambda row: order_key(candidates, row))
    keys = band_keys(candidates.signature[order], job.duplicates.banding())
    similarity = Comparisons(place, job, order)
    verdicts = judge_duplicates(candidates.set_hash[order], keys, similarity, job.duplicates)
    for rank in np.flatnonzero(verdicts.survivor >= 0):
        row = order[rank]
        candidates.reasons[row] = "exact duplicate" if verdicts.exact[rank] else "near duplicate"
        candidates.survivor[row] = order[verdicts.survivor[rank]]
        candidates.similarity[row] = float(verdicts.similarity[rank])
    return {"pairs compared": verdicts.num_compared, "comparisons cut off": verdicts.num_cut}


def order_key(candidates: Candidates, row: int) -> tuple[int, int, int, bytes]:
    """A document's place in the total order of deduplication."""
    return (
        candidates.since[row],
        int(candidates.priority[row]),
        -int(candidates.quality[row]),
        candidates.ids[row],
    )


class Comparisons:
    """Exact similarities of pairs of documents, by their ranks in the order.

    Reads the text of a document once, when a pair first asks for it, and keeps its shingle set.
    """

    def __init__(self, place: Place, job: VerdictsJob, order: Sequence[int]) -> None:
        self._place = place
        self._rows = np.array(order, np.int64)
        self._words = job.duplicates.shingle_words
        self._parts = [(item.documents, part) for item in job.inputs for part in item.documents.parts]
        self._starts = np.cumsum([0, *(part.rows("documents") for _, part in self._parts)])
        self._sets: dict[int, npt.NDArray[np.uint64]] = {}

    def __call__(self, left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]) -> Overlaps:
        """The similarities of the pairs (left[k], right[k])."""
        ranks, places = np.unique(np.concatenate([left, right]), return_inverse=True)
        self._read([rank for rank in ranks.tolist() if rank not in self._sets])
        sets = [self._sets[rank] for rank in ranks.tolist()]
        offsets = np.cumsum([0, *map(len, sets)], dtype=np.int64)
        values = np.concatenate([np.zeros(0, np.uint64), *sets])
        return ShingleSets(values, offsets).overlaps(places[: len(left)], places[len(left) :])

    def _read(self, ranks: list[int]) -> None:
        """Keep the shingle sets of these documents; texts are read part by part."""
        rows = self._rows[np.array(ranks, np.int64)]
        parts = np.searchsorted(self._starts, rows, side="right") - 1
        for index in np.unique(parts).tolist():
            chosen = np.flatnonzero(parts == index)
            manifest, part = self._parts[index]
            batches = open_table(self._place, f"{manifest.kind}/{manifest.name}", part, "documents")
            column = pa.Table.from_batches([b.select(["text"]) for b in batches]).column("text")
            texts = column.take(pa.array(rows[chosen] - self._starts[index])).combine_chunks()
            sets = shingle_sets(texts, self._words)
            for number, place in enumerate(chosen.tolist()):
                self._sets[ranks[place]] = sets.values[sets.offsets[number] : sets.offsets[number + 1]]


def _verdict_rows(candidates: Candidates, split: SplitSettings) -> pa.Table:
    held_out = uniform(stream(split.seed, "held-out", 0, candidates.split_keys), 0) < split.share
    columns = {
        "id": candidates.ids,
        "revision": candidates.revision,
        "since": candidates.since,
        "held_out": held_out,
        "reason": candidates.reasons,
        "survivor": [candidates.ids[row] if row >= 0 else None for row in candidates.survivor],
        "similarity": candidates.similarity,
    }
    return pa.table([pa.array(columns[column.name], column.type) for column in VERDICTS], schema=VERDICTS)
