"""The shards stage: tokenized documents in, training examples on disk out.

    corpus ─► tokens (sorted by shuffle hash) ─► shards: pairs or packs ─► static masks ─► examples
                                                    ├► deleted: examples that are never read again
                                                    └► frequencies: of tokens, if masks are drawn by them

Files of examples are in `examples/train` and `examples/validation` of the artifact's folder, and their schemas describe
the vocabulary, the masks and the settings (`metadata.py`). So pyarrow and `datasets` open these folders.

A generation gets max(1, round(tokens / target_tokens)) shards; a generation of under 1,000 documents is one. A shard is
a range of the shuffle hash, so a uniform sample of its generation: a random next sentence drawn inside a shard is drawn
from the corpus. Held-out documents make shards of their own.

tokens = placed + truncated + left over, for each copy. Older generations' shards are never rewritten: what a later
generation took away is in `deleted`. Memory: one shard's tokens and examples.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from corpora.build import DELETED, Corpus
from corpora.kernels.arrays import Int64s
from corpora.kernels.fixed_width import to_fixed_width_column
from corpora.schema import ID_BYTES, arrange_columns
from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Manifest, ManifestAddress, Part, compute_fingerprint
from corpora.store.part_writer import PartWriter
from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, Stage, read_manifest_at
from corpora.store.tables import read_table
from shards.builders.contract import BuiltExamples, Examples
from shards.documents import DocumentSelection, ShardDocuments, read_documents
from shards.frequencies import FREQUENCIES, count_tokens, list_counted_parts, list_parts, to_frequency_rows
from shards.masks.masking import (
    Masks,
    MaskSettings,
    MaskVocabulary,
    ShardVocabulary,
    build_mask_vocabulary,
    draw_masks,
    with_frequencies,
)
from shards.metadata import build_shard_metadata, find_tokenizer_file
from shards.schema import build_example_schema, choose_id_type
from shards.settings import ShardSettings
from shards.surfaces import SURFACES, to_surface_rows
from tokenizers_train.vocabularies.vocabulary import Vocabulary

BUILD_VERSION = 3
MIN_DOCUMENTS_TO_SPLIT = 1_000
PUBLISHED_SPLITS = {"train": "train", "held-out": "validation"}  # as `datasets` calls them: no name has a hyphen
SPLITS = tuple(PUBLISHED_SPLITS)
BATCH_ROWS = 4_096
EXAMPLES_FOLDER = "examples"  # has nothing but examples, in a folder for each split, so that other programs open it
TO_STORE = "../../../../.."  # from KIND/NAME/FINGERPRINT/examples/SPLIT


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardJob:
    """Description of one shard to build: which documents it gets, and how they become examples.

    Attributes:
        tokens: The artifact with the tokenized corpus.
        source: The artifact from which the documents are read: `tokens`, or the artifact into which its parts were
            merged.
        generation: The corpus update that added the documents, counted from 1.
        split: "train" or "held-out".
        first: Lowest shuffle hash of the shard's documents.
        last: Highest shuffle hash of the shard's documents.
        settings: Settings of the shard set.
        vocabulary: Number of tokens and special tokens of the vocabulary.
        metadata: Metadata of the file's schema, describing the vocabulary, the masks and the settings.
    """

    tokens: ManifestAddress
    source: ManifestAddress
    generation: int
    split: str
    first: int
    last: int
    settings: ShardSettings
    vocabulary: ShardVocabulary
    metadata: Mapping[bytes, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrequenciesJob:
    """Input of the task that counts token frequencies, from which random replacement tokens are drawn."""

    tokens: ManifestAddress
    sources: tuple[str, ...]
    vocab_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedJob:
    """Input of the task that copies the corpus's list of deleted rows. Examples with these rows must not be used any
    more.
    """

    corpus: ManifestAddress


def plan_shards(
    corpus: Corpus,
    tokens: Manifest,
    vocabulary: Manifest,
    loaded_vocabulary: Vocabulary,
    settings: ShardSettings,
    name: str | None = None,
    merged: Manifest | None = None,
) -> Stage:
    """Plan the pipeline stage that turns the tokenized corpus into shards of training examples, for all corpus updates.

    Nothing is built yet.

    Args:
        corpus: The corpus.
        tokens: The artifact (stored result) of the tokenized corpus.
        vocabulary: The artifact of the vocabulary.
        loaded_vocabulary: The same vocabulary, loaded.
        settings: Settings of the shard set.
        name: Name of the artifact, to tell several shard sets of one corpus apart. Default: the name of the corpus.
        merged: The artifact of the stage from `plan_merges`, or None if that returned None.
    """
    settings_json = settings.to_json()
    plans: list[PartPlan] = []
    for generation in range(1, int(corpus.manifest.facts["generations"]) + 1):
        rows, parts = tokens, list_parts(tokens, generation, settings.sources)
        if merged is not None and (fewer := list_parts(merged, generation, settings.sources)):
            rows, parts = merged, fewer
        for split in SPLITS:
            plans += _plan_split(rows, parts, generation, split, tokens, vocabulary, loaded_vocabulary, settings)
    if settings.masking.random == "frequency":
        job = FrequenciesJob(tokens=tokens.address, sources=settings.sources, vocab_size=loaded_vocabulary.size)
        plans.append(PartPlan(name="frequencies", key=_compute_frequency_key(tokens, settings), job=job))
    if corpus.manifest.count_rows("deleted"):
        key = str(corpus.manifest.tables["deleted"])
        plans.append(PartPlan(name="deleted", key=key, job=DeletedJob(corpus=corpus.manifest.address)))
    return Stage(
        kind="shards",
        name=name or corpus.manifest.name,
        build_version=BUILD_VERSION,
        settings=settings_json,
        part_settings={key: value for key, value in settings_json.items() if key != "target_tokens"},
        parents=tuple(made.as_parent() for made in (corpus.manifest, tokens, vocabulary, merged) if made is not None),
        libraries={},
        parts=tuple(plans),
        build=build_shards_part,
        facts={
            "input": settings.input,
            "segments": settings.own.segments,
            "labels": settings.own.labels,
            "pair_labels": settings.own.labels is not None,
            "length": settings.length,
            "vocab_size": loaded_vocabulary.size,
            "special_ids": dict(sorted(loaded_vocabulary.special_ids.items())),
            "masking": settings.masking.kind,
            "splits": list(SPLITS),
        },
    )


def _plan_split(
    rows: Manifest,
    parts: Sequence[Part],
    generation: int,
    split: str,
    tokens: Manifest,
    vocabulary: Manifest,
    loaded_vocabulary: Vocabulary,
    settings: ShardSettings,
) -> Iterator[PartPlan]:
    """Plan the shards of one split of one corpus update. Each shard gets an equal range of the shuffle hash.

    If there are no documents, nothing is yielded.

    Args:
        rows: The artifact from which the documents are read.
        parts: The parts of the tokenized corpus that belong to this update.
        generation: The corpus update that added the documents, counted from 1.
        split: "train" or "held-out".
        tokens: The artifact of the tokenized corpus.
        vocabulary: The artifact of the vocabulary.
        loaded_vocabulary: The same vocabulary, loaded.
        settings: Settings of the shard set.
    """
    total = sum(part.ledger.figures[f"{split} tokens"] for part in parts)
    documents = sum(part.ledger.figures[f"{split} documents"] for part in parts)
    if not documents:
        return
    number = 1 if documents < MIN_DOCUMENTS_TO_SPLIT else max(1, round(total / settings.target_tokens))
    shard_vocabulary = ShardVocabulary(loaded_vocabulary.size, dict(loaded_vocabulary.special_ids))
    tokenizer = f"{TO_STORE}/{vocabulary.stage_folder}/{find_tokenizer_file(vocabulary).path}"
    metadata = build_shard_metadata(BUILD_VERSION, settings.to_json(), vocabulary, loaded_vocabulary, tokenizer)
    digest = compute_fingerprint(tokens=[part.content for part in parts])
    by_frequency = settings.masking.kind == "static" and settings.masking.random == "frequency"
    frequency_key = {"frequencies": _compute_frequency_key(tokens, settings)} if by_frequency else {}
    for shard in range(number):
        first, last = (shard << 64) // number, ((shard + 1 << 64) // number) - 1
        job = ShardJob(
            tokens=tokens.address,
            source=rows.address,
            generation=generation,
            split=split,
            first=first,
            last=last,
            settings=settings,
            vocabulary=shard_vocabulary,
            metadata=metadata,
        )
        key = {
            "tokens": digest,
            "vocabulary": vocabulary.content,  # other special tokens may leave all other ids as they are
            "split": split,
            "range": [str(first), str(last)],
            **frequency_key,
        }
        labels = {"generation": str(generation), "split": split}
        name = f"{split}-g{generation:03d}-{shard:05d}"
        yield PartPlan(name=name, key=key, job=job, labels=labels)


def _compute_frequency_key(tokens: Manifest, settings: ShardSettings) -> str:
    """Compute a fingerprint (a string) of the token files in which token frequencies are counted.

    Args:
        tokens: The artifact of the tokenized corpus.
        settings: Settings of the shard set, with the names of the sources.
    """
    return compute_fingerprint(tokens=[part.content for part in list_counted_parts(tokens, settings.sources)])


def build_shards_part(writer: PartWriter, plan: PartPlan) -> Ledger:
    """Run one task of the stage, which writes either a shard, the token frequencies or the list of deleted rows.

    Deleted rows are listed by document, so that a deletion does not require reading the shards.

    Args:
        writer: Writes the files of the task to the store.
        plan: The task. Its `job` is a `ShardJob`, `FrequenciesJob` or `DeletedJob`.

    Returns:
        The ledger (counts) of what was written.

    Raises:
        Damaged: A file that is read is damaged or was changed.
    """
    if isinstance(plan.job, DeletedJob):
        return _write_deleted(writer, plan.job)
    if isinstance(plan.job, FrequenciesJob):
        return _write_frequencies(writer, plan.job)
    return _build_shard(writer, plan.job)


def _build_shard(writer: PartWriter, job: ShardJob) -> Ledger:
    """Build and write the examples of one shard. Return the ledger that accounts for every token of the documents.

    Args:
        writer: Writes the tables "examples" and, if the input counts surface features, "surfaces" to the store.
        job: Which documents are read, and how they become examples.

    Raises:
        Damaged: A file of the tokenized corpus is damaged or was changed.
    """
    documents = read_shard_documents(writer.place, job)
    built = job.settings.own.build(documents.tokens, job.settings.common, job.vocabulary)
    rows = to_example_table(built, documents, job.settings, job.vocabulary, _build_mask_vocabulary(writer.place, job))
    schema, folder = rows.schema.with_metadata(dict(job.metadata)), f"{EXAMPLES_FOLDER}/{PUBLISHED_SPLITS[job.split]}"
    with writer.create_table("examples", schema, compression=None, folder=folder) as sink:
        for batch in rows.to_batches(max_chunksize=BATCH_ROWS):
            sink.write(batch)
    if built.surfaces is not None:
        with writer.create_table("surfaces", SURFACES) as sink:
            sink.write(to_surface_rows(built.surfaces))
    accounts = tuple(
        Account(unit=f"tokens of copy {copy}", total=account.total, outcomes=account.outcomes)
        for copy, ledger in enumerate(built.ledgers)
        for account in ledger.accounts
    )
    figures = Counter[str]()
    for ledger in built.ledgers:
        figures.update(ledger.figures)
    figures.update(
        {"documents": len(documents.ids), "examples": rows.num_rows, "example tokens": len(built.examples.ids)}
    )
    return Ledger(accounts=accounts, figures=figures)


def _build_mask_vocabulary(place: Place, job: ShardJob) -> MaskVocabulary:
    """Build the vocabulary tables for drawing static masks.

    They include token frequencies if the settings require them.

    Args:
        place: The store.
        job: The shard to build.
    """
    mask_vocabulary, masking = build_mask_vocabulary(job.vocabulary), job.settings.masking
    if masking.kind != "static" or masking.random != "frequency":
        return mask_vocabulary
    return with_frequencies(mask_vocabulary, count_tokens(place, job.tokens, job.settings.sources, job.vocabulary.size))


def read_shard_documents(place: Place, job: ShardJob) -> ShardDocuments:
    """Read the documents of a shard, ordered by (shuffle hash, id).

    Args:
        place: The store.
        job: Which documents belong to the shard.

    Raises:
        Damaged: A file is damaged or was changed.
    """
    manifest = read_manifest_at(place, job.source)
    parts = list_parts(manifest, job.generation, job.settings.sources)
    selection = DocumentSelection(
        first=job.first, last=job.last, held_out=job.split == "held-out", sources=tuple(job.settings.sources)
    )
    return read_documents(place, manifest.stage_folder, parts, selection, choose_id_type(job.vocabulary.size))


def to_example_table(
    built: BuiltExamples,
    documents: ShardDocuments,
    settings: ShardSettings,
    vocabulary: ShardVocabulary,
    mask_vocabulary: MaskVocabulary,
) -> pa.Table:
    """Convert examples to an Arrow table with the schema of `build_example_schema`, one row per example.

    If the settings require static masks, they are drawn here.

    Args:
        built: The examples.
        documents: The documents from which they were built.
        settings: Settings of the shard set.
        vocabulary: Number of tokens and special tokens of the vocabulary.
        mask_vocabulary: Vocabulary tables for static masks.
    """
    id_type, examples = choose_id_type(vocabulary.size), built.examples
    is_static = settings.masking.kind == "static"
    columns = {
        "example_id": examples.example_id,
        "ids": _to_lists(examples.offsets, pa.array(examples.ids, id_type)),
        "word_starts": _to_lists(examples.offsets, pa.array(examples.word_starts.astype(bool))),
        "boundary": examples.boundary,
        "documents": _to_lists(
            examples.document_offsets, to_fixed_width_column(documents.ids[examples.documents], ID_BYTES)
        ),
        "revisions": _to_lists(examples.document_offsets, pa.array(documents.revisions[examples.documents])),
        "copy": examples.copy,
        "ordinal": examples.ordinal,
        "label": examples.label,
        "second_document": examples.second_document,
    }
    if is_static:
        masks = _draw_static_masks(examples, settings.masking, mask_vocabulary)
        columns |= {
            "mask_positions": _to_lists(masks.offsets, pa.array(masks.positions, pa.uint16())),
            "mask_ids": _to_lists(masks.offsets, pa.array(masks.replacements, id_type)),
        }
    own = settings.own
    schema = build_example_schema(
        id_type, labels=own.labels is not None, pairs=own.segments == 2, static_masks=is_static
    )
    return pa.table(arrange_columns(columns, schema), schema=schema)


def _draw_static_masks(examples: Examples, settings: MaskSettings, mask_vocabulary: MaskVocabulary) -> Masks:
    """Draw the static mask of each example.

    The examples of pass n over the documents get the masks that dynamic masking draws in epoch n.
    """
    return draw_masks(
        examples.ids, examples.offsets, examples.word_starts, examples.example_id,
        examples.copy.astype(np.uint64), settings, mask_vocabulary,
    )  # fmt: skip


def _to_lists(offsets: Int64s, values: pa.Array) -> pa.Array:
    """Build an Arrow ListArray, which has 32-bit offsets.

    `offsets` has the start of each list in `values`, and the end of the last list.
    """
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values)


def _write_deleted(writer: PartWriter, job: DeletedJob) -> Ledger:
    """Copy the corpus's list of deleted rows to the shards. Examples that contain these rows must not be used any more.

    Returns:
        A ledger with the number of rows.
    """
    corpus, written = read_manifest_at(writer.place, job.corpus), 0
    with writer.create_table("deleted", DELETED) as sink:
        for batch in read_table(writer.place, corpus, "deleted", DELETED.names):
            sink.write(batch)
            written += batch.num_rows
    account = Account(unit="deleted rows", total=corpus.count_rows("deleted"), outcomes={"listed": written})
    return Ledger(accounts=(account,))


def _write_frequencies(writer: PartWriter, job: FrequenciesJob) -> Ledger:
    """Count how often each token occurs in the training documents, and write the counts.

    Random replacement tokens are drawn in proportion to these counts.

    Returns:
        A ledger with the number of counted tokens.
    """
    counts = count_tokens(writer.place, job.tokens, job.sources, job.vocab_size)
    with writer.create_table("frequencies", FREQUENCIES) as sink:
        sink.write(to_frequency_rows(counts))
    return Ledger(figures={"counted tokens": int(counts.sum())})
