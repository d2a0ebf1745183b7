"""Hashes of 128 bits and numbers modulo the Mersenne prime 2^127 - 1, for kernels: two words each, the upper one first.

Numbers: `reduce_modulo` and `multiply_add` return the one representative below the prime, as Python's `%` does. Cost: a
few nanoseconds.

Hashes: XXH3 with 128 bits, as its specification has it, with the default secret and the seed 0. Promise: for 17 bytes
or more `xxh3_128` has the bits of `xxhash.xxh3_128`, its definition. (For fewer bytes XXH3 does something else, which
no kernel needs.) Cost: some 30 nanoseconds for 300 bytes and 60 for 2,000, all of them in the processor's own cache.
"""

from typing import TypeAlias

import numpy as np

from corpora.kernels.arrays import Bytes, Integer, UInt64s
from corpora.kernels.compiling import kernel
from corpora.kernels.packed import add_stripe, high_product, load8

PRIME = (1 << 127) - 1

Number127: TypeAlias = tuple[np.uint64, np.uint64]

_0, _1, _63 = np.uint64(0), np.uint64(1), np.uint64(63)
_LOW_63, _ALL = np.uint64((1 << 63) - 1), np.uint64((1 << 64) - 1)


def split_words(number: int) -> Number127:
    """Split an integer below 2^128 into two 64-bit words, upper word first.

    >>> [int(word) for word in split_words((3 << 64) + 5)]
    [3, 5]
    """
    return np.uint64(number >> 64), np.uint64(number & int(_ALL))


def join_words(words: Number127) -> int:
    """Combine two 64-bit words, upper word first, into an integer. This is the inverse of `split_words`."""
    upper, lower = words
    return int(upper) << 64 | int(lower)


@kernel
def reduce_modulo(upper: np.uint64, lower: np.uint64) -> Number127:
    """Reduce a 128-bit number, given as two 64-bit words, modulo 2^127 - 1.

    The result is two words, upper word first.
    """
    upper, lower = _add_words(upper & _LOW_63, lower, _0, upper >> _63)
    if upper > _LOW_63 or (upper == _LOW_63 and lower == _ALL):
        upper, lower = _add_words(upper, lower, _0, _1)
    return upper & _LOW_63, lower


@kernel
def multiply_add(factor: Number127, other_factor: Number127, added: Number127) -> Number127:
    """Return factor * other_factor + added modulo the prime 2^127 - 1.

    All numbers, including the result, are pairs of 64-bit words, upper word first. All arguments must be below the
    prime.
    """
    # The product in four words, the lowest first; none of the sums of two words' halves passes its room.
    first, second = factor[1] * other_factor[1], high_product(factor[1], other_factor[1])
    fourth, third = high_product(factor[0], other_factor[0]), factor[0] * other_factor[0]
    for left, right in ((factor[0], other_factor[1]), (factor[1], other_factor[0])):
        carried, second = _add_words(_0, second, _0, left * right)
        fourth, third = _add_words(fourth, third, _0, carried)
        fourth, third = _add_words(fourth, third, _0, high_product(left, right))
    upper, lower = _add_words(second & _LOW_63, first, fourth << _1 | third >> _63, third << _1 | second >> _63)
    upper, lower = reduce_modulo(upper, lower)
    upper, lower = _add_words(upper, lower, added[0], added[1])
    return reduce_modulo(upper, lower)


@kernel
def _add_words(upper: np.uint64, lower: np.uint64, more_upper: np.uint64, more_lower: np.uint64) -> Number127:
    """Add two 128-bit numbers modulo 2^128. The result is two 64-bit words, upper word first."""
    total = lower + more_lower
    return upper + more_upper + np.uint64(total < lower), total


Hash: TypeAlias = tuple[np.uint64, np.uint64]  # the upper 64 bits, the lower ones

