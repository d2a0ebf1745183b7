"""Checkpoints: as they were written or left aside, of this model or refused, the newest kept."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from small_training import (
    SmallStore,
    exported_bytes,
    flip,
    of,
    put_store,
    said,
    small_job,
    small_model,
    train_here,
    train_on_ranks,
    with_training,
)

from corpora.errors import InputError
from corpora.store.checked_folder import COMPLETE_FILE, list_files
from trainer.checkpoints.folders import Checkpoints
from trainer.job import TrainingJob

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, of features that are new to it


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[SmallStore, TrainingJob]:
    """A run of six steps with checkpoints at 2, 4 and 6."""
    folder = tmp_path_factory.mktemp("finished")
    store = put_store(folder)
    job = small_job(store, folder / "work", keep_checkpoints=9)
    train_here(job)
    return store, job


def copy_of(job: TrainingJob, work: Path) -> TrainingJob:
    """The same run in another folder, its export taken away."""
    shutil.copytree(job.work, work)
    shutil.rmtree(work / "export")
    return replace(job, work=str(work))


def steps_of(job: TrainingJob) -> list[str]:
    return sorted(path.name for path in Path(job.work, "checkpoints").iterdir())


def test_a_checkpoint_says_where_the_run_is(finished: tuple[SmallStore, TrainingJob]) -> None:
    """Fails if the cursor or the counts are not those of the step, or a file is not listed."""
    _, job = finished
    assert steps_of(job) == ["step-00000002", "step-00000004", "step-00000006"]
    folder = Path(job.work, "checkpoints", "step-00000004")
    facts = json.loads((folder / COMPLETE_FILE).read_text())
    assert facts["cursor"] == {"phase": 0, "step": 4, "slot": 32} and facts["ranks"] == 1
    assert facts["counts"]["slots"] == 32
    assert facts["counts"]["tokens"] == sum(event["tokens"] for event in of(said(job), "step")[:4])
    assert facts["identity"]["shards"] == [job.shards[0].content]
    assert list(facts["files"]) == list_files(folder) and len(list_files(folder)) == 2


SHARD = "__0_0.distcp"
OTHER_BYTES = "its bytes are not those that were written"
DAMAGES = {
    "cut": (lambda folder: (folder / SHARD).write_bytes(b"half"), f"{SHARD}: it has 4 bytes instead of"),
    "gone": (lambda folder: (folder / ".metadata").unlink(), ".metadata: it is gone"),
    "unmarked": (lambda folder: (folder / COMPLETE_FILE).unlink(), "complete.json: it is gone"),
    "half marked": (
        lambda folder: (folder / COMPLETE_FILE).write_text('{"cursor'),
        "complete.json: it does not end with its digest",
    ),
    "a bit of the shard": (lambda folder: flip(folder / SHARD), f"{SHARD}: {OTHER_BYTES}"),
    "a bit of the index": (lambda folder: flip(folder / ".metadata"), f".metadata: {OTHER_BYTES}"),
    "a bit of the document": (
        lambda folder: flip(folder / COMPLETE_FILE),
        "complete.json: its digest is of other bytes",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_told_and_left_aside(
    finished: tuple[SmallStore, TrainingJob], tmp_path: Path, damage: str
) -> None:
    """Fails if training goes on from a checkpoint with one other bit, or does not end as it would have."""
    _, job = finished
    again = copy_of(job, tmp_path / "work")
    harm, expected = DAMAGES[damage]
    harm(Path(again.work, "checkpoints", "step-00000006"))
    events = train_here(again)
    [resume], [damaged] = of(events, "resume"), of(events, "damaged")
    assert (resume["step"], resume["slot"]) == (4, 32)
    assert damaged["message"].startswith("step-00000006 is damaged and set aside as damaged-step-00000006: ")
    assert expected in damaged["message"]
    assert damaged["message"].endswith("Training resumes from step-00000004.")
    assert exported_bytes(again) == exported_bytes(job)
    assert steps_of(again) == ["step-00000002", "step-00000004", "step-00000006"]


@pytest.mark.long
def test_two_processes_leave_the_same_aside(finished: tuple[SmallStore, TrainingJob], tmp_path: Path) -> None:
    """Fails if a process does not check its share, or takes another checkpoint than the others."""
    store, _ = finished
    job = small_job(store, tmp_path / "whole", processes=2, keep_checkpoints=9)
    train_on_ranks(job)
    again = copy_of(job, tmp_path / "work")
    folder = Path(again.work, "checkpoints")
    names = list_files(folder / "step-00000006")
    assert names == [".metadata", "__0_0.distcp", "__1_0.distcp"]
    flip(folder / "step-00000006" / names[1])
    flip(folder / "step-00000004" / names[2])
    events = train_on_ranks(again)
    assert [event["step"] for event in of(events, "resume")] == [2]
    assert [re.findall(r"step-0+\d|__\d", event["message"]) for event in of(events, "damaged")] == [
        ["step-00000006", "step-00000006", "__0", "step-00000002"],
        ["step-00000004", "step-00000004", "__1", "step-00000002"],
    ]
    assert exported_bytes(again) == exported_bytes(job)


def test_what_is_left_aside_stays_until_the_export(
    finished: tuple[SmallStore, TrainingJob], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if a later checkpoint removes it, or it counts among those that are kept."""
    _, job = finished
    again = with_training(copy_of(job, tmp_path / "work"), keep_checkpoints=2)
    flip(Path(again.work, "checkpoints", "step-00000004", SHARD))
    shutil.rmtree(Path(again.work, "checkpoints", "step-00000006"))
    seen: list[list[str]] = []
    monkeypatch.setattr(Checkpoints, "clear_damaged", lambda checkpoints: seen.append(steps_of(again)))
    train_here(again)
    assert seen == [["damaged-step-00000004", "step-00000004", "step-00000006"]]


