"""The corpus: the documents that are kept, with every removed document accounted for.

    raw files ─► documents ─► signatures ─► verdicts ─► corpus
                 (per source and generation)  (all generations so far)

A corpus grows by generations. A new generation adds parts, and rewrites no older file. Rows of older parts that a later
verdict removed are listed in `deleted`. Rows that a later verdict restored are in the `changes` part of the newest
generation. `Corpus.iter_batches` yields the rows that remain. Texts are not written again: a row refers to its document
(`views.py`).

documents = kept + removed(by reason), for each part, checked against the verdicts and the documents' own rows.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora.duplicates.candidates import Input
from corpora.duplicates.verdicts import VERDICTS
from corpora.kernels.arrays import Bools, Int32s, Int64s
from corpora.schema import DROPPED, ID_BYTES, Document, arrange_columns, cut_excerpt, iter_documents
from corpora.store.ledger import Account, Ledger, check_edge
from corpora.store.manifest import Manifest, ManifestAddress, Part
from corpora.store.part_writer import PartWriter
from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, Stage, read_manifest_at
from corpora.store.tables import compute_slice_contents, read_part_rows, read_part_table, read_table
from corpora.views import (
    CORPUS,
    ROW_KEY,
    VIEW,
    DeleteList,
    PartView,
    build_view_rows,
    compute_documents_content,
    list_views,
    read_view,
)

BUILD_VERSION = 3  # 3: texts are read from the documents

REMOVED_COLUMNS = ("keyed", "source", "locator", "title", "text")  # of documents that do not stay
MISSING = VERDICTS.field("missing")
REMOVED = pa.schema([*DROPPED, MISSING])

DELETED = pa.schema(
    [
        pa.field("id", pa.binary(ID_BYTES), nullable=False),
        pa.field("revision", pa.int64(), nullable=False),
        pa.field("generation", pa.int32(), nullable=False),  # whose parts hold the deleted row
        pa.field("reason", pa.string(), nullable=False),
        *(VERDICTS.field(name) for name in ("survivor", "similarity", "missing")),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One update of the corpus: the documents that it added, and the verdicts on all documents so far."""

    number: int
    inputs: tuple[Input, ...]
    verdicts: Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyJob:
    """Input of the task that applies the verdicts of one corpus update to one file of the documents that it added.

    Attributes:
        generation: Number of the corpus update, counted from 1.
        folder: Folder of the documents' stage, in the store.
        part: The documents.
        verdicts_folder: Folder of the verdicts' stage, in the store.
        verdicts: The verdicts on the documents of all corpus updates so far.
        first: Zero-based row in `verdicts` of the first of these documents.
    """

    generation: int
    folder: str
    part: Part
    verdicts_folder: str
    verdicts: Part
    first: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OlderDocuments:
    """The documents that one source contributed to an earlier corpus update, and their number."""

    documents: ManifestAddress
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesJob:
    """Input of the task that finds out what a corpus update changed for the documents of earlier updates.

    Attributes:
        generation: Number of the corpus update, counted from 1.
        before: The verdicts of each earlier update, by its number.
        verdicts: The verdicts of this update.
        older: The documents of all earlier updates, in the same order as the verdicts' rows.
    """

    generation: int
    before: Mapping[int, ManifestAddress]
    verdicts: ManifestAddress
    older: tuple[OlderDocuments, ...]


def plan_corpus(
    place: Place,
    name: str,
    generations: Sequence[Generation],
    previous: Manifest | None = None,
    with_parts: bool = True,
) -> Stage:
    """Plan the stage that writes the corpus of all updates so far. This reads verdicts, but no texts.

    Args:
        place: The store.
        name: Name of the corpus.
        generations: All updates of the corpus so far, in order.
        previous: The corpus of the earlier updates, if it exists. Its files are kept, and the verdicts of these
            updates are not read again.
        with_parts: If False, nothing is read, and the returned stage has an identity but nothing to build.

    Raises:
        LedgerError: If an update does not have one verdict per document.
    """
    settled = previous.parts if previous is not None else ()
    parts = [
        PartPlan(name=part.name, key=None, labels=part.labels, known_fingerprint=part.fingerprint) for part in settled
    ]
    first = int(previous.facts["generations"]) if previous is not None else 0
    for index, generation in enumerate(generations[first:] if with_parts else (), first):
        parts += _iter_apply_plans(place, generation)
        if index:
            job = _build_changes_job(generations[:index], generation)
            key = [earlier.verdicts.content for earlier in generations[: index + 1]]
            labels = {"generation": str(generation.number)}
            parts.append(PartPlan(name=f"g{generation.number:03d}-changes", key=key, job=job, labels=labels))
    sources = [{"source": i.documents.name, "generation": i.generation} for i in generations[-1].inputs]
    return Stage(
        kind="corpora",
        name=name,
        build_version=BUILD_VERSION,
        settings={},
        parents=(
            *(item.documents.as_parent(label=f"generation {item.generation}") for item in generations[-1].inputs),
            *(generation.verdicts.as_parent() for generation in generations),
        ),
        libraries={},
        parts=tuple(parts),
        build=build_corpus_part,
        facts={"generations": len(generations), "inputs": sources},
        previous=previous,
    )


