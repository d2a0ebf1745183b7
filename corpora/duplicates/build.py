"""Two stages: `signatures` (a sketch of every document, part by part) and `verdicts` (which documents are kept).

Signatures depend only on the documents, so changing the threshold does not recompute them. Verdicts cover all documents
of the generations so far, in one total order:

    (since, source priority, -quality, id), or with prefer = "longest" (since, source priority, -shingles, -quality, id)

`since` is the generation in which the id first appeared. First, the latest revision of each id supersedes the others,
and documents on the tombstone list are removed. The rest is judged by `survivors.judge_duplicates`. Memory for
verdicts: about 200 bytes a document, because most of its data is in scratch files (`verdicts.py`).
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora.duplicates.candidates import (
    REVISIONS,
    Input,
    SplitSettings,
    VerdictsJob,
    build_signature_schema,
    hash_text_64,
    open_candidates,
    read_input,
)
from corpora.duplicates.revisions import read_dropped
from corpora.duplicates.signatures import compute_signatures
from corpora.duplicates.survivors import DuplicateSettings
from corpora.duplicates.verdicts import REMOVAL_REASONS, VERDICTS, find_duplicates, iter_verdict_batches, mark_revisions
from corpora.kernels.fixed_width import to_fixed_width_column
from corpora.schema import arrange_columns
from corpora.store.current_record import iter_reported
from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Manifest, Part
from corpora.store.part_writer import PartWriter
from corpora.store.settings import to_settings_json
from corpora.store.stage import PartPlan, Stage, read_library_versions
from corpora.store.tables import read_part_table
from corpora.text.buffers import to_text_buffers
from corpora.tombstones import Tombstones, hash_text

SIGNATURES_VERSION = 2
UNICODE = {"unicode": unicodedata.unidata_version}  # which defines letters
VERDICTS_VERSION = 3  # 3: documents without words are copies if their texts are equal

SKETCH_COLUMNS = ("id", "keyed", "revision", "text", "source", "group", "quality")  # what a sketch is made of


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureJob:
    """Input of the task that computes the signatures of the documents in one part (file set).

    Attributes:
        part: The part with the documents.
        folder: Folder of the documents' stage in the store.
        settings: Settings of the duplicate search.
    """

    part: Part
    folder: str
    settings: DuplicateSettings


def plan_signatures(documents: Manifest, settings: DuplicateSettings) -> Stage:
    """Plan the stage that computes the signatures of all documents of an artifact.

    The stage has one part (file set) for each part of the artifact.

    Args:
        documents: Manifest of the artifact.
        settings: Settings of the duplicate search.
    """
    folder = documents.stage_folder
    return Stage(
        kind="signatures",
        name=documents.name,
        build_version=SIGNATURES_VERSION,
        settings=to_settings_json(settings.signature),
        parents=(documents.as_parent(),),
        libraries=read_library_versions("datasketch") | UNICODE,
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
    """Compute the signatures of the documents in one part (file set), and write them to the "signatures" table.

    The ids and revisions of dropped records with a stable key are written to the "revisions" table.

    Args:
        writer: Writes the tables.
        plan: The plan of the part; its job is a `SignatureJob`.

    Returns:
        A ledger with the number of documents.

    Raises:
        Damaged: If a file is missing, damaged or modified.
    """
    job: SignatureJob = plan.job
    schema = build_signature_schema(job.settings.permutations)
    written = 0
    with writer.create_table("signatures", schema) as sink, writer.create_table("revisions", REVISIONS) as revisions:
        for batch in iter_reported(read_part_table(writer.place, job.folder, job.part, "documents", SKETCH_COLUMNS)):
            sink.write(_sketch_batch(batch, schema, job.settings))
            written += batch.num_rows
        for batch in read_part_table(writer.place, job.folder, job.part, "dropped", ("keyed", *REVISIONS.names)):
            keyed = batch.filter(batch.column("keyed"))
            revisions.write(keyed.select(REVISIONS.names).cast(REVISIONS))
    account = Account(unit="documents", total=job.part.count_rows("documents"), outcomes={"sketched": written})
    return Ledger(accounts=(account,))


def _sketch_batch(batch: pa.RecordBatch, schema: pa.Schema, settings: DuplicateSettings) -> pa.RecordBatch:
    sketch = compute_signatures(batch.column("text"), settings.signature)
    columns = {
        **{name: batch.column(name) for name in ("id", "keyed", "revision", "quality")},
        "group_key": hash_groups(batch.column("source"), batch.column("group")),
        "text_hash": to_fixed_width_column(b"".join(hash_texts(batch.column("text"))), 16),
        "set_hash": sketch.set_hash,
        "num_shingles": sketch.num_shingles,
        "signature": to_fixed_width_column(sketch.signature, 4 * settings.permutations),
    }
    return pa.RecordBatch.from_arrays(arrange_columns(columns, schema), schema=schema)


def hash_groups(source: pa.Array, group: pa.Array) -> pa.Array:
    """Compute a 64-bit hash of each document's source and group.

    Args:
        source: String array of n source names.
        group: String array of n group names, which are null for documents without a group.

    Returns:
        uint64 array of n hashes, which are null for documents without a group.
    """
    named = pc.binary_join_element_wise(source, group, "\0").dictionary_encode()
    hashes = pa.array([hash_text_64(name) for name in named.dictionary.to_pylist()], pa.uint64())
    return hashes.take(named.indices)


def hash_texts(texts: pa.Array) -> list[bytes]:
    """Hash each text in a large_string array without nulls with `hash_text` (16 bytes each)."""
    data, offsets = to_text_buffers(texts)
    return [hash_text(data.data[first:last]) for first, last in pairwise(offsets.tolist())]


def plan_verdicts(
    name: str,
    inputs: Sequence[Input],
    duplicates: DuplicateSettings,
    split: SplitSettings,
    tombstones: Tombstones,
) -> Stage:
    """Plan the stage that decides which documents of all generations are kept. The stage has a single part (file set).

    A generation is an update of the corpus with new raw files.

    Args:
        name: Name of the artifact.
        inputs: The sources of all generations, in order. Those of a new generation are appended at the end.
        duplicates: Settings of the duplicate search.
        split: Settings that select the documents to hold out.
        tombstones: The ids and texts of forgotten documents.
    """
    job = VerdictsJob(
        inputs=tuple(item.address for item in inputs), duplicates=duplicates, split=split, tombstones=tombstones
    )
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
            "duplicates": to_settings_json(duplicates),
            "held_out": to_settings_json(split),
            "priorities": {item.documents.name: item.priority for item in inputs},
            "tombstones": tombstones.fingerprint,
        },
        parents=parents,
        libraries={},
        parts=(PartPlan(name="verdicts", key=order, job=job),),
        build=build_verdicts,
    )


def build_verdicts(writer: PartWriter, plan: PartPlan) -> Ledger:
    """Decide which documents are kept, and write one row per document to the "verdicts" table.

    The rows are in the order of the inputs. The rows of each part (file set) of documents are a separate record batch,
    so that they can be read as a range of rows.

    Args:
        writer: Writes the table.
        plan: The plan of the part; its job is a `VerdictsJob`.

    Returns:
        A ledger that counts the kept documents, and the removed documents by reason.

    Raises:
        Damaged: If a file is missing, damaged or modified.
        InputError: If there is not enough disk space for temporary files.
    """
    job: VerdictsJob = plan.job
    inputs = [read_input(writer.place, address) for address in job.inputs]
    with open_candidates(writer.place, inputs, job.duplicates) as table:
        rows = [item.signatures.count_rows("signatures") for item in inputs]
        generation, priority = (
            np.repeat(np.array([getattr(item, name) for item in inputs], np.int32), rows)
            for name in ("generation", "priority")
        )
        marks = mark_revisions(table, generation, read_dropped(writer.place, inputs), job.tombstones)
        duplicates = find_duplicates(writer.place, table, marks, priority, inputs, job.duplicates)
        parts = [part.count_rows("documents") for item in inputs for part in item.documents.parts]
        with writer.create_table("verdicts", VERDICTS) as sink:
            for batch in iter_verdict_batches(table, marks, duplicates, job.split, parts):
                sink.write(batch)
    counts = zip(("kept", *(f"removed: {reason}" for reason in REMOVAL_REASONS)), marks.count_reasons(), strict=True)
    account = Account(unit="documents", total=sum(rows), outcomes={name: count for name, count in counts if count})
    return Ledger(accounts=(account,), figures=duplicates.figures)