_SECRET = np.frombuffer(
    bytes.fromhex(
        "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
        "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
        "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
        "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
    ),
    np.uint8,
)
_PRIME32_1, _PRIME32_2, _PRIME32_3 = (np.uint64(prime) for prime in (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D))
_PRIME64_1, _PRIME64_2 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME64_3, _PRIME64_4 = np.uint64(0x165667B19E3779F9), np.uint64(0x85EBCA77C2B2AE63)
_PRIME64_5 = np.uint64(0x27D4EB2F165667C5)
_PRIME_MX1 = np.uint64(0x165667919E3779F9)
_INITIAL_LANES = (_PRIME32_3, _PRIME64_1, _PRIME64_2, _PRIME64_3, _PRIME64_4, _PRIME32_2, _PRIME64_5, _PRIME32_1)
_U64_0, _32, _37, _47 = np.uint64(0), np.uint64(32), np.uint64(37), np.uint64(47)

_STRIPE = 64  # bytes that are mixed into the lanes at once
_STRIPES = np.int64(16)  # of a block, each with the secret from 8 bytes further on
_BLOCK = _STRIPE * 16
# Where in the secret these begin; of one type with what is counted, so that each kernel is compiled once.
_KEY_OF_LAST_PAIR, _KEY_OF_LOWER, _KEY_OF_UPPER = np.int64(103), np.int64(11), np.int64(117)


@kernel
def xxh3_128(data: Bytes, start: Integer, length: Integer, lanes: UInt64s) -> Hash:
    """Compute the 128-bit XXH3 hash of `length` bytes, starting at `data[start]`.

    The result is two words, upper word first.

    Args:
        data: uint8, the bytes. Bounds are not checked.
        start: Index of the first byte.
        length: Number of bytes, which must be at least 17. The result is wrong for fewer bytes.
        lanes: uint64 [8], scratch memory, which is overwritten.
    """
    if length <= 128:
        return _hash_short(data, start, length)
    if length <= 240:
        return _hash_medium(data, start, length)
    return _hash_long(data, start, length, lanes)


