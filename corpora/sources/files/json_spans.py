"""Values in lines of JSON, found by a compiled kernel without making objects of the rest.

Promise: a line that is called plain is JSON to Python's parser too, a named value is found as that parser would find
it, and a text has the bytes of its string. What is rare goes that long way: no object, a key twice or with an escape,
NaN, numbers of thousands of digits, brackets deeper than 60, half a character.
Cost: 1 ns a byte, the copying of texts included. The plain twin is `json.loads` (RFC 8259).
"""

import numpy as np

from corpora.kernels.arrays import Bools, Bytes, Int64s, Integer
from corpora.kernels.compiling import kernel
from corpora.kernels.packed import below_bits, equal_bits, load8, store8, trailing_zeros

MAX_DEPTH, MAX_DIGITS = 60, 4_000
ABSENT = -1
_FIRST_KEY, _KEY, _FIRST_VALUE, _VALUE, _AFTER = range(5)
_SPACE, _QUOTE, _BACKSLASH, _COMMA, _COLON, _MINUS, _PLUS, _POINT, _ZERO, _U = b' "\\,:-+.0u'
_OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST = b"{}[]"
_LITERALS = np.frombuffer(b"true\0null\0false", np.uint8)
_PLAIN = np.array([byte >= 0x20 and byte not in b'"\\' for byte in range(256)])  # of a string, as they are
_ESCAPED = np.zeros(256, np.uint8)
_ESCAPED[list(b'"\\/bfnrt')] = list(b'"\\/\b\f\n\r\t')
_HEX = np.full(256, -1)
_HEX[list(b"0123456789abcdefABCDEF")] = [*range(16), *range(10, 16)]


@kernel
def find_spans(
    data: Bytes, starts: Int64s, ends: Int64s, names: Bytes, name_ends: Int64s, spans: Int64s, plain: Bools
) -> None:
    """Find the values of named keys in lines of JSON, without building objects.

    Args:
        data: UTF-8 bytes; line i is data[starts[i]:ends[i]].
        starts, ends: Start and end of each line in `data`.
        names: The wanted keys in UTF-8, concatenated.
        name_ends: The end of each key in `names`.
        spans: int64 `(lines, names, 2)`, initialized to ABSENT by the caller. Filled with the first byte of each value
            and the byte after it.
        plain: bool `(lines,)`. Set to False for lines that must be fully parsed instead; their spans are undefined.
    """
    for row in range(len(starts)):
        plain[row] = _read_object(data, starts[row], ends[row], names, name_ends, spans[row])


@kernel
def _read_object(data: Bytes, at: Integer, end: Integer, names: Bytes, name_ends: Int64s, spans: Int64s) -> bool:
    """Find the values of named keys in one line of JSON.

    Args:
        data: UTF-8 bytes.
        at, end: The line is data[at:end].
        names: The wanted keys in UTF-8, concatenated.
        name_ends: The end of each key in `names`.
        spans: int64 `(names, 2)`, initialized to ABSENT. Filled with the first byte of each value and the byte after
            it.

    Returns:
        False if the line must be fully parsed instead.
    """
    name: Integer = ABSENT
    begin = at
    nested, depth, state = np.uint64(0), 0, _VALUE  # nested: a bit for each bracket, 1 for {
    while True:
        while at < end and (data[at] == 32 or data[at] == 9 or data[at] == 13):
            at += 1
        if at >= end:
            return depth == 0 and state == _AFTER
        byte = data[at]
        if state <= _KEY and byte == _QUOTE:
            close = _find_string_end(data, at + 1, end)
            if close < 0:
                return False
            if depth == 1:
                name = _find_name(data, at + 1, close - 1, names, name_ends)
                if name == -2 or (name >= 0 and spans[name, 0] >= 0):
                    return False
            at = close
            while at < end and (data[at] == 32 or data[at] == 9 or data[at] == 13):
                at += 1
            if at >= end or data[at] != _COLON:
                return False
            at += 1
            state = _VALUE
            continue
        is_object = nested & np.uint64(1) == 1
        may_close = depth > 0 and (state == _AFTER or state == _FIRST_KEY or state == _FIRST_VALUE)
        if may_close and byte == (_CLOSE if is_object else _CLOSE_LIST):
            depth -= 1
            nested >>= np.uint64(1)
            at += 1
            state = _AFTER
        elif state == _AFTER:
            if depth == 0 or byte != _COMMA:
                return False
            at += 1
            state = _KEY if is_object else _VALUE
            continue
        elif state <= _KEY:
            return False
        else:
            if depth == 1:
                begin = at
            if byte == _OPEN or (byte == _OPEN_LIST and depth):
                if depth == MAX_DEPTH:
                    return False
                depth += 1
                nested = nested << np.uint64(1) | np.uint64(byte == _OPEN)
                state = _FIRST_KEY if byte == _OPEN else _FIRST_VALUE
                at += 1
                continue
            if depth == 0:
                return False
            at = _find_string_end(data, at + 1, end) if byte == _QUOTE else _find_scalar_end(data, at, end)
            if at < 0:
                return False
            state = _AFTER
        if depth == 1 and name >= 0:
            spans[name, 0], spans[name, 1] = begin, at
            name = ABSENT


@kernel
def _find_string_end(data: Bytes, at: Integer, end: Integer) -> Integer:
    """Return the index after the closing quote of a JSON string, or -1 if the string is invalid or not closed.

    Args:
        data: UTF-8 bytes.
        at: Index of the first byte after the opening quote.
        end: End of the line.
    """
    while at < end:
        if at + 64 <= end:
            others = equal_bits(data, at, _QUOTE) | equal_bits(data, at, _BACKSLASH) | below_bits(data, at, _SPACE)
            step = trailing_zeros(others)
            at += step
            if step == 64:
                continue
        if _PLAIN[data[at]]:
            at += 1
        elif data[at] == _QUOTE:
            return at + 1
        elif data[at] != _BACKSLASH or at + 1 >= end:
            return -1
        elif _ESCAPED[data[at + 1]]:
            at += 2
        elif data[at + 1] == _U and at + 6 <= end and _read_four_digits(data, at + 2) >= 0:
            at += 6
        else:
            return -1
    return -1


