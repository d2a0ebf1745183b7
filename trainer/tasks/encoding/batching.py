"""Items as batches of the model: their sequences end to end, without padding."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from corpora.kernels.arrays import Int32s, Int64s
from trainer.model.batches import Batch
from trainer.tasks.contract import TaskItem
from trainer.tasks.encoding.packing import PackedItems

EXAMPLES = "examples"  # int64 [items], among the targets: how many sequences each item has

# Shapes: T tokens of all texts, N texts.


def batch_of(rows: Sequence[Int32s], points: Sequence[int] = (), targets: Mapping[str, Tensor] | None = None) -> Batch:
    """Texts as a batch of single segments. points: places among its tokens that a head reads"""
    return _batch(rows, [np.zeros(len(row), np.int64) for row in rows], np.array(points, np.int64), targets or {})


def batch_of_items(items: Sequence[TaskItem]) -> Batch:
    """All sequences of items, in their order; targets one after another, and `EXAMPLES`."""
    sequences = [sequence for item in items for sequence in item.sequences]
    starts = np.cumsum([0, *(item.num_tokens for item in items)])
    points = [item.points + start for item, start in zip(items, starts, strict=False)]
    names = items[0].targets if items else ()
    targets = {name: torch.from_numpy(np.concatenate([item.targets[name] for item in items])) for name in names}
    targets[EXAMPLES] = torch.tensor([len(item.sequences) for item in items], dtype=torch.int64)
    return _batch(
        [sequence.ids for sequence in sequences],
        [sequence.segment_ids for sequence in sequences],
        np.concatenate([np.empty(0, np.int64), *points]),
        targets,
    )


def _batch(rows: Sequence[Int32s], segments: Sequence[Int32s], points: Int32s, targets: Mapping[str, Tensor]) -> Batch:
    return Batch(
        ids=torch.from_numpy(np.concatenate([np.empty(0, np.int64), *rows])),
        segment_ids=torch.from_numpy(np.concatenate([np.empty(0, np.int64), *segments])),
        boundaries=torch.from_numpy(np.cumsum([0, *map(len, rows)], dtype=np.int32)),
        longest=max(map(len, rows), default=0),
        points=torch.from_numpy(points.astype(np.int64)),
        targets=targets,
    )


def shortest_first(items: PackedItems, places: Int64s) -> Int64s:
    """Return the places, those of the shortest items first; equal ones keep their order."""
    return places[np.argsort(np.asarray(items.lengths)[places], kind="stable")]


def void(item: TaskItem) -> TaskItem:
    """An item without a sequence, for a process that has no share of a step; with the targets of a real one."""
    return TaskItem(sequences=(), example=-1, targets={name: values[:0] for name, values in item.targets.items()})
