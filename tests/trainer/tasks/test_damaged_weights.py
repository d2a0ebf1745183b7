"""A flipped bit in the weights of a folder is told by every door that reads them."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import write_model
from small_tasks import exported_model, new_job, run

from corpora.errors import InputError
from corpora.store.ledger import Account, Ledger
from corpora.store.part_writer import PartWriter
from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, Stage, build_stage
from trainer.tasks.finetuning.finetune import finetune
from trainer.tasks.kinds.tags import TagsTask
from trainer.tasks.prediction.fill import fill_masks
from trainer.tasks.saving import MORE, RECORD, check_weights, described_weights, load_task, task_json
from trainer.tasks.vectors.embed import Embedder
from trainer.tasks.vectors.settings import EmbedSettings
from trainer.training.parallel import joined

WEIGHTS = "model.safetensors"
TOLD = (
    f"{WEIGHTS} is not the file that finetune.json records: it is damaged.* Copy the folder again, or fine-tune again"
)


def flip(path: Path) -> None:
    """The last bit of the last number: the file is as long as it was, and as whole to who only parses it."""
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that was fine-tuned, and then damaged."""
    folder = tmp_path_factory.mktemp("tuned")
    record = run(new_job(folder, rows=16))
    assert record["weights"] == described_weights(folder / "out") and [*record["weights"]] == [WEIGHTS]
    check_weights(folder / "out")
    flip(folder / "out" / WEIGHTS)
    return folder / "out"


def go_on(folder: Path) -> None:
    with joined("cpu") as ranks:
        finetune(replace(new_job(folder.parent), model=str(folder), output=str(folder.parent / "next")), ranks)


@pytest.mark.parametrize(
    "door",
    [
        load_task,  # predict, evaluate, export --onnx, teachers
        lambda folder: Embedder.of(folder, EmbedSettings(), torch.device("cpu")),  # embed, search
        lambda folder: fill_masks(folder, "a [MASK]", 1),
        go_on,
    ],
)
def test_every_door_refuses_weights_that_are_other_than_recorded(tuned: Path, door: Callable[[Path], Any]) -> None:
    with pytest.raises(InputError, match=TOLD):
        door(tuned)


def test_what_is_in_a_file_of_its_own_is_compared_as_well(tmp_path: Path) -> None:
    write_model(tmp_path / "model")
    task = TagsTask(crf=True, units="spans", labels=("O", "B-X", "I-X"), usual="O")
    exported_model(task, tmp_path / "model", tmp_path / "out")
    weights = described_weights(tmp_path / "out")
    record = {"task": task_json(task), "weights": weights}
    (tmp_path / "out" / RECORD).write_text(json.dumps(record))
    assert {*weights} == {WEIGHTS, MORE} and load_task(tmp_path / "out")
    flip(tmp_path / "out" / MORE)
    with pytest.raises(InputError, match=rf"{MORE} is not the file"):
        load_task(tmp_path / "out")
    for wrong in ({MORE: 5.5}, {MORE: {}}, [MORE]):
        (tmp_path / "out" / RECORD).write_text(json.dumps({**record, "weights": wrong}))
        with pytest.raises(
            InputError, match=r"`weights` is .*, which is not what fine-tuning writes there|is not the file"
        ):
            load_task(tmp_path / "out")
    (tmp_path / "out" / RECORD).write_text(json.dumps({"task": record["task"]}))  # as before there were digests
    assert load_task(tmp_path / "out")


def test_a_model_in_a_store_is_compared_with_its_manifest(tmp_path: Path) -> None:
    """As a store tells the contents of files; a folder without a record is taken as it is."""
    source = write_model(tmp_path / "model")
    names = (WEIGHTS, "config.json", "tokenizer.json")

    def build(writer: PartWriter, plan: PartPlan) -> Ledger:
        for name in names:
            writer.file(name, (source / name).read_bytes())
        return Ledger(accounts=(Account(unit="files", total=3, outcomes={"given": 3}),))

    stage = Stage(
        kind="models", name="toy", build_version=1, settings={}, parents=(), libraries={},
        parts=(PartPlan(name="model", key=0),), build=build,
    )  # fmt: skip
    build_stage(Place(str(tmp_path / "store")), stage)
    folder = tmp_path / "store" / stage.folder
    assert fill_masks(folder, "a [MASK]", 1)
    for damage in (flip, lambda path: path.write_bytes(path.read_bytes()[:-1]), lambda path: path.write_bytes(b"")):
        shutil.copyfile(source / WEIGHTS, folder / WEIGHTS)
        check_weights(folder)
        damage(folder / WEIGHTS)
        with pytest.raises(InputError, match=r"is not the file that the store's manifest\.json records"):
            fill_masks(folder, "a [MASK]", 1)
    (source / "manifest.json").write_text('{"name": "an app"}')  # of something else
    flip(source / WEIGHTS)
    assert fill_masks(source, "a [MASK]", 1)
