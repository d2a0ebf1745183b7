"""The root module of training, which owns encoders and heads and defines the terms of the loss.

During training only its `forward` is called, because that gathers the weights if the module is sharded.

The model FLOPs of a step depend only on sizes and lengths. Their ratio to the peak FLOPs of the device is the model
FLOPs utilization (MFU):

    FLOPs = 2 per multiply-accumulate (MAC), 3 times: in the forward pass and, in the backward pass, for the gradients
            of weights and of inputs; for a frozen teacher, only in the forward pass

    MACs of an encoder    tokens x embedding size x hidden size, if these sizes differ
      and in each layer   tokens x hidden size x (4 hidden sizes + 2 or, gated, 3 feed-forward sizes)
                          + 2 x hidden size x number of (token, attended token) pairs
    MACs of a head        positions it reads x its matrices, including the projection onto the vocabulary

Only real tokens count, not padding. A shared layer counts each time it is applied. With a window or in a causal layer,
only the pairs of tokens that attend to each other count. Biases, norms, activations, softmax, embedding lookups, the
optimizer, and what activation checkpointing or FlashAttention recompute do not count, as in Chowdhery et al. 2022,
appendix B, who introduced MFU.

Promise: without windows and causal layers, these are exactly the products that torch's `FlopCounterMode` counts in
forward and backward passes.
"""

import importlib
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from corpora.kernels.arrays import Float64s, Int64s
from trainer.families.contract import Family, ModelInputs
from trainer.model.batches import Batch
from trainer.model.encoder import TransformerEncoder, init_weights
from trainer.objectives.contract import IGNORED, Term
from trainer.settings.model import ModelSettings

FLOPS_OF_MAC = 2
PASSES = 3  # forward, and two products backward for each of it

# Most floating-point operations a second, in units of 10^12: dense products of bfloat16 (float16 on V100 and T4) summed
# in float32, from the makers' data sheets. Words of the device's name; the row of most words counts.
PEAKS: Mapping[tuple[str, ...], float] = MappingProxyType(
    {
        ("V100",): 125.0,
        ("T4",): 65.0,
        ("A30",): 165.0,
        ("A40",): 149.7,
        ("A100",): 312.0,
        ("A800",): 312.0,
        ("L4",): 121.0,
        ("L40S",): 362.0,
        ("H100",): 989.0,
        ("H100", "PCIE"): 756.0,
        ("H100", "NVL"): 835.0,
        ("H800",): 989.0,
        ("H20",): 148.0,
        ("H200",): 989.0,
        ("GH200",): 989.0,
        ("B200",): 2250.0,
        ("RTX", "3090"): 71.0,
        ("RTX", "4090"): 165.2,
        ("MI300X",): 1307.4,
    }
)
REDUCED_WORDS = frozenset({"MIG", "LAPTOP"})  # words of what has the name of a device and is less
Found = TypeVar("Found")
POINTS_AT_ONCE = {"cpu": 8192, "cuda": 2048}  # whose logits are held: of 50,000 tokens in float32 1.6 and 0.4 GB


class Macs(NamedTuple):
    """The number of multiply-accumulates of a forward pass.

    Attributes:
        trained: Multiply-accumulates of trainable parameters.
        frozen: Multiply-accumulates of frozen parameters.
    """

    trained: int = 0
    frozen: int = 0

    @property
    def flops(self) -> int:
        """The FLOPs of a training step: forward and backward for trainable parameters, forward only for frozen ones."""
        return FLOPS_OF_MAC * (PASSES * self.trained + self.frozen)


def find_peak_flops(device: str) -> float | None:
    """Look up the peak FLOPs per second of a device by its name. Return None if the device is unknown.

    >>> find_peak_flops("NVIDIA H100 80GB HBM3"), find_peak_flops("NVIDIA H100 PCIe"), find_peak_flops("cpu")
    (989000000000000.0, 756000000000000.0, None)
    """
    words = set(re.findall(r"[A-Z0-9]+", device.upper()))
    rows = [row for row in PEAKS if words.issuperset(row)]
    return None if not rows or words & REDUCED_WORDS else PEAKS[max(rows, key=len)] * 1e12


class JudgedBatch(NamedTuple):
    """The losses and predictions of a model for a batch of held-out examples.

    Attributes:
        sums: float32 [terms, 2], as `Objective.sum_losses` returns them.
        guesses: int64 [M], the most probable token at each position to predict; None if the objective predicts no
            tokens.
        measures: float64 [num_measures], to be summed over batches and processes; None if there is nothing to sum.
        answers: The predictions of a task model; None for other models.
    """

    sums: Tensor
    guesses: Tensor | None
    measures: Tensor | None = None
    answers: Tensor | None = None


