"""Finds the near-duplicates of a text in a corpus, by the signatures that the store keeps.

Promise: every document that is returned was compared exactly, shingle by shingle (a shingle is a run of words). A
document is a candidate if its signature agrees with the text's signature to within three standard deviations of the
threshold, which misses about one in a thousand of the pairs with a similarity equal to the threshold. If the threshold
is so low that random texts agree as well, more documents are compared.
Cost: the signatures of the corpus are read, about 550 bytes per document; the texts of candidates are read.
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
from flows.export.export import choose_artifact

DEVIATIONS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarDocument:
    """A document of a corpus that is similar to a given text.

    Attributes:
        document: The document.
        similarity: Jaccard similarity of the shingles of the two texts, from 0 to 1.
        missing: Share of the given text's shingles (runs of words) that the document lacks, from 0 to 1.
        is_exact: True if the texts are equal byte for byte.
    """

    document: Document
    similarity: float
    missing: float
    is_exact: bool


def find_similar(address: str, text: str, threshold: float) -> list[SimilarDocument]:
    """Find the documents of a corpus that are equal to a text or at least as similar to it as the threshold.

    Args:
        address: A store that contains one corpus, or a corpus.
        text: The text to search for.
        threshold: Minimum Jaccard similarity, above 0 and at most 1.

    Returns:
        The documents: equal ones first, then by descending similarity.

    Raises:
        InputError: If there is no corpus or more than one, the threshold is out of range, or the store no longer has
            the documents from which the corpus was built.
    """
    parse_threshold(threshold)
    chosen = choose_artifact(address, "corpora", None)
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
    """Read the manifest (description) of an artifact from which the corpus was built.

    Args:
        place: The store.
        parent: The reference to the artifact.

    Raises:
        InputError: If the store no longer has the artifact.
    """
    folder = f"{parent.role}/{parent.name}/{parent.fingerprint}"
    manifest = read_manifest(place, folder)
    if manifest is None:
        raise InputError(
            f"The store no longer has {folder}, of which this corpus was made: run its recipe again, which builds what "
            "is missing."
        )
    return manifest
