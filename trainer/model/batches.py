"""Batches for the model: the tokens of many sequences, concatenated without padding, as tensors.

A batch is as large as its examples, or padded to one of a few shapes (`fill_batch`), so that a compiled model needs few
programs. Padding forms separate sequences, so it affects neither the examples nor losses and counts.

Shapes: T tokens, B sequences, M points (token positions that the heads read).
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
    """A batch of sequences, concatenated without padding, as tensors.

    Attributes:
        ids: int64 [T], the token ids of all sequences, after masking.
        segment_ids: int64 [T], 0 or 1.
        boundaries: int32 [B + 1], the index of the first token of each sequence; the last item is T.
        longest: The number of tokens of the longest sequence.
        points: int64 [M], the token positions that the heads read, as indices into the T tokens.
        targets: Maps names to the values that predictions are compared with. Their shape is [M], [B] or [T], depending
            on `Target.per`.
    """

    ids: Tensor
    segment_ids: Tensor
    boundaries: Tensor
    longest: int
    points: Tensor
    targets: Mapping[str, Tensor]

    @property
    def num_sequences(self) -> int:
        """The number of sequences, B, including empty ones."""
        return len(self.boundaries) - 1

    @property
    def shape(self) -> BatchShape:
        """The sizes of the batch: T tokens, B sequences, M points, and the number of tokens of the longest sequence."""
        return BatchShape(len(self.ids), self.num_sequences, len(self.points), self.longest)

    def compute_positions(self) -> Tensor:
        """Compute the zero-based position of each token in its own sequence: int64 [T]."""
        lengths = self.boundaries.diff()
        starts = torch.repeat_interleave(self.boundaries[:-1], lengths, output_size=len(self.ids))
        return torch.arange(len(self.ids), device=self.ids.device) - starts

    def locate_first_tokens(self) -> Tensor:
        """Return the index, among all T tokens, of the first token of each sequence: int32 [B].

        The index for an empty sequence is that of another sequence's token.
        """
        return self.boundaries[:-1].clamp(max=len(self.ids) - 1)

    def compute_means(self, values_TH: Tensor) -> Tensor:
        """Compute the mean of each sequence's token values: float32 [B, H]. An empty sequence has a mean of zero.

        `values_TH` has one row per token of the batch.
        """
        lengths = self.boundaries.diff().long()
        sums: Tensor = torch.segment_reduce(values_TH.float(), "sum", lengths=lengths, axis=0, unsafe=True)
        return sums / lengths.clamp(min=1).unsqueeze(1)

    def to(self, device: torch.device) -> "Batch":
        """Copy the batch to a device. The copy may still be in progress when this returns."""
        return self._map_tensors(lambda tensor: tensor.to(device, non_blocking=True))

    def pin(self) -> "Batch":
        """Copy the batch to pinned memory, from which a GPU can copy while the CPU continues."""
        return self._map_tensors(torch.Tensor.pin_memory)

    def _map_tensors(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        """Return a copy of the batch with a function applied to every tensor."""
        names = ("ids", "segment_ids", "boundaries", "points")
        changed: dict[str, Any] = {name: change(getattr(self, name)) for name in names}
        targets = {name: change(target) for name, target in self.targets.items()}
        return Batch(longest=self.longest, targets=targets, **changed)


def to_batch(gathered: GatheredExamples, reads: HeadInputs) -> Batch:
    """Convert gathered examples to a batch on the CPU.

    Args:
        gathered: The examples.
        reads: The targets and the token positions that heads read, as returned by the objective's `read`.
    """
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
    """Convert whole numbers to int64, which torch requires for targets, and return other values unchanged."""
    return values.astype(np.int64) if values.dtype.kind in "iu" else values


def fill_batch(batch: Batch, shape: BatchShape, pad: int, targets: Mapping[str, Target]) -> Batch:
    """Pad a batch to a shape by appending dummy sequences of padding tokens.

    Each dummy sequence is as long as possible; once all tokens are used up, the remaining ones are empty.

    Args:
        batch: The batch, which must fit into the shape.
        shape: The shape of the result.
        pad: The id of the padding token.
        targets: The targets of the objective by name, with their padding values.
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
