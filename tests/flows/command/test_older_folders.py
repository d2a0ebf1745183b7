"""Folders of an older form, and names with the prefix of a wrapper: the same model through every door."""

import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the trainer is not installed")
import torch
from safetensors.torch import load_file, save_file
from small_models import write_model
from torch import Tensor

from corpora.errors import InputError
from corpora.sources.contract import StatCache
from flows.command.trainer_process import open_model_folder
from flows.recipes.recipe import parse_recipe
from flows.run.inputs.start_model import find_start
from trainer.__main__ import main
from trainer.huggingface import todays_form
from trainer.huggingface.checkpoints import import_checkpoint, load_model, load_pretrained
from trainer.huggingface.vocabulary_rows import unwrap_names
from trainer.initial_weights import read_start_weights
from trainer.start_weights import StartModel, read_start
from trainer.tasks.folders import read_source
from trainer.tasks.text_encoder import open_tokenizer

PREFIXES = ("", "module.", "_orig_mod.module.", "model.", "net.encoder.")
FORMS = ("model.safetensors", "pytorch_model.bin")
RECIPE = """
name = "retrained"
store = "store"
source = [{ kind = "files", name = "papers", path = "raw" }]
shards = { length = 32 }

[model]
start = "theirs"

[training]
learning_rate = 1e-3

[[training.phase]]
steps = 3
batch = 8
"""


def found_start(folder: Path) -> StartModel:
    """The start of a recipe next to a folder."""
    start = find_start(parse_recipe(RECIPE, folder.parent / "retrained.toml", {}), StatCache())
    assert start is not None
    return start


def started(folder: Path) -> tuple[Mapping[str, Tensor], tuple[str, ...]]:
    """What a training begins with, and the heads that begin at random."""
    start = found_start(folder)
    settings, inputs, _ = load_model(Path(start.folder))
    return read_start_weights(start, settings, inputs)


def tokens_of(folder: Path) -> Mapping[str, Tensor]:
    """The ids of a text."""
    ids = open_tokenizer(folder, load_model(folder)[1]).encode("a good film, and no more").ids
    return {"ids": torch.tensor(ids)}


DOORS: Mapping[str, Callable[[Path], Mapping[str, Tensor]]] = {
    "fill": lambda folder: load_model(folder)[2],
    "finetune": lambda folder: load_pretrained(folder).state,
    "predict, embed, export": lambda folder: read_source(folder).model.state_dict(),
    "tokens": tokens_of,
}


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the copy made by this process, without the seconds in which another one imports torch."""

    def run(called: list[str], **_: Any) -> Any:
        return subprocess.CompletedProcess(called, main(called[called.index("import") :]), "", "")

    monkeypatch.setattr(todays_form.subprocess, "run", run)


def theirs(folder: Path, form: str, prefix: str) -> tuple[Path, Path]:
    """A model's folder, and the same in another form, whose names begin so."""
    new, old = write_model(folder / "new"), folder / "theirs"
    old.mkdir()
    state = {prefix + name: tensor for name, tensor in load_file(new / "model.safetensors").items()}
    state["n_averaged"] = torch.tensor(3)
    config = json.loads((new / "config.json").read_text())
    if form == "model.safetensors":
        save_file(state if prefix else {name: state[name] for name in state if name != "n_averaged"}, old / form)
        for name in ("tokenizer.json", "tokenizer_config.json", "config.json"):
            (old / name).write_bytes((new / name).read_bytes())
        return new, old
    torch.save({"state_dict": state if prefix else {n: state[n] for n in state if n != "n_averaged"}}, old / form)
    kept = {key: value for key, value in config.items() if key != "model_type" and not key.endswith("_token_id")}
    (old / "config.json").write_text(json.dumps(kept))
    tokens = json.loads((new / "tokenizer.json").read_text())["model"]["vocab"]
    (old / "vocab.txt").write_text("".join(f"{token}\n" for token in sorted(tokens, key=tokens.__getitem__)))
    return new, old


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("prefix", PREFIXES)
def test_every_door_reads_the_same_model(tmp_path: Path, here: None, form: str, prefix: str) -> None:
    """Fails if a door refuses a form or a prefix, or a tensor, a head or a token is another one."""
    new, old = theirs(tmp_path, form, prefix)
    wanted = {name: door(new) for name, door in DOORS.items()}
    with open_model_folder(str(old)) as folder:
        for name, door in DOORS.items():
            found = door(folder)
            assert found.keys() == wanted[name].keys(), name
            assert all(torch.equal(tensor, wanted[name][key]) for key, tensor in found.items()), name
    state, lacking = started(old)
    assert lacking == () and state.keys() == wanted["fill"].keys()
    assert all(torch.equal(tensor, wanted["fill"][key]) for key, tensor in state.items())


def test_a_start_is_named_by_its_content(tmp_path: Path, here: None) -> None:
    """Fails if a training from an older folder is named otherwise than one from its copy, or the place counts."""
    _, old = theirs(tmp_path, "pytorch_model.bin", "module.")
    import_checkpoint(old, tmp_path / "out")
    start = found_start(old)
    assert start.files == read_start(tmp_path / "out").files and start.content == read_start(tmp_path / "out").content
    moved = tmp_path / "elsewhere" / "theirs"
    moved.parent.mkdir()
    old.rename(moved)
    assert found_start(moved) == start
    state = torch.load(moved / "pytorch_model.bin")["state_dict"]
    state["module.cls.predictions.bias"] += 1
    torch.save(state, moved / "pytorch_model.bin")
    assert found_start(moved).content != start.content
    (Path(start.folder) / "config.json").unlink()
    with pytest.raises(InputError, match="is gone, but the training was to start from it"):
        replace(start).check()


@pytest.mark.slow
def test_the_copy_is_made_by_another_process(tmp_path: Path) -> None:
    """Fails if its refusal is lost, or the copy is made twice."""
    _, old = theirs(tmp_path, "pytorch_model.bin", "")
    with open_model_folder(str(old)) as folder, open_model_folder(str(old)) as again:
        assert folder == again != old
    whole = (old / "pytorch_model.bin").read_bytes()
    (old / "pytorch_model.bin").write_bytes(whole[: len(whole) // 2])
    with (
        pytest.raises(InputError, match=r"^\S+pytorch_model\.bin is not a complete torch file"),
        open_model_folder(str(old)),
    ):
        pass


def test_a_prefix_is_that_of_all_names() -> None:
    """Fails if a part of a name is taken for a wrapper: one model of two, an encoder alone."""
    word = "embeddings.word_embeddings.weight"
    for names in ([f"bert.{word}", "cls.predictions.bias"], [word, "encoder.layer.0.bias"], ["linear.weight"],
                  [f"student.bert.{word}", f"teacher.bert.{word}"], [f"xbert.{word}", "head.bias"],
                  ["model.embeddings.tok_embeddings.weight", "model.final_norm.weight"]):  # fmt: skip
        assert unwrap_names(names) == {name: name for name in names}
