"""The kernels of `tokenizers_train.encoding.wordpiece`: from bytes of text to ids, without an object in between.

Promise: greedy longest match (Wu et al. 2016) as the reference has it: a word of too many characters, or with a
place where no piece fits, is the unknown token. Ids are written once, in the order of the text.
Cost: see `tokenizers_train.encoding.wordpiece`; no allocation: the caller brings all arrays.
"""

from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Bytes, Ids, Int64s
from corpora.kernels.compiling import kernel
from corpora.kernels.packed import store8
from tokenizers_train.encoding.piece_cache import PieceCache, find, num_ids, packed_ids, remember
from tokenizers_train.encoding.trie import Trie, step, value
from tokenizers_train.words.bert_kernels import (
    DONE,
    OTHER,
    SHORT,
    WANTS_ROOM,
    Ranges,
    WordRules,
    Written,
    ascii_word,
    kind_behind,
    packed_word,
    write_words,
)
from tokenizers_train.words.characters import LETTER, OWN, SPACE

SLACK = 32  # ids and word starts that must have room after what is written: a short word's, and a store of eight bytes
BEGINNING, CONTINUING = 0, 1  # the roots of the trie

_FIRST_ONLY = np.uint64(1)  # word starts of a word's pieces, packed


class WordPieceModel(NamedTuple):
    """The facts that kernels need of a vocabulary.

    trie:           its pieces, with a root for those that begin a word and one for those that continue one
    own_ids:        int64 for each ASCII byte: the id of the word that is this byte
    unknown:        the id of a word that has no pieces
    max_characters: of a word that has any
    """

    trie: Trie
    own_ids: Int64s
    unknown: int
    max_characters: int


class Output(NamedTuple):
    """The arrays that kernels write to, as in `encoded.Encoded`: `ids` and `word_starts` are SLACK longer, or more."""

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
    written: Written,
    state: Int64s,
) -> int:
    """Encode the ranges from where `state` (range, place, tokens written) says; returns why it stopped."""
    data, starts, ends = ranges
    ids, word_starts, offsets = output
    r, at, total = state[0], state[1], state[2]
    room = len(ids) - SLACK
    packable = len(data) - SHORT + 1  # so far a short word may begin: what comes after is written out
    while r < len(starts):
        end = ends[r]
        while at < end:
            if total > room:
                return _stopped(state, r, at, total, WANTS_ROOM)
            kind = rules.kinds[data[at]]
            if kind == LETTER and at < packable:
                length, low, high = ascii_word(data, at, rules.folds)
                behind = kind_behind(data, at + length, end, rules)
                if behind != OTHER:
                    entry = find(cache, low, high, length)
                    if entry >= 0:
                        store8(ids, total, packed_ids(cache, entry))
                        store8(word_starts, total, _FIRST_ONLY)
                        total += num_ids(cache, entry)
                    else:
                        total = _put_new_word(low, high, length, model, cache, output, total, written)
                    at += length + (behind == SPACE)
                    continue
            elif kind == SPACE:
                at += 1
                continue
            elif kind == OWN:
                ids[total] = model.own_ids[data[at]]
                word_starts[total] = 1
                total += 1
                at += 1
                continue
            onwards, words, why = write_words(data, at, end, rules, written, model.max_characters)
            if words == 0 and why != DONE:
                return _stopped(state, r, onwards, total, why)
            if words > 0 and total + written.ends[words - 1] > room:
                return _stopped(state, r, at, total, WANTS_ROOM)
            total = _put_written(written, words, model, cache, output, total)
            at = onwards
        r += 1
        offsets[r] = total
        if r < len(starts):
            at = starts[r]
    return _stopped(state, r, at, total, DONE)


@kernel
def encode_words(words: Ranges, model: WordPieceModel, output: Output, state: Int64s) -> int:
    """Write the pieces of the words from word state[0] on; returns why it stopped."""
    data, starts, ends = words
    for w in range(state[0], len(starts)):
        if state[2] + ends[w] - starts[w] > len(output.ids) - SLACK:
            state[0] = w
            return WANTS_ROOM
        characters = 0
        for i in range(starts[w], ends[w]):
            characters += data[i] & 0xC0 != 0x80
        state[2] = match_pieces(data, starts[w], ends[w], characters, model, output, state[2])
    return DONE


@kernel
def match_pieces(
    text: Bytes, start: int, end: int, characters: int, model: WordPieceModel, output: Output, total: int
) -> int:
    """Write the longest pieces of the word text[start:end], from left to right; return the tokens so far."""
    ids, word_starts, _ = output
    at, first, root = start, total, BEGINNING
    while at < end and characters <= model.max_characters:
        node, i, best, best_end = model.trie.roots[root], at, -1, at
        while i < end:
            node = step(model.trie, node, text[i])
            if node < 0:
                break
            i += 1
            if value(node) >= 0:
                best, best_end = value(node), i
        if best < 0:
            break
        ids[total] = best
        word_starts[total] = total == first
        total += 1
        at, root = best_end, CONTINUING
    if at == end:
        return total
    ids[first] = model.unknown
    word_starts[first] = 1
    return first + 1


@kernel
def _put_written(
    written: Written, words: int, model: WordPieceModel, cache: PieceCache, output: Output, total: int
) -> int:
    """Write the pieces of words that were written out; returns how many tokens there are then."""
    text, word_ends, characters = written
    ids, word_starts, _ = output
    start = 0
    for w in range(words):
        end = word_ends[w]
        low, high = packed_word(text, start, end - start)
        entry = find(cache, low, high, end - start) if end - start <= SHORT else -1
        if entry >= 0:
            store8(ids, total, packed_ids(cache, entry))
            store8(word_starts, total, _FIRST_ONLY)
            total += num_ids(cache, entry)
        else:
            after = match_pieces(text, start, end, characters[w], model, output, total)
            if end - start <= SHORT:
                _remember_pieces(cache, low, high, end - start, ids, total, after)
            total = after
        start = end
    return total


@kernel
def _put_new_word(
    low: np.uint64,
    high: np.uint64,
    length: int,
    model: WordPieceModel,
    cache: PieceCache,
    output: Output,
    total: int,
    written: Written,
) -> int:
    """Write the pieces of a word of ASCII letters that is not remembered; returns how many tokens there are then."""
    store8(written.text, 0, low)
    store8(written.text, 8, high)
    after = match_pieces(written.text, 0, length, length, model, output, total)
    _remember_pieces(cache, low, high, length, output.ids, total, after)
    return after


@kernel
def _remember_pieces(
    cache: PieceCache, low: np.uint64, high: np.uint64, length: int, ids: Ids, first: int, after: int
) -> None:
    """Keep the pieces of a short word, if they are few enough."""
    count = after - first
    if count * ids.itemsize <= 8:
        packed, bits = np.uint64(0), 8 * ids.itemsize
        for i in range(count):
            packed |= np.uint64(ids[first + i]) << np.uint64(bits * i)
        remember(cache, low, high, length, packed, count)


@kernel
def _stopped(state: Int64s, r: int, at: int, total: int, why: int) -> int:
    """Note where the kernel stops."""
    state[0], state[1], state[2] = r, at, total
    return why
