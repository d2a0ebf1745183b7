"""The kernel that reads the usual JSON lines: objects whose members are strings.

Promise: where it does not decline, the texts are those that a JSON parser finds. It declines, and another parser is
to be asked, where anything else stands in the bytes: a member that is no string, a key with an escape, a field
that is missing or stands twice, half a character, a fault. The bytes must be UTF-8; that is not looked at here.
Cost: 1.2 GB/s of documents of 3 KB.
"""

import numpy as np
import numpy.typing as npt

from corpora.kernels import kernel
from corpora.text.packed import load8, store8, trailing_zeros

Bytes = npt.NDArray[np.uint8]
DECLINED = -1
SLACK = 8  # bytes that `texts` must have more than `data`

_TAB, _LINE_END, _RETURN, _SPACE, _QUOTE, _COMMA, _COLON = 9, 10, 13, 32, 34, 44, 58
_BACKSLASH, _OPEN, _CLOSE, _SMALL_U = 92, 123, 125, 117
_ONES, _TOPS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_SPACES = np.uint64(0x2020202020202020)
_QUOTES, _BACKSLASHES = np.uint64(0x2222222222222222), np.uint64(0x5C5C5C5C5C5C5C5C)


@kernel
def read_lines(data: Bytes, field: Bytes, texts: Bytes, offsets: npt.NDArray[np.int64]) -> int:
    """Write the field's text of every line, end to end; the number of lines that are not blank, or DECLINED.

    offsets: int64, one more than lines; text t becomes texts[offsets[t]:offsets[t + 1]]
    """
    at, place, num_texts = 0, 0, 0
    while True:
        while at < len(data) and (data[at] == _LINE_END or _is_space(data[at])):
            at += 1
        if at == len(data):
            return num_texts
        offsets[num_texts] = place
        at, place = _read_object(data, at, field, texts, place)
        if at < 0:
            return DECLINED
        at = _behind_spaces(data, at)
        if at < len(data) and data[at] != _LINE_END:
            return DECLINED
        num_texts += 1
        offsets[num_texts] = place


@kernel
def _read_object(data: Bytes, at: int, field: Bytes, texts: Bytes, place: int) -> tuple[int, int]:
    """Where the object that begins here ends, and the text in it; (DECLINED, place) where it is another or none."""
    is_found = False
    separator = _OPEN
    while at < len(data) and data[at] == separator:
        at = _behind_spaces(data, at + 1)
        key = at + 1
        at = _behind_string(data, at)
        if at < 0:
            return DECLINED, place
        is_text = _is_key(data, key, at - 1, field)
        at = _behind_spaces(data, at)
        if at >= len(data) or data[at] != _COLON or (is_text and is_found):
            return DECLINED, place
        at = _behind_spaces(data, at + 1)
        if is_text:
            at, place = _read_string(data, at, texts, place)
            is_found = True
        else:
            at = _behind_string(data, at)
        if at < 0:
            return DECLINED, place
        at = _behind_spaces(data, at)
        separator = _COMMA
    if at >= len(data) or data[at] != _CLOSE or not is_found:
        return DECLINED, place
    return at + 1, place


@kernel
def _is_space(byte: int) -> bool:
    return byte == _SPACE or byte == _TAB or byte == _RETURN


@kernel
def _behind_spaces(data: Bytes, at: int) -> int:
    while at < len(data) and _is_space(data[at]):
        at += 1
    return at


@kernel
def _is_key(data: Bytes, start: int, stop: int, field: Bytes) -> bool:
    if stop - start != len(field):
        return False
    for i in range(len(field)):
        if data[start + i] != field[i]:
            return False
    return True


@kernel
def _stops(word: np.uint64) -> np.uint64:
    """The lowest flag stands at the first byte that is a quote, a backslash or below a space; none where none is."""
    quote, backslash = word ^ _QUOTES, word ^ _BACKSLASHES
    found = ((quote - _ONES) & ~quote) | ((backslash - _ONES) & ~backslash) | ((word - _SPACES) & ~word)
    return found & _TOPS


