"""The kernels of `tokenizers_train.words.sentencepiece`: the words of ranges of text, one after another.

Promise: the words of `SentencePieceWords.split`; no byte outside a range has a part in a word. A text is cut into
*chunks* at ASCII white space. `write_next_word` gives the words of a chunk, mostly one, written as the reference's
normalizer writes them; a chunk of a million letters takes as long a letter as a short one.

Cost: see `tokenizers_train.words.sentencepiece`; a buffer of eleven bytes for each byte of the longest chunk; what is
not needed of it is not touched.
"""

from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Bytes, Int64s, UInt16s, UInt32s
from corpora.kernels.compiling import kernel
from corpora.kernels.packed import keep_bytes, load8, load_tail, lower_word, trailing_zeros
from corpora.kernels.utf8 import decode
from tokenizers_train.words.table import WordTable, add_short, add_word

PAGE_SIZE = 256  # characters whose rules are together
MAX_EXPANSION = 11  # bytes that a byte becomes at most: U+FDFA, of three, is eighteen letters of Arabic
MARK_BYTES = 3  # of U+2581, with which every word begins
MAX_SHORT_CHUNK_BYTES = 16  # bytes of a chunk that `short_chunk` loads

_MARK, _QUOTATION, _APOSTROPHE, _GRAVE, _SPACE = 0x2581, ord('"'), ord("'"), ord("`"), ord(" ")
_MARK_0, _MARK_1, _MARK_2 = 0xE2, 0x96, 0x81
_PACKED_MARK, _MARK_SHIFT, _MARK_REST = np.uint64(0x8196E2), np.uint64(24), np.uint64(40)
_MAX_PACKED_BYTES = MAX_SHORT_CHUNK_BYTES - MARK_BYTES
_LOW_SEVEN, _TOP_BITS = np.uint64(0x7F7F7F7F7F7F7F7F), np.uint64(0x8080808080808080)
_ABOVE_SPACE = np.uint64(0x5F5F5F5F5F5F5F5F)  # lifts a byte of seven bits above 127 where it is above the space
_APOSTROPHES, _GRAVES = np.uint64(0x2727272727272727), np.uint64(0x6060606060606060)
_EIGHT, _TOP_BYTE = np.uint64(8), np.uint64(56)


class CharacterRules(NamedTuple):
    """The normalized form of each character. Character c has the entry entries[pages[c // PAGE_SIZE] * PAGE_SIZE + c %
    PAGE_SIZE].

    Attributes:
        pages: uint16, the index of the page of each 256 code points. Characters of page 0 do not change.
        entries: uint32, offset in the pool << 8 | number of bytes, or 0 if the character does not change.
        pool: uint8, the replacements in UTF-8. A space in a replacement separates words.
    """

    pages: UInt16s
    entries: UInt32s
    pool: Bytes


@kernel
def is_ascii_space(byte: int) -> bool:
    """Return whether a byte is ASCII white space."""
    return byte == _SPACE or 9 <= byte <= 13


@kernel
def locate_chunk_end(data: Bytes, at: int, end: int) -> int:
    """Return the offset of the next ASCII white space in data[at:end], or `end`."""
    while at < end and not is_ascii_space(data[at]):
        at += 1
    return at


@kernel
def load_short_chunk(data: Bytes, at: int, end: int) -> tuple[np.uint64, np.uint64, int]:
    """Load up to 16 bytes of data[at:end], stopping before the first white space or control character.

    The bytes end a chunk (text between ASCII white space) if `is_chunk_end` is true for the offset after them.

    Returns:
        Bytes 0-7, bytes 8-15 and the number of bytes. The first byte is the lowest, and missing bytes are zero.
    """
    if at + MAX_SHORT_CHUNK_BYTES <= len(data):
        low, high = load8(data, at), load8(data, at + 8)
    else:
        low, high = load_tail(data, at, end), load_tail(data, at + 8, end)
    length = trailing_zeros(_mark_low_bytes(low)) >> 3
    if length == 8:
        length += trailing_zeros(_mark_low_bytes(high)) >> 3
    length = min(length, end - at)
    if length <= 8:
        return keep_bytes(low, length), np.uint64(0), length
    return low, keep_bytes(high, length - 8), length


@kernel
def is_chunk_end(data: Bytes, at: int, end: int) -> bool:
    """Return whether the byte offset `at` is `end`, the end of the text, or the offset of ASCII white space."""
    return at == end or is_ascii_space(data[at])


@kernel
def _mark_low_bytes(word: np.uint64) -> np.uint64:
    """Return 0x80 in each of the eight bytes of `word` that has a value from 0 to 32 (the space), and 0 elsewhere."""
    return ~((word & _LOW_SEVEN) + _ABOVE_SPACE) & ~word & _TOP_BITS


@kernel
def _mark_quotes(word: np.uint64) -> np.uint64:
    """Return 0x80 in each of the eight bytes of `word` that is an apostrophe or a grave accent, and 0 in the others."""
    apostrophes, graves = word ^ _APOSTROPHES, word ^ _GRAVES
    others = ((apostrophes & _LOW_SEVEN) + _LOW_SEVEN | apostrophes) & ((graves & _LOW_SEVEN) + _LOW_SEVEN | graves)
    return ~others & _TOP_BITS


