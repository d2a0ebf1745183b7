"""Documents and dropped documents: identity that follows the key or the bytes, and rows that come back whole."""

import hashlib
from dataclasses import asdict

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.schema import (
    DOCUMENTS,
    DROPPED,
    ID_BYTES,
    MAX_EXCERPT_CHARACTERS,
    Document,
    DroppedDocument,
    Locator,
    compute_keyed_id,
    compute_occurrence_id,
    compute_record_id,
    cut_excerpt,
    iter_documents,
    iter_dropped,
)

short = st.text("ab", max_size=3)
locators = st.builds(
    Locator, file=short, sha256=short, stream=st.integers(-1, 9), offset=st.integers(0), length=st.integers(0)
)


def nullable_text() -> st.SearchStrategy[str | None]:
    return st.none() | st.text(max_size=5)


def revisions() -> st.SearchStrategy[int | None]:
    return st.none() | st.integers(-(2**63), 2**63 - 1)


ids = st.binary(min_size=ID_BYTES, max_size=ID_BYTES)
some_documents = st.builds(
    Document,
    id=ids,
    keyed=st.booleans(),
    revision=revisions(),
    text=st.text(),
    source=short,
    locator=locators.filter(lambda locator: max(locator.offset, locator.length) < 2**63),
    **{name: nullable_text() for name in ("title", "url", "date", "language", "license", "group", "meta")},
    quality=st.integers(-(2**31), 2**31 - 1),
)
some_dropped = st.builds(
    DroppedDocument,
    id=st.none() | ids,
    keyed=st.booleans(),
    revision=revisions(),
    source=short,
    locator=locators.filter(lambda locator: max(locator.offset, locator.length) < 2**63),
    **{name: nullable_text() for name in ("title", "detail", "excerpt")},
    step=short,
    reason=short,
    survivor=st.none() | ids,
    similarity=st.none() | st.floats(0, 1, width=32),
)


def batch_of(rows: list[Document] | list[DroppedDocument], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{**asdict(row), "locator": row.locator._asdict()} for row in rows], schema=schema
    )


@given(st.lists(some_documents, max_size=4))
def test_documents_come_back_from_their_rows(rows: list[Document]) -> None:
    batches = [batch_of(rows[:1], DOCUMENTS), batch_of(rows[1:], DOCUMENTS)]
    assert list(iter_documents(iter(batches))) == rows


@given(st.lists(some_dropped, max_size=4))
def test_dropped_documents_come_back_from_their_rows(rows: list[DroppedDocument]) -> None:
    assert list(iter_dropped(iter([batch_of(rows, DROPPED)]))) == rows


@pytest.mark.parametrize(
    ("schema", "read"), [(DOCUMENTS, iter_documents), (DROPPED, iter_dropped)], ids=["kept", "dropped"]
)
def test_columns_that_a_stage_adds_are_not_the_views(schema: pa.Schema, read: object) -> None:
    row = {field.name: {"string": "x", "large_string": "x"}.get(str(field.type)) for field in schema}
    row |= {"id": b"i" * 16, "keyed": True, "locator": Locator(file="f", sha256="0", length=1)._asdict(), "quality": 0}
    table = pa.RecordBatch.from_pylist([row], schema=schema).append_column("generation", pa.array([1]))
    assert callable(read)
    (view,) = read(iter([table]))
    assert (view.id, view.locator.file) == (b"i" * 16, "f")


def test_golden_ids() -> None:
    def by_hand(*parts: bytes) -> bytes:
        lengths = b"".join(len(part).to_bytes(8, "little") for part in parts)
        return hashlib.sha256(lengths + b"".join(parts)).digest()[:16]

    assert compute_keyed_id("wikipedia", "12").hex() == "080f5a15dee290da2d139cdc0688f3b6"
    assert compute_keyed_id("wikipedia", "12") == by_hand(b"key", b"wikipedia", b"12")
    assert compute_record_id("books", b"raw") == by_hand(b"record", b"books", b"raw")
    assert compute_occurrence_id(b"i" * 16, 2) == by_hand(b"occurrence", b"i" * 16, (2).to_bytes(8, "little"))


@given(st.text(), st.text(), st.text(), st.text())
def test_keyed_ids_are_equal_only_for_equal_names(source: str, key: str, other_source: str, other_key: str) -> None:
    same = (source, key) == (other_source, other_key)
    assert (compute_keyed_id(source, key) == compute_keyed_id(other_source, other_key)) == same


def test_a_locator_is_told_in_words() -> None:
    locator = Locator(file="enwiki.xml.bz2", sha256="0123456789abcdef", stream=600, offset=20, length=5)
    assert str(locator) == "enwiki.xml.bz2: stream 600, bytes 20-25 (sha256 0123456789ab)"
    assert str(Locator(file="a.txt", sha256="f" * 64, length=7)) == "a.txt: bytes 0-7 (sha256 ffffffffffff)"


@given(st.text(st.sampled_from("ab \n\t\u00a0"), max_size=1200))
def test_an_excerpt_is_the_beginning_on_one_line(text: str) -> None:
    found = cut_excerpt(text)
    assert len(found) <= MAX_EXCERPT_CHARACTERS
    assert found == " ".join(found.split(" ")) and not {*found} & {*"\n\t\u00a0"}
    assert " ".join(text.split()).startswith(found)
    if len(text) <= MAX_EXCERPT_CHARACTERS:
        assert found == " ".join(text.split())
