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
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from corpora.duplicates.candidates import (
    REVISIONS,
    Candidates,
    Input,
    SplitSettings,
    VerdictsJob,
    hash64,
    mark_duplicates,
    mark_forgotten,
    mark_superseded,
    read_candidates,
    signature_schema,
)
from corpora.duplicates.signatures import signatures
from corpora.duplicates.survivors import DuplicateSettings
from corpora.schema import ID_BYTES, columns_of
from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Manifest, Part
from corpora.store.part_writer import PartWriter
from corpora.store.randomness import stream, uniform
from corpora.store.settings import settings_json
from corpora.store.stage import PartPlan, Stage, library_versions
from corpora.store.tables import open_table
from corpora.tombstones import Tombstones, text_hash

SIGNATURES_VERSION = 1
VERDICTS_VERSION = 1

SKETCHED = ("id", "keyed", "revision", "text", "source", "group", "quality")  # what a sketch is made of

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


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureJob:
    """One part of documents to sketch."""

    part: Part
    folder: str
    settings: DuplicateSettings


def plan_signatures(documents: Manifest, settings: DuplicateSettings) -> Stage:
    """The stage that sketches every document of one artifact; its parts mirror the documents'."""
    folder = documents.stage_folder
    return Stage(
        kind="signatures",
        name=documents.name,
        build_version=SIGNATURES_VERSION,
        settings=settings_json(settings.signature),
        parents=(documents.as_parent(),),
        libraries=library_versions("datasketch"),
        parts=tuple(
            PartPlan(
                name=part.name,
                key=part.content,
                job=SignatureJob(part=part, folder=folder, settings=settings),
            )
            for part in documents.parts
        ),
        build=build_signatures_part,
    )


def build_signatures_part(writer: PartWriter, plan: PartPlan) -> Ledger:
    """Sketch the documents of one part; note the ids and revisions of keyed records that were dropped."""
    job: SignatureJob = plan.job
    schema = signature_schema(job.settings.permutations)
    written = 0
    with writer.table("signatures", schema) as sink, writer.table("revisions", REVISIONS) as revisions:
        for batch in open_table(writer.place, job.folder, job.part, "documents", SKETCHED):
            sink.write(_sketch(batch, schema, job.settings))
            written += batch.num_rows
        for batch in open_table(writer.place, job.folder, job.part, "dropped", ("keyed", *REVISIONS.names)):
            keyed = batch.filter(batch.column("keyed"))
            revisions.write(keyed.select(REVISIONS.names).cast(REVISIONS))
    account = Account(unit="documents", total=job.part.rows("documents"), outcomes={"sketched": written})
    return Ledger(accounts=(account,))


def _sketch(batch: pa.RecordBatch, schema: pa.Schema, settings: DuplicateSettings) -> pa.RecordBatch:
    sketch = signatures(batch.column("text"), settings.signature)
    groups = zip(batch.column("source").to_pylist(), batch.column("group").to_pylist(), strict=True)
    columns = {
        **{name: batch.column(name) for name in ("id", "keyed", "revision", "quality")},
        "group_key": [None if group is None else hash64(f"{source}\0{group}") for source, group in groups],
        "text_hash": [text_hash(text.encode()) for text in batch.column("text").to_pylist()],
        "set_hash": sketch.set_hash,
        "num_shingles": sketch.num_shingles,
        "signature": [row.tobytes() for row in sketch.signature],
    }
    return pa.RecordBatch.from_arrays(columns_of(columns, schema), schema=schema)


def plan_verdicts(
    name: str,
    inputs: Sequence[Input],
    duplicates: DuplicateSettings,
    split: SplitSettings,
    tombstones: Tombstones,
) -> Stage:
    """The stage that judges all documents of the generations so far: one part."""
    job = VerdictsJob(inputs=tuple(inputs), duplicates=duplicates, split=split, tombstones=tombstones)
    parents = tuple(
        manifest.as_parent(label=f"generation {item.generation}")
        for item in inputs
        for manifest in (item.documents, item.signatures)
    )
    order = [[item.generation, item.priority, item.documents.content, item.signatures.content] for item in inputs]
    return Stage(
        kind="verdicts",
        name=name,
        build_version=VERDICTS_VERSION,
        settings={
            "duplicates": settings_json(duplicates),
            "held_out": settings_json(split),
            "priorities": {item.documents.name: item.priority for item in inputs},
            "tombstones": tombstones.fingerprint,
        },
        parents=parents,
        libraries={},
        parts=(PartPlan(name="verdicts", key=order, job=job),),
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
    return pa.table(columns_of(columns, VERDICTS), schema=VERDICTS)
