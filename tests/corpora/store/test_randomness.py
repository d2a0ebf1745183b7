"""Addressed randomness: reference values, numpy and compiled forms alike, and numbers that look random."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.kernels.arrays import Int64s, UInt64s
from corpora.store import randomness
from corpora.store.randomness import below, draw, fold, stream, uniform

words = st.integers(0, 2**64 - 1)
PURPOSES = ("label", "target", "mask", "order")


def normal_score(counts: Int64s, expected: float, freedom: int) -> float:
    """How many standard deviations chi-square lies from its mean."""
    return float((((counts - expected) ** 2 / expected).sum() - freedom) / np.sqrt(2 * freedom))


def dependence(left: UInt64s, right: UInt64s) -> float:
    """Chi-square score of the 16 x 16 table of two columns of four-bit values."""
    table = np.bincount((left * np.uint64(16) + right).astype(np.int64), minlength=256)
    return normal_score(table, len(left) / 256, 255)


def test_draws_are_the_published_splitmix64_sequence() -> None:
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert draw(1234567, np.arange(4)).tolist() == published
    assert hex(int(draw(0, 0))) == "0xe220a8397b1dcdaf"


def test_golden_addresses() -> None:
    assert hex(int(stream(42, "mask", 0, 7))) == "0xe5e3fec842e1ef46"
    assert hex(int(stream(42, "order", 3, 2**64 - 1))) == "0x8ff8ab1288961bfd"


@given(words, words, st.integers(0, 2**32), st.integers(1, 2**32))
@settings(deadline=None)
def test_compiled_forms_equal_the_numpy_forms(state: int, item: int, counter: int, bound: int) -> None:
    key = np.uint64(state)
    assert randomness.fold_one(key, np.uint64(item)) == fold(state, item)
    assert randomness.draw_one(key, counter) == draw(state, counter)
    assert randomness.below_one(key, counter, bound) == below(state, counter, bound)
    assert randomness.uniform_one(key, counter) == uniform(state, counter)


@given(words, words, st.integers(0, 2**32), st.integers(1, 2**32))
def test_numpy_forms_equal_whole_number_arithmetic(state: int, item: int, counter: int, bound: int) -> None:
    def mix(word: int) -> int:
        word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        word = (word ^ (word >> 27)) * 0x94D049BB133111EB % 2**64
        return word ^ (word >> 31)

    golden = 0x9E3779B97F4A7C15
    word = mix((state + (counter + 1) * golden) % 2**64)
    assert int(draw(state, counter)) == word
    assert int(below(state, counter, bound)) == word * bound >> 64
    assert float(uniform(state, counter)) == (word >> 11) / 2**53 < 1
    assert int(fold(state, item)) == mix(mix((state + golden) % 2**64) ^ item)


def test_an_array_of_items_has_the_keys_of_its_items() -> None:
    keys = stream(3, "mask", np.array([0, 5]), np.array([7, 8], np.uint64))
    assert keys.dtype == np.uint64
    assert keys.tolist() == [int(stream(3, "mask", 0, 7)), int(stream(3, "mask", 5, 8))]


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(OverflowError):
        stream(-1, "mask", 0, 0)


@pytest.mark.parametrize("bound", [0, 2**32 + 1])
def test_a_bound_out_of_range_is_refused(bound: int) -> None:
    with pytest.raises(AssertionError):
        below(1, 0, bound)


def test_every_part_of_the_address_counts() -> None:
    addresses = [(s, p, e, i) for s in (0, 1) for p in PURPOSES for e in (0, 1) for i in (0, 1)]
    assert len({int(stream(*one)) for one in addresses}) == len(addresses) == 32


def test_items_never_share_a_key() -> None:
    keys = stream(42, "mask", 0, np.arange(200_000))
    assert len(np.unique(keys)) == 200_000


@pytest.mark.parametrize("bound", [2, 7, 100, 4096])
def test_values_below_a_bound_are_equally_frequent(bound: int) -> None:
    """Over items (first draw of each) and over counters (one long stream)."""
    over_items = below(stream(42, "label", 0, np.arange(200_000)), 0, bound)
    over_counters = below(stream(42, "label", 0, 0), np.arange(200_000), bound)
    for values in (over_items, over_counters):
        counts = np.bincount(values.astype(np.int64), minlength=bound)
        assert len(counts) == bound
        assert abs(normal_score(counts, 200_000 / bound, bound - 1)) < 4


def test_uniform_has_the_moments_of_the_unit_interval() -> None:
    values = uniform(stream(42, "label", 0, np.arange(200_000)), 0)
    assert 0 <= values.min() < 1e-4 and 1 - 1e-4 < values.max() < 1
    assert abs(values.mean() - 1 / 2) < 4 * np.sqrt(1 / 12 / 200_000)
    assert abs(values.var() - 1 / 12) < 4 * np.sqrt(1 / 180 / 200_000)


@pytest.mark.parametrize("shift", [0, 30, 60])
def test_neighbouring_addresses_are_independent(shift: int) -> None:
    """Four bits of a draw say nothing about those of the next item, epoch, seed, counter or purpose."""
    items = np.arange(200_000)

    def bits(keys: UInt64s, counter: int = 0) -> UInt64s:
        return (draw(keys, counter) >> np.uint64(shift)) & np.uint64(15)

    here = bits(stream(42, "mask", 0, items))
    neighbours = {
        "item": bits(stream(42, "mask", 0, items + 1)),
        "epoch": bits(stream(42, "mask", 1, items)),
        "seed": bits(stream(43, "mask", 0, items)),
        "purpose": bits(stream(42, "label", 0, items)),
        "counter": bits(stream(42, "mask", 0, items), 1),
        "power of two": bits(stream(42, "mask", 0, items ^ 65536)),
    }
    scores = {name: dependence(here, there) for name, there in neighbours.items()}
    assert {name: score for name, score in scores.items() if abs(score) > 4} == {}
    assert dependence(here, here) > 100


def test_one_changed_bit_of_an_item_changes_half_the_bits_of_its_key() -> None:
    items = stream(1, "item", 0, np.arange(2_000))
    keys = stream(42, "mask", 0, items)
    for bit in range(64):
        changed = keys ^ stream(42, "mask", 0, items ^ np.uint64(1 << bit))
        mean = float(np.bitwise_count(changed).mean())
        assert abs(mean - 32) < 5 * 4 / np.sqrt(2_000), bit