class Objective(nn.Module):
    """A trainable module that computes the losses of an objective. `ModelPart` names its encoders and heads.

    For a batch without targets or without sequences, the sums and their gradients are zero, not None. When the module
    is sharded, parameters used by several submodules (word embeddings, layers that share weights) belong to the group
    of this module.

    Attributes:
        num_measures: The number of sums, other than losses, that an evaluation collects and passes to
            `compute_figures`.
        terms: The terms of the loss.
    """

    num_measures = 0

    def __init__(self, family: Family, terms: tuple[Term, ...]) -> None:
        super().__init__()
        self.family = family
        self.terms = terms

    @abstractmethod
    def sum_losses(self, batch: Batch) -> Tensor:
        """Sum the loss of each term over a batch, and count the correct predictions: float32 [terms, 2].

        The sums are not divided here, because the training loop divides them by the counts of the whole step.
        """

    def answer(self, batch: Batch) -> Tensor:
        """Compute the model's predictions for a batch. Their shape depends on the objective.

        Raises:
            NotImplementedError: If the objective only computes losses.
        """
        raise NotImplementedError(f"{type(self).__name__} says nothing but its losses")

    def count_macs(self, lengths: Int64s, places: int) -> Macs:
        """Count the multiply-accumulates of a forward pass, separately for trainable and frozen parameters.

        The default implementation returns zero; the log then does not report device utilization.

        Args:
            lengths: int64 [B], the lengths of the sequences.
            places: The number of token positions that the heads read.
        """
        return Macs()

    def judge(self, batch: Batch) -> JudgedBatch:
        """Compute the loss sums of a batch and, if the objective predicts tokens, the predicted tokens.

        Both come from one forward pass.
        """
        return JudgedBatch(self.sum_losses(batch), None)

    def compute_figures(self, measures: Float64s) -> dict[str, float]:
        """Compute additional evaluation scores, by name, from the objective's own sums. By default there are none.

        `measures` is float64 [num_measures], summed over all batches and processes.
        """
        return {}

    def forward(self, batch: Batch, answering: bool = False, judging: bool = False) -> Tensor | JudgedBatch:
        """Run the model on a batch. By default, the result is the loss sums of `sum_losses`.

        Args:
            batch: The batch.
            answering: True to return the predictions of `answer`.
            judging: True to return the losses and predictions of `judge`.
        """
        if judging:
            return self.judge(batch)
        return self.answer(batch) if answering else self.sum_losses(batch)

    def list_encoders(self) -> Iterable[TransformerEncoder]:
        """Return the model's trainable encoders, the main one first."""
        return [module for module in self.children() if isinstance(module, TransformerEncoder)]

    def list_shard_groups(self) -> list[nn.Module]:
        """Return the modules that are compiled, recomputed and divided among processes individually.

        The remaining modules are divided as one group.
        """
        return [layer for encoder in self.list_encoders() if not encoder.shares_layers for layer in encoder.layers]

    def list_shared_parts(self) -> list[nn.Module]:
        """Return the modules that are compiled and recomputed individually, but divided among processes with the rest.

        These modules are called several times in each pass.
        """
        return [layer for encoder in self.list_encoders() if encoder.shares_layers for layer in encoder.layers]

    def place(self, device: torch.device, dtype: torch.dtype | None, compiled: bool) -> None:
        """Move frozen modules that are not submodules, such as a teacher, to a device.

        Args:
            device: The device.
            dtype: The precision of matrices; None for float32.
            compiled: True if the modules are to be compiled.
        """

    def init_weights(self) -> None:
        """Initialize the weights at random, using torch's generator.

        The same seed gives the same weights on the same kind of device.
        """
        shape = next(iter(self.list_encoders())).shape
        init_weights(self, self.family, shape.layers, shape.initializer_range)


def build_model(settings: ModelSettings, inputs: ModelInputs) -> Objective:
    """Build the model for the objective in the settings, without initializing its weights, on torch's default device.

    `inputs` has the vocabulary size and the ids of special tokens.
    """
    module, _, name = settings.objective_settings.builder.partition(":")
    built: Objective = getattr(importlib.import_module(module), name)(settings, inputs)
    return built


def sum_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Sum the cross-entropy, and count the targets that have the highest logit: float32 [2], in this order.

    Args:
        logits: [N, C], the logits of C classes.
        targets: int64 [N], the index of the correct class. Targets equal to IGNORED are omitted.
    """
    return sum_loss_and_guess(logits, targets)[0]


def sum_loss_and_guess(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the result of `sum_loss`, and the index of the highest logit in each row: float32 [2] and int64 [N].

    The arguments are those of `sum_loss`.
    """
    highest = logits.detach().argmax(-1)
    loss = F.cross_entropy(logits.float(), targets, reduction="sum", ignore_index=IGNORED)
    return torch.stack([loss, (highest == targets).sum().float()]), highest


def sum_loss_of_words(head: nn.Module, hidden_MH: Tensor, words_VE: Tensor, targets_M: Tensor) -> Tensor:
    """Compute the summed loss and the correct predictions of a `MaskedHead`, in chunks of positions: float32 [2].

    Args:
        head: The masked-token head.
        hidden_MH: The hidden states at the masked positions.
        words_VE: The word embeddings, which serve as decoder.
        targets_M: The ids of the masked tokens.
    """
    sums = map_stretches(lambda some, wanted: head(some, words_VE, wanted), hidden_MH, targets_M)
    return add_stretches(sums)


def map_stretches(function: Callable[..., Found], *points: Tensor) -> list[Found]:
    """Apply a function to tensors of token positions, chunk by chunk, so that the logits of a chunk fit into memory.

    With more than POINTS_AT_ONCE positions, the function is called again for each chunk in the backward pass, so that
    logits are held for one chunk only.

    Args:
        function: Called with the same chunk of each tensor.
        points: One or more tensors with one row per token position, all of the same length.

    Returns:
        The result of each chunk, in order.
    """
    number = len(points[0])
    at_once = POINTS_AT_ONCE.get(points[0].device.type, number)
    if number <= at_once:
        return [function(*points)]
    begins = range(0, number, at_once)
    return [checkpoint(function, *(each[at : at + at_once] for each in points), use_reentrant=False) for at in begins]


def add_stretches(sums: Sequence[Tensor]) -> Tensor:
    """Add up the sums that `map_stretches` returned, tensors of equal shape, one per chunk."""
    return sums[0] if len(sums) == 1 else torch.stack(list(sums)).sum(0)


def count_parameters(model: nn.Module) -> int:
    """Count the trainable parameter values of a model. Shared parameters count once."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def select_state(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors with names that begin with a prefix, by their names without the prefix."""
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
