"""Embeddings of an adapted vocabulary: means where a token is new, the same bytes everywhere else."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from small_models import bert_words, roberta_bytes, write_model
from torch import Tensor

from corpora.errors import InputError
from tokenizers_train.adapting import Choice, find_old_pieces, with_added_tokens
from tokenizers_train.vocabularies.vocabulary import Vocabulary
from trainer.huggingface.vocabulary_rows import adapt_checkpoint, has_rows, with_rows
from trainer.settings.model import FAMILIES

WORDS = [
    Choice(token="films", count=5, pieces=("f",), saved_tokens=5),
    Choice(token="plotless", count=5, pieces=("plot",), saved_tokens=5),
]
MERGES = [
    Choice(token="ab", count=5, pieces=("a", "b"), saved_tokens=5),
    Choice(token="abc", count=5, pieces=("ab", "c"), saved_tokens=5),
]
BIASES = {"bert": "cls.predictions.bias", "roberta": "lm_head.bias"}


def vocabularies(family: str) -> tuple[Vocabulary, Vocabulary]:
    old = bert_words() if family == "bert" else roberta_bytes()
    return old, with_added_tokens(old, WORDS if family == "bert" else MERGES)


def check(before: dict[str, Tensor], after: dict[str, Tensor], old: Vocabulary, new: Vocabulary, size: int) -> None:
    """Rows of new tokens are means, all else is as it was."""
    rows = find_old_pieces(old, new)
    assert len(rows) == 2 and before.keys() == after.keys()
    for name, tensor in before.items():
        if not has_rows(name):
            assert torch.equal(tensor, after[name]) and tensor.dtype == after[name].dtype
            continue
        assert after[name].shape == (size, *tensor.shape[1:])
        for row in range(size):
            if row in rows:
                wanted = tensor[list(rows[row])].double().mean(dim=0).to(tensor.dtype)
                assert torch.equal(after[name][row], wanted)
            elif row < len(tensor):
                assert torch.equal(after[name][row], tensor[row])


@pytest.mark.parametrize("family", ["bert", "roberta"])
@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.bfloat16])
def test_new_rows_are_means_and_the_rest_is_the_same(tmp_path: Path, family: str, kind: torch.dtype) -> None:
    old, new = vocabularies(family)
    write_model(tmp_path / "old", family)
    tensors = {name: tensor.to(kind) for name, tensor in load_file(tmp_path / "old" / "model.safetensors").items()}
    tensors[BIASES[family]] = torch.arange(old.size).to(kind) / 7
    for decoder, source in FAMILIES[family].names.tied.items():
        tensors[decoder] = tensors[source].clone()
    save_file(tensors, tmp_path / "old" / "model.safetensors", metadata={"format": "pt"})
    assert adapt_checkpoint(tmp_path / "old", old, new, tmp_path / "new") == new.size == old.size + 2
    check(tensors, load_file(tmp_path / "new" / "model.safetensors"), old, new, new.size)
    config = json.loads((tmp_path / "old" / "config.json").read_text())
    assert json.loads((tmp_path / "new" / "config.json").read_text()) == {**config, "vocab_size": new.size}
    assert (tmp_path / "new" / "tokenizer.json").read_bytes() == new.to_files()["tokenizer.json"]


def test_every_tied_tensor_is_known() -> None:
    for family in FAMILIES.values():
        tied = family.names.tied
        assert all(has_rows(name) for name in (*tied, *tied.values())), family.name


def test_filled_slots_overwrite_their_rows(tmp_path: Path) -> None:
    """Fails if a slot's row is kept, or the model grows though nothing was appended."""
    small = bert_words()
    content = json.loads(small.to_files()["tokenizer.json"])
    content["model"]["vocab"] |= {"[unused0]": small.size, "[unused1]": small.size + 1}
    old = Vocabulary.from_files({"tokenizer.json": json.dumps(content).encode()})
    new = with_added_tokens(old, WORDS)
    assert new.find_id("films") == small.size and new.size == old.size
    folder = write_model(tmp_path / "old")
    grow(folder, old)
    before = load_file(folder / "model.safetensors")
    assert adapt_checkpoint(folder, old, new, tmp_path / "new") == old.size
    check(before, load_file(tmp_path / "new" / "model.safetensors"), old, new, old.size)


def grow(folder: Path, vocabulary: Vocabulary, size: int | None = None) -> None:
    """Give the model in a folder random rows for more tokens, and the vocabulary."""
    size = size or vocabulary.size
    torch.manual_seed(1)
    tensors = load_file(folder / "model.safetensors")
    for name, tensor in tensors.items():
        if has_rows(name):
            tensors[name] = torch.cat([tensor, torch.randn(size - len(tensor), *tensor.shape[1:])])
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": size}))
    vocabulary.save(folder)


