"""Grain's loaders over our examples: what an epoch holds, and checkpoints that go on exactly."""

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np
import pytest
from small_shards import put_shards

from corpora.store.places.place import Place
from shards.reading.files.shard_set import ShardSet
from shards.reading.loader import Loader
from shards.reading.records import ExampleRecords, pad_examples
from shards.settings import ShardSettings

SEED = 42


@pytest.fixture(scope="module")
def grain() -> Any:
    return pytest.importorskip("grain")


@pytest.fixture(scope="module")
def shard_set(tmp_path_factory: pytest.TempPathFactory) -> ShardSet:
    place = Place(str(tmp_path_factory.mktemp("grain")))
    return ShardSet(place, put_shards(place, ShardSettings(length=32, copies=2), gone=(5,)).shards)


def grain_loader(grain: Any, source: ExampleRecords, rank: int = 0, ranks: int = 1) -> Any:
    """Batches of four of one rank's share, in the source's order."""
    sampler = grain.samplers.SequentialSampler(
        num_records=len(source), shard_options=grain.sharding.ShardOptions(shard_index=rank, shard_count=ranks)
    )
    return grain.DataLoader(data_source=source, sampler=sampler, operations=[grain.transforms.Batch(4)], worker_count=0)


def rows_of(batches: Iterable[dict[str, Any]]) -> list[tuple[tuple[int, ...], ...]]:
    return [
        tuple(tuple(np.atleast_1d(batch[name][row]).tolist()) for name in sorted(batch))
        for batch in batches
        for row in range(len(batch["input_ids"]))
    ]


def expected(shard_set: ShardSet, epochs: int) -> list[tuple[tuple[int, ...], ...]]:
    source = ExampleRecords(shard_set)
    found = Loader(shard_set, SEED).gather(range(epochs * len(shard_set)))
    return rows_of([pad_examples(found, source.format, 32)])


def test_grain_reads_epochs_in_shares(grain: Any, shard_set: ShardSet) -> None:
    """Two epochs in one source: two ranks read what the loader gathers, each live example once an epoch."""
    source = ExampleRecords(shard_set, epochs=2, padded=True)
    halves = [rows_of(grain_loader(grain, source, rank, ranks=2)) for rank in range(2)]
    wanted = expected(shard_set, epochs=2)
    assert Counter(halves[0] + halves[1]) == Counter(wanted) and len(wanted) == len(source)
    whole = grain.MapDataset.source(source).batch(4).to_iter_dataset()
    assert rows_of(whole) == wanted


def test_grain_goes_on_where_its_iterator_was(grain: Any, shard_set: ShardSet) -> None:
    source = ExampleRecords(shard_set, padded=True)
    iterator = iter(grain_loader(grain, source))
    read = rows_of(islice(iterator, 5))
    state = iterator.get_state()
    again = iter(grain_loader(grain, ExampleRecords(shard_set, padded=True)))
    again.set_state(state)
    assert read + rows_of(again) == expected(shard_set, epochs=1)
    other = iter(grain_loader(grain, ExampleRecords(shard_set, first=1, padded=True)))
    with pytest.raises(ValueError, match="DataSource in checkpoint does not match"):
        other.set_state(state)
