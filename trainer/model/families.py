"""The families: what makes an encoder BERT or RoBERTa, and the model that pre-training trains.

A family is a row of `FAMILIES`; the modules ask for its properties and never for its name. Parameters are counted
once, and equal those of the published models to the last one (a test has the table).

Cost: the first weights of BERT-base take 1.0 s. Forward, backward and AdamW of BERT-mini in float32: 1,700 tokens a
second, 2.9 times transformers' BertForPreTraining on full rows of 128, 6.5 times on rows 45 % full (one x86-64
core, seconds of CPU; `python -m benchmarks.train_step`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainer.model.batches import IGNORED, Batch
from trainer.model.encoder import Embeddings, EncoderShape, TransformerEncoder
from trainer.model.heads import MaskedHead, PairHead
from trainer.settings import ModelInputs, ModelSettings

# Shapes in the names of tensors: T tokens, B sequences, M masked tokens, H hidden size, V vocabulary.

DEVIATION = 0.02  # of first weights, in every family


@torch.no_grad()
def draw_truncated(weight: Tensor) -> None:
    """Normal, drawn again beyond two deviations, as the authors of BERT start their matrices.

    `nn.init.trunc_normal_` has the same distribution and takes seven times as long.
    """
    flat = nn.init.normal_(weight, std=DEVIATION).view(-1)
    far = (flat.abs() > 2 * DEVIATION).nonzero().squeeze(1)
    while len(far):
        flat[far] = drawn = torch.normal(0.0, DEVIATION, far.shape, device=flat.device, dtype=flat.dtype)
        far = far[drawn.abs() > 2 * DEVIATION]


def draw_normal(weight: Tensor) -> None:
    """Normal, as fairseq starts RoBERTa's matrices."""
    nn.init.normal_(weight, std=DEVIATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What a family has for itself.

    norm_epsilon:      of every LayerNorm
    segment_types:     rows of the segment table
    position_from_pad: positions begin at the row after the id of the padding token, as fairseq counts them; the
                       row of that id, of words and of positions, begins as zeros
    pairs:             has a pooler and a pair head where the examples have pair labels
    head_activation:   of the masked head; None: the encoder's own
    draw:              fills a matrix with its first weights
    """

    norm_epsilon: float
    segment_types: int
    position_from_pad: bool
    pairs: bool
    head_activation: str | None
    draw: Callable[[Tensor], None]

    def first_position(self, inputs: ModelInputs) -> int:
        """Row of the position table that a sequence's first token takes."""
        return inputs.special_ids.pad + 1 if self.position_from_pad else 0

    def has_pairs(self, inputs: ModelInputs) -> bool:
        """Whether a model for these examples has a pair head."""
        return self.pairs and inputs.pair_labels


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "bert": Family(
            norm_epsilon=1e-12,
            segment_types=2,
            position_from_pad=False,
            pairs=True,
            head_activation=None,
            draw=draw_truncated,
        ),
        "roberta": Family(
            norm_epsilon=1e-5,
            segment_types=1,
            position_from_pad=True,
            pairs=False,
            head_activation="gelu",
            draw=draw_normal,
        ),
    }
)


class Losses(NamedTuple):
    """Sums over a batch, not means: whoever has all batches of a step divides.

    masked_sum:     float32 [], -log p of the M masked tokens, natural logarithm
    masked_correct: int64 [], how many of them have the highest logit
    pair_sum:       float32 [], -log p of the B pair labels; None where the model has no pair head
    pair_correct:   int64 [], likewise

    A NamedTuple, because sharding looks for the tensors to follow in the containers that all versions of torch know.
    """

    masked_sum: Tensor
    masked_correct: Tensor
    pair_sum: Tensor | None
    pair_correct: Tensor | None


