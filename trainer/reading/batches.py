"""Records of examples as one batch of tensors: padded on the right, under the names that Hugging Face models have.

    DataLoader(ExampleDataset(shard_set), batch_size=32, collate_fn=PaddedBatches.of(shard_set))

Promise: input_ids, attention_mask, token_type_ids and labels int64 [B, L], the label of a pair int64 [B]; the masks are
those of the records, and a collator that draws masks of its own must not follow. Columns that the records lack are left
out: `transformers.Trainer` takes away what a model has no argument for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from shards.reading.files.shard_set import ShardSet
from shards.reading.records import RecordNames


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddedBatches:
    """A collate function. L is the longest record's length, rounded up to a multiple of `multiple`.

    fill: what is put after the end of a record, by column of tokens; other columns have a number a record
    """

    fill: Mapping[str, int]
    multiple: int = 1

    @staticmethod
    def of(shard_set: ShardSet, multiple: int = 1) -> "PaddedBatches":
        """For the records of a shard set."""
        return PaddedBatches(fill=dict(RecordNames.of(shard_set.manifest).fill), multiple=multiple)

    def __call__(self, records: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """The batch of some records."""
        longest = max(len(record["input_ids"]) for record in records)
        width = -(-longest // self.multiple) * self.multiple
        return {
            name: self._rows([record[name] for record in records], width, self.fill[name])
            if name in self.fill
            else torch.tensor([int(record[name]) for record in records])
            for name in records[0]
        }

    @staticmethod
    def _rows(values: Sequence[Any], width: int, fill: int) -> Tensor:
        rows = torch.full((len(values), width), fill, dtype=torch.int64)
        for row, value in zip(rows, values, strict=True):
            row[: len(value)] = torch.as_tensor(value)
        return rows
