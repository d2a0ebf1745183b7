"""The near-duplicates of a text in a corpus, by its stored signatures.

Promise: every document that is named was compared exactly, shingle by shingle. A document is a candidate if its
signature agrees with the text's in all but three standard deviations of the threshold, which misses about one pair in a
thousand that are just as similar; if the threshold is so low that chance agrees as well, it costs comparisons.
Cost: the signatures of the corpus are read, about 550 bytes a document; the texts of candidates are read.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
import pyarrow as pa

from corpora.build import read_kept
from corpora.duplicates.build import hash_texts
from corpora.duplicates.candidates import read_documents_at, to_lanes
from corpora.duplicates.signatures import SignatureSettings, compute_signatures
from corpora.duplicates.verify import build_shingle_sets, compute_overlaps, parse_threshold
from corpora.errors import InputError
from corpora.kernels.fixed_width import to_byte_matrix
from corpora.schema import Document
from corpora.store.manifest import Manifest, Parent
from corpora.store.places.place import Place
from corpora.store.stage import read_manifest
from corpora.store.tables import read_table
from flows.export.export import choose

DEVIATIONS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarDocument:
    """A document of a corpus that is similar to a text. is_exact: its text is equal, byte for byte.

    missing: the share of the text's shingles that the document lacks
    """

    document: Document
    similarity: float
    missing: float
    is_exact: bool


def find_similar(address: str, text: str, threshold: float) -> list[SimilarDocument]:
    """Return the documents of a corpus that are as similar as the threshold, or of equal text, the most similar first.

    Raises InputError if there is no corpus, or the store no longer has what it was made of.
    """
    parse_threshold(threshold)
    chosen = choose(address, "corpora", None)
    place, verdicts = chosen.place, _read_parent(chosen.place, chosen.manifest.parents[-1])
    parents = [_read_parent(place, parent) for parent in verdicts.parents]
    documents, sketches = parents[::2], parents[1::2]
    settings = SignatureSettings(**sketches[0].settings)
    column = pa.array([text], pa.large_string())
    own_sketch, [own_hash] = compute_signatures(column, settings), hash_texts(column)
    slack = DEVIATIONS * sqrt(threshold * (1 - threshold) / settings.permutations)
    least = threshold - slack if own_sketch.num_shingles[0] else 2.0  # a text without words is near none
    are_candidates = [np.zeros(0, np.bool_)]
    for each in sketches:
        for batch in read_table(place, each, "signatures", ("signature", "text_hash")):
            agreement = (to_lanes(batch.column("signature")) == own_sketch.signature[0]).mean(axis=1)
            is_equal = (to_byte_matrix(batch.column("text_hash")) == np.frombuffer(own_hash, np.uint8)).all(axis=1)
            are_candidates.append((agreement >= least) | is_equal)
    rows = np.flatnonzero(np.concatenate(are_candidates) & read_kept(place, verdicts))
    found = read_documents_at(place, documents, rows.tolist())
    texts = pa.array([text, *(document.text for document in found.values())], pa.large_string())
    sets = build_shingle_sets(texts, settings.shingle_words)
    others = np.arange(1, len(texts))
    overlaps = compute_overlaps(sets.values, sets.offsets, others, np.zeros(len(others), np.int64))
    results = [
        SimilarDocument(
            document=document,
            similarity=common / union if union else 1.0,
            missing=(own - common) / own if own else 0.0,
            is_exact=document.text == text,
        )
        for document, common, union, own in zip(found.values(), *(each.tolist() for each in overlaps), strict=True)
    ]
    wanted = [each for each in results if each.is_exact or each.similarity >= threshold]
    return sorted(wanted, key=lambda each: (-each.is_exact, -each.similarity, each.document.id))


def _read_parent(place: Place, parent: Parent) -> Manifest:
    folder = f"{parent.role}/{parent.name}/{parent.fingerprint}"
    manifest = read_manifest(place, folder)
    if manifest is None:
        raise InputError(
            f"The store no longer has {folder}, of which this corpus was made: run its recipe again, which builds what "
            "is missing."
        )
    return manifest
