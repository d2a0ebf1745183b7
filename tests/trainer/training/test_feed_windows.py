"""The order of a training: windowed where it says so, and none of the models that do not say it is another one."""

from pathlib import Path

import numpy as np
import pytest
from small_training import as_rank, put_store, read_by, small_job, train_here

from corpora.errors import InputError
from corpora.store.settings import to_settings_json
from shards.reading.files.shard_set import ShardSet
from shards.reading.loader import Loader
from shards.reading.order import step_slots, take_rank_share
from trainer.feed import Feed
from trainer.launch import with_local_shards
from trainer.settings.phases import PhaseSettings
from trainer.settings.training import TrainingSettings

PHASES = (PhaseSettings(steps=6, batch=8),)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_feed_reads_in_the_order_of_its_settings(tmp_path: Path, ranks: int) -> None:
    """Fails if the setting is not heard, or a feed that begins later reads something else."""
    store = put_store(tmp_path)
    job = small_job(store, tmp_path / "work", PHASES, order="windowed", window=1)
    shard_set = ShardSet(store.place, store.shards)
    loaders = [Loader(shard_set, job.training.seed, window=1), Loader(shard_set, job.training.seed)]
    for rank in range(ranks):
        feed = Feed(job, 0, as_rank(rank, ranks))
        windowed, mixed = (
            [loader.gather(take_rank_share(step_slots(step, 8), rank, ranks)).ids for step in range(6)]
            for loader in loaders
        )
        for first in (0, 4):
            found = [micro_batch.batch.ids for [micro_batch] in read_by(feed, first, first * 8)]
            assert [ids.tolist() for ids in found] == [ids.tolist() for ids in windowed[first:]]
        assert any(not np.array_equal(*both) for both in zip(windowed, mixed, strict=True))


def test_only_who_says_it_trains_another_model() -> None:
    """Fails if the setting renames models of recipes without it, or decides weights and is in no name."""
    plain = to_settings_json(TrainingSettings(phase=PHASES))
    assert not {"order", "window"} & plain.keys()
    windowed = to_settings_json(TrainingSettings(phase=PHASES, order="windowed", window=4))
    assert (windowed["order"], windowed["window"]) == ("windowed", 4)
    with pytest.raises(InputError, match=r"training\.order = 'random' is not known"):
        TrainingSettings(phase=PHASES, order="random")


def test_windows_of_a_store_are_fetched_as_they_are_read(tmp_path: Path) -> None:
    """Fails if a training on fetched windows differs, or all shards are copied. (A folder stands for the store.)"""
    store = put_store(tmp_path)
    here, there = (small_job(store, tmp_path / name, PHASES, order="windowed", window=1) for name in ("here", "there"))
    fetching = with_local_shards(there, tmp_path / "cache" / "shards")
    assert (fetching.source, fetching.fetched_split) == (store.place.address, "train")
    assert not [*(tmp_path / "cache").rglob("train*.examples.arrow")]
    losses = [[event["loss"] for event in train_here(job) if event["event"] == "step"] for job in (here, fetching)]
    assert losses[0] == losses[1] and len(losses[0]) == 6
    assert [*fetching.windows_folder.rglob("train*.examples.arrow")]


@pytest.mark.parametrize("order", ["global", "windowed"])
def test_a_cache_too_small_is_refused_before_training(tmp_path: Path, order: str) -> None:
    """Fails if a cache that cannot hold what is read at once is found out in the middle, or no setting is named."""
    job = small_job(put_store(tmp_path), tmp_path / "work", PHASES, order=order, window=1, cache_gb=1e-6)
    with pytest.raises(InputError, match=r"phase 1 .* may hold 1,000: raise training\.cache_gb to 0\.\d+, or"):
        with_local_shards(job, tmp_path / "cache" / "shards")
    assert not (tmp_path / "cache").exists()
