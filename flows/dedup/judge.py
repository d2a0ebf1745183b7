"""Who stays, of all rows, by the engine of `corpora.duplicates`.

The rows of another corpus lead the order and stay unjudged; then come the rows in the order of their files, or the
longest first. Equal are rows of the same words, or, of those without words, of the same bytes.

Cost: that of the engine. Memory: 26 bytes a row, and the engine's.

The recall on planted pairs: copies of the very texts, edited to be similar by a known share, and how many are found.
A share of a text's words is replaced so that about .80 to .95 of its shingles stay in common; the exact similarity of
each pair is then counted. Found is a pair of at least the threshold that shares a band, for verification finds all of
these. Next to it is what the curve of the bands promises for the very similarities.
Cost: about a millisecond a text. Seeded: the same texts give the same pairs.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpora.duplicates.shingle_file import ShingleFile
from corpora.duplicates.signatures import compute_band_keys, compute_probability, compute_signatures
from corpora.duplicates.survivors import DuplicateSettings, judge_table
from corpora.duplicates.sweep import KEPT
from corpora.duplicates.verify import ShingleSets, build_shingle_sets, compute_overlaps
from corpora.kernels.arrays import Float32s, Int32s, Int64s
from corpora.store.scratch import ScratchTable, open_scratch_file
from flows.dedup.sketches import HAS_TEXT, UNREADABLE, Sketch

ReadSets = Callable[[Int64s], Iterator[ShingleSets]]
EXACT, NEAR, UNREAD, HAS_COPIES = "exact duplicate", "near duplicate", "unreadable", "has duplicates"
EMPTIED, CUT = "nothing new", "parts cut out"
REASONS = ("", EXACT, NEAR, UNREAD, HAS_COPIES, EMPTIED, CUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowVerdicts:
    """The outcome for each row, those of another corpus first.

    reason: places in REASONS; survivor: the row that stays for it, KEPT where there is none
    """

    reason: npt.NDArray[np.int8]
    survivor: Int32s
    similarity: Float32s
    missing: Float32s
    num_compared: int
    num_cut: int


def judge_rows(
    table: ScratchTable,
    sketch: Sketch,
    num_against: int,
    settings: DuplicateSettings,
    keep: str,
    read_sets: ReadSets,
    folder: str,
) -> RowVerdicts:
    """Judge all rows. keep: "first", "longest" or "none"; read: see `ShingleFile`; folder: for scratch files"""
    order = np.flatnonzero(sketch.state == HAS_TEXT).astype(np.int32)
    num_leading = int(np.searchsorted(order, num_against))
    if keep == "longest":
        order[num_leading:] = order[num_leading:][np.argsort(-sketch.num_shingles[order[num_leading:]], kind="stable")]
    with open_scratch_file(folder) as file:
        verdicts = judge_table(table, order, ShingleFile(file, folder, order, read_sets), settings, num_leading)
    reason = np.where(sketch.state == UNREADABLE, REASONS.index(UNREAD), 0).astype(np.int8)
    survivor = np.full(table.rows, KEPT, np.int32)
    similarity, missing = np.zeros(table.rows, np.float32), np.zeros(table.rows, np.float32)
    removed = np.flatnonzero(verdicts.survivor != KEPT)
    rows = order[removed]
    reason[rows] = np.where(verdicts.exact[removed], REASONS.index(EXACT), REASONS.index(NEAR))
    survivor[rows] = order[verdicts.survivor[removed]]
    similarity[rows], missing[rows] = verdicts.similarity[removed], verdicts.missing[removed]
    if keep == "none":
        with_copies = np.unique(survivor[survivor >= num_against])
        first = np.flatnonzero(survivor != KEPT)[::-1]
        survivor[survivor[first]] = first  # the first of its copies, where it has several
        survivor[:num_against] = KEPT
        reason[with_copies] = REASONS.index(HAS_COPIES)
        similarity[with_copies] = similarity[survivor[with_copies]]
    return RowVerdicts(
        reason=reason,
        survivor=survivor,
        similarity=similarity,
        missing=missing,
        num_compared=verdicts.num_compared,
        num_cut=verdicts.num_cut,
    )


COPIES_PER_TEXT = 4  # copies of a text
SEED = 42


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """How many planted pairs of at least the threshold there are, the shares found and promised."""

    pairs: int
    found: float
    theory: float


def measure_recall(texts: Sequence[str], settings: DuplicateSettings) -> Recall:
    """Plant edited copies of texts, and look for them."""
    draw = random.Random(SEED)
    top = settings.threshold + 0.75 * (1 - settings.threshold)
    originals = pa.array(texts, pa.large_string())
    sizes = np.diff(build_shingle_sets(originals, settings.shingle_words).offsets)
    sources = [row for row in range(len(texts)) for _ in range(COPIES_PER_TEXT)]
    copies = pa.array(
        [
            _edit_text(texts[row], int(sizes[row]), draw.uniform(settings.threshold, top), settings.shingle_words, draw)
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


def _edit_text(text: str, num_shingles: int, similarity: float, words: int, draw: random.Random) -> str:
    """A text of which about this share of all shingles, of both texts, is in common."""
    units, joint = text.split(), " "
    if 2 * len(units) < num_shingles:  # a script without spaces: a character is a word
        units, joint = list(text), ""
    edits = round(num_shingles * (1 - similarity) / (words * (1 + similarity)))
    for position in draw.sample(range(len(units)), min(edits, len(units))):
        units[position] = f"q{draw.randrange(10**6)}q" if joint else chr(draw.randrange(0x4E00, 0x9FA0))
    return joint.join(units)
