"""The loader: compiled and plain gather alike, masks by epoch, deleted slots skipped and counted."""

import dataclasses
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from small_shards import put_shards
from tiers import examples

from corpora.store.places.place import Place
from shards.masks.masking import MaskSettings
from shards.reading.files.shard_set import ShardSet
from shards.reading.loader import GatheredExamples, Loader, gather_plain, prefetch
from shards.reading.order import take_rank_share
from shards.settings import ShardSettings

KINDS = {
    "dynamic": ShardSettings(length=32, copies=2),
    "static": ShardSettings(length=32, copies=2, masking=MaskSettings(kind="static")),
    "whole-word": ShardSettings(length=32, masking=MaskSettings(unit="whole-word", rate=0.3)),
    "full-sentences": ShardSettings(length=32, input="full-sentences"),
}


@pytest.fixture(scope="module")
def shard_sets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ShardSet]:
    """One small shard set a kind; three documents of "dynamic" are deleted."""
    sets = {}
    for name, kind in KINDS.items():
        place = Place(str(tmp_path_factory.mktemp(name)))
        sets[name] = ShardSet(place, put_shards(place, kind, gone=(1, 2, 30) if name == "dynamic" else ()).shards)
    return sets


def assert_equal(one: GatheredExamples, other: GatheredExamples) -> None:
    """Every field alike, types too."""
    for field in dataclasses.fields(GatheredExamples):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        assert type(mine) is type(theirs), field.name
        if isinstance(mine, np.ndarray):
            assert mine.dtype == theirs.dtype and np.array_equal(mine, theirs), field.name
        else:
            assert mine == theirs, field.name


@pytest.mark.parametrize("kind", KINDS)
@examples(15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 400), st.integers(0, 40), st.integers(0, 2**62))
def test_the_kernels_give_what_their_definition_gives(
    shard_sets: dict[str, ShardSet], kind: str, first: int, num: int, seed: int
) -> None:
    """Fails if a gathered row, mask or label differs from the example that is in the slot."""
    slots = range(first, first + num)
    assert_equal(Loader(shard_sets[kind], seed).gather(slots), gather_plain(shard_sets[kind], seed, slots))


@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_word_starts_are_those_of_the_targets(tmp_path: Path, kind: str) -> None:
    """Fails if asking for word starts changes what is gathered, or where they are those of other places."""
    place = Place(str(tmp_path))
    shard_set = ShardSet(place, put_shards(place, KINDS[kind], vocabulary_size=60).shards)  # most words are cut
    asked = Loader(shard_set, 5, with_word_starts=True).gather(range(40))
    assert_equal(Loader(shard_set, 5).gather(range(40)), dataclasses.replace(asked, word_starts=None))
    examples = map(shard_set.__getitem__, range(len(shard_set)))
    stored = {example.example_id: example.word_starts for example in examples}
    starts = np.concatenate([stored[number] for number in asked.example_ids.tolist()])
    assert asked.word_starts is not None and asked.word_starts.dtype == bool
    assert np.array_equal(asked.word_starts, starts[asked.masked])
    assert 0 < asked.word_starts.sum() < len(asked.masked)


@pytest.mark.parametrize("kind", KINDS)
def test_lengths_are_those_of_what_is_gathered(shard_sets: dict[str, ShardSet], kind: str) -> None:
    """Fails if a length is another example's, where a deleted one has any, or where some slots are not as all."""
    loader = Loader(shard_sets[kind], 3)
    slots = np.random.default_rng(1).permutation(2 * len(loader))[: len(loader)]
    lengths, found = loader.find_lengths(slots), loader.gather(slots)
    assert lengths.dtype == np.int64 and lengths[lengths > 0].tolist() == np.diff(found.offsets).tolist()
    assert len(slots) - np.count_nonzero(lengths) == found.deleted and len(loader.find_lengths(range(4, 4))) == 0
    alone = [loader.gather(range(slot, slot + 1)) for slot in slots.tolist()]
    assert lengths.tolist() == [len(one.ids) for one in alone]
    assert found.ids.tolist() == [token for one in alone for token in one.ids.tolist()]
    assert np.array_equal(loader.find_lengths(range(5, 50)), loader.find_lengths(np.arange(5, 50)))


