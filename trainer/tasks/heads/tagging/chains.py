"""Points of several sentences, sentence by sentence, and step by step as they are read: no step has an empty place.

Sentences are taken longest first, so those that are read at a step are the first ones of those at the step before.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

# Shapes: P points, S sentences.


class Chains(NamedTuple):
    """Sentences of different lengths.

    lengths:  int64 [S], points of each sentence
    order:    int64 [S], the sentences, longest first
    by_step:  int64 [P], the points: the first of each sentence in that order, the second of those that have one, ...
    sizes:    how many sentences are read at each step
    """

    lengths: Tensor
    order: Tensor
    by_step: Tensor
    sizes: list[int]

    @staticmethod
    def of(lengths: Tensor) -> "Chains":
        """Return the chains of sentences. lengths: int64 [S], none of them 0"""
        order = lengths.argsort(descending=True, stable=True)
        longest_first = lengths[order]
        steps = torch.arange(int(longest_first[0]) if len(lengths) else 0, device=lengths.device)
        reads = steps[:, None] < longest_first
        step, place = reads.nonzero(as_tuple=True)
        return Chains(lengths, order, (lengths.cumsum(0) - lengths)[order][place] + step, reads.sum(1).tolist())

    @property
    def ends(self) -> Tensor:
        """int64 [S]: the last point of each sentence."""
        return self.lengths.cumsum(0) - 1


def silent(*modules: nn.Module) -> Tensor:
    """A zero that every parameter of modules has a gradient of zero from, for a batch without a sentence."""
    return sum((parameter.sum() for module in modules for parameter in module.parameters()), torch.zeros(())) * 0
