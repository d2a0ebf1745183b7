"""`.json` files: arrays, arrays in objects, objects one after another; damage costs a value, and length no memory."""

import io
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from source_reading import raw_file, read_and_find, reasons
from tiers import examples

from corpora.sources.files.guessing import guess_text_columns
from corpora.sources.files.json_file import PIECE_BYTES, find_layout, read_values
from corpora.sources.files.source import FilesSource

ROWS = [{"id": number, "text": f'The ferry {number} was "late" \\ é\n[{{'} for number in range(6)]
TEXTS = [str(row["text"]) for row in ROWS]
ESCAPED = [json.dumps(row, ensure_ascii=False) for row in ROWS]
FORMS = {
    "array": json.dumps(ROWS),
    "pretty": json.dumps(ROWS, indent=2),
    "inside": json.dumps({"version": "1", "info": {"n": 6}, "data": ROWS, "more": [1]}),
    "deep": json.dumps({"response": {"numFound": 6, "docs": ROWS}}, indent=1),
    "lines": "\n".join(ESCAPED),
    "one after another": "".join(json.dumps(row, indent=1) for row in ROWS),
    "arrays": "\n".join(json.dumps(ROWS[at : at + 3]) for at in (0, 3)),
}


def source(path: Path, **settings: Any) -> FilesSource:
    return FilesSource(name="own", path=str(path), encoding="auto", **settings)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
def test_every_form_has_the_same_records(tmp_path: Path, form: str, codec: str) -> None:
    """Fails if a record is lost, cut or not found again."""
    path = tmp_path / "a.json"
    path.write_bytes(FORMS[form].encode(codec))
    own = source(path)
    assert [record.text for record in read_and_find(own)] == TEXTS
    assert guess_text_columns(own, [raw_file(own)]).names == ("text",)


@pytest.mark.parametrize("data", ['{"text": "one"}', '{"text": "one",\n "by": [{"name": "Ada"}]}', '["one"]', '"one"'])
def test_one_object_or_text_is_one_record(tmp_path: Path, data: str) -> None:
    """Fails if a record with a list of objects is taken for that list, or a list of texts has none."""
    (tmp_path / "a.json").write_text(data)
    assert [record.text for record in read_and_find(source(tmp_path))] == ["one"]


@pytest.mark.parametrize(
    ("data", "dropped"),
    [
        ('[{"text": "a"},\n{"text": "open},\n{"text": "b"}]', 1),
        ('[{"text": "a"}, {"text": }, {"text": "b"}]', 1),
        ('[{"text": "a"}, {"text": [1, }, {"text": "b"}]', 1),
        ('[{"text": "a"}, {"x": 1, {"text": "b"}]', 1),
        ('[{"text": "a"}, 7, "word", null, {"text": "b"}]', 3),
        ('{"data": [{"text": "a"}, {"text": }, {"text": "b"}', 1),
        ('{"text": "a"}\n{"text"\n{"text": "b"}', 1),
        ('[{"text": "a"}, {"text": "b"}, {"text": "cut', 1),
    ],
)
def test_a_value_that_is_no_json_costs_only_itself(tmp_path: Path, data: str, dropped: int) -> None:
    (tmp_path / "a.json").write_text(data)
    records = read_and_find(source(tmp_path))
    assert [record.text for record in records if record.drop is None] == ["a", "b"]
    assert reasons(records).count("damaged") == dropped


def test_a_string_in_an_array_of_objects_is_no_document(tmp_path: Path) -> None:
    """Fails if what damage leaves of an object becomes a text."""
    (tmp_path / "a.json").write_text('[{"text": "a"}}, "text": "left", {"text": "b"}]')
    assert [record.text for record in read_and_find(source(tmp_path)) if not record.drop] == ["a", "b"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@examples(1000)
@given(st.lists(st.dictionaries(st.text(max_size=4), JSON, max_size=4), max_size=6), st.integers(0, 2), st.data())
def test_values_are_those_that_json_reads(values: list[Any], indent: int, data: st.DataObject) -> None:
    """Fails if brackets or quotes in strings, or the place where a piece ends, change what a value is."""
    text = json.dumps(values, ensure_ascii=data.draw(st.booleans()), indent=indent or None)
    stream = _Pieces(text.encode(errors="surrogatepass"), data.draw(st.integers(1, 9)))
    found = read_values(stream, 1 << 20, find_layout(b"["))
    assert [json.loads(line.data or b"") for line in found] == values


class _Pieces(io.BytesIO):
    """Bytes that are read a few at a time."""

    def __init__(self, data: bytes, size: int) -> None:
        super().__init__(data)
        self._size = size

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(self._size, 1 << 20 if size is None or size < 0 else size))


class _Endless(io.RawIOBase):
    """An array whose second value is a string of any length."""

    def __init__(self, size: int) -> None:
        self._parts = iter([b'[{"text": "a"}, {"text": "', *[b"x" * PIECE_BYTES] * (size // PIECE_BYTES), b'"}, {}]'])

    def read(self, size: int = -1, /) -> bytes:
        return next(self._parts, b"")


def test_a_value_of_any_length_is_passed_over(tmp_path: Path) -> None:
    """Fails if a string of 64 MB comes into memory, or costs the value after it."""
    tracemalloc.start()
    lines = list(read_values(_Endless(64 << 20), 1000, find_layout(b"[")))  # type: ignore[arg-type]
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [line.data for line in lines] == [b'{"text": "a"}', None, b"{}"]
    assert most < 2 << 20


def test_lines_in_a_json_are_cut_as_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a large file of lines is read by one worker alone."""
    monkeypatch.setattr("corpora.sources.files.formats.SLICE_BYTES", 100)
    (tmp_path / "a.json").write_text(FORMS["lines"])
    own = source(tmp_path)
    assert len(own.slices(raw_file(own))) > 3
    assert [record.text for record in read_and_find(own)] == TEXTS
