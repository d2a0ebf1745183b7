"""Checkpoints on an object store: what one machine wrote, another goes on from, and half a copy is none."""

from pathlib import Path

from corpora.store.checked_folder import COMPLETE_FILE, describe_files, list_files, write_complete_file
from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, Stage
from flows.engines.dask_worker import fetch_checkpoint, remove_checkpoints, save_checkpoint


def build(writer: object, plan: PartPlan) -> object:
    """Nothing is built here."""
    raise AssertionError


STAGE = Stage(
    kind="models", name="small", build_version=1, settings={}, parents=(), libraries={}, parts=(), build=build
)  # type: ignore[arg-type]


def write_checkpoint(work: Path, step: int) -> Path:
    """A checkpoint as the trainer leaves it, and a line of the metrics."""
    folder = work / "checkpoints" / f"step-{step:08d}"
    folder.mkdir(parents=True)
    (folder / "shard.distcp").write_bytes(bytes([step]) * 1000)
    write_complete_file(folder, {"step": step}, describe_files(folder, list_files(folder)))
    with (work / "metrics.jsonl").open("a") as file:
        file.write(f'{{"event": "step", "step": {step}}}\n')
    return folder


def files(folder: Path) -> dict[str, bytes]:
    """All that is in a folder."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_another_machine_goes_on_from_the_newest(tmp_path: Path) -> None:
    """Fails if a step is lost, an old copy stays, or a machine that is further goes back."""
    store, one, other = Place(str(tmp_path / "store")), tmp_path / "one", tmp_path / "other"
    fetch_checkpoint(store, STAGE, other)
    assert not other.exists()
    for step in (10, 20):
        write_checkpoint(one, step)
        save_checkpoint(store, STAGE, one)
    assert [path for path in store.list_files(STAGE.folder) if "step-00000010" in path] == []
    fetch_checkpoint(store, STAGE, other)
    assert files(other / "checkpoints" / "step-00000020") == files(one / "checkpoints" / "step-00000020")
    assert (other / "metrics.jsonl").read_bytes() == (one / "metrics.jsonl").read_bytes()
    write_checkpoint(other, 30)
    before = files(other)
    fetch_checkpoint(store, STAGE, other)
    assert files(other) == before
    remove_checkpoints(store, STAGE)
    assert store.list_files(STAGE.folder) == {}


def test_half_a_copy_is_none(tmp_path: Path) -> None:
    """Killed in the middle of a copy: the one before it is what others go on from."""
    store, one, other = Place(str(tmp_path / "store")), tmp_path / "one", tmp_path / "other"
    write_checkpoint(one, 10)
    save_checkpoint(store, STAGE, one)
    half = write_checkpoint(one, 20)
    store.write("/".join([STAGE.folder, "work", "checkpoints", half.name, "shard.distcp"]), b"half")
    assert (half / COMPLETE_FILE).exists()
    fetch_checkpoint(store, STAGE, other)
    assert [path.name for path in (other / "checkpoints").iterdir()] == ["step-00000010"]
