"""Checkpoints of Hugging Face: the same model both ways, the same bytes, and a word on what does not fit."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from small_batches import (
    VOCAB_SIZE,
    far_from_zero,
    padded_inputs,
    present_tokens,
    small_batch,
    small_inputs,
    small_model,
    small_settings,
)

from corpora.errors import InputError
from trainer.families.contract import ModelInputs
from trainer.huggingface.checkpoints import build_config, export, load_model
from trainer.model.batches import Batch
from trainer.model.masked import MaskedModel
from trainer.model.objective import build_model
from trainer.settings.model import FAMILIES, ModelSettings

CASES = [("bert", True), ("bert", False), ("roberta", False)]
CLASSES = {
    ("bert", True): ("AutoModelForPreTraining", "BertForPreTraining"),
    ("bert", False): ("AutoModelForMaskedLM", "BertForMaskedLM"),
    ("roberta", False): ("AutoModelForPreTraining", "RobertaForMaskedLM"),
}


def exported(
    folder: Path, family: str = "bert", pairs: bool = True, seed: int = 0, **settings: Any
) -> tuple[MaskedModel, ModelSettings, ModelInputs]:
    """A small model and its export."""
    asked, inputs = small_settings(family=family, **settings), small_inputs(family, pairs)
    model = small_model(asked, inputs, seed).eval()
    export(folder, model.state_dict(), asked, inputs)
    return model, asked, inputs


def loaded(folder: Path) -> MaskedModel:
    """Our model from a folder."""
    settings, inputs, state = load_model(folder)
    model = build_model(settings, inputs)
    model.load_state_dict(state)
    return model.eval()


def reference_logits(reference: Any, batch: Batch, family: str) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the logits of a transformers model over padded rows: at masked tokens, and of pairs."""
    pad = small_inputs(family).special_ids.pad
    with torch.no_grad():
        output = reference.eval()(**padded_inputs(batch, pad, segments=family == "bert"))
    rows = output.prediction_logits if hasattr(output, "prediction_logits") else output.logits
    return present_tokens(rows, batch)[batch.points], getattr(output, "seq_relationship_logits", None)


