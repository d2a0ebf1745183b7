"""The kernel of single sequences: where each document is cut.

Promise: the examples of `shards.builders.pieces.single.single_plain`. The plan is one of
`shards.builders.pieces.plan_kernels`.
"""

from corpora.kernels.arrays import Bytes, Int64s
from corpora.kernels.compiling import kernel
from shards.builders.pieces.plan_kernels import cut_at_word, put_piece

LEFT_OVER, TOO_SHORT, CUTS, NUM_COUNTS = range(4)  # tokens in no example; sequences that make none; cuts


@kernel
def plan_single(
    word_starts: Bytes, sentences: Int64s, documents: Int64s, room: int, least: int, pieces: Int64s, counts: Int64s
) -> int:
    """Fill `pieces` with the sequences of all documents in order, add to `counts`; return their number.

    room: most tokens of a sequence; least: fewest
    """
    num = 0
    for document in range(len(documents) - 1):
        start, stop = sentences[documents[document]], sentences[documents[document + 1]]
        while start < stop:
            end = cut_at_word(word_starts, start, room) if stop - start > room else stop
            counts[CUTS] += end < stop
            if end - start < least:
                counts[LEFT_OVER] += end - start
                counts[TOO_SHORT] += 1
            else:
                put_piece(pieces[num], start, end, document, num)
                num += 1
            start = end
    return num
