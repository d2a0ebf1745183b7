"""Batches as the model takes them: tokens of many sequences end to end, without padding, as tensors.

A batch is as large as its examples, or filled to one of few shapes (`fill_batch`): a compiled model meets few of them
then. What fills it are sequences of their own, so no example sees them, and neither losses nor counts do.

Shapes: T tokens, B sequences, M points of the batch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from shards.reading.budgets import BatchShape
from shards.reading.loader import GatheredExamples
from trainer.objectives.contract import HeadInputs, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Sequences end to end.

    ids:          int64 [T], as the model sees them (masks put in)
    segment_ids:  int64 [T], 0 or 1
    boundaries:   int32 [B + 1], where each sequence begins; the last is T
    longest:      tokens of the longest sequence
    points:       int64 [M], places among the T of the tokens that heads read
    targets:      by name what an objective compares answers with: [M], [B] or [T], as its `Target` says
    """

    ids: Tensor
    segment_ids: Tensor
    boundaries: Tensor
    longest: int
    points: Tensor
    targets: Mapping[str, Tensor]

    @property
    def num_sequences(self) -> int:
        """B."""
        return len(self.boundaries) - 1

    @property
    def shape(self) -> BatchShape:
        """T, B, M, and the tokens of the longest sequence."""
        return BatchShape(len(self.ids), self.num_sequences, len(self.points), self.longest)

    def compute_positions(self) -> Tensor:
        """int64 [T]: the place of each token in its own sequence, from 0."""
        lengths = self.boundaries.diff()
        starts = torch.repeat_interleave(self.boundaries[:-1], lengths, output_size=len(self.ids))
        return torch.arange(len(self.ids), device=self.ids.device) - starts

    def locate_first_tokens(self) -> Tensor:
        """int32 [B]: the place of each sequence's first token; of an empty one some token's."""
        return self.boundaries[:-1].clamp(max=len(self.ids) - 1)

    def compute_means(self, values_TH: Tensor) -> Tensor:
        """Return float32 [B, H]: for each sequence the mean of its tokens' values; for an empty one zeros."""
        lengths = self.boundaries.diff().long()
        sums: Tensor = torch.segment_reduce(values_TH.float(), "sum", lengths=lengths, axis=0, unsafe=True)
        return sums / lengths.clamp(min=1).unsqueeze(1)

    def to(self, device: torch.device) -> "Batch":
        """The same batch on a device."""
        return self._map_tensors(lambda tensor: tensor.to(device, non_blocking=True))

    def pin(self) -> "Batch":
        """Return the same batch in memory that a GPU copies from while the processor continues."""
        return self._map_tensors(torch.Tensor.pin_memory)

    def _map_tensors(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        """A batch of changed tensors."""
        names = ("ids", "segment_ids", "boundaries", "points")
        changed: dict[str, Any] = {name: change(getattr(self, name)) for name in names}
        targets = {name: change(target) for name, target in self.targets.items()}
        return Batch(longest=self.longest, targets=targets, **changed)


def to_batch(gathered: GatheredExamples, reads: HeadInputs) -> Batch:
    """Return what the loader gathered, as tensors on the processor. reads: what an objective makes of it"""
    second = np.repeat(gathered.offsets[:-1] + gathered.boundary, np.diff(gathered.offsets))
    return Batch(
        ids=torch.from_numpy(gathered.ids.astype(np.int64)),
        segment_ids=torch.from_numpy((np.arange(len(gathered.ids)) >= second).astype(np.int64)),
        boundaries=torch.from_numpy(gathered.offsets),
        longest=gathered.max_length,
        points=torch.from_numpy(reads.points),
        targets={name: torch.from_numpy(_to_targets(target.values)) for name, target in reads.targets.items()},
    )


def _to_targets(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Whole numbers as torch takes them for targets; others as they are."""
    return values.astype(np.int64) if values.dtype.kind in "iu" else values


def fill_batch(batch: Batch, shape: BatchShape, pad: int, targets: Mapping[str, Target]) -> Batch:
    """The same batch with dummy sequences after its own, so that it has a shape.

    They hold the padding token, are as long as the longest may be, and empty if no token is left to fill in.
    """
    num_tokens, num_dummies = len(batch.ids), shape.num_sequences - batch.num_sequences
    ends = num_tokens + shape.max_length * torch.arange(1, num_dummies + 1)
    assert num_tokens <= shape.num_tokens <= num_tokens + shape.max_length * num_dummies, (
        num_tokens,
        num_dummies,
        shape,
    )
    more = {
        "token": (0, shape.num_tokens - num_tokens),
        "point": (0, shape.num_masked - len(batch.points)),
        "sequence": (0, num_dummies),
    }
    return Batch(
        ids=F.pad(batch.ids, more["token"], value=pad),
        segment_ids=F.pad(batch.segment_ids, more["token"]),
        boundaries=torch.cat([batch.boundaries, ends.clamp(max=shape.num_tokens).int()]),
        longest=shape.max_length,
        points=F.pad(batch.points, more["point"], value=shape.num_tokens - 1),
        targets={
            name: F.pad(target, more[targets[name].per], value=targets[name].fill)
            for name, target in batch.targets.items()
        },
    )
