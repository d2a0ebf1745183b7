"""Finds lines that may contain private data: a filter in front of patterns that read a few MB a second.

Promise: every line in which `corpora.judging.steps.privacy.find_private_spans` finds something is found, with the kinds
that it may contain, and occasionally another line (in books, one line in 1,900 is found). Cost: one pass over the
bytes, 970 MB a second on books.
"""

from functools import cache

import numpy as np

from corpora.kernels.arrays import Bytes, Int64s
from corpora.kernels.compiling import kernel
from corpora.kernels.packed import FROM_CAPITAL, FROM_DIGIT, LOW_SEVEN, TOP_BITS, flag_letters, from_byte, load_up_to

EMAIL, IP, PHONE = 1, 2, 4  # bits of the kinds, in the order of KINDS
MIN_DIGITS = 7
_PAST_COLON, _FROM_AT = from_byte(ord(":") + 1), from_byte(ord("@"))
# What a byte is to the gate, as bits.
_DIGIT, _HEX, _IN_ADDRESS, _IN_PHONE = 1, 2, 4, 8


@cache
def build_byte_signs() -> Bytes:
    """Build a lookup table that tells in which kinds of private data each byte value may occur: uint8 [256].

    The values are sums of bit flags: the byte is a digit, may occur in an IP address, or may occur in a telephone
    number. The table is cached.
    """
    signs = np.zeros(256, np.uint8)
    signs[list(b"0123456789")] |= _DIGIT
    signs[list(b"0123456789abcdefABCDEF:.")] |= _IN_ADDRESS
    signs[list(b"0123456789 .-/()+")] |= _IN_PHONE
    signs[0x80:] |= _IN_PHONE  # no-break spaces and typographic dashes; anything else there is let through
    signs.flags.writeable = False
    return signs


@kernel
def find_private_lines(
    data: Bytes, offsets: Int64s, wanted: int, signs: Bytes
) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Find the lines that may contain data of one of the wanted kinds.

    Args:
        data: UTF-8 bytes of all rows.
        offsets: int64 [n + 1], the first byte of each row in `data`.
        wanted: Sum of the bit flags EMAIL, IP and PHONE.
        signs: Lookup table, from `build_byte_signs`.

    Returns:
        Four int64 arrays with one entry for each line that is found: its row, its first byte in `data`, the byte after
        it, and its possible kinds (bit flags).
    """
    lines, size = np.empty((4, 16), np.int64), 0
    for row in range(offsets.size - 1):
        start, stop = offsets[row], offsets[row + 1]
        at = _find_next_sign(data, start, stop, signs)
        while at < stop:
            while at > start and data[at - 1] != 10:
                at -= 1
            end, kinds = _find_line_kinds(data, at, stop, signs)
            if kinds & wanted:
                if size == lines.shape[1]:
                    grown = np.empty((4, 2 * size), np.int64)
                    grown[:, :size] = lines
                    lines = grown
                lines[0, size], lines[1, size], lines[2, size], lines[3, size] = row, at, end, kinds & wanted
                size += 1
            start = min(end + 1, stop)
            at = _find_next_sign(data, start, stop, signs)
    return lines[0, :size], lines[1, :size], lines[2, :size], lines[3, :size]


@kernel
def _find_next_sign(data: Bytes, at: int, stop: int, signs: Bytes) -> int:
    """Find the next byte between `at` and `stop` that may indicate private data, or `stop` if there is none.

    Eight bytes are checked at a time. Eight bytes without a digit, a colon or an @ cannot be part of an address. If
    they contain a letter, they cannot be part of a telephone number either. Otherwise the count of digits continues,
    because only punctuation separates them. `signs` is the table from `build_byte_signs`.
    """
    digits, dots, colons, before = 0, 0, 0, 0
    while at < stop:
        chunk = load_up_to(data, np.int64(at), stop)
        seven = chunk & LOW_SEVEN
        telling = (seven + FROM_DIGIT) & ~(seven + _PAST_COLON) | (seven + _FROM_AT) & ~(seven + FROM_CAPITAL)
        if telling & ~chunk & TOP_BITS:
            for place in range(at, min(at + 8, stop)):
                sign = int(signs[data[place]])
                digits = digits + (sign & _DIGIT) if sign & _IN_PHONE else 0
                dots = dots + (data[place] == 46 and before & _DIGIT) if sign & _IN_ADDRESS else 0
                colons = colons + (data[place] == 58) if sign & _IN_ADDRESS else 0
                before = sign
                if data[place] == 64 or digits >= MIN_DIGITS or dots >= 3 or colons >= 2:
                    return place
        else:
            dots = colons = before = 0
            if flag_letters(chunk):
                digits = 0
        at += 8
    return stop


@kernel
def _find_line_kinds(data: Bytes, at: int, stop: int, signs: Bytes) -> tuple[int, int]:
    """Return the end of the line that begins at byte `at`, and the kinds of data that it may contain.

    The kinds are a sum of EMAIL, IP and PHONE. `stop` is the end of the row, and `signs` the table from
    `build_byte_signs`.
    """
    kinds, digits, dots, colons, before = 0, 0, 0, 0, 0
    while at < stop and data[at] != 10:
        byte = data[at]
        sign = int(signs[byte])
        if sign & _IN_PHONE:
            digits += sign & _DIGIT
            if digits >= MIN_DIGITS:
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
