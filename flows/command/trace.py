"""`cloze trace`: an example back to its documents and raw records, and a document forward to its examples."""

from dataclasses import dataclass

from corpora.errors import InputError
from corpora.schema import Document
from corpora.store.places.place import Place
from flows.run.record.run_record import find_raw_file, recorded_recipe
from flows.run.store_address import Artifact
from shards.build import SPLITS
from shards.reading.files.shard_set import ShardSet
from shards.reading.trace import Trace, corpus_of, find_document, trace_example


@dataclass(frozen=True, slots=True, kw_only=True)
class RawTrace:
    """One document of an example and the bytes of its raw record, where the raw file still exists."""

    trace: Trace
    raw: bytes | None


def trace_number(shards: Artifact, index: int, split: str = "train") -> tuple[ShardSet, list[RawTrace]]:
    """Return an example's documents and their raw bytes. Raises InputError for a number that no example has."""
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
    recipe = recorded_recipe(record, place.address)
    sources = (entry.source for entry in recipe.sources if entry.source.name == document.source)
    return next(sources).raw_record(file, document.locator)


def trace_document(shards: Artifact, id_hex: str) -> tuple[Document, dict[str, list[int]]]:
    """Return a document by its id, and the numbers of its examples, by split. Raises InputError."""
    try:
        id = bytes.fromhex(id_hex)
    except ValueError as error:
        raise InputError(f"{id_hex!r} is not a document id: an id is 32 hexadecimal digits.") from error
    document = find_document(corpus_of(shards.place, shards.manifest), id)
    if document is None:
        raise InputError(f"The corpus of {shards.manifest.folder} keeps no document {id_hex}.")
    sets = {split: ShardSet(shards.place, shards.manifest, split) for split in SPLITS}
    return document, {split: shard_set.examples_of(id) for split, shard_set in sets.items()}