@kernel
def _read_four_digits(data: Bytes, at: Integer) -> Integer:
    """Parse the four hexadecimal digits at index `at`. Return their value, or -1 if they are not hexadecimal digits."""
    number = np.int64(0)
    for place in range(at, at + 4):
        digit = _HEX[data[place]]
        if digit < 0:
            return -1
        number = number * 16 + digit
    return number


@kernel
def _find_scalar_end(data: Bytes, at: Integer, end: Integer) -> Integer:
    """Return the index after the number, true, false or null at `at`, or -1 if there is none before `end`.

    Return -1 also for a number of 4,000 or more characters.
    """
    for literal, size in ((0, 4), (5, 4), (10, 5)):
        if data[at] == _LITERALS[literal]:
            return at + size if _is_equal(data, at, end, _LITERALS, literal, size) else -1
    start = at
    at += data[at] == _MINUS
    zero = at < end and data[at] == _ZERO
    digits = _find_digits_end(data, at, end)
    if digits == at or (zero and digits > at + 1):
        return -1
    at = digits
    if at < end and data[at] == _POINT:
        digits = _find_digits_end(data, at + 1, end)
        if digits == at + 1:
            return -1
        at = digits
    if at < end and data[at] | 0x20 == 0x65:
        at += 1
        at += at < end and (data[at] == _MINUS or data[at] == _PLUS)
        digits = _find_digits_end(data, at, end)
        if digits == at:
            return -1
        at = digits
    return at if at - start < MAX_DIGITS else -1


@kernel
def _find_digits_end(data: Bytes, at: Integer, end: Integer) -> Integer:
    """Return the index of the first byte in `data[at:end]` that is not a decimal digit; `end` if all are digits."""
    while at < end and 48 <= data[at] <= 57:
        at += 1
    return at


@kernel
def _find_name(data: Bytes, start: Integer, end: Integer, names: Bytes, name_ends: Int64s) -> Integer:
    """Return the index of the wanted key that equals data[start:end].

    Args:
        data: UTF-8 bytes.
        start, end: The range of the key in `data`, without its quotes.
        names: The wanted keys in UTF-8, concatenated.
        name_ends: The end of each key in `names`.

    Returns:
        The index in the list of wanted keys; ABSENT (-1) if the key is not wanted, -2 if it contains an escape.
    """
    for at in range(start, end):
        if data[at] == _BACKSLASH:
            return -2
    begin = np.int64(0)
    for name in range(len(name_ends)):
        size = name_ends[name] - begin
        if size == end - start and _is_equal(data, start, end, names, begin, size):
            return name
        begin = name_ends[name]
    return ABSENT


@kernel
def _is_equal(data: Bytes, at: Integer, end: Integer, others: Bytes, other: Integer, size: Integer) -> bool:
    """Return True if the `size` bytes of `data` at index `at` equal the `size` bytes of `others` at index `other`.

    Return False if the bytes in `data` reach beyond the index `end`.
    """
    if at + size > end:
        return False
    for place in range(size):
        if data[at + place] != others[other + place]:
            return False
    return True


@kernel
def copy_strings(data: Bytes, starts: Int64s, ends: Int64s, out: Bytes, offsets: Int64s, plain: Bools) -> None:
    """Copy JSON strings to `out` as UTF-8, with escapes replaced.

    Args:
        data: JSON bytes; string i is data[starts[i]:ends[i]], including its quotes.
        starts, ends: Start and end of each string in `data`. A string that starts at ABSENT is empty.
        out: Filled with the concatenated strings. Its size must be at least the sum of ends - starts.
        offsets: int64 `(n + 1,)`, with 0 at index 0. Filled with the end of each string in `out`, from index 1 on.
        plain: bool `(n,)`. Set to False for strings that contain an unpaired surrogate.
    """
    to = np.int64(0)
    for row in range(len(starts)):
        at, end = starts[row] + 1, ends[row] - 1
        while at < end:
            if at + 64 <= end:  # `out` has the room: an escape is longer than what it stands for
                for place in range(0, 64, 8):
                    store8(out, to + place, load8(data, at + place))
                step = trailing_zeros(equal_bits(data, at, _BACKSLASH))
                at += step
                to += step
                if step == 64:
                    continue
            if data[at] != _BACKSLASH:
                out[to] = data[at]
                at += 1
                to += 1
            elif data[at + 1] != _U:
                out[to] = _ESCAPED[data[at + 1]]
                at += 2
                to += 1
            else:
                code = _read_four_digits(data, at + 2)
                at += 6
                if code >> 10 == 0x36 and at + 6 <= end and data[at] == _BACKSLASH and data[at + 1] == _U:
                    low = _read_four_digits(data, at + 2)
                    if low >> 10 == 0x37:
                        code = 0x10000 + ((code & 0x3FF) << 10 | low & 0x3FF)
                        at += 6
                if code >> 11 == 0x1B:
                    plain[row] = False
                    break
                size = 1 + (code >= 0x80) + (code >= 0x800) + (code >= 0x10000)
                for place in range(to + size - 1, to, -1):
                    out[place] = 0x80 | code & 0x3F
                    code >>= 6
                out[to] = code if size == 1 else code | (0xF00 >> size & 0xFF)
                to += size
        offsets[row + 1] = to
