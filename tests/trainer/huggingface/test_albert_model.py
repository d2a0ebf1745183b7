"""ALBERT and transformers' ALBERT: sizes, logits and gradients, both ways, and how its one layer is shared."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.distributed as dist
from small_batches import (
    BERT_IDS,
    padded_inputs,
    padded_labels,
    present_tokens,
    small_batch,
    small_inputs,
    small_model,
    small_settings,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from corpora.errors import InputError
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


def albert(**settings: Any) -> ModelSettings:
    return small_settings(family="albert", **{"layers": 4, "embedding_size": 16, **settings})


def put(folder: Path, pairs: bool = True, **settings: Any) -> MaskedModel:
    """A small model whose folder is written."""
    asked, inputs = albert(**settings), small_inputs("albert", pairs)
    model = small_model(asked, inputs)
    export(folder, model.state_dict(), asked, inputs)
    return model


# Of the published models: encoder with pooler, with both heads, with the masked head alone.
@pytest.mark.parametrize(
    ("size", "encoder", "both", "masked"),
    [
        ("base", 11_683_584, 11_813_810, 11_221_680),
        ("large", 17_683_968, 17_847_474, 16_795_824),
        ("xlarge", 58_724_864, 59_021_490, 54_821_040),
        ("xxlarge", 222_595_584, 223_158_450, 206_368_944),
    ],
)
def test_sizes(size: str, encoder: int, both: int, masked: int) -> None:
    settings = ModelSettings(family="albert", size=size)
    with torch.device("meta"):
        pairs, alone = (
            build_model(settings, ModelInputs(vocab_size=30_000, special_ids=BERT_IDS, pair_labels=labels))
            for labels in (True, False)
        )
    assert isinstance(pairs, MaskedModel) and pairs.pair_head is not None
    assert count_parameters(pairs.encoder) + count_parameters(pairs.pair_head.pooler) == encoder
    assert (count_parameters(pairs), count_parameters(alone)) == (both, masked)
    assert (settings.activation, settings.dropout, settings.attention_dropout) == ("gelu-tanh", 0, 0)


@pytest.mark.parametrize(
    "settings", [{}, {"layer_groups": 2}, {"embedding_size": 32}], ids=["shared", "two groups", "tables of hidden size"]
)
@pytest.mark.parametrize("pairs", [True, False])
def test_logits_and_gradients_are_those_of_transformers(
    tmp_path: Path, transformers: ModuleType, pairs: bool, settings: dict[str, int]
) -> None:
    """Theirs are means, ours sums; in float64, where only our loss is float32."""
    model = put(tmp_path, pairs, **settings).eval().double()
    automatic = transformers.AutoModelForPreTraining if pairs else transformers.AutoModelForMaskedLM
    reference, info = automatic.from_pretrained(tmp_path, output_loading_info=True)
    assert type(reference).__name__ == ("AlbertForPreTraining" if pairs else "AlbertForMaskedLM")
    assert not any(info.values()), info
    batch, reference = small_batch(pairs=pairs), reference.eval().double()
    labels = {"labels": padded_labels(batch)} | ({"sentence_order_label": batch.targets["pair"]} if pairs else {})
    output = reference(**padded_inputs(batch, 0, segments=True), **labels)
    masked, pair = model.logits(batch)
    rows = output.prediction_logits if pairs else output.logits
    torch.testing.assert_close(masked, present_tokens(rows, batch)[batch.points], atol=1e-9, rtol=1e-9)
    if pairs:
        torch.testing.assert_close(pair, output.sop_logits, atol=1e-9, rtol=1e-9)
    sums = model(batch)[:, 0]
    (sums[0] / len(batch.points) + (sums[1] / batch.num_sequences if pairs else 0)).backward()
    output.loss.backward()
    wanted = dict(reference.named_parameters())
    [part] = albert().objective_settings.parts(albert().of_family, small_inputs("albert", pairs))
    names = huggingface_names(model.state_dict(), model.family, part)
    assert {theirs for parts in names.values() for theirs in parts} == wanted.keys()
    for name, parameter in model.named_parameters():
        gradient = torch.cat([wanted[theirs].grad for theirs in names[name]])
        assert parameter.grad is not None and gradient.abs().max() > 1e-7, name
        torch.testing.assert_close(parameter.grad, gradient, atol=1e-5, rtol=1e-5)


def test_a_classifier_has_the_logits_of_transformers(tmp_path: Path, transformers: ModuleType) -> None:
    """It begins with the pooler that pairs have learnt."""
    settings, inputs = albert(), small_inputs("albert", True)
    pretrained = small_model(settings, inputs).state_dict()
    model = build_task_model(THREE, Pretrained(settings, inputs, pretrained)).eval()
    assert torch.equal(model.class_head.pooler.dense.weight, pretrained["pair_head.pooler.dense.weight"])
    assert model.class_head.dropout.p == 0.1
    write_task(tmp_path, model.state_dict(), THREE, settings, inputs)
    reference, info = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not any(info.values()) and type(reference).__name__ == "AlbertForSequenceClassification"
    batch = small_batch()
    with torch.no_grad():
        wanted = reference.eval().double()(**padded_inputs(batch, 0, segments=True)).logits
        torch.testing.assert_close(model.double().class_head(model.encoder(batch)[batch.boundaries[:-1]]), wanted)


@pytest.mark.parametrize("pairs", [True, False])
@pytest.mark.parametrize("settings", [{}, {"layer_groups": 2, "dropout": 0.1}])
def test_exported_and_loaded_is_equal(tmp_path: Path, pairs: bool, settings: dict[str, Any]) -> None:
    model = put(tmp_path, pairs, **settings)
    back_settings, back_inputs, state = load(tmp_path)
    assert (back_settings, back_inputs) == (albert(**settings), small_inputs("albert", pairs))
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())
    assert state.keys() == model.state_dict().keys()


def test_the_configuration_of_transformers_is_understood(tmp_path: Path, transformers: ModuleType) -> None:
    """Theirs as they write it, whose defaults are those of xxlarge; and of old files without their own keys."""
    transformers.AlbertConfig(classifier_dropout_prob=0).save_pretrained(tmp_path)
    assert settings_of(read_config(tmp_path / "config.json"), "here") == ModelSettings(family="albert", size="xxlarge")
    (tmp_path / "config.json").write_text('{"model_type": "albert", "vocab_size": 30000, "num_hidden_layers": 12}')
    assert settings_of(read_config(tmp_path / "config.json"), "here") == ModelSettings(family="albert", size="xxlarge")
    (tmp_path / "config.json").write_text('{"model_type": "albert", "vocab_size": 9, "inner_group_num": 2}')
    with pytest.raises(InputError, match="inner_group_num is 2, and 1 in every albert model"):
        settings_of(read_config(tmp_path / "config.json") | {"num_hidden_layers": 12}, "here")


def test_dropout_is_after_the_feed_forward_part_too() -> None:
    """As in the authors' code: with all of it dropped, and attention too, a layer is a norm of a norm."""
    model = small_model(albert(layers=1, dropout=0.5), small_inputs("albert"))
    model.encoder.layers[0].dropout.p = 1.0
    batch = small_batch(pairs=False)
    given = torch.randn(len(batch.ids), 32)
    layer = model.encoder.layers[0]
    torch.testing.assert_close(
        layer(given, batch.boundaries, batch.longest), layer.feed_forward_norm(layer.attention_norm(given))
    )


