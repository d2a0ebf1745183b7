"""The optimizer over sharded parameters: which one, the groups of its parameters, and what keeps gradients in bounds.

Norms are those of whole gradients, over all processes.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from corpora.errors import InputError
from trainer.settings.training import TrainingSettings
from trainer.training.optimizer_algorithms import AdamW, Lamb, StableAdamW

FIRST_SCALE = 2.0**16
_LAYER = re.compile(r"(?P<encoder>(?:.*\.)?)layers\.(?P<number>\d+)\.")
GROWTH_STEPS = 2_000  # good steps after which the scale is doubled, as in Micikevicius et al. 2018, section 3.2


def build_optimizer(model: nn.Module, settings: TrainingSettings) -> torch.optim.Optimizer:
    """Return the optimizer that the settings name, for all parameters that learn; `set_rates` sets its rates."""
    groups = parameter_groups(model, settings)
    betas = settings.beta1, settings.beta2
    if settings.optimizer == "adamw" and settings.bias_correction:
        return torch.optim.AdamW(groups, lr=settings.learning_rate, betas=betas, eps=settings.epsilon, fused=True)
    kind = {"adamw": AdamW, "lamb": Lamb, "stable-adamw": StableAdamW}[settings.optimizer]
    correction = settings.bias_correction
    return kind(groups, lr=settings.learning_rate, betas=betas, eps=settings.epsilon, bias_correction=correction)


def parameter_groups(model: nn.Module, settings: TrainingSettings) -> list[dict[str, Any]]:
    """The parameters that learn, by depth where the rate goes by it, with decay on matrices only.

    Vectors are biases and LayerNorm's weights.
    """
    learning = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    scales = rate_scales(list(learning), settings.layer_decay)
    groups = list[dict[str, Any]]()
    for scale in sorted(set(scales.values()), reverse=True):
        own = [parameter for name, parameter in learning.items() if scales[name] == scale]
        scaled = {} if scale == 1 else {"rate_scale": scale}
        groups += [
            {"params": [p for p in own if p.ndim > 1], "weight_decay": settings.weight_decay, **scaled},
            {"params": [p for p in own if p.ndim <= 1], "weight_decay": 0.0, **scaled},
        ]
    return [group for group in groups if group["params"]]


def rate_scales(names: Sequence[str], layer_decay: float) -> dict[str, float]:
    """Return the factor on each parameter's rate: d^(n + 2 - depth) as in ELECTRA's code, of an encoder of n layers.

    Embeddings have depth 0, the layers 1 to n, what else an encoder has n + 1, heads n + 2. Layers that are the same
    parameters (ALBERT) are one.

    >>> rate_scales(["encoder.embeddings.word.weight", "encoder.layers.0.bias", "head.bias"], 0.5)
    {'encoder.embeddings.word.weight': 0.125, 'encoder.layers.0.bias': 0.25, 'head.bias': 1.0}
    """
    layers = [match for match in map(_LAYER.match, names) if match]
    depths = {match["encoder"]: 0 for match in layers}
    for match in layers:
        depths[match["encoder"]] = max(depths[match["encoder"]], int(match["number"]) + 1)
    return {name: layer_decay ** _above(name, depths) for name in names}


def _above(name: str, layers: Mapping[str, int]) -> int:
    """Return how many depths are above that of a parameter. layers: of each encoder"""
    encoder = max((each for each in layers if name.startswith(each)), key=len, default=None)
    if encoder is None:
        return 0
    match = _LAYER.match(name)
    if match:
        return layers[encoder] + 1 - int(match["number"])
    return layers[encoder] + 2 if name.removeprefix(encoder).startswith("embedding") else 1


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """The rate of the next step, for all parameters."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("rate_scale", 1.0)


def set_weight_decay(optimizer: torch.optim.Optimizer, weight_decay: float) -> None:
    """Set the weight decay of matrices for the steps to come."""
    for group in optimizer.param_groups:
        group["weight_decay"] = weight_decay if group["params"][0].ndim > 1 else 0.0


def gradient_norm(parameters: Sequence[nn.Parameter]) -> Tensor:
    """float32 []: the Euclidean norm of all gradients together, whole ones, the same on every process."""
    norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
    return norm.full_tensor() if isinstance(norm, DTensor) else norm


def clip_gradients(parameters: Sequence[nn.Parameter], norm: Tensor, settings: TrainingSettings) -> None:
    """Shorten the gradient to `clip_norm` where it is longer (Pascanu et al. 2013)."""
    if settings.clip_norm:
        torch.nn.utils.clip_grads_with_norm_(parameters, settings.clip_norm, norm)


@dataclass(slots=True)
class LossScale:
    """The factor on the loss that keeps float16 gradients above the smallest number; 1 in other precisions.

    A step whose gradient overflowed is left out and halves the factor; it is seen in the norm over all processes, so
    all of them leave out the same steps.
    """

    factor: float = 1.0
    good_steps: int = 0

    @staticmethod
    def of(settings: TrainingSettings) -> "LossScale":
        """At the beginning of a run."""
        return LossScale(FIRST_SCALE if settings.precision == "float16" else 1.0)

    def unscale(self, parameters: Sequence[nn.Parameter]) -> None:
        """The gradients as if the loss had not been scaled."""
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.div_(self.factor)

    def update(self, finite: bool) -> None:
        """After a step. Raises InputError where no factor is small enough."""
        self.good_steps = self.good_steps + 1 if finite else 0
        if not finite:
            self.factor /= 2
        elif self.good_steps % GROWTH_STEPS == 0:
            self.factor *= 2
        if self.factor < 2.0**-14:
            raise InputError(
                'With training.precision = "float16" the gradient overflows however the loss is scaled: training has '
                'diverged. Lower training.learning_rate, or use "bfloat16" or "float32".'
            )
