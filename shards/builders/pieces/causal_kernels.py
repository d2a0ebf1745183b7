"""The kernel of the causal stream: where it is cut.

Promise: the examples of `shards.builders.pieces.causal.causal_plain`. The plan is one of
`shards.builders.pieces.plan_kernels`.
"""

from corpora.kernels.arrays import Int64s
from corpora.kernels.compiling import kernel
from shards.builders.pieces.plan_kernels import put_piece


@kernel
def plan_stream(sentences: Int64s, documents: Int64s, order: Int64s, room: int, pieces: Int64s) -> int:
    """Fill `pieces` with those of all examples in order; return their number.

    room: tokens of an example after its first special one. order: of the documents. The piece that ends its document is
    closed; where only the separator is left for the next example, it has no token in it.
    """
    num, example, used = 0, -1, room
    for document in order:
        start, stop, is_open = sentences[documents[document]], sentences[documents[document + 1]], True
        while is_open:
            if used == room:
                example, used = example + 1, 0
            end = min(stop, start + room - used)
            used += end - start
            is_open = end < stop or used == room
            used += not is_open
            put_piece(pieces[num], start, end, document, example, not is_open)
            num, start = num + 1, end
    return num