def _build_changes_job(earlier_generations: Sequence[Generation], generation: Generation) -> ChangesJob:
    older = [item.documents for item in generation.inputs if item.generation < generation.number]
    return ChangesJob(
        generation=generation.number,
        before={earlier.number: earlier.verdicts.address for earlier in earlier_generations},
        verdicts=generation.verdicts.address,
        older=tuple(
            OlderDocuments(documents=manifest.address, rows=manifest.count_rows("documents")) for manifest in older
        ),
    )


def _iter_apply_plans(place: Place, generation: Generation) -> Iterator[PartPlan]:
    """Yield the plan of one task for each file of documents that a corpus update added, in order.

    Each plan contains an `ApplyJob`, and a key made from the contents of the documents and of the verdicts on them.

    Args:
        place: The store.
        generation: The corpus update. Files of earlier updates are only counted.

    Raises:
        LedgerError: If the update does not have one verdict per document.
    """
    own = [item.documents for item in generation.inputs if item.generation == generation.number]
    older = sum(
        item.documents.count_rows("documents") for item in generation.inputs if item.generation < generation.number
    )
    parts = [(manifest, part) for manifest in own for part in manifest.parts]
    bounds = np.cumsum([older, *(part.count_rows("documents") for _, part in parts)]).tolist()
    judged = generation.verdicts.count_rows("verdicts")
    check_edge(judged, bounds[-1], "documents", f"verdicts of generation {generation.number}")
    contents = compute_slice_contents(place, generation.verdicts, "verdicts", bounds)
    [verdicts] = generation.verdicts.parts
    for (manifest, part), first, content in zip(parts, bounds, contents, strict=False):
        job = ApplyJob(
            generation=generation.number,
            folder=manifest.stage_folder,
            part=part,
            verdicts_folder=generation.verdicts.stage_folder,
            verdicts=verdicts,
            first=first,
        )
        yield PartPlan(
            name=f"g{generation.number:03d}-{manifest.name}-{part.name}",
            key={"documents": str(compute_documents_content(part)), "verdicts": str(content)},
            job=job,
            labels={"generation": str(generation.number), "source": manifest.name},
        )


def build_corpus_part(writer: PartWriter, plan: PartPlan) -> Ledger:
    """Run one task: write the kept and removed documents of one file, or what an update changed for older documents.

    The job of `plan` (an `ApplyJob` or a `ChangesJob`) decides which. The returned ledger counts the documents by
    outcome, such as "kept" or "removed: REASON".
    """
    if isinstance(plan.job, ChangesJob):
        return _build_changes(writer, plan.job)
    return _apply_verdicts(writer, plan.job)


def _apply_verdicts(writer: PartWriter, job: ApplyJob) -> Ledger:
    total = job.part.count_rows("documents")
    verdicts = _read_verdicts(writer.place, job, range(job.first, job.first + total))
    stays = verdicts.column("reason").is_null()
    gone = verdicts.filter(pc.invert(stays))
    kept, removed = (np.flatnonzero(stays.to_numpy(zero_copy_only=False) == stay) for stay in (True, False))
    with writer.create_table("documents", VIEW) as sink:
        sink.write(build_view_rows(verdicts.filter(stays), kept, job.part, job.generation))
    first = 0
    with writer.create_table("removed", REMOVED) as sink:
        for batch in read_part_rows(writer.place, job.folder, job.part, "documents", REMOVED_COLUMNS, removed):
            sink.write(_build_removed_rows(batch, gone.slice(first, batch.num_rows)))
            first += batch.num_rows
    outcomes = Counter({"kept": verdicts.column("reason").null_count}) + _count_removals(verdicts, "removed")
    return Ledger(accounts=(Account(unit="documents", total=total, outcomes=outcomes),))


