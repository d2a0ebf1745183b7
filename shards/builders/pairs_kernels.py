"""The kernels of the pair builder: what is in each example is planned first, then written in one go.

Promise: the examples of `shards.builders.pairs_plain`, which is their definition. A plan is a matrix of int64, one row
an example, its columns named here; counts are a vector, its places named by OUTCOMES and FIGURES.
Cost: see `shards.builders.pairs`; in passing, 64 bytes for every sentence of a shard and 64 for every example.
"""

import numpy as np
import numpy.typing as npt

from corpora.kernels.arrays import Bytes, Ids, Int64s, UInt64s
from corpora.kernels.compiling import kernel
from corpora.store.randomness import below_one, draw_one, fold_one, uniform_one

PURPOSES = ("target", "label", "cut", "partner", "truncation")
_TARGET, _LABEL, _CUT, _PARTNER, _TRUNCATION = range(5)
_A_START, A_LENGTH, _B_START, B_LENGTH, ANCHOR, OTHER, ORDINAL, PLAN_WIDTH = range(8)
OUTCOMES = ("placed", "truncated", "left_over")  # of the anchors' tokens
FIGURES = ("borrowed", "next", "random", "one_word", "without_partner")  # tokens of random Bs; then chunks
_PLACED, _TRUNCATED, _LEFT, _BORROWED, _NEXT, _RANDOMS, _ONE_WORD, _ALONE = range(8)


@kernel
def plan_copy(
    word_starts: Bytes,
    sentences: Int64s,
    documents: Int64s,
    keys: UInt64s,
    first_link: np.uint64,
    addresses: UInt64s,
    limit: int,
    short: float,
    rows: Int64s,
    example_ids: UInt64s,
    counts: Int64s,
) -> int:
    """Fill `rows` and `example_ids` with the examples of all documents, add to `counts`; their number."""
    num, alone = 0, len(documents) == 2
    for anchor in range(len(documents) - 1):
        link = fold_one(first_link, keys[anchor])
        first, last, ordinal = documents[anchor], documents[anchor + 1], 0
        while first < last:
            example_id = fold_one(link, np.uint64(ordinal))
            target = _target(fold_one(addresses[_TARGET], example_id), limit, short)
            end = _reach(sentences, first, last, target)
            a_start, b_end = sentences[first], sentences[end]
            middle, b_start = _cut(word_starts, sentences, first, end, fold_one(addresses[_CUT], example_id))
            if alone or b_start == b_end:
                counts[_LEFT] += b_end - a_start
                counts[_ALONE if alone else _ONE_WORD] += 1
                first = end
            else:
                row, other, a_end = rows[num], anchor, b_start
                first = end
                if below_one(fold_one(addresses[_LABEL], example_id), 0, 2):
                    first, a_end = middle, sentences[middle]
                    other, b_start, b_end = _random_b(
                        sentences, documents, anchor, target - (a_end - a_start),
                        fold_one(addresses[_PARTNER], example_id),
                    )  # fmt: skip
                row[_A_START], row[A_LENGTH], row[_B_START], row[B_LENGTH] = _truncate(
                    a_start, a_end - a_start, b_start, b_end - b_start, limit,
                    fold_one(addresses[_TRUNCATION], example_id),
                )  # fmt: skip
                row[ANCHOR], row[OTHER], row[ORDINAL] = anchor, other, ordinal
                _count(row, a_end - a_start, b_end - b_start, counts)
                example_ids[num] = example_id
                num += 1
            ordinal += 1
    return num


@kernel
def _count(row: Int64s, a_length: int, b_length: int, counts: Int64s) -> None:
    """Add one example to the counts; the lengths are those before truncation."""
    counts[_PLACED] += row[A_LENGTH]
    counts[_TRUNCATED] += a_length - row[A_LENGTH]
    if row[ANCHOR] == row[OTHER]:
        counts[_NEXT] += 1
        counts[_PLACED] += row[B_LENGTH]
        counts[_TRUNCATED] += b_length - row[B_LENGTH]
    else:
        counts[_RANDOMS] += 1
        counts[_BORROWED] += row[B_LENGTH]


@kernel
def _target(key: np.uint64, limit: int, short: float) -> int:
    """The tokens a chunk should have: the limit, or rarely a number in [2, limit]."""
    return 2 + below_one(key, 1, limit - 1) if uniform_one(key, 0) < short else limit


@kernel
def _reach(sentences: Int64s, first: int, last: int, wanted: int) -> int:
    """The end of a run of sentences from `first` on: one at least, until there are `wanted` tokens."""
    end = first + 1
    while end < last and sentences[end] - sentences[first] < wanted:
        end += 1
    return end


@kernel
def _cut(word_starts: Bytes, sentences: Int64s, first: int, end: int, key: np.uint64) -> tuple[int, int]:
    """Where a chunk is cut: the sentence after A's last, and the token where a true next begins.

    A single sentence is cut at the word start nearest to a drawn place; at its end where it has none inside.
    """
    if end - first > 1:
        middle = first + 1 + below_one(key, 0, end - first - 1)
        return middle, sentences[middle]
    start, stop = sentences[first], sentences[end]
    if stop - start > 1:
        drawn = start + 1 + below_one(key, 0, stop - start - 1)
        for distance in range(stop - start):
            if drawn - distance > start and word_starts[drawn - distance]:
                return end, drawn - distance
            if drawn + distance < stop and word_starts[drawn + distance]:
                return end, drawn + distance
    return end, stop


@kernel
def _random_b(sentences: Int64s, documents: Int64s, anchor: int, wanted: int, key: np.uint64) -> tuple[int, int, int]:
    """Another document, each as probable, and where a run of its sentences from a drawn one on lies."""
    other = below_one(key, 0, len(documents) - 2)
    other += other >= anchor
    last = documents[other + 1]
    first = documents[other] + below_one(key, 1, last - documents[other])
    return other, sentences[first], sentences[_reach(sentences, first, last, wanted)]


@kernel
def _truncate(
    a_start: int, a_length: int, b_start: int, b_length: int, limit: int, key: np.uint64
) -> tuple[int, int, int, int]:
    """Both segments, shortened token by token until they fit; 64 tokens share a draw, a bit each."""
    removed, bits = 0, np.uint64(0)
    while a_length + b_length > limit:
        if removed % 64 == 0:
            bits = draw_one(key, removed // 64)
        front = 1 if bits & np.uint64(1) else 0
        if a_length > b_length:
            a_start += front
            a_length -= 1
        else:
            b_start += front
            b_length -= 1
        bits >>= np.uint64(1)
        removed += 1
    return a_start, a_length, b_start, b_length


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
    """Write [CLS] A [SEP] B [SEP] of every row of the plan from its offset on."""
    for index in range(len(plan)):
        place = offsets[index]
        out_ids[place], out_starts[place] = cls_id, 0
        place += 1
        for segment in (_A_START, _B_START):
            start, length = plan[index, segment], plan[index, segment + 1]
            _copy(ids[start : start + length], out_ids[place : place + length])
            _copy(word_starts[start : start + length], out_starts[place : place + length])
            place += length
            out_ids[place], out_starts[place] = sep_id, 0
            place += 1


@kernel
def _copy(source: npt.NDArray[np.generic], target: npt.NDArray[np.generic]) -> None:
    """Copy by a loop over two views: 2.5 times as fast here as a slice assignment in one function."""
    for index in range(len(source)):
        target[index] = source[index]
