"""`fill`: known answers, transformers' answers, either spelling of the mask, and a word on what cannot be filled."""

import json
import math
from pathlib import Path
from types import ModuleType

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_models import bert_words, roberta_bytes, write_model

from corpora.errors import InputError
from trainer.tasks.fill import fill_masks, main

WEIGHTS = "model.safetensors"


def known_answers(folder: Path) -> Path:
    """A model that says whatever the text: good .7, bad .2, and the others share what is left."""
    vocabulary = bert_words()
    write_model(folder)
    weights = load_file(folder / WEIGHTS)
    weights["cls.predictions.transform.LayerNorm.weight"].zero_()
    weights["cls.predictions.transform.LayerNorm.bias"].zero_()
    bias = weights["cls.predictions.bias"].fill_(math.log(0.1 / (vocabulary.size - 2)))
    bias[vocabulary.find_id("good")] = math.log(0.7)
    bias[vocabulary.find_id("bad")] = math.log(0.2)
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
    return folder


def test_a_model_whose_answer_is_known(tmp_path: Path) -> None:
    for text in ("a [MASK] film", "[MASK]", "a <mask> film"):
        [guesses] = fill_masks(known_answers(tmp_path), text, 3)
        assert [(guess.token, guess.text) for guess in guesses[:2]] == [("good", "good"), ("bad", "bad")]
        assert [guess.probability for guess in guesses[:2]] == pytest.approx([0.7, 0.2], rel=1e-5)
        assert guesses[0].id == bert_words().find_id("good") and len(guesses) == 3


def test_every_mask_has_its_own_answer_that_of_transformers(tmp_path: Path, transformers: ModuleType) -> None:
    for family, mask in (("bert", "[MASK]"), ("roberta", "<mask>")):
        folder = tmp_path / family
        write_model(folder, family, pairs=False)
        weights = load_file(folder / WEIGHTS)
        for name, tensor in weights.items():
            generator = torch.Generator().manual_seed(len(name))
            weights[name] = tensor + 0.3 * torch.randn(tensor.shape, generator=generator)
        save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
        text = f"the {mask} was a {mask} film"
        pipeline = transformers.pipeline("fill-mask", model=str(folder), top_k=4, device="cpu")
        found = fill_masks(folder, text, 4)
        assert [[guess.id for guess in mask] for mask in found] == [
            [answer["token"] for answer in answers] for answers in pipeline(text)
        ]
        assert [[guess.probability for guess in mask] for mask in found] == [
            pytest.approx([answer["score"] for answer in answers], rel=1e-4) for answers in pipeline(text)
        ]
        assert found[0] != found[1], "the test tells no mask from another"


def test_what_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(known_answers(tmp_path))
    assert main([folder, "a [MASK], a [MASK]", "--top", "2"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "a [MASK], a [MASK]",
        "",
        "mask 1 of 2",
        "   70.00%  good",
        "   20.00%  bad",
        "",
        "mask 2 of 2",
        "   70.00%  good",
        "   20.00%  bad",
    ]
    assert main([folder, "a [MASK]", "--json", "--top", "1"]) == 0
    said = json.loads(capsys.readouterr().out)
    number = bert_words().find_id("good")
    guess = {"id": number, "token": "good", "text": "good", "probability": pytest.approx(0.7, rel=1e-5)}
    assert said == {"text": "a [MASK]", "masks": [[guess]]}


def test_what_cannot_be_filled_is_told(tmp_path: Path) -> None:
    write_model(tmp_path)
    for text, top, message in (
        ("a film", 5, r"has no mask: write \[MASK\]"),
        ("[MASK]" + " film" * 38, 5, "has 41 tokens, and the model reads 40"),
        ("[MASK]", 0, "--top = 0"),
    ):
        with pytest.raises(InputError, match=message):
            fill_masks(tmp_path, text, top)
    assert len(fill_masks(tmp_path, "[MASK]" + " film" * 37, 1)) == 1
    with pytest.raises(InputError, match=r"has no config\.json"):
        fill_masks(tmp_path / "none", "[MASK]", 5)


def test_a_tokenizer_that_does_not_know_the_mask_is_refused(tmp_path: Path) -> None:
    write_model(tmp_path)
    content = json.loads((tmp_path / "tokenizer.json").read_bytes())
    content["added_tokens"] = [token for token in content["added_tokens"] if token["content"] != "[MASK]"]
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"does not know \[MASK\] as one token"):
        fill_masks(tmp_path, "a [MASK]", 5)


def test_bytes_of_a_token_are_shown_as_they_read(tmp_path: Path) -> None:
    """In byte-level BPE a token has letters for its bytes; the text has what they stand for."""
    weights = load_file(write_model(tmp_path, "roberta") / WEIGHTS)
    weights["lm_head.bias"][roberta_bytes().find_id("\u0120")] = 100.0
    save_file(weights, tmp_path / WEIGHTS, metadata={"format": "pt"})
    [[guess]] = fill_masks(tmp_path, "a<mask>", 1)
    assert (guess.token, guess.text, guess.probability) == ("\u0120", " ", 1.0)
