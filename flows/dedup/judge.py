"""Who stays, of all rows, by the engine of `corpora.duplicates`.

The rows of another corpus lead the order and stay unjudged; then come the rows in the order of their files, or the
longest first. Equal are rows of the same words, or, of those without words, of the same bytes.

Cost: that of the engine. Memory: 26 bytes a row, and the engine's.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from corpora.duplicates.shingle_file import ShingleFile
from corpora.duplicates.survivors import DuplicateSettings, judge_table
from corpora.duplicates.sweep import KEPT
from corpora.duplicates.verify import ShingleSets
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


def judge(
    table: ScratchTable,
    sketch: Sketch,
    num_given: int,
    settings: DuplicateSettings,
    keep: str,
    read: ReadSets,
    folder: str,
) -> RowVerdicts:
    """Judge all rows. keep: "first", "longest" or "none"; read: see `ShingleFile`; folder: for scratch files"""
    order = np.flatnonzero(sketch.state == HAS_TEXT).astype(np.int32)
    given = int(np.searchsorted(order, num_given))
    if keep == "longest":
        order[given:] = order[given:][np.argsort(-sketch.num_shingles[order[given:]], kind="stable")]
    with open_scratch_file(folder) as file:
        verdicts = judge_table(table, order, ShingleFile(file, folder, order, read), settings, given)
    reason = np.where(sketch.state == UNREADABLE, REASONS.index(UNREAD), 0).astype(np.int8)
    survivor = np.full(table.rows, KEPT, np.int32)
    similarity, missing = np.zeros(table.rows, np.float32), np.zeros(table.rows, np.float32)
    gone = np.flatnonzero(verdicts.survivor != KEPT)
    rows = order[gone]
    reason[rows] = np.where(verdicts.exact[gone], REASONS.index(EXACT), REASONS.index(NEAR))
    survivor[rows] = order[verdicts.survivor[gone]]
    similarity[rows], missing[rows] = verdicts.similarity[gone], verdicts.missing[gone]
    if keep == "none":
        with_copies = np.unique(survivor[survivor >= num_given])
        first = np.flatnonzero(survivor != KEPT)[::-1]
        survivor[survivor[first]] = first  # the first of its copies, where it has several
        survivor[:num_given] = KEPT
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
