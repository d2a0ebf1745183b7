"""A file of a model's folder that is not what was written is told by every door that reads it."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_models import write_model
from small_tasks import exported_model, new_job, run

from corpora.errors import InputError
from corpora.store.checked_folder import COMPLETE_FILE
from corpora.store.ledger import Account, Ledger
from corpora.store.part_writer import PartWriter
from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, Stage, build_stage
from tokenizers_train.vocabularies.vocabulary import load_vocabulary
from trainer.huggingface.checkpoints import import_checkpoint
from trainer.ranks import join_process_group
from trainer.start_weights import read_start
from trainer.tasks.fill import fill_masks
from trainer.tasks.finetuning.finetune import finetune
from trainer.tasks.folders import (
    EXTRA_WEIGHTS,
    RECORD,
    check_model,
    describe_weights,
    load_task,
    read_source,
    to_task_json,
)
from trainer.tasks.kinds.tags import TagsTask
from trainer.tasks.vectors.embed import Embedder
from trainer.tasks.vectors.settings import EmbedSettings

WEIGHTS = "model.safetensors"


def flip(path: Path, at: int = -1) -> None:
    """The last bit of a byte: the file is as long as it was, and as whole to who only parses it."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that was fine-tuned."""
    folder = tmp_path_factory.mktemp("tuned")
    record = run(new_job(folder, rows=16))
    assert record["weights"] == describe_weights(folder / "out") and [*record["weights"]] == [WEIGHTS]
    check_model(folder / "out")
    return folder / "out"


def go_on(folder: Path) -> None:
    with join_process_group("cpu") as ranks:
        finetune(replace(new_job(folder.parent), model=str(folder), output=str(folder.parent / "next")), ranks)