def test_what_a_killed_save_left_is_no_checkpoint(finished: tuple[SmallStore, TrainingJob], tmp_path: Path) -> None:
    """Fails if a folder that never got its name is read, or is in the way of the next save of its step."""
    _, job = finished
    again = copy_of(job, tmp_path / "work")
    folder = Path(again.work, "checkpoints")
    (folder / "step-00000006").rename(folder / ".step-00000006.tmp")
    (folder / ".step-00000006.tmp" / COMPLETE_FILE).unlink()
    (folder / ".step-00000005.tmp").mkdir()
    assert [event["step"] for event in of(train_here(again), "resume")] == [4]
    assert exported_bytes(again) == exported_bytes(job)
    assert steps_of(again) == ["step-00000002", "step-00000004", "step-00000006"]


def test_the_newest_are_kept(finished: tuple[SmallStore, TrainingJob], tmp_path: Path) -> None:
    """Fails if old checkpoints fill the disk, or a damaged one after is kept in place of a whole one."""
    _, job = finished
    again = with_training(copy_of(job, tmp_path / "work"), keep_checkpoints=1, checkpoint_every=5)
    (Path(again.work, "checkpoints", "step-00000006") / COMPLETE_FILE).unlink()
    train_here(again)
    assert steps_of(again) == ["step-00000006"]
    assert [event["step"] for event in of(said(again), "checkpoint")] == [2, 4, 5, 6]


def test_a_run_without_a_whole_checkpoint_begins_anew(finished: tuple[SmallStore, TrainingJob], tmp_path: Path) -> None:
    """Fails if a folder of damaged checkpoints stops a run, or old lines of its log stay."""
    _, job = finished
    again = copy_of(job, tmp_path / "work")
    for path in Path(again.work, "checkpoints").iterdir():
        flip(path / SHARD)
    events = train_here(again)
    assert [event["event"] for event in events][:4] == ["start", "damaged", "damaged", "damaged"]
    assert all(event["message"].endswith("starts over: no whole checkpoint is left.") for event in events[1:4])
    assert [event["step"] for event in of(events, "step")] == [1, 2, 3, 4, 5, 6]
    assert exported_bytes(again) == exported_bytes(job)


def test_a_checkpoint_of_another_model_is_refused(finished: tuple[SmallStore, TrainingJob], tmp_path: Path) -> None:
    """Fails if weights of another model, vocabulary, data or schedule are taken, or the paragraph says not what."""
    _, job = finished
    mine = copy_of(job, tmp_path / "work")
    others = {
        "model.hidden_size is 32, but here it is 64": replace(mine, model=replace(small_model(), hidden_size=64)),
        "training.learning_rate is 0.001, but here it is 0.002": with_training(mine, learning_rate=2e-3),
        "vocabulary is": replace(mine, vocabulary=replace(mine.vocabulary, content="other")),
        "shards is": replace(mine, shards=(replace(mine.shards[0], content="other"),)),
    }
    for message, other in others.items():
        with pytest.raises(InputError) as refusal:
            train_here(other)
        assert message in str(refusal.value) and "remove that folder to start over" in str(refusal.value)
        assert "\n" not in str(refusal.value)
    assert of(
        train_here(with_training(mine, log_every=2, micro_batch=3)), "resume"
    )  # what decides no weights may differ


def test_an_export_of_another_model_is_refused(finished: tuple[SmallStore, TrainingJob]) -> None:
    """Fails if a finished model is taken for another."""
    _, job = finished
    facts = job.read_export()
    assert facts is not None and facts["steps"] == 6 and facts["sequences"] == 48
    with pytest.raises(InputError, match="seed is 42, but here it is 43"):
        with_training(job, seed=43).read_export()
    assert replace(job, work="/nowhere").read_export() is None
