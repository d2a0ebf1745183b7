"""The corpus: the documents that stay, with every one that went accounted for.

    raw files ─► documents ─► signatures ─► verdicts ─► corpus
                 (per source and generation)  (all generations so far)

A corpus grows by generations. A new one adds parts; no older file is rewritten. What an old generation's parts
hold and a later verdict took away is listed in `deleted`; what a later verdict brought back is, as text, in the
newest generation's `changes` part. `Corpus.batches` gives the live rows: the sum of all that.

documents = kept + removed(by reason), for each part, checked against the verdicts and the documents' own rows.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora.duplicates.build import VERDICTS
from corpora.duplicates.candidates import Input
from corpora.schema import DOCUMENTS, DROPPED, ID_BYTES, Document, columns_of, documents, excerpt, text_bytes
from corpora.store.content import content_of
from corpora.store.ledger import Account, Ledger, check_edge
from corpora.store.manifest import Manifest, Part
from corpora.store.part_writer import PartWriter
from corpora.store.places import Place
from corpora.store.stage import PartPlan, Stage
from corpora.store.tables import open_table, read_table

BUILD_VERSION = 1

CORPUS = pa.schema(
    [
        *DOCUMENTS,
        pa.field("generation", pa.int32(), nullable=False),  # whose parts hold this row
        pa.field("since", pa.int32(), nullable=False),  # in which the id first appeared
        pa.field("held_out", pa.bool_(), nullable=False),
    ]
)

DELETED = pa.schema(
    [
        pa.field("id", pa.binary(ID_BYTES), nullable=False),
        pa.field("revision", pa.int64(), nullable=False),
        pa.field("generation", pa.int32(), nullable=False),  # whose parts hold the deleted row
        pa.field("reason", pa.string(), nullable=False),
        pa.field("survivor", pa.binary(ID_BYTES)),
        pa.field("similarity", pa.float32()),
    ]
)

RowKey = tuple[bytes, int, int]  # id, revision, generation whose parts hold the row


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One generation: what came with it, and the verdicts on everything up to it."""

    number: int
    inputs: tuple[Input, ...]
    verdicts: Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyJob:
    """Apply the verdicts of one generation to one part of its documents; `first` is its first verdict row."""

    generation: Generation
    documents: Manifest
    part: Part
    first: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesJob:
    """What the verdicts of generation `after` changed for the rows of earlier generations."""

    before: tuple[Generation, ...]
    after: Generation


def plan_corpus(place: Place, name: str, generations: Sequence[Generation]) -> Stage:
    """The stage that writes the corpus of all generations so far. Reads the verdicts, no text."""
    parts: list[PartPlan] = []
    for index, generation in enumerate(generations):
        parts += _apply_parts(place, generation)
        if index:
            job = ChangesJob(before=tuple(generations[:index]), after=generation)
            key = [earlier.verdicts.content for earlier in generations[: index + 1]]
            labels = {"generation": str(generation.number)}
            parts.append(PartPlan(name=f"g{generation.number:03d}-changes", key=key, job=job, labels=labels))
    sources = [{"source": i.documents.name, "generation": i.generation} for i in generations[-1].inputs]
    return Stage(
        kind="corpora",
        name=name,
        build_version=BUILD_VERSION,
        settings={},
        parents=tuple(generation.verdicts.as_parent() for generation in generations),
        libraries={},
        parts=tuple(parts),
        build=build_corpus_part,
        facts={"generations": len(generations), "inputs": sources},
    )


