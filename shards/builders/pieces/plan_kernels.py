"""Examples made of pieces: the layout of a plan, and the kernels that cut text and write examples out.

A plan is a matrix of int64, one row for each piece: a run of one document's tokens in one example. Its columns are
named here. A separator follows each piece.

Cost: see `shards.builders.pieces.packing`.
"""

from corpora.kernels.arrays import Bytes, Ids, Int64s, UInt32s, copy_values
from corpora.kernels.compiling import kernel

START, END, DOCUMENT, EXAMPLE, PIECE_WIDTH = range(5)


@kernel
def set_piece(piece: Int64s, start: int, end: int, document: int, example: int) -> None:
    """Write one row of a plan."""
    piece[START], piece[END], piece[DOCUMENT], piece[EXAMPLE] = start, end, document, example


@kernel
def find_word_cut(word_starts: Bytes, start: int, room: int) -> int:
    """Return where to cut a text of more than `room` tokens: the last word start with at most `room` before it.

    If no word starts there, the cut is after `room` tokens.
    """
    for place in range(start + room, start, -1):
        if word_starts[place]:
            return place
    return start + room


@kernel
def fill_ordinals(pieces: Int64s, ordinals: UInt32s) -> None:
    """Number every example among those that begin in the same document, from 0. Such examples must follow one another.

    ordinals: uint32 [examples], the result
    """
    example, document, ordinal = -1, -1, 0
    for index in range(len(pieces)):
        if pieces[index, EXAMPLE] != example:
            example = pieces[index, EXAMPLE]
            ordinal = ordinal + 1 if pieces[index, DOCUMENT] == document else 0
            document = pieces[index, DOCUMENT]
            ordinals[example] = ordinal


@kernel
def write_pieces(
    ids: Ids,
    word_starts: Bytes,
    pieces: Int64s,
    cls_id: int,
    sep_id: int,
    out_ids: Ids,
    out_starts: Bytes,
) -> None:
    """Write `[CLS] piece [SEP] piece [SEP] ...` of every example, one after another, into `out_ids`.

    out_starts gets the word starts, 0 at special tokens.
    """
    place, example = 0, -1
    for index in range(len(pieces)):
        if pieces[index, EXAMPLE] != example:
            example = pieces[index, EXAMPLE]
            out_ids[place], out_starts[place] = cls_id, 0
            place += 1
        start, end = pieces[index, START], pieces[index, END]
        next_place = place + end - start
        copy_values(ids[start:end], out_ids[place:next_place])
        copy_values(word_starts[start:end], out_starts[place:next_place])
        place = next_place
        out_ids[place], out_starts[place] = sep_id, 0
        place += 1
