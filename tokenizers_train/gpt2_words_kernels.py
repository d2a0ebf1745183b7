"""The kernel of `tokenizers_train.gpt2_words`: texts are cut where GPT-2's regular expression cuts them.

Promise: the words of `Gpt2Words.split`, which follow each other without a gap; no byte outside the ranges is
looked at. Cost: see `tokenizers_train.gpt2_words`; no allocation: the caller brings all arrays.
"""

import numpy as np
import numpy.typing as npt

from corpora.kernels import kernel
from corpora.text.codepoints import decode

LETTER, NUMBER, SPACE, OTHER = 0, 1, 2, 3
_BLANK, _APOSTROPHE = ord(" "), ord("'")
_S, _T, _M, _D, _R, _V, _L, _E = ord("s"), ord("t"), ord("m"), ord("d"), ord("r"), ord("v"), ord("l"), ord("e")


@kernel
def cut_gpt2_words(
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    classes: npt.NDArray[np.uint8],
    word_starts: npt.NDArray[np.int64],
    word_ends: npt.NDArray[np.int64],
    range_ends: npt.NDArray[np.int64],
) -> int:
    """Where the words of the ranges begin and end; range r has those from range_ends[r - 1] to range_ends[r].

    Returns how many there are.
    """
    total = 0
    for r in range(len(starts)):
        at, end = starts[r], ends[r]
        while at < end:
            word_starts[total] = at
            at = _word_end(data, at, end, classes)
            word_ends[total] = at
            total += 1
        range_ends[r] = total
    return total


@kernel
def _word_end(data: npt.NDArray[np.uint8], at: int, end: int, classes: npt.NDArray[np.uint8]) -> int:
    """Where the word that begins at `at` ends: the alternatives of the expression, in its order."""
    if data[at] == _APOSTROPHE:
        length = _contraction(data, at + 1, end)
        if length:
            return at + 1 + length
    body = at + 1 if data[at] == _BLANK and at + 1 < end else at
    kind, width = _class_at(data, body, classes)
    if kind == SPACE:
        return _space_end(data, at, end, classes)
    body += width
    while body < end:
        following, width = _class_at(data, body, classes)
        if following != kind:
            break
        body += width
    return body


@kernel
def _space_end(data: npt.NDArray[np.uint8], at: int, end: int, classes: npt.NDArray[np.uint8]) -> int:
    """Where white space ends: before its last character if more than that one and then a word follow."""
    last = stop = at
    while stop < end:
        kind, width = _class_at(data, stop, classes)
        if kind != SPACE:
            return last if last > at else stop
        last = stop
        stop += width
    return stop


@kernel
def _contraction(data: npt.NDArray[np.uint8], at: int, end: int) -> int:
    """How many letters of a contraction ('s 't 'm 'd 're 've 'll) stand after the apostrophe; 0 for none."""
    if at == end:
        return 0
    first = data[at]
    if first == _S or first == _T or first == _M or first == _D:
        return 1
    second = data[at + 1] if at + 1 < end else np.uint8(0)
    if (second == _E and (first == _R or first == _V)) or (second == _L and first == _L):
        return 2
    return 0


@kernel
def _class_at(data: npt.NDArray[np.uint8], at: int, classes: npt.NDArray[np.uint8]) -> tuple[int, int]:
    """The class of the character at byte `at`, and its width."""
    code, width = decode(data, at)
    return (int(classes[code]) if code < len(classes) else OTHER), width
