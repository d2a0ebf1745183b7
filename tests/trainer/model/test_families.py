"""Families: exact sizes, first weights, losses as sums, gradients that are never None."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from small_batches import BERT_IDS, ROBERTA_IDS, small_batch, small_inputs, small_model, small_settings
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from corpora.errors import InputError
from trainer.families.contract import ModelInputs
from trainer.huggingface.config import build_config, to_model_settings
from trainer.model.masked import MaskedModel
from trainer.model.objective import build_model, count_parameters
from trainer.settings.model import FAMILIES, ModelSettings, to_model_json

CASES = [("bert", True), ("bert", False), ("roberta", False), ("albert", True), ("distilbert", False)]


# Of the published models: encoder with its pooler, with both heads, with the masked head alone.
@pytest.mark.parametrize(
    ("settings", "vocab_size", "encoder", "both", "masked"),
    [
        ({"size": "tiny"}, 30522, 4_385_920, 4_433_468, None),
        ({"size": "mini"}, 30522, 11_170_560, 11_267_900, None),
        ({"size": "small"}, 30522, 28_763_648, 29_058_876, None),
        ({"size": "medium"}, 30522, 41_373_184, 41_668_412, None),
        ({}, 30522, 109_482_240, 110_106_428, 109_514_298),
        ({}, 28996, 108_310_272, 108_932_934, 108_340_804),
        ({}, 119547, 177_853_440, 178_566_653, None),
        ({"size": "large"}, 30522, 335_141_888, 336_226_108, 335_174_458),
        ({"size": "large"}, 28996, 333_579_264, 334_661_958, 333_610_308),
        ({}, 30528, 109_486_848, 110_111_042, None),
        ({"size": "large"}, 30528, 335_148_032, 336_232_258, None),
        ({"family": "roberta"}, 50265, 124_645_632 - 768 * 769, 124_697_433, 124_697_433),  # ours has no pooler
        ({"family": "roberta", "size": "large"}, 50265, 355_359_744 - 1024 * 1025, 355_412_057, 355_412_057),
        ({"family": "roberta", "layers": 6}, 50265, None, 82_170_201, 82_170_201),  # DistilRoBERTa
        ({"family": "albert"}, 30000, None, 11_813_810, 11_221_680),
        ({"family": "albert", "size": "large"}, 30000, None, 17_847_474, 16_795_824),
        ({"family": "albert", "size": "xlarge"}, 30000, None, 59_021_490, 54_821_040),
        ({"family": "albert", "size": "xxlarge"}, 30000, None, 223_158_450, 206_368_944),
        ({"family": "distilbert"}, 30522, None, 66_985_530, 66_985_530),
        ({"family": "distilbert"}, 28996, None, 65_812_036, 65_812_036),
        ({"family": "modernbert"}, 50368, 149_014_272, 149_655_232, 149_655_232),
        ({"family": "modernbert", "size": "large"}, 50368, 394_781_696, 395_881_664, 395_881_664),
    ],
)
def test_sizes(settings: dict[str, Any], vocab_size: int, encoder: int | None, both: int, masked: int | None) -> None:
    """Fails if a family has a parameter more or less, or a pair head that it should not have."""
    ids = ROBERTA_IDS if settings.get("family") == "roberta" else BERT_IDS
    with torch.device("meta"):
        model, plain = (
            build_model(
                ModelSettings(**settings), ModelInputs(vocab_size=vocab_size, special_ids=ids, pair_labels=each)
            )
            for each in (True, False)
        )
    assert isinstance(model, MaskedModel)
    pooler = 0 if model.pair_head is None else count_parameters(model.pair_head.pooler)
    assert encoder is None or count_parameters(model.encoder) + pooler == encoder
    assert count_parameters(model) == both
    assert masked is None or count_parameters(plain) == masked


@pytest.mark.parametrize("family", [name for name, row in FAMILIES.items() if not row.scales_by_depth])
def test_first_weights(family: str) -> None:
    model = build_model(small_settings(family=family, hidden_size=64), small_inputs(family, pair_labels=True))
    torch.manual_seed(0)
    model.init_weights()
    seen = set()
    for name, module in model.named_modules():
        for kind, parameter in module.named_parameters(recurse=False):
            seen.add(f"{name}.{kind}")
            if isinstance(module, nn.LayerNorm) and kind == "weight":
                assert parameter.eq(1).all(), name
            elif kind == "bias":
                assert parameter.eq(0).all(), name
            elif FAMILIES[family].first_weights == "truncated-normal" and parameter.numel() > 2000:
                # Cut at two deviations, 0.88 of a normal deviation is left.
                assert 0.039 < parameter.abs().max() <= 0.04 and abs(parameter.std() / 0.0176 - 1) < 0.05, name
            elif parameter.numel() > 2000:
                assert parameter.abs().max() > 0.05 and abs(parameter.std() / 0.02 - 1) < 0.05, name
    assert len(seen) == len(list(model.named_parameters()))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_deviation_of_first_weights_is_a_setting(family: str) -> None:
    """Fails if a matrix begins as always, a configuration tells of another deviation, or 0.02 is written."""
    settings = small_settings(family=family, hidden_size=64, initializer_range=0.08)
    inputs = small_inputs(family)
    models = [build_model(each, inputs) for each in (settings, replace(settings, initializer_range=0.02))]
    for model in models:
        torch.manual_seed(0)
        model.init_weights()
    for (name, wide), usual in zip(models[0].named_parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(wide, usual * (4 if wide.ndim > 1 else 1), msg=name)
    config = build_config(settings, inputs, FAMILIES[family].objective)
    assert config["initializer_range"] == to_model_settings(config, "here").initializer_range == 0.08
    assert "initializer_range" not in to_model_json(replace(settings, initializer_range=0.02))


@pytest.mark.parametrize("family", [name for name, row in FAMILIES.items() if row.has_position_table])
def test_positions_may_begin_as_sinusoids(family: str) -> None:
    """Fails if near positions are not alike, the table is larger or smaller than the others, or another weight differs
    from that of a model whose positions are random."""
    settings, inputs = small_settings(family=family, hidden_size=64), small_inputs(family)
    models = [build_model(each, inputs) for each in (settings, replace(settings, initial_positions="sinusoidal"))]
    for model in models:
        torch.manual_seed(0)
        model.init_weights()
    random, sinusoidal = (model.state_dict() for model in models)
    changed = [name for name, weight in random.items() if not torch.equal(weight, sinusoidal[name])]
    assert changed and all("position" in name for name in changed), changed
    for name in changed:
        rows = sinusoidal[name][8:]  # RoBERTa's first ones are those before the first token
        assert rows.square().mean().sqrt() == pytest.approx(0.02, rel=1e-3)
        near, far = ((rows[:-gap] * rows[gap:]).sum(1).mean() for gap in (1, 12))
        assert near > 1.2 * far > 0
    assert "initial_positions" not in to_model_json(settings)


def test_sinusoids_need_a_table_of_positions() -> None:
    with pytest.raises(InputError, match="but modernbert models have no table"):
        ModelSettings(family="modernbert", size="tiny", initial_positions="sinusoidal")


def test_robertas_padding_begins_as_zeros() -> None:
    model = build_model(small_settings(family="roberta"), small_inputs("roberta"))
    model.init_weights()
    words, positions = model.encoder.embeddings.word.weight, model.encoder.embeddings.position.weight
    assert [row for row in range(len(words)) if words[row].eq(0).all()] == [ROBERTA_IDS.pad]
    assert [row for row in range(len(positions)) if positions[row].eq(0).all()] == [ROBERTA_IDS.pad]


@pytest.mark.parametrize("family", FAMILIES)
def test_first_weights_follow_the_seed_alone(family: str) -> None:
    settings, inputs = small_settings(family=family), small_inputs(family, pair_labels=True)
    with torch.device("meta"):
        empty = build_model(settings, inputs)
    models = [build_model(settings, inputs), empty.to_empty(device="cpu"), build_model(settings, inputs)]
    for model, seed in zip(models, (5, 5, 6), strict=True):
        torch.manual_seed(seed)
        model.init_weights()
    one, again, other = (model.state_dict() for model in models)
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)


def test_correct_ones_are_counted() -> None:
    model = small_model(small_settings(), small_inputs("bert", True)).eval()
    batch = small_batch()
    masked, pair = model.compute_logits(batch)
    assert pair is not None
    right = replace(batch, targets={"masked": masked.argmax(1), "pair": pair.argmax(1)})
    assert model(right)[:, 1].tolist() == [len(batch.points), 5]
    wrong = replace(batch, targets={"masked": masked.argmin(1), "pair": pair.argmin(1)})
    assert model(wrong)[:, 1].tolist() == [0, 0]


@pytest.mark.parametrize(("family", "pairs"), CASES)
@pytest.mark.parametrize("lengths", [(6, 4), ()])
def test_nothing_masked_gives_zeros_and_never_none(family: str, pairs: bool, lengths: tuple[int, ...]) -> None:
    model = small_model(small_settings(family=family), small_inputs(family, pairs))
    losses = model(small_batch(lengths, pairs=pairs, num_masked=0))
    assert losses[0].tolist() == [0, 0]
    losses[:, 0].sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        if not pairs or not lengths:
            assert parameter.grad.eq(0).all(), name


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16])
def test_losses_are_float32_in_half_precision(precision: torch.dtype) -> None:
    model = small_model(small_settings(), small_inputs("bert", True)).eval()
    batch = small_batch()
    with torch.no_grad():
        whole, half = model(batch), model.to(precision)(batch)
    assert half.dtype == torch.float32 and (half[:, 0] / whole[:, 0] - 1).abs().max() < 0.05


@pytest.mark.parametrize(("family", "pairs"), CASES)
def test_sharded_layer_by_layer_it_has_the_same_gradients(one_process: None, family: str, pairs: bool) -> None:
    settings, inputs = small_settings(family=family), small_inputs(family, pairs)
    plain, sharded = (small_model(settings, inputs).double() for _ in range(2))
    mesh = init_device_mesh("cpu", (1,))
    for part in (*sharded.list_shard_groups(), sharded):
        fully_shard(part, mesh=mesh)
    for batch in (small_batch((3, 3), pairs=pairs, num_masked=0), small_batch(pairs=pairs)):
        for model in (plain, sharded):
            model(batch)[:, 0].sum().backward()  # to the gradients of the micro-batch before, as in a step
        compared = 0
        for (name, one), other in zip(plain.named_parameters(), sharded.parameters(), strict=True):
            assert isinstance(other.grad, DTensor) and one.grad is not None, name
            torch.testing.assert_close(other.grad.full_tensor(), one.grad, rtol=1e-6, atol=1e-6)  # the loss is float32
            compared += int(one.grad.abs().sum() > 0)
        assert compared or not len(batch.points)


def test_rows_that_fill_the_vocabulary_are_nowhere_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on CUDA. Fails where a row of zeros is in the logits, the loss, a gradient or the state."""
    model, batch = small_model(small_settings(), small_inputs("bert", True)), small_batch()
    found = []
    for aligns in ((), ("cpu",)):
        monkeypatch.setattr("trainer.model.masked.ALIGNED_DEVICES", aligns)
        model.zero_grad()
        losses = model(batch)
        losses[:, 0].sum().backward()
        assert model.answer(batch).shape == (len(batch.points), 99)
        found.append((losses.detach(), [p.grad.clone() for p in model.parameters() if p.grad is not None]))
    (one, gradients), (other, others) = found
    torch.testing.assert_close(one, other, rtol=1e-6, atol=0)
    assert all(torch.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(gradients, others, strict=True))
    assert {len(tensor) for name, tensor in model.state_dict().items() if "word" in name} == {99}
