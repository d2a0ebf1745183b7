"""Sketches: the columns that are made without a Python string for each document are what their definitions say."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from corpora.duplicates.build import hash_groups, hash_texts
from corpora.duplicates.candidates import hash_text_64
from corpora.kernels.fixed_width import to_fixed_width_column
from corpora.tombstones import hash_text

TEXTS = st.lists(st.text(max_size=4), max_size=6)


@given(TEXTS, st.integers(0, 3))
def test_texts_are_hashed_where_they_lie(texts: list[str], first: int) -> None:
    """Fails if a slice of a column is hashed from its beginning, or a text by another encoding."""
    column = pa.array(texts, pa.large_string()).slice(first)
    assert hash_texts(column) == [hash_text(text.encode()) for text in texts[first:]]


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.none() | st.sampled_from(["", "x", "é"])), max_size=6))
def test_a_group_is_of_its_source(rows: list[tuple[str, str | None]]) -> None:
    """Fails if two sources share a group, or a document without one gets a key."""
    found = hash_groups(*(pa.array(column, pa.string()) for column in ([s for s, _ in rows], [g for _, g in rows])))
    assert found.type == pa.uint64()
    assert found.to_pylist() == [
        None if group is None else hash_text_64(f"{source}\0{group}") for source, group in rows
    ]


def test_bytes_become_rows_of_one_width() -> None:
    """Fails if rows are cut at other places."""
    column = to_fixed_width_column(b"abcdef", 2)
    assert (column.type, column.to_pylist()) == (pa.binary(2), [b"ab", b"cd", b"ef"])
    assert len(to_fixed_width_column(b"", 16)) == 0