class PretrainingModel(nn.Module):
    """An encoder with the heads of pre-training.

    A batch with nothing masked, or with no sequence at all, has sums of zero whose gradients are zeros, not None.
    When sharded, the word embeddings belong to the group of this module: both ends of it read them.
    """

    def __init__(
        self, encoder: TransformerEncoder, masked_head: MaskedHead, pair_head: PairHead | None, family: Family
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.masked_head = masked_head
        self.pair_head = pair_head
        self.family = family

    def forward(self, batch: Batch) -> Losses:
        """The losses of a batch, in float32 whatever the precision of the matrices."""
        masked_MV, pair_B2 = self.logits(batch)
        masked_sum, masked_correct = _sum_loss(masked_MV, batch.targets)
        if pair_B2 is None:
            return Losses(masked_sum, masked_correct, None, None)
        assert batch.pair_labels is not None, "a model with a pair head was given examples without pair labels"
        return Losses(masked_sum, masked_correct, *_sum_loss(pair_B2, batch.pair_labels))

    def logits(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Of the masked tokens [M, V], and of the pairs [B, 2] where the model has a pair head.

        Not on a sharded model, whose weights are gathered by `forward` alone.
        """
        hidden_TH = self.encoder(batch.ids, batch.segment_ids, batch.positions(), batch.boundaries, batch.longest)
        masked_MH = hidden_TH.index_select(0, batch.masked)
        masked_MV = self.masked_head(masked_MH, self.encoder.embeddings.word.weight)
        if self.pair_head is None:
            return masked_MV, None
        return masked_MV, self.pair_head(hidden_TH.index_select(0, batch.first_tokens()))

    def init_weights(self) -> None:
        """First weights from torch's generator: the same for the same seed on the same kind of device."""
        init_weights(self, self.family)


def _sum_loss(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Cross-entropy summed, and how many targets have the highest logit; those that are ignored add to neither."""
    correct = (logits.detach().argmax(-1) == targets).sum()
    return F.cross_entropy(logits.float(), targets, reduction="sum", ignore_index=IGNORED), correct


def build_model(settings: ModelSettings, inputs: ModelInputs) -> PretrainingModel:
    """The model, on torch's default device; its weights mean nothing before `init_weights` or a checkpoint."""
    family = FAMILIES[settings.family]
    shape = encoder_shape(settings, inputs)
    masked_head = MaskedHead(
        vocab_size=shape.vocab_size,
        hidden_size=shape.hidden_size,
        activation=family.head_activation or shape.activation,
        norm_epsilon=shape.norm_epsilon,
    )
    pair_head = PairHead(shape.hidden_size) if family.has_pairs(inputs) else None
    return PretrainingModel(TransformerEncoder(shape), masked_head, pair_head, family)


def encoder_shape(settings: ModelSettings, inputs: ModelInputs) -> EncoderShape:
    """The encoder that the settings ask for."""
    family = FAMILIES[settings.family]
    layers, hidden_size, heads, feed_forward_size = settings.shape
    first_position = family.first_position(inputs)
    return EncoderShape(
        vocab_size=inputs.vocab_size,
        positions=first_position + settings.positions,
        first_position=first_position,
        segment_types=family.segment_types,
        layers=layers,
        hidden_size=hidden_size,
        heads=heads,
        feed_forward_size=feed_forward_size,
        activation=settings.activation,
        dropout=settings.dropout,
        attention_dropout=settings.attention_dropout,
        norm_epsilon=family.norm_epsilon,
    )


def init_weights(model: nn.Module, family: Family) -> None:
    """Draw the matrices of a whole model, or of a head alone; biases 0, LayerNorm 1 and 0."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            family.draw(module.weight)
        elif isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
        bias = getattr(module, "bias", None)
        if bias is not None:
            nn.init.zeros_(bias)
    for module in model.modules():
        if isinstance(module, Embeddings) and family.position_from_pad:
            with torch.no_grad():
                module.word.weight[module.first_position - 1].zero_()
                module.position.weight[module.first_position - 1].zero_()


def count_parameters(model: nn.Module) -> int:
    """How many numbers there are to learn, each counted once."""
    return sum(parameter.numel() for parameter in model.parameters())
