"""The export, step by step: rows to files, the vocabulary next to them, the card and the metadata, all or nothing.

    FOLDER/   data/train-00000-of-00001.parquet, data/validation-...
              _README.md, _croissant.json     the data card, and the same for programs
              _tokenizer/                     of shards: the vocabulary

pandas, pyarrow and `datasets` open the folder: the first two skip names that begin with `_`, and the last one takes
what is in `data`.

Promise: the same artifact in the same store gives the same bytes. The folder appears when everything is written. A
damaged artifact, a full disk or a folder that cannot be written end as one error.
Memory: a row group, a record batch, and the counts of documents.

Exported rows: rows that a later generation (an update of the raw files) removed are left out. Ids are hexadecimal
texts, as `cloze trace` takes them; tokens are as they were written. Columns have the names that other tools expect,
with a description each. Rows come in the artifact's order.
Cost: if an artifact has deleted rows, the columns that name documents are read once more. Memory: a record batch.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from corpora.build import Corpus
from corpora.errors import InputError
from corpora.schema import count_text_bytes
from corpora.store.leases import ArtifactHold
from corpora.store.settings import check_choice
from corpora.store.tables import read_part_table
from corpora.views import CORPUS
from flows.export.cards.data_card import render_data_card
from flows.export.exported import (
    ExportContent,
    ExportedFile,
    SplitWriter,
    collect_content,
    describe_file,
    open_new_folder,
)
from flows.export.metadata import build_croissant
from flows.run.addresses import Artifact, find_artifacts, find_vocabulary, pick_newest, read_vocabulary_for
from shards.build import PUBLISHED_SPLITS, SPLITS
from shards.metadata import build_shard_metadata
from shards.reading.files.shard_set import ShardSet
from tokenizers_train.vocabularies.files import TOKENIZER as TOKENIZER_FILE

EXPORTED_KINDS = ("shards", "corpora")

DOCUMENT_COLUMNS = {
    "id": "the document's id, hexadecimal",
    "keyed": "whether the id comes from a stable key of the source, so that rows of other editions are its revisions",
    "revision": "which revision of its id it is",
    "text": "the text, cleaned",
    "source": "the source it came from",
    "title": "its title, where the record names one",
    "url": "its address, where the record names one",
    "date": "its date, where the record names one",
    "language": "its language, as it was detected or is stated",
    "license": "its licence, as the record or its source states it",
    "group": "its author, site or owner: splits never divide one",
    "meta": "further fields of the record, a JSON object",
    "quality": "a score of the rules: of two near-duplicates of one priority the higher one stays",
    "generation": "the generation of raw files that it came with",
    "since": "the generation in which its id first appeared",
    "raw_file": "the raw file of its record, relative to the source",
    "raw_sha256": "the sha256 of that raw file",
    "raw_stream": "where the compressed stream of the record begins in the raw file; -1: none",
    "raw_offset": "where the record begins, in bytes, inside that stream where there is one",
    "raw_length": "how many bytes the record has",
}
LOCATOR_FIELDS = {"raw_file": "file", "raw_sha256": "sha256", "raw_stream": "stream", "raw_offset": "offset",
           "raw_length": "length"}  # fmt: skip

EXAMPLE_COLUMNS = {
    "example_id": "the example's id: a hash of its document, the copy and its place in it",
    "ids": "token ids, special tokens included, nothing masked",
    "word_starts": "for each token whether a word begins with it; false on special tokens",
    "boundary": "tokens of the first segment, `[CLS] A [SEP]`; all tokens where there is no second one",
    "documents": "ids of the documents that it holds, in their order, hexadecimal",
    "revisions": "the revisions of these documents",
    "second_document": "the place in `documents` of the document that the second segment is of",
    "copy": "how many times the documents were cut before this time",
    "ordinal": "its number among the examples of its first document and copy",
    "label": "what the example is, as its input says",
    "mask_positions": "places of the masked tokens, ascending",
    "mask_ids": "what the model sees at these places; what it must guess is in `input_ids`",
}
RENAMED_COLUMNS = {"ids": "input_ids"}
LABEL_MEANINGS = {
    "next-sentence": "0: the second segment follows the first in the text; 1: it does not",
    "sentence-order": "0: the segments are in the order of the text; 1: they are swapped",
}


@dataclass(frozen=True)
class DocumentRows:
    """The documents of a corpus as rows to export.

    As long as this object exists, a clean-up of the store does not delete the files of the corpus.

    Attributes:
        artifact: The stored corpus.
    """

    artifact: Artifact

    def __post_init__(self) -> None:
        hold = ArtifactHold(self.artifact.place, self.artifact.manifest.folder)
        object.__setattr__(self, "_hold", hold)  # as long as the files may be read

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of exported documents, with a description of each column in its metadata."""
        locator = CORPUS.field("locator").type
        types = {field.name: field.type for field in CORPUS} | {
            name: locator.field(inner).type for name, inner in LOCATOR_FIELDS.items()
        }
        return pa.schema(
            [
                describe_field(name, pa.string() if name == "id" else types[name], meaning)
                for name, meaning in DOCUMENT_COLUMNS.items()
            ]
        )

    def iter_batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield (split, batch) pairs of the documents that are not deleted, in corpus order.

        The split is "train" or "held-out". All documents of a batch belong to that split.

        Raises:
            Damaged: If a file of the corpus is damaged.
        """
        for live in Corpus(self.artifact.place, self.artifact.manifest).iter_batches():
            held_out = live.column("held_out").to_numpy(zero_copy_only=False)
            for split, wanted in (("train", ~held_out), ("held-out", held_out)):
                if wanted.any():
                    yield split, self._to_exported(live if wanted.all() else live.filter(pa.array(wanted)))

    def _to_exported(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a record batch of documents to the columns of `schema`. Ids become hexadecimal strings."""
        locator = batch.column("locator")
        columns = {name: locator.field(inner) for name, inner in LOCATOR_FIELDS.items()}
        columns["id"] = pa.array([id.hex() for id in batch.column("id").to_pylist()], pa.string())
        return pa.record_batch(
            [columns[name] if name in columns else batch.column(name) for name in self.schema.names], schema=self.schema
        )