def assert_equal_logits(model: MaskedModel, reference: Any, family: str, pairs: bool) -> None:
    """Both in float64, whose rounding is far below the bound on any processor."""
    model, reference = model.double(), reference.double()
    for lengths in ((7, 12, 12, 3, 20), (9, 9, 9), (40,)):
        batch = small_batch(lengths, pairs=pairs, seed=sum(lengths))
        with torch.no_grad():
            masked, pair = model.compute_logits(batch)
        wanted, wanted_pair = reference_logits(reference, batch, family)
        assert masked.std() > 0.1 and len(masked) > 5, "the test compares nothing"
        torch.testing.assert_close(masked, wanted, atol=1e-9, rtol=1e-9)
        assert (pair is None) == (wanted_pair is None) == (not pairs)
        if pair is not None:
            torch.testing.assert_close(pair, wanted_pair, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("activation", ["gelu", "gelu-tanh", "relu"])
@pytest.mark.parametrize(("family", "pairs"), CASES)
def test_transformers_opens_an_export(
    tmp_path: Path, transformers: ModuleType, family: str, pairs: bool, activation: str
) -> None:
    model, _, inputs = exported(tmp_path, family, pairs, activation=activation)
    automatic, name = CLASSES[family, pairs]
    reference, info = getattr(transformers, automatic).from_pretrained(tmp_path, output_loading_info=True)
    assert type(reference).__name__ == name
    assert not any(info.values()), info
    assert reference.config.mask_token_id == inputs.special_ids.mask
    assert_equal_logits(model, reference, family, pairs)


@pytest.mark.parametrize(("family", "pairs"), CASES)
def test_a_folder_of_transformers_loads(tmp_path: Path, transformers: ModuleType, family: str, pairs: bool) -> None:
    config = build_config(small_settings(family=family), small_inputs(family, pairs), "pairs" if pairs else "masked")
    del config["architectures"], config["mask_token_id"]
    torch.manual_seed(0)
    reference = getattr(transformers, CLASSES[family, pairs][1])(
        getattr(transformers, f"{family.capitalize()}Config")(**config)
    )
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    reference.save_pretrained(tmp_path)
    write_tokenizer(tmp_path, family)
    settings, inputs, _ = load_model(tmp_path)
    assert (settings, inputs) == (small_settings(family=family), small_inputs(family, pairs))
    assert_equal_logits(loaded(tmp_path), reference, family, pairs)


def write_tokenizer(folder: Path, family: str) -> None:
    """As much of a tokenizer.json as is read."""
    spelling = ("<pad> <unk> <s> </s> <mask>" if family == "roberta" else "[PAD] [UNK] [CLS] [SEP] [MASK]").split()
    ids = small_inputs(family).special_ids
    numbers = (ids.pad, ids.unk, ids.cls, ids.sep, ids.mask)
    added = [{"id": number, "content": token} for number, token in zip(numbers, spelling, strict=True)]
    (folder / "tokenizer.json").write_text(json.dumps({"added_tokens": added}))


ALBERT, ELECTRA = ({"family": family, "embedding_size": 16} for family in ("albert", "electra"))
EXPORTED: list[tuple[dict[str, Any], bool]] = [
    *(({"family": family}, pairs) for family, pairs in (*CASES, ("distilbert", False))),
    *(
        (ALBERT | more, pairs)
        for more, pairs in (({}, True), ({"layer_groups": 2}, True), ({"embedding_size": 32}, False))
    ),
    *((ELECTRA | {"objective": {"kind": "replaced", "generator_size": width}}, False) for width in (0.5, 1.0)),
    (ELECTRA, False),
]


@pytest.mark.parametrize(("settings", "pairs"), EXPORTED)
def test_exported_and_loaded_is_equal(tmp_path: Path, settings: dict[str, Any], pairs: bool) -> None:
    """Fails if a setting, a part or a weight is lost, whatever activation and dropout the model has."""
    asked = small_settings(**{"dropout": 0.3, "activation": "relu", "layers": 4, **settings})
    inputs = small_inputs(asked.family, pairs)
    model = far_from_zero(build_model(asked, inputs))
    export(tmp_path, model.state_dict(), asked, inputs)
    back_settings, back_inputs, state = load_model(tmp_path)
    assert (back_settings, back_inputs) == (asked, inputs)
    assert state.keys() == model.state_dict().keys()
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())


def test_a_known_size_comes_back_by_name(tmp_path: Path) -> None:
    settings = ModelSettings(size="tiny")
    inputs = small_inputs("bert", pair_labels=True)
    model = build_model(settings, inputs)
    export(tmp_path, model.state_dict(), settings, inputs)
    assert load_model(tmp_path)[0] == settings


