"""The kernel that plans examples in order or swapped; `segment_kernels` writes them.

Promise: the examples of `shards.builders.segments.sentence_order.orders_plain`, which is their definition.
"""

import numpy as np

from corpora.kernels.arrays import Int64s, UInt64s
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
    with_room,
)

PURPOSES = ("target", "label", "cut", "direction")
_TARGET, _LABEL, _CUT, _DIRECTION = range(4)
OUTCOMES = ("placed", "truncated", "left_over")
FIGURES = ("in_order", "swapped", "one_sentence", "too_long")  # chunks by label; those that are left over, by reason
_PLACED, _TRUNCATED, _LEFT, _IN_ORDER, _SWAPPED, _ONE, _LONG = range(7)


@kernel
def plan_orders(
    sentences: Int64s,
    documents: Int64s,
    keys: UInt64s,
    first_link: np.uint64,
    addresses: UInt64s,
    limit: int,
    short: float,
    counts: Int64s,
) -> Int64s:
    """The examples of all documents, a row of the plan each; adds to `counts`."""
    rows, num = np.empty((1024, PLAN_WIDTH), np.int64), 0
    for anchor in range(len(documents) - 1):
        link = fold_one(first_link, keys[anchor])
        bounds = sentences[documents[anchor] : documents[anchor + 1] + 1]
        backwards = below_one(fold_one(addresses[_DIRECTION], keys[anchor]), 0, 2)
        if backwards:
            bounds = -bounds[::-1]
        first, last, ordinal = 0, len(bounds) - 1, 0
        while first < last:
            start, end = bounds[first], first + 1
            if bounds[end] - start <= limit:
                example_id = fold_one(link, np.uint64(ordinal))
                target = drawn_target(fold_one(addresses[_TARGET], example_id), limit, short)
                end = chunk_end(bounds, start, first, last, limit, target)
                ordinal += 1
            stop = bounds[end]
            if end - first > 1:
                rows = with_room(rows, num)
                row, swapped = rows[num], below_one(fold_one(addresses[_LABEL], example_id), 0, 2)
                middle = bounds[first + 1 + below_one(fold_one(addresses[_CUT], example_id), 0, end - first - 1)]
                if backwards:
                    start, middle, stop = -stop, -middle, -start
                row[A_START], row[A_LENGTH] = start, middle - start
                row[B_START], row[B_LENGTH] = middle, stop - middle
                if swapped:
                    row[A_START], row[A_LENGTH] = middle, stop - middle
                    row[B_START], row[B_LENGTH] = start, middle - start
                row[ANCHOR], row[OTHER] = anchor, anchor
                row[ORDINAL], row[LABEL], row[EXAMPLE_ID] = ordinal - 1, swapped, np.int64(example_id)
                counts[_PLACED] += stop - start
                counts[_SWAPPED if swapped else _IN_ORDER] += 1
                num += 1
            else:
                counts[_LEFT] += stop - start
                counts[_LONG if stop - start > limit else _ONE] += 1
            first = end
    return rows[:num].copy()
