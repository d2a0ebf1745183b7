"""The module that learns: the one root, which owns encoders and heads and defines the terms of the loss.

Only its `forward` is called during training: when it is sharded, that gathers its weights.
"""

import importlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from corpora.kernels.arrays import Float64s, Int64s
from trainer.families.contract import Family, ModelInputs
from trainer.flops import Macs
from trainer.model.batches import Batch
from trainer.model.encoder import TransformerEncoder, init_weights
from trainer.objectives.contract import IGNORED, Term
from trainer.settings.model import ModelSettings

Found = TypeVar("Found")

POINTS_AT_ONCE = {"cpu": 8192, "cuda": 2048}  # whose logits are held: of 50,000 tokens in float32 1.6 and 0.4 GB


class JudgedBatch(NamedTuple):
    """The answers of a model for held-out text.

    sums:     float32 [terms, 2]
    guesses:  int64 [M], the most probable token at each point; None where an objective guesses no tokens
    measures: float64 [num_measures], what else adds up over batches and processes; None where there is nothing
    answers:  what a task's model answers; None for any other
    """

    sums: Tensor
    guesses: Tensor | None
    measures: Tensor | None = None
    answers: Tensor | None = None


class Objective(nn.Module):
    """An objective's module. Its attributes are what `ModelPart` names: encoders and heads.

    A batch with nothing to guess, or with no sequence at all, has sums of zero whose gradients are zeros, not None.
    When sharded, what several parts of it read (word embeddings, layers that share weights) belongs to the group of
    this module.

    num_measures: how many numbers besides losses an evaluation adds up, for `figures`
    """

    num_measures = 0

    def __init__(self, family: Family, terms: tuple[Term, ...]) -> None:
        super().__init__()
        self.family = family
        self.terms = terms

    @abstractmethod
    def sums(self, batch: Batch) -> Tensor:
        """Return float32 [terms, 2]: for each term the sum of its losses over the batch, and how many are right.

        Sums and not means: the code that has all batches of a step divides. Always in float32.
        """

    def answers(self, batch: Batch) -> Tensor:
        """Return the model's answers for a batch, to score or use; their shape is the objective's own."""
        raise NotImplementedError(f"{type(self).__name__} says nothing but its losses")

    def macs(self, lengths: Int64s, places: int) -> Macs:
        """Return the operations of a forward pass over sequences of these lengths, of which heads read so many places.

        Without any, as here, the use of the device is not reported.
        """
        return Macs()

    def judged(self, batch: Batch) -> JudgedBatch:
        """`sums` with the tokens that are guessed, from one pass."""
        return JudgedBatch(self.sums(batch), None)

    def figures(self, measures: Float64s) -> dict[str, float]:
        """Return the figures of an evaluation from the measures of all its batches: float64 [num_measures]."""
        return {}

    def forward(self, batch: Batch, answering: bool = False, judging: bool = False) -> Tensor | JudgedBatch:
        """Return `answers` or `judged` on request, else `sums`."""
        if judging:
            return self.judged(batch)
        return self.answers(batch) if answering else self.sums(batch)

    def encoders(self) -> Iterable[TransformerEncoder]:
        """All encoders that learn."""
        return [module for module in self.children() if isinstance(module, TransformerEncoder)]

    def shard_groups(self) -> list[nn.Module]:
        """The modules that are compiled, checkpointed and sharded one by one; the rest is sharded as one."""
        return [layer for encoder in self.encoders() if not encoder.shares_layers for layer in encoder.layers]

    def shared_parts(self) -> list[nn.Module]:
        """The modules that are compiled and checkpointed one by one, and sharded with the rest: used several times."""
        return [layer for encoder in self.encoders() if encoder.shares_layers for layer in encoder.layers]

    def place(self, device: torch.device, dtype: torch.dtype | None, compiled: bool) -> None:
        """Put what is frozen and no part of this module on a device. dtype: of matrices; None: float32"""

    def init_weights(self) -> None:
        """First weights from torch's generator: the same for the same seed on the same kind of device."""
        shape = next(iter(self.encoders())).shape
        init_weights(self, self.family, shape.layers, shape.initializer_range)


def build_model(settings: ModelSettings, inputs: ModelInputs) -> Objective:
    """The model, on torch's default device; its weights mean nothing before `init_weights` or a checkpoint."""
    module, _, name = settings.objective_settings.builder.partition(":")
    built: Objective = getattr(importlib.import_module(module), name)(settings, inputs)
    return built


def sum_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return float32 [2]: summed cross-entropy and how many targets have the highest logit, without ignored ones.

    logits: [N, C]; targets: int64 [N], IGNORED where there is none
    """
    return guessed(logits, targets)[0]


def guessed(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """`sum_loss`, and of each target the class of the highest logit: int64 [N]."""
    highest = logits.detach().argmax(-1)
    loss = F.cross_entropy(logits.float(), targets, reduction="sum", ignore_index=IGNORED)
    return torch.stack([loss, (highest == targets).sum().float()]), highest


def sum_loss_of_words(head: nn.Module, hidden_MH: Tensor, words_VE: Tensor, targets_M: Tensor) -> Tensor:
    """Return `sum_loss` of a `MaskedHead`, whose decoder is the word embeddings, in stretches of points."""
    sums = in_stretches(lambda some, wanted: head(some, words_VE, wanted), hidden_MH, targets_M)
    return added(sums)


def in_stretches(of: Callable[..., Found], *points: Tensor) -> list[Found]:
    """Apply a function to points whose logits it needs, as many at once as memory has room for.

    Beyond POINTS_AT_ONCE logits are recomputed in the backward pass, one stretch of points after another: [M, V] is
    held for one of them alone. What the function computes after its last step with a gradient is not recomputed.
    points: tensors of one length
    """
    number = len(points[0])
    at_once = POINTS_AT_ONCE.get(points[0].device.type, number)
    if number <= at_once:
        return [of(*points)]
    begins = range(0, number, at_once)
    return [checkpoint(of, *(each[at : at + at_once] for each in points), use_reentrant=False) for at in begins]


def added(sums: Sequence[Tensor]) -> Tensor:
    """Return the sums of all stretches."""
    return sums[0] if len(sums) == 1 else torch.stack(list(sums)).sum(0)


def count_parameters(model: nn.Module) -> int:
    """Return the number of parameters to learn, each counted once."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def state_below(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The part of a state below a name, by what follows it."""
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
