"""The recall on planted pairs: copies of the very texts, edited to be similar by a known share, and how many are found.

A share of a text's words is replaced so that about .80 to .95 of its shingles stay in common; the exact similarity of
each pair is then counted. Found is a pair of at least the threshold that shares a band, for verification finds all of
these. Beside it is what the curve of the bands promises for the very similarities.
Cost: about a millisecond a text. Seeded: the same texts give the same pairs.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from corpora.duplicates.signatures import compute_band_keys, compute_probability, compute_signatures
from corpora.duplicates.survivors import DuplicateSettings
from corpora.duplicates.verify import build_shingle_sets, compute_overlaps

EDITED = 4  # copies of a text
SEED = 42


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """How many planted pairs of at least the threshold there are, the shares found and promised."""

    pairs: int
    found: float
    theory: float


def planted_recall(texts: Sequence[str], settings: DuplicateSettings) -> Recall:
    """Plant edited copies of texts, and look for them."""
    draw = random.Random(SEED)
    top = settings.threshold + 0.75 * (1 - settings.threshold)
    originals = pa.array(texts, pa.large_string())
    sizes = np.diff(build_shingle_sets(originals, settings.shingle_words).offsets)
    sources = [row for row in range(len(texts)) for _ in range(EDITED)]
    copies = pa.array(
        [
            _edited(texts[row], int(sizes[row]), draw.uniform(settings.threshold, top), settings.shingle_words, draw)
            for row in sources
        ],
        pa.large_string(),
    )
    both = pa.concat_arrays([originals, copies])
    sets = build_shingle_sets(both, settings.shingle_words)
    left, right = np.array(sources, np.int64), len(texts) + np.arange(len(sources))
    overlaps = compute_overlaps(sets.values, sets.offsets, left, right)
    similar = overlaps.intersection / np.maximum(overlaps.union, 1)
    chosen = np.flatnonzero((similar >= settings.threshold) & (similar < 1))
    if not len(chosen):
        return Recall(pairs=0, found=0.0, theory=0.0)
    keys = compute_band_keys(compute_signatures(both, settings.signature).signature, settings.band)
    found = (keys[left[chosen]] == keys[right[chosen]]).any(axis=1)
    promised = [compute_probability(float(similarity), settings.bands, settings.rows) for similarity in similar[chosen]]
    return Recall(pairs=len(chosen), found=float(found.mean()), theory=float(np.mean(promised)))


def _edited(text: str, num_shingles: int, similarity: float, words: int, draw: random.Random) -> str:
    """A text of which about this share of all shingles, of both texts, is in common."""
    units, joint = text.split(), " "
    if 2 * len(units) < num_shingles:  # a script without spaces: a character is a word
        units, joint = list(text), ""
    edits = round(num_shingles * (1 - similarity) / (words * (1 + similarity)))
    for place in draw.sample(range(len(units)), min(edits, len(units))):
        units[place] = f"q{draw.randrange(10**6)}q" if joint else chr(draw.randrange(0x4E00, 0x9FA0))
    return joint.join(units)