def _apply_parts(place: Place, generation: Generation) -> Iterator[PartPlan]:
    """One part for each part of the documents that came with this generation."""
    verdicts = _verdict_table(place, generation)
    first = sum(item.documents.rows("documents") for item in generation.inputs if item.generation < generation.number)
    for item in generation.inputs:
        if item.generation == generation.number:
            for part in item.documents.parts:
                rows = part.rows("documents")
                key = {"documents": part.content, "verdicts": str(content_of(verdicts.slice(first, rows)))}
                job = ApplyJob(generation=generation, documents=item.documents, part=part, first=first)
                labels = {"generation": str(generation.number), "source": item.documents.name}
                name = f"g{generation.number:03d}-{item.documents.name}-{part.name}"
                yield PartPlan(name=name, key=key, job=job, labels=labels)
                first += rows
    check_edge(verdicts.num_rows, first, "documents", f"verdicts of generation {generation.number}")


def build_corpus_part(writer: PartWriter, plan: PartPlan) -> Ledger:
    """Write what stays and what goes of one part of documents, or what a generation changed for older rows."""
    if isinstance(plan.job, ChangesJob):
        return _build_changes(writer, plan.job)
    return _apply_verdicts(writer, plan.job)


def _apply_verdicts(writer: PartWriter, job: ApplyJob) -> Ledger:
    verdicts = _verdict_table(writer.place, job.generation)
    outcomes = Counter[str]()
    first = job.first
    with writer.table("documents", CORPUS) as kept, writer.table("removed", DROPPED) as removed:
        folder = f"documents/{job.documents.name}"
        for batch in open_table(writer.place, folder, job.part, "documents", DOCUMENTS.names):
            rows = verdicts.slice(first, batch.num_rows).combine_chunks()
            stays = rows.column("reason").is_null()
            kept.write(corpus_rows(batch, rows, job.generation.number).filter(stays))
            removed.write(_removed_rows(batch, rows).filter(pc.invert(stays)))
            reasons = rows.column("reason").to_pylist()
            outcomes.update("kept" if reason is None else f"removed: {reason}" for reason in reasons)
            first += batch.num_rows
    account = Account(unit="documents", total=job.part.rows("documents"), outcomes=outcomes)
    return Ledger(accounts=(account,))


def corpus_rows(batch: pa.RecordBatch, verdicts: pa.Table, generation: int) -> pa.Table:
    """Document rows with what the verdicts settled: id, revision, since and the held-out split."""
    settled = {
        **{name: batch.column(name) for name in DOCUMENTS.names},
        **{name: verdicts.column(name) for name in ("id", "revision", "since", "held_out")},
        "generation": pa.array(np.full(batch.num_rows, generation, np.int32)),
    }
    return pa.table(columns_of(settled, CORPUS), schema=CORPUS)


def _removed_rows(batch: pa.RecordBatch, verdicts: pa.Table) -> pa.Table:
    columns = {
        **{name: batch.column(name) for name in ("keyed", "source", "locator", "title")},
        **{name: verdicts.column(name) for name in ("id", "revision", "survivor", "similarity")},
        "step": ["duplicates" if s is not None else "revisions" for s in verdicts.column("survivor").to_pylist()],
        "reason": verdicts.column("reason").fill_null(""),
        "detail": [None] * batch.num_rows,
        "excerpt": [excerpt(text) for text in batch.column("text").to_pylist()],
    }
    return pa.table(columns_of(columns, DROPPED), schema=DROPPED)


def _build_changes(writer: PartWriter, job: ChangesJob) -> Ledger:
    """Deleted: rows that older parts hold and that are kept no longer. Revived: the other way round."""
    held = held_rows(writer.place, job.before)
    verdicts = _verdict_table(writer.place, job.after)
    reasons = verdicts.column("reason").to_pylist()
    gone = sorted(row for row in held if reasons[row] is not None)
    older = [row for row, origin in enumerate(_origins(job.after)) if origin < job.after.number]
    revived = [row for row in older if reasons[row] is None and row not in held]
    with writer.table("deleted", DELETED) as sink:
        rows = verdicts.take(pa.array(gone, pa.int64()))
        generations = pa.array([held[row] for row in gone], pa.int32())
        sink.write(rows.append_column("generation", generations).select(DELETED.names).cast(DELETED))
    with writer.table("documents", CORPUS) as sink:
        for batch in _revived_rows(writer.place, job.after, revived):
            sink.write(batch)
    counts = Counter(f"deleted: {reasons[row]}" for row in gone)
    outcomes = {"still kept": sum(reasons[row] is None for row in held), **counts}
    account = Account(unit="older documents", total=len(held), outcomes=outcomes)
    return Ledger(accounts=(account,), figures={"revived documents": len(revived)})


