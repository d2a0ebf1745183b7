"""Mixtures: exact shares for any slot, every component read as it is by itself, and what was read of each."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from small_shards import put_shards
from tiers import examples

from corpora.store.places.place import Place
from shards.build import ShardSettings
from shards.reading.files.shard_set import ShardSet
from shards.reading.loader import TALLY_NAMES, Loader, SlotReader
from shards.reading.mixture import Mixture, gather_mixture_plain
from shards.reading.order import (
    MAX_PERIOD_SLOTS,
    Interleave,
    apportion,
    lay_out_block,
    lay_out_block_plain,
    take_rank_share,
    to_whole_shares,
)

SHARES = st.lists(st.integers(1, 40), min_size=1, max_size=6)


@examples(60)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=5).filter(sum))
def test_the_kernel_gives_what_its_definition_gives(counts: list[int]) -> None:
    """Fails if compiled and plain layouts differ, also where a component has no slot in a block."""
    components, ranks = lay_out_block(np.array(counts))
    assert list(zip(components.tolist(), ranks.tolist(), strict=True)) == lay_out_block_plain(counts)


@examples(60)
@given(SHARES, st.integers(0, 10**12))
def test_every_component_has_its_part_of_any_first_slots(shares: list[int], period: int) -> None:
    """Fails if of the first n slots a component has one more or one less than its part, for any n, or where a period
    is not exact, a slot of a component is left out, or comes twice."""
    interleave, total = Interleave(shares), sum(shares)
    components, inner = interleave.locate_slots(np.arange(2 * total) + period * total)
    for number, part in enumerate(shares):
        own = components == number
        assert inner[own].tolist() == list(range(period * part, (period + 2) * part))
        exact = np.arange(1, 2 * total + 1) * part
        assert (np.abs(np.cumsum(own) * total - exact) < total).all()
        assert np.count_nonzero(own[:total]) == part


@examples(60)
@given(st.lists(st.integers(20, 400), min_size=2, max_size=5), st.integers(0, 10**6), st.integers(0, 60))
def test_a_long_period_is_laid_out_in_blocks(shares: list[int], first: int, num: int) -> None:
    """Fails if a block begins further than a slot from a component's part, where blocks do not join, or where some
    slots in any order are not as all are."""
    interleave, total = Interleave(shares, block=100), sum(shares)
    components, inner = interleave.locate_slots(np.arange(total))
    for number, part in enumerate(shares):
        assert inner[components == number].tolist() == list(range(part))
        exact = np.arange(1, total + 1) * part
        assert (np.abs(np.cumsum(components == number) * total - exact) < 2 * total).all()
    slots = np.arange(first, first + num)
    picked = np.random.default_rng(num).permutation(slots)
    found, alone = interleave.locate_slots(picked), [interleave.locate_slots(np.array([slot])) for slot in picked]
    assert found[0].tolist() == [int(each[0][0]) for each in alone]
    assert found[1].tolist() == [int(each[1][0]) for each in alone]
    before = [interleave.count_before(slot) for slot in (first, first + num)]
    counts = np.bincount(interleave.locate_slots(slots)[0], minlength=len(shares))
    assert np.subtract(before[1], before[0]).tolist() == counts.tolist() and sum(before[0]) == first


def test_weights_become_whole_numbers() -> None:
    """Fails if a weight is taken for its binary neighbour, or proportions without a small period are lost."""
    assert to_whole_shares([Fraction("0.1"), Fraction("0.2"), Fraction("0.7")]) == (1, 2, 7)
    assert to_whole_shares([Fraction(5)]) == (1,)
    odd = [Fraction("0.1234567890123"), Fraction("31.00000000000000000007")]
    found = to_whole_shares(odd)
    assert sum(found) == MAX_PERIOD_SLOTS and abs(found[0] - odd[0] / sum(odd) * MAX_PERIOD_SLOTS) < 1
    assert Interleave(to_whole_shares([Fraction(1), Fraction(999_999)])).count_before(10**12) == (10**6, 10**12 - 10**6)


@given(st.integers(0, 10**20), st.lists(st.integers(1, 10**9), min_size=1, max_size=8))
def test_slots_are_apportioned_to_within_one(slots: int, weights: list[int]) -> None:
    """Fails if slots are lost, or a component gets one more or less than its part."""
    parts = [Fraction(weight, sum(weights)) for weight in weights]
    found = apportion(slots, parts)
    assert sum(found) == slots and all(abs(n - part * slots) < 1 for n, part in zip(found, parts, strict=True))


@pytest.fixture(scope="module")
def shard_sets(tmp_path_factory: pytest.TempPathFactory) -> list[ShardSet]:
    """Two of one vocabulary, of other lengths; the second lost documents."""
    folders = (Place(str(tmp_path_factory.mktemp(name))) for name in "ab")
    kinds = (ShardSettings(length=32, copies=2), ShardSettings(length=20))
    gone: tuple[Sequence[int], ...] = ((), (1, 2, 30))
    return [
        ShardSet(place, put_shards(place, kind, gone=lost).shards)
        for place, kind, lost in zip(folders, kinds, gone, strict=True)
    ]


def mixed(shard_sets: Sequence[ShardSet], shares: Sequence[int], begins: Sequence[int] = ()) -> Mixture:
    return Mixture([Loader(shard_set, 9) for shard_set in shard_sets], Interleave(shares), begins)


@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 400), st.integers(0, 40), st.integers(1, 9), st.integers(1, 9), st.integers(0, 50))
def test_a_mixture_gathers_what_its_definition_says(
    shard_sets: list[ShardSet], first: int, num: int, one: int, other: int, begin: int
) -> None:
    """Fails if tokens, masks or labels of one example come to another, order is lost, or counts are of others."""
    mixture = mixed(shard_sets, (one, other), (begin, 0))
    slots = range(first, first + num)
    components, inner = mixture.locate_slots(slots)
    readers: list[SlotReader] = [Loader(shard_set, 9) for shard_set in shard_sets]
    found, plain = (
        mixture.gather(slots),
        gather_mixture_plain(readers, components.tolist(), inner.tolist()) if num else None,
    )
    if plain is None:
        assert found.num_examples == 0 and found.tallies.tolist() == [[0] * len(TALLY_NAMES)] * 2
        return
    for name in ("ids", "offsets", "boundary", "labels", "masked", "targets", "example_ids", "epochs", "by_component"):
        mine, theirs = getattr(found, name), getattr(plain, name)
        assert mine.dtype == theirs.dtype and np.array_equal(mine, theirs), name
    assert found.deleted == plain.deleted == found.tallies[:, TALLY_NAMES.index("deleted")].sum()
    assert found.tallies[:, TALLY_NAMES.index("tokens")].sum() == len(found.ids)
    assert found.tallies[:, TALLY_NAMES.index("masked")].sum() == len(found.masked)


def test_ranks_read_what_one_reads(shard_sets: list[ShardSet]) -> None:
    """Fails if an example of a mixture depends on how many ranks there are, or on how slots are cut."""
    mixture, slots = mixed(shard_sets, (2, 1)), range(50, 133)
    whole = mixture.gather(slots)
    for ranks in (2, 3, 7):
        parts = [mixture.gather(take_rank_share(slots, rank, ranks)) for rank in range(ranks)]
        assert np.array_equal(np.concatenate([part.ids for part in parts]), whole.ids)
        assert np.array_equal(np.concatenate([part.targets for part in parts]), whole.targets)
        assert np.array_equal(sum(part.tallies for part in parts), whole.tallies)


def test_every_live_example_is_read_once_in_each_epoch_of_its_component(shard_sets: list[ShardSet]) -> None:
    """Fails if a mixture, whose parts are read with other shares one after the other, leaves out an example, reads
    one twice, or reads a deleted one."""
    seen: list[list[np.ndarray]] = [[], []]
    begins = (0, 0)
    for shares, num in (((3, 1), 150), ((1, 1), 333), ((1, 4), 271)):
        mixture = mixed(shard_sets, shares, begins)
        for first in range(0, num, 13):
            slots = np.arange(first, min(first + 13, num))
            components, _ = mixture.locate_slots(slots)
            found, live = mixture.gather(slots), mixture.find_lengths(slots) > 0
            for number in (0, 1):
                own = components[live] == number
                seen[number].append(np.stack([found.epochs[own], found.example_ids[own].astype(np.int64)]))
        begins = tuple(np.add(begins, Interleave(shares).count_before(num)).tolist())
    for shard_set, parts, read in zip(shard_sets, seen, begins, strict=True):
        epochs, ids = np.concatenate(parts, axis=1)
        assert read > len(shard_set)
        expected = sorted(np.uint64(example.example_id).astype(np.int64) for example in shard_set.iter_live_examples())
        for epoch in range(read // len(shard_set)):
            assert sorted(ids[epochs == epoch].tolist()) == expected
        rest = ids[epochs == read // len(shard_set)].tolist()
        assert len(rest) == len({*rest})


def test_a_mixture_is_as_long_as_no_example_comes_twice(shard_sets: list[ShardSet]) -> None:
    """Fails if the length is not that of the component that is through first."""
    mixture = mixed(shard_sets, (5, 1))
    counts = [Interleave((5, 1)).count_before(len(mixture) + more) for more in (0, 1)]
    sizes = [len(shard_set) for shard_set in shard_sets]
    assert all(n <= size for n, size in zip(counts[0], sizes, strict=True))
    assert any(n > size for n, size in zip(counts[1], sizes, strict=True))


def test_token_counts_follow_the_shares(shard_sets: list[ShardSet]) -> None:
    """Fails if a small component counts as much as a large one, or not at all."""
    both = [Loader(shard_set, 9).sample_token_counts(10**6) for shard_set in shard_sets]
    found = mixed(shard_sets, (3, 1)).sample_token_counts(40_000)
    expected = sum(counts / counts.sum() * 40_000 * part for counts, part in zip(both, (0.75, 0.25), strict=True))
    assert np.abs(found - expected).max() <= 1 and abs(found.sum() - 40_000) < len(found)