DOORS: dict[str, tuple[Callable[[Path], Any], tuple[str, ...]]] = {  # and the files that are not read there
    "predict, evaluate, teachers": (load_task, ()),
    "embed, search": (lambda folder: Embedder.from_folder(folder, EmbedSettings(), torch.device("cpu")), ()),
    "fill": (lambda folder: fill_masks(folder, "a [MASK]", 1), ()),
    "export --onnx": (read_source, ()),
    "finetune": (go_on, ()),
    "model.start of a recipe": (read_start, ()),
    "a model of an older form": (lambda folder: import_checkpoint(folder, folder.parent / "imported"), ()),
    "vocabularies": (load_vocabulary, (RECORD, "config.json", WEIGHTS)),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_refuses_every_file_that_is_not_what_was_written(tuned: Path, door: str) -> None:
    """Fails if a flipped bit, a file that is gone, or a damaged list of digests passes through a door."""
    names = {path.name for path in tuned.iterdir()} - {"metrics.jsonl"}  # it has times, and nothing is read from it
    assert {RECORD, COMPLETE_FILE, WEIGHTS, "config.json", "tokenizer.json"} <= names
    opens, unread = DOORS[door]
    for name in sorted(names - {*unread}):
        path = tuned / name
        whole = path.read_bytes()
        for harm in (flip, lambda path: flip(path, 5), *([Path.unlink] if name != COMPLETE_FILE else [])):
            harm(path)
            with pytest.raises(InputError, match=rf"{path} is not the file .* there: .*\. Copy the folder again"):
                opens(tuned)
            path.write_bytes(whole)


def test_who_changes_a_file_on_purpose_is_told_what_to_do(tuned: Path, tmp_path: Path) -> None:
    """Fails if the folder is not read as it is once the remedy of the message is carried out."""
    folder = Path(shutil.copytree(tuned, tmp_path / "changed"))
    record = json.loads((folder / RECORD).read_text())
    flip(folder / WEIGHTS)
    with pytest.raises(
        InputError, match=f"remove {folder / COMPLETE_FILE} and `weights` in {RECORD}, which has the digests"
    ):
        load_task(folder)
    (folder / COMPLETE_FILE).unlink()
    (folder / RECORD).write_text(json.dumps({name: value for name, value in record.items() if name != "weights"}))
    assert load_task(folder)


def test_a_fine_tuned_model_without_its_digests_is_compared_with_its_record(tuned: Path, tmp_path: Path) -> None:
    """Fails if the weights of a folder that was copied out of a store are taken as they are."""
    folder = Path(shutil.copytree(tuned, tmp_path / "copied"))
    (folder / COMPLETE_FILE).unlink()
    flip(folder / WEIGHTS)
    with pytest.raises(InputError, match=f"{WEIGHTS} is not the file that finetune.json records: it is damaged"):
        load_task(folder)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(tmp_path: Path, number: float) -> None:
    """Fails if a model answers with `nan%`."""
    folder = write_model(tmp_path / "model")
    tensors = load_file(folder / WEIGHTS)
    name = min(tensors)
    tensors[name].view(-1)[-1] = number
    save_file(tensors, folder / WEIGHTS, {"format": "pt"})
    with pytest.raises(InputError, match=rf"{WEIGHTS}: {name} holds numbers that are not finite"):
        fill_masks(folder, "a [MASK]", 1)


def test_answers_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    """Fails if weights that are finite, and too large, give `nan%`."""
    folder = write_model(tmp_path / "model")
    tensors = load_file(folder / WEIGHTS)
    save_file({name: tensor * 1e30 for name, tensor in tensors.items()}, folder / WEIGHTS, {"format": "pt"})
    with pytest.raises(InputError, match="answers of the model are not finite numbers"):
        fill_masks(folder, "a [MASK]", 1)


def test_what_is_in_a_file_of_its_own_is_compared_as_well(tmp_path: Path) -> None:
    write_model(tmp_path / "model")
    task = TagsTask(crf=True, units="spans", labels=("O", "B-X", "I-X"), usual="O")
    exported_model(task, tmp_path / "model", tmp_path / "out")
    weights = describe_weights(tmp_path / "out")
    record = {"task": to_task_json(task), "weights": weights}
    (tmp_path / "out" / RECORD).write_text(json.dumps(record))
    assert {*weights} == {WEIGHTS, EXTRA_WEIGHTS} and load_task(tmp_path / "out")
    flip(tmp_path / "out" / EXTRA_WEIGHTS)
    with pytest.raises(InputError, match=rf"{EXTRA_WEIGHTS} is not the file"):
        load_task(tmp_path / "out")
    for wrong in ({EXTRA_WEIGHTS: 5.5}, {EXTRA_WEIGHTS: {}}, [EXTRA_WEIGHTS]):
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
            writer.write_file(name, (source / name).read_bytes())
        return Ledger(accounts=(Account(unit="files", total=3, outcomes={"given": 3}),))

    stage = Stage(
        kind="models", name="toy", build_version=1, settings={}, parents=(), libraries={},
        parts=(PartPlan(name="model", key=0),), build=build,
    )  # fmt: skip
    build_stage(Place(str(tmp_path / "store")), stage)
    folder = tmp_path / "store" / stage.folder
    assert fill_masks(folder, "a [MASK]", 1)
    for name in names:
        for damage in (
            flip,
            lambda path: path.write_bytes(path.read_bytes()[:-1]),
            lambda path: path.write_bytes(b""),
            Path.unlink,
        ):
            shutil.copyfile(source / name, folder / name)
            check_model(folder)
            damage(folder / name)
            with pytest.raises(InputError, match=rf"{name} is not the file that the store's manifest\.json records"):
                fill_masks(folder, "a [MASK]", 1)
        shutil.copyfile(source / name, folder / name)
    for place in (40, -10):  # of a manifest whose digest is damaged nothing may be believed, nor nothing be known
        flip(folder / "manifest.json", place)
        with pytest.raises(InputError, match=r"manifest\.json is damaged"):
            fill_masks(folder, "a [MASK]", 1)
        flip(folder / "manifest.json", place)
    for name in ("manifest.json", COMPLETE_FILE):
        (source / name).write_text('{"name": "an app"}')  # of something else
    flip(source / WEIGHTS)
    assert fill_masks(source, "a [MASK]", 1)
