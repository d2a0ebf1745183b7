"""The kernels of `tokenizers_train.words.bert`: a word found in bytes, for counting and for encoding.

Promise: no byte outside the ranges is looked at as part of a word, and none after the buffer is read. What the words
are is `BertWords.split`; at a character that the tables leave undecided (`characters.UNDECIDED`) a kernel stops, to be
told.

How: a word of ASCII letters and digits is found, lower-cased and packed into two 64-bit words, eight bytes at a time.
Any other (longer than 16 bytes, or with a character that is not ASCII, or is dropped) is written into a buffer,
character by character.

Cost: see `tokenizers_train.words.bert`; no allocation: the caller brings all arrays.
"""

from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Bytes, Int64s, UInt32s
from corpora.kernels.compiling import kernel
from corpora.kernels.packed import (
    flag_capitals,
    flag_non_alphanumeric,
    keep_bytes,
    load8,
    load_tail,
    store8,
    trailing_zeros,
)
from corpora.kernels.utf8 import decode
from tokenizers_train.words.characters import (
    CHARACTER_BITS,
    DROPPED,
    LENGTH_BITS,
    LETTER,
    SPACE,
    STANDALONE,
    TEXT_BITS,
    UNDECIDED,
)
from tokenizers_train.words.table import WordTable, add_long, add_short

UNCLASSIFIED = DROPPED  # of a byte: what the character is must be looked up
MAX_PACKED_BYTES = 16  # bytes of a word that is handled in registers

DONE, NEEDS_ROOM, NEEDS_BUFFER, NEEDS_REFERENCE = range(4)  # why a kernel has stopped

_NO_LIMIT = 1 << 62
_MAX_TEXT_BYTES = 1 << LENGTH_BITS
_LENGTH_MASK, _CHARACTER_MASK = (1 << LENGTH_BITS) - 1, (1 << CHARACTER_BITS) - 1
_BYTE, _ONE, _NOTHING = np.uint64(8), np.uint64(1), np.uint64(0)


class Ranges(NamedTuple):
    """The texts data[starts[r]:ends[r]]. Each must consist of whole UTF-8 characters."""

    data: Bytes
    starts: Int64s
    ends: Int64s


class WordRules(NamedTuple):
    """The properties of characters that the kernels need.

    Attributes:
        classes: See `characters.CharacterTables`.
        replacements: See `characters.CharacterTables`.
        pool: See `characters.CharacterTables`.
        byte_classes: uint8 [256], LETTER for ASCII letters and digits, SPACE, STANDALONE (an ASCII character that is a
            word by itself), or UNCLASSIFIED.
        case_bits: 0x20 in each of eight bytes to lower-case ASCII letters, or 0 to keep their case.
    """

    classes: Bytes
    replacements: UInt32s
    pool: Bytes
    byte_classes: Bytes
    case_bits: np.uint64


class WordBuffer(NamedTuple):
    """A sequence of normalized words.

    Attributes:
        text: uint8, the bytes of all words.
        ends: int64, the end of each word in `text`.
        characters: int64, the number of characters in each word.
    """

    text: Bytes
    ends: Int64s
    characters: Int64s


@kernel
def load_ascii_word(data: Bytes, at: int, case_bits: np.uint64) -> tuple[int, np.uint64, np.uint64]:
    """Load a word of ASCII letters and digits, lower-cased if `case_bits` is set.

    If the word has more than 16 bytes, only the first 16 are loaded. Bytes after the end of the text may be read too,
    so `data` must have at least at + 16 bytes.

    Returns:
        The length, bytes 0-7 and bytes 8-15. The first byte is the lowest, and missing bytes are zero.
    """
    word, high = load8(data, at), _NOTHING
    other = flag_non_alphanumeric(word)
    low = word | (flag_capitals(word) & case_bits)
    if other != _NOTHING:
        low &= (other ^ (other - _ONE)) >> _BYTE
        return trailing_zeros(other) >> 3, low, high
    word = load8(data, at + 8)
    length = trailing_zeros(flag_non_alphanumeric(word)) >> 3
    return 8 + length, low, keep_bytes(word | (flag_capitals(word) & case_bits), length)


@kernel
def classify_word_end(data: Bytes, at: int, end: int, rules: WordRules) -> int:
    """Classify the character after a word of ASCII letters or digits that ends at byte offset `at` of the data.

    `end` is the end of the text. The word must not extend past it.

    Returns:
        SPACE for white space or the end of the text; STANDALONE for a character that ends the word and must be read
        next; UNCLASSIFIED if `write_words` has to process the word.
    """
    if at >= end:
        return SPACE if at == end else UNCLASSIFIED
    kind = int(rules.byte_classes[data[at]])
    if kind == UNCLASSIFIED and data[at] >= 0x80:
        code, _ = decode(data, at)
        kind = int(rules.classes[code])
        return STANDALONE if kind == STANDALONE or kind == SPACE else UNCLASSIFIED
    return UNCLASSIFIED if kind == LETTER else kind