def _read_verdicts(place: Place, job: ApplyJob, rows: range) -> pa.RecordBatch:
    batches = read_part_table(place, job.verdicts_folder, job.verdicts, "verdicts", VERDICTS.names, rows)
    return combine_batches(pa.Table.from_batches(batches, VERDICTS))


def combine_batches(rows: pa.Table) -> pa.RecordBatch:
    """Convert a table to one record batch with the same rows and columns.

    The chunks of each column are concatenated.
    """
    return pa.RecordBatch.from_arrays([column.combine_chunks() for column in rows.columns], schema=rows.schema)


def _count_removals(verdicts: pa.RecordBatch, what: str) -> Counter[str]:
    """Count the removed documents by reason. Keys have the form "WHAT: REASON", where WHAT is the argument `what`."""
    counts = pc.value_counts(verdicts.column("reason").drop_null()).to_pylist()
    return Counter({f"{what}: {entry['values']}": entry["counts"] for entry in counts})


def _build_removed_rows(batch: pa.RecordBatch, verdicts: pa.RecordBatch) -> pa.Table:
    """Build rows of the table "removed" from removed documents and the verdicts on them.

    Args:
        batch: The documents, with the columns `REMOVED_COLUMNS`.
        verdicts: One row of `VERDICTS` for each document, in the same order.
    """
    columns = {
        **{name: batch.column(name) for name in REMOVED_COLUMNS if name != "text"},
        **{name: verdicts.column(name) for name in ("id", "revision", "survivor", "similarity", "missing")},
        "step": pc.if_else(verdicts.column("survivor").is_valid(), "duplicates", "revisions"),
        "reason": verdicts.column("reason"),
        "detail": [None] * batch.num_rows,
        "excerpt": [cut_excerpt(text) for text in batch.column("text").to_pylist()],
    }
    return pa.table(arrange_columns(columns, REMOVED), schema=REMOVED)


def _build_changes(writer: PartWriter, job: ChangesJob) -> Ledger:
    """Write the older documents that are no longer kept (table "deleted") or are kept again (table "documents").

    Args:
        writer: Writes the two tables.
        job: Names the verdicts of this update and of those before, and the older documents.

    Returns:
        A ledger that accounts for the older documents that were kept before this update. Its outcomes count those that
        are still kept, and those that were deleted, by reason. Its figures count those that are kept again.
    """
    place = writer.place
    held = compute_holders(place, {number: read_manifest_at(place, address) for number, address in job.before.items()})
    kept = read_kept(place, read_manifest_at(place, job.verdicts))[: len(held)]
    changed = np.flatnonzero((held > 0) != kept)
    verdicts = _read_verdict_rows(place, read_manifest_at(place, job.verdicts), changed)
    gone = verdicts.column("reason").is_valid()
    deleted, revived = verdicts.filter(gone), verdicts.filter(pc.invert(gone))
    with writer.create_table("deleted", DELETED) as sink:
        generations = pa.array(held[changed[held[changed] > 0]])
        sink.write(deleted.append_column("generation", generations).select(DELETED.names).cast(DELETED))
    with writer.create_table("documents", VIEW) as sink:
        for rows in _iter_revived_rows(place, job, changed[held[changed] == 0], revived):
            sink.write(rows)
    outcomes = {"still kept": int(np.count_nonzero(kept & (held > 0))), **_count_removals(deleted, "deleted")}
    account = Account(unit="older documents", total=int(np.count_nonzero(held)), outcomes=outcomes)
    return Ledger(accounts=(account,), figures={"revived documents": revived.num_rows})


def compute_holders(place: Place, verdicts: Mapping[int, Manifest]) -> Int32s:
    """Find out which corpus update's files contain each document: int32 [rows], 0 if no file contains it.

    Entry i of the result is for row i of the newest verdicts, because later updates only append rows.

    Args:
        place: The store.
        verdicts: The verdicts of each corpus update, by its number, in ascending order.
    """
    holders = np.zeros(0, np.int32)
    for number, manifest in verdicts.items():
        kept = read_kept(place, manifest)
        holders = np.r_[holders, np.zeros(len(kept) - len(holders), np.int32)]
        holders = np.where(kept, np.where(holders > 0, holders, np.int32(number)), np.int32(0))
    return holders


def read_kept(place: Place, verdicts: Manifest) -> Bools:
    """Read which documents are kept: bool, one entry for each row of the verdicts.

    Raises:
        Damaged: If a file is missing, damaged or modified.
    """
    reasons = (batch.column("reason") for batch in read_table(place, verdicts, "verdicts", ("reason",)))
    kept = [np.zeros(0, np.bool_), *(column.is_null().to_numpy(zero_copy_only=False) for column in reasons)]
    return np.concatenate(kept)


