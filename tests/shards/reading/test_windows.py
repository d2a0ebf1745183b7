"""The windowed order: every example once an epoch, of a few shards at a time, the same from any slot on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_shards import put_shards
from tiers import examples

from corpora.store.places.place import Place
from shards.reading.files.shard_set import ShardSet
from shards.reading.loader import Loader
from shards.reading.order import WindowedOrder, find_windowed_example_plain, step_slots, take_rank_share
from shards.settings import ShardSettings

SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=9)
WINDOWS = st.integers(1, 10)
SEEDS = st.integers(0, 2**63)


@examples(60)
@given(SIZES, WINDOWS, SEEDS, st.integers(0, 2**20))
def test_every_epoch_is_a_permutation_of_windows(sizes: list[int], window: int, seed: int, epoch: int) -> None:
    """Fails if an example is read twice in an epoch or never, or a window reads of other shards than its own."""
    order, num = WindowedOrder(sizes, window, seed), sum(sizes)
    slots = np.arange(epoch * num, (epoch + 1) * num)
    found, windows = order.find_examples(slots), order.find_windows(slots)
    assert np.array_equal(np.sort(found), np.arange(num)) and {*order.find_epochs(slots).tolist()} == {epoch}
    assert np.all(np.diff(windows) >= 0) and len({*windows.tolist()}) == order.num_windows
    shards = np.searchsorted(np.cumsum(sizes), found, side="right")
    for one in {*windows.tolist()}:
        held = order.list_shards(one)
        assert {*shards[windows == one].tolist()} == {*held} and len(held) <= window
    assert sorted(shard for one in {*windows.tolist()} for shard in order.list_shards(one)) == list(range(len(sizes)))


@examples(60)
@given(SIZES, WINDOWS, SEEDS, st.lists(st.integers(0, 2**40), min_size=1, max_size=20))
def test_any_slots_give_what_the_definition_gives(sizes: list[int], window: int, seed: int, slots: list[int]) -> None:
    """Fails if a slot depends on those that were asked for before or with it: a run could not go on from it."""
    order = WindowedOrder(sizes, window, seed)
    wanted = [find_windowed_example_plain(slot, sizes, window, seed) for slot in slots]
    assert order.find_examples(np.array(slots)).tolist() == wanted
    assert [int(order.find_examples(np.array([slot]))[0]) for slot in reversed(slots)] == wanted[::-1]


def test_orders_differ_by_epoch_and_seed_and_mix_a_window() -> None:
    """Fails if epochs share the order of shards or of a window's examples, or neighbours stay neighbours."""
    sizes = [500] * 24
    slots = np.arange(3 * 12_000).reshape(3, -1)
    order = WindowedOrder(sizes, 6, 1)
    epochs = [order.find_examples(epoch) for epoch in slots] + [WindowedOrder(sizes, 6, 2).find_examples(slots[0])]
    for one in range(4):
        for other in range(one):
            assert np.mean(epochs[one] == epochs[other]) < 0.01
        first = epochs[one][:3_000]  # six shards: neighbours are of one shard in a sixth of the cases, sigma 0.007
        assert abs(np.mean(first[1:] // 500 == first[:-1] // 500) - 1 / 6) < 0.035
        assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 0.1
    assert len({tuple(order.list_shards(window)) for window in range(12)}) == 12


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_run_goes_on_from_any_slot_on_any_number_of_ranks(
    tmp_path_factory: pytest.TempPathFactory, ranks: int
) -> None:
    """Fails if what a step holds depends on where a run began, or on how many processes read it."""
    shard_set = ShardSet(place := Place(str(tmp_path_factory.mktemp("windowed"))), put_shards(place, SMALL).shards)
    whole = Loader(shard_set, 5, window=1)
    assert len(shard_set.parts) == 2
    steps = [step_slots(step, 10) for step in range(-(-2 * len(whole) // 10))]
    seen = [whole.gather(step) for step in steps]
    for begun in (0, 3, len(steps) - 2):
        later = Loader(shard_set, 5, window=1)
        for step in range(begun, len(steps), 2):
            found = [later.gather(take_rank_share(steps[step], rank, ranks)) for rank in range(ranks)]
            for name in ("ids", "targets", "example_ids", "epochs"):
                wanted = getattr(seen[step], name)
                assert np.array_equal(np.concatenate([getattr(part, name) for part in found]), wanted), name
    ids = np.concatenate([step.example_ids for step in seen])[: len(whole)]
    assert sorted(ids.tolist()) == sorted(example.example_id for example in shard_set.iter_live_examples())


SMALL = ShardSettings(length=32)
