"""Words as kernels see them: eight bytes at a time, with what the rules count by word.

Promise: `scan` finds the words, lines and paragraphs of `corpora.text.counts.definition` and counts all that is counted
by word; it leaves of every word its place, its length and a key, from which the other kernels continue. Words of up to
eight bytes are their own key; longer ones have a hash, and are compared byte by byte if keys agree.

Cost: 3.3 ns a byte of novels; most words are letters and at most one mark after them, and their bytes are looked at
eight at a time.
"""

from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Bytes, Int32s, Int64s, UInt64s
from corpora.kernels.compiling import kernel
from corpora.kernels.hashing import GOLDEN_RATIO, absorb
from corpora.kernels.packed import CASE_BITS, LOW_SEVEN, ONES, TOP_BITS, flag_letters, from_byte, load8, mask_before
from corpora.kernels.utf8 import decode, find_start_before
from corpora.text.counts.definition import CLOSING, SENTENCE_END, STOP_WORDS

_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
# Small numbers as uint64: next to a plain integer, numba would turn a uint64 into a float.
_0, _1, _3, _8, _56, _58 = (np.uint64(number) for number in (0, 1, 3, 8, 56, 58))
_FROM_MARK = from_byte(0x21)


def _pack_key(word: str) -> int:
    """Return the key of an ASCII word with at most eight letters: its bytes as a little-endian integer."""
    return int.from_bytes(word.encode(), "little")


def _build_stop_table() -> tuple[UInt64s, np.uint64]:
    """Build a hash table of 64 slots for the stop words.

    Return the table, in which each slot contains the key of a word or all ones, and the factor that gives each word its
    own slot.
    """
    keys, factor = [_pack_key(word) for word in STOP_WORDS], int(GOLDEN_RATIO)
    while len({key * factor % (1 << 64) >> 58 for key in keys}) < len(keys):
        factor = (factor + 2) % (1 << 64)
    table = np.full(64, _ALL)
    for key in keys:
        table[key * factor % (1 << 64) >> 58] = key
    return table, np.uint64(factor)


# Constants of the kernels: an array that is passed on would be counted as used again and again.
_STOP_SLOTS, _STOP_FACTOR = _build_stop_table()
_LOREM, _IPSUM = np.uint64(_pack_key("lorem")), np.uint64(_pack_key("ipsum"))
_SENTENCE_END, _CLOSING = tuple(map(ord, SENTENCE_END)), tuple(map(ord, CLOSING))
_ALPHABETIC, _HASH_MARKS, _ELLIPSES, _CURLY, _SENTENCES = range(5)  # of `Scratch.tally`
_LETTER, _COMMA, _ENDER, _OTHER = range(4)
_KINDS = np.full(256, _OTHER, np.uint8)  # of the last byte of a word
_KINDS[[*range(65, 91), *range(97, 123)]] = _LETTER
_KINDS[[*map(ord, ",;:")]] = _COMMA
_KINDS[[*map(ord, ".!?")]] = _ENDER


class Scratch(NamedTuple):
    """Scratch memory for one document, reused for the next. Byte offsets are relative to the document's start.

    text:            the document, followed by zeros
    starts, lengths: first byte and length in bytes of each word
    before:          number of characters in all words before each word, one entry more than words
    keys:            keys of words, later of n-grams
    numbers, counts, active, slots: used by `count_ngrams`
    first_words:     index of each line's first word, one entry more than lines
    widths:          bytes minus characters in all lines before each line, one entry more than lines
    first_lines:     index of each paragraph's first line, one entry more than paragraphs
    hashes:          hashes of lines, later of paragraphs
    tally:           counts of words with a letter, hash marks, ellipses, curly braces and sentence ends
    """

    text: Bytes
    starts: Int32s
    lengths: Int32s
    before: Int32s
    numbers: Int32s
    counts: Int32s
    active: Int32s
    keys: UInt64s
    slots: Int64s
    first_words: Int32s
    widths: Int32s
    first_lines: Int32s
    hashes: UInt64s
    tally: Int64s


class WordTotals(NamedTuple):
    """Totals of a document: numbers of words, lines, paragraphs, newlines, distinct stop words and "lorem ipsum"."""

    words: int
    lines: int
    paragraphs: int
    newlines: int
    stop_words: int
    lorem_ipsum: int


