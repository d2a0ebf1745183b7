"""The kernels of the packer: which tokens are in each example is planned first, then written in one go.

Promise: the examples of `shards.builders.packing.packs_plain`, which is their definition. A plan is a matrix of int64,
one row a piece: a run of one document's tokens in one example, its columns named here. Cost: see
`shards.builders.packing`.
"""

from corpora.kernels.arrays import Bytes, Ids, Int64s, UInt32s
from corpora.kernels.compiling import kernel

START, END, DOCUMENT, EXAMPLE, PIECE_WIDTH = range(5)


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
    """Fill `pieces` with those of all examples in order; their number.

    room: tokens of an example besides its first and last special one. order: of the documents.
    """
    num, example, used, is_open = 0, -1, 0, False
    for document in order:
        for sentence in range(documents[document], documents[document + 1]):
            start, end = sentences[sentence], sentences[sentence + 1]
            goes_on = is_open and pieces[num - 1, DOCUMENT] == document
            if is_open and used + (not goes_on) + end - start > room:
                is_open, goes_on = False, False
            while end - start > room:
                cut, example = _cut(word_starts, start, room), example + 1
                _put(pieces[num], start, cut, document, example)
                num, start = num + 1, cut
            if goes_on:
                pieces[num - 1, END] = end
                used += end - start
            else:
                used = used + 1 + end - start if is_open else end - start
                example += not is_open
                _put(pieces[num], start, end, document, example)
                num, is_open = num + 1, True
        is_open = is_open and crosses
    return num


@kernel
def _cut(word_starts: Bytes, start: int, room: int) -> int:
    """Where a sentence that is too long is cut: at the last word start that leaves at most `room` tokens."""
    for place in range(start + room, start, -1):
        if word_starts[place]:
            return place
    return start + room


@kernel
def _put(piece: Int64s, start: int, end: int, document: int, example: int) -> None:
    piece[START], piece[END], piece[DOCUMENT], piece[EXAMPLE] = start, end, document, example


@kernel
def number_packs(pieces: Int64s, ordinals: UInt32s) -> None:
    """For every example its number among those whose first token is of the same document; they follow each other."""
    example, document, ordinal = -1, -1, 0
    for index in range(len(pieces)):
        if pieces[index, EXAMPLE] != example:
            example = pieces[index, EXAMPLE]
            ordinal = ordinal + 1 if pieces[index, DOCUMENT] == document else 0
            document = pieces[index, DOCUMENT]
            ordinals[example] = ordinal


@kernel
def write_packs(
    ids: Ids,
    word_starts: Bytes,
    pieces: Int64s,
    cls_id: int,
    sep_id: int,
    out_ids: Ids,
    out_starts: Bytes,
) -> None:
    """Write [CLS] piece [SEP] piece [SEP] ... of every example, end to end."""
    place, example = 0, -1
    for index in range(len(pieces)):
        if pieces[index, EXAMPLE] != example:
            example = pieces[index, EXAMPLE]
            out_ids[place], out_starts[place] = cls_id, 0
            place += 1
        for token in range(pieces[index, START], pieces[index, END]):
            out_ids[place], out_starts[place] = ids[token], word_starts[token]
            place += 1
        out_ids[place], out_starts[place] = sep_id, 0
        place += 1
