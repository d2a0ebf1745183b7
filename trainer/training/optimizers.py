"""The optimiser: AdamW over sharded parameters, its learning rate by step, and what keeps gradients in bounds.

Norms are those of whole gradients, over all processes. The rate is a function of the step alone, so nothing of it is
saved.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from corpora.errors import InputError
from trainer.settings import TrainingSettings

FIRST_SCALE = 2.0**16
GROWTH_STEPS = 2_000  # good steps after which the scale is doubled, as in Micikevicius et al. 2018, section 3.2


def build_optimizer(model: nn.Module, settings: TrainingSettings) -> torch.optim.Optimizer:
    """AdamW (Loshchilov, Hutter 2019)."""
    return torch.optim.AdamW(
        decayed_groups(model, settings.weight_decay),
        lr=settings.learning_rate,
        betas=(settings.beta1, settings.beta2),
        eps=settings.epsilon,
        fused=True,
    )


def decayed_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """The parameters, with decay on matrices only: vectors are biases and LayerNorm's weights."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]


def learning_rate(step: int, settings: TrainingSettings) -> float:
    """The rate of a step, counted from 0: rising to the peak at step `warmup_steps`, and zero after the last one."""
    if step < settings.warmup_steps:
        return settings.learning_rate * (step + 1) / (settings.warmup_steps + 1)
    return settings.learning_rate * (settings.steps - step) / (settings.steps - settings.warmup_steps)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """The rate of the next step, for all parameters."""
    for group in optimizer.param_groups:
        group["lr"] = rate


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
                'With training.precision = "float16" the gradient overflows however the loss is scaled: it has '
                'diverged. Lower training.learning_rate, or use "bfloat16" or "float32".'
            )
