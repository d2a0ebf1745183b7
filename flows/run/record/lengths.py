"""Lengths of documents and examples in tokens: of all rows, or of the rows of a few parts at even distances.

Promise: the same artifact gives the same sample. Cost: the ids of at most `PARTS` parts are read.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from corpora.generic_types import Item
from corpora.kernels.arrays import Int64s
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.tables import read_part_table

PARTS = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthSample:
    """Lengths of lists of token ids, for all rows or the rows of `parts` parts spread over `all_parts`."""

    lengths: Int64s
    unknown: int
    parts: int
    all_parts: int

    @property
    def total(self) -> int:
        """The number of tokens in all rows that were read."""
        return int(self.lengths.sum())

    def quantile(self, share: float) -> int:
        """The length that this share of the rows does not exceed."""
        return int(np.quantile(self.lengths, share, method="inverted_cdf"))


def sample_lengths(
    place: Place, manifest: Manifest, table: str, unknown_id: int | None = None, most: int = PARTS
) -> LengthSample:
    """Count the tokens of each row of `table`'s column `ids`, and those that are `unknown_id`. most: parts to read"""
    holding = [part for part in manifest.parts if part.count_rows(table)]
    chosen = spread(holding, most)
    lengths, unknown = [np.zeros(0, np.int64)], 0
    for part in chosen:
        for batch in read_part_table(place, manifest.stage_folder, part, table, ("ids",)):
            column = batch.column("ids")
            lengths.append(pc.list_value_length(column).to_numpy().astype(np.int64))
            if unknown_id is not None:
                unknown += int(np.count_nonzero(column.flatten().to_numpy() == unknown_id))
    return LengthSample(lengths=np.concatenate(lengths), unknown=unknown, parts=len(chosen), all_parts=len(holding))


def spread(parts: Sequence[Item], most: int) -> list[Item]:
    """Choose at most `most` parts at even distances."""
    if len(parts) <= most:
        return list(parts)
    return [parts[index * len(parts) // most] for index in range(most)]
