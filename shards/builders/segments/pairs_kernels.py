"""The kernels of the pair builder: they plan what is in each example; those of `plan_kernels` write it.

Promise: the examples of `shards.builders.segments.pairs_plain`, which is their definition. Counts are a vector with one
place for each name in OUTCOMES and FIGURES. Cost: see `shards.builders.segments.pairs`.
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
    """Plan the segment pairs of one pass over the documents: int64 [examples, PLAN_WIDTH], one row per example.

    The columns are start and length of A, start and length of B, document of A, document of B, number of the example in
    A's document, label and example id.

    Args:
        word_starts: uint8 [tokens], 1 if the token begins a word.
        sentences: int64 [sentences + 1], the start of each sentence in the tokens.
        documents: int64 [documents + 1], the index of the first sentence of each document.
        keys: uint64 [documents], the hash of each document.
        partners: Index of the texts that can serve as a randomly drawn second segment (B).
        copy_key: Random key of the copy.
        addresses: uint64 [4], the random keys of the choices in `PURPOSES`.
        limit: Maximum number of tokens in both segments together.
        short: Probability that an example is shorter, with a random target length.
        counts: int64 [outcomes + figures], incremented in place, in the order of OUTCOMES + FIGURES.
    """
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
    """Return the index of the document that contains a token of the shard.

    Args:
        sentences: int64 [sentences + 1], the start of each sentence in the tokens.
        partners: The index of the shard.
        token: Position in the tokens of the shard.
    """
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
    """Find the text of the next example, and a text of another document that can replace its second segment B.

    The first segment A begins at `start` and ends where B begins. The text of the other document is as long as B. All
    positions are positions in the tokens of the shard.

    Args:
        word_starts: uint8 [tokens], 1 if the token begins a word.
        sentences: int64 [sentences + 1], the start of each sentence in the tokens.
        documents: int64 [documents + 1], the index of the first sentence of each document.
        partners: Index of the texts that can serve as a randomly drawn second segment (B).
        anchor: Index of the document that is divided into examples.
        start: Position at which the example begins.
        first: Index of the sentence that contains `start`, counted through all documents.
        limit: Maximum number of tokens in both segments together.
        target: Wanted number of tokens in both segments together.
        cut_key: Random key of the position at which B begins.
        partner_key: Random key of the choice of the other text.

    Returns:
        The start and end of B, the start of the other text, and whether a sentence is cut. If no example can be made,
        the second number is the end of the text to skip and the third is _NO_WORD or _NO_PARTNER.
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
    """Divide several sentences into A and B, such that another document has whole sentences with as many tokens as B.

    A random cut is tried first, then the other cuts in cyclic order, then all of them again without the last sentence,
    and so on. Sentences are numbered through all documents.

    Args:
        sentences: int64 [sentences + 1], the start of each sentence in the tokens.
        documents: int64 [documents + 1], the index of the first sentence of each document.
        runs: `PartnerIndex.runs`.
        run_offsets: `PartnerIndex.run_offsets`.
        anchor: Index of the document that contains the sentences.
        first: Index of the first sentence, which is always in A.
        end: Index after the last sentence. There must be at least two sentences.
        key: Random key of the cut that is tried first.

    Returns:
        The index of the first sentence of B, and the index after its last. If no cut works, the index after the first
        cut that was tried, and -1.
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
    """Find a segment B that ends inside its only sentence, and a text of the same length in another document.

    The longest B that ends at `last_end` or before is tried first, then half of it, and so on. A itself is not needed.
    The other text is the beginning of a sentence too. All positions are positions in the tokens of the shard.

    Args:
        word_starts: uint8 [tokens], 1 if the token begins a word.
        sentences: int64 [sentences + 1], the start of each sentence in the tokens.
        documents: int64 [documents + 1], the index of the first sentence of each document.
        partners: Index of the texts that can serve as a randomly drawn second segment (B).
        anchor: Index of the document that contains B.
        start: Position at which B begins. It must be the start of a sentence.
        last_end: Highest position at which B may end.
        key: Random key from which the key of each draw of another text is derived.

    Returns:
        The end of B, and the start of the other text. The latter is -1 if none is found.
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
    """Divide text inside a single sentence into A and B at a word start, and find a text of another document for B.

    The word start nearest to a random position is tried first. While no other document has a text like B, the length of
    B is halved. A then ends before B.

    Args:
        word_starts: uint8 [tokens], 1 if the token begins a word.
        sentences: int64 [sentences + 1], the start of each sentence in the tokens.
        documents: int64 [documents + 1], the index of the first sentence of each document.
        partners: Index of the texts that can serve as a randomly drawn second segment (B).
        anchor: Index of the document that contains the text.
        kind: Which part of a sentence B is: TAIL, LAST_TAIL (of a document's last sentence) or INSIDE. The other text
            is the same part of a sentence.
        start: Position at which the text begins, in the tokens of the shard.
        stop: Position at which the text ends.
        cut_key: Random key of the position at which B begins.
        key: Random key from which the key of each draw of another text is derived.

    Returns:
        The start and end of B, the start of the other text, and whether a sentence is cut, as in `_find_chunk`.
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
