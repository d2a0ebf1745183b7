"""Decides which rows stay, by the duplicate search of `corpora.duplicates`, and measures how many pairs that search
finds.

The rows of another corpus come first in the order and are not judged; then come the rows in the order of their files,
or the longest first. Rows are equal if they have the same words, or, if they have no words, the same bytes.
Cost: that of the search. Memory: 26 bytes per row, and the memory of the search.

Recall is measured on planted pairs: copies of the input's own texts, edited so that about .80 to .95 of their shingles
(runs of words) stay in common. The exact similarity of each pair is then computed. A pair is found if it shares a band,
because verification then compares it exactly. The expected recall is that of the bands' probability curve at the same
similarities.
Cost: about a millisecond per text. The same texts give the same pairs.
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
    """The decisions about n rows. The rows of the corpus to compare with come first; the input rows follow.

    Attributes:
        reason: int8 [n], index in REASONS of why the row is removed; 0 if the row is kept.
        survivor: int32 [n], index of the row that is kept instead of this one; KEPT if there is none.
        similarity: float32 [n], similarity to the survivor; 0 if there is none.
        missing: float32 [n], share of the row's shingles (runs of words) that the survivor lacks; 0 if there is no
            survivor.
        num_compared: Number of pairs that were compared exactly.
        num_cut: Number of comparisons that were skipped because too many rows share a band key (a hash that similar
            rows tend to share).
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
    """Decide which rows are kept, and find the survivor of each removed duplicate.

    Args:
        table: The text hashes and band keys (hashes that similar rows tend to share) of all rows.
        sketch: The number of shingles and the state of each row.
        num_against: Number of rows at the beginning that belong to the corpus to compare with. They are always kept.
        settings: Settings of the duplicate search.
        keep: Which row of a group of duplicates is kept: "first", "longest" or "none".
        read_sets: Function that takes row indices in ascending order and yields the rows' sets of shingles (runs of
            words) in blocks.
        folder: Folder for scratch files.

    Raises:
        InputError: If the disk is full.
    """
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
    """The recall of the duplicate search, measured on edited copies of texts. `cloze dedup` prints it.

    Attributes:
        pairs: Number of pairs of a text and its copy with a similarity of at least the threshold and below 1; 0 if
            nothing was measured.
        found: Share of these pairs that have a common band key (a hash that similar rows tend to share).
        theory: Expected value of `found`, from the probability that a pair with a given similarity shares a band key.
    """

    pairs: int
    found: float
    theory: float


def measure_recall(texts: Sequence[str], settings: DuplicateSettings) -> Recall:
    """Measure the recall of the duplicate search on edited copies of texts.

    A pair is found if both texts have a common band key (a hash that similar rows tend to share).

    Args:
        texts: Sample of the input texts.
        settings: Settings of the duplicate search.
    """
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
    """Replace random words of a text so that its similarity to the original is about `similarity`. Return the new text.

    Args:
        text: The text.
        num_shingles: Number of shingles (runs of words) of the text.
        similarity: The desired Jaccard similarity, from 0 to 1.
        words: Number of words in a shingle.
        draw: Random number generator.
    """
    units, joint = text.split(), " "
    if 2 * len(units) < num_shingles:  # a script without spaces: a character is a word
        units, joint = list(text), ""
    edits = round(num_shingles * (1 - similarity) / (words * (1 + similarity)))
    for position in draw.sample(range(len(units)), min(edits, len(units))):
        units[position] = f"q{draw.randrange(10**6)}q" if joint else chr(draw.randrange(0x4E00, 0x9FA0))
    return joint.join(units)