def test_the_bytes_follow_the_weights_alone(tmp_path: Path) -> None:
    for folder, seed in (("one", 0), ("again", 0), ("other", 1)):
        exported(tmp_path / folder, seed=seed)
    one, again, other = ((tmp_path / folder / "model.safetensors").read_bytes() for folder in ("one", "again", "other"))
    assert one == again != other
    model, settings, inputs = exported(tmp_path / "one")
    turned = dict(reversed(model.state_dict().items()))
    export(tmp_path / "turned", turned, settings, inputs)
    assert (tmp_path / "turned" / "model.safetensors").read_bytes() == one
    assert (tmp_path / "turned" / "config.json").read_bytes() == (tmp_path / "one" / "config.json").read_bytes()
    with safe_open(tmp_path / "one" / "model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}
        assert not set(file.keys()) & set(FAMILIES["bert"].names.tied)


# What other writers do.


def rewrite(folder: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> None:
    """Change the weights of a folder."""
    path = folder / "model.safetensors"
    save_file({key: tensor.clone() for key, tensor in change(load_file(path)).items()}, path)


def test_old_names_and_stored_ties_are_understood(tmp_path: Path) -> None:
    """As the published files of BERT and RoBERTa have them."""

    def old(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        renamed = {
            key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
            for key, tensor in tensors.items()
        }
        assert renamed.keys() != tensors.keys()
        renamed["bert.embeddings.position_ids"] = torch.arange(40)[None]
        renamed["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"]
        return renamed | {"cls.predictions.decoder.bias": tensors["cls.predictions.bias"]}

    model, _, _ = exported(tmp_path)
    rewrite(tmp_path, old)
    assert all(torch.equal(tensor, load_model(tmp_path)[2][name]) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_a_pooler_without_pairs_is_left_out(tmp_path: Path, family: str) -> None:
    model, _, inputs = exported(tmp_path, family, pairs=False)
    pooler = {f"{family}.pooler.dense.weight": torch.ones(32, 32), f"{family}.pooler.dense.bias": torch.ones(32)}
    rewrite(tmp_path, lambda tensors: tensors | pooler)
    _, found, state = load_model(tmp_path)
    assert found == inputs and state.keys() == model.state_dict().keys()


def test_keys_left_out_of_the_configuration_are_the_usual_ones(tmp_path: Path) -> None:
    settings, inputs = ModelSettings(layers=1), small_inputs("bert", pair_labels=True)
    model = build_model(settings, inputs)
    export(tmp_path, model.state_dict(), settings, inputs)
    config = json.loads((tmp_path / "config.json").read_text())
    kept = ("model_type", "vocab_size", "num_hidden_layers")
    (tmp_path / "config.json").write_text(json.dumps({key: config[key] for key in kept}))
    write_tokenizer(tmp_path, "bert")
    assert load_model(tmp_path)[0].shape == settings.shape and load_model(tmp_path)[1] == inputs


# What is refused.


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model_type": "gpt2"}, "model_type is 'gpt2'; it must be one of: bert, roberta"),
        ({"hidden_act": "silu"}, "hidden_act is 'silu'; it must be one of: gelu"),
        ({"layer_norm_eps": "small"}, "layer_norm_eps is .small.; it must be such as 1e-12"),
        ({"type_vocab_size": 1}, "type_vocab_size is 1, and 2"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings is False, and True"),
        ({"is_decoder": True}, "is_decoder is True, and False"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key'"),
        ({"vocab_size": None}, "vocab_size is None; it must be a number"),
        ({"hidden_size": "32"}, "hidden_size is '32'; it must be a number"),
        ({"num_attention_heads": 5}, "hidden_size = 32 is not a multiple"),
        ({"num_hidden_layers": 3}, r"lacks bert\.encoder\.layer\.2\.\S+ and 15 more"),
        ({"num_hidden_layers": 1}, r"holds bert\.encoder\.layer\.1\.\S+ and 15 more"),
        ({"vocab_size": 98}, r"word_embeddings\.weight is 99 x 32, but the model has 98 x 32"),
        ({"intermediate_size": 65}, r"intermediate\.dense\.weight is 64 x 32, but the model has 65 x 32"),
        ({"mask_token_id": None}, r"has no tokenizer\.json"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(tmp_path: Path, changed: dict[str, object], message: str) -> None:
    exported(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    with pytest.raises(InputError, match=message):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: {k: v for k, v in t.items() if k != "cls.predictions.bias"}, r"lacks cls\.predictions\.bias:"),
        (lambda t: t | {"classifier.weight": torch.ones(2, 32)}, r"holds classifier\.weight that"),
        (lambda t: {k: v for k, v in t.items() if "seq_rel" not in k}, r"lacks cls\.seq_relationship\.bias and 1 more"),
        (lambda t: t | {"cls.predictions.decoder.weight": torch.ones(VOCAB_SIZE, 32)}, "differs from bert.embeddings"),
    ],
)
def test_weights_that_do_not_fit_are_refused(
    tmp_path: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]], message: str
) -> None:
    exported(tmp_path)
    rewrite(tmp_path, change)
    with pytest.raises(InputError, match=message):
        load_model(tmp_path)


def test_missing_and_torn_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no config\.json"):
        load_model(tmp_path / "nowhere")
    exported(tmp_path)
    weights = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(weights[:-1])
    with pytest.raises(InputError, match="not a complete safetensors file"):
        load_model(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"has no model\.safetensors"):
        load_model(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InputError, match="is not JSON"):
        load_model(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(InputError, match="is not a JSON object"):
        load_model(tmp_path)


def test_a_tokenizer_without_the_special_tokens_is_named(tmp_path: Path) -> None:
    exported(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["mask_token_id"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "tokenizer.json").write_text('{"added_tokens": [{"id": 0, "content": "[PAD]"}]}')
    with pytest.raises(InputError, match=r"does not give the ids of \[PAD\]"):
        load_model(tmp_path)
