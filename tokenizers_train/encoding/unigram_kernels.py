"""The kernels of `tokenizers_train.encoding.unigram`: the best pieces of words, and the ids of ranges of text.

Promise: `best_pieces` gives the pieces with the highest sum of scores (Viterbi 1967, as Kudo 2018 section 3.2 uses
it), added up from the left in 64 bits, as the reference adds them; of sums that are equal the one is kept that was
met first, whose last piece is the longest. Characters that no piece covers follow each other as one unknown token.

Cost: see `tokenizers_train.encoding.unigram`; a word is looked through once from each of its characters, no further
than a piece is long.
"""

from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Bytes, Float64s, Ids, Int32s, Int64s
from corpora.kernels.compiling import kernel
from corpora.kernels.packed import lowered, store8
from tokenizers_train.encoding.piece_cache import PieceCache, find, num_ids, packed_ids, remember
from tokenizers_train.encoding.trie import Trie, step, value
from tokenizers_train.words.sentencepiece_kernels import (
    MARK_BYTES,
    MOST_BYTES,
    CharacterRules,
    chunk_end,
    is_ascii_space,
    is_chunk_end,
    next_word,
    short_chunk,
)

_MOST_KEPT = 4  # ids that one store writes, of two bytes each
_STORE_BYTES = 8
_NOT_REACHED = -np.inf  # less than any sum
_USUAL_BYTES = 64  # a chunk with more is given room of its own


class UnigramModel(NamedTuple):
    """The pieces of a vocabulary.

    trie:          pieces -> ids, without those that no text is to have
    scores:        float64, by id
    unknown_id:    the id of characters that no piece covers
    unknown_score: the score of each of them
    """

    trie: Trie
    scores: Float64s
    unknown_id: int
    unknown_score: float


class BestPaths(NamedTuple):
    """Room for a word, and for each place in it the best pieces up to there.

    word:   uint8, its bytes
    scores: float64, their sum; minus infinity where no pieces end
    starts: int32, where the last of them begins
    ids:    int32, the id of the last of them
    """

    word: Bytes
    scores: Float64s
    starts: Int32s
    ids: Int32s


@kernel
def new_paths(num_bytes: int) -> BestPaths:
    """Room for the words of a chunk of a number of bytes."""
    most = MARK_BYTES + MOST_BYTES * num_bytes
    return BestPaths(
        np.empty(most, np.uint8),
        np.empty(most + 1, np.float64),
        np.empty(most + 1, np.int32),
        np.empty(most + 1, np.int32),
    )


@kernel
def best_pieces(model: UnigramModel, length: int, paths: BestPaths, ids: Ids, to: int) -> int:
    """Write the ids of the best pieces of paths.word[:length] from ids[to] on: at most one for each byte.

    Returns their number.
    """
    word, scores, starts, last_ids = paths
    for place in range(1, length + 1):
        scores[place] = _NOT_REACHED
    scores[0] = 0.0
    at = 0
    while at < length:
        so_far, covered = scores[at], False
        after = _next_character(word, at)
        node, place = model.trie.roots[0], at
        while place < length:
            node = step(model.trie, node, word[place])
            if node < 0:
                break
            place += 1
            number = value(node)
            if number >= 0:
                score = model.scores[number] + so_far
                if score > scores[place]:
                    scores[place], starts[place], last_ids[place] = score, at, number
                covered = covered or place == after
        if not covered:
            score = model.unknown_score + so_far
            if score > scores[after]:
                scores[after], starts[after], last_ids[after] = score, at, model.unknown_id
        at = after
    return _write_path(model.unknown_id, paths, length, ids, to)


@kernel
def _next_character(word: Bytes, at: int) -> int:
    """Return where the character after that at `at` begins."""
    first = word[at]
    return at + (1 if first < 0x80 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4)


