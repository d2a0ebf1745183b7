"""Hashes of 64 bits: kernels equal their definitions, and lose no state."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.kernels.hashing import GOLDEN_RATIO, absorb, absorb_plain, finish, finish_plain

WORDS = st.integers(0, 2**64 - 1)


@settings(deadline=None)
@given(WORDS, WORDS)
def test_kernels_equal_their_definitions(state: int, chunk: int) -> None:
    assert int(absorb(np.uint64(state), np.uint64(chunk))) == absorb_plain(state, chunk)
    assert int(finish(np.uint64(state))) == finish_plain(state)


@given(WORDS, WORDS)
def test_a_state_can_be_read_back(state: int, chunk: int) -> None:
    """So no two states become one."""
    value = absorb_plain(state, chunk)
    assert (value ^ value >> 32) * pow(int(GOLDEN_RATIO), -1, 2**64) % 2**64 ^ chunk == state


def test_the_published_values_of_the_finaliser() -> None:
    """fmix64 of MurmurHash3: 0 stays, and 1 becomes what its reference implementation says."""
    assert [finish_plain(0), finish_plain(1)] == [0, 0xB456BCFC34C2CB2C]
