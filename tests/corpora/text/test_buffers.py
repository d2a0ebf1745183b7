"""Text columns as buffers: every row where its offsets say, nothing copied, nothing else let in."""

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.errors import InputError
from corpora.text.buffers import TextBuffers, text_buffers

texts = st.lists(st.text(max_size=6), max_size=6)


def rows_of(buffers: TextBuffers) -> list[bytes]:
    return [buffers.data[start:stop].tobytes() for start, stop in pairwise(buffers.offsets.tolist())]


@given(texts, st.integers(0, 6), st.integers(0, 6))
def test_rows_stand_where_the_offsets_say(rows: list[str], start: int, length: int) -> None:
    column = pa.array(rows, pa.large_string())
    encoded = [row.encode() for row in rows]
    assert rows_of(text_buffers(column)) == encoded
    assert rows_of(text_buffers(column.slice(start, length))) == encoded[start : start + length]
    assert rows_of(text_buffers(column.slice(start).slice(1))) == encoded[start + 1 :]
    assert rows_of(text_buffers(pa.array(encoded, pa.large_binary()))) == encoded


@pytest.mark.parametrize(
    "column",
    [
        pa.array([], pa.large_string()),
        pa.array(["a"], pa.large_string())[1:],
        pa.array(["a", "b"], pa.large_string())[2:],
        pa.Array.from_buffers(pa.large_string(), 0, [None, pa.py_buffer(b""), pa.py_buffer(b"")]),
        pa.array([""], pa.large_string()),
    ],
    ids=["empty", "sliced to its end", "sliced further", "without offsets", "one empty row"],
)
def test_there_is_one_offset_more_than_rows(column: pa.Array) -> None:
    buffers = text_buffers(column)
    assert len(buffers.offsets) == len(column) + 1
    assert (buffers.data.dtype, buffers.offsets.dtype) == (np.uint8, np.int64)
    assert rows_of(buffers) == [b""] * len(column)


def test_nothing_is_copied() -> None:
    column = pa.array(["one", "two", "three"], pa.large_string())
    for part in (column, column[1:]):
        buffers = text_buffers(part)
        assert buffers.data.ctypes.data == column.buffers()[2].address
        assert buffers.offsets.ctypes.data == column.buffers()[1].address + 8 * part.offset
        assert not buffers.data.flags.writeable and not buffers.offsets.flags.writeable


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array(["a"]), "must be large_string or large_binary, not string: cast it first"),
        (pa.array([b"a"], pa.binary(1)), r"not fixed_size_binary\[1\]: cast it first"),
        (pa.array([1]), "not int64: cast it first"),
        (pa.array(["a", None, None], pa.large_string()), "must have no nulls, not 2: fill or drop them first"),
    ],
    ids=["string", "fixed binary", "numbers", "nulls"],
)
def test_another_column_is_refused(column: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        text_buffers(column)


def test_a_slice_without_the_nulls_is_welcome() -> None:
    column = pa.array([None, "b", "c"], pa.large_string())
    assert rows_of(text_buffers(column[1:])) == [b"b", b"c"]
