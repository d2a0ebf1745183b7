"""DistilBERT and transformers' DistilBERT: sizes, logits and gradients, both ways."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from small_batches import (
    BERT_IDS,
    ROBERTA_IDS,
    padded_inputs,
    padded_labels,
    present_tokens,
    small_batch,
    small_inputs,
    small_model,
    small_settings,
)

from trainer.families.contract import ModelInputs
from trainer.huggingface.checkpoints import export, load
from trainer.huggingface.config import read_config, settings_of
from trainer.huggingface.names import huggingface_names
from trainer.huggingface.pretrained import Pretrained
from trainer.model.masked import MaskedModel
from trainer.model.objective import build_model, count_parameters
from trainer.settings.model import ModelSettings
from trainer.tasks.heads.task_model import build_task_model
from trainer.tasks.kinds.texts import ClassesTask
from trainer.tasks.saving import write_task

THREE = ClassesTask(labels=("a", "b", "c"))

INPUTS = small_inputs("distilbert", True)  # whatever pairs the examples have, it learns none


def distilbert(**settings: Any) -> ModelSettings:
    return small_settings(family="distilbert", **settings)


def put(folder: Path, **settings: Any) -> MaskedModel:
    """A small model whose folder is written."""
    model = small_model(distilbert(**settings), INPUTS)
    export(folder, model.state_dict(), distilbert(**settings), INPUTS)
    return model


@pytest.mark.parametrize(
    ("family", "layers", "vocab_size", "masked"),
    [
        ("distilbert", None, 30_522, 66_985_530),
        ("distilbert", None, 28_996, 65_812_036),
        ("roberta", 6, 50_265, 82_170_201),  # DistilRoBERTa
    ],
)
def test_sizes(family: str, layers: int | None, vocab_size: int, masked: int) -> None:
    ids = ROBERTA_IDS if family == "roberta" else BERT_IDS
    with torch.device("meta"):
        model = build_model(
            ModelSettings(family=family, layers=layers), ModelInputs(vocab_size=vocab_size, special_ids=ids)
        )
    assert count_parameters(model) == masked


def test_logits_and_gradients_are_those_of_transformers(tmp_path: Path, transformers: ModuleType) -> None:
    """In float64, where only our loss is float32."""
    model = put(tmp_path).eval().double()
    reference, info = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path, output_loading_info=True)
    assert type(reference).__name__ == "DistilBertForMaskedLM" and not any(info.values()), info
    assert type(transformers.AutoModel.from_pretrained(tmp_path)).__name__ == "DistilBertModel"
    batch, reference = small_batch(pairs=False), reference.eval().double()
    output = reference(**padded_inputs(batch, 0, segments=False), labels=padded_labels(batch))
    masked, pair = model.logits(batch)
    assert pair is None
    torch.testing.assert_close(masked, present_tokens(output.logits, batch)[batch.points], atol=1e-9, rtol=1e-9)
    (model(batch)[0, 0] / len(batch.points)).backward()
    output.loss.backward()
    wanted = dict(reference.named_parameters())
    [part] = distilbert().objective_settings.parts(distilbert().of_family, INPUTS)
    names = huggingface_names(model.state_dict(), model.family, part)
    assert {theirs for parts in names.values() for theirs in parts} == wanted.keys()
    for name, parameter in model.named_parameters():
        gradient = torch.cat([wanted[theirs].grad for theirs in names[name]])
        if name == "encoder.embeddings.word.weight":
            gradient[0] = parameter.grad[0]  # theirs learns nothing of padding as an input
        torch.testing.assert_close(parameter.grad, gradient, atol=1e-5, rtol=1e-5)


def test_a_classifier_has_the_logits_of_transformers(tmp_path: Path, transformers: ModuleType) -> None:
    model = build_task_model(
        THREE, Pretrained(distilbert(), INPUTS, small_model(distilbert(), INPUTS).state_dict())
    ).eval()
    assert model.class_head.dropout.p == 0.2
    write_task(tmp_path, model.state_dict(), THREE, distilbert(), INPUTS)
    reference, info = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not any(info.values()) and type(reference).__name__ == "DistilBertForSequenceClassification"
    batch = small_batch()
    with torch.no_grad():
        wanted = reference.eval().double()(**padded_inputs(batch, 0, segments=False)).logits
        torch.testing.assert_close(model.double().class_head(model.encoder(batch)[batch.boundaries[:-1]]), wanted)


def test_exported_and_loaded_is_equal(tmp_path: Path) -> None:
    model = put(tmp_path, dropout=0.3, activation="relu")
    settings, inputs, state = load(tmp_path)
    assert settings == distilbert(dropout=0.3, activation="relu") and not inputs.pair_labels
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())
    assert state.keys() == model.state_dict().keys()


def test_the_configuration_of_transformers_is_understood(tmp_path: Path, transformers: ModuleType) -> None:
    transformers.DistilBertConfig(qa_dropout=0.3).save_pretrained(tmp_path)
    assert settings_of(read_config(tmp_path / "config.json"), "here") == ModelSettings(family="distilbert")
    (tmp_path / "config.json").write_text('{"model_type": "distilbert", "vocab_size": 30522}')
    assert settings_of(read_config(tmp_path / "config.json"), "here") == ModelSettings(family="distilbert")