@kernel
def _hash_short(data: Bytes, start: Integer, length: Integer) -> Hash:
    """Hash 17 to 128 bytes, in pairs of 16 bytes from both ends, starting with the innermost pair.

    Return the hash of `length` bytes, starting at `data[start]`, as two words, upper word first.
    """
    low, high = np.uint64(length) * _PRIME64_1, _U64_0
    for pair in range((length - 1) // 32, -1, -1):
        other = start + length - 16 * (pair + 1)
        low, high = _mix_pair(low, high, data, start + 16 * pair, other, 32 * pair)
    return _finish(low, high, length)


@kernel
def _hash_medium(data: Bytes, start: Integer, length: Integer) -> Hash:
    """Hash 129 to 240 bytes, in pairs of 16 bytes from the beginning. The last pair is hashed in reverse order.

    Return the hash of `length` bytes, starting at `data[start]`, as two words, upper word first.
    """
    low, high = np.uint64(length) * _PRIME64_1, _U64_0
    for pair in range(4):
        at = start + 32 * pair
        low, high = _mix_pair(low, high, data, at, at + 16, 32 * pair)
    low, high = _avalanche(low), _avalanche(high)
    for pair in range(4, length // 32):
        at = start + 32 * pair
        low, high = _mix_pair(low, high, data, at, at + 16, 32 * (pair - 4) + 3)
    end = start + length
    low, high = _mix_pair(low, high, data, end - 16, end - 32, _KEY_OF_LAST_PAIR)
    return _finish(low, high, length)


@kernel
def _hash_long(data: Bytes, start: Integer, length: Integer, lanes: UInt64s) -> Hash:
    """Hash 241 or more bytes: `length` bytes, starting at `data[start]`.

    Stripes of 64 bytes are mixed into eight lanes, which are scrambled after each block of stripes.

    Args:
        data: uint8, the bytes.
        start: Index of the first byte.
        length: Number of bytes.
        lanes: uint64 [8], scratch memory, which is overwritten.

    Returns:
        The hash as two words, upper word first.
    """
    for lane in range(8):
        lanes[lane] = _INITIAL_LANES[lane]
    blocks = (length - 1) // _BLOCK
    for block in range(blocks):
        _add_stripes(lanes, data, start + block * _BLOCK, _STRIPES)
        for lane in range(8):
            lanes[lane] = (lanes[lane] ^ lanes[lane] >> _47 ^ load8(_SECRET, 128 + 8 * lane)) * _PRIME32_1
    _add_stripes(lanes, data, start + blocks * _BLOCK, (length - 1 - blocks * _BLOCK) // _STRIPE)
    add_stripe(lanes, data, start + length - _STRIPE, _SECRET, 121)
    size = np.uint64(length)
    upper, lower = ~(size * _PRIME64_2), size * _PRIME64_1
    return _merge_lanes(lanes, _KEY_OF_UPPER, upper), _merge_lanes(lanes, _KEY_OF_LOWER, lower)


@kernel
def _add_stripes(lanes: UInt64s, data: Bytes, start: Integer, stripes: Integer) -> None:
    """Mix consecutive stripes of 64 bytes into the lanes, in place.

    Args:
        lanes: uint64 [8], the state of the hash. Modified.
        data: uint8, the bytes.
        start: Index of the first byte of the first stripe.
        stripes: Number of stripes.
    """
    for stripe in range(stripes):
        add_stripe(lanes, data, start + _STRIPE * stripe, _SECRET, 8 * stripe)


@kernel
def _merge_lanes(lanes: UInt64s, key: Integer, value: np.uint64) -> np.uint64:
    """Combine all lanes into a single 64-bit word.

    Args:
        lanes: uint64 [8], the lanes.
        key: Byte offset in the secret from which the keys are read.
        value: Initial value of the result.
    """
    for lane in range(0, 8, 2):
        one, other = load8(_SECRET, key + 8 * lane), load8(_SECRET, key + 8 * lane + 8)
        value += _multiply_fold(lanes[lane] ^ one, lanes[lane + 1] ^ other)
    return _avalanche(value)


@kernel
def _mix_pair(low: np.uint64, high: np.uint64, data: Bytes, one: Integer, other: Integer, key: Integer) -> Hash:
    """Mix two groups of 16 bytes into the two halves of the hash state, and return the new halves.

    Args:
        low: Lower half of the state.
        high: Upper half of the state.
        data: uint8, the bytes.
        one: Index of the first byte of the first group.
        other: Index of the first byte of the second group.
        key: Byte offset in the secret from which the keys are read.
    """
    low = (low + _mix_key(data, one, key)) ^ (load8(data, other) + load8(data, other + 8))
    high = (high + _mix_key(data, other, key + 16)) ^ (load8(data, one) + load8(data, one + 8))
    return low, high


@kernel
def _mix_key(data: Bytes, start: Integer, key: Integer) -> np.uint64:
    """Mix 16 bytes of data with 16 bytes of the secret into one word.

    Args:
        data: uint8, the bytes.
        start: Index of the first of the 16 bytes.
        key: Byte offset in the secret.
    """
    one, other = load8(_SECRET, key), load8(_SECRET, key + 8)
    return _multiply_fold(load8(data, start) ^ one, load8(data, start + 8) ^ other)


@kernel
def _finish(low: np.uint64, high: np.uint64, length: Integer) -> Hash:
    """Compute the final hash from the two halves of the state and the number of hashed bytes.

    The result is two words, upper word first.
    """
    upper = low * _PRIME64_1 + high * _PRIME64_4 + np.uint64(length) * _PRIME64_2
    return _U64_0 - _avalanche(upper), _avalanche(low + high)


@kernel
def _multiply_fold(one: np.uint64, other: np.uint64) -> np.uint64:
    """Multiply two words, and return the exclusive or of the product's lower and upper halves."""
    return one * other ^ high_product(one, other)


@kernel
def _avalanche(value: np.uint64) -> np.uint64:
    """Spread the bits of a word, so that every input bit affects the result. This is a bijection."""
    value = (value ^ value >> _37) * _PRIME_MX1
    return value ^ value >> _32
