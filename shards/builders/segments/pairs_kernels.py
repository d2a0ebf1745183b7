"""The kernels of the pair builder: what is in each example is planned here, and written by `segment_kernels`.

Promise: the examples of `shards.builders.segments.pairs_plain`, which is their definition. Counts are a vector, its
places named by OUTCOMES and FIGURES. Cost: see `shards.builders.segments.pairs`.
"""

import numpy as np

from corpora.kernels.arrays import Bytes, Int32s, Int64s, UInt64s
from corpora.kernels.compiling import kernel
from corpora.store.randomness import draw_below_one, fold_one
from shards.builders.segments.partners import HEAD, INSIDE, LAST_TAIL, TAIL, PartnerIndex, draw_piece, draw_run, has_run
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
    draw_target,
    draw_word_start,
    find_chunk_end,
    find_last_word,
    find_next_word,
    grow_if_full,
)

PURPOSES = ("target", "label", "cut", "partner")
_TARGET, _LABEL, _CUT, _PARTNER = range(4)
OUTCOMES = ("placed", "truncated", "left_over")  # of the anchors' tokens
# Tokens of random Bs; chunks by their label; those in which a sentence is cut; chunks that are left over, by reason.
FIGURES = ("borrowed", "next", "random", "cut_sentences", "one_word", "without_partner")
_PLACED, _TRUNCATED, _LEFT, _BORROWED, _NEXT, _RANDOMS, _CUTS, _ONE_WORD, _ALONE = range(9)

_WHOLE, _NO_WORD, _NO_PARTNER = -1, -2, -1


@kernel
def plan_copy(
    word_starts: Bytes,
    sentences: Int64s,
    documents: Int64s,
    keys: UInt64s,
    partners: PartnerIndex,
    copy_key: np.uint64,
    addresses: UInt64s,
    limit: int,
    short: float,
    counts: Int64s,
) -> Int64s:
    """The examples of all documents, a row of the plan each; adds to `counts`."""
    rows, num = np.empty((1024, PLAN_WIDTH), np.int64), 0
    for anchor in range(len(documents) - 1):
        link = fold_one(copy_key, keys[anchor])
        first, last, ordinal = documents[anchor], documents[anchor + 1], 0
        start = sentences[first]
        while first < last:
            example_id = fold_one(link, np.uint64(ordinal))
            target = draw_target(fold_one(addresses[_TARGET], example_id), limit, short)
            b_start, b_end, place, is_cut = _find_chunk(
                word_starts, sentences, documents, partners, anchor, start, first, limit, target,
                fold_one(addresses[_CUT], example_id), fold_one(addresses[_PARTNER], example_id),
            )  # fmt: skip
            if place < 0:
                counts[_LEFT] += b_end - start
                counts[_ONE_WORD if place == _NO_WORD else _ALONE] += 1
                start = b_end
            else:
                rows = grow_if_full(rows, num)
                row, random = rows[num], draw_below_one(fold_one(addresses[_LABEL], example_id), 0, 2)
                row[A_START], row[A_LENGTH] = start, b_start - start
                row[B_START], row[B_LENGTH] = place if random else b_start, b_end - b_start
                row[ANCHOR], row[OTHER] = anchor, _find_document(sentences, partners, place) if random else anchor
                row[ORDINAL], row[LABEL], row[EXAMPLE_ID] = ordinal, random, np.int64(example_id)
                counts[_PLACED] += b_start - start if random else b_end - start
                counts[_BORROWED] += b_end - b_start if random else 0
                counts[_RANDOMS if random else _NEXT] += 1
                counts[_CUTS] += is_cut
                num += 1
                start = b_start if random else b_end
            while first < last and sentences[first + 1] <= start:
                first += 1
            ordinal += 1
    return rows[:num].copy()


@kernel
def _find_document(sentences: Int64s, partners: PartnerIndex, token: int) -> int:
    """The document of a token."""
    return np.int64(  # type: ignore[return-value]  # compiled code knows int as int64
        partners.document_of[np.searchsorted(sentences, token, side="right") - 1]
    )


