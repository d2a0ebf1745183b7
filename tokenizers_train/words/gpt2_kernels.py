"""The kernels of `tokenizers_train.words.gpt2`: texts are cut as GPT-2's regular expression cuts them.

Promise: the words of `Gpt2Words.split`, which follow each other without a gap; no byte outside a range decides
anything, and none after the end of the buffer is read.

How: eight bytes are put into the four classes at once, and a word of ASCII ends at the first byte that is not of the
class of its first one. A loop that asks a table for the class of a character is only needed if that byte is not ASCII,
if white space or an apostrophe is first, and in words of more than eight bytes.

Cost: see `tokenizers_train.words.gpt2`; no allocation: the caller brings all arrays.
"""

import numpy as np

from corpora.kernels.arrays import Bytes, Int64s
from corpora.kernels.compiling import kernel
from corpora.kernels.packed import (
    TOP_BITS,
    flag_digits,
    flag_letters,
    flag_spaces,
    keep_bytes,
    load8,
    trailing_zeros,
)
from corpora.kernels.utf8 import decode_word
from tokenizers_train.words.table import MAX_SHORT_BYTES, WordTable, add_long, add_short, add_word

LETTER, NUMBER, SPACE, OTHER = 0, 1, 2, 3
NOT_STARTED = -1  # the place in a range before its first word
BLANK, _APOSTROPHE = ord(" "), ord("'")
_S, _T, _M, _D, _R, _V, _L, _E = ord("s"), ord("t"), ord("m"), ord("d"), ord("r"), ord("v"), ord("l"), ord("e")

_ZERO, _ONE, _SEVEN, _BYTE = np.uint64(0), np.uint64(1), np.uint64(7), np.uint64(0xFF)
_TOP_BIT = np.uint64(0x80)


@kernel
def load8_padded(data: Bytes, at: int) -> np.uint64:
    """Load the eight bytes at index `at` into a word. The first byte is the lowest.

    Bytes after the end of `data` are zero. `data` must have at least eight bytes.
    """
    place = min(at, len(data) - 8)
    return load8(data, place) >> np.uint64((at - place) << 3)


@kernel
def load16_padded(data: Bytes, at: int, length: int) -> tuple[np.uint64, np.uint64]:
    """Load bytes 0-7 and 8-15 of the word of `length` bytes at byte offset `at`. Bytes after the word's end are zero.

    `data` must have at least eight bytes.
    """
    low, high = load8_padded(data, at), load8_padded(data, min(at + 8, len(data) - 1))
    return keep_bytes(low, length), keep_bytes(high, max(length - 8, 0))


@kernel
def prepend_space(data: Bytes, at: int, end: int) -> Bytes:
    """Return a copy of data[at:end] with a space before it: uint8, end - at + 1 bytes, but at least eight.

    Bytes after the text, which are only there if it is shorter, are not initialized.
    """
    word = np.empty(max(end - at + 1, 8), np.uint8)
    word[0] = BLANK
    for i in range(at, end):
        word[i - at + 1] = data[i]
    return word


@kernel
def compute_plain_length(word: np.uint64, room: int) -> int:
    """Return the length of the word at the start of `word` in bytes, or 0 if `locate_word_end` must be called.

    The length may exceed `room` if the word reaches the end of the text. All kinds of words are checked without
    branching, because an unneeded check costs less than a mispredicted branch.

    Args:
        word: Eight bytes of text. The first one is the lowest byte of the integer.
        room: Number of bytes from the start of the word to the end of the text.
    """
    first = word & _BYTE
    lead = _ONE if first == BLANK else _ZERO
    letters, digits, spaces = flag_letters(word), flag_digits(word), flag_spaces(word)
    others = ~(letters | digits | spaces | word) & TOP_BITS
    body = (lead << np.uint64(3)) + _SEVEN
    run = letters & (_ZERO - (letters >> body & _ONE))
    run |= digits & (_ZERO - (digits >> body & _ONE))
    run |= others & (_ZERO - (others >> body & _ONE))
    blank = spaces >> body & _ONE
    run |= spaces & (_ZERO - blank)
    stops = ~(run | lead << _SEVEN) & TOP_BITS
    length = trailing_zeros(stops) >> 3
    # A stop at a byte that is not ASCII is none yet; where no run begins, it is at the body itself.
    plain = (stops & (_ZERO - stops) & ~word != _ZERO) & (run != _ZERO) & (first != _APOSTROPHE)
    # White space leaves its last character to what follows, if something does and it is not the only one.
    plain = plain & ((blank == _ZERO) | (length < room))
    length -= int(blank) & (length > 1)
    return length if plain else 0


