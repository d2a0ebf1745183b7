"""The examples of a shard as columns: what the builder of any input gives, and what the shard's rows are made of."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shards.pairs import Pairs
from shards.pairs_kernels import Ids, Offsets


class Examples(NamedTuple):
    """n examples, by copy."""

    ids: Ids  # flat, with their special tokens
    offsets: Offsets  # [n + 1], into ids
    word_starts: npt.NDArray[np.uint8]  # flat, 0 on specials
    boundary: npt.NDArray[np.uint16]  # [n], tokens of the first segment
    label: npt.NDArray[np.uint8] | None  # [n], 0 = B follows A, 1 = B is random; None where there is no B
    documents: npt.NDArray[np.int32]  # flat, indices of the documents that each holds, in their order
    document_offsets: Offsets  # [n + 1], into documents
    ordinal: npt.NDArray[np.uint32]  # [n], number of the example in its first document and copy
    copy: npt.NDArray[np.uint16]  # [n]
    example_id: npt.NDArray[np.uint64]  # [n]


def of_pairs(pairs: Pairs) -> Examples:
    """Pairs as examples: a pair whose B is random holds two documents, any other one."""
    both = np.stack([pairs.anchor, pairs.partner], axis=1)
    held = np.stack([np.ones(len(both), bool), pairs.label == 1], axis=1)
    return Examples(
        ids=pairs.ids,
        offsets=pairs.offsets,
        word_starts=pairs.word_starts,
        boundary=pairs.boundary,
        label=pairs.label,
        documents=both[held],
        document_offsets=np.concatenate([[0], np.cumsum(held.sum(axis=1), dtype=np.int64)]),
        ordinal=pairs.ordinal,
        copy=pairs.copy,
        example_id=pairs.example_id,
    )
