"""Text columns as buffers: every row where its offsets say, nothing copied, nothing else let in."""

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.errors import InputError
from corpora.text.buffers import TextBuffers, check_texts, to_text_buffers

texts = st.lists(st.text(max_size=6), max_size=6)


def rows_of(buffers: TextBuffers) -> list[bytes]:
    return [buffers.data[start:stop].tobytes() for start, stop in pairwise(buffers.offsets.tolist())]


@given(texts, st.integers(0, 6), st.integers(0, 6))
def test_rows_stand_where_the_offsets_say(rows: list[str], start: int, length: int) -> None:
    column = pa.array(rows, pa.large_string())
    encoded = [row.encode() for row in rows]
    assert rows_of(to_text_buffers(column)) == encoded
    assert rows_of(to_text_buffers(column.slice(start, length))) == encoded[start : start + length]
    assert rows_of(to_text_buffers(column.slice(start).slice(1))) == encoded[start + 1 :]
    assert rows_of(to_text_buffers(pa.array(encoded, pa.large_binary()))) == encoded


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
    buffers = to_text_buffers(column)
    assert len(buffers.offsets) == len(column) + 1
    assert (buffers.data.dtype, buffers.offsets.dtype) == (np.uint8, np.int64)
    assert rows_of(buffers) == [b""] * len(column)


def test_nothing_is_copied() -> None:
    column = pa.array(["one", "two", "three"], pa.large_string())
    for part in (column, column[1:]):
        buffers = to_text_buffers(part)
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
        to_text_buffers(column)


def test_a_slice_without_the_nulls_is_welcome() -> None:
    column = pa.array([None, "b", "c"], pa.large_string())
    assert rows_of(to_text_buffers(column[1:])) == [b"b", b"c"]


def column_of(*rows: bytes) -> pa.Array:
    """A column as a file may have it: Arrow takes any bytes for text."""
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return pa.LargeStringArray.from_buffers(len(rows), pa.py_buffer(offsets), pa.py_buffer(b"".join(rows)))


@given(st.lists(st.binary(max_size=6), max_size=6), st.integers(0, 6))
def test_bytes_that_are_no_text_are_let_in_nowhere(rows: list[bytes], start: int) -> None:
    """Rows before a slice may be anything: nobody reads them."""
    valid = all(row.decode("utf-8", "replace").encode() == row for row in rows[start:])
    for column in (column_of(*rows), column_of(*rows).view(pa.large_binary())):
        if valid:
            assert rows_of(to_text_buffers(column.slice(start))) == rows[start:]
        else:
            with pytest.raises(InputError, match="must be valid UTF-8"):
                to_text_buffers(column.slice(start))


@pytest.mark.parametrize("bad", [b"\xff", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80"])
def test_half_characters_surrogates_and_long_forms_are_no_text(bad: bytes) -> None:
    with pytest.raises(InputError, match="Invalid UTF8 sequence at string index 1"):
        to_text_buffers(column_of(b"ok", bad, b"ok"))


def test_offsets_that_lie_are_refused() -> None:
    offsets = pa.py_buffer(np.array([2, 1, 3], np.int64))
    with pytest.raises(InputError, match="non-monotonic offset"):
        to_text_buffers(pa.LargeStringArray.from_buffers(2, offsets, pa.py_buffer(b"abc")))


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        (0, 7, "runs from byte 0 to 7, and there are 6 bytes"),
        (-1, 3, "runs from byte -1 to 3"),
        (3, 1, "runs from byte 3 to 1"),
        (2, 6, "begins or ends at byte 2, inside of a character"),
        (0, 4, "begins or ends at byte 4, inside of a character"),
    ],
)
def test_texts_outside_of_the_data_or_cut_in_a_character_are_refused(start: int, end: int, message: str) -> None:
    data = np.frombuffer("a\u00e9\u65e5".encode(), np.uint8)
    with pytest.raises(InputError, match=message):
        check_texts(data, np.array([0, start]), np.array([1, end]))
    check_texts(data, np.array([0, 6, 3]), np.array([6, 6, 6]))


def test_text_between_the_first_and_the_last_is_looked_at() -> None:
    data = np.frombuffer(b"\xffab\xfe", np.uint8)
    check_texts(data, np.array([1]), np.array([3]))
    with pytest.raises(InputError, match="must be valid UTF-8"):
        check_texts(data, np.array([1, 3]), np.array([2, 4]))
