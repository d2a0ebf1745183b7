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
    """Fill one row of a plan: the tokens [start, end) of a document belong to an example.

    Args:
        piece: int64 [PIECE_WIDTH], filled with the row (start, end, document, example).
        start, end: Positions in the tokens of the shard, counted through all its documents.
        document: Zero-based index of the document in the shard.
        example: Zero-based index of the example in the plan.
    """
    piece[START], piece[END], piece[DOCUMENT], piece[EXAMPLE] = start, end, document, example


@kernel
def find_word_cut(word_starts: Bytes, start: int, room: int) -> int:
    """Find the position at which to cut a text that begins at token `start` and has more than `room` tokens.

    This is the last word start that leaves at most `room` tokens before the cut. If there is none after `start`, the
    cut is after exactly `room` tokens.

    Args:
        word_starts: uint8 [tokens], 1 if the token begins a word.
        start: Position of the text in the tokens of the shard, like the result.
        room: Maximum number of tokens before the cut.
    """
    for place in range(start + room, start, -1):
        if word_starts[place]:
            return place
    return start + room


@kernel
def fill_ordinals(pieces: Int64s, ordinals: UInt32s) -> None:
    """Write the ordinal of each example to `ordinals`: its index, from 0, among those that begin in the same document.

    Args:
        pieces: int64 [pieces, PIECE_WIDTH], the plan: a row (start, end, document, example) per piece. Examples that
            begin in the same document must be consecutive.
        ordinals: uint32 [examples], the output array.
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
    """Write each example as `[CLS] piece [SEP] piece [SEP] ...` to `out_ids`, one after another.

    Args:
        ids: [tokens], the ids of the documents.
        word_starts: uint8 [tokens], 1 if the token begins a word.
        pieces: int64 [pieces, PIECE_WIDTH], the plan, ordered by example: a row (start, end, document, example) per
            piece.
        cls_id: Id of the [CLS] token.
        sep_id: Id of the [SEP] token.
        out_ids: Filled with the ids of all examples.
        out_starts: uint8, filled with 1 if the token begins a word and 0 for special tokens. It must be as long as
            `out_ids`.
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