def test_padding_rows_are_taken_first(tmp_path: Path) -> None:
    old, new = vocabularies("bert")
    padded = -(-(old.size + 1) // 64) * 64
    assert padded > new.size
    folder = write_model(tmp_path / "old")
    grow(folder, old, padded)
    before = load_file(folder / "model.safetensors")
    assert adapt_checkpoint(folder, old, new, tmp_path / "new") == padded
    check(before, load_file(tmp_path / "new" / "model.safetensors"), old, new, padded)


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_transformers_opens_the_model_and_uses_the_new_row(tmp_path: Path, transformers: Any, family: str) -> None:
    old, new = vocabularies(family)
    adapt_checkpoint(write_model(tmp_path / "old", family, pairs=False), old, new, tmp_path / "new")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "new")
    model = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "new")
    text, token = ("films", "films") if family == "bert" else ("abc", "abc")
    given = tokenizer(text, return_tensors="pt")
    assert given["input_ids"].tolist() == [[tokenizer.cls_token_id, new.find_id(token), tokenizer.sep_token_id]]
    with torch.no_grad():
        assert model(**given).logits.shape[-1] == new.size
    assert torch.equal(model.get_input_embeddings().weight, model.get_output_embeddings().weight)


@settings(deadline=None)
@given(st.lists(st.integers(0, 0xFFFF), min_size=3, max_size=30))
def test_means_of_bfloat16_are_torchs(halves: list[int]) -> None:
    numbers = np.array(halves, np.uint16)
    tensor = torch.from_numpy(numbers.view(np.int16).copy()).view(torch.bfloat16)
    if not torch.isfinite(tensor).all():
        return
    with np.errstate(over="ignore"):
        mean = with_rows(numbers.reshape(-1, 1), {0: (0, 1, 2)}, len(numbers), bfloat=True)[0]
    wanted = tensor[:3].double().mean().float().to(torch.bfloat16)
    assert torch.from_numpy(mean.view(np.int16).copy()).view(torch.bfloat16).equal(wanted.reshape(1))


# What is refused.


def test_a_model_of_another_vocabulary_is_refused(tmp_path: Path) -> None:
    old, new = vocabularies("bert")
    folder = write_model(tmp_path / "old")
    other = with_added_tokens(new, [Choice(token="badly", count=1, pieces=(), saved_tokens=1)])
    with pytest.raises(InputError, match=rf"vocab_size is {old.size}, and the vocabulary has {new.size}"):
        adapt_checkpoint(folder, new, other, tmp_path / "new")
    swapped = json.loads(old.to_files()["tokenizer.json"])
    ids = swapped["model"]["vocab"]
    ids["good"], ids["bad"] = ids["bad"], ids["good"]
    (folder / "tokenizer.json").write_text(json.dumps(swapped))
    with pytest.raises(InputError, match=r"the token with the id \d+ is not '(good|bad)'"):
        adapt_checkpoint(folder, old, new, tmp_path / "new")


def test_broken_files_are_refused(tmp_path: Path) -> None:
    """Fails if a fault of the files ends otherwise than in one paragraph."""
    old, new = vocabularies("bert")
    folder = write_model(tmp_path / "old")
    weights, config = folder / "model.safetensors", folder / "config.json"
    good, told = weights.read_bytes(), config.read_text()
    [length] = struct.unpack("<Q", good[:8])
    header = json.loads(good[8 : 8 + length])
    for content, message in (
        (good[:-1], "is incomplete"),
        (good[:5], "is not a safetensors file"),
        (b"\xff" * 100, "is not a safetensors file"),
        (good.replace(b"word_embeddings", b"word_EMBEDDINGS"), "has no tensor embeddings.word_embeddings.weight"),
        (good.replace(f"[{old.size},32]".encode(), f"[32,{old.size}]".encode()), "needs a row of floating-point"),
    ):
        assert content != good and header
        weights.write_bytes(content)
        with pytest.raises(InputError, match=message):
            adapt_checkpoint(folder, old, new, tmp_path / "new")
    weights.unlink()
    with pytest.raises(InputError, match=r"has no model\.safetensors"):
        adapt_checkpoint(folder, old, new, tmp_path / "new")
    for text, message in (("{", "is not JSON"), ('{"vocab_size": "many"}', "does not give the model's vocab_size")):
        config.write_text(text)
        with pytest.raises(InputError, match=message):
            adapt_checkpoint(folder, old, new, tmp_path / "new")
    config.write_text(told)
    config.unlink()
    with pytest.raises(InputError, match=r"has no config\.json that can be read"):
        adapt_checkpoint(folder, old, new, tmp_path / "new")