def test_what_the_kinds_are(shard_sets: dict[str, ShardSet]) -> None:
    """Fails if the comparison above looks at nothing: each kind has masks, rows, and its own columns."""
    for name, shard_set in shard_sets.items():
        found = Loader(shard_set, 1).gather(range(len(shard_set)))
        assert len(shard_set) > 20 and len(shard_set.parts) == 2
        assert len(found.masked) > 20 and found.max_length <= 32
        assert (found.deleted > 0) == (name == "dynamic")
        assert (found.labels is None) == (name == "full-sentences")
        if found.labels is None:
            assert np.array_equal(found.boundary, np.diff(found.offsets))
        else:
            assert {*found.labels.tolist()} == {0, 1} and (found.boundary < np.diff(found.offsets)).all()


def test_an_epoch_holds_every_live_example_once(shard_sets: dict[str, ShardSet]) -> None:
    """Fails if a deleted example is read, a live one is not, or a deletion moves another."""
    shard_set = shard_sets["dynamic"]
    loader = Loader(shard_set, 9)
    for epoch in range(2):
        found = loader.gather(range(epoch * len(loader), (epoch + 1) * len(loader)))
        assert sorted(found.example_ids.tolist()) == sorted(e.example_id for e in shard_set.iter_live_examples())
        assert found.deleted == len(loader) - found.num_examples > 0
        assert {*found.epochs.tolist()} == {epoch}


@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_masks_are_fresh_in_every_epoch_unless_they_are_static(shard_sets: dict[str, ShardSet], kind: str) -> None:
    """Fails if dynamic masks repeat, or static ones change."""
    loader = Loader(shard_sets[kind], 9)
    both = [loader.gather(range(e * len(loader), (e + 1) * len(loader))) for e in range(2)]
    same = total = 0
    rows = {int(id): places(both[1], row) for row, id in enumerate(both[1].example_ids)}
    for row, id in enumerate(both[0].example_ids):
        same += rows[int(id)] == places(both[0], row)
        total += 1
    assert total > 20 and (same == total if kind == "static" else same < total / 4)


def places(found: GatheredExamples, row: int) -> list[int]:
    """The masked places of one example, counted from its first token."""
    inside = (found.masked >= found.offsets[row]) & (found.masked < found.offsets[row + 1])
    return (found.masked[inside] - found.offsets[row]).tolist()


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_ranks_read_what_one_reads(shard_sets: dict[str, ShardSet], ranks: int) -> None:
    """Fails if an example or its masks depend on how many ranks there are."""
    loader, slots = Loader(shard_sets["dynamic"], 5), range(50, 83)
    whole = loader.gather(slots)
    shares = [loader.gather(take_rank_share(slots, rank, ranks)) for rank in range(ranks)]
    assert np.array_equal(np.concatenate([part.example_ids for part in shares]), whole.example_ids)
    assert np.array_equal(np.concatenate([part.ids for part in shares]), whole.ids)
    assert np.array_equal(np.concatenate([part.targets for part in shares]), whole.targets)
    assert sum(part.deleted for part in shares) == whole.deleted


def test_token_counts(shard_sets: dict[str, ShardSet]) -> None:
    """Fails if tokens are missed or special ones counted."""
    shard_set = shard_sets["dynamic"]
    rows = np.concatenate([shard_set[number].ids for number in range(len(shard_set))])
    expected = np.bincount(rows, minlength=shard_set.manifest.facts["vocab_size"])
    expected[list(shard_set.manifest.facts["special_ids"].values())] = 0
    loader = Loader(shard_set, 1)
    assert np.array_equal(loader.sample_token_counts(10**9), expected) and expected.sum() > 300
    assert 0 < loader.sample_token_counts(len(rows) // 2).sum() < expected.sum()


def test_the_next_one_is_prepared_ahead() -> None:
    """Fails if preparation waits until it is asked for, or order is lost."""
    begun, second = [], threading.Event()

    def prepare(cut: int) -> int:
        begun.append(cut)
        if cut == 1:
            second.set()
        return cut * cut

    found = prefetch(range(4), prepare)
    assert next(found) == 0
    assert second.wait(120) and begun[:2] == [0, 1]
    assert list(found) == [1, 4, 9] and begun == [0, 1, 2, 3]


def test_what_fails_ahead_is_raised_where_it_is_asked_for() -> None:
    """Fails if an error on the thread is swallowed."""

    def prepare(cut: int) -> int:
        if cut == 1:
            raise KeyError("gone")
        return cut

    found = prefetch(range(3), prepare)
    assert next(found) == 0
    with pytest.raises(KeyError, match="gone"):
        next(found)
