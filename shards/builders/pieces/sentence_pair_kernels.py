"""The kernels of sentence pairs: which sentences are pairs, and whose second sentences may be exchanged.

Promise: the examples of `shards.builders.pieces.sentence_pair.sentence_pairs_plain`. Pairs are a matrix of int64, one
row a pair, its columns named here.
"""

import numpy as np

from corpora.kernels.arrays import Bytes, Int64s, UInt64s
from corpora.kernels.compiling import kernel
from corpora.store.randomness import below_one, fold_one
from shards.builders.pieces.plan_kernels import cut_at_word

A_START, B_START, B_END, ANCHOR, ORDINAL, SURFACE, PAIR_WIDTH = range(7)
LEFT_OVER, ODD, CUTS, NUM_COUNTS = range(4)  # tokens in no pair; sentences in no pair; cuts


@kernel
def pair_sentences(
    word_starts: Bytes,
    sentences: Int64s,
    documents: Int64s,
    keys: UInt64s,
    first_link: np.uint64,
    odd: np.uint64,
    room: int,
    bounds: Int64s,
    pairs: Int64s,
    example_ids: UInt64s,
    counts: Int64s,
) -> int:
    """Fill `pairs` and `example_ids` with the neighbours of all documents, add to `counts`; return their number.

    room: most tokens of a sentence; odd: address of the one that is left over. bounds: room for the sentences of the
    longest document, cut
    """
    num = 0
    for document in range(len(documents) - 1):
        link, ordinal, place = fold_one(first_link, keys[document]), 0, 0
        size = _cut_sentences(word_starts, sentences, documents[document], documents[document + 1], room, bounds)
        counts[CUTS] += size - (documents[document + 1] - documents[document])
        skipped = 2 * below_one(fold_one(odd, keys[document]), 0, size // 2 + 1) if size % 2 else size
        while place < size:
            if place == skipped:
                counts[LEFT_OVER] += bounds[place + 1, 0] - bounds[place, 0]
                counts[ODD] += 1
                place += 1
            else:
                pair = pairs[num]
                pair[A_START], pair[B_START], pair[B_END] = bounds[place, 0], bounds[place + 1, 0], bounds[place + 2, 0]
                pair[ANCHOR], pair[ORDINAL] = document, ordinal
                pair[SURFACE] = 2 * bounds[place + 1, 1] + bounds[place + 2, 1]
                example_ids[num] = fold_one(link, np.uint64(ordinal))
                num, place, ordinal = num + 1, place + 2, ordinal + 1
    return num


@kernel
def _cut_sentences(word_starts: Bytes, sentences: Int64s, first: int, last: int, room: int, bounds: Int64s) -> int:
    """Fill `bounds` with where each sentence of a document begins, those that are too long cut; return the number.

    The second column is 1 where a sentence begins, 0 at a cut. The end of the document is the last bound.
    """
    size = 0
    for sentence in range(first, last):
        start, end, is_cut = sentences[sentence], sentences[sentence + 1], 0
        while start < end:
            bounds[size, 0], bounds[size, 1] = start, 1 - is_cut
            start = cut_at_word(word_starts, start, room) if end - start > room else end
            size, is_cut = size + 1, 1
    bounds[size, 0], bounds[size, 1] = sentences[last], 1
    return size


@kernel
def couple_pairs(order: Int64s, pairs: Int64s, couples: Int64s) -> int:
    """Fill `couples` with pairs of two documents and one surface, near each other in the order; return their number.

    A pair waits for the next one of another document. Those that wait are of one document, so the newest goes first.
    """
    num, waiting = 0, np.empty(len(order), np.int64)
    depth = 0
    for pair in order:
        if depth and pairs[waiting[depth - 1], SURFACE] != pairs[pair, SURFACE]:
            depth = 0
        if depth and pairs[waiting[depth - 1], ANCHOR] != pairs[pair, ANCHOR]:
            depth -= 1
            couples[num, 0], couples[num, 1] = waiting[depth], pair
            num += 1
        else:
            waiting[depth] = pair
            depth += 1
    return num
