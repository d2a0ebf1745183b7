"""An epoch as rows, the documents of an example, and what is lost with a deleted document.

Rows hold the very ids, masked positions and targets that `Loader.gather` returns for the slots of the epoch, each live
example once, deleted ones left out. What an example gets does not depend on the order; so rows are in the order of the
shards, or, with the seed of a training, in the order in which that training reads them. Cost: that of the loader.
Memory: `EXAMPLES_PER_BATCH` examples.

A trace leads from an example to its documents, and from a document to its row in the corpus. It reads the ids and
revisions of all documents in the corpus' parts (of an example: in those of its generation), then the record batch of
one row with all its columns; no index is kept. The documents' locators lead on to the raw records.

Lost neighbours are documents that are no longer read because another document in their example was deleted.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora.build import Corpus
from corpora.errors import InputError
from corpora.kernels.arrays import Int32s, Int64s
from corpora.schema import DOCUMENTS, Document, iter_documents
from corpora.store.manifest import Manifest, Part
from corpora.store.places.place import Place
from corpora.store.stage import read_manifest
from corpora.store.tables import read_part_table
from corpora.views import PartView, read_view
from shards.reading.files.shard_set import DOCUMENT_COLUMNS, ShardSet, build_row_keys
from shards.reading.loader import GatheredExamples, Loader, read_mask_settings
from shards.schema import choose_id_type

EXAMPLES_PER_BATCH = 4_096


def build_epoch_schema(shard_set: ShardSet) -> pa.Schema:
    """Build the Arrow schema of the rows of an epoch. It has the column `label` only if the shards have pair labels."""
    ids = choose_id_type(shard_set.manifest.facts["vocab_size"])
    fields = [
        pa.field("example_id", pa.uint64(), nullable=False),
        pa.field("ids", pa.list_(ids), nullable=False),  # as the model sees them
        pa.field("boundary", pa.uint16(), nullable=False),  # tokens of the first segment
        pa.field("mask_positions", pa.list_(pa.uint16()), nullable=False),  # ascending, from the first token
        pa.field("targets", pa.list_(ids), nullable=False),  # the original tokens at those positions
    ]
    label = [pa.field("label", pa.uint8(), nullable=False)]
    return pa.schema(fields + label * bool(shard_set.manifest.facts["pair_labels"]))


def iter_epoch_batches(shard_set: ShardSet, epoch: int, seed: int | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the masked examples of an epoch as Arrow record batches with the schema of `build_epoch_schema`.

    Deleted examples are skipped.

    Args:
        shard_set: The split to read.
        epoch: Zero-based epoch, which determines dynamic masks.
        seed: Seed of a training run, to get the rows in the order in which that run reads them. None keeps the order of
            the shards.

    Raises:
        InputError: `seed` is None and the mask rate depends on the step, because the step of an example depends on the
            seed. It is raised when the first batch is requested.
        Damaged: A shard is damaged or was changed. It is raised at the latest after the last batch.
    """
    schedule = read_mask_settings(shard_set).schedule
    if seed is None and schedule is not None and schedule.by == "step":
        raise InputError(
            "The rate of these shards' masks goes by the step, and which step reads an example follows from the "
            "seed of the training: give it with --seed."
        )
    schema = build_epoch_schema(shard_set)
    for gathered in _iter_gathered(shard_set, epoch, seed):
        if gathered.num_examples:
            yield _to_record_batch(gathered, schema)


def _iter_gathered(shard_set: ShardSet, epoch: int, seed: int | None) -> Iterator[GatheredExamples]:
    """Yield the masked examples of an epoch in batches of `EXAMPLES_PER_BATCH`, without deleted examples.

    Args:
        shard_set: The split to read.
        epoch: Zero-based epoch.
        seed: Seed of a training run. The rows get the order of this run. None keeps the order of the shards.

    Raises:
        Damaged: A shard is damaged or was changed. It is raised at the latest after the last batch.
    """
    loader, num_examples = Loader(shard_set, seed or 0), len(shard_set)
    if seed is not None:
        for start in range(epoch * num_examples, (epoch + 1) * num_examples, EXAMPLES_PER_BATCH):
            yield loader.gather(range(start, min(start + EXAMPLES_PER_BATCH, (epoch + 1) * num_examples)))
        return  # with the last slot all of them were checked
    live = np.flatnonzero(shard_set.is_live)
    for start in range(0, len(live), EXAMPLES_PER_BATCH):
        examples = live[start : start + EXAMPLES_PER_BATCH]
        epochs = np.full(len(examples), epoch, np.int64)
        yield loader.gather_examples(examples, epochs, epochs * num_examples)
    loader.check_read()


def _to_record_batch(gathered: GatheredExamples, schema: pa.Schema) -> pa.RecordBatch:
    """Convert a batch to an Arrow record batch with one row per example.

    Args:
        gathered: The batch.
        schema: Schema of the result, from `build_epoch_schema`.
    """
    mask_offsets = np.searchsorted(gathered.masked, gathered.offsets).astype(np.int32)
    example_starts = np.repeat(gathered.offsets[:-1].astype(np.int64), np.diff(mask_offsets))
    columns = {
        "example_id": gathered.example_ids,
        "ids": _to_lists(gathered.offsets, gathered.ids),
        "boundary": gathered.boundary.astype(np.uint16),
        "mask_positions": _to_lists(mask_offsets, (gathered.masked - example_starts).astype(np.uint16)),
        "targets": _to_lists(mask_offsets, gathered.targets),
        "label": None if gathered.labels is None else gathered.labels.astype(np.uint8),
    }
    arrays = [columns[name] for name in schema.names]
    return pa.record_batch([each if isinstance(each, pa.Array) else pa.array(each) for each in arrays], schema=schema)


