"""Addressed randomness: a random number is found by its address, never drawn from a generator in passing.

The address of a number is (seed, purpose, epoch, item, counter). So a choice about an item is the same on any machine,
in any order, with any number of workers, after any restart; nothing has to be saved to resume it.

    key = compute_keys(seed, "mask", epoch, example_id)   one 64-bit key per item
    draw(key, 0), draw(key, 1), ...                       its 64-bit numbers, independent of one another

`draw(key, 0), draw(key, 1), ...` is the SplitMix64 sequence that starts at `key` (Steele, Lea, Flood 2014, with variant
13 of Stafford's finalisers). Keys are chained through the same finaliser, which is a bijection: two items of one (seed,
purpose, epoch) never share a key. All sequences are stretches of one cycle of length 2^64, so any two of n streams with
c draws each overlap with probability below n^2 c / 2^64: some pairs of examples among a billion may share draws, which
no statistic of the whole can see.

`fold`, `draw`, `draw_below` and `draw_uniform` have a numpy form for arrays and a compiled one for use inside kernels
(`draw_one`); the two agree bit for bit. Cost: about 1 ns a draw inside a kernel, some microseconds a call of a numpy
form.
"""

from hashlib import sha256
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from corpora.kernels.arrays import Float64s, UInt64s
from corpora.kernels.compiling import kernel
from corpora.kernels.hashing import GOLDEN_RATIO

Word = TypeVar("Word", np.uint64, UInt64s)

MAX_BELOW = 1 << 32
_FACTOR_1 = np.uint64(0xBF58476D1CE4E5B9)
_FACTOR_2 = np.uint64(0x94D049BB133111EB)
_LOW_32 = np.uint64(0xFFFFFFFF)
_1, _11, _27, _30, _31, _32 = (np.uint64(number) for number in (1, 11, 27, 30, 31, 32))
_UNIT = 2.0**-53


def _mix(word: Word) -> Word:
    """Apply the SplitMix64 finalizer, a bijection of 64-bit words in which every input bit affects every output bit."""
    word = (word ^ (word >> _30)) * _FACTOR_1
    word = (word ^ (word >> _27)) * _FACTOR_2
    return word ^ (word >> _31)


def fold(state: npt.ArrayLike, item: npt.ArrayLike) -> UInt64s:
    """Combine a state with an item's number, and return the item's key: uint64, in the arguments' broadcast shape.

    With the same `state`, different items always have different keys.

    Args:
        state: The state to start from, as returned by `compute_address`.
        item: The item's number, from 0 up to, but not including, 2^64.

    Raises:
        OverflowError: If a Python integer is out of range. Negative numbers in an array are not detected.
    """
    with np.errstate(over="ignore"):
        return np.asarray(_mix(_mix(_to_words(state) + GOLDEN_RATIO) ^ _to_words(item)))


def compute_address(seed: int, purpose: str, epoch: npt.ArrayLike = 0) -> UInt64s:
    """Compute the state shared by all items of a purpose and epoch. `fold(state, item)` is the key of an item.

    Args:
        seed: The seed, from 0 up to, but not including, 2^64.
        purpose: Any string. Different purposes give unrelated random numbers.
        epoch: The epoch or an array of epochs, in the same range as `seed`.

    Returns:
        uint64, in the shape of `epoch`.

    Raises:
        OverflowError: If a Python integer is out of range.
    """
    return fold(compute_root(seed, purpose), epoch)


def compute_root(seed: int, purpose: str) -> np.uint64:
    """Compute the state shared by all epochs of a purpose, for use in compiled kernels.

    In a kernel, `fold_one(fold_one(root, epoch), item)` is the key of an item.

    Args:
        seed: The seed, from 0 up to, but not including, 2^64.
        purpose: Any string. Different purposes give unrelated random numbers.

    Raises:
        OverflowError: If the seed is out of range.
    """
    return np.uint64(fold(int.from_bytes(sha256(purpose.encode()).digest()[:8], "little"), seed))


