"""LAMB, StableAdamW and AdamW without correction, held to their papers' formulas, parameter by parameter."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from trainer import optimizers
from trainer.optimizers import build_optimizer, compute_rate_scales, set_learning_rate, set_weight_decay
from trainer.settings.phases import PhaseSettings
from trainer.settings.training import TrainingSettings

SHAPES = ((7, 5), (5,), (1, 6), (3, 2))


def settings_of(optimizer: str, bias_correction: bool = True, **more: float) -> TrainingSettings:
    return TrainingSettings(
        phase=(PhaseSettings(steps=9),), optimizer=optimizer, bias_correction=bias_correction,
        **{"learning_rate": 0.05, "weight_decay": 0.1, **more},
    )  # fmt: skip


def model_of(seed: int = 3) -> nn.ParameterList:
    torch.manual_seed(seed)
    return nn.ParameterList(nn.Parameter(torch.randn(shape)) for shape in SHAPES)


def gradients(steps: int) -> list[list[Tensor]]:
    """Return the gradients of each step; some are large, for StableAdamW, and one matrix has none at first."""
    torch.manual_seed(5)
    return [
        [
            torch.randn(shape) * (30 if step == 3 else 1) * (number != 3 or step > 1)
            for number, shape in enumerate(SHAPES)
        ]
        for step in range(steps)
    ]


def plain(kind: str, weights: Sequence[Tensor], steps: Sequence[Sequence[Tensor]], settings: TrainingSettings) -> None:
    """The formulas of the papers, with moments that are divided by their corrections."""
    for weight, own in zip(weights, zip(*steps, strict=True), strict=True):
        average, square, matrix = torch.zeros_like(weight), torch.zeros_like(weight), weight.ndim > 1
        for number, gradient in enumerate(own, 1):
            average = settings.beta1 * average + (1 - settings.beta1) * gradient
            square = settings.beta2 * square + (1 - settings.beta2) * gradient**2
            corrected = settings.bias_correction
            mean = average / (1 - settings.beta1**number if corrected else 1)
            variance = square / (1 - settings.beta2**number if corrected else 1)
            update = mean / (variance.sqrt() + settings.epsilon) + settings.weight_decay * matrix * weight
            rate = settings.learning_rate
            if kind == "lamb" and matrix and weight.norm() > 0 and update.norm() > 0:
                rate *= float(weight.norm() / update.norm())
            if kind == "stable-adamw":
                floor = torch.tensor(settings.epsilon**2, dtype=weight.dtype)
                rate /= max(1.0, float((gradient**2 / variance.maximum(floor)).mean().sqrt()))
            weight -= rate * update


@pytest.mark.parametrize("correction", [True, False])
@pytest.mark.parametrize("kind", ["adamw", "lamb", "stable-adamw"])
def test_steps_are_those_of_the_paper(kind: str, correction: bool) -> None:
    """Fails if a moment, a correction, the ratio, the clipping or the decay is another than the paper's."""
    model, settings, found = model_of(), settings_of(kind, correction), gradients(6)
    optimizer = build_optimizer(model, settings)
    expected = [parameter.detach().double().clone() for parameter in model]
    plain(kind, expected, [[each.double() for each in step] for step in found], settings)
    for step in found:
        for parameter, gradient in zip(model, step, strict=True):
            parameter.grad = gradient.clone()
        optimizer.step()
    for parameter, each in zip(model, expected, strict=True):
        torch.testing.assert_close(parameter.detach().double(), each, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("kind", ["adamw", "lamb", "stable-adamw"])
def test_pieces_make_the_step_of_the_whole(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a number of a parameter is left out, or a norm is that of a piece: equal to the bit."""
    ends = []
    for piece in (1 << 16, 4):
        monkeypatch.setattr(optimizers, "PIECE", piece)
        model = model_of()
        optimizer = build_optimizer(model, settings_of(kind, bias_correction=False))
        for step in gradients(4):
            for parameter, gradient in zip(model, step, strict=True):
                parameter.grad = gradient.clone()
            optimizer.step()
        ends.append(torch.cat([parameter.detach().flatten() for parameter in model]))
    assert torch.equal(*ends) and not torch.equal(ends[0], torch.cat([each.flatten() for each in model_of()]))


def test_a_zero_matrix_has_a_ratio_of_one() -> None:
    """Fails if new weights of zero stay zero for ever."""
    model = nn.ParameterList([nn.Parameter(torch.zeros(2, 2))])
    optimizer = build_optimizer(model, settings_of("lamb"))
    model[0].grad = torch.ones(2, 2)
    optimizer.step()
    torch.testing.assert_close(model[0].detach(), torch.full((2, 2), -0.05), rtol=1e-5, atol=0)


def test_parameters_without_a_gradient_stay() -> None:
    for kind in ("lamb", "stable-adamw"):
        model = model_of()
        before = model[0].detach().clone()
        optimizer = build_optimizer(model, settings_of(kind))
        optimizer.step()
        model[1].grad = torch.ones(5)
        optimizer.step()
        assert torch.equal(model[0].detach(), before)


NAMES = (
    "encoder.embeddings.word.weight", "encoder.embeddings.norm.bias", "encoder.embedding_projection.weight",
    "encoder.layers.0._checkpoint_wrapped_module.widen.weight", "encoder.layers.1.widen.bias", "encoder.norm.weight",
    "generator.encoder.embeddings.word.weight", "generator.encoder.layers.0.widen.bias", "pair_head.decision.weight",
)  # fmt: skip


def test_rates_fall_from_the_head_to_the_embeddings() -> None:
    """Fails if ELECTRA's depths are others, or a second encoder is taken for a part of the first."""
    found = compute_rate_scales(NAMES, 0.5)
    assert [found[name] for name in NAMES] == [2**-4, 2**-4, 2**-4, 2**-3, 2**-2, 2**-1, 2**-3, 2**-2, 1]
    assert set(compute_rate_scales(NAMES, 1.0).values()) == {1.0}


def test_a_rate_reaches_each_depth_by_its_share() -> None:
    model = nn.ModuleDict(
        {"encoder": nn.ModuleDict({"embeddings": nn.Embedding(3, 2), "layers": nn.ModuleList([nn.Linear(2, 2)])}),
         "head": nn.Linear(2, 1)}
    )  # fmt: skip
    optimizer = build_optimizer(model, settings_of("lamb", layer_decay=0.5))
    set_learning_rate(optimizer, 0.8)
    rates = {id(p): (g["lr"], g["weight_decay"]) for g in optimizer.param_groups for p in g["params"]}
    named = {name: rates[id(parameter)] for name, parameter in model.named_parameters()}
    assert named == {
        "encoder.embeddings.weight": (0.1, 0.1), "encoder.layers.0.weight": (0.2, 0.1),
        "encoder.layers.0.bias": (0.2, 0.0), "head.weight": (0.8, 0.1), "head.bias": (0.8, 0.0),
    }  # fmt: skip


def test_a_phase_may_have_a_decay_of_its_own() -> None:
    """Fails if vectors begin to decay, or matrices keep the decay of the phase before."""
    optimizer = build_optimizer(model_of(), settings_of("stable-adamw"))
    set_weight_decay(optimizer, 0.3)
    assert [(group["weight_decay"], len(group["params"])) for group in optimizer.param_groups] == [(0.3, 3), (0.0, 1)]
    settings = TrainingSettings(phase=(PhaseSettings(steps=1), PhaseSettings(steps=1, weight_decay=0.0)))
    assert [settings.get_weight_decay(phase) for phase in (0, 1)] == [0.01, 0.0]
