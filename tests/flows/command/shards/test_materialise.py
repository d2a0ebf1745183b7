"""`cloze shards materialise`: the rows of an epoch are what the loader gives, bit for bit, in files others open."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from small_shards import put_shards

from corpora.errors import InputError
from corpora.store.places.place import Place
from flows.command import shards
from flows.command.shards import write_epoch
from flows.run.addresses import Artifact
from shards.masks.masking import MaskSettings, RateSchedule
from shards.reading import epoch_rows as materialised
from shards.reading.files.shard_set import ShardSet
from shards.reading.loader import GatheredExamples, Loader, gather_plain
from shards.settings import ShardSettings

STEPS = RateSchedule(points=((2, 0.5), (9, 0.1)), by="step", batch=11, shape="linear")
KINDS = {
    "dynamic": (ShardSettings(length=32, masking=MaskSettings(unit="n-gram", rate=0.3)), (1, 2, 30)),
    "static": (ShardSettings(length=32, copies=2, masking=MaskSettings(kind="static", unit="span")), (1, 2, 30)),
    "by-step": (ShardSettings(length=32, input="full-sentences", masking=MaskSettings(schedule=STEPS)), ()),
}


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    """One small shard set a kind; documents of the first two are deleted."""
    found = {}
    for name, (settings, gone) in KINDS.items():
        place = Place(str(tmp_path_factory.mktemp(name)))
        found[name] = Artifact(place=place, manifest=put_shards(place, settings, gone=gone).shards)
    return found


def rows_of(gathered: GatheredExamples) -> list[dict[str, Any]]:
    """Return what a loader gave as rows, without the functions that write them."""
    rows = []
    for number, (first, end) in enumerate(zip(gathered.offsets[:-1], gathered.offsets[1:], strict=True)):
        own = (gathered.masked >= first) & (gathered.masked < end)
        row = {
            "example_id": int(gathered.example_ids[number]),
            "ids": gathered.ids[first:end].tolist(),
            "boundary": int(gathered.boundary[number]),
            "mask_positions": (gathered.masked[own] - first).tolist(),
            "targets": gathered.targets[own].tolist(),
        }
        rows.append(row if gathered.labels is None else {**row, "label": int(gathered.labels[number])})
    return rows


def written(folder: Path) -> list[dict[str, Any]]:
    """The rows of all files of a folder."""
    files = sorted(folder.glob("*.arrow"))
    return [row for file in files for row in pa.ipc.open_file(file).read_all().to_pylist()]


@pytest.mark.parametrize("split", ["train", "held-out"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_rows_of_an_epoch_are_what_the_loader_gives(
    artifacts: dict[str, Artifact], kind: str, split: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if an id, a mask, a label or the order is another, a deleted example is there, or one is lost."""
    monkeypatch.setattr(shards, "MAX_FILE_ROWS", 20)
    monkeypatch.setattr(materialised, "EXAMPLES_PER_BATCH", 9)
    artifact = artifacts[kind]
    shard_set = ShardSet(artifact.place, artifact.manifest, split)
    loader, num = Loader(shard_set, 5), len(shard_set)
    for epoch in (0, 3):
        expected = rows_of(loader.gather(range(epoch * num, (epoch + 1) * num)))
        lines = write_epoch(artifact, epoch, str(tmp_path / f"read-{epoch}"), split, 5).describe()
        assert written(tmp_path / f"read-{epoch}") == expected
        assert len(expected) == shard_set.is_live.sum() and (("left out" in lines[0]) == (len(expected) < num))
        if kind != "by-step" or split == "held-out":
            write_epoch(artifact, epoch, str(tmp_path / f"stored-{epoch}"), split, None)
            stored = written(tmp_path / f"stored-{epoch}")
            assert [row["example_id"] for row in stored] == [
                example.example_id for example in shard_set.iter_live_examples()
            ]
            assert sorted(stored, key=repr) == sorted(expected, key=repr)
    if split == "train":
        assert len(list((tmp_path / "read-0").iterdir())) > 1 and num > 30


def test_what_cannot_be_written_is_refused(artifacts: dict[str, Artifact], tmp_path: Path) -> None:
    dynamic, by_step = artifacts["dynamic"], artifacts["by-step"]
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    for arguments, said in (
        ((dynamic, 0, str(tmp_path / "taken"), "train", None), "is not empty"),
        ((dynamic, 0, str(tmp_path / "new"), "test", None), "--split = 'test' is not known"),
        ((by_step, 0, str(tmp_path / "new"), "train", None), "give it with --seed"),
    ):
        with pytest.raises(InputError, match=said):
            write_epoch(*arguments)
    assert not (tmp_path / "new").exists()


def test_a_rate_by_the_step_is_that_of_the_definition(artifacts: dict[str, Artifact]) -> None:
    """Fails if the rate is not that of the slot's step, for whoever reads it; held-out examples have the last."""
    shares = {}
    for split in ("train", "held-out"):
        shard_set = ShardSet(artifacts["by-step"].place, artifacts["by-step"].manifest, split)
        slots = range(2 * len(shard_set))
        rows = rows_of(Loader(shard_set, 5).gather(slots))
        assert rows == rows_of(gather_plain(shard_set, 5, slots))
        shares[split] = [len(row["mask_positions"]) / len(row["ids"]) for row in rows]
    assert min(shares["train"][22:33]) > 0.3 > 0.2 > max(*shares["train"][99:110], *shares["held-out"])


def test_a_split_that_has_nothing_left_is_an_empty_file(
    artifacts: dict[str, Artifact], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if there is no file, or no schema in it."""
    monkeypatch.setattr(ShardSet, "is_live", property(lambda shard_set: np.zeros(len(shard_set), bool)))
    write_epoch(artifacts["dynamic"], 0, str(tmp_path / "rows"), "train", None)
    [file] = (tmp_path / "rows").iterdir()
    assert written(tmp_path / "rows") == [] and "targets" in pa.ipc.open_file(file).schema.names
