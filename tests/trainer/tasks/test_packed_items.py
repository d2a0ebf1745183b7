"""Packed items are the items, and files encoded in parts have the items of one call."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_models import write_model
from small_tasks import encoded_for

from corpora.errors import InputError
from trainer.tasks import data
from trainer.tasks.contract import Task, TaskItem, Tokens
from trainer.tasks.encoding.packing import PackedItems, lengths_of
from trainer.tasks.kinds.tags import TagsTask
from trainer.tasks.kinds.texts import ClassesTask


def drawn_items(lengths: Sequence[Sequence[int]], seed: int, origins: bool) -> list[TaskItem]:
    """Items with so many sequences of so many tokens, a point for some tokens, and targets of two shapes."""
    drawn = np.random.default_rng(seed)

    def item(number: int, own: Sequence[int]) -> TaskItem:
        size = sum(own)
        points = np.flatnonzero(drawn.random(size) < 0.5)
        return TaskItem(
            sequences=tuple(
                Tokens(
                    drawn.integers(0, 1 << 30, length).astype(np.int32), drawn.integers(0, 2, length).astype(np.int32)
                )
                for length in own
            ),
            example=3 + number // 2,
            points=points,
            targets={
                "label": drawn.integers(0, 9, len(points)),
                "beside": drawn.random((1, 3)).astype(np.float32),
                "inner": drawn.random((len(own), 2)) < 0.5,
            },
            origin={"number": number} if origins and number % 2 else None,
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
    st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=3), min_size=1, max_size=9), st.integers(1, 9), st.data()
)
def test_packed_items_are_the_items(lengths: list[list[int]], part: int, data: st.DataObject) -> None:
    """Whatever parts they were packed in: fails where a bound is off by one, or a type is that of the buffer."""
    items = drawn_items(lengths, data.draw(st.integers(0, 99)), data.draw(st.booleans()))
    parts = [PackedItems.of(items[first : first + part]) for first in range(0, len(items), part)]
    packed = PackedItems.joined(parts)
    for found, wanted in zip(packed, items, strict=True):
        assert_same(found, wanted)
    assert_same(packed[-1], items[-1])
    assert [item.example for item in packed[1:3]] == [item.example for item in items[1:3]]
    places = np.array(data.draw(st.lists(st.integers(0, len(items) - 1), max_size=5)), np.int64)
    assert lengths_of(packed, places).tolist() == lengths_of(items, places).tolist()
    with pytest.raises(IndexError):
        packed[len(items)]


def test_a_target_may_be_added() -> None:
    items = drawn_items([[3], [4, 2]], 0, False)
    rows = [np.ones((1, 2), np.float32), np.zeros((1, 2), np.float32)]
    wanted = [replace(item, targets={**item.targets, "more": row}) for item, row in zip(items, rows, strict=True)]
    for found, item in zip(PackedItems.of(items).with_target("more", rows), wanted, strict=True):
        assert_same(found, item)


def test_a_row_of_30_tokens_takes_little_memory() -> None:
    """Fails where an item is an object with arrays of its own, which takes more than a kilobyte."""
    packed = PackedItems.of(drawn_items([[30]] * 500, 0, False))
    columns = [packed.ids, packed.segments, packed.points, *packed.targets.values()]
    arrays = [packed.begins, packed.numbers, *(side for column in columns for side in (column.values, column.begins))]
    without_points = (
        sum(each.nbytes for each in arrays) - packed.points.values.nbytes - packed.targets["label"].values.nbytes
    )
    assert without_points / len(packed) < 260


SENTENCES = [
    {"words": ["a", "good", "film"][: 1 + number % 3], "tags": ["O", "B-X", "O"][: 1 + number % 3], "document": place}
    for number, place in enumerate("aaabbbbcdddd")
]
PAIRS = [{"text": "a film", "second": "good", "label": "ab"[number % 2]} for number in range(9)]
DOCUMENTS = TagsTask(context="document", units="spans", labels=("O", "B-X", "I-X"), usual="O", written="BIO2")


@pytest.mark.parametrize(
    ("task", "rows"), [(DOCUMENTS, SENTENCES), (ClassesTask(labels=("a", "b")), PAIRS)], ids=["documents", "pairs"]
)
def test_parts_of_a_file_have_the_items_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: Task, rows: list[dict[str, Any]]
) -> None:
    """Fails where a document is cut in two, or the examples of a later part have the numbers of the first."""
    write_model(tmp_path)
    whole = encoded_for(task, tmp_path, rows)
    for together in (1, 4):
        monkeypatch.setattr(data, "TOGETHER", together)
        parts = encoded_for(task, tmp_path, rows)
        assert parts.ledger == whole.ledger
        for found, wanted in zip(parts.items, whole.items, strict=True):
            origins = (found.origin, wanted.origin)
            assert_same(replace(found, origin=None), replace(wanted, origin=None))
            np.testing.assert_array_equal(*origins)


def test_pairs_are_told_from_texts_also_in_another_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where each part is looked at for itself."""
    write_model(tmp_path)
    monkeypatch.setattr(data, "TOGETHER", 3)
    rows = [*PAIRS[:3], {"text": "a film", "label": "a"}]
    with pytest.raises(InputError, match="1 of 4 rows have no second text, and the others have one"):
        encoded_for(ClassesTask(labels=("a", "b")), tmp_path, rows)


def test_a_task_that_numbers_its_items_anew_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where the answers to one part would be taken for those to another."""

    class Misnumbered(ClassesTask):
        def items(self, examples: Any, encoder: Any, labelled: bool, first: int = 0) -> list[TaskItem]:
            return super().items(examples, encoder, labelled)

    write_model(tmp_path)
    monkeypatch.setattr(data, "TOGETHER", 3)
    with pytest.raises(InputError, match="begin with `first`: this is a bug in its package"):
        encoded_for(Misnumbered(labels=("a", "b")), tmp_path, PAIRS)
