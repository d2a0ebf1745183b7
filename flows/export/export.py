"""The export, step by step: rows to files, the vocabulary next to them, the card and the metadata, all or nothing.

Promise: the same artifact in the same store gives the same bytes. The folder appears when all of it is written. A
damaged artifact, a full disk or a folder that cannot be written end as one error.
Memory: a row group, a record batch, and the counts of documents.

The rows of an export: only live ones, with columns that other tools know and a meaning for each.

Promise: rows that a later generation removed are left out. Ids are hexadecimal texts, as `cloze trace` takes them;
tokens are as they were written. Rows come in the artifact's order, part by part.
Cost: of an artifact with deleted rows the columns that name documents are read once more. Memory: a record batch.
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
from flows.export.cards.data_card import card
from flows.export.exported import Exported, ExportedFile, SplitFiles, exported, file_at, new_folder
from flows.export.metadata import croissant
from flows.run.addresses import Artifact, find_artifacts, pick_newest, read_vocabulary_for
from shards.build import SPLITS
from shards.reading.files.shard_set import ShardSet

KINDS = ("shards", "corpora")
PUBLISHED = {"train": "train", "held-out": "validation"}  # what `datasets` calls the splits: its names have no hyphen

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
LOCATED = {"raw_file": "file", "raw_sha256": "sha256", "raw_stream": "stream", "raw_offset": "offset",
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
RENAMED = {"ids": "input_ids"}
LABELS = {
    "next-sentence": "0: the second segment follows the first in the text; 1: it does not",
    "sentence-order": "0: the segments are in the order of the text; 1: they are swapped",
}


@dataclass(frozen=True)
class DocumentRows:
    """The documents of a corpus."""

    artifact: Artifact

    def __post_init__(self) -> None:
        hold = ArtifactHold(self.artifact.place, self.artifact.manifest.folder)
        object.__setattr__(self, "_hold", hold)  # as long as the files may be read

    @cached_property
    def schema(self) -> pa.Schema:
        """A row a document."""
        locator = CORPUS.field("locator").type
        types = {field.name: field.type for field in CORPUS} | {
            name: locator.field(inner).type for name, inner in LOCATED.items()
        }
        return pa.schema(
            [
                described(name, pa.string() if name == "id" else types[name], meaning)
                for name, meaning in DOCUMENT_COLUMNS.items()
            ]
        )

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Live documents; a batch of the corpus gives one for each split."""
        for live in Corpus(self.artifact.place, self.artifact.manifest).iter_batches():
            held_out = live.column("held_out").to_numpy(zero_copy_only=False)
            for split, wanted in (("train", ~held_out), ("held-out", held_out)):
                if wanted.any():
                    yield split, self._published(live if wanted.all() else live.filter(pa.array(wanted)))

    def _published(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        locator = batch.column("locator")
        columns = {name: locator.field(inner) for name, inner in LOCATED.items()}
        columns["id"] = pa.array([id.hex() for id in batch.column("id").to_pylist()], pa.string())
        return pa.record_batch(
            [columns[name] if name in columns else batch.column(name) for name in self.schema.names], schema=self.schema
        )


@dataclass(frozen=True)
class ExampleRows:
    """The examples of a shard set."""

    artifact: Artifact

    @cached_property
    def _sets(self) -> Mapping[str, ShardSet]:
        return {split: ShardSet(self.artifact.place, self.artifact.manifest, split) for split in SPLITS}

    @cached_property
    def schema(self) -> pa.Schema:
        """A row an example."""
        return pa.schema([self._field(field) for field in self._sets["train"].schema])

    def _field(self, field: pa.Field) -> pa.Field:
        kind = pa.list_(pa.string()) if field.name == "documents" else field.type
        meaning = EXAMPLE_COLUMNS.get(field.name, "")
        if field.name == "label":
            meaning = LABELS.get(str(self.artifact.manifest.facts.get("labels")), meaning)
        return described(RENAMED.get(field.name, field.name), kind, meaning)

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Live examples, those of the train split first."""
        for split, shards in self._sets.items():
            live, first = shards.is_live, 0
            for part in shards.parts:
                folder = self.artifact.manifest.stage_folder
                for batch in read_part_table(self.artifact.place, folder, part, "examples", shards.schema.names):
                    kept = live[first : first + batch.num_rows]
                    first += batch.num_rows
                    if kept.any():
                        yield split, self._published(batch if kept.all() else batch.filter(pa.array(kept)))

    def _published(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        ids = [[id.hex() for id in row] for row in batch.column("documents").to_pylist()]
        documents = pa.array(ids, pa.list_(pa.string()))
        columns = [documents if name == "documents" else batch.column(name) for name in batch.schema.names]
        return pa.record_batch(columns, schema=self.schema)


def described(name: str, kind: pa.DataType, meaning: str) -> pa.Field:
    """Return a field with its meaning as metadata."""
    return pa.field(name, kind, metadata={"description": meaning} if meaning else None)


CARD, METADATA, TOKENIZER = "README.md", "croissant.json", "tokenizer"
MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSettings:
    """How rows become files.

    splits:   those to export
    file_mib: a file has at most so many MiB
    """

    splits: tuple[str, ...] = tuple(PUBLISHED)
    file_mib: int = 256

    def __post_init__(self) -> None:
        for split in self.splits:
            check_choice("--split", split, tuple(PUBLISHED))


def choose(address: str, kind: str | None, name: str | None) -> Artifact:
    """Return the corpus or shard set that an address means. Raises InputError if there is none, or several."""
    if kind is not None:
        check_choice("--kind", kind, KINDS)
    artifacts = find_artifacts(address)
    of_kind = [artifact for artifact in artifacts if artifact.manifest.kind in ((kind,) if kind else KINDS)]
    chosen = [artifact for artifact in of_kind if name in (None, artifact.manifest.name)]
    sets = sorted({(artifact.manifest.kind, artifact.manifest.name) for artifact in chosen})
    if len(sets) == 1:
        return pick_newest(chosen)
    others = sorted({(artifact.manifest.kind, artifact.manifest.name) for artifact in of_kind})
    listed = ", ".join(f"--kind {kind} --name {name}" for kind, name in sets or others)
    if sets:
        raise InputError(f"{address} has {len(sets)} things to export: choose one with one of {listed}.")
    raise InputError(
        f"{address} has no {'such ' if of_kind else ''}corpus or shard set, and only these can be exported"
        f"{': ' + listed if listed else ''}. `cloze inspect` shows what a store holds."
    )


def export(artifact: Artifact, target: Path, settings: ExportSettings) -> Exported:
    """Write the live rows of an artifact, and what describes them, to a new folder.

    Raises InputError.
    """
    if artifact.place.is_local and target.resolve().is_relative_to(Path(artifact.place.to_full_path(""))):
        raise InputError(f"{target} is inside the store {artifact.place.to_address('')}: give a folder outside of it.")
    rows = ExampleRows(artifact) if artifact.manifest.kind == "shards" else DocumentRows(artifact)
    content = exported(artifact)
    with new_folder(target) as folder:
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
        (folder / CARD).write_text(card(content), encoding="utf-8")
        (folder / METADATA).write_bytes(croissant(content, file_at(folder, CARD)))
    return content


def write_rows(
    rows: DocumentRows | ExampleRows, folder: Path, settings: ExportSettings
) -> tuple[list[ExportedFile], dict[str, int]]:
    """Write the files of all splits; also returns how many tokens or bytes of text each split has."""
    bound = settings.file_mib * MEBIBYTE
    writers = {split: SplitFiles(folder, PUBLISHED[split], rows.schema, bound) for split in PUBLISHED}
    units = Counter[str]()
    for split, batch in rows.batches():
        if split in settings.splits:
            writers[split].add(batch)
            units[PUBLISHED[split]] += units_of(batch)
    return [file for writer in writers.values() for file in writer.finish()], dict(units)


def units_of(batch: pa.RecordBatch) -> int:
    """Return the tokens of examples, or the bytes of text of documents."""
    if "input_ids" in batch.schema.names:
        return int(pc.sum(pc.list_value_length(batch.column("input_ids"))).as_py() or 0)
    return count_text_bytes(batch.column("text"))


def write_vocabulary(artifact: Artifact, folder: Path) -> Sequence[ExportedFile]:
    """Write the files of the vocabulary that examples were made with. Raises InputError if it is gone."""
    if artifact.manifest.kind != "shards":
        return []
    read_vocabulary_for(artifact).save(folder / TOKENIZER)
    return [file_at(folder, f"{TOKENIZER}/{path.name}") for path in sorted((folder / TOKENIZER).iterdir())]
