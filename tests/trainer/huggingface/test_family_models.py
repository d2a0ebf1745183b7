"""Models next to those of transformers: logits, losses and gradients; ALBERT's one layer, and DistilBERT."""

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from small_batches import (
    assert_gradients_are_theirs,
    opened,
    padded_inputs,
    padded_labels,
    present_tokens,
    small_batch,
    small_inputs,
    small_model,
    small_settings,
)

from corpora.errors import InputError
from trainer.huggingface.checkpoints import Pretrained, export
from trainer.huggingface.config import read_config, to_model_settings
from trainer.model.masked import MaskedModel
from trainer.settings.model import ModelSettings
from trainer.tasks.folders import write_task
from trainer.tasks.heads.task_model import build_task_model
from trainer.tasks.kinds.texts import ClassesTask

THREE = ClassesTask(labels=("a", "b", "c"))
SMALL: dict[str, dict[str, int]] = {"albert": {"layers": 4, "embedding_size": 16}}
FAMILIES = pytest.mark.parametrize(
    ("family", "pairs", "settings"),
    [
        ("bert", True, {}),
        ("bert", False, {}),
        ("roberta", False, {}),
        ("albert", True, {}),
        ("albert", False, {}),
        ("albert", True, {"layer_groups": 2}),
        ("albert", False, {"embedding_size": 32}),
        ("distilbert", False, {}),
    ],
)


def asked(family: str, **settings: Any) -> ModelSettings:
    return small_settings(family=family, **{**SMALL.get(family, {}), **settings})


def put(folder: Path, family: str, pairs: bool, **settings: Any) -> MaskedModel:
    """A small model whose folder is written."""
    of_model, inputs = asked(family, **settings), small_inputs(family, pairs)
    model = small_model(of_model, inputs)
    export(folder, model.state_dict(), of_model, inputs)
    return model


@FAMILIES
def test_logits_and_gradients_are_those_of_transformers(
    tmp_path: Path, transformers: ModuleType, family: str, pairs: bool, settings: dict[str, int]
) -> None:
    """Theirs are means, ours sums; in float64, where only our loss is float32."""
    model = put(tmp_path, family, pairs, **settings).eval().double()
    reference = opened(transformers.AutoModelForPreTraining if pairs else transformers.AutoModelForMaskedLM, tmp_path)
    batch = small_batch(pairs=pairs)
    inputs, of_pairs = small_inputs(family, pairs), ("sop", "sentence_order")
    if family == "bert":
        of_pairs = ("seq_relationship", "next_sentence")
    labels = {"labels": padded_labels(batch)} | ({f"{of_pairs[1]}_label": batch.targets["pair"]} if pairs else {})
    segments = family in ("albert", "bert")
    output = reference(**padded_inputs(batch, inputs.special_ids.pad, segments=segments), **labels)
    masked, pair = model.compute_logits(batch)
    rows = output.prediction_logits if pairs else output.logits
    torch.testing.assert_close(masked, present_tokens(rows, batch)[batch.points], atol=1e-9, rtol=1e-9)
    if pairs:
        torch.testing.assert_close(pair, output[f"{of_pairs[0]}_logits"], atol=1e-9, rtol=1e-9)
    sums = model(batch)[:, 0]
    loss = sums[0] / len(batch.points) + (sums[1] / batch.num_sequences if pairs else 0)
    torch.testing.assert_close(loss.double(), output.loss, atol=1e-5, rtol=1e-5)
    loss.backward()
    output.loss.backward()
    assert_gradients_are_theirs(model, reference, asked(family), inputs)


@pytest.mark.parametrize(("family", "dropout"), [("albert", 0.1), ("distilbert", 0.2)])
def test_a_classifier_has_the_logits_of_transformers(
    tmp_path: Path, transformers: ModuleType, family: str, dropout: float
) -> None:
    """ALBERT's begins with the pooler that pairs have learnt."""
    settings, inputs = asked(family), small_inputs(family, True)
    pretrained = small_model(settings, inputs).state_dict()
    model = build_task_model(THREE, Pretrained(settings, inputs, pretrained)).eval()
    assert model.class_head.dropout.p == dropout
    if family == "albert":
        assert torch.equal(model.class_head.pooler.dense.weight, pretrained["pair_head.pooler.dense.weight"])
    write_task(tmp_path, model.state_dict(), THREE, settings, inputs)
    reference = opened(transformers.AutoModelForSequenceClassification, tmp_path)
    batch = small_batch()
    with torch.no_grad():
        wanted = reference(**padded_inputs(batch, 0, segments=family == "albert")).logits
        torch.testing.assert_close(model.double().class_head(model.encoder(batch)[batch.boundaries[:-1]]), wanted)


@pytest.mark.parametrize(
    ("config", "more", "size"),
    [("AlbertConfig", {"classifier_dropout_prob": 0}, "xxlarge"), ("DistilBertConfig", {"qa_dropout": 0.3}, "base")],
)
def test_the_configuration_of_transformers_is_understood(
    tmp_path: Path, transformers: ModuleType, config: str, more: dict[str, float], size: str
) -> None:
    """Theirs as they write it, with defaults of their own; and of old files without their own keys."""
    theirs, path = getattr(transformers, config)(**more), tmp_path / "config.json"
    theirs.save_pretrained(tmp_path)
    wanted = ModelSettings(family=theirs.model_type, size=size)
    assert to_model_settings(read_config(path), "here") == wanted
    layers = {"num_hidden_layers": 12} if size == "xxlarge" else {}
    path.write_text(json.dumps({"model_type": theirs.model_type, "vocab_size": 30_000, **layers}))
    assert to_model_settings(read_config(path), "here") == wanted


def test_layers_of_several_parts_are_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "albert", "vocab_size": 9, "inner_group_num": 2}')
    with pytest.raises(InputError, match="inner_group_num is 2, and 1 in every albert model"):
        to_model_settings(read_config(tmp_path / "config.json") | {"num_hidden_layers": 12}, "here")


def test_dropout_is_after_the_feed_forward_part_too() -> None:
    """As in the authors' code: with all of it dropped, and attention too, a layer is a norm of a norm."""
    model = small_model(asked("albert", layers=1, dropout=0.5), small_inputs("albert"))
    model.encoder.layers[0].dropout.p = 1.0
    batch = small_batch(pairs=False)
    given = torch.randn(len(batch.ids), 32)
    layer = model.encoder.layers[0]
    torch.testing.assert_close(
        layer(given, batch.boundaries, batch.longest), layer.feed_forward_norm(layer.attention_norm(given))
    )


def test_own_layers_are_asked_for_by_their_number() -> None:
    """With a set of weights for each layer it is factorised alone, and sharded layer by layer; a shared layer is held
    once and belongs to the root."""
    shared = small_model(asked("albert"), small_inputs("albert", True))
    assert shared.list_shard_groups() == [] and len(shared.encoder.layers) == 1
    model = small_model(asked("albert", layer_groups=4), small_inputs("albert"))
    assert len(model.list_shard_groups()) == 4
    with pytest.raises(InputError, match=r"model\.layers = 4 is not a multiple"):
        replace(asked("albert"), layer_groups=3)
