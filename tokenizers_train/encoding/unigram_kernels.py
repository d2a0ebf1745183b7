"""The kernels of `tokenizers_train.encoding.unigram`: the best pieces of words, and the ids of ranges of text.

Promise: `write_best_pieces` writes the pieces with the highest sum of scores (Viterbi 1967, as Kudo 2018 section 3.2
uses it), added up from the left in 64 bits, as the reference adds them; of equal sums the one is kept that was met
first, which ends with the longest piece. Characters that no piece covers follow each other as one unknown token.

Cost: see `tokenizers_train.encoding.unigram`; a word is looked through once from each of its characters, no further
than a piece is long.
"""

from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Bytes, Float64s, Ids, Int32s, Int64s
from corpora.kernels.compiling import kernel
from corpora.kernels.packed import lower_word, store8
from tokenizers_train.encoding.piece_cache import PieceCache, count_ids, find_entry, get_packed_ids, remember
from tokenizers_train.encoding.trie import Trie, find_child, get_value
from tokenizers_train.words.sentencepiece_kernels import (
    MARK_BYTES,
    MAX_EXPANSION,
    CharacterRules,
    is_ascii_space,
    is_chunk_end,
    load_short_chunk,
    locate_chunk_end,
    write_next_word,
)

_MAX_CACHED_IDS = 4  # ids that one store writes, of two bytes each
_STORE_BYTES = 8
_NOT_REACHED = -np.inf  # less than any sum
_MAX_SHARED_BYTES = 64  # a chunk with more is given room of its own


class UnigramModel(NamedTuple):
    """A Unigram vocabulary in arrays.

    Attributes:
        trie: Maps the bytes of each piece to its id.
        scores: float64, the score of each id.
        unknown_id: The id for characters that no piece covers.
        unknown_score: The score of each such character.
    """

    trie: Trie
    scores: Float64s
    unknown_id: int
    unknown_score: float


class BestPaths(NamedTuple):
    """Scratch space for one word. Each position in the word has an entry for the best segmentation that ends there.

    Attributes:
        word: uint8, the bytes of the word.
        scores: float64, the sum of the pieces' scores, or minus infinity if no segmentation ends there.
        starts: int32, the start of the last piece.
        ids: int32, the id of the last piece.
    """

    word: Bytes
    scores: Float64s
    starts: Int32s
    ids: Int32s


@kernel
def build_paths(num_bytes: int) -> BestPaths:
    """Allocate scratch space for the words in `num_bytes` bytes of text."""
    num_places = MARK_BYTES + MAX_EXPANSION * num_bytes
    return BestPaths(
        np.empty(num_places, np.uint8),
        np.empty(num_places + 1, np.float64),
        np.empty(num_places + 1, np.int32),
        np.empty(num_places + 1, np.int32),
    )


@kernel
def write_best_pieces(model: UnigramModel, length: int, paths: BestPaths, ids: Ids, used: int) -> int:
    """Write the ids of the best segmentation of paths.word[:length] to ids[used:], and return how many were written.

    Args:
        model: The vocabulary.
        length: Length of the word in bytes.
        paths: Holds the word in `paths.word`. Its other arrays are scratch space.
        ids: Output array, written from index `used` on. At most one id is written per byte.
        used: Number of ids that are already in `ids`.
    """
    word, scores, starts, last_ids = paths
    for place in range(1, length + 1):
        scores[place] = _NOT_REACHED
    scores[0] = 0.0
    start = 0
    while start < length:
        score_here, has_piece = scores[start], False
        next_start = _locate_next_character(word, start)
        node, place = model.trie.roots[0], start
        while place < length:
            node = find_child(model.trie, node, word[place])
            if node < 0:
                break
            place += 1
            number = get_value(node)
            if number >= 0:
                score = model.scores[number] + score_here
                if score > scores[place]:
                    scores[place], starts[place], last_ids[place] = score, start, number
                has_piece = has_piece or place == next_start
        if not has_piece:
            score = model.unknown_score + score_here
            if score > scores[next_start]:
                scores[next_start], starts[next_start], last_ids[next_start] = score, start, model.unknown_id
        start = next_start
    return _write_path(model.unknown_id, paths, length, ids, used)


@kernel
def _locate_next_character(word: Bytes, at: int) -> int:
    """Return the index in `word` after the UTF-8 character that starts at index `at`."""
    first = word[at]
    return at + (1 if first < 0x80 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4)


