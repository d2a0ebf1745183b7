"""The first steps of a run: what dooms it stops it, and examples are named as `cloze trace` takes them."""

from pathlib import Path
from typing import Any

import pytest
import torch
from small_training import SmallStore, as_rank, of, put_store, read_by, said, small_job, train_here

from corpora.errors import InputError
from shards.reading.files.shard_set import ShardSet
from trainer import initial_weights
from trainer.feed import Feed
from trainer.job import TrainingJob
from trainer.model.objective import Objective
from trainer.pretrain import describe_examples, has_new_weights
from trainer.settings.phases import PhaseSettings

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, of features that are new to it

ONE_STEP = (PhaseSettings(steps=1, batch=32),)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> SmallStore:
    """Shards with pairs, of which some examples are deleted."""
    return put_store(tmp_path_factory.mktemp("first-steps"), gone=range(1, 30, 5))


@pytest.mark.parametrize("cut", [{"micro_batch": 2}, {"micro_batch_tokens": 64}])
def test_examples_are_named_as_they_were_read(store: SmallStore, tmp_path: Path, cut: dict[str, int]) -> None:
    """Fails if the examples of another micro-batch, process or step are named, or a deleted one."""
    job = small_job(store, tmp_path, (PhaseSettings(steps=2, batch=9),), **cut)
    shard_set = ShardSet(store.place, store.shards, "train")
    whole = list[int]()
    for rank in range(2):
        feed = Feed(job, 0, as_rank(rank, 2))
        _, second = read_by(feed)
        for number, micro_batch in enumerate(second):
            named = feed.locate_examples(1, 9, number).get(store.shards.folder, [])
            read = micro_batch.batch.boundaries.diff().tolist()[: len(named)]
            assert [len(shard_set[example].ids) for example in named] == read
            assert len(named) == micro_batch.counts[3] and all(shard_set.is_live[named])
            whole += named
    assert sorted(whole) == sorted(feed.locate_examples(1, 9)[store.shards.folder]) and 0 < len(whole) <= 9


def test_processes_name_their_examples_together() -> None:
    """Fails if what one process names is lost, or a long list is written out."""
    found = [{"shards/a/0": [7]}, {}, {"shards/a/0": [3], "shards/b/1": [*range(20)]}]
    line = describe_examples("here", found, of_loss=True)
    assert "examples 3, 7 of shards/a/0: cloze trace here/shards/a/0 3; 0, 1" in line and "15 and 4 more of" in line
    assert describe_examples("here", found, of_loss=False).startswith("Its losses were finite; it read")


def test_weights_that_know_nothing_and_are_sure_stop_the_run(
    store: SmallStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if a doomed run goes on, has no line of the step that doomed it, or stops where nobody looks."""
    draw = initial_weights.draw_first_model

    def draw_sure_model(job: TrainingJob) -> Objective:
        model: Any = draw(job)
        with torch.no_grad():
            model.masked_head.bias[0] = 1000.0
        return model

    monkeypatch.setattr(initial_weights, "draw_first_model", draw_sure_model)
    for checked in (True, False):
        job = small_job(store, tmp_path / str(checked), ONE_STEP, health_checks=checked)
        if checked:
            with pytest.raises(InputError, match=r"masked loss of the first step is 1000.* guessing by chance costs 4"):
                train_here(job)
        else:
            train_here(job)
        assert len(of(said(job), "step")) == 1 and bool(of(said(job), "done")) != checked


def test_weights_of_elsewhere_are_not_new(store: SmallStore, tmp_path: Path) -> None:
    """Fails if a student that begins with layers of its teacher is taken for one that knows nothing."""
    job = small_job(store, tmp_path)
    assert has_new_weights(job, ("masked", "pair"))
    assert not has_new_weights(job, ("masked", "soft"))


def test_a_sound_run_is_told_nothing(store: SmallStore, tmp_path: Path) -> None:
    """Fails if first weights, labels and texts of a usual run are warned of."""
    events = train_here(small_job(store, tmp_path, (PhaseSettings(steps=10, batch=16),), log_every=5))
    assert of(events, "warning") == [] and [event["step"] for event in of(events, "step")] == [5, 10]
