"""The check of the shards: nothing that was learnt from a damaged shard is written."""

import sys
from pathlib import Path

import pyarrow as pa
import pytest
from small_training import SmallStore, flip_tokens, on_ranks, put_store, said, small_job, train_here, trained_shard

from corpora.errors import InputError
from corpora.store.damage import Damaged
from shards.reading.files.columns import ExampleColumns
from trainer import launch, pretrain
from trainer.job import TrainingJob
from trainer.launch import TrainingFailed, remove_damaged_copy, train, with_local_shards

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, of features that are new to it


@pytest.fixture
def store(tmp_path: Path) -> SmallStore:
    """Shards with pairs, of a test's own."""
    return put_store(tmp_path)


def test_a_damaged_shard_stops_training_before_the_first_checkpoint(store: SmallStore, tmp_path: Path) -> None:
    """Fails if a checkpoint or an export holds what was learnt from it, or mending the shard does not help."""
    name = trained_shard(store.shards)
    path = Path(store.place.to_full_path(name))
    whole = path.read_bytes()
    flip_tokens(path)
    job = small_job(store, tmp_path / "work")
    with pytest.raises(Damaged) as refusal:
        train_here(job)
    assert str(refusal.value).startswith(f"{name} is damaged: the bytes of column ids")
    assert "cloze run" in str(refusal.value) and "\n" not in str(refusal.value)
    assert {event["event"] for event in said(job)} <= {"start", "step"}
    assert not list(Path(job.work).glob("checkpoints/*")) and not job.export.exists()
    path.write_bytes(whole)
    assert [event["event"] for event in train_here(job)][-1] == "done"


def replayed(job: TrainingJob, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """Train in this process; then launch one that says and ends as this one did."""
    Path(job.work).mkdir()
    path = Path(job.work, "asked.json")
    path.write_text(job.to_json())
    try:
        code = pretrain.main([str(path)])
    except IndexError:
        code = 1
    program = f"print({capfd.readouterr().out!r}); raise SystemExit({code})"
    monkeypatch.setattr(launch, "build_command", lambda *_: [sys.executable, "-c", program])
    train(job)


def refused(job: TrainingJob) -> None:
    """As a rank: fails where the damage is not told."""
    with pytest.raises(Damaged):
        train_here(job)


def test_all_ranks_stop(store: SmallStore, tmp_path: Path) -> None:
    """Fails if a rank waits for ever, or a checkpoint is written."""
    flip_tokens(Path(store.place.to_full_path(trained_shard(store.shards))))
    job = small_job(store, tmp_path / "work", processes=2)
    on_ranks(refused, job, 2)
    assert said(job) and not list(Path(job.work).glob("checkpoints/*"))


def spoil_labels(path: Path) -> None:
    """Have every example of a shard's first record batch labelled 200, which no head of the model can be held to."""
    with pa.memory_map(str(path)) as mapped:
        whole = mapped.read_buffer()
        labels = pa.ipc.open_file(whole).get_batch(0).column("label")
        place, num = labels.buffers()[1].address - whole.address, len(labels)
    data = bytearray(path.read_bytes())
    data[place : place + num] = bytes([200]) * num
    path.write_bytes(data)


def test_a_token_that_no_vocabulary_has_is_told_by_the_rank(
    store: SmallStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Fails if an id past the vocabulary ends a rank by a signal or a traceback."""
    flip_tokens(Path(store.place.to_full_path(trained_shard(store.shards))), byte=1, num_tokens=100)
    with pytest.raises(Damaged) as refusal:
        replayed(small_job(store, tmp_path / "work"), monkeypatch, capfd)
    assert refusal.value.path == trained_shard(store.shards) and refusal.value.__cause__ is None


def test_a_rank_that_a_damaged_shard_kills_is_explained(
    store: SmallStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Fails if the user is told of a signal or a traceback (of a label that is none), and of no file."""
    spoil_labels(Path(store.place.to_full_path(trained_shard(store.shards))))
    monkeypatch.setattr(ExampleColumns, "_note_read", lambda *_: None)  # as if the check were slower than the rank
    with pytest.raises(Damaged) as refusal:
        replayed(small_job(store, tmp_path / "work"), monkeypatch, capfd)
    assert refusal.value.path == trained_shard(store.shards)
    assert isinstance(refusal.value.__cause__, TrainingFailed)


def test_a_damaged_copy_is_removed_and_fetched_again(store: SmallStore, tmp_path: Path) -> None:
    """Fails if the copy of an object store's shard stays damaged, or a damaged shard is copied."""
    job = small_job(store, tmp_path / "work")
    copied = with_local_shards(job, tmp_path / "copies")
    name = trained_shard(store.shards)
    copy = tmp_path / "copies" / name
    whole = copy.read_bytes()
    flip_tokens(copy)
    with pytest.raises(Damaged) as refusal:
        train_here(copied)
    told = remove_damaged_copy(type(store.place)(copied.store), refusal.value)
    assert isinstance(told, InputError) and not isinstance(told, Damaged)
    assert str(copy) in str(told) and "fetches the shard again" in str(told) and not copy.exists()
    with_local_shards(job, tmp_path / "copies")
    assert copy.read_bytes() == whole
    copy.unlink()
    flip_tokens(Path(store.place.to_full_path(name)))
    with pytest.raises(Damaged):
        with_local_shards(job, tmp_path / "copies")
    assert not copy.exists()