def held_rows(place: Place, generations: Sequence[Generation]) -> dict[int, int]:
    """The rows that are live after these generations, replayed from their verdicts alone.

    Verdict row -> generation whose parts hold it. Rows keep their number: a generation only appends.
    """
    held: dict[int, int] = {}
    for generation in generations:
        reasons = _verdict_table(place, generation).column("reason").to_pylist()
        kept = [row for row, reason in enumerate(reasons) if reason is None]
        held = {row: held.get(row, generation.number) for row in kept}
    return held


def _origins(generation: Generation) -> list[int]:
    """For each verdict row, the generation it came with."""
    return [item.generation for item in generation.inputs for _ in range(item.documents.rows("documents"))]


def _revived_rows(place: Place, after: Generation, rows: list[int]) -> Iterator[pa.Table]:
    """The text rows of older generations' documents, by verdict row."""
    verdicts = _verdict_table(place, after)
    wanted, first = np.array(rows, np.int64), 0
    for item in after.inputs:
        for part in item.documents.parts:
            for batch in open_table(place, f"documents/{item.documents.name}", part, "documents", DOCUMENTS.names):
                here = wanted[(wanted >= first) & (wanted < first + batch.num_rows)]
                if len(here):
                    chosen = batch.take(pa.array(here - first))
                    yield corpus_rows(chosen, verdicts.take(pa.array(here)).combine_chunks(), after.number)
                first += batch.num_rows


def _verdict_table(place: Place, generation: Generation) -> pa.Table:
    batches = list(read_table(place, generation.verdicts, "verdicts", VERDICTS.names))
    return pa.Table.from_batches(batches, VERDICTS)


@dataclass(frozen=True)
class Corpus:
    """A corpus in a store: its live rows, as record batches or one by one."""

    place: Place
    manifest: Manifest

    @cached_property
    def deleted(self) -> frozenset[RowKey]:
        """Rows that some part holds and that are not of the corpus any more."""
        tables = read_table(self.place, self.manifest, "deleted", ("id", "revision", "generation"))
        rows = (row for batch in tables for row in batch.to_pylist())
        return frozenset((row["id"], row["revision"], row["generation"]) for row in rows)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Live rows with `CORPUS`' columns, in order of generation, source and raw input."""
        for batch in read_table(self.place, self.manifest, "documents", CORPUS.names):
            yield without_deleted(batch, self.deleted)

    def documents(self) -> Iterator[Document]:
        """Live documents one by one, for people."""
        return documents(self.batches())

    def removed(self) -> Iterator[pa.RecordBatch]:
        """Documents that never entered, with reason, survivor and similarity."""
        return read_table(self.place, self.manifest, "removed", DROPPED.names)


def without_deleted(batch: pa.RecordBatch, deleted: frozenset[RowKey]) -> pa.RecordBatch:
    """A batch of corpus rows without those on the list."""
    if not deleted:
        return batch
    columns = (batch.column(name).to_pylist() for name in ("id", "revision", "generation"))
    live = [key not in deleted for key in zip(*columns, strict=True)]
    return batch.filter(pa.array(live, pa.bool_()))


def live_counts(corpus: Corpus) -> Mapping[str, int]:
    """Live documents and bytes of text, for reports."""
    counts = Counter[str]()
    for batch in corpus.batches():
        counts["documents"] += batch.num_rows
        counts["text bytes"] += text_bytes(batch.column("text"))
    return counts
