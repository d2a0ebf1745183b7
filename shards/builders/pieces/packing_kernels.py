"""The kernel of the packer: which tokens are in each example.

Promise: the examples of `shards.builders.pieces.packing.packs_plain`, which is their definition. The plan is one of
`shards.builders.pieces.plan_kernels`. Cost: see `shards.builders.pieces.packing`.
"""

from corpora.kernels.arrays import Bytes, Int64s
from corpora.kernels.compiling import kernel
from shards.builders.pieces.plan_kernels import DOCUMENT, END, cut_at_word, put_piece


@kernel
def plan_packs(
    word_starts: Bytes,
    sentences: Int64s,
    documents: Int64s,
    order: Int64s,
    room: int,
    crosses: bool,
    pieces: Int64s,
) -> int:
    """Fill `pieces` with those of all examples in order; return their number.

    room: tokens of an example without its first and last special one. order: of the documents.
    """
    num, example, used, is_open = 0, -1, 0, False
    for document in order:
        for sentence in range(documents[document], documents[document + 1]):
            start, end = sentences[sentence], sentences[sentence + 1]
            goes_on = is_open and pieces[num - 1, DOCUMENT] == document
            if is_open and used + (not goes_on) + end - start > room:
                is_open, goes_on = False, False
            while end - start > room:
                cut, example = cut_at_word(word_starts, start, room), example + 1
                put_piece(pieces[num], start, cut, document, example)
                num, start = num + 1, cut
            if goes_on:
                pieces[num - 1, END] = end
                used += end - start
            else:
                used = used + 1 + end - start if is_open else end - start
                example += not is_open
                put_piece(pieces[num], start, end, document, example)
                num, is_open = num + 1, True
        is_open = is_open and crosses
    return num
