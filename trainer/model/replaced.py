"""The model that distinguishes replaced tokens from original ones: ELECTRA's generator and discriminator.

Both use the same embeddings, which belong to the discriminator. The generator has its own layers and masked-token head.

Tokens are drawn by inverse transform sampling: the drawn token is the first one at which the cumulative probability
exceeds the random number of the masked token. Probabilities are summed as integer multiples of 2^-30, so the sum does
not depend on the order of addition. A token with a probability below 2^-31 is never drawn. Nothing waits for the
device.
"""

from dataclasses import replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from corpora.kernels.arrays import Float64s, Int64s
from trainer.families.contract import EncoderShape, ModelInputs
from trainer.model.batches import Batch
from trainer.model.encoder import ACTIVATIONS, TransformerEncoder
from trainer.model.masked import MaskedHead
from trainer.model.objective import JudgedBatch, Macs, Objective, add_stretches, map_stretches, sum_loss_and_guess
from trainer.objectives.contract import IGNORED
from trainer.objectives.masked import MASKED
from trainer.objectives.replaced import NOISE, PRESENT, ReplacedObjective
from trainer.settings.model import ModelSettings, build_encoder_shape, build_part_settings

# Shapes in the names of tensors: T tokens, M masked tokens, E embedding size, H hidden size, V vocabulary.

BINS, MAX_LOGIT = 1 << 16, 32.0  # of logits, of a width of 0.001, and those beyond at the ends
UNITS = 2.0**30  # of a probability; the sum of all, each rounded by half a unit, is below 2^31


class ReplacedHead(nn.Module):
    """Replaced-token head: dense, activation, and one logit per token for whether it was replaced."""

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        self.dense = nn.Linear(shape.hidden_size, shape.hidden_size)
        self.activation = ACTIVATIONS[shape.activation]
        self.decision = nn.Linear(shape.hidden_size, 1)

    def forward(self, hidden_TH: Tensor) -> Tensor:
        """Compute a logit for each token, which is positive if the token was probably replaced: [T]."""
        logits_T1: Tensor = self.decision(self.activation(self.dense(hidden_TH)))
        return logits_T1.squeeze(-1)


class JointAnswers(NamedTuple):
    """The predictions of generator and discriminator for a batch.

    Attributes:
        masked: float32 [2], the generator's summed loss and number of correct predictions.
        guesses: int64 [M], the generator's most probable token at each masked position.
        logits: float32 [T], the discriminator's logit for whether each token was replaced.
        replaced: bool [T], True for tokens that were replaced.
    """

    masked: Tensor
    guesses: Tensor
    logits: Tensor
    replaced: Tensor


