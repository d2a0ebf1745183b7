"""The kernels of every builder of two segments: they find the end of a chunk, cut sentences, and write examples.

A chunk is a run of one document's text that becomes one example. A plan is a matrix of int64, one row for each example,
its columns named here. The plain twins over Python numbers are in `shards.builders.segments.pairs_plain`.
"""

import numpy as np

from corpora.kernels.arrays import Bytes, Ids, Int64s, copy_values
from corpora.kernels.compiling import kernel
from corpora.store.randomness import draw_below_one, draw_uniform_one

A_START, A_LENGTH, B_START, B_LENGTH, ANCHOR, OTHER, ORDINAL, LABEL, EXAMPLE_ID, PLAN_WIDTH = range(10)


@kernel
def draw_target(key: np.uint64, limit: int, short: float) -> int:
    """Draw how many tokens a chunk aims at: the limit, or with probability `short` a number in [2, limit]."""
    return 2 + draw_below_one(key, 1, limit - 1) if draw_uniform_one(key, 0) < short else limit


@kernel
def find_chunk_end(sentences: Int64s, start: int, first: int, last: int, limit: int, target: int) -> int:
    """Return the sentence after the last of a chunk that begins at token `start` of sentence `first`.

    The rest of sentence `first` must fit the limit. A second sentence is added if both fit the limit, and more while
    they fit the target. A chunk of three or more gives its last one to the next chunk if that would have a single
    sentence otherwise.
    """
    end = first + 1
    while end < last and sentences[end + 1] - start <= (limit if end == first + 1 else target):
        end += 1
    if end - first > 2 and end < last and sentences[end + 1] - sentences[end - 1] <= limit:
        if end + 1 == last or sentences[end + 2] - sentences[end] > limit:
            end -= 1
    return end


@kernel
def find_last_word(word_starts: Bytes, start: int, place: int) -> int:
    """Return the last position after `start` and up to `place` at which a word begins; -1 if none does."""
    while place > start:
        if word_starts[place]:
            return place
        place -= 1
    return -1


@kernel
def find_next_word(word_starts: Bytes, place: int, stop: int) -> int:
    """Return the first position from `place` on and before `stop` at which a word begins; -1 if none does."""
    while place < stop:
        if word_starts[place]:
            return place
        place += 1
    return -1


@kernel
def draw_word_start(word_starts: Bytes, start: int, stop: int, key: np.uint64) -> int:
    """Return the word start between `start` and `stop` that is nearest to a drawn position; -1 if there is none.

    Of two at the same distance it is the earlier. `start` and `stop` themselves do not count.
    """
    if stop - start > 1:
        drawn = start + 1 + draw_below_one(key, 0, stop - start - 1)
        for distance in range(stop - start):
            if drawn - distance > start and word_starts[drawn - distance]:
                return drawn - distance
            if drawn + distance < stop and word_starts[drawn + distance]:
                return drawn + distance
    return -1


@kernel
def grow_if_full(rows: Int64s, num: int) -> Int64s:
    """Return the rows; if all are in use, a copy with twice as many. num: how many are in use"""
    if num < len(rows):
        return rows
    more = np.empty((2 * num, rows.shape[1]), np.int64)
    for row in range(len(rows)):
        for column in range(rows.shape[1]):
            more[row, column] = rows[row, column]
    return more


@kernel
def write_examples(
    ids: Ids,
    word_starts: Bytes,
    plan: Int64s,
    offsets: Int64s,
    cls_id: int,
    sep_id: int,
    out_ids: Ids,
    out_starts: Bytes,
) -> None:
    """Write `[CLS] A [SEP] B [SEP]` of every row of the plan into `out_ids`, from the row's offset on.

    out_starts gets the word starts, 0 at special tokens.
    """
    for index in range(len(plan)):
        place = offsets[index]
        out_ids[place], out_starts[place] = cls_id, 0
        place += 1
        for segment in (A_START, B_START):
            start, length = plan[index, segment], plan[index, segment + 1]
            copy_values(ids[start : start + length], out_ids[place : place + length])
            copy_values(word_starts[start : start + length], out_starts[place : place + length])
            place += length
            out_ids[place], out_starts[place] = sep_id, 0
            place += 1
