"""Numbers modulo the Mersenne prime 2^127 - 1, for kernels: two words each, the upper one first.

Promise: `reduced` and `times_plus` have the one representative below the prime, as Python's `%` has. Cost: a few
nanoseconds.
"""

from typing import TypeAlias

import numpy as np

from corpora.kernels.compiling import kernel
from corpora.kernels.packed import high_product

PRIME = (1 << 127) - 1

Number127: TypeAlias = tuple[np.uint64, np.uint64]

_0, _1, _63 = np.uint64(0), np.uint64(1), np.uint64(63)
_LOW_63, _ALL = np.uint64((1 << 63) - 1), np.uint64((1 << 64) - 1)


def words(number: int) -> Number127:
    """A number below 2^128 as kernels take it.

    >>> [int(word) for word in words((3 << 64) + 5)]
    [3, 5]
    """
    return np.uint64(number >> 64), np.uint64(number & int(_ALL))


def number(words: Number127) -> int:
    """The number that `words` cut in two."""
    upper, lower = words
    return int(upper) << 64 | int(lower)


@kernel
def reduced(upper: np.uint64, lower: np.uint64) -> Number127:
    """Any number of 128 bits modulo the prime: 2^127 counts as 1."""
    upper, lower = _sum(upper & _LOW_63, lower, _0, upper >> _63)
    if upper > _LOW_63 or (upper == _LOW_63 and lower == _ALL):
        upper, lower = _sum(upper, lower, _0, _1)
    return upper & _LOW_63, lower


@kernel
def times_plus(one: Number127, other: Number127, added: Number127) -> Number127:
    """one * other + added modulo the prime, of numbers below it."""
    # The product in four words, the lowest first; none of the sums of two words' halves passes its room.
    first, second = one[1] * other[1], high_product(one[1], other[1])
    fourth, third = high_product(one[0], other[0]), one[0] * other[0]
    for left, right in ((one[0], other[1]), (one[1], other[0])):
        carried, second = _sum(_0, second, _0, left * right)
        fourth, third = _sum(fourth, third, _0, carried)
        fourth, third = _sum(fourth, third, _0, high_product(left, right))
    upper, lower = _sum(second & _LOW_63, first, fourth << _1 | third >> _63, third << _1 | second >> _63)
    upper, lower = reduced(upper, lower)
    upper, lower = _sum(upper, lower, added[0], added[1])
    return reduced(upper, lower)


@kernel
def _sum(upper: np.uint64, lower: np.uint64, more_upper: np.uint64, more_lower: np.uint64) -> Number127:
    """The sum of two numbers of two words, modulo 2^128."""
    total = lower + more_lower
    return upper + more_upper + np.uint64(total < lower), total
