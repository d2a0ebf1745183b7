"""The kernel of ELECTRA's segments: which sentences an example takes, where its segments end.

Promise: the examples of `shards.builders.pieces.electra.electra_plain`. The plan is one of
`shards.builders.pieces.plan_kernels`.
"""

import numpy as np

from corpora.kernels.arrays import Bytes, Int64s, UInt64s
from corpora.kernels.compiling import kernel
from corpora.store.randomness import below_one, fold_one, uniform_one
from shards.builders.pieces.plan_kernels import cut_at_word, put_piece

PURPOSES = ("electra target", "electra segments")
_TARGET, _SEGMENTS = range(2)
SHORTEST = 5  # target, in tokens with specials


@kernel
def plan_electra(
    word_starts: Bytes,
    sentences: Int64s,
    documents: Int64s,
    keys: UInt64s,
    first_link: np.uint64,
    addresses: UInt64s,
    length: int,
    short: float,
    one: float,
    pieces: Int64s,
) -> int:
    """Fill `pieces` with those of all examples in order; return their number.

    short: probability of a drawn target; one: of one segment
    """
    num, example = 0, 0
    for document in range(len(documents) - 1):
        link = fold_one(first_link, keys[document])
        first, last, ordinal = documents[document], documents[document + 1], 0
        place = sentences[first]
        while first < last:
            example_id = fold_one(link, np.uint64(ordinal))
            target = _target(fold_one(addresses[_TARGET], example_id), length, short)
            end = first + 1
            while end < last and sentences[end] - place < target:
                end += 1
            middle = _middle(sentences, place, first, end, target, one, fold_one(addresses[_SEGMENTS], example_id))
            a_end, b_end = _trimmed(word_starts, place, sentences[middle], sentences[end], length)
            put_piece(pieces[num], place, a_end, document, example)
            num += 1
            if b_end > a_end:
                put_piece(pieces[num], a_end, b_end, document, example)
                num += 1
            place, example, ordinal = b_end, example + 1, ordinal + 1
            while first < last and sentences[first + 1] <= place:
                first += 1
    return num


@kernel
def _target(key: np.uint64, length: int, short: float) -> int:
    """The tokens that an example should have: the length, or rarely a number in [SHORTEST, length]."""
    return SHORTEST + below_one(key, 1, length - SHORTEST + 1) if uniform_one(key, 0) < short else length


@kernel
def _middle(sentences: Int64s, place: int, first: int, end: int, target: int, one: float, key: np.uint64) -> int:
    """The end of the first segment: the sentence after its last."""
    if uniform_one(key, 0) < one:
        return end
    wanted, middle = (target - 3) // 2, first + 1
    while middle < end and sentences[middle + 1] - place < wanted:
        middle += 1
    if middle < end and sentences[middle] - place < wanted and below_one(key, 1, 2):
        middle += 1
    return middle


@kernel
def _trimmed(word_starts: Bytes, place: int, middle: int, end: int, length: int) -> tuple[int, int]:
    """Return where the first segment ends, and where the second; both are at a word start, and fit.

    The same place twice where there is no second segment: none was wanted, or none of its words fits.
    """
    if middle - place > length - 2:
        a_end = cut_at_word(word_starts, place, length - 2)
        return a_end, a_end
    room = length - 3 - (middle - place)
    if end - middle <= room:
        return middle, end
    for cut in range(middle + room, middle, -1):
        if word_starts[cut]:
            return middle, cut
    return middle, middle