def _read_verdict_rows(place: Place, verdicts: Manifest, rows: Int64s) -> pa.RecordBatch:
    """Read selected rows of verdicts as one record batch with the columns of `VERDICTS`.

    Args:
        place: The store.
        verdicts: Manifest of the verdicts.
        rows: int64, zero-based rows, ascending.
    """
    chosen, first = [], 0
    for batch in read_table(place, verdicts, "verdicts", VERDICTS.names):
        here = _select_between(rows, first, first + batch.num_rows)
        chosen += [batch.take(pa.array(here))] if len(here) else []
        first += batch.num_rows
    return combine_batches(pa.Table.from_batches(chosen, VERDICTS))


def _select_between(rows: Int64s, first: int, stop: int) -> Int64s:
    """Select the values of `rows` from `first` to `stop` (exclusive), and subtract `first` from them.

    `rows` must be ascending.
    """
    start, end = np.searchsorted(rows, (first, stop))
    return rows[start:end] - first


def _iter_revived_rows(place: Place, job: ChangesJob, rows: Int64s, verdicts: pa.RecordBatch) -> Iterator[pa.Table]:
    """Yield corpus rows (`VIEW`) for older documents that are kept again: one table for each file with such documents.

    Only the manifests of the stages that contain such documents are read.

    Args:
        place: The store.
        job: The task.
        rows: int64, rows of these documents in the verdicts, ascending.
        verdicts: The verdicts on them, in the same order.
    """
    first = taken = 0
    for item in job.older:
        if len(_select_between(rows, first, first + item.rows)):
            row = first
            for part in read_manifest_at(place, item.documents).parts:
                revived = _select_between(rows, row, row + part.count_rows("documents"))
                if len(revived):
                    yield build_view_rows(verdicts.slice(taken, len(revived)), revived, part, job.generation)
                taken, row = taken + len(revived), row + part.count_rows("documents")
        first += item.rows


def read_delete_list(place: Place, corpus: Manifest) -> DeleteList:
    """Read the list of documents that later updates removed from the files of earlier ones.

    Args:
        place: The store.
        corpus: The corpus. Its list is empty if no document was removed.

    Raises:
        Damaged: If a file is missing, damaged or modified.
    """
    batches = read_table(place, corpus, "deleted", ROW_KEY)
    return DeleteList(pa.Table.from_batches(batches, pa.schema([DELETED.field(name) for name in ROW_KEY])))


@lru_cache(maxsize=2)
def read_delete_list_at(place: Place, corpus: ManifestAddress) -> DeleteList:
    """Read the delete list of a corpus from the address of its manifest. The last two results are cached.

    Raises:
        Damaged: If the manifest or a file is missing, damaged or modified.
    """
    return read_delete_list(place, read_manifest_at(place, corpus))


@dataclass(frozen=True)
class Corpus:
    """A corpus in a store. Its methods read the documents that belong to it, without those deleted by later updates."""

    place: Place
    manifest: Manifest

    @cached_property
    def views(self) -> list[PartView]:
        """The files of the corpus, each with the artifacts from which its texts are read."""
        return list_views(self.manifest)

    def iter_batches(self, columns: Sequence[str] = CORPUS.names) -> Iterator[pa.RecordBatch]:
        """Yield the documents of the corpus as record batches, ordered by corpus update, source and position in the raw
        input.

        Args:
            columns: Names of the columns of `CORPUS` to read.

        Raises:
            Damaged: If a file is missing, damaged or modified.
        """
        deleted = read_delete_list(self.place, self.manifest)
        for view in self.views:
            yield from read_view(self.place, view, columns, deleted=deleted)

    def iter_documents(self) -> Iterator[Document]:
        """Yield the documents of the corpus one at a time, in the order of `iter_batches`, which is much faster.

        Raises:
            Damaged: If a file is missing, damaged or modified.
        """
        return iter_documents(self.iter_batches())

    def iter_removed(self) -> Iterator[pa.RecordBatch]:
        """Yield the documents that were removed as duplicates or old revisions, with the columns of `REMOVED`.

        Column `reason` says why. For a duplicate, the rows also contain the id of the kept document, the similarity to
        it (0 to 1), and the share of its shingles (runs of words) that the kept document lacks.

        Raises:
            Damaged: If a file is missing, damaged or modified.
        """
        return read_table(self.place, self.manifest, "removed", REMOVED.names)