@kernel
def _write_path(unknown_id: int, paths: BestPaths, length: int, ids: Ids, used: int) -> int:
    """Write the ids of the best segmentation that ends at position `length`, and return their number.

    Consecutive unknown characters become one id.

    Args:
        unknown_id: The id for characters that no piece covers.
        paths: The best segmentation up to each position of the word.
        length: Length of the word in bytes.
        ids: Output array, written from index `used` on.
        used: Number of ids that are already in `ids`.
    """
    number, place, next_id = 0, length, -1
    while place > 0:
        piece = paths.ids[place]
        if piece != unknown_id or next_id != unknown_id:
            ids[used + number] = piece
            number += 1
        next_id, place = piece, paths.starts[place]
    for i in range(number // 2):
        ids[used + i], ids[used + number - 1 - i] = ids[used + number - 1 - i], ids[used + i]
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
    word_starts: Bytes,
    offsets: Int64s,
    state: Int64s,
) -> bool:
    """Encode the texts data[starts[r]:ends[r]] with Unigram, continuing from `state`.

    Args:
        data: The bytes of all texts.
        starts: int64 [texts], the first byte of each text.
        ends: int64 [texts], the end of each text.
        rules: The table of normalized characters.
        lowercase: Whether to lower-case words.
        model: The vocabulary.
        cache: Cached ids of short words. New words are added.
        ids: Filled with the ids of all texts.
        word_starts: Must be initialized to zero. Set to 1 at the first token of each word.
        offsets: int64 [texts + 1]. offsets[r + 1] is set to the end of text r in `ids`.
        state: int64 [3], updated in place: the index of the current text, the byte offset in the data (-1 for the start
            of the text), and the number of ids written. Initialize it to (0, -1, 0).

    Returns:
        True if all texts are encoded. False if `ids` and `word_starts` are too short: pass larger arrays that start
        with the same values and call again with the same state.
    """
    paths = build_paths(_MAX_SHARED_BYTES)
    used = state[2]
    for r in range(state[0], len(starts)):
        at, end = starts[r], ends[r]
        if r == state[0] and state[1] >= 0:
            at = state[1]
        at, used = encode_range(data, at, end, rules, lowercase, model, cache, paths, ids, word_starts, used)
        if at < end:
            state[0], state[1], state[2] = r, at, used
            return False
        offsets[r + 1] = used
    state[2] = used
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
    word_starts: Bytes,
    used: int,
) -> tuple[int, int]:
    """Encode data[at:end] with Unigram, stopping early if the output is full.

    Args:
        data: The bytes of all texts.
        at: Byte offset of the first byte to encode.
        end: End of the text.
        rules: The table of normalized characters.
        lowercase: Whether to lower-case words.
        model: The vocabulary.
        cache: Cached ids of short words. New words are added.
        paths: Scratch space for `_MAX_SHARED_BYTES` bytes of text, from `build_paths`.
        ids: Output array, written from index `used` on.
        word_starts: Must be zero from index `used` on. Set to 1 at the first token of each word.
        used: Number of ids that are already in `ids`.

    Returns:
        The byte offset at which it stopped, and the number of ids written so far.
    """
    while at < end:
        if is_ascii_space(data[at]):
            at += 1
            continue
        low, high, length = load_short_chunk(data, at, end)
        is_short = length > 0 and is_chunk_end(data, at + length, end)
        if lowercase:
            low, high = lower_word(low), lower_word(high)
        if is_short and used + _MAX_CACHED_IDS <= len(ids):
            entry = find_entry(cache, low, high, length)
            if entry >= 0:
                store8(ids, used, get_packed_ids(cache, entry))
                word_starts[used] = 1
                used += count_ids(cache, entry)
                at += length
                continue
        last = at + length if is_short else locate_chunk_end(data, at, end)
        if last - at <= _MAX_SHARED_BYTES:
            after, num_words = encode_chunk(data, at, last, rules, model, paths, ids, word_starts, used)
        else:
            after, num_words = encode_long_chunk(data, at, last, rules, model, ids, word_starts, used)
        if after < 0:
            return at, used
        if is_short and num_words == 1 and after - used <= _STORE_BYTES // ids.itemsize:
            remember(cache, low, high, length, _pack_ids(ids, used, after), after - used)
        at, used = last, after
    return at, used


@kernel
def encode_chunk(
    data: Bytes,
    at: int,
    end: int,
    rules: CharacterRules,
    model: UnigramModel,
    paths: BestPaths,
    ids: Ids,
    word_starts: Bytes,
    used: int,
) -> tuple[int, int]:
    """Encode the words of data[at:end], which has no ASCII white space.

    Args:
        data: The bytes of all texts.
        at: Byte offset of the first byte to encode.
        end: End of the chunk.
        rules: The table of normalized characters.
        model: The vocabulary.
        paths: Scratch space for at least end - at bytes of text, from `build_paths`.
        ids: Output array, written from index `used` on.
        word_starts: Must be zero from index `used` on. Set to 1 at the first token of each word.
        used: Number of ids that are already in `ids`.

    Returns:
        The new value of `used` and the number of words. If `ids` is too short, the first is -1, and `word_starts` is
        restored.
    """
    first, num_words, num_read = used, 0, 0
    while at < end:
        at, num_read, length = write_next_word(data, at, end, num_read, rules, paths.word)
        if length == 0:
            break
        if used + length > len(ids):
            word_starts[first:used] = 0
            return -1, 0
        word_starts[used] = 1
        used += write_best_pieces(model, length, paths, ids, used)
        num_words += 1
    return used, num_words


@kernel
def encode_long_chunk(
    data: Bytes,
    at: int,
    end: int,
    rules: CharacterRules,
    model: UnigramModel,
    ids: Ids,
    word_starts: Bytes,
    used: int,
) -> tuple[int, int]:
    """Encode the words of data[at:end] like `encode_chunk`, with newly allocated scratch space, for text of any length.

    Args:
        data: The bytes of all texts.
        at: Byte offset of the first byte to encode.
        end: End of the chunk.
        rules: The table of normalized characters.
        model: The vocabulary.
        ids: Output array, written from index `used` on.
        word_starts: Must be zero from index `used` on. Set to 1 at the first token of each word.
        used: Number of ids that are already in `ids`.

    Returns:
        The new value of `used`, or -1 if `ids` is too short, and the number of words.
    """
    return encode_chunk(data, at, end, rules, model, build_paths(end - at), ids, word_starts, used)


@kernel
def _pack_ids(ids: Ids, first: int, last: int) -> np.uint64:
    """Return ids[first:last] packed into one integer, with the first id in the lowest bits."""
    packed = np.uint64(0)
    for i in range(last - 1, first - 1, -1):
        packed = packed << np.uint64(8 * ids.itemsize) | np.uint64(ids[i])
    return packed
