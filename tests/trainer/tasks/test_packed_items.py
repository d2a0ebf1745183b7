"""Packed items are the items, in little memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.tasks.data import PackedItems
from trainer.tasks.heads.task_model import sort_by_length
from trainer.tasks.task import TaskItem, Tokens


def drawn_items(lengths: Sequence[Sequence[int]], seed: int) -> list[TaskItem]:
    """Items with so many sequences of so many tokens, a point for some tokens, and targets of two shapes."""
    drawn = np.random.default_rng(seed)

    def item(number: int, own: Sequence[int]) -> TaskItem:
        points = np.flatnonzero(drawn.random(sum(own)) < 0.5)
        sequences = [(drawn.integers(0, 1 << 30, length), drawn.integers(0, 2, length)) for length in own]
        return TaskItem(
            sequences=tuple(Tokens(ids.astype(np.int32), segments.astype(np.int32)) for ids, segments in sequences),
            example=3 + number // 2,
            points=points,
            targets={
                "label": drawn.integers(0, 9, len(points)),
                "columns": drawn.random((1, 3)).astype(np.float32),
                "inner": drawn.random((len(own), 2)) < 0.5,
            },
            origin={"number": number} if number % 2 else None,
        )

    return [item(number, own) for number, own in enumerate(lengths)]


def assert_same(found: TaskItem, wanted: TaskItem) -> None:
    """In contents and types."""

    def arrays(item: TaskItem) -> list[npt.NDArray[Any]]:
        return [*(side for each in item.sequences for side in each), item.points, *item.targets.values()]

    assert [*found.targets] == [*wanted.targets] and found.origin == wanted.origin
    assert (found.example, found.num_tokens) == (wanted.example, wanted.num_tokens)
    for one, other in zip(arrays(found), arrays(wanted), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@given(
    st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=3), min_size=1, max_size=9), st.integers(0, 99), st.data()
)
def test_packed_items_are_the_items(lengths: list[list[int]], seed: int, data: st.DataObject) -> None:
    """Fails if a bound is off by one, or a type is that of the buffer."""
    items = drawn_items(lengths, seed)
    packed = PackedItems(items)
    for found, wanted in zip(packed, items, strict=True):
        assert_same(found, wanted)
    assert_same(packed[-1], items[-1])
    assert [item.example for item in packed[1:3]] == [item.example for item in items[1:3]]
    places = np.array(data.draw(st.lists(st.integers(0, len(items) - 1), max_size=5)), np.int64)
    shortest = sorted(places.tolist(), key=lambda place: items[place].num_tokens)
    assert sort_by_length(packed, places).tolist() == shortest
    with pytest.raises(IndexError):
        packed[len(items)]


def test_a_row_of_30_tokens_takes_little_memory() -> None:
    """Fails if an item is an object with arrays of its own, which takes more than a kilobyte."""
    packed = PackedItems(drawn_items([[30]] * 500, 0))
    columns = (packed._ids, packed._segments, packed._points, *packed._targets.values())
    kept = (
        packed._begins,
        packed._examples,
        packed.lengths,
        *(side for each in columns for side in (each._bytes, each._ends)),
    )
    points = len(packed._points._bytes) + len(packed._targets["label"]._bytes)
    assert (sum(memoryview(each).nbytes for each in kept) - points) / len(packed) < 260
