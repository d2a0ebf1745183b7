"""A tag for each word, from its first token's hidden state: dropout and a matrix (Devlin et al. 2018, section 5.3).

    encoder ─► matrix ─► softmax, or a CRF

Only the points of a batch are read, so special tokens and the other tokens of a word have neither a tag nor a loss.
With a linear-chain conditional random field (`crf`), the tags of a sentence are scored and chosen jointly. The outputs
of the matrix are then its emissions.

The score of a tag sequence is the sum of its emissions, the scores of all pairs of neighboring tags, and the scores of
the first and the last tag (Lafferty et al. 2001). The loss is the negative log-probability of the correct sequence
among all sequences, summed over sentences. The prediction is the sequence with the highest score (Viterbi algorithm).
Sequences with a forbidden pair of tags have probability zero and are never predicted.

Words are processed step by step without padding (`Chains`). Sentences are sorted longest first, so the sentences of
each step are the first ones of the step before.

Cost of a step with n sentences and C tags: n x C x C. A sentence of T words takes T consecutive steps.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from trainer.huggingface.checkpoints import Pretrained
from trainer.model.batches import Batch
from trainer.model.objective import sum_loss
from trainer.tasks.heads.task_model import TaskModel, TokenHead
from trainer.tasks.kinds.tags import CHAINS, INNER, TAG, TagsTask, may_follow

INITIAL_SPREAD = 0.1  # of first weights, as pytorch-crf's
FORBIDDEN_SCORE = -1e4  # the score of what is forbidden: its share is zero in float32

# Shapes in the names of tensors: P points, S sentences, n sentences that are read at a step, C tags.


class Chains(NamedTuple):
    """The words of sentences of different lengths, arranged for step-by-step processing without padding.

    lengths:  int64 [S], the number of words of each sentence
    order:    int64 [S], the indices of the sentences, longest first
    by_step:  int64 [P], the indices of the words: the first word of each sentence in that order, then the second
              word of each sentence that has one, and so on
    sizes:    for each step, the number of sentences that have a word there
    """

    lengths: Tensor
    order: Tensor
    by_step: Tensor
    sizes: list[int]

    @staticmethod
    def from_lengths(lengths: Tensor) -> "Chains":
        """Arrange the words of sentences for step-by-step processing.

        `lengths` is int64 [S], the number of words of each sentence, all at least 1.
        """
        order = lengths.argsort(descending=True, stable=True)
        longest_first = lengths[order]
        steps = torch.arange(int(longest_first[0]) if len(lengths) else 0, device=lengths.device)
        reads = steps[:, None] < longest_first
        step, place = reads.nonzero(as_tuple=True)
        return Chains(lengths, order, (lengths.cumsum(0) - lengths)[order][place] + step, reads.sum(1).tolist())

    @property
    def ends(self) -> Tensor:
        """The index of the last word of each sentence: int64 [S]."""
        return self.lengths.cumsum(0) - 1


class ForbiddenTags(NamedTuple):
    """Masks of forbidden tags: bool [C] for first tags, bool [C] for last tags, bool [C, C] for successive tags."""

    first: Tensor
    last: Tensor
    pairs: Tensor


class LinearChain(nn.Module):
    """A linear-chain CRF: learned scores of first tags, of last tags, and of pairs of successive tags."""

    forbidden_first: Tensor
    forbidden_last: Tensor
    forbidden_pairs: Tensor

    def __init__(self, num_tags: int, forbidden: ForbiddenTags | None = None) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.empty(num_tags).uniform_(-INITIAL_SPREAD, INITIAL_SPREAD))
        self.end = nn.Parameter(torch.empty(num_tags).uniform_(-INITIAL_SPREAD, INITIAL_SPREAD))
        self.transitions = nn.Parameter(torch.empty(num_tags, num_tags).uniform_(-INITIAL_SPREAD, INITIAL_SPREAD))
        none = torch.zeros(num_tags, dtype=torch.bool)
        barred = forbidden or ForbiddenTags(none, none, none.repeat(num_tags, 1))
        for name, masked in barred._asdict().items():
            self.register_buffer(f"forbidden_{name}", masked, persistent=False)

    def compute_loss(self, emissions_PC: Tensor, tags_P: Tensor, chains: Chains, inner_S2: Tensor) -> Tensor:
        """Compute the negative log-likelihood of the correct tags, summed over all sentences: float32 scalar.

        Args:
            emissions_PC: The scores of each word's tags.
            tags_P: int64, the index of each word's correct tag.
            chains: The sentences.
            inner_S2: bool [S, 2], True if a sentence continues before its first word here, or after its last.
        """
        if not len(chains.lengths):
            return emissions_PC.sum() + 0 * sum(each.sum() for each in self.parameters())  # gradients of zero
        scores = start_SC, end_SC, transitions_CC = self._compute_scores(inner_S2, emissions_PC.dtype)
        whole_S = _score_last_tags(emissions_PC, chains, scores, lambda paths_nCC: paths_nCC.logsumexp(1)).logsumexp(-1)
        ends_S = chains.ends
        begins_S = ends_S + 1 - chains.lengths
        goes_on_P = torch.ones_like(tags_P, dtype=torch.bool)
        goes_on_P[ends_S] = False
        before = goes_on_P.nonzero()[:, 0]
        score = emissions_PC.gather(1, tags_P[:, None]).sum() + transitions_CC[tags_P[before], tags_P[before + 1]].sum()
        score = score + start_SC.gather(1, tags_P[begins_S][:, None]).sum()
        return whole_S.sum() - score - end_SC.gather(1, tags_P[ends_S][:, None]).sum()

    def _compute_scores(self, inner_S2: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the scores of first tags [S, C], of last tags [S, C] and of pairs of successive tags [C, C].

        If a sentence continues before its first or after its last word (`inner_S2`), its scores of first or last tags
        are zero. The scores have the type `dtype`, regardless of the precision of matrix products.
        """
        start_C = self.start.to(dtype).masked_fill(self.forbidden_first, FORBIDDEN_SCORE)
        end_C = self.end.to(dtype).masked_fill(self.forbidden_last, FORBIDDEN_SCORE)
        zero = torch.zeros_like(start_C)
        start_SC, end_SC = (
            torch.where(inner_S[:, None], zero, of_C)
            for inner_S, of_C in zip(inner_S2.T, (start_C, end_C), strict=True)
        )
        return start_SC, end_SC, self.transitions.to(dtype).masked_fill(self.forbidden_pairs, FORBIDDEN_SCORE)

    def find_best(self, emissions_PC: Tensor, chains: Chains, inner_S2: Tensor) -> Tensor:
        """Find the sequence of tags with the highest score for each sentence (Viterbi): int64 [P].

        Args:
            emissions_PC: The scores of each word's tags.
            chains: The sentences.
            inner_S2: bool [S, 2], True if a sentence continues before its first word here, or after its last.
        """
        found_P = torch.zeros(len(emissions_PC), dtype=torch.int64, device=emissions_PC.device)
        if not len(chains.lengths):
            return found_P
        came_from = list[Tensor]()

        def highest(paths_nCC: Tensor) -> Tensor:
            highest_nC, from_nC = paths_nCC.max(1)
            came_from.append(from_nC)
            return highest_nC

        scores = self._compute_scores(inner_S2, emissions_PC.dtype)
        tags_S = _score_last_tags(emissions_PC, chains, scores, highest).argmax(-1)
        steps = torch.split(chains.by_step, chains.sizes)
        for points_n, from_nC in zip(reversed(steps[1:]), reversed(came_from), strict=True):
            reading = len(points_n)
            found_P[points_n] = tags_S[:reading]
            tags_S = torch.cat([from_nC.gather(1, tags_S[:reading, None])[:, 0], tags_S[reading:]])
        found_P[steps[0]] = tags_S
        return found_P


