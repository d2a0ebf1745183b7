"""A corpus asked for near-duplicates: by its stored signatures, in which nothing is inserted again.

Promise: every document that is named was compared exactly, shingle by shingle. A document is a candidate where its
signature agrees with the text's in all but three standard deviations of the threshold, which misses about one pair in a
thousand that are just as similar; where the threshold is so low that chance agrees as well, it costs comparisons.
Cost: the signatures of the corpus are read, about 550 bytes a document; the texts of candidates are read.
"""

from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from corpora.build import kept_rows
from corpora.duplicates.bands import band_keys
from corpora.duplicates.build import text_hashes
from corpora.duplicates.candidates import documents_at, lanes
from corpora.duplicates.exchange import from_minhash
from corpora.duplicates.signatures import SignatureSettings, signatures
from corpora.duplicates.survivors import DuplicateSettings
from corpora.duplicates.verify import jaccard_pairs, shingle_sets
from corpora.errors import InputError
from corpora.kernels.arrays import Bools, Int64s, UInt32s, UInt64s
from corpora.schema import Document
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import read_manifest
from corpora.store.tables import read_table
from flows.export.export import choose

if TYPE_CHECKING:
    from datasketch import LeanMinHash, MinHash

DEVIATIONS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Similar:
    """A document of a corpus that is similar to a text. is_exact: its text is equal, byte for byte.

    missing: the share of the text's shingles that the document lacks
    """

    document: Document
    similarity: float
    missing: float
    is_exact: bool


class CorpusIndex:
    """The signatures of a corpus, for texts and datasketch's sketches. Reads the store; writes nothing."""

    def __init__(self, address: str) -> None:
        """Raises InputError where there is no corpus, or the store no longer has what it was made of."""
        chosen = choose(address, "corpora", None)
        self._place: Place = chosen.place
        verdicts = [self._manifest(parent.role, parent.name, parent.fingerprint) for parent in chosen.manifest.parents]
        self._verdicts = verdicts[-1]
        parents = [self._manifest(each.role, each.name, each.fingerprint) for each in self._verdicts.parents]
        self._documents, self._sketches = parents[::2], parents[1::2]
        self.settings = SignatureSettings(**self._sketches[0].settings)
        told = self._verdicts.settings["duplicates"]
        assert isinstance(told, dict)
        self.duplicates = DuplicateSettings(**told)

    def similar(self, text: str, threshold: float) -> list[Similar]:
        """Return the documents that are as similar as the threshold, or of equal text, the most similar first."""
        column = pa.array([text], pa.large_string())
        sketch = signatures(column, self.settings)
        agreement = (self._signatures == sketch.signature[0]).mean(axis=1)
        slack = DEVIATIONS * sqrt(threshold * (1 - threshold) / self.settings.permutations)
        near = (agreement >= threshold - slack) & (sketch.num_shingles[0] > 0)
        equal = np.array([each == text_hashes(column)[0] for each in self._text_hashes], np.bool_)
        found = documents_at(self._place, self._documents, np.flatnonzero((near | equal) & self._kept).tolist())
        texts = pa.array([text, *(document.text for document in found.values())], pa.large_string())
        sets = shingle_sets(texts, self.settings.shingle_words)
        others = np.arange(1, len(texts))
        overlaps = jaccard_pairs(sets.values, sets.offsets, others, np.zeros(len(others), np.int64))
        results = [
            Similar(
                document=document,
                similarity=common / union if union else 1.0,
                missing=(own - common) / own if own else 0.0,
                is_exact=document.text == text,
            )
            for document, common, union, own in zip(found.values(), *(each.tolist() for each in overlaps), strict=True)
        ]
        chosen = [each for each in results if each.is_exact or each.similarity >= threshold]
        return sorted(chosen, key=lambda each: (-each.is_exact, -each.similarity, each.document.id))

    def query(self, sketch: "MinHash | LeanMinHash") -> list[bytes]:
        """Return the ids of the documents that share a band with a sketch, as a `MinHashLSH` of this corpus would.

        Raises InputError for a sketch of other permutations.
        """
        [own] = band_keys(from_minhash(sketch, self.settings)[None], self.duplicates.band)
        rows: Int64s = np.flatnonzero((self._keys == own).any(axis=1) & self._kept)
        return [document.id for document in documents_at(self._place, self._documents, rows.tolist()).values()]

    def _manifest(self, kind: str, name: str, fingerprint: str) -> Manifest:
        manifest = read_manifest(self._place, f"{kind}/{name}/{fingerprint}")
        if manifest is None:
            raise InputError(
                f"The store no longer has {kind}/{name}/{fingerprint}, of which this corpus was made: run its recipe "
                "again, which builds what is missing."
            )
        return manifest

    def _column(self, name: str) -> pa.ChunkedArray:
        batches = [batch for each in self._sketches for batch in read_table(self._place, each, "signatures", [name])]
        return pa.Table.from_batches(batches).column(name)

    @cached_property
    def _signatures(self) -> UInt32s:
        return lanes(self._column("signature"), self.settings.permutations)

    @cached_property
    def _keys(self) -> UInt64s:
        return band_keys(self._signatures, self.duplicates.band)

    @cached_property
    def _text_hashes(self) -> list[bytes]:
        hashes: list[bytes] = self._column("text_hash").to_pylist()
        return hashes

    @cached_property
    def _kept(self) -> Bools:
        return kept_rows(self._place, self._verdicts)
