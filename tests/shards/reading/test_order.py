"""The order of examples: a permutation an epoch, the same on any number of ranks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from shards.reading.order import (
    find_example_plain,
    find_global_examples,
    split_slots,
    step_slots,
    take_rank_share,
)

SIZES = st.integers(1, 5_000) | st.sampled_from([2**k + d for k in range(1, 12) for d in (-1, 0, 1)])


@examples(60)
@given(SIZES, st.integers(0, 2**63), st.integers(0, 2**20))
def test_every_epoch_is_a_permutation(num_examples: int, seed: int, epoch: int) -> None:
    """Fails if an example is read twice in an epoch, or never."""
    slots = np.arange(epoch * num_examples, (epoch + 1) * num_examples)
    assert np.array_equal(np.sort(find_global_examples(slots, num_examples, seed)), np.arange(num_examples))


@examples(60)
@given(SIZES, st.integers(0, 2**63), st.lists(st.integers(0, 2**40), min_size=1, max_size=20))
def test_the_kernel_gives_what_its_definition_gives(num_examples: int, seed: int, slots: list[int]) -> None:
    """Fails if compiled and plain order differ, also where slots are out of order and of many epochs."""
    found = find_global_examples(np.array(slots), num_examples, seed)
    assert found.tolist() == [find_example_plain(slot, num_examples, seed) for slot in slots]


def test_orders_differ_by_epoch_and_seed_and_are_no_pattern() -> None:
    """Fails if two epochs share their order, or neighbours stay neighbours."""
    num = 10_007
    epochs = [find_global_examples(np.arange(e * num, (e + 1) * num), num, 3) for e in range(3)] + [
        find_global_examples(np.arange(num), num, 4)
    ]
    for one in range(4):
        for other in range(one):
            assert np.mean(epochs[one] == epochs[other]) < 0.01
    for order in epochs:
        assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.05
        assert abs(np.corrcoef(order, np.arange(num))[0, 1]) < 0.05


def test_every_example_is_as_probable_at_every_place() -> None:
    """Fails if the network favours places in a small set (by five sigma)."""
    num, epochs = 7, 20_000
    orders = find_global_examples(np.arange(num * epochs), num, 11).reshape(epochs, num)
    for place in range(num):
        counts = np.bincount(orders[:, place], minlength=num)
        assert np.all(np.abs(counts - epochs / num) < 5 * np.sqrt(epochs / num))


def test_examples_of_a_huge_set() -> None:
    """Fails if numbers beyond 32 bits are cut."""
    num = 3 * 2**40 + 1
    slots = np.arange(2**50, 2**50 + 2_000)
    found = find_global_examples(slots, num, 1)
    assert len({*found.tolist()}) == 2_000 and 2**40 < found.max() < num
    assert found[:20].tolist() == [find_example_plain(int(slot), num, 1) for slot in slots[:20]]


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8])
def test_shares_are_the_step(ranks: int) -> None:
    """Fails if a slot of a step is read by no rank or by two."""
    for slots in (range(100, 107), range(3), step_slots(4, 32, 1_000)):
        shares = [take_rank_share(slots, rank, ranks) for rank in range(ranks)]
        assert [slot for part in shares for slot in part] == list(slots)
        assert max(map(len, shares)) - min(map(len, shares)) <= 1
        size, num = 2, -(-max(map(len, shares)) // 2)
        for part in shares:
            pieces = split_slots(part, size, num)
            assert len(pieces) == num and [slot for piece in pieces for slot in piece] == list(part)
