"""Datasets of torch over shards: each live example once an epoch, whatever reads it, stops it and goes on."""

import json
from collections import Counter, deque
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_shards import put_shards
from tiers import examples
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, SequentialSampler

from corpora.errors import InputError
from corpora.store.places.place import Place
from shards.reading.files.shard_set import ShardSet
from shards.reading.loader import Loader
from shards.reading.records import IGNORED
from shards.settings import ShardSettings
from trainer.reading.datasets import ExampleDataset, ExampleStream, PaddedBatches, StreamLoader

SEED = 42


@pytest.fixture(scope="module")
def shard_set(tmp_path_factory: pytest.TempPathFactory) -> ShardSet:
    """Examples of up to 32 tokens, some deleted."""
    place = Place(str(tmp_path_factory.mktemp("whole")))
    return ShardSet(place, put_shards(place, ShardSettings(length=32, copies=2), gone=(1, 2, 11)).shards)


@pytest.fixture(scope="module")
def fewer(shard_set: ShardSet) -> ShardSet:
    """The same shards after more documents were deleted."""
    changed = replace(shard_set)
    live = shard_set.live.copy()
    live[::5] = False
    for name, value in (("live", live), ("deleted_rows", frozenset({(b"", 0, 0)}))):
        object.__setattr__(changed, name, value)
    return changed


