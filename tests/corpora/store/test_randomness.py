"""Addressed randomness: reference values, numpy and compiled forms alike, and numbers that look random."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.store import randomness
from corpora.store.randomness import compute_keys, draw, draw_below, draw_uniform, fold

words = st.integers(0, 2**64 - 1)
PURPOSES = ("label", "target", "mask", "order")


def test_draws_are_the_published_splitmix64_sequence() -> None:
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert draw(1234567, np.arange(4)).tolist() == published
    assert hex(int(draw(0, 0))) == "0xe220a8397b1dcdaf"


def test_golden_addresses() -> None:
    assert hex(int(compute_keys(42, "mask", 0, 7))) == "0xe5e3fec842e1ef46"
    assert hex(int(compute_keys(42, "order", 3, 2**64 - 1))) == "0x8ff8ab1288961bfd"


@given(words, words, st.integers(0, 2**32), st.integers(1, 2**32))
@settings(deadline=None)
def test_compiled_forms_equal_the_numpy_forms(state: int, item: int, counter: int, bound: int) -> None:
    key = np.uint64(state)
    assert randomness.fold_one(key, np.uint64(item)) == fold(state, item)
    assert randomness.draw_one(key, counter) == draw(state, counter)
    assert randomness.draw_below_one(key, counter, bound) == draw_below(state, counter, bound)
    assert randomness.draw_uniform_one(key, counter) == draw_uniform(state, counter)


@given(words, words, st.integers(0, 2**32), st.integers(1, 2**32))
def test_numpy_forms_equal_whole_number_arithmetic(state: int, item: int, counter: int, bound: int) -> None:
    def mix(word: int) -> int:
        word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        word = (word ^ (word >> 27)) * 0x94D049BB133111EB % 2**64
        return word ^ (word >> 31)

    golden = 0x9E3779B97F4A7C15
    word = mix((state + (counter + 1) * golden) % 2**64)
    assert int(draw(state, counter)) == word
    assert int(draw_below(state, counter, bound)) == word * bound >> 64
    assert float(draw_uniform(state, counter)) == (word >> 11) / 2**53 < 1
    assert int(fold(state, item)) == mix(mix((state + golden) % 2**64) ^ item)


def test_an_array_of_items_has_the_keys_of_its_items() -> None:
    keys = compute_keys(3, "mask", np.array([0, 5]), np.array([7, 8], np.uint64))
    assert keys.dtype == np.uint64
    assert keys.tolist() == [int(compute_keys(3, "mask", 0, 7)), int(compute_keys(3, "mask", 5, 8))]


@pytest.mark.parametrize("bound", [0, 2**32 + 1])
def test_a_bound_out_of_range_is_refused(bound: int) -> None:
    with pytest.raises(AssertionError):
        draw_below(1, 0, bound)


def test_every_part_of_the_address_counts() -> None:
    addresses = [(s, p, e, i) for s in (0, 1) for p in PURPOSES for e in (0, 1) for i in (0, 1)]
    assert len({int(compute_keys(*one)) for one in addresses}) == len(addresses) == 32
