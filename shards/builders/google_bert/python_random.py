"""Python's `random.Random` inside kernels: the same numbers in the same order, for what must equal another's script.

    state = python_random(12345)        as random.Random(12345) begins
    random_one(state)                   random()
    below_of(state, bound)              randrange(bound): randint(a, b) is a + below_of(state, b - a + 1)
    shuffle(state, items)               shuffle(items)

The generator is MT19937 (Matsumoto, Nishimura 1998); a number below a bound is made of the highest bits of a word,
drawn again while it is too large. Both are as in Python 3.2 and every later one. Everything else that is random here is
addressed (`corpora.store.randomness`).

Cost: some 15 ns a number (one x86-64 core).
"""

import random

import numpy as np

from corpora.kernels.arrays import Int64s
from corpora.kernels.compiling import kernel

_WORDS, _MIDDLE = 624, 397
_UPPER, _LOWER, _MATRIX = 0x80000000, 0x7FFFFFFF, 0x9908B0DF


def python_random(seed: int) -> Int64s:
    """The state of `random.Random(seed)`: 624 words, and how many of them are used."""
    return np.array(random.Random(seed).getstate()[1], np.int64)


@kernel
def _word(state: Int64s) -> int:
    """The next 32 bits."""
    if state[_WORDS] == _WORDS:
        for place in range(_WORDS):
            both = (state[place] & _UPPER) | (state[(place + 1) % _WORDS] & _LOWER)
            state[place] = state[(place + _MIDDLE) % _WORDS] ^ (both >> 1) ^ (_MATRIX if both & 1 else 0)
        state[_WORDS] = 0
    word: int = state[state[_WORDS]]
    state[_WORDS] += 1
    word ^= word >> 11
    word ^= (word << 7) & 0x9D2C5680
    word ^= (word << 15) & 0xEFC60000
    word ^= word >> 18
    return word


@kernel
def random_one(state: Int64s) -> float:
    """A number in [0, 1), of 53 bits."""
    upper = _word(state) >> 5
    lower = _word(state) >> 6
    return (upper * 67108864.0 + lower) / 9007199254740992.0


@kernel
def below_of(state: Int64s, bound: int) -> int:
    """A number in [0, bound), where bound is in [1, 2**32)."""
    shift = 32
    while bound >> (32 - shift):
        shift -= 1
    return _below(state, bound, shift)


@kernel
def _below(state: Int64s, bound: int, shift: int) -> int:
    """A number below a bound of 32 - shift bits."""
    drawn = _word(state) >> shift
    while drawn >= bound:
        drawn = _word(state) >> shift
    return drawn


@kernel
def shuffle(state: Int64s, items: Int64s) -> None:
    """Bring the items into a random order."""
    shift = 32
    while len(items) >> (32 - shift):
        shift -= 1
    for last in range(len(items) - 1, 0, -1):
        shift += (last + 1) >> (31 - shift) == 0
        other = _below(state, last + 1, shift)
        items[last], items[other] = items[other], items[last]