@kernel
def _find_chunk(
    word_starts: Bytes,
    sentences: Int64s,
    documents: Int64s,
    partners: PartnerIndex,
    anchor: int,
    start: int,
    first: int,
    limit: int,
    target: int,
    cut_key: np.uint64,
    partner_key: np.uint64,
) -> tuple[int, int, int, bool]:
    """Find the next chunk: where B begins and ends, where a partner of B begins, and whether a sentence is cut.

    Where there is no partner, the chunk's end and a reason below zero.
    """
    last = documents[anchor + 1]
    rest = sentences[first + 1]
    if len(documents) == 2:
        return start, sentences[last], _NO_PARTNER, False
    if rest - start > limit:
        stop = find_last_word(word_starts, start, start + limit)
        if stop < 0:
            return start, start + limit, _NO_WORD, False
        return _halve(word_starts, sentences, documents, partners, anchor, INSIDE, start, stop, cut_key, partner_key)
    end = find_chunk_end(sentences, start, first, last, limit, target)
    stop = sentences[end]
    if end - first > 1:
        middle, after = _split(sentences, documents, partners.runs, partners.run_offsets, anchor, first, end, cut_key)
        if after > 0:
            length, ends = sentences[after] - sentences[middle], int(after == last)
            run = draw_run(partners.runs, partners.run_offsets, documents, anchor, length, ends, partner_key)
            return sentences[middle], sentences[after], sentences[run], False
        b_start = sentences[middle]
        b_end, place = _cut_head(
            word_starts, sentences, documents, partners, anchor, b_start, sentences[middle + 1] - 1, partner_key
        )
        return (b_start, b_end, place, True) if place >= 0 else (start, stop, _NO_PARTNER, False)
    if end < last:
        b_end, place = _cut_head(word_starts, sentences, documents, partners, anchor, stop, start + limit, partner_key)
        if place >= 0:
            return stop, b_end, place, True
    kind = LAST_TAIL if end == last else TAIL
    return _halve(word_starts, sentences, documents, partners, anchor, kind, start, stop, cut_key, partner_key)


@kernel
def _split(
    sentences: Int64s,
    documents: Int64s,
    runs: Int32s,
    run_offsets: Int64s,
    anchor: int,
    first: int,
    end: int,
    key: np.uint64,
) -> tuple[int, int]:
    """The first sentence of B and the one after its last: B has a partner; (drawn, -1) where no B has.

    The drawn cut, then those after it and from the first on; all again with a sentence less.
    """
    drawn = draw_below_one(key, 0, end - first - 1)
    for stop in range(end, first + 1, -1):
        ends_document, cuts = int(stop == documents[anchor + 1]), stop - first - 1
        for step in range(cuts):
            middle = first + 1 + (drawn + step) % cuts
            if has_run(runs, run_offsets, documents, anchor, sentences[stop] - sentences[middle], ends_document):
                return middle, stop
    return first + 1 + drawn, -1


@kernel
def _cut_head(
    word_starts: Bytes,
    sentences: Int64s,
    documents: Int64s,
    partners: PartnerIndex,
    anchor: int,
    start: int,
    last_end: int,
    key: np.uint64,
) -> tuple[int, int]:
    """Return the end of a B that begins a sentence and ends inside it, at `most` or before, and its partner.

    The longest B, then half of it, and so on until it has a partner; -1 where none has.
    """
    stop = find_last_word(word_starts, start, last_end)
    while stop > 0:
        length = stop - start
        place = draw_piece(
            partners, word_starts, sentences, documents, anchor, HEAD, length, fold_one(key, np.uint64(length))
        )
        if place >= 0:
            return stop, place
        stop = find_last_word(word_starts, start, start + length // 2)
    return stop, _NO_PARTNER


@kernel
def _halve(
    word_starts: Bytes,
    sentences: Int64s,
    documents: Int64s,
    partners: PartnerIndex,
    anchor: int,
    kind: int,
    start: int,
    stop: int,
    cut_key: np.uint64,
    key: np.uint64,
) -> tuple[int, int, int, bool]:
    """Return what `_pair` gives of a single sentence, or a piece of one: B begins at a word inside it.

    At the word start nearest to a drawn place, then at later ones, which halve B, until it has a partner.
    """
    middle = draw_word_start(word_starts, start, stop, cut_key)
    if middle < 0:
        return start, stop, _NO_WORD, False
    while middle > 0:
        length = stop - middle
        place = draw_piece(
            partners, word_starts, sentences, documents, anchor, kind, length, fold_one(key, np.uint64(length))
        )
        if place >= 0:
            return middle, stop, place, True
        middle = find_next_word(word_starts, stop - length // 2, stop)
    return start, stop, _NO_PARTNER, False
