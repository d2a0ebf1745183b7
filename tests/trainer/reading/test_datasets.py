"""The dataset of torch over shards: each live example once an epoch, whatever reads it."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from small_shards import put_shards
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, SequentialSampler

from corpora.store.places.place import Place
from shards.reading.files.shard_set import ShardSet
from shards.reading.loader import Loader
from shards.reading.records import IGNORED
from shards.settings import ShardSettings
from trainer.datasets import ExampleDataset, PaddedBatches

SEED = 42


@pytest.fixture(scope="module")
def shard_set(tmp_path_factory: pytest.TempPathFactory) -> ShardSet:
    """Examples of up to 32 tokens, some deleted."""
    place = Place(str(tmp_path_factory.mktemp("whole")))
    return ShardSet(place, put_shards(place, ShardSettings(length=32, copies=2), gone=(1, 2, 11)).shards)


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
    dataset, collate = ExampleDataset(shard_set), PaddedBatches.from_shard_set(shard_set)
    sampler = BatchSampler(SequentialSampler(dataset), 7, drop_last=False)
    loader = DataLoader(dataset, batch_sampler=sampler, collate_fn=collate, num_workers=1, persistent_workers=True)
    for epoch in (0, 1, 5):
        dataset.set_epoch(epoch)
        batches = list(loader)
        assert [row for batch in batches for row in rows_of(batch)] == expected(shard_set, epoch)
    assert expected(shard_set, 0) != expected(shard_set, 1)


def test_ranks_share_an_epoch_by_torchs_sampler(shard_set: ShardSet) -> None:
    """DistributedSampler's shares, shuffled by it once more, hold each live example once (it may repeat one)."""
    dataset, found = ExampleDataset(shard_set, padded=True), Counter[Any]()
    for rank in range(3):
        sampler = DistributedSampler(dataset, num_replicas=3, rank=rank, shuffle=True, seed=1)
        loader = DataLoader(dataset, batch_size=4, sampler=sampler)
        found.update(row for batch in loader for row in rows_of(batch))
    assert set(found) == set(expected(shard_set, 0)) and found.total() - len(dataset) in (0, 1, 2)