@kernel
def _is_plain(low: np.uint64, high: np.uint64) -> bool:
    """Return whether 16 bytes are all ASCII without two adjacent quotes, so that normalization only changes their case.

    `low` has the first eight bytes and `high` the others. Earlier bytes are in lower bytes of the integers.
    """
    first, second = _mark_quotes(low), _mark_quotes(high)
    pairs = first & (first >> _EIGHT) | second & (second >> _EIGHT) | (first >> _TOP_BYTE) & second
    return bool(((low | high) & _TOP_BITS | pairs) == 0)


@kernel
def write_next_word(
    data: Bytes, at: int, end: int, num_read: int, rules: CharacterRules, word: Bytes
) -> tuple[int, int, int]:
    """Write the next normalized word of data[at:end] to `word`.

    Args:
        data: The bytes of all texts.
        at: Byte offset of the current character.
        end: End of the text.
        num_read: Number of bytes of the current character's replacement that are already read. It is above 0 if the
            replacement has several words.
        rules: The table of normalized characters.
        word: Filled with the word. It needs MARK_BYTES bytes, and MAX_EXPANSION bytes per byte of data[at:end].

    Returns:
        The new `at`, the new `num_read` and the length of the word in bytes, which is 0 if there are no more words.
    """
    length = 0
    while at < end:
        code, width = decode(data, at)
        if (code == _APOSTROPHE or code == _GRAVE) and at + 1 < end and data[at + 1] == code:
            length = _start_word(word, length)
            word[length] = _QUOTATION
            length, at = length + 1, at + 2
            continue
        if code == _MARK:
            if length > 0:
                return at, 0, length
            length, at = _start_word(word, length), at + width
            continue
        entry = np.int64(rules.entries[np.int64(rules.pages[code // PAGE_SIZE]) * PAGE_SIZE + code % PAGE_SIZE])
        if entry == 0:
            length = _start_word(word, length)
            for i in range(width):
                word[length + i] = data[at + i]
            length += width
        else:
            place, size = entry >> 8, entry & 0xFF
            while num_read < size:
                byte = rules.pool[place + num_read]
                num_read += 1
                if byte != _SPACE:
                    length = _start_word(word, length)
                    word[length] = byte
                    length += 1
                elif length > 0:
                    return at, num_read, length
            num_read = 0
        at += width
    return at, 0, length


@kernel
def _start_word(word: Bytes, length: int) -> int:
    """Write U+2581 to `word` if its length is 0. Return its new length in bytes."""
    if length > 0:
        return length
    word[0], word[1], word[2] = _MARK_0, _MARK_1, _MARK_2
    return MARK_BYTES


@kernel
def count_sentencepiece_words(
    data: Bytes,
    starts: Int64s,
    ends: Int64s,
    rules: CharacterRules,
    lowercase: bool,
    table: WordTable,
    state: Int64s,
) -> bool:
    """Split the texts data[starts[r]:ends[r]] into words as ALBERT does, and count them, resuming from `state`.

    Args:
        data: The bytes of all texts.
        starts: int64 [texts], the first byte of each text.
        ends: int64 [texts], the end of each text.
        rules: The table of normalized characters.
        lowercase: Whether to lower-case words.
        table: The word counts, which are incremented in place.
        state: int64 [3], updated in place: the index of the current text, the byte offset in the data (-1 for the start
            of the text), and `num_read` of `write_next_word`. Initialize it to (0, -1, 0).

    Returns:
        True if all words are counted. False if the table is full: grow it and call again with the same state.
    """
    word = np.empty(1 << 10, np.uint8)
    for r in range(state[0], len(starts)):
        at, end, num_read = starts[r], ends[r], 0
        if r == state[0] and state[1] >= 0:
            at, num_read = state[1], state[2]
        while at < end:
            if is_ascii_space(data[at]):
                at += 1
                continue
            if num_read == 0:
                low, high, length = load_short_chunk(data, at, end)
                if 0 < length <= _MAX_PACKED_BYTES and is_chunk_end(data, at + length, end) and _is_plain(low, high):
                    if not _add_plain_chunk(table, low, high, length, lowercase):
                        state[0], state[1], state[2] = r, at, 0
                        return False
                    at += length
                    continue
            last = locate_chunk_end(data, at, end)
            if MARK_BYTES + MAX_EXPANSION * (last - at) > len(word):
                word = np.empty(2 * MAX_EXPANSION * (last - at), np.uint8)
            while at < last:
                after, next_read, length = write_next_word(data, at, last, num_read, rules, word)
                if length > 0 and not add_word(table, word, 0, length, 1):
                    state[0], state[1], state[2] = r, at, num_read
                    return False
                at, num_read = after, next_read
    return True


@kernel
def _add_plain_chunk(table: WordTable, low: np.uint64, high: np.uint64, length: int, lowercase: bool) -> bool:
    """Count an ASCII word with U+2581 before it. Returns False if the table is full.

    Args:
        table: The word counts, which are incremented in place.
        low: Bytes 0-7 of the word, without U+2581. The first byte is the lowest, and missing bytes are zero.
        high: Bytes 8-15 of the word.
        length: Length of the word in bytes, from 1 to 13.
        lowercase: Whether to lower-case the word.
    """
    if lowercase:
        low, high = lower_word(low), lower_word(high)
    first, second = low << _MARK_SHIFT | _PACKED_MARK, high << _MARK_SHIFT | low >> _MARK_REST
    return add_short(table, first, second, length + MARK_BYTES, 1)