@pytest.fixture
def one_process() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_the_shared_layer_belongs_to_the_root(one_process: None) -> None:
    """Sharded, two micro-batches of a step come to the gradients of both; the layer is held once."""
    settings, inputs = albert(), small_inputs("albert", True)
    plain, sharded = (small_model(settings, inputs).double() for _ in range(2))
    assert sharded.shard_groups() == [] and len(sharded.encoder.layers) == 1
    fully_shard(sharded, mesh=init_device_mesh("cpu", (1,)))
    for model in (plain, sharded):
        for seed in (1, 2):
            model(small_batch(seed=seed))[:, 0].sum().backward()
    for (name, one), other in zip(plain.named_parameters(), sharded.parameters(), strict=True):
        assert one.grad is not None and other.grad is not None, name
        torch.testing.assert_close(other.grad.full_tensor(), one.grad, rtol=1e-6, atol=1e-6)


def test_own_layers_are_asked_for_by_their_number() -> None:
    """With a set of weights for each layer it is factorised alone, and sharded layer by layer."""
    model = small_model(albert(layer_groups=4), small_inputs("albert"))
    assert len(model.shard_groups()) == 4
    with pytest.raises(InputError, match=r"model\.layers = 4 is not a multiple"):
        replace(albert(), layer_groups=3)