def make_scratch(size: int, words: int, lines: int) -> Scratch:
    """Allocate scratch memory for documents with at most `size` bytes, `words` words and `lines` lines."""
    return Scratch(
        text=np.zeros(size + 16, np.uint8),
        starts=np.zeros(words, np.int32),
        lengths=np.zeros(words, np.int32),
        before=np.zeros(words + 1, np.int32),
        numbers=np.zeros(words, np.int32),
        counts=np.zeros(words, np.int32),
        active=np.zeros(words + 1, np.int32),
        keys=np.zeros(words, np.uint64),
        slots=np.zeros(compute_table_size(max(words, lines)), np.int64),
        first_words=np.zeros(lines + 1, np.int32),
        widths=np.zeros(lines + 1, np.int32),
        first_lines=np.zeros(lines + 1, np.int32),
        hashes=np.zeros(lines, np.uint64),
        tally=np.zeros(5, np.int64),
    )


@kernel
def compute_table_size(entries: int) -> int:
    """Return the smallest power of two that is at least 16 and at least twice `entries`."""
    size = 16
    while size < 2 * entries:
        size *= 2
    return size


@kernel
def measure_longest(data: Bytes, offsets: Int64s) -> tuple[int, int, int]:
    """Return upper bounds for the number of bytes, words and lines in any row of a column."""
    size, words, lines = 1, 1, 1
    for row in range(offsets.size - 1):
        spaces, newlines = 0, 0
        for byte in data[offsets[row] : offsets[row + 1]]:
            spaces += byte <= 32
            newlines += byte == 10
        size = max(size, offsets[row + 1] - offsets[row])
        words, lines = max(words, spaces + 1), max(lines, newlines + 1)
    return size, words, lines


@kernel
def _mask_word(chunk: np.uint64) -> np.uint64:
    """Return a mask for a chunk of eight bytes: 0xFF in each byte before the first white space, and 0 in the others."""
    spaces = ~((chunk & LOW_SEVEN) + _FROM_MARK | chunk) & TOP_BITS
    return mask_before(spaces) if spaces else _ALL


@kernel
def _count_bytes(mask: np.uint64) -> np.int64:
    """Return the number of bytes in a mask that are 0xFF. All other bytes must be 0."""
    return np.int64((mask & ONES) * ONES >> _56)


@kernel
def _has_only_letters(chunk: np.uint64, mask: np.uint64) -> bool:
    """Return True if all bytes of a chunk that the mask selects (with 0xFF) are ASCII letters."""
    return bool((flag_letters(chunk) | ~mask) & TOP_BITS == TOP_BITS)


@kernel
def _read_long_word(text: Bytes, at: np.int64) -> tuple[np.int64, np.uint64, bool]:
    """Read a word of eight bytes or more that begins at byte `at`.

    Return its length in bytes, its key, and True if all bytes but the last are ASCII letters.
    """
    chunk = load8(text, at)
    key, length, letters = chunk, np.int64(8), True
    while True:
        ahead = load8(text, at + length)
        mask = _mask_word(ahead)
        letters = letters and _has_only_letters(chunk, _ALL if mask else _ALL >> _8)
        if mask == _0:
            return length, key, letters
        key = absorb(key, ahead & mask)
        length += _count_bytes(mask)
        if mask != _ALL:
            return length, key, letters and _has_only_letters(ahead, mask >> _8)
        chunk = ahead


@kernel
def scan(size: int, scratch: Scratch) -> WordTotals:
    """Split the document in the first `size` bytes of `scratch.text` into words, lines and paragraphs.

    The other arrays of the scratch memory are filled, as `Scratch` describes, and the totals are returned. The document
    must be followed by 16 zeros.
    """
    text, first_words, widths, first_lines = scratch.text, scratch.first_words, scratch.widths, scratch.first_lines
    starts, lengths, before, keys = scratch.starts, scratch.lengths, scratch.before, scratch.keys
    words, lines, paragraphs, characters, width, newlines, breaks = 0, 0, 0, np.int64(0), 0, 0, 2
    alphabetic, lorem_ipsum, sentences, seen, core, at = 0, 0, 0, _0, _0, np.int64(0)
    scratch.tally[:] = 0
    while True:
        at, passed = _skip_spaces(text, at, size)
        newlines, breaks = newlines + passed, breaks + passed
        if at >= size:
            break
        if breaks:
            first_words[lines], widths[lines] = words, width
            if breaks > 1:
                first_lines[paragraphs] = lines
                paragraphs += 1
            lines, breaks = lines + 1, 0
        chunk, last = load8(text, at), core
        mask = _mask_word(chunk)
        length, key, letters = _count_bytes(mask), chunk & mask, _has_only_letters(chunk, mask >> _8)
        if mask == _ALL:
            length, key, letters = _read_long_word(text, at)
            if length > 8:
                mask = _0  # it has no core
        starts[words], lengths[words], keys[words], before[words] = at, length, key, characters
        words += 1
        characters += length
        kind = _KINDS[text[at + length - 1]] | (not letters) << 2
        if kind <= _ENDER:  # nearly all words: letters, and one mark after them
            mask >>= np.uint64(kind != _LETTER) << _3
            alphabetic += (kind == _LETTER) | (length > 1)
            sentences += kind == _ENDER
            core = (key | CASE_BITS) & mask
        else:
            core, extra = _count_marks(text, at, at + length, scratch.tally)
            width, characters = width + extra, characters - extra
        slot = core * _STOP_FACTOR >> _58
        seen |= np.uint64(_STOP_SLOTS[slot] == core) << slot
        lorem_ipsum += (core == _IPSUM) & (last == _LOREM)
        at += length
    before[words], first_words[lines], widths[lines] = characters, words, width
    first_lines[paragraphs] = lines
    scratch.tally[_ALPHABETIC] += alphabetic
    scratch.tally[_SENTENCES] += sentences
    return WordTotals(words, lines, paragraphs, newlines, _count_bits(seen), lorem_ipsum)