def compute_keys(seed: int, purpose: str, epoch: npt.ArrayLike, item: npt.ArrayLike) -> UInt64s:
    """Compute the 64-bit keys of items, from which `draw` and its variants compute random numbers.

    Args:
        seed: The seed, from 0 up to, but not including, 2^64.
        purpose: Any string. Different purposes give unrelated random numbers.
        epoch: The epoch or an array of epochs, in the same range as `seed`.
        item: The item's number or an array of numbers, in the same range.

    Returns:
        uint64, in the broadcast shape of `epoch` and `item` (0-d for two scalars).

    Raises:
        OverflowError: If a Python integer is out of range. Negative numbers in an array are not detected.

    >>> int(compute_keys(42, "mask", 0, 7)) == int(compute_keys(42, "mask", 0, [6, 7])[1])
    True
    """
    return fold(compute_address(seed, purpose, epoch), item)


def draw(key: npt.ArrayLike, counter: npt.ArrayLike) -> UInt64s:
    """Draw random integers that are uniform in [0, 2^64): uint64, in the broadcast shape of the arguments.

    The same arguments always give the same integers.

    Args:
        key: The keys of items, from `compute_keys`.
        counter: Zero-based index of the random number in the item's sequence.
    """
    with np.errstate(over="ignore"):
        return np.asarray(_mix(_to_words(key) + (_to_words(counter) + _1) * GOLDEN_RATIO))


def draw_below(key: npt.ArrayLike, counter: npt.ArrayLike, bound: int) -> UInt64s:
    """Draw random integers that are uniform in [0, bound): uint64, in the broadcast shape of `key` and `counter`.

    The result is the high word of draw * bound (Lemire 2019). Each value's probability differs from 1/bound by less
    than 2^-64.

    Args:
        key: The keys of items, from `compute_keys`.
        counter: Zero-based index of the random number in the item's sequence.
        bound: From 1 to 2^32. Other values fail an assertion.
    """
    assert 1 <= bound <= MAX_BELOW, bound
    words, factor = draw(key, counter), np.uint64(bound)
    return np.asarray(((words >> _32) * factor + (((words & _LOW_32) * factor) >> _32)) >> _32)


def draw_uniform(key: npt.ArrayLike, counter: npt.ArrayLike) -> Float64s:
    """Draw random numbers that are uniform in [0, 1): float64, in the broadcast shape of the arguments.

    They are multiples of 2^-53, all equally likely.

    Args:
        key: The keys of items, from `compute_keys`.
        counter: Zero-based index of the random number in the item's sequence.
    """
    return np.asarray((draw(key, counter) >> _11) * _UNIT)


def _to_words(values: npt.ArrayLike) -> UInt64s:
    """Convert values to uint64.

    A Python integer that is negative or too large raises OverflowError, but negative integers in an array wrap around.
    """
    return np.asarray(values, np.uint64)


_mix_one = kernel(_mix)


@kernel
def fold_one(state: np.uint64, item: np.uint64) -> np.uint64:
    """Combine a state with one item's number into the item's key, inside a compiled kernel. See `fold`."""
    return _mix_one(_mix_one(state + GOLDEN_RATIO) ^ item)


@kernel
def draw_one(key: np.uint64, counter: int | np.int64 | np.uint64) -> np.uint64:
    """Draw one random integer that is uniform in [0, 2^64), inside a compiled kernel.

    `key` is the key of an item, and `counter` the zero-based index of the number in its sequence. See `draw`.
    """
    return _mix_one(key + (np.uint64(counter) + _1) * GOLDEN_RATIO)


@kernel
def draw_below_one(key: np.uint64, counter: int | np.int64, bound: int) -> int:
    """Draw one random integer that is uniform in [0, bound), inside a compiled kernel. `bound` is not checked.

    `key` is the key of an item, and `counter` the zero-based index of the number in its sequence. See `draw_below`. The
    result is signed, because numba converts to float when uint64 and int64 are mixed.
    """
    word, factor = draw_one(key, counter), np.uint64(bound)
    high = ((word >> _32) * factor + (((word & _LOW_32) * factor) >> _32)) >> _32
    return np.int64(high)  # type: ignore[return-value]  # compiled code knows int as int64


@kernel
def draw_uniform_one(key: np.uint64, counter: int | np.int64) -> float:
    """Draw one random number that is uniform in [0, 1), inside a compiled kernel.

    `key` is the key of an item, and `counter` the zero-based index of the number in its sequence. See `draw_uniform`.
    """
    return np.float64(draw_one(key, counter) >> _11) * _UNIT