@kernel
def locate_word_end(data: Bytes, at: int, end: int, classes: Bytes, has_assumed_space: bool) -> int:
    """Return the byte offset of the end of the word at `at`, trying the alternatives of GPT-2's expression in order.

    Args:
        data: The bytes of all texts, from `to_kernel_buffer`.
        at: Byte offset of the word.
        end: End of the text.
        classes: uint8 [0x40000], the class of each code point: LETTER, NUMBER, SPACE or OTHER.
        has_assumed_space: Whether to treat the text as if a space preceded `at`. The character at `at` must then not be
            a space. If the word is only the assumed space, `at` is returned.
    """
    word = load8_padded(data, at)
    length = 0 if has_assumed_space else _measure_contraction(word, end - at)
    body = at + 1 if word & _BYTE == BLANK and at + 1 < end else at
    code, width = decode_word(load8_padded(data, body))
    kind = int(classes[min(code, len(classes) - 1)])
    last, stop = body, body + width
    is_same_class = length == 0
    goes_on = is_same_class & (stop < end)
    while goes_on:
        word = load8_padded(data, stop)
        if kind != SPACE and word & _TOP_BIT == 0:
            run = trailing_zeros(~_mark_kind(word, kind) & TOP_BITS) >> 3
            stop += run
            is_same_class = run == 8 or word >> np.uint64(run << 3) & _TOP_BIT != 0
        else:
            code, width = decode_word(word)
            is_same_class = int(classes[min(code, len(classes) - 1)]) == kind
            if is_same_class:
                last = stop
                stop += width
        goes_on = is_same_class & (stop < end)
    if length:
        stop = at + length
    elif kind == SPACE and not is_same_class and (has_assumed_space or last > at):
        stop = last  # the last of several white spaces goes with what follows
    return min(stop, end)


@kernel
def _mark_kind(word: np.uint64, kind: int) -> np.uint64:
    """Return 0x80 in each of the eight bytes of `word` that is ASCII and of the class `kind`, and 0 in the others.

    The class must not be SPACE.
    """
    letters, digits = flag_letters(word), flag_digits(word)
    others = ~(letters | digits | flag_spaces(word) | word) & TOP_BITS
    return letters if kind == LETTER else digits if kind == NUMBER else others


@kernel
def _measure_contraction(word: np.uint64, room: int) -> int:
    """Return the length in bytes of the English contraction at the start of a word, or 0 if there is none.

    Contractions are 's 't 'm 'd 're 've 'll.

    `word` has eight bytes, the first one lowest, and `room` is the number of these bytes that belong to the text.
    """
    first, second, third = word & _BYTE, word >> np.uint64(8) & _BYTE, word >> np.uint64(16) & _BYTE
    length = 0
    if first == _APOSTROPHE and room > 1:
        if second == _S or second == _T or second == _M or second == _D:
            length = 2
        elif room > 2 and ((third == _E and (second == _R or second == _V)) or (third == _L and second == _L)):
            length = 3
    return length


@kernel
def count_gpt2_words(
    data: Bytes,
    starts: Int64s,
    ends: Int64s,
    classes: Bytes,
    add_prefix_space: bool,
    table: WordTable,
    position: Int64s,
) -> bool:
    """Split the texts data[starts[r]:ends[r]] into words as GPT-2 does, and count them, resuming from `position`.

    Args:
        data: The bytes of all texts, from `to_kernel_buffer`.
        starts: int64 [texts], the first byte of each text.
        ends: int64 [texts], the end of each text.
        classes: uint8 [0x40000], the class of each code point: LETTER, NUMBER, SPACE or OTHER.
        add_prefix_space: Whether to put a space before a text that does not begin with one.
        table: The word counts, which are incremented in place.
        position: int64 [2], the index of the current text, and the byte offset in the data, or `NOT_STARTED` for the
            start of the text.

    Returns:
        True if all words are counted. False if the table is full: `position` is then set to the first word that did not
        fit. Grow the table and call again.
    """
    first_byte = position[1]
    for r in range(position[0], len(starts)):
        at, end = starts[r] if first_byte == NOT_STARTED else first_byte, ends[r]
        if add_prefix_space and first_byte == NOT_STARTED and at < end and data[at] != BLANK:
            stop = locate_word_end(data, at, end, classes, True)
            if not add_word(table, prepend_space(data, at, stop), 0, stop - at + 1, 1):
                position[0], position[1] = r, NOT_STARTED
                return False
            at = stop
        while at < end:
            length = compute_plain_length(load8_padded(data, at), end - at)
            stop = min(at + length, end) if length else locate_word_end(data, at, end, classes, False)
            low, high = load16_padded(data, at, stop - at)
            if stop - at <= MAX_SHORT_BYTES:
                is_added = add_short(table, low, high, stop - at, 1)
            else:
                is_added = add_long(table, data, at, stop, 1)
            if not is_added:
                position[0], position[1] = r, at
                return False
            at = stop
        first_byte = NOT_STARTED
    return True