@kernel
def write_words(
    data: Bytes, at: int, end: int, rules: WordRules, buffer: WordBuffer, max_characters: int
) -> tuple[int, int, int]:
    """Normalize words of data[at:end] one character at a time and write them to the buffer.

    It stops at the end of the range, when the buffer is full, or when the text continues with ASCII letters, for which
    there is a faster path.

    Args:
        data: The bytes of all texts.
        at: Byte offset of the first word.
        end: End of the range.
        rules: The character tables.
        buffer: Filled with the words.
        max_characters: No further characters of a word are written once it has more than this, but its character count
            then exceeds the limit.

    Returns:
        The byte offset to continue at, the number of words written, and a reason. If no word was written, the reason is
        DONE, NEEDS_BUFFER (the word does not fit) or NEEDS_REFERENCE (a character is UNDECIDED).
    """
    classes, replacements, pool, byte_classes, _ = rules
    text, word_ends, characters = buffer
    begin, start, length, num_characters, num_words = at, 0, 0, 0, 0
    has_foreign, had_foreign = False, False  # whether a word has a letter that is not ASCII
    room, loadable = len(text) - _MAX_TEXT_BYTES, len(data) - 8
    while num_words < len(word_ends):
        code, width, kind = 0, 0, SPACE
        if at < end:
            code, width = decode(data, at)
            kind = int(classes[code])
        if kind == UNDECIDED or start + length > room:
            return begin, num_words, NEEDS_REFERENCE if kind == UNDECIDED else NEEDS_BUFFER
        if kind == LETTER or (kind == STANDALONE and length == 0):
            place = int(np.int64(replacements[code]))
            if num_characters > max_characters:
                num_characters += 1
            elif place != 0:
                first, num_bytes = place >> TEXT_BITS, place & _LENGTH_MASK
                for i in range(0, num_bytes, 8):
                    store8(text, start + length + i, load8(pool, first + i))
                length += num_bytes
                num_characters += place >> LENGTH_BITS & _CHARACTER_MASK
            else:
                store8(text, start + length, load8(data, at) if at <= loadable else load_tail(data, at, end))
                length += width
                num_characters += 1
            at += width
            if kind == LETTER:
                has_foreign = has_foreign or code >= 0x80
                continue
        elif kind == DROPPED:
            at += width
            begin = at if length == 0 else begin
            continue
        if length > 0:
            start += length
            word_ends[num_words], characters[num_words] = start, num_characters
            num_words += 1
            has_foreign, had_foreign = False, has_foreign
        elif kind == SPACE:
            at += width
        begin, length, num_characters = at, 0, 0
        if at >= end or (byte_classes[data[at]] == LETTER and not had_foreign):
            break
    return begin, num_words, DONE


@kernel
def locate_space(data: Bytes, at: int, end: int, rules: WordRules) -> int:
    """Return the byte offset of the next white space in data[at:end], or `end` if there is none.

    `rules` has the class of each character.
    """
    while at < end:
        code, width = decode(data, at)
        if rules.classes[code] == SPACE:
            return at
        at += width
    return end


@kernel
def pack_word(text: Bytes, start: int, length: int) -> tuple[np.uint64, np.uint64]:
    """Return bytes 0-7 and 8-15 of the word text[start:start + length], in the format of `load_ascii_word`.

    `text` must have at least start + 16 bytes.
    """
    return keep_bytes(load8(text, start), length), keep_bytes(load8(text, start + 8), max(0, length - 8))


@kernel
def count_bert_words(
    ranges: Ranges, rules: WordRules, table: WordTable, standalone_counts: Int64s, buffer: WordBuffer, state: Int64s
) -> int:
    """Split the texts of `ranges` into words as BERT does, and count them, resuming from `state`.

    Args:
        ranges: The texts.
        rules: The character tables.
        table: The word counts, which are incremented in place.
        standalone_counts: int64 [128], incremented in place for each ASCII character that is a word by itself. These
            words are not added to the table.
        buffer: Scratch space for normalized words.
        state: int64 [3], updated in place: the index of the current range, the byte offset in the data, and the number
            of words in the buffer that are already counted.

    Returns:
        DONE, or what is needed before calling again: NEEDS_ROOM (a larger table), NEEDS_BUFFER (a larger word buffer)
        or NEEDS_REFERENCE (the text from `state` to the next space must be split with `BertWords.split`).
    """
    data, starts, ends = ranges
    r, at = state[0], state[1]
    packable = len(data) - MAX_PACKED_BYTES + 1  # so far a short word may begin: what comes after is written out
    while r < len(starts):
        end = ends[r]
        while at < end:
            kind = rules.byte_classes[data[at]]
            if kind == SPACE:
                at += 1
                continue
            if kind == STANDALONE:
                standalone_counts[data[at]] += 1
                at += 1
                continue
            if kind == LETTER and at < packable:
                length, low, high = load_ascii_word(data, at, rules.case_bits)
                next_kind = classify_word_end(data, at + length, end, rules)
                if next_kind != UNCLASSIFIED:
                    if not add_short(table, low, high, length, 1):
                        state[0], state[1] = r, at
                        return NEEDS_ROOM
                    at += length + (next_kind == SPACE)
                    continue
            next_at, num_words, stop_reason = write_words(data, at, end, rules, buffer, _NO_LIMIT)
            state[2] = _count_buffered_words(buffer, num_words, table, state[2])
            if state[2] < num_words or (num_words == 0 and stop_reason != DONE):
                state[0], state[1] = r, at if num_words > 0 else next_at
                return NEEDS_ROOM if num_words > 0 else stop_reason
            at, state[2] = next_at, 0
        r += 1
        if r < len(starts):
            at = starts[r]
    return DONE


@kernel
def _count_buffered_words(buffer: WordBuffer, num_words: int, table: WordTable, done: int) -> int:
    """Count the words in the buffer, starting with word `done`.

    Args:
        buffer: The normalized words.
        num_words: Number of words in the buffer.
        table: The word counts, which are incremented in place.
        done: Index of the first word to count.

    Returns:
        The index of the first word that did not fit in the table, or `num_words`.
    """
    text, word_ends, _ = buffer
    for w in range(done, num_words):
        start = word_ends[w - 1] if w > 0 else 0
        length = word_ends[w] - start
        if length <= MAX_PACKED_BYTES:
            low, high = pack_word(text, start, length)
            if not add_short(table, low, high, length, 1):
                return w
        elif not add_long(table, text, start, start + length, 1):
            return w
    return num_words