@kernel
def _write_path(unknown_id: int, paths: BestPaths, length: int, ids: Ids, to: int) -> int:
    """Write the ids of the best pieces, those unknown that follow each other once; returns their number."""
    number, place, before = 0, length, -1
    while place > 0:
        last = paths.ids[place]
        if last != unknown_id or before != unknown_id:
            ids[to + number] = last
            number += 1
        before, place = last, paths.starts[place]
    for i in range(number // 2):
        ids[to + i], ids[to + number - 1 - i] = ids[to + number - 1 - i], ids[to + i]
    return number


@kernel
def encode_ranges(
    data: Bytes,
    starts: Int64s,
    ends: Int64s,
    rules: CharacterRules,
    lowercase: bool,
    model: UnigramModel,
    cache: PieceCache,
    ids: Ids,
    begins: Bytes,
    offsets: Int64s,
    state: Int64s,
) -> bool:
    """Write the ids of the ranges, where each range's end, and which begin a word (`begins` is zero after them).

    state: range, place in it (-1 for its beginning) and ids written; (0, -1, 0) at first
    Returns False where there is no room for more: bring longer arrays and continue.
    """
    paths = new_paths(_USUAL_BYTES)
    to = state[2]
    for r in range(state[0], len(starts)):
        at, end = starts[r], ends[r]
        if r == state[0] and state[1] >= 0:
            at = state[1]
        at, to = encode_range(data, at, end, rules, lowercase, model, cache, paths, ids, begins, to)
        if at < end:
            state[0], state[1], state[2] = r, at, to
            return False
        offsets[r + 1] = to
    state[2] = to
    return True


@kernel
def encode_range(
    data: Bytes,
    at: int,
    end: int,
    rules: CharacterRules,
    lowercase: bool,
    model: UnigramModel,
    cache: PieceCache,
    paths: BestPaths,
    ids: Ids,
    begins: Bytes,
    to: int,
) -> tuple[int, int]:
    """Write the ids of data[at:end] from ids[to] on; returns the ends of what was read, and of what was written."""
    while at < end:
        if is_ascii_space(data[at]):
            at += 1
            continue
        low, high, length = short_chunk(data, at, end)
        short = length > 0 and is_chunk_end(data, at + length, end)
        if lowercase:
            low, high = lowered(low), lowered(high)
        if short and to + _MOST_KEPT <= len(ids):
            entry = find(cache, low, high, length)
            if entry >= 0:
                store8(ids, to, packed_ids(cache, entry))
                begins[to] = 1
                to += num_ids(cache, entry)
                at += length
                continue
        last = at + length if short else chunk_end(data, at, end)
        if last - at <= _USUAL_BYTES:
            after, num_words = encode_chunk(data, at, last, rules, model, paths, ids, begins, to)
        else:
            after, num_words = encode_long_chunk(data, at, last, rules, model, ids, begins, to)
        if after < 0:
            return at, to
        if short and num_words == 1 and after - to <= _STORE_BYTES // ids.itemsize:
            remember(cache, low, high, length, _packed(ids, to, after), after - to)
        at, to = last, after
    return at, to


@kernel
def encode_chunk(
    data: Bytes,
    at: int,
    end: int,
    rules: CharacterRules,
    model: UnigramModel,
    paths: BestPaths,
    ids: Ids,
    begins: Bytes,
    to: int,
) -> tuple[int, int]:
    """Write the ids of the words of the chunk data[at:end] from ids[to] on, in which `begins` is zero.

    Returns the place after the last, or -1 where there is no room for all, with `begins` as it was; and how many
    words the chunk has.
    """
    first, num_words, within = to, 0, 0
    while at < end:
        at, within, length = next_word(data, at, end, within, rules, paths.word)
        if length == 0:
            break
        if to + length > len(ids):
            begins[first:to] = 0
            return -1, 0
        begins[to] = 1
        to += best_pieces(model, length, paths, ids, to)
        num_words += 1
    return to, num_words


@kernel
def encode_long_chunk(
    data: Bytes,
    at: int,
    end: int,
    rules: CharacterRules,
    model: UnigramModel,
    ids: Ids,
    begins: Bytes,
    to: int,
) -> tuple[int, int]:
    """The same for a chunk of any length."""
    return encode_chunk(data, at, end, rules, model, new_paths(end - at), ids, begins, to)


@kernel
def _packed(ids: Ids, first: int, last: int) -> np.uint64:
    """The ids from first to last as one word, the first lowest."""
    packed = np.uint64(0)
    for i in range(last - 1, first - 1, -1):
        packed = packed << np.uint64(8 * ids.itemsize) | np.uint64(ids[i])
    return packed
