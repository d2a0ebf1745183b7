"""The kernels of `tokenizers_train.encoding.wordpiece`: from bytes of text to ids, without an object in between.

Promise: greedy longest match (Wu et al. 2016) as the reference has it: a word of too many characters, or with a place
at which no piece fits, is the unknown token. Ids are written once, in the order of the text.
Cost: see `tokenizers_train.encoding.wordpiece`; no allocation: the caller brings all arrays.
"""

from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Bytes, Ids, Int64s
from corpora.kernels.compiling import kernel
from corpora.kernels.packed import store8
from tokenizers_train.encoding.piece_cache import PieceCache, count_ids, find_entry, get_packed_ids, remember
from tokenizers_train.encoding.trie import Trie, find_child, get_value
from tokenizers_train.words.bert_kernels import (
    DONE,
    MAX_PACKED_BYTES,
    NEEDS_ROOM,
    UNCLASSIFIED,
    Ranges,
    WordBuffer,
    WordRules,
    classify_word_end,
    load_ascii_word,
    pack_word,
    write_words,
)
from tokenizers_train.words.characters import LETTER, SPACE, STANDALONE

SLACK = 32  # ids and word starts that must have room after what is written: a short word's, and a store of eight bytes
ROOT_BEGINNING, ROOT_CONTINUING = 0, 1  # the roots of the trie

_FIRST_ONLY = np.uint64(1)  # word starts of a word's pieces, packed


class WordPieceModel(NamedTuple):
    """A WordPiece vocabulary in arrays.

    Attributes:
        trie: The pieces, with one root for pieces that begin a word and one for pieces that continue it.
        standalone_ids: int64 [128], the id of each ASCII character as a word.
        unknown_id: The id of a word that cannot be split into pieces.
        max_characters: Words with more characters than this are unknown.
    """

    trie: Trie
    standalone_ids: Int64s
    unknown_id: int
    max_characters: int


class Output(NamedTuple):
    """The arrays that the kernels fill (see `encoded.EncodedSentences`).

    `ids` and `word_starts` must have at least SLACK more entries than are written.
    """

    ids: Ids
    word_starts: Bytes
    offsets: Int64s


@kernel
def encode_ranges(
    ranges: Ranges,
    rules: WordRules,
    model: WordPieceModel,
    cache: PieceCache,
    output: Output,
    buffer: WordBuffer,
    state: Int64s,
) -> int:
    """Encode the texts of `ranges` with WordPiece, continuing from `state`.

    Args:
        ranges: The texts.
        rules: The character tables.
        model: The vocabulary.
        cache: Cached ids of short words. New words are added.
        output: Filled with ids, word starts and offsets. offsets[0] is left unchanged.
        buffer: Scratch space for normalized words.
        state: int64 [3], updated in place: the index of the current text, the byte offset in the data, and the number
            of tokens written. Initialize it to (0, start of the first text, 0).

    Returns:
        DONE, or what is needed before calling again: NEEDS_ROOM (a larger output), NEEDS_BUFFER (a larger word buffer)
        or NEEDS_REFERENCE (the text from `state` to the next space must be encoded with the reference tokenizer).
    """
    data, starts, ends = ranges
    ids, word_starts, offsets = output
    r, at, total = state[0], state[1], state[2]
    room = len(ids) - SLACK
    packable = len(data) - MAX_PACKED_BYTES + 1  # so far a short word may begin: what comes after is written out
    while r < len(starts):
        end = ends[r]
        while at < end:
            if total > room:
                return _save_state(state, r, at, total, NEEDS_ROOM)
            kind = rules.byte_classes[data[at]]
            if kind == LETTER and at < packable:
                length, low, high = load_ascii_word(data, at, rules.case_bits)
                next_kind = classify_word_end(data, at + length, end, rules)
                if next_kind != UNCLASSIFIED:
                    entry = find_entry(cache, low, high, length)
                    if entry >= 0:
                        store8(ids, total, get_packed_ids(cache, entry))
                        store8(word_starts, total, _FIRST_ONLY)
                        total += count_ids(cache, entry)
                    else:
                        total = _write_new_word(low, high, length, model, cache, output, total, buffer)
                    at += length + (next_kind == SPACE)
                    continue
            elif kind == SPACE:
                at += 1
                continue
            elif kind == STANDALONE:
                ids[total] = model.standalone_ids[data[at]]
                word_starts[total] = 1
                total += 1
                at += 1
                continue
            next_at, num_words, stop_reason = write_words(data, at, end, rules, buffer, model.max_characters)
            if num_words == 0 and stop_reason != DONE:
                return _save_state(state, r, next_at, total, stop_reason)
            if num_words > 0 and total + buffer.ends[num_words - 1] > room:
                return _save_state(state, r, at, total, NEEDS_ROOM)
            total = _write_buffered_words(buffer, num_words, model, cache, output, total)
            at = next_at
        r += 1
        offsets[r] = total
        if r < len(starts):
            at = starts[r]
    return _save_state(state, r, at, total, DONE)