class ReplacedModel(Objective):
    """ELECTRA: a discriminator (encoder and replaced-token head) and a generator (encoder and masked-token head)."""

    num_measures = 2 * BINS

    def __init__(self, settings: ModelSettings, inputs: ModelInputs) -> None:
        family, objective = settings.family_row, settings.objective_settings
        assert isinstance(objective, ReplacedObjective)
        super().__init__(family, objective.list_terms(family, inputs))
        self.objective = objective
        _, generator = objective.list_parts(family, inputs)
        shape, narrow = (
            build_encoder_shape(settings, inputs),
            build_encoder_shape(build_part_settings(settings, generator), inputs),
        )
        self.encoder = TransformerEncoder(shape)
        self.generator = TransformerEncoder(narrow, embeds=False)
        self.masked_head = MaskedHead(narrow, family.masked_head)
        self.replaced_head = ReplacedHead(shape)

    def sum_losses(self, batch: Batch) -> Tensor:
        """Sum the losses of the generator (masked tokens) and of the discriminator (all tokens) over a batch: [2, 2].

        Each row has the summed loss and the number of correct predictions.
        """
        return self._sum_losses(self.answer_jointly(batch), batch)

    def judge(self, batch: Batch) -> JudgedBatch:
        """Compute the loss sums, the generator's most probable tokens, and a histogram of the discriminator's logits.

        The histogram is the result of `count_ranks`, in `measures`.
        """
        answers = self.answer_jointly(batch)
        ranked = count_ranks(answers.logits, answers.replaced, batch.targets[PRESENT])
        return JudgedBatch(self._sum_losses(answers, batch), answers.guesses, ranked)

    def compute_figures(self, measures: Float64s) -> dict[str, float]:
        """Compute the area under the ROC curve for replaced tokens, as a dictionary with the key "replaced_auc".

        The dictionary is empty unless there are both replaced and original tokens. `measures` is the sum of
        `count_ranks` results.
        """
        area = compute_area(measures)
        return {} if area is None else {"replaced_auc": area}

    def count_macs(self, lengths: Int64s, places: int) -> Macs:
        """Count the multiply-accumulates of generator and discriminator, including their heads.

        Args:
            lengths: int64 [B], the lengths of the sequences.
            places: The number of masked tokens, to which the generator's masked-token head is applied.
        """
        discriminator, generator = self.encoder.shape, self.generator.shape
        tokens = int(lengths.sum())
        encoders = discriminator.count_macs(lengths) + generator.count_macs(lengths)
        heads = generator.count_vocabulary_head_macs(places) + discriminator.count_class_head_macs(tokens, 1)
        return Macs(encoders + heads)

    @staticmethod
    def _sum_losses(answers: JointAnswers, batch: Batch) -> Tensor:
        present_T = batch.targets[PRESENT]
        labels_T = answers.replaced.float()
        losses_T = F.binary_cross_entropy_with_logits(answers.logits, labels_T, reduction="none")
        right_T = ((answers.logits > 0) == answers.replaced) & present_T
        replaced_2 = torch.stack([(losses_T * present_T).sum(), right_T.sum().float()])
        return torch.stack([answers.masked, replaced_2])

    def answer_jointly(self, batch: Batch) -> JointAnswers:
        """Predict masked tokens with the generator, draw replacements, and run the discriminator on the new tokens."""
        masked, guesses_M, drawn_M = self._guess_and_draw(batch)
        targets_M, seen_M = batch.targets[MASKED.name], batch.ids.index_select(0, batch.points)
        real_M = targets_M != IGNORED  # the points that fill a batch are all at one place, which may be a token's
        ids_T = batch.ids.index_add(0, batch.points, (drawn_M - seen_M) * real_M)
        replaced_M = ((drawn_M != targets_M) & real_M).long()
        replaced_T = torch.zeros_like(batch.ids).index_add(0, batch.points, replaced_M) > 0
        return JointAnswers(masked, guesses_M, self.answer(replace(batch, ids=ids_T)), replaced_T)

    def _guess_and_draw(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Return the generator's loss and number correct [2], its most probable tokens [M] and drawn tokens [M]."""

        def of_stretch(hidden_MH: Tensor, targets_M: Tensor, numbers_M: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            logits_MV = self._compute_logits(hidden_MH)
            sums, guesses_M = sum_loss_and_guess(logits_MV, targets_M)
            return sums, guesses_M, self.draw(logits_MV.detach(), numbers_M)

        targets = batch.targets[MASKED.name], batch.targets[NOISE]
        sums, guesses, drawn = zip(*map_stretches(of_stretch, self._compute_vectors(batch), *targets), strict=True)
        return add_stretches(sums), torch.cat(guesses), torch.cat(drawn)

    def guess(self, batch: Batch) -> Tensor:
        """Compute the generator's vocabulary logits at the positions `batch.points`: [M, V]."""
        return self._compute_logits(self._compute_vectors(batch))

    def _compute_vectors(self, batch: Batch) -> Tensor:
        """Compute the generator's hidden states at the positions `batch.points`: [M, H]."""
        hidden_TH: Tensor = self.generator(batch, self.encoder.embeddings(batch))
        return hidden_TH.index_select(0, batch.points)

    def _compute_logits(self, hidden_MH: Tensor) -> Tensor:
        logits_MV: Tensor = self.masked_head(hidden_MH, self.encoder.embeddings.word.weight)
        return logits_MV

    @torch.no_grad()
    def draw(self, masked_MV: Tensor, numbers_M: Tensor) -> Tensor:
        """Draw a replacement token for each masked position.

        Args:
            masked_MV: The generator's logits at each masked position.
            numbers_M: A random number in [0, 1) for each masked position, which determines the drawn token.

        Returns:
            int64 [M], the ids of the drawn tokens.
        """
        return draw_tokens((masked_MV.float() / self.objective.temperature).softmax(-1), numbers_M)

    def answer(self, batch: Batch) -> Tensor:
        """Compute the discriminator's logit for each token, which is positive if the token was probably replaced.

        The result is float32 [T].
        """
        logits_T: Tensor = self.replaced_head(self.encoder(batch))
        return logits_T.float()


def draw_tokens(probabilities_MV: Tensor, numbers_M: Tensor) -> Tensor:
    """Draw a token from each distribution by inverse transform sampling: int64 [M].

    Args:
        probabilities_MV: A distribution over the vocabulary in each row.
        numbers_M: A number in [0, 1) for each row, which determines the drawn token.
    """
    sums_MV = (probabilities_MV * UNITS).round().int().cumsum(-1, dtype=torch.int32)
    total_M = sums_MV[:, -1]
    reached_M = torch.minimum((numbers_M * total_M).int(), total_M - 1)
    drawn_M1 = torch.searchsorted(sums_MV, reached_M[:, None], right=True)
    return drawn_M1.squeeze(1).clamp(max=sums_MV.shape[1] - 1)  # logits that are not numbers have none


def count_ranks(logits_T: Tensor, replaced_T: Tensor, present_T: Tensor) -> Tensor:
    """Build histograms of the logits of original tokens and of replaced tokens, in this order: float64 [2 * BINS].

    Args:
        logits_T: The discriminator's logits.
        replaced_T: True for replaced tokens.
        present_T: 1 for tokens that count, 0 for padding.
    """
    far_T = logits_T.nan_to_num().clamp(-MAX_LOGIT, MAX_LOGIT) + MAX_LOGIT
    bins_T = (far_T * ((BINS - 1) / (2 * MAX_LOGIT))).long() + BINS * replaced_T.long()
    counts = torch.zeros(2 * BINS, dtype=torch.float64, device=logits_T.device)
    return counts.index_add(0, bins_T, present_T.double())


def compute_area(counts: Float64s) -> float | None:
    """Compute the area under the ROC curve: the probability that a replaced token has a higher logit than another one.

    Return None if there are no tokens of one kind. A pair of tokens in the same bin counts as one half, so the error is
    at most half the fraction of such pairs.

    Args:
        counts: The summed results of `count_ranks`.

    >>> compute_area(torch.tensor([3.0, 1.0, 0.0, 2.0]).numpy())
    0.875
    """
    original, replaced = counts.reshape(2, -1)
    pairs = original.sum() * replaced.sum()
    lower = original.cumsum() - original / 2
    return float((lower * replaced).sum() / pairs) if pairs else None
