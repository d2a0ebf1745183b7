"""The kernels of `tokenizers_train.words.gpt2`: texts are cut where GPT-2's regular expression cuts them.

Promise: the words of `Gpt2Words.split`, which follow each other without a gap; no byte outside a range decides
anything, and none after the end of the buffer is read.

How: eight bytes are put into the four classes at once, and a word of ASCII ends at the first byte that is not of
the class of its first one. Only where that byte is not ASCII, where white space or an apostrophe is first, and
in words of more than eight bytes is a loop needed; it asks a table for the class of a character.

Cost: see `tokenizers_train.words.gpt2`; no allocation: the caller brings all arrays.
"""

import numpy as np

from corpora.kernels.arrays import Bytes, Int64s
from corpora.kernels.compiling import kernel
from corpora.kernels.packed import (
    TOP_BITS,
    ascii_digits,
    ascii_letters,
    ascii_spaces,
    keep_bytes,
    load8,
    trailing_zeros,
)
from corpora.kernels.utf8 import decode_word
from tokenizers_train.words.table import SHORT as LONGEST
from tokenizers_train.words.table import WordTable, add_long, add_short, add_word

LETTER, NUMBER, SPACE, OTHER = 0, 1, 2, 3
NOT_BEGUN = -1  # the place in a range before its first word
BLANK, _APOSTROPHE = ord(" "), ord("'")
_S, _T, _M, _D, _R, _V, _L, _E = ord("s"), ord("t"), ord("m"), ord("d"), ord("r"), ord("v"), ord("l"), ord("e")

_ZERO, _ONE, _SEVEN, _BYTE = np.uint64(0), np.uint64(1), np.uint64(7), np.uint64(0xFF)
_TOP_BIT = np.uint64(0x80)


@kernel
def eight(data: Bytes, at: int) -> np.uint64:
    """The eight bytes at `at`, zeros for those after the end of the buffer (which has eight bytes or more)."""
    place = min(at, len(data) - 8)
    return load8(data, place) >> np.uint64((at - place) << 3)


@kernel
def halves(data: Bytes, at: int, length: int) -> tuple[np.uint64, np.uint64]:
    """The first sixteen bytes of a word as two words of eight, zeros after its end."""
    low, high = eight(data, at), eight(data, min(at + 8, len(data) - 1))
    return keep_bytes(low, length), keep_bytes(high, max(length - 8, 0))


@kernel
def spaced(data: Bytes, at: int, end: int) -> Bytes:
    """The bytes data[at:end] with a space before them, in a buffer of eight bytes or more."""
    word = np.empty(max(end - at + 1, 8), np.uint8)
    word[0] = BLANK
    for i in range(at, end):
        word[i - at + 1] = data[i]
    return word


@kernel
def plain_length(word: np.uint64, room: int) -> int:
    """Return the length of the word that begins these eight bytes, of which `room` are the text's; 0 if unknown.

    It may say more than `room` where the text ends with the word. All kinds of words are looked for at once: a
    question to the processor that needs no answer costs less than one that it answers wrongly.
    """
    first = word & _BYTE
    lead = _ONE if first == BLANK else _ZERO
    letters, digits, spaces = ascii_letters(word), ascii_digits(word), ascii_spaces(word)
    others = ~(letters | digits | spaces | word) & TOP_BITS
    body = (lead << np.uint64(3)) + _SEVEN
    run = letters & (_ZERO - (letters >> body & _ONE))
    run |= digits & (_ZERO - (digits >> body & _ONE))
    run |= others & (_ZERO - (others >> body & _ONE))
    blank = spaces >> body & _ONE
    run |= spaces & (_ZERO - blank)
    stop = ~(run | lead << _SEVEN) & TOP_BITS
    length = trailing_zeros(stop) >> 3
    # A stop at a byte that is not ASCII is none yet; where no run begins, it is at the body itself.
    plain = (stop & (_ZERO - stop) & ~word != _ZERO) & (run != _ZERO) & (first != _APOSTROPHE)
    # White space leaves its last character to what follows, if something does and it is not the only one.
    plain = plain & ((blank == _ZERO) | (length < room))
    length -= int(blank) & (length > 1)
    return length if plain else 0


@kernel
def odd_word_end(data: Bytes, at: int, end: int, classes: Bytes, spaced: bool) -> int:
    """Return where any word ends, by the alternatives of the expression in its order.

    spaced: a space is assumed before the first character of a text, at `at`, which is none. The word may end at
            `at`: it is that space alone.
    """
    word = eight(data, at)
    length = 0 if spaced else _contraction(word, end - at)
    body = at + 1 if word & _BYTE == BLANK and at + 1 < end else at
    code, width = decode_word(eight(data, body))
    kind = int(classes[min(code, len(classes) - 1)])
    last, stop = body, body + width
    same = length == 0
    going = same & (stop < end)
    while going:
        word = eight(data, stop)
        if kind != SPACE and word & _TOP_BIT == 0:
            run = trailing_zeros(~_of_kind(word, kind) & TOP_BITS) >> 3
            stop += run
            same = run == 8 or word >> np.uint64(run << 3) & _TOP_BIT != 0
        else:
            code, width = decode_word(word)
            same = int(classes[min(code, len(classes) - 1)]) == kind
            if same:
                last = stop
                stop += width
        going = same & (stop < end)
    if length:
        stop = at + length
    elif kind == SPACE and not same and (spaced or last > at):
        stop = last  # the last of several white spaces goes with what follows
    return min(stop, end)


@kernel
def _of_kind(word: np.uint64, kind: int) -> np.uint64:
    """0x80 in each byte that is ASCII and of a kind (not white space)."""
    letters, digits = ascii_letters(word), ascii_digits(word)
    others = ~(letters | digits | ascii_spaces(word) | word) & TOP_BITS
    return letters if kind == LETTER else digits if kind == NUMBER else others


@kernel
def _contraction(word: np.uint64, room: int) -> int:
    """Return the bytes of a contraction ('s 't 'm 'd 're 've 'll) that begins a word of eight; 0 for none."""
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
    range_at: Int64s,
) -> bool:
    """Add the words of the ranges from `range_at` on to the table; False, and the place, where one finds no room.

    range_at: the range, and the byte in it or `NOT_BEGUN`
    """
    begun = range_at[1]
    for r in range(range_at[0], len(starts)):
        at, end = starts[r] if begun == NOT_BEGUN else begun, ends[r]
        if add_prefix_space and begun == NOT_BEGUN and at < end and data[at] != BLANK:
            stop = odd_word_end(data, at, end, classes, True)
            if not add_word(table, spaced(data, at, stop), 0, stop - at + 1, 1):
                range_at[0], range_at[1] = r, NOT_BEGUN
                return False
            at = stop
        while at < end:
            length = plain_length(eight(data, at), end - at)
            stop = min(at + length, end) if length else odd_word_end(data, at, end, classes, False)
            low, high = halves(data, at, stop - at)
            if stop - at <= LONGEST:
                added = add_short(table, low, high, stop - at, 1)
            else:
                added = add_long(table, data, at, stop, 1)
            if not added:
                range_at[0], range_at[1] = r, at
                return False
            at = stop
        begun = NOT_BEGUN
    return True
