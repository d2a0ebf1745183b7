"""The order of a training: windowed where it says so, and none of the models that do not say it is another one."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from small_training import put_store, small_job

from corpora.errors import InputError
from corpora.store.settings import settings_json
from shards.reading.loader import Loader
from shards.reading.order import share, step_slots
from shards.reading.shard_set import ShardSet
from trainer.settings import PhaseSettings, TrainingSettings
from trainer.training.feed import Feed
from trainer.training.parallel import Ranks

PHASES = (PhaseSettings(steps=6, batch=8),)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_feed_reads_in_the_order_of_its_settings(tmp_path: Path, ranks: int) -> None:
    """Fails where the setting is not heard, or a feed that begins later reads something else."""
    store = put_store(tmp_path)
    job = small_job(store, tmp_path / "work", PHASES, order="windowed", window=1)
    shard_set = ShardSet(store.place, store.shards)
    loaders = [Loader(shard_set, job.training.seed, window=1), Loader(shard_set, job.training.seed)]
    for rank in range(ranks):
        feed = Feed(job, 0, Ranks(rank=rank, count=ranks, device=torch.device("cpu"), mesh=cast(Any, None)))
        windowed, mixed = (
            [loader.gather(share(step_slots(step, 8), rank, ranks)).ids for step in range(6)] for loader in loaders
        )
        for first in (0, 4):
            found = [
                batch.ids.numpy() for [micro_batch] in feed.steps(first, first * 8) for batch in [micro_batch.batch]
            ]
            assert [ids.tolist() for ids in found] == [ids.tolist() for ids in windowed[first:]]
        assert any(not np.array_equal(*both) for both in zip(windowed, mixed, strict=True))


def test_only_who_says_it_trains_another_model() -> None:
    """Fails where the setting renames models of recipes without it, or decides weights and is in no name."""
    plain = settings_json(TrainingSettings(phase=PHASES))
    assert not {"order", "window"} & plain.keys()
    windowed = settings_json(TrainingSettings(phase=PHASES, order="windowed", window=4))
    assert (windowed["order"], windowed["window"]) == ("windowed", 4)
    with pytest.raises(InputError, match=r"training\.order = 'random' is not known"):
        TrainingSettings(phase=PHASES, order="random")
