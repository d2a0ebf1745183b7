"""ModernBERT: its sizes, its first weights, its windows, and that transformers says the same."""

import json
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
)

from corpora.errors import InputError
from trainer.huggingface.checkpoints import Pretrained, export, load_model
from trainer.model.objective import build_model
from trainer.settings.model import ModelSettings, build_encoder_shape
from trainer.tasks.folders import write_task
from trainer.tasks.heads.task_model import build_task_model
from trainer.tasks.kinds.texts import ClassesTask

THREE = ClassesTask(labels=("a", "b", "c"))

# lengths at and around the edge of a window of 128: 64 tokens to each side
LENGTHS = (1, 64, 65, 66, 128, 129, 130, 200)


def small_modern(**settings: Any) -> ModelSettings:
    """Four layers of 32: global, windows, windows, global."""
    small = {"layers": 4, "hidden_size": 32, "heads": 4, "feed_forward_size": 48, "max_length": 256}
    return ModelSettings(family="modernbert", **{**small, **settings})


def test_layers_see_as_they_should() -> None:
    """Fails if the first or every third layer has a window, or another base."""
    shape = build_encoder_shape(ModelSettings(family="modernbert"), small_inputs("modernbert"))
    assert [number for number in range(22) if shape.get_window(number) is None] == [0, 3, 6, 9, 12, 15, 18, 21]
    assert {shape.get_window(number) for number in (1, 2, 4)} == {128}
    assert shape.rope_bases == (160_000.0, 10_000.0) and shape.positions == 8192


@pytest.mark.parametrize("lengths", [LENGTHS, (256,), (3, 250)])
def test_transformers_has_equal_logits_and_gradients(
    tmp_path: Path, transformers: ModuleType, lengths: tuple[int, ...]
) -> None:
    """Fails if a window's edge, a rotation, a norm or a gate is other than theirs."""
    settings, inputs = small_modern(), small_inputs("modernbert")
    model = small_model(settings, inputs).double()
    export(tmp_path, model.state_dict(), settings, inputs)
    reference = opened(transformers.AutoModelForMaskedLM, tmp_path, attn_implementation="sdpa")
    batch = small_batch(lengths, pairs=False)
    output = reference(**padded_inputs(batch, 0, segments=False), labels=padded_labels(batch))
    found = model.answer(batch)
    wanted = present_tokens(output.logits, batch)[batch.points]
    assert wanted.std() > 0.05, "the test compares nothing"
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)
    (model(batch)[0, 0] / len(batch.points)).backward()
    output.loss.backward()
    assert_gradients_are_theirs(model, reference, settings, inputs)


def test_what_transformers_writes_loads(tmp_path: Path, transformers: ModuleType) -> None:
    """Fails if a file of theirs, with layer types and rotations spelt out, is refused or read otherwise."""
    settings, inputs = small_modern(), small_inputs("modernbert")
    model = small_model(settings, inputs)
    export(tmp_path / "ours", model.state_dict(), settings, inputs)
    reference = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "ours")
    reference.save_pretrained(tmp_path / "theirs")
    found, their_inputs, state = load_model(tmp_path / "theirs")
    assert (found, their_inputs) == (settings, inputs)
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("norm_bias", True),
        ("classifier_pooling", "max"),
        ("layer_types", ["full_attention", "full_attention", "sliding_attention", "sliding_attention"]),
        ("layer_types", ["full_attention"] * 3),
        ("rope_parameters", {"full_attention": {"rope_theta": 1e6, "rope_type": "linear"}}),
    ],
)
def test_another_shape_is_refused_by_its_key(tmp_path: Path, key: str, value: object) -> None:
    """Fails if a model that would compute otherwise is read as if it did not."""
    settings, inputs = small_modern(), small_inputs("modernbert")
    export(tmp_path, small_model(settings, inputs).state_dict(), settings, inputs)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, key: value}))
    with pytest.raises(InputError, match=key):
        load_model(tmp_path)


@pytest.mark.parametrize(
    "other",
    [
        {"window": 32, "every_global": 2, "global_base": 80_000.0, "local_base": 160_000.0, "norm_epsilon": 1e-6},
        {"every_global": 1, "pooling": "cls"},
    ],
)
def test_other_windows_rotations_and_epsilons_are_theirs_too(
    tmp_path: Path, transformers: ModuleType, other: dict[str, Any]
) -> None:
    """Fails if models that only their windows, bases or norms tell from the published ones are read otherwise."""
    settings, inputs = small_modern(**other), small_inputs("modernbert")
    model = small_model(settings, inputs)
    export(tmp_path / "ours", model.state_dict(), settings, inputs)
    reference = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "ours", attn_implementation="sdpa")
    reference.save_pretrained(tmp_path / "theirs")
    found, _, _ = load_model(tmp_path / "theirs")
    assert found == settings and load_model(tmp_path / "ours")[0] == settings
    batch = small_batch(LENGTHS, pairs=False)
    logits = reference(**padded_inputs(batch, 0, segments=False)).logits
    wanted = present_tokens(logits, batch)[batch.points]
    torch.testing.assert_close(model.answer(batch), wanted, atol=1e-4, rtol=1e-4)
    usual = small_model(small_modern(), inputs)
    usual.load_state_dict(model.state_dict())
    assert (usual.answer(batch) - wanted).abs().max() > 1e-3, "the settings change nothing"


@pytest.mark.parametrize("key", ["window", "every_global", "global_base", "local_base", "pooling"])
def test_what_a_family_has_none_of_is_refused(key: str) -> None:
    """Fails if a recipe sets windows or rotations of a BERT, and nothing comes of it."""
    with pytest.raises(InputError, match=rf"model\.{key}.*bert models do not have it"):
        ModelSettings(**{key: "mean" if key == "pooling" else 8})


def test_first_weights_are_smaller_with_depth() -> None:
    """Fails if what is added to the residual begins as large in deep models as in shallow ones."""
    torch.manual_seed(0)
    model = build_model(small_modern(layers=8, hidden_size=64), small_inputs("modernbert"))
    model.init_weights()
    names = ("widen", "narrow")
    inner, outer = (float(model.get_parameter(f"encoder.layers.1.{name}.weight").detach().std()) for name in names)
    assert abs(inner / 0.0176 - 1) < 0.05 and abs(outer / inner * 4 - 1) < 0.05


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_classifier_opens_with_equal_logits(tmp_path: Path, transformers: ModuleType, pooling: str) -> None:
    """Fails if the head is not theirs, reads other tokens, or does not begin as the masked one."""
    settings, inputs = small_modern(pooling=pooling if pooling == "cls" else None), small_inputs("modernbert")
    state = small_model(settings, inputs).state_dict()
    model = build_task_model(THREE, Pretrained(settings, inputs, state)).eval()
    assert torch.equal(model.class_head.pooler.dense.weight, state["masked_head.dense.weight"])
    torch.nn.init.normal_(model.class_head.decision.weight)
    write_task(tmp_path, model.state_dict(), THREE, settings, inputs)
    reference = opened(transformers.AutoModelForSequenceClassification, tmp_path)
    assert reference.config.classifier_pooling == pooling
    batch = small_batch(pairs=False)
    with torch.no_grad():
        wanted = reference(**padded_inputs(batch, 0, segments=False)).logits
        torch.testing.assert_close(model.double()(batch, answering=True), wanted.float(), atol=1e-5, rtol=1e-5)
