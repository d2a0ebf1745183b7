"""Tracing: from an example to its documents, and from a document to its row in the corpus.

Reads the ids and revisions of all documents in the corpus' parts (of an example: in those of its generation), then the
record batch of one row with all its columns; no index is kept. The documents' locators lead on to the raw records.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora.build import Corpus
from corpora.errors import InputError
from corpora.schema import DOCUMENTS, Document, documents
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import read_manifest
from corpora.views import PartView, read_part
from shards.reading.files.shard_set import ShardSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One document of an example, and where it came from."""

    role: str  # anchor or neighbour
    document: Document
    generation: int


def corpus_of(place: Place, shards: Manifest) -> Corpus:
    """The corpus that a shard set was made from. Raises InputError where it is no longer in the store."""
    parent = next(parent for parent in shards.parents if parent.role == "corpora")
    manifest = read_manifest(place, parent.folder)
    if manifest is None:
        raise InputError(
            f"The corpus {parent.name}/{parent.fingerprint} of these shards is not in the store {place.address}: "
            "run the recipe again to build it."
        )
    return Corpus(place, manifest)


def trace_example(shard_set: ShardSet, index: int) -> list[Trace]:
    """The documents of one example, in their order."""
    example = shard_set[index]
    part, _ = shard_set.part_of(index)
    corpus = corpus_of(shard_set.place, shard_set.manifest)
    generation = int(part.labels["generation"])
    held = zip(example.documents, example.revisions, strict=True)
    return [
        _trace("neighbour" if number else "anchor", corpus, id, revision, generation)
        for number, (id, revision) in enumerate(held)
    ]


def _trace(role: str, corpus: Corpus, id: bytes, revision: int, generation: int) -> Trace:
    document = find_document(corpus, id, revision, generation)
    assert document is not None, f"document {id.hex()} of an example is in no part of its corpus"
    return Trace(role=role, document=document, generation=generation)


def find_document(
    corpus: Corpus, id: bytes, revision: int | None = None, generation: int | None = None
) -> Document | None:
    """The newest row of a document that the corpus' parts hold, deleted or not; None where there is none."""
    wanted = pa.scalar(id, pa.binary(len(id)))
    newest: tuple[PartView, int] | None = None
    for view in corpus.views:
        if generation is not None and view.part.labels.get("generation") != str(generation):
            continue
        first = 0
        for batch in read_part(corpus.place, view, ("id", "revision")):
            matches = pc.equal(batch.column("id"), wanted)
            if revision is not None:
                matches = pc.and_(matches, pc.equal(batch.column("revision"), revision))
            for row in np.flatnonzero(matches.to_numpy(zero_copy_only=False)).tolist():
                newest = (view, first + row)
            first += batch.num_rows
    if newest is None:
        return None
    view, row = newest
    [document] = documents(read_part(corpus.place, view, DOCUMENTS.names, range(row, row + 1)))
    return document