@dataclass(frozen=True)
class ExampleRows:
    """The training examples of a shard set as rows to export.

    Attributes:
        artifact: The stored shard set.
    """

    artifact: Artifact

    @cached_property
    def _sets(self) -> Mapping[str, ShardSet]:
        """The shard set of each split, by name: "train" and "held-out"."""
        return {split: ShardSet(self.artifact.place, self.artifact.manifest, split) for split in SPLITS}

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of exported training examples, with a description of each column in its metadata.

        Like that of shard files, the metadata of the schema itself describes the vocabulary, masks and settings.

        Raises:
            InputError: If the store no longer has the vocabulary.
        """
        manifest = self.artifact.manifest
        metadata = build_shard_metadata(
            manifest.build_version,
            manifest.settings,
            find_vocabulary(self.artifact),
            read_vocabulary_for(self.artifact),
            f"../{TOKENIZER}/{TOKENIZER_FILE}",
        )
        return pa.schema([self._describe_field(field) for field in self._sets["train"].schema], metadata)

    def _describe_field(self, field: pa.Field) -> pa.Field:
        """Return the exported field for a column of the shards, with its name, type and description."""
        kind = pa.list_(pa.string()) if field.name == "documents" else field.type
        meaning = EXAMPLE_COLUMNS.get(field.name, "")
        if field.name == "label":
            meaning = LABEL_MEANINGS.get(str(self.artifact.manifest.facts.get("labels")), meaning)
        return describe_field(RENAMED_COLUMNS.get(field.name, field.name), kind, meaning)

    def iter_batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield (split, batch) pairs of the training examples that are not deleted.

        All "train" batches come before the "held-out" batches.

        Raises:
            Damaged: If a file of the shards is damaged.
        """
        for split, shards in self._sets.items():
            live, first = shards.is_live, 0
            for part in shards.parts:
                folder = self.artifact.manifest.stage_folder
                for batch in read_part_table(self.artifact.place, folder, part, "examples", shards.schema.names):
                    kept = live[first : first + batch.num_rows]
                    first += batch.num_rows
                    if kept.any():
                        yield split, self._to_exported(batch if kept.all() else batch.filter(pa.array(kept)))

    def _to_exported(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a record batch of training examples to the columns of `schema`.

        Document ids become hexadecimal strings.
        """
        ids = [[id.hex() for id in row] for row in batch.column("documents").to_pylist()]
        documents = pa.array(ids, pa.list_(pa.string()))
        columns = [documents if name == "documents" else batch.column(name) for name in batch.schema.names]
        return pa.record_batch(columns, schema=self.schema)


def describe_field(name: str, kind: pa.DataType, meaning: str) -> pa.Field:
    """Build an Arrow field with `meaning` as the description in its metadata. It has no metadata if `meaning` is ""."""
    return pa.field(name, kind, metadata={"description": meaning} if meaning else None)


# Whoever opens the folder as Parquet files reads all files but those whose names begin like these.
CARD, METADATA, TOKENIZER = "_README.md", "_croissant.json", "_tokenizer"
MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSettings:
    """Settings of an export.

    Attributes:
        splits: The splits to export: "train", "held-out" or both.
        file_mib: Maximum size of a file in MiB. A single row that is larger is written to a separate file.

    Raises:
        InputError: If the name of a split is unknown.
    """

    splits: tuple[str, ...] = SPLITS
    file_mib: int = 256

    def __post_init__(self) -> None:
        for split in self.splits:
            check_choice("--split", split, SPLITS)


def choose_artifact(address: str, kind: str | None, name: str | None) -> Artifact:
    """Find the corpus or shard set at an address. If several versions have the same name, the newest one is chosen.

    Args:
        address: A store, a folder in a store, or a release.
        kind: "corpora" or "shards". If None, both kinds are searched.
        name: Name of the corpus or shard set. If None, any name matches.

    Raises:
        InputError: If nothing matches, or the matches have different kinds or names. The message lists the choices.
    """
    if kind is not None:
        check_choice("--kind", kind, EXPORTED_KINDS)
    artifacts = find_artifacts(address)
    of_kind = [artifact for artifact in artifacts if artifact.manifest.kind in ((kind,) if kind else EXPORTED_KINDS)]
    chosen = [artifact for artifact in of_kind if name in (None, artifact.manifest.name)]
    sets = sorted({(artifact.manifest.kind, artifact.manifest.name) for artifact in chosen})
    if len(sets) == 1:
        return pick_newest(chosen)
    others = sorted({(artifact.manifest.kind, artifact.manifest.name) for artifact in of_kind})
    options = ", ".join(f"--kind {kind} --name {name}" for kind, name in sets or others)
    if sets:
        raise InputError(f"{address} has {len(sets)} things to export: choose one with one of {options}.")
    raise InputError(
        f"{address} has no {'such ' if of_kind else ''}corpus or shard set, and only these can be exported"
        f"{': ' + options if options else ''}. `cloze inspect` shows what a store holds."
    )


def write_export(artifact: Artifact, target: Path, settings: ExportSettings) -> ExportContent:
    """Write the rows of a corpus or shard set to a new folder, with a data card and Croissant metadata.

    Deleted rows are omitted. For a shard set, the vocabulary files are written as well.

    Args:
        artifact: The stored corpus or shard set.
        target: A folder that does not exist or is empty, outside the store.
        settings: The splits to export and the maximum size of a file.

    Returns:
        The content of the export, as described by its card.

    Raises:
        InputError: If the target cannot be used, all rows are deleted, the store is damaged, or the disk is full.
    """
    if artifact.place.is_local and target.resolve().is_relative_to(Path(artifact.place.to_full_path(""))):
        raise InputError(f"{target} is inside the store {artifact.place.to_address('')}: give a folder outside of it.")
    rows = ExampleRows(artifact) if artifact.manifest.kind == "shards" else DocumentRows(artifact)
    content = collect_content(artifact)
    with open_new_folder(target) as folder:
        files, units = write_rows(rows, folder, settings)
        if not files:
            raise InputError(
                f"{artifact.manifest.folder} has no live row of {' or '.join(settings.splits)}: nothing to export."
            )
        content = replace(
            content,
            schema=rows.schema,
            files=tuple(files),
            extra=tuple(write_vocabulary(artifact, folder)),
            units=units,
        )
        (folder / CARD).write_text(render_data_card(content), encoding="utf-8")
        (folder / METADATA).write_bytes(build_croissant(content, describe_file(folder, CARD)))
    return content


def write_rows(
    rows: DocumentRows | ExampleRows, folder: Path, settings: ExportSettings
) -> tuple[list[ExportedFile], dict[str, int]]:
    """Write the Parquet files of all exported splits to the `data` subfolder of a folder.

    Args:
        rows: The rows to write.
        folder: The export folder.
        settings: The splits to export and the maximum size of a file.

    Returns:
        The written files, and a dictionary with the number of tokens (for examples) or bytes of text (for documents) in
        each split, by its name in the exported data.

    Raises:
        Damaged: If a stored file is damaged.
    """
    max_file_bytes = settings.file_mib * MEBIBYTE
    writers = {
        split: SplitWriter(folder, name, rows.schema, max_file_bytes) for split, name in PUBLISHED_SPLITS.items()
    }
    units = Counter[str]()
    for split, batch in rows.iter_batches():
        if split in settings.splits:
            writers[split].add(batch)
            units[PUBLISHED_SPLITS[split]] += count_units(batch)
    return [file for writer in writers.values() for file in writer.finish()], dict(units)


def count_units(batch: pa.RecordBatch) -> int:
    """Count the tokens in a batch of exported examples, or the bytes of text in a batch of exported documents."""
    if "input_ids" in batch.schema.names:
        return int(pc.sum(pc.list_value_length(batch.column("input_ids"))).as_py() or 0)
    return count_text_bytes(batch.column("text"))


def write_vocabulary(artifact: Artifact, folder: Path) -> Sequence[ExportedFile]:
    """Write the vocabulary files of a shard set to the `_tokenizer` subfolder of `folder`.

    Args:
        artifact: A corpus or shard set. Nothing is written for a corpus.
        folder: The export folder.

    Returns:
        The written files; empty if the artifact is a corpus.

    Raises:
        InputError: If the store no longer has the vocabulary.
    """
    if artifact.manifest.kind != "shards":
        return []
    read_vocabulary_for(artifact).save(folder / TOKENIZER)
    return [describe_file(folder, f"{TOKENIZER}/{path.name}") for path in sorted((folder / TOKENIZER).iterdir())]