@kernel
def encode_words(words: Ranges, model: WordPieceModel, output: Output, state: Int64s) -> int:
    """Encode words that are already normalized. `output.offsets` is not changed.

    Args:
        words: The words, as byte ranges.
        model: The vocabulary.
        output: Filled with ids and word starts.
        state: int64 [3], updated in place: the index of the first word to encode, an unused entry, and the number of
            tokens written. If the result is NEEDS_ROOM, state[0] is set to the next word. Otherwise it is left
            unchanged.

    Returns:
        DONE, or NEEDS_ROOM if the output is too short: pass a larger one that starts with the same values and call
        again.
    """
    data, starts, ends = words
    for w in range(state[0], len(starts)):
        if state[2] + ends[w] - starts[w] > len(output.ids) - SLACK:
            state[0] = w
            return NEEDS_ROOM
        characters = 0
        for i in range(starts[w], ends[w]):
            characters += data[i] & 0xC0 != 0x80
        state[2] = write_longest_pieces(data, starts[w], ends[w], characters, model, output, state[2])
    return DONE


@kernel
def write_longest_pieces(
    text: Bytes, start: int, end: int, characters: int, model: WordPieceModel, output: Output, total: int
) -> int:
    """Write the pieces of the word text[start:end], always taking the longest piece that matches next.

    If nothing matches or the word has too many characters, only the unknown token is written.

    Args:
        text: Bytes that contain the word.
        start: First byte of the word.
        end: End of the word.
        characters: Number of characters in the word.
        model: The vocabulary.
        output: The ids and word starts are written from index `total` on.
        total: Number of tokens that are already in the output.

    Returns:
        The number of tokens written so far.
    """
    ids, word_starts, _ = output
    at, first, root = start, total, ROOT_BEGINNING
    while at < end and characters <= model.max_characters:
        node, i, best, best_end = model.trie.roots[root], at, -1, at
        while i < end:
            node = find_child(model.trie, node, text[i])
            if node < 0:
                break
            i += 1
            if get_value(node) >= 0:
                best, best_end = get_value(node), i
        if best < 0:
            break
        ids[total] = best
        word_starts[total] = total == first
        total += 1
        at, root = best_end, ROOT_CONTINUING
    if at == end:
        return total
    ids[first] = model.unknown_id
    word_starts[first] = 1
    return first + 1


@kernel
def _write_buffered_words(
    buffer: WordBuffer, num_words: int, model: WordPieceModel, cache: PieceCache, output: Output, total: int
) -> int:
    """Write the pieces of the first `num_words` words in the buffer.

    Args:
        buffer: The normalized words.
        num_words: Number of words.
        model: The vocabulary.
        cache: Cached ids of short words. New words are added.
        output: The ids and word starts are written from index `total` on.
        total: Number of tokens that are already in the output.

    Returns:
        The number of tokens written so far.
    """
    text, word_ends, characters = buffer
    ids, word_starts, _ = output
    start = 0
    for w in range(num_words):
        end = word_ends[w]
        low, high = pack_word(text, start, end - start)
        entry = find_entry(cache, low, high, end - start) if end - start <= MAX_PACKED_BYTES else -1
        if entry >= 0:
            store8(ids, total, get_packed_ids(cache, entry))
            store8(word_starts, total, _FIRST_ONLY)
            total += count_ids(cache, entry)
        else:
            after = write_longest_pieces(text, start, end, characters[w], model, output, total)
            if end - start <= MAX_PACKED_BYTES:
                _remember_pieces(cache, low, high, end - start, ids, total, after)
            total = after
        start = end
    return total


@kernel
def _write_new_word(
    low: np.uint64,
    high: np.uint64,
    length: int,
    model: WordPieceModel,
    cache: PieceCache,
    output: Output,
    total: int,
    buffer: WordBuffer,
) -> int:
    """Write the pieces of an uncached ASCII word and cache them.

    Args:
        low: Bytes 0-7 of the word. The first byte is the lowest, and missing bytes are zero.
        high: Bytes 8-15 of the word, in the same format.
        length: Length of the word in bytes, from 1 to 16.
        model: The vocabulary.
        cache: The word is added to it.
        output: The ids and word starts are written from index `total` on.
        total: Number of tokens that are already in the output.
        buffer: Scratch space. The first 16 bytes of its text are overwritten.

    Returns:
        The number of tokens written so far.
    """
    store8(buffer.text, 0, low)
    store8(buffer.text, 8, high)
    after = write_longest_pieces(buffer.text, 0, length, length, model, output, total)
    _remember_pieces(cache, low, high, length, output.ids, total, after)
    return after


@kernel
def _remember_pieces(
    cache: PieceCache, low: np.uint64, high: np.uint64, length: int, ids: Ids, first: int, after: int
) -> None:
    """Cache the ids ids[first:after] of a short word, if they fit into eight bytes.

    The word is given by `low`, `high` and `length`, as in `piece_cache.find_entry`.
    """
    count = after - first
    if count * ids.itemsize <= 8:
        packed, bits = np.uint64(0), 8 * ids.itemsize
        for i in range(count):
            packed |= np.uint64(ids[first + i]) << np.uint64(bits * i)
        remember(cache, low, high, length, packed, count)


@kernel
def _save_state(state: Int64s, r: int, at: int, total: int, stop_reason: int) -> int:
    """Store the current position in `state` and return `stop_reason`.

    Args:
        state: int64 [3], output: the next three arguments.
        r: Index of the current text.
        at: Byte offset in the data.
        total: Number of tokens written so far.
        stop_reason: DONE, NEEDS_ROOM, NEEDS_BUFFER or NEEDS_REFERENCE (see `encode_ranges`).
    """
    state[0], state[1], state[2] = r, at, total
    return stop_reason
