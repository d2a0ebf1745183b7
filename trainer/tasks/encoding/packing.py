"""Items of many examples in little memory: their numbers in a few long buffers, not an object for each.

Promise: `items[n]` has the contents and the types of the n-th item that was packed.
Memory: a token takes five bytes, a point four, a target what its numbers take, and an item 50 to 70 bytes besides.
Cost: 5 microseconds for an item that is packed, 8 for one that is read (one x86-64 core, 2026-11-23).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import index
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from corpora.kernels.arrays import Int64s
from trainer.tasks.contract import TaskItem, Tokens


@dataclass(frozen=True, slots=True)
class ArrayColumn:
    """Arrays of one type, end to end along their first axis.

    values: of all of them, in a type that holds them in less memory
    begins: int64 [arrays + 1], where each begins
    type:   of the arrays that are given out
    """

    values: npt.NDArray[Any]
    begins: Int64s
    type: np.dtype[Any]

    @staticmethod
    def of(arrays: Sequence[npt.NDArray[Any]], kept: npt.DTypeLike | None = None) -> "ArrayColumn":
        """kept: the type of `values`; None: that of the arrays"""
        values = np.concatenate(arrays)
        return ArrayColumn(values.astype(kept or values.dtype), _begins(map(len, arrays)), values.dtype)

    @staticmethod
    def joined(columns: Sequence["ArrayColumn"]) -> "ArrayColumn":
        """One after another."""
        values = np.concatenate([column.values for column in columns])
        begins = _joined([column.begins for column in columns])
        return ArrayColumn(values, begins, np.result_type(*(column.type for column in columns)))

    def __getitem__(self, number: int) -> npt.NDArray[Any]:
        return self.values[self.begins[number] : self.begins[number + 1]].astype(self.type, copy=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedItems(Sequence[TaskItem]):
    """Items that are made when they are asked for.

    ids, segments: of each sequence
    begins:        int64 [items + 1], the first sequence of each
    numbers:       int64 [items], of their examples
    points:        of each item; targets: by name, of each item
    origins:       of each item; none where no item has any
    """

    ids: ArrayColumn
    segments: ArrayColumn
    begins: Int64s
    numbers: Int64s
    points: ArrayColumn
    targets: Mapping[str, ArrayColumn]
    origins: Sequence[Any]

    @staticmethod
    def of(items: Sequence[TaskItem]) -> "PackedItems":
        """Some items, one or more."""
        sequences = [sequence for item in items for sequence in item.sequences]
        origins = [item.origin for item in items]
        return PackedItems(
            ids=ArrayColumn.of([sequence.ids for sequence in sequences], np.int32),
            segments=ArrayColumn.of([sequence.segment_ids for sequence in sequences], np.uint8),
            begins=_begins(len(item.sequences) for item in items),
            numbers=np.array([item.example for item in items], np.int64),
            points=ArrayColumn.of([item.points for item in items], np.int32),
            targets={name: ArrayColumn.of([item.targets[name] for item in items]) for name in items[0].targets},
            origins=origins if any(origin is not None for origin in origins) else (),
        )

    @staticmethod
    def joined(parts: Sequence["PackedItems"]) -> "PackedItems":
        """The items of all parts, one or more."""
        some = any(part.origins for part in parts)
        return PackedItems(
            ids=ArrayColumn.joined([part.ids for part in parts]),
            segments=ArrayColumn.joined([part.segments for part in parts]),
            begins=_joined([part.begins for part in parts]),
            numbers=np.concatenate([part.numbers for part in parts]),
            points=ArrayColumn.joined([part.points for part in parts]),
            targets={name: ArrayColumn.joined([part.targets[name] for part in parts]) for name in parts[0].targets},
            origins=[origin for part in parts for origin in part.origins or (None,) * len(part)] if some else (),
        )

    def with_target(self, name: str, rows: Sequence[npt.NDArray[Any]]) -> "PackedItems":
        """With one more target, of each item."""
        assert len(rows) == len(self)
        return replace(self, targets={**self.targets, name: ArrayColumn.of(rows)})

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, place: int) -> TaskItem: ...

    @overload
    def __getitem__(self, place: slice) -> list[TaskItem]: ...

    def __getitem__(self, place: int | slice) -> TaskItem | list[TaskItem]:
        if isinstance(place, slice):
            return [self[number] for number in range(len(self))[place]]
        number = range(len(self))[index(place)]  # raises IndexError, and counts from the end
        return TaskItem(
            sequences=tuple(
                Tokens(self.ids[sequence], self.segments[sequence])
                for sequence in range(self.begins[number], self.begins[number + 1])
            ),
            example=int(self.numbers[number]),
            points=self.points[number],
            targets={name: column[number] for name, column in self.targets.items()},
            origin=self.origins[number] if self.origins else None,
        )

    def lengths(self, places: Int64s) -> Int64s:
        """Return how many tokens the items at some places have: int64."""
        counts: Int64s = self.ids.begins[self.begins[places + 1]] - self.ids.begins[self.begins[places]]
        return counts


def lengths_of(items: Sequence[TaskItem], places: Int64s) -> Int64s:
    """Return how many tokens the items at some places have: int64."""
    if isinstance(items, PackedItems):
        return items.lengths(places)
    return np.array([items[place].num_tokens for place in places.tolist()], np.int64)


def _begins(lengths: Iterable[int]) -> Int64s:
    return np.cumsum([0, *lengths], dtype=np.int64)


def _joined(begins: Sequence[Int64s]) -> Int64s:
    """Join the beginnings of parts to those of the whole."""
    ends = _begins(int(part[-1]) for part in begins)
    return np.concatenate([np.zeros(1, np.int64), *(part[1:] + end for part, end in zip(begins, ends, strict=False))])


def shortest_first(items: Sequence[TaskItem], places: Int64s) -> Int64s:
    """Return the places, those of the shortest items first; equal ones keep their order."""
    return places[np.argsort(lengths_of(items, places), kind="stable")]
