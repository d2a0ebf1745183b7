"""The kernels of every builder of two segments: they find the end of a chunk, cut sentences, and write examples.

A chunk is a run of one document's text that becomes one example. A plan is a matrix of int64, one row for each example,
its columns named here. The plain twins over Python numbers are in `shards.builders.segments.pairs_plain`.
"""

import numpy as np

from corpora.kernels.arrays import Bytes, Ids, Int64s, copy_values
from corpora.kernels.compiling import kernel
from corpora.store.randomness import draw_below_one, draw_uniform_one

A_START, A_LENGTH, B_START, B_LENGTH, ANCHOR, OTHER, ORDINAL, LABEL, EXAMPLE_ID, PLAN_WIDTH = range(10)


@kernel
def draw_target(key: np.uint64, limit: int, short: float) -> int:
    """Draw the target length of a chunk (the text of one example) in tokens.

    It is `limit`, or with probability `short` a random number in [2, limit]. The result is a function of the random key
    `key`.
    """
    return 2 + draw_below_one(key, 1, limit - 1) if draw_uniform_one(key, 0) < short else limit


@kernel
def find_chunk_end(sentences: Int64s, start: int, first: int, last: int, limit: int, target: int) -> int:
    """Find the end of a chunk, which is the part of a document that becomes one example.

    The result is the index of the first sentence after the chunk.

    The chunk contains at least the rest of sentence `first`. A second sentence is added if both fit into `limit`
    tokens, and more as long as the total fits into `target` tokens. If this would leave a single sentence for the
    following chunk, a chunk of three or more sentences takes one less.

    Args:
        sentences: int64, the start of each sentence, followed by the end of the last one.
        start: Token at which the chunk begins. It lies in sentence `first`.
        first: Index of the first sentence. What is left of it must have at most `limit` tokens.
        last: Index after the last sentence of the document.
        limit: Maximum number of tokens in a chunk.
        target: Target length of the chunk in tokens.
    """
    end = first + 1
    while end < last and sentences[end + 1] - start <= (limit if end == first + 1 else target):
        end += 1
    if end - first > 2 and end < last and sentences[end + 1] - sentences[end - 1] <= limit:
        if end + 1 == last or sentences[end + 2] - sentences[end] > limit:
            end -= 1
    return end


@kernel
def find_last_word(word_starts: Bytes, start: int, place: int) -> int:
    """Return the last word start in (start, place], or -1 if there is none.

    Args:
        word_starts: uint8 [tokens], 1 if the token begins a word.
        start, place: Token positions in the shard, like the result.
    """
    while place > start:
        if word_starts[place]:
            return place
        place -= 1
    return -1


@kernel
def find_next_word(word_starts: Bytes, place: int, stop: int) -> int:
    """Return the first word start in [place, stop), or -1 if there is none.

    Args:
        word_starts: uint8 [tokens], 1 if the token begins a word.
        place, stop: Token positions in the shard, like the result.
    """
    while place < stop:
        if word_starts[place]:
            return place
        place += 1
    return -1


@kernel
def draw_word_start(word_starts: Bytes, start: int, stop: int, key: np.uint64) -> int:
    """Return the word start in (start, stop) that is nearest to a random position, or -1 if there is none.

    If two word starts are equally near, the earlier one is returned.

    Args:
        word_starts: uint8, 1 if the token begins a word.
        start: Token position. A word start at this position is not returned.
        stop: Token position after the last one considered.
        key: Random key of the position.
    """
    if stop - start > 1:
        drawn = start + 1 + draw_below_one(key, 0, stop - start - 1)
        for distance in range(stop - start):
            if drawn - distance > start and word_starts[drawn - distance]:
                return drawn - distance
            if drawn + distance < stop and word_starts[drawn + distance]:
                return drawn + distance
    return -1


@kernel
def grow_if_full(rows: Int64s, num: int) -> Int64s:
    """Return `rows`, or a copy with twice as many rows if all `num` of them are in use.

    The copy begins with the first `num` rows of `rows`. Its other rows are not initialized.
    """
    if num < len(rows):
        return rows
    more = np.empty((2 * num, rows.shape[1]), np.int64)
    for row in range(len(rows)):
        for column in range(rows.shape[1]):
            more[row, column] = rows[row, column]
    return more


@kernel
def write_examples(
    ids: Ids,
    word_starts: Bytes,
    plan: Int64s,
    offsets: Int64s,
    cls_id: int,
    sep_id: int,
    out_ids: Ids,
    out_starts: Bytes,
) -> None:
    """Write `[CLS] A [SEP] B [SEP]` for each row of a plan to `out_ids`.

    Args:
        ids: [tokens], the ids of the documents.
        word_starts: uint8 [tokens], 1 if the token begins a word.
        plan: int64 [examples, PLAN_WIDTH], the plan: start and length of A, start and length of B, and other columns.
        offsets: int64 [examples + 1], the start of each example in `out_ids`.
        cls_id: Id of the [CLS] token.
        sep_id: Id of the [SEP] token.
        out_ids: Filled with the ids of all examples.
        out_starts: uint8, filled with 1 if the token begins a word and 0 for special tokens. It must be as long as
            `out_ids`.
    """
    for index in range(len(plan)):
        place = offsets[index]
        out_ids[place], out_starts[place] = cls_id, 0
        place += 1
        for segment in (A_START, B_START):
            start, length = plan[index, segment], plan[index, segment + 1]
            copy_values(ids[start : start + length], out_ids[place : place + length])
            copy_values(word_starts[start : start + length], out_starts[place : place + length])
            place += length
            out_ids[place], out_starts[place] = sep_id, 0
            place += 1
