"""`cloze trace`: an example back to documents and raw records, a document forward to its examples and answers."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from corpora.errors import InputError
from corpora.schema import Document
from corpora.store.places.place import Place
from corpora.store.settings import check_choice
from corpora.store.stage import MANIFEST, read_manifest
from corpora.store.tables import read_file
from flows.run.addresses import Artifact
from flows.run.record.run_record import find_raw_file, read_recorded_recipe
from flows.run.stage_kinds import STAGES
from shards.build import SPLITS
from shards.reading.epoch_rows import TracedDocument, find_document, open_corpus, trace_example
from shards.reading.files.shard_set import ShardSet


@dataclass(frozen=True, slots=True, kw_only=True)
class RawTrace:
    """One document of an example and the bytes of its raw record, where the raw file still exists."""

    trace: TracedDocument
    raw: bytes | None


def trace_number(shards: Artifact, index: int, split: str = "train") -> tuple[ShardSet, list[RawTrace]]:
    """Return an example's documents and their raw bytes. Raises InputError for a number that no example has."""
    check_choice("--split", split, SPLITS)
    shard_set = ShardSet(shards.place, shards.manifest, split)
    if not 0 <= index < len(shard_set):
        raise InputError(f"There is no example {index}: {shards.manifest.folder} holds 0 to {len(shard_set) - 1}.")
    traces = trace_example(shard_set, index)
    raws = [RawTrace(trace=trace, raw=raw_bytes(shards.place, trace.document)) for trace in traces]
    return shard_set, raws


def raw_bytes(place: Place, document: Document) -> bytes | None:
    """Return the bytes of a document's raw record; None where its raw file is no longer on this machine.

    The newest run that read the file says where it was and, by its recipe, how its source is read.
    """
    recorded = find_raw_file(place, document.locator.sha256)
    if recorded is None:
        return None
    record, file = recorded
    recipe = read_recorded_recipe(record, place.address)
    sources = (entry.source for entry in recipe.sources if entry.source.name == document.source)
    return next(sources).raw_record(file, document.locator)


def trace_document(shards: Artifact, id_hex: str) -> tuple[Document, dict[str, list[int]]]:
    """Return a document by its id, and the numbers of its examples, by split. Raises InputError."""
    try:
        id = bytes.fromhex(id_hex)
    except ValueError as error:
        raise InputError(f"{id_hex!r} is not a document id: an id is 32 hexadecimal digits.") from error
    document = find_document(open_corpus(shards.place, shards.manifest), id)
    if document is None:
        raise InputError(f"The corpus of {shards.manifest.folder} keeps no document {id_hex}.")
    sets = {split: ShardSet(shards.place, shards.manifest, split) for split in SPLITS}
    return document, {split: shard_set.find_examples_with_document(id) for split, shard_set in sets.items()}


def example_facts(shards: Artifact, index: int, split: str) -> dict[str, Any]:
    """Return an example with its documents and where their records are, for scripts. Raises InputError."""
    from flows.run.addresses import read_vocabulary_for

    shard_set, traces = trace_number(shards, index, split)
    example, vocabulary = shard_set[index], read_vocabulary_for(shards)
    return {
        "shards": shards.manifest.folder,
        "split": split,
        "example": index,
        "tokens": [vocabulary.tokens[id] for id in example.ids.tolist()],
        "documents": [{"role": each.trace.role, **_facts(each.trace.document, each.raw)} for each in traces],
    }


def document_facts(shards: Artifact, id_hex: str | None) -> dict[str, Any]:
    """Return a document, and the numbers of its examples by split, for scripts. Raises InputError."""
    document, examples = trace_document(shards, str(id_hex))
    facts = _facts(document, raw_bytes(shards.place, document))
    answers = answers_to(shards.place, document)
    return {"shards": shards.manifest.folder, "document": facts, "examples": examples, "answers": answers}


def answers_to(place: Place, document: Document) -> dict[str, str]:
    """Return what fine-tuned models answered to a document, by artifact; of a vector its length. Reads all answers.

    Raises Damaged.
    """
    answers, here = {}, [("id", "=", document.id.hex())]
    kinds = [kind for kind, described in STAGES.items() if described.has_answers]
    paths = [path for kind in kinds for path in sorted(place.list_files(kind)) if path.endswith(f"/{MANIFEST}")]
    manifests = (read_manifest(place, path.removesuffix(f"/{MANIFEST}")) for path in paths)
    files = [(manifest, file) for manifest in manifests if manifest for part in manifest.parts for file in part.files]
    for manifest, file in files:
        if file.path.endswith(".parquet"):
            table = pa.BufferReader(read_file(place, manifest.stage_folder, file))
            for row in pq.read_table(table, filters=here).to_pylist():
                answers[manifest.folder] = row.get("answer") or f"a vector of {len(row['vector'])} numbers"
    return answers


def _facts(document: Document, raw: bytes | None) -> dict[str, Any]:
    """Return a document for scripts. raw_bytes: the size of its record, None where the raw file is gone"""
    fields = ("title", "source", "url", "date", "license", "language", "text")
    where = {"id": document.id.hex(), "where": str(document.locator), "raw_bytes": None if raw is None else len(raw)}
    return {**where, **{name: getattr(document, name) for name in fields}}
