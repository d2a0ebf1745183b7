"""The kernels that plan examples in order or swapped; those of `plan_kernels` write them.

Promise: the examples of `shards.builders.segments.sentence_order.orders_plain`, which is their definition.
"""

import numpy as np

from corpora.kernels.arrays import Bytes, Int64s, UInt64s
from corpora.kernels.compiling import kernel
from corpora.store.randomness import below_one, fold_one
from shards.builders.segments.plan_kernels import (
    A_LENGTH,
    A_START,
    ANCHOR,
    B_LENGTH,
    B_START,
    EXAMPLE_ID,
    LABEL,
    ORDINAL,
    OTHER,
    PLAN_WIDTH,
    chunk_end,
    drawn_target,
    drawn_word,
    last_word,
    next_word,
    with_room,
)

MARGIN = 5  # tokens of a cut sentence that are left over at its begin, and at its end
PURPOSES = ("target", "label", "cut", "direction")
_TARGET, _LABEL, _CUT, _DIRECTION = range(4)
OUTCOMES = ("placed", "truncated", "left_over")
# Chunks by label; those in which sentences are cut; pieces that are left over, for no word begins in them.
FIGURES = ("in_order", "swapped", "cut_sentences", "one_word")
_PLACED, _TRUNCATED, _LEFT, _IN_ORDER, _SWAPPED, _CUTS, _ONE_WORD = range(7)


@kernel
def plan_orders(
    inside: Bytes,
    sentences: Int64s,
    kept: Int64s,
    keys: UInt64s,
    first_link: np.uint64,
    addresses: UInt64s,
    limit: int,
    short: float,
    counts: Int64s,
) -> Int64s:
    """The examples of all documents, a row of the plan each; adds to `counts`.

    inside: [tokens + 1], 1 where a word begins inside a sentence; kept: [documents, 2], sentences that are cut
    """
    rows, num, mirrored = np.empty((1024, PLAN_WIDTH), np.int64), 0, inside[::-1].copy()
    for anchor in range(len(kept)):
        link = fold_one(first_link, keys[anchor])
        words, bounds = inside, sentences[kept[anchor, 0] : kept[anchor, 1] + 1]
        backwards = below_one(fold_one(addresses[_DIRECTION], keys[anchor]), 0, 2)
        if backwards:
            words, bounds = mirrored, sentences[-1] - bounds[::-1]
        first, last, ordinal, at = 0, len(bounds) - 1, 0, bounds[0]
        while first < last:
            example_id = fold_one(link, np.uint64(ordinal))
            target = drawn_target(fold_one(addresses[_TARGET], example_id), limit, short)
            cut_key = fold_one(addresses[_CUT], example_id)
            is_whole = at == bounds[first] and _two_fit(bounds, first, limit)
            if is_whole:
                end = chunk_end(bounds, at, first, last, limit, target)
                start, middle, stop = at, bounds[first + 1 + below_one(cut_key, 0, end - first - 1)], bounds[end]
                after = stop
            else:
                start, middle, stop, after = _piece(words, bounds, at, first, limit, cut_key)
            if middle < 0:
                counts[_LEFT] += after - at
                counts[_ONE_WORD] += 1
            else:
                counts[_PLACED] += stop - start
                counts[_LEFT] += start - at + after - stop
                counts[_CUTS] += not is_whole
                if backwards:
                    start, middle, stop = sentences[-1] - stop, sentences[-1] - middle, sentences[-1] - start
                rows, swapped = with_room(rows, num), below_one(fold_one(addresses[_LABEL], example_id), 0, 2)
                row = rows[num]
                row[A_START], row[A_LENGTH] = start, middle - start
                row[B_START], row[B_LENGTH] = middle, stop - middle
                if swapped:
                    row[A_START], row[A_LENGTH] = middle, stop - middle
                    row[B_START], row[B_LENGTH] = start, middle - start
                row[ANCHOR], row[OTHER] = anchor, anchor
                row[ORDINAL], row[LABEL], row[EXAMPLE_ID] = ordinal, swapped, np.int64(example_id)
                counts[_SWAPPED if swapped else _IN_ORDER] += 1
                num += 1
            at = after
            while first < last and bounds[first + 1] <= at:
                first += 1
            ordinal += 1
    return rows[:num].copy()


@kernel
def _two_fit(bounds: Int64s, first: int, limit: int) -> bool:
    """Tell whether a sentence has a next one that fits with it."""
    return first + 2 < len(bounds) and bounds[first + 2] - bounds[first] <= limit


@kernel
def _piece(words: Bytes, bounds: Int64s, at: int, first: int, limit: int, key: np.uint64) -> tuple[int, int, int, int]:
    """The next piece of sentences that are cut at words: its begin, middle and end, and where the text goes on.

    The sentences are those up to the next two that fit an example together; `MARGIN` tokens of both ends are no part of
    a piece. The middle is -1 where no word begins inside one.
    """
    end = first + 1
    while end + 1 < len(bounds) and not _two_fit(bounds, end, limit):
        end += 1
    start = at if at > bounds[first] else next_word(words, at + MARGIN, bounds[end])
    last = last_word(words, at, bounds[end] - MARGIN)
    if start < 0 or last <= start:
        return at, -1, at, bounds[end]
    pieces = -(-(last - start) // limit)
    stop = last_word(words, start, start - (-(last - start) // pieces))
    if stop < 0:
        return at, -1, at, next_word(words, start + 1, last + 1)
    return start, drawn_word(words, start, stop, key), stop, bounds[end] if stop == last else stop
