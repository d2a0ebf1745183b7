"""The kernels of `tokenizers_train.words`: strings cut out of texts are numbered in a lexicon.

Promise: bytes are compared in full before two strings share a number, so none are confused, whatever their
hashes.
Cost: see the rules of words; no allocation: the caller brings all arrays.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from corpora.kernels import kernel

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio (Knuth, volume 3, 6.4)
_HALF, _NOTHING = np.uint64(32), np.uint64(0)


class Lexicon(NamedTuple):
    """Distinct byte strings, numbered from 0 in order of entry. String i is pool[starts[i]:starts[i + 1]].

    slots:  int32, a power of two of them, at most half filled: the open-addressed index; -1 where empty
    hashes: uint64, the hash of each string
    starts: int64, where each string begins in the pool, one more than there are strings
    pool:   uint8, the bytes of all strings
    used:   int64, one entry: the number of strings
    """

    slots: npt.NDArray[np.int32]
    hashes: npt.NDArray[np.uint64]
    starts: npt.NDArray[np.int64]
    pool: npt.NDArray[np.uint8]
    used: npt.NDArray[np.int64]


@kernel
def enter_words(
    data: npt.NDArray[np.uint8],
    word_starts: npt.NDArray[np.int64],
    word_ends: npt.NDArray[np.int64],
    lexicon: Lexicon,
    numbers: npt.NDArray[np.int32],
    first: int,
) -> int:
    """Number the words from the first on; returns where it stopped: at the end, or for want of room."""
    slots, hashes, starts, pool, used = lexicon
    mask = len(slots) - 1
    for w in range(first, len(numbers)):
        start, length = word_starts[w], word_ends[w] - word_starts[w]
        value, lane = np.uint64(length), _NOTHING
        for i in range(length):
            lane |= np.uint64(data[start + i]) << np.uint64((i & 7) << 3)
            if i & 7 == 7 or i + 1 == length:
                value = (value ^ lane) * _MULTIPLIER
                value ^= value >> _HALF
                lane = _NOTHING
        slot = np.int64(value & np.uint64(mask))
        number = np.int64(slots[slot])
        while number >= 0:
            if hashes[number] == value and starts[number + 1] - starts[number] == length:
                place, i = starts[number], 0
                while i < length and pool[place + i] == data[start + i]:
                    i += 1
                if i == length:
                    break
            slot = (slot + 1) & mask
            number = np.int64(slots[slot])
        if number < 0:
            number = used[0]
            place = starts[number]
            if number == len(hashes) or place + length > len(pool):
                return w
            for i in range(length):
                pool[place + i] = data[start + i]
            slots[slot], hashes[number], starts[number + 1] = number, value, place + length
            used[0] = number + 1
        numbers[w] = number
    return len(numbers)


@kernel
def index_strings(lexicon: Lexicon) -> None:
    """Fill the empty slots with the strings there are."""
    mask = len(lexicon.slots) - 1
    for number in range(lexicon.used[0]):
        slot = np.int64(lexicon.hashes[number] & np.uint64(mask))
        while lexicon.slots[slot] >= 0:
            slot = (slot + 1) & mask
        lexicon.slots[slot] = number