def rows_of(batch: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """The examples of a batch, each with its masks and labels, without padding."""
    for row in range(len(batch["input_ids"])):
        size = int(batch["attention_mask"][row].sum())
        columns = ("input_ids", "token_type_ids", "labels")
        yield (*(tuple(batch[key][row, :size].tolist()) for key in columns), int(batch["next_sentence_label"][row]))


def expected(shard_set: ShardSet, epoch: int) -> list[tuple[Any, ...]]:
    """Return what the loader gathers in an epoch, example by example."""
    size = len(shard_set)
    found = Loader(shard_set, SEED).gather(range(epoch * size, (epoch + 1) * size))
    labels = np.full(len(found.ids), IGNORED)
    labels[found.masked] = found.targets
    assert found.labels is not None
    cuts = found.offsets[1:-1]
    ids, guessed = np.split(found.ids, cuts), np.split(labels, cuts)
    return [
        (tuple(a.tolist()), tuple((np.arange(len(a)) >= bound).astype(int).tolist()), tuple(b.tolist()), label)
        for a, b, bound, label in zip(ids, guessed, found.boundary.tolist(), found.labels.tolist(), strict=True)
    ]


def test_a_map_style_dataset_reads_epochs_as_the_loader(shard_set: ShardSet) -> None:
    """In order, by a batch sampler, and with workers that are kept: another epoch has other masks."""
    dataset, collate = ExampleDataset(shard_set), PaddedBatches.of(shard_set, multiple=8)
    sampler = BatchSampler(SequentialSampler(dataset), 7, drop_last=False)
    loader = DataLoader(dataset, batch_sampler=sampler, collate_fn=collate, num_workers=1, persistent_workers=True)
    for epoch in (0, 1, 5):
        dataset.set_epoch(epoch)
        batches = list(loader)
        assert {batch["input_ids"].shape[1] % 8 for batch in batches} == {0}
        assert [row for batch in batches for row in rows_of(batch)] == expected(shard_set, epoch)
    assert expected(shard_set, 0) != expected(shard_set, 1)
    other = ExampleDataset(shard_set)
    other.load_state_dict(dataset.state_dict())
    assert other[3]["labels"].tolist() == dataset[3]["labels"].tolist() == list(expected(shard_set, 5)[3][2])


def test_ranks_share_an_epoch_by_torchs_sampler(shard_set: ShardSet) -> None:
    """DistributedSampler's shares, shuffled by it once more, hold each live example once (it may repeat one)."""
    dataset, found = ExampleDataset(shard_set, padded=True), Counter[Any]()
    for rank in range(3):
        sampler = DistributedSampler(dataset, num_replicas=3, rank=rank, shuffle=True, seed=1)
        loader = DataLoader(dataset, batch_size=4, sampler=sampler)
        found.update(row for batch in loader for row in rows_of(batch))
    assert set(found) == set(expected(shard_set, 0)) and found.total() - len(dataset) in (0, 1, 2)


def as_workers_read(stream: ExampleStream, workers: int) -> Iterator[list[int]]:
    """The ids of each batch as a StreamLoader gives them: copies of the stream read, in turns; the stream is told."""
    records = stream._records
    shares = deque(copy(stream).shares(worker, workers) for worker in range(workers))
    while shares:
        found = next(shares[0], None)
        if found is None:
            shares.popleft()
            continue
        stream.skip()
        yield records.gather(np.array(found[1], np.int64)).example_ids.tolist()
        shares.rotate(-1)
    stream.end_epoch()


turns = st.lists(
    st.tuples(st.integers(1, 7), st.integers(1, 4), st.integers(1, 3), st.integers(0, 5)), min_size=1, max_size=6
)


@given(turns, st.integers(0, 6), st.integers(0, 3))
@examples(40)
def test_each_live_example_once_an_epoch_whatever_stops_it(
    shard_set: ShardSet, fewer: ShardSet, plan: list[tuple[int, int, int, int]], forget: int, epoch: int
) -> None:
    """Stopped after some steps again and again, gone on with other batches, ranks and workers, a forget in between."""
    first = ExampleStream(shard_set, batch=1)
    first.set_epoch(epoch)
    state, states, seen = first.state_dict(), list[dict[str, Any]](), list[int]()
    for turn, (batch, ranks, workers, steps) in enumerate([*plan, (3, 2, 2, len(shard_set))]):
        states = []
        for rank in range(ranks):
            stream = ExampleStream(fewer if turn >= forget else shard_set, batch=batch, rank=rank, ranks=ranks)
            stream.load_state_dict(state)
            for ids in islice(as_workers_read(stream, workers), steps):
                seen += ids
            states.append(stream.state_dict())
        state = states[0]
        if state["epoch"] != epoch:
            break
    assert {each["epoch"] for each in states} == {epoch + 1}
    order = Loader(shard_set, SEED).gather(range(epoch * len(shard_set), (epoch + 1) * len(shard_set))).example_ids
    kept = set(Loader(fewer, SEED).gather(range(len(shard_set))).example_ids.tolist())
    assert len(seen) == len(set(seen)) and kept <= set(seen) <= set(order.tolist())
    if forget > turn:
        assert sorted(seen) == sorted(order.tolist())


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # more workers than this machine has cores
@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_goes_on_at_the_exact_example(workers: int, shard_set: ShardSet) -> None:
    """Two epochs of the loader's examples, left in the middle, gone on with by another loader; workers are ahead."""
    stream = ExampleStream(shard_set, batch=5, multiple=8)
    loader = StreamLoader(stream, num_workers=workers)
    read = [row for batch in islice(loader, 3) for row in rows_of(batch)]
    state = json.loads(json.dumps(loader.state_dict()))
    again = StreamLoader(ExampleStream(shard_set, batch=4), num_workers=workers)
    again.load_state_dict(state)
    rest = [row for batch in again for row in rows_of(batch)]
    assert len(read) == 15 and read + rest == expected(shard_set, 0)
    assert [row for batch in again for row in rows_of(batch)] == expected(shard_set, 1)
    assert again.state_dict()["epoch"] == 2
    assert [row for batch in loader for row in rows_of(batch)] == rest  # a pass that was left goes on as well


def test_a_pass_that_was_read_to_its_end_leaves_nothing(shard_set: ShardSet) -> None:
    """A state after an epoch's last batch, before the loop knows that it was the last: the rest is nothing."""
    stream = ExampleStream(shard_set, batch=4)
    batches = iter(stream)
    for _ in range(-(-int(shard_set.live.sum()) // 4)):
        next(batches)
    again = ExampleStream(shard_set, batch=3)
    again.load_state_dict(stream.state_dict())
    assert list(again) == []
    assert next(rows_of(next(iter(again)))) == expected(shard_set, 1)[0]


def test_an_endless_stream_has_full_batches(shard_set: ShardSet) -> None:
    stream = ExampleStream(shard_set, batch=5, rank=1, ranks=2, endless=True)
    live = int(shard_set.live.sum())
    found = [row for batch in islice(stream, 2 * live) for row in rows_of(batch)]
    assert len(found) == 5 * 2 * live
    whole = [row for epoch in range(21) for row in expected(shard_set, epoch)]
    assert found == whole[1::2][: len(found)]


def test_what_does_not_go_together_says_what_to_do(shard_set: ShardSet) -> None:
    stream = ExampleStream(shard_set, batch=2)
    with pytest.raises(InputError, match="persistent_workers"):
        StreamLoader(stream, num_workers=1, persistent_workers=True)
    with pytest.raises(InputError, match="rank = 2 is out of range"):
        ExampleStream(shard_set, batch=2, rank=2, ranks=2)
    for other in (
        ExampleStream(shard_set, batch=2, seed=1),
        ExampleStream(replace(shard_set, split="held-out"), batch=2),
    ):
        with pytest.raises(InputError, match="The state was saved for"):
            other.load_state_dict(stream.state_dict())
