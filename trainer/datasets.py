"""A map-style torch dataset of the examples of shards, for samplers, batch samplers and transformers.Trainer.

    DataLoader(ExampleDataset(shard_set), batch_size=32, collate_fn=PaddedBatches.from_shard_set(shard_set))

Promise: an epoch contains each example that is not deleted exactly once, with the masks of that epoch. Cost: as much as
the loader, plus some nanoseconds per token to pad rows to one length.

`PaddedBatches` returns input_ids, attention_mask, token_type_ids and labels as int64 [B, L], and the label of a pair as
int64 [B]. The records are already masked, so do not use a collator that draws masks. Columns that the records lack are
left out. `transformers.Trainer` removes columns that the model's `forward` does not accept.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from corpora.store.settings import EPOCH
from shards.reading.files.shard_set import ShardSet
from shards.reading.records import ExampleRecords, Record, RecordFormat

Tensors = dict[str, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddedBatches:
    """A collate function that pads records to the length of the longest one.

    Attributes:
        fill: Maps each column that has one value per token to its padding value. All other columns have one value per
            record.
    """

    fill: Mapping[str, int]

    @staticmethod
    def from_shard_set(shard_set: ShardSet) -> "PaddedBatches":
        """Create a collate function that pads each column of a shard set's records with the column's padding value."""
        return PaddedBatches(fill=dict(RecordFormat.from_manifest(shard_set.manifest).fill_values))

    def __call__(self, records: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """Collate records into int64 tensors by column: [B, L] for columns with one value per token, otherwise [B]."""
        width = max(len(record["input_ids"]) for record in records)
        return {
            name: self._pad_rows([record[name] for record in records], width, self.fill[name])
            if name in self.fill
            else torch.tensor([int(record[name]) for record in records])
            for name in records[0]
        }

    @staticmethod
    def _pad_rows(values: Sequence[Any], width: int, fill: int) -> Tensor:
        rows = torch.full((len(values), width), fill, dtype=torch.int64)
        for row, value in zip(rows, values, strict=True):
            row[: len(value)] = torch.as_tensor(value)
        return rows


def to_tensors(arrays: Mapping[str, Any]) -> Tensors:
    """Convert a dictionary of NumPy arrays to tensors that share their memory, under the same names."""
    return {name: torch.as_tensor(array) for name, array in arrays.items()}


class ExampleDataset(Dataset[Record]):
    """A map-style dataset of the examples of one epoch, in the loader's order. Deleted examples are omitted.

    A DataLoader may shuffle them again, but need not. The epoch number is in shared memory, so that `set_epoch` also
    affects persistent workers.
    """

    def __init__(self, shard_set: ShardSet, *, seed: int = 42, padded: bool = False) -> None:
        """Create the dataset.

        Args:
            shard_set: The split of a shard set to read.
            seed: The seed of the order and the masks.
            padded: True to pad all records to the same length, so that torch's default collate function can be used.
        """
        self._records = ExampleRecords(shard_set, seed=seed, padded=padded)
        self._epoch = torch.zeros((), dtype=torch.int64)
        self._epoch.share_memory_()  # type: ignore[no-untyped-call]

    def __len__(self) -> int:
        return self._records.num_live

    def __getitem__(self, number: int) -> Record:
        """Return a record by its zero-based position in the epoch. Raises IndexError if it is out of range."""
        if not 0 <= number < len(self):
            raise IndexError(f"example {number} of {len(self)}")
        return self.__getitems__([number])[0]

    def __getitems__(self, numbers: Sequence[int]) -> list[Record]:
        """Return several records by their zero-based positions in the epoch. torch's DataLoader calls this."""
        return self._records.read(np.asarray(numbers, np.int64) + int(self._epoch) * len(self))

    def set_epoch(self, epoch: int) -> None:
        """Select the epoch to read. Each epoch has a different order and, with dynamic masks, different masks.

        `epoch` is zero-based. Raises InputError if it is out of range.
        """
        EPOCH.check("epoch", epoch)
        self._epoch.fill_(epoch)