@kernel
def _skip_spaces(text: Bytes, at: np.int64, size: int) -> tuple[np.int64, int]:
    """Skip white space from byte `at` on. Return the index of the next byte (at most `size`), and the number of
    newlines.
    """
    newlines = 0
    while text[at] <= 32 and at < size:
        newlines += text[at] == 10
        at += 1
    return at, newlines


@kernel
def _count_bits(bits: np.uint64) -> int:
    """Return the number of bits of a word that are 1."""
    number = 0
    while bits:
        bits &= bits - _1
        number += 1
    return number


@kernel
def _count_marks(text: Bytes, start: np.int64, end: np.int64, tally: Int64s) -> tuple[np.uint64, int]:
    """Update the counts in `tally` (see `Scratch.tally`) for a word that contains characters other than letters.

    Args:
        text: The document in UTF-8.
        start: First byte of the word.
        end: Byte after the word.
        tally: int64 [5], modified in place.

    Returns:
        The key of the word without surrounding punctuation (see `_pack_core`), and the number of its bytes minus the
        number of its characters.
    """
    extra, letters, hash_marks, ellipses, curly, sentences, dots, ender = 0, 0, 0, 0, 0, 0, 0, False
    for at in range(start, end):
        byte = text[at]
        if 97 <= (byte | 32) <= 122:
            letters, dots = 1, 0
            continue
        extra += byte & 0xC0 == 0x80
        letters |= byte >= 0x80
        ender |= byte >= 0x80 or byte == 33 or byte == 46 or byte == 63
        dots = dots + 1 if byte == 46 else 0
        ellipses += dots == 3
        hash_marks += byte == 35
        curly += byte == 123 or byte == 125
        if byte >= 0xE0:
            code, _ = decode(text, at)
            ellipses += code == 0x2026
            sentences += code == 0x3002 or code == 0xFF01 or code == 0xFF1F
    if ender:
        sentences += _is_sentence_end(text, int(start), int(end))
    tally[_ALPHABETIC] += letters
    tally[_HASH_MARKS] += hash_marks
    tally[_ELLIPSES] += ellipses
    tally[_CURLY] += curly
    tally[_SENTENCES] += sentences
    return _pack_core(text, start, end), extra


@kernel
def _is_sentence_end(text: Bytes, start: int, end: int) -> bool:
    """Return True if the word in text[start:end] ends with sentence punctuation, ignoring closing marks after it."""
    while end > start:
        if 97 <= (text[end - 1] | 32) <= 122:
            return False
        end = find_start_before(text, end)
        code, _ = decode(text, end)
        if not _is_among(_CLOSING, code):
            return _is_among(_SENTENCE_END, code)
    return False


@kernel
def _pack_core(text: Bytes, start: np.int64, end: np.int64) -> np.uint64:
    """Return the key of the word in text[start:end] in lower case, without ASCII punctuation at its ends.

    The result is 0 if nothing or more than eight bytes remain.
    """
    while start < end and not _is_alphanumeric(text[start]):
        start += 1
    while start < end and not _is_alphanumeric(text[end - 1]):
        end -= 1
    if start == end or end - start > 8:
        return _0
    unused = np.uint64(64 - 8 * (end - start))
    return (load8(text, start) | CASE_BITS) << unused >> unused


@kernel
def _is_alphanumeric(byte: int) -> bool:
    """Return True if a byte is an ASCII letter or digit, or part of a non-ASCII character."""
    return byte >= 0x80 or 48 <= byte <= 57 or 97 <= (byte | 32) <= 122


@kernel
def _is_among(codes: tuple[int, ...], code: int) -> bool:
    """Return True if a code point is in a tuple of constants."""
    for member in codes:
        if member == code:
            return True
    return False
