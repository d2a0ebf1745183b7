"""Checkpoints as they were published before safetensors: brought to today's form, and nothing of them is run."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from small_tasks import write_model

from corpora.errors import InputError
from trainer.huggingface.checkpoints import import_checkpoint, load_pretrained
from trainer.tasks.text_encoder import TextEncoder


def older(folder: Path, family: str = "bert") -> tuple[Path, Path]:
    """A model's folder, and the same in its older form: pickled, with a bare vocabulary and no model type."""
    new, old = write_model(folder / "new", family), folder / "old"
    old.mkdir()
    state = load_file(new / "model.safetensors")
    torch.save(state, old / "pytorch_model.bin")
    config = json.loads((new / "config.json").read_text())
    kept = {key: value for key, value in config.items() if key != "model_type" and not key.endswith("_token_id")}
    (old / "config.json").write_text(json.dumps(kept))
    tokens = json.loads((new / "tokenizer.json").read_text())["model"]["vocab"]
    (old / "vocab.txt").write_text("".join(f"{token}\n" for token in sorted(tokens, key=tokens.__getitem__)))
    return new, old


def test_an_older_folder_is_the_same_model(tmp_path: Path) -> None:
    """Fails if a tensor, a size or a token is another, or where gamma and beta keep the model from being opened."""
    new, old = older(tmp_path)
    state = torch.load(old / "pytorch_model.bin")
    renamed = {name.replace("LayerNorm.weight", "LayerNorm.gamma"): tensor for name, tensor in state.items()}
    word = renamed["bert.embeddings.word_embeddings.weight"]
    torch.save({**renamed, "cls.predictions.decoder.weight": word}, old / "pytorch_model.bin")
    with pytest.raises(InputError, match="has no model_type, which says the family of the model: add it, one of "):
        load_pretrained(old)
    import_checkpoint(old, tmp_path / "out")
    found, wanted = load_pretrained(tmp_path / "out"), load_pretrained(new)
    assert found.settings == wanted.settings and found.inputs == wanted.inputs
    assert all(torch.equal(found.state[name], tensor) for name, tensor in wanted.state.items())
    texts = ["a test of words, and no more", "Ünïted"]
    ours, theirs = (
        TextEncoder.from_folder(folder, found.inputs, 32).encode(texts) for folder in (tmp_path / "out", new)
    )
    assert [each.ids for each in ours] == [each.ids for each in theirs]


def test_weights_in_several_files_are_one(tmp_path: Path) -> None:
    """Fails if an index is not followed, or leads out of the folder."""
    new, old = older(tmp_path)
    state = torch.load(old / "pytorch_model.bin")
    (old / "pytorch_model.bin").unlink()
    names = sorted(state)
    parts = {"one.bin": names[: len(names) // 2], "two.bin": names[len(names) // 2 :]}
    for file, some in parts.items():
        torch.save({name: state[name] for name in some}, old / file)
    index = {"weight_map": {name: file for file, some in parts.items() for name in some}}
    (old / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    import_checkpoint(old, tmp_path / "out")
    assert load_file(tmp_path / "out/model.safetensors").keys() == load_file(new / "model.safetensors").keys()
    index["weight_map"][names[0]] = "../new/model.safetensors"
    (old / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    with pytest.raises(InputError, match="names no files next to it"):
        import_checkpoint(old, tmp_path / "again")


class Command:
    """A hostile file's command, run when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_nothing_of_a_pickled_file_is_run(tmp_path: Path) -> None:
    """Fails if code in a file of weights is called."""
    _, old = older(tmp_path)
    torch.save({"a": Command(tmp_path / "made")}, old / "pytorch_model.bin")
    with pytest.raises(InputError, match="holds more than tensors, which could be code"):
        import_checkpoint(old, tmp_path / "out")
    assert not (tmp_path / "made").exists() and not (tmp_path / "out").exists()


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    """Fails if a file that is cut, or of another model, leaves a trace or a folder."""
    new, old = older(tmp_path)
    whole = (old / "pytorch_model.bin").read_bytes()
    state = load_file(new / "model.safetensors")
    for content, message in (
        (whole[: len(whole) // 2], "is not a complete torch file"),
        (b"", "is not a complete torch file"),
        ({"layers": 3}, "holds more than tensors by name"),
        ({0: torch.zeros(2)}, "holds more than tensors by name"),
        ({"first.weight": torch.zeros(2)}, "names of the tensors do not show the family"),
        ({name: state[name] for name in list(state)[3:]}, rf"^{old}/model.safetensors lacks bert\."),
    ):
        if isinstance(content, bytes):
            (old / "pytorch_model.bin").write_bytes(content)
        else:
            torch.save(content, old / "pytorch_model.bin")
        with pytest.raises(InputError, match=message):
            import_checkpoint(old, tmp_path / "out")
        assert not (tmp_path / "out").exists() and not [*tmp_path.glob(".import-*")]
    config = json.loads((old / "config.json").read_text())
    torch.save(state, old / "pytorch_model.bin")
    (old / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 10**6}))
    with pytest.raises(InputError, match=r"gives 1,000,000 layers, but model.safetensors has"):
        import_checkpoint(old, tmp_path / "out")
    (old / "pytorch_model.bin").unlink()
    with pytest.raises(InputError, match=r"has no model.safetensors and no pytorch_model.bin"):
        import_checkpoint(old, tmp_path / "out")
    (old / "config.json").write_bytes((new / "config.json").read_bytes())
    with pytest.raises(InputError, match=r"has no model\.safetensors: give the folder of a model as "):
        load_pretrained(old)