def _score_last_tags(
    emissions_PC: Tensor, chains: Chains, scores: tuple[Tensor, Tensor, Tensor], merge: Callable[[Tensor], Tensor]
) -> Tensor:
    """Compute the merged score of all paths to each possible last tag: [S, C], for the longest sentence first.

    Args:
        emissions_PC: The scores of each word's tags.
        chains: The sentences.
        scores: The three tensors that `_compute_scores` returns.
        merge: Function that merges the paths [n, C, C] from a tag (second axis) to the next (third axis) into [n, C].
    """
    start_SC, end_SC, transitions_CC = scores
    first_SC, *later = torch.split(emissions_PC[chains.by_step], chains.sizes)
    paths_nC, ended = start_SC[chains.order] + first_SC, list[Tensor]()
    for emitted_nC in later:
        ended.append(paths_nC[len(emitted_nC) :])
        paths_nC = merge(paths_nC[: len(emitted_nC), :, None] + transitions_CC) + emitted_nC
    return torch.cat([paths_nC, *reversed(ended)]) + end_SC[chains.order]


# Shapes in the names of tensors: P points, H hidden size, C tags.


class TagModel(TaskModel):
    """An encoder with a head on the first token of every word.

    A batch has the targets `chains` and `inner`, as described in `trainer.tasks.kinds.tags`, and `tag` (int64 [P]) if
    it is labeled.
    """

    def __init__(self, task: TagsTask, pretrained: Pretrained) -> None:
        super().__init__(task, pretrained)
        head = self.family.token_head
        self.token_head = TokenHead(self.encoder.shape, head, task.num_outputs)
        self.chain = (
            LinearChain(task.num_outputs, find_forbidden_tags(task) if task.constrained else None) if task.crf else None
        )
        self.init_head(self.token_head, head.pooler, pretrained.state)

    def compute_outputs(self, batch: Batch) -> Tensor:
        """Compute the logits of each word's tags, from the first token of the word: float32 [P, C]."""
        words_PH = self.encoder(batch).index_select(0, batch.points)
        logits_PC: Tensor = self.token_head(words_PH).float()
        return logits_PC

    def compute_losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Sum the cross-entropy over words, or with a CRF the loss over sentences, and count the correct words: [1, 2].

        With a CRF, the count is 0.
        """
        tags_P = batch.targets[TAG.name]
        if self.chain is None:
            return torch.stack([sum_loss(outputs, tags_P)])
        loss = self.chain.compute_loss(
            outputs, tags_P, Chains.from_lengths(batch.targets[CHAINS]), batch.targets[INNER]
        )
        return torch.stack([torch.stack([loss, torch.zeros_like(loss)])])

    def to_answers(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return the logits, float32 [P, C], or with a CRF the indices of the predicted tags, int64 [P]."""
        if self.chain is None:
            return outputs
        return self.chain.find_best(outputs, Chains.from_lengths(batch.targets[CHAINS]), batch.targets[INNER])


def find_forbidden_tags(task: TagsTask) -> ForbiddenTags:
    """Find the first tags, last tags and pairs of tags that never occur in a valid sentence of the task's scheme."""
    labels, scheme = task.labels, task.scheme
    return ForbiddenTags(
        first=torch.tensor([not may_follow(None, label, scheme) for label in labels]),
        last=torch.tensor([not may_follow(label, None, scheme) for label in labels]),
        pairs=torch.tensor([[not may_follow(label, after, scheme) for after in labels] for label in labels]),
    )
