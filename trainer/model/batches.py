"""Batches as the model takes them: tokens of many sequences end to end, without padding, as tensors.

A batch is as large as its examples, or filled to one of few shapes (`filled`): a compiled model meets few of them then.
What fills it are sequences of their own, so no example sees them, and neither losses nor counts do.

Shapes: T tokens, B sequences, M masked tokens of the batch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from shards.reading.budgets import BatchShape
from shards.reading.loader import GatheredExamples

IGNORED = -100  # a target or label that no loss counts: what cross entropy ignores, unless told otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Sequences end to end.

    ids:          int64 [T], as the model sees them (masks put in)
    segment_ids:  int64 [T], 0 or 1
    boundaries:   int32 [B + 1], where each sequence begins; the last is T
    longest:      tokens of the longest sequence
    masked:       int64 [M], places of the masked tokens among the T
    targets:      int64 [M], the tokens that were there; IGNORED where none was
    pair_labels:  int64 [B], 0 where the second segment follows the first, 1 where not; IGNORED where there is no
                  example; None without pairs
    """

    ids: Tensor
    segment_ids: Tensor
    boundaries: Tensor
    longest: int
    masked: Tensor
    targets: Tensor
    pair_labels: Tensor | None

    @property
    def num_sequences(self) -> int:
        """B."""
        return len(self.boundaries) - 1

    @property
    def shape(self) -> BatchShape:
        """T, B, M, and the tokens of the longest sequence."""
        return BatchShape(len(self.ids), self.num_sequences, len(self.masked), self.longest)

    def positions(self) -> Tensor:
        """int64 [T]: the place of each token in its own sequence, from 0."""
        lengths = self.boundaries.diff()
        starts = torch.repeat_interleave(self.boundaries[:-1], lengths, output_size=len(self.ids))
        return torch.arange(len(self.ids), device=self.ids.device) - starts

    def first_tokens(self) -> Tensor:
        """int32 [B]: the place of each sequence's first token; of an empty one some token's."""
        return self.boundaries[:-1].clamp(max=len(self.ids) - 1)

    def to(self, device: torch.device) -> "Batch":
        """The same batch on a device."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def pinned(self) -> "Batch":
        """The same batch in memory that a GPU copies from while the processor goes on."""
        return self._each(torch.Tensor.pin_memory)

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        """A batch of changed tensors."""
        changed: dict[str, Any] = {
            name: None if (tensor := getattr(self, name)) is None else change(tensor)
            for name in ("ids", "segment_ids", "boundaries", "masked", "targets", "pair_labels")
        }
        return Batch(longest=self.longest, **changed)


def to_batch(gathered: GatheredExamples) -> Batch:
    """What the loader gathered, as tensors on the processor."""
    second = np.repeat(gathered.offsets[:-1] + gathered.boundary, np.diff(gathered.offsets))
    return Batch(
        ids=torch.from_numpy(gathered.ids.astype(np.int64)),
        segment_ids=torch.from_numpy((np.arange(len(gathered.ids)) >= second).astype(np.int64)),
        boundaries=torch.from_numpy(gathered.offsets),
        longest=gathered.longest,
        masked=torch.from_numpy(gathered.masked),
        targets=torch.from_numpy(gathered.targets.astype(np.int64)),
        pair_labels=None if gathered.labels is None else torch.from_numpy(gathered.labels),
    )


def filled(batch: Batch, shape: BatchShape, pad: int) -> Batch:
    """The same batch with dummy sequences after its own, so that it has a shape.

    They hold the padding token, are as long as the longest may be, and empty where no token is left to fill in.
    """
    num_tokens, num_dummies = len(batch.ids), shape.sequences - batch.num_sequences
    ends = num_tokens + shape.longest * torch.arange(1, num_dummies + 1)
    assert num_tokens <= shape.tokens <= num_tokens + shape.longest * num_dummies, (num_tokens, num_dummies, shape)
    more_tokens, more_masked = (0, shape.tokens - num_tokens), (0, shape.masked - len(batch.masked))
    labels = batch.pair_labels
    return Batch(
        ids=F.pad(batch.ids, more_tokens, value=pad),
        segment_ids=F.pad(batch.segment_ids, more_tokens),
        boundaries=torch.cat([batch.boundaries, ends.clamp(max=shape.tokens).int()]),
        longest=shape.longest,
        masked=F.pad(batch.masked, more_masked, value=shape.tokens - 1),
        targets=F.pad(batch.targets, more_masked, value=IGNORED),
        pair_labels=None if labels is None else F.pad(labels, (0, num_dummies), value=IGNORED),
    )
