"""Hashes of 64 bits that kernels share: eight bytes mixed into a state, and the last step that spreads the bits.

Promise: `absorb` and `finish` are bijections of the state, and equal their reference implementations, `absorb_plain`
and `finish_plain`. Their bits are in stores: a change of them makes other contents. Not promised: safety from someone
who builds collisions on purpose. Cost: three and seven machine instructions.
"""

import numpy as np

from corpora.kernels.compiling import kernel

GOLDEN_RATIO = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio, odd (Knuth, volume 3, 6.4)
# The two factors of MurmurHash3's 64-bit finaliser.
_FINISH_1 = np.uint64(0xFF51AFD7ED558CCD)
_FINISH_2 = np.uint64(0xC4CEB9FE1A85EC53)
_32, _33 = np.uint64(32), np.uint64(33)
_MASK64 = (1 << 64) - 1


def absorb_plain(state: int, chunk: int) -> int:
    """Mix the next eight bytes, given as an integer, into a hash state, as `absorb` does. This is for tests."""
    state = (state ^ chunk) * int(GOLDEN_RATIO) & _MASK64
    return state ^ state >> 32


def finish_plain(value: int) -> int:
    """Apply the 64-bit finalizer of MurmurHash3 to an integer, as `finish` does. This is for tests."""
    for factor in (_FINISH_1, _FINISH_2):
        value = (value ^ value >> 33) * int(factor) & _MASK64
    return value ^ value >> 33


@kernel
def absorb(state: np.uint64, chunk: np.uint64) -> np.uint64:
    """Mix the next eight bytes, given as the word `chunk`, into a hash state, and return the new state."""
    state = (state ^ chunk) * GOLDEN_RATIO
    return state ^ state >> _32


@kernel
def finish(value: np.uint64) -> np.uint64:
    """Apply the 64-bit finalizer of MurmurHash3 to a hash state. Every input bit then affects every output bit."""
    value = (value ^ value >> _33) * _FINISH_1
    value = (value ^ value >> _33) * _FINISH_2
    return value ^ value >> _33