def _to_lists(offsets: Int32s | Int64s, values: object) -> pa.Array:
    """Build an Arrow ListArray from a NumPy array of values.

    `offsets` has the start of each list in `values`, and the end of the last list. All must be below 2^31.
    """
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))


def count_lost_neighbors(shards: ShardSet, part: Part) -> tuple[int, int]:
    """Count the examples of a shard that contain both deleted and other documents.

    Args:
        shards: The split of the shard set that contains the shard.
        part: The shard.

    Returns:
        The number of these examples, and the number of all examples in the shard.
    """
    generation = int(part.labels["generation"])
    deleted = [
        id + revision.to_bytes(8, "little", signed=True)
        for id, revision, held in shards.deleted_rows
        if held == generation
    ]
    examples = part.count_rows("examples")
    if not deleted or not examples:
        return 0, examples
    batches = read_part_table(shards.place, shards.manifest.stage_folder, part, "examples", DOCUMENT_COLUMNS)
    table = pa.Table.from_batches(batches).combine_chunks()
    ids, revisions = (table.column(name).combine_chunks() for name in DOCUMENT_COLUMNS)
    keys = build_row_keys(ids.flatten(), revisions.flatten())
    is_deleted = pc.is_in(keys, value_set=pa.array(deleted, keys.type)).to_numpy(zero_copy_only=False)
    rows = pc.list_parent_indices(ids).to_numpy()
    held, lost = np.bincount(rows, minlength=examples), np.bincount(rows[is_deleted], minlength=examples)
    return int(np.count_nonzero((lost > 0) & (lost < held))), examples


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedDocument:
    """A document of an example, with its row in the corpus.

    Attributes:
        role: "anchor" for the first document of the example, "neighbour" for the others.
        document: The document's row in the corpus.
        generation: The corpus update (counted from 1) that added this row.
    """

    role: str  # anchor or neighbour
    document: Document
    generation: int


def open_corpus(place: Place, shards: Manifest) -> Corpus:
    """Open the corpus from which a shard set was built.

    Args:
        place: The store.
        shards: The manifest (stored description) of the shard set.

    Raises:
        InputError: The corpus is no longer in the store.
    """
    parent = next(parent for parent in shards.parents if parent.role == "corpora")
    manifest = read_manifest(place, parent.folder)
    if manifest is None:
        raise InputError(
            f"The corpus {parent.name}/{parent.fingerprint} of these shards is not in the store {place.address}: "
            "run the recipe again to build it."
        )
    return Corpus(place, manifest)


def trace_example(shard_set: ShardSet, index: int) -> list[TracedDocument]:
    """Return the documents of an example, in the order in which it contains them. Deleted examples are traced as well.

    Args:
        shard_set: The split that contains the example.
        index: Index of the example in the split.

    Raises:
        IndexError: `index` is out of range or negative.
        InputError: The corpus is no longer in the store.
    """
    example = shard_set[index]
    part, _ = shard_set.locate_row(index)
    corpus = open_corpus(shard_set.place, shard_set.manifest)
    generation = int(part.labels["generation"])
    held = zip(example.documents, example.revisions, strict=True)
    return [
        _trace_document("neighbour" if number else "anchor", corpus, id, revision, generation)
        for number, (id, revision) in enumerate(held)
    ]


def _trace_document(role: str, corpus: Corpus, id: bytes, revision: int, generation: int) -> TracedDocument:
    """Find one document of an example in the corpus.

    Args:
        role: "anchor" for the first document of the example, "neighbour" for the others.
        corpus: The corpus.
        id: The document's id, 16 bytes.
        revision: Revision of the document.
        generation: The corpus update (counted from 1) that added the row.

    Raises:
        AssertionError: The corpus does not contain the document.
    """
    document = find_document(corpus, id, revision, generation)
    assert document is not None, f"document {id.hex()} of an example is in no part of its corpus"
    return TracedDocument(role=role, document=document, generation=generation)


def find_document(
    corpus: Corpus, id: bytes, revision: int | None = None, generation: int | None = None
) -> Document | None:
    """Find a document's row in the corpus, including deleted rows.

    Args:
        corpus: The corpus to search. The ids of all its parts are read.
        id: The document's id, 16 bytes.
        revision: Revision of the document. None accepts any revision.
        generation: The corpus update (counted from 1) that added the row. None searches all updates.

    Returns:
        The row from the last part that contains the document, or None if there is none.
    """
    wanted = pa.scalar(id, pa.binary(len(id)))
    newest: tuple[PartView, int] | None = None
    for view in corpus.views:
        if generation is not None and view.part.labels.get("generation") != str(generation):
            continue
        first = 0
        for batch in read_view(corpus.place, view, ("id", "revision")):
            matches = pc.equal(batch.column("id"), wanted)
            if revision is not None:
                matches = pc.and_(matches, pc.equal(batch.column("revision"), revision))
            for row in np.flatnonzero(matches.to_numpy(zero_copy_only=False)).tolist():
                newest = (view, first + row)
            first += batch.num_rows
    if newest is None:
        return None
    view, row = newest
    [document] = iter_documents(read_view(corpus.place, view, DOCUMENTS.names, range(row, row + 1)))
    return document
