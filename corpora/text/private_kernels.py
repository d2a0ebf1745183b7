"""Which lines may hold something private: a gate before patterns that read a few MB a second.

Promise: every line in which `corpora.text.private_patterns.private_spans` finds something is named, with the
kinds that it may hold; now and then another (of books, one in 1,900 is named). Cost: one pass over the bytes,
970 MB a second on books.
"""

from functools import cache

import numpy as np

from corpora.duplicates.shingles import (
    CASE_BITS,
    FROM_CAPITAL,
    FROM_DIGIT,
    FROM_SMALL,
    HIGH,
    LOW7,
    ONES,
    PAST_SMALL,
    load_bytes,
)
from corpora.kernels import kernel
from corpora.text.codepoints import Bytes, Integers

EMAIL, IP, PHONE = 1, 2, 4  # bits of the kinds, in the order of KINDS
LEAST_DIGITS = 7
# Added to a byte of seven bits, they set its high bit if it is above a colon, or an @ and above.
PAST_COLON, FROM_AT = ONES * np.uint64(0x80 - 0x3B), ONES * np.uint64(0x80 - 0x40)
# What a byte is to the gate, as bits.
_DIGIT, _HEX, _IN_ADDRESS, _IN_PHONE = 1, 2, 4, 8


@cache
def byte_signs() -> Bytes:
    """What each byte may belong to: an IP address (hexadecimal digits, marks), a telephone number."""
    signs = np.zeros(256, np.uint8)
    signs[list(b"0123456789")] |= _DIGIT
    signs[list(b"0123456789abcdefABCDEF:.")] |= _IN_ADDRESS
    signs[list(b"0123456789 .-/()+")] |= _IN_PHONE
    signs[0x80:] |= _IN_PHONE  # no-break spaces and typographic dashes; anything else there is let through
    signs.flags.writeable = False
    return signs


@kernel
def private_lines(
    data: Bytes, offsets: Integers, wanted: int, signs: Bytes
) -> tuple[Integers, Integers, Integers, Integers]:
    """Lines that may hold one of the wanted kinds (a sum of bits): row, first byte, place behind it, kinds."""
    found, size = np.empty((4, 16), np.int64), 0
    for row in range(offsets.size - 1):
        start, stop = offsets[row], offsets[row + 1]
        at = _next_sign(data, start, stop, signs)
        while at < stop:
            while at > start and data[at - 1] != 10:
                at -= 1
            end, kinds = _line_kinds(data, at, stop, signs)
            if kinds & wanted:
                if size == found.shape[1]:
                    grown = np.empty((4, 2 * size), np.int64)
                    grown[:, :size] = found
                    found = grown
                found[0, size], found[1, size], found[2, size], found[3, size] = row, at, end, kinds & wanted
                size += 1
            start = min(end + 1, stop)
            at = _next_sign(data, start, stop, signs)
    return found[0, :size], found[1, :size], found[2, :size], found[3, :size]


@kernel
def _next_sign(data: Bytes, at: int, stop: int, signs: Bytes) -> int:
    """Where something of a kind may first be, eight bytes at a time; `stop` where nothing is.

    Eight bytes without a digit, a colon or an @ are in no address. Neither are they in a telephone number if
    there is a letter among them; without one the digits are counted on, for nothing but marks parts them.
    """
    digits, dots, colons, before = 0, 0, 0, 0
    while at < stop:
        chunk = load_bytes(data, np.int64(at), stop)
        seven = chunk & LOW7
        folded = seven | CASE_BITS
        telling = (seven + FROM_DIGIT) & ~(seven + PAST_COLON) | (seven + FROM_AT) & ~(seven + FROM_CAPITAL)
        if telling & ~chunk & HIGH:
            for place in range(at, min(at + 8, stop)):
                sign = int(signs[data[place]])
                digits = digits + (sign & _DIGIT) if sign & _IN_PHONE else 0
                dots = dots + (data[place] == 46 and before & _DIGIT) if sign & _IN_ADDRESS else 0
                colons = colons + (data[place] == 58) if sign & _IN_ADDRESS else 0
                before = sign
                if data[place] == 64 or digits >= LEAST_DIGITS or dots >= 3 or colons >= 2:
                    return place
        else:
            dots = colons = before = 0
            if (folded + FROM_SMALL) & ~(folded + PAST_SMALL) & ~chunk & HIGH:
                digits = 0
        at += 8
    return stop


@kernel
def _line_kinds(data: Bytes, at: int, stop: int, signs: Bytes) -> tuple[int, int]:
    """Where the line that begins at `at` ends, and the kinds it may hold."""
    kinds, digits, dots, colons, before = 0, 0, 0, 0, 0
    while at < stop and data[at] != 10:
        byte = data[at]
        sign = int(signs[byte])
        if sign & _IN_PHONE:
            digits += sign & _DIGIT
            if digits >= LEAST_DIGITS:
                kinds |= PHONE
        else:
            digits = 0
            if byte == 64:
                kinds |= EMAIL
        if sign & _IN_ADDRESS:
            dots += byte == 46 and before & _DIGIT
            colons += byte == 58
            if dots >= 3 or colons >= 2:
                kinds |= IP
        else:
            dots = colons = 0
        before = sign
        at += 1
    return at, kinds