@kernel
def _behind_string(data: Bytes, at: int) -> int:
    """Where a string ends that has no escapes, behind its quote; DECLINED for any other."""
    if at >= len(data) or data[at] != _QUOTE:
        return DECLINED
    at += 1
    while at + 8 <= len(data):
        stops = _stops(load8(data, at))
        if stops:
            at += trailing_zeros(stops) >> 3
            break
        at += 8
    while at < len(data) and data[at] != _QUOTE and data[at] != _BACKSLASH and data[at] >= _SPACE:
        at += 1
    return at + 1 if at < len(data) and data[at] == _QUOTE else DECLINED


@kernel
def _read_string(data: Bytes, at: int, texts: Bytes, place: int) -> tuple[int, int]:
    """Write a string's characters; where it ends and where they end, DECLINED first where it is none."""
    if at >= len(data) or data[at] != _QUOTE:
        return DECLINED, place
    at += 1
    while True:
        while at + 8 <= len(data):
            word = load8(data, at)
            store8(texts, place, word)
            stops = _stops(word)
            if stops:
                passed = trailing_zeros(stops) >> 3
                at += passed
                place += passed
                break
            at += 8
            place += 8
        if at >= len(data) or data[at] < _SPACE:
            return DECLINED, place
        if data[at] == _QUOTE:
            return at + 1, place
        if data[at] == _BACKSLASH:
            at, place = _read_escape(data, at + 1, texts, place)
            if at < 0:
                return DECLINED, place
        else:  # one of the last bytes of all
            texts[place] = data[at]
            at += 1
            place += 1


@kernel
def _read_escape(data: Bytes, at: int, texts: Bytes, place: int) -> tuple[int, int]:
    """Write the character whose escape goes on here, behind its backslash; DECLINED where there is none such."""
    if at >= len(data):
        return DECLINED, place
    letter = data[at]
    if letter == _SMALL_U:
        return _read_code(data, at + 1, texts, place)
    byte = -1
    if letter == _QUOTE or letter == _BACKSLASH or letter == 47:
        byte = letter
    elif letter == 110:  # n
        byte = 10
    elif letter == 116:  # t
        byte = 9
    elif letter == 114:  # r
        byte = 13
    elif letter == 98:  # b
        byte = 8
    elif letter == 102:  # f
        byte = 12
    if byte < 0:
        return DECLINED, place
    texts[place] = byte
    return at + 1, place + 1


@kernel
def _read_code(data: Bytes, at: int, texts: Bytes, place: int) -> tuple[int, int]:
    """Write the character of four hexadecimal digits, or of a pair of surrogates; DECLINED for half of one."""
    code = _hexadecimal(data, at)
    at += 4
    if 0xD800 <= code < 0xDC00 and at + 1 < len(data) and data[at] == _BACKSLASH and data[at + 1] == _SMALL_U:
        low = _hexadecimal(data, at + 2)
        if 0xDC00 <= low < 0xE000:
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
            at += 6
    if code < 0 or 0xD800 <= code < 0xE000:
        return DECLINED, place
    if code < 0x80:
        texts[place] = code
        return at, place + 1
    num_more = 1 if code < 0x800 else 2 if code < 0x10000 else 3
    lead = 0xC0 if num_more == 1 else 0xE0 if num_more == 2 else 0xF0
    texts[place] = lead | code >> 6 * num_more
    for i in range(num_more):
        texts[place + 1 + i] = 0x80 | (code >> 6 * (num_more - 1 - i) & 0x3F)
    return at, place + 1 + num_more


@kernel
def _hexadecimal(data: Bytes, at: int) -> int:
    """The number of four hexadecimal digits; -1 where there are none."""
    if at + 4 > len(data):
        return -1
    number = 0
    for i in range(at, at + 4):
        byte = int(data[i])
        small = byte | 32
        if 48 <= byte <= 57:
            number = number << 4 | (byte - 48)
        elif 97 <= small <= 102:
            number = number << 4 | (small - 87)
        else:
            return -1
    return number
