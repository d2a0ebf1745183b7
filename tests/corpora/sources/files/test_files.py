"""Your own files: lines and slices, fields, every kind of bad record, and the registry that makes sources."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from source_reading import raw_file, raw_files, read, reasons

from corpora.errors import InputError
from corpora.sources.bytes.raw_files import open_raw, read_lines
from corpora.sources.files import formats as files_module
from corpora.sources.files.source import FilesSource


def write_lines(path: Path, values: list[Any]) -> Path:
    path.write_text("".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values), encoding="utf-8")
    return path


def test_a_text_file_is_one_document(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_bytes(b"\xef\xbb\xbfText with a mark.\n\nSecond.")
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress("Zürich.".encode()))
    (tmp_path / "c.txt").write_bytes(b" \n")
    (tmp_path / "photo.png").write_bytes(b"\x89PNG")
    source = FilesSource(name="own", path=str(tmp_path))
    records = read(source)
    assert [record.text for record in records] == ["Zürich.", "Text with a mark.\n\nSecond.", " \n"]
    assert reasons(records) == [None, None, "empty"]
    assert [record.key for record in records] == [None] * 3
    for record, file in zip(records, raw_files(source), strict=True):
        assert source.raw_record(Path(file.path), record.locator) == record.raw


def test_fields_are_mapped(tmp_path: Path) -> None:
    value = {"body": "Prose.", "n": 7, "rev": 3, "t": "Title", "who": "Ann", "when": "2024-01-01", "u": None}
    write_lines(tmp_path / "a.jsonl", [value])
    names = {
        "text": "body",
        "key": "n",
        "revision": "rev",
        "title": "t",
        "group": "who",
        "date": "when",
        "url": "u",
    }
    (record,) = read(FilesSource(name="own", path=str(tmp_path), fields=names))
    assert (record.text, record.key, record.revision, record.title) == ("Prose.", "7", 3, "Title")
    assert (record.group, record.date, record.url, record.drop) == ("Ann", "2024-01-01", None, None)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b'{"text": "a"', "not JSON"),
        (b'["text"]', "not a JSON object but a list"),
        (b"{}", "no field 'text'"),
        (b'{"text": null}', "no field 'text'"),
        (b'{"text": 5}', "not a string but a int"),
        (b'{"text": "a", "id": ["x"]}', "not a string but a list"),
        (b'{"text": "a"}', "no field 'id'"),
        (b'{"text": "\xff", "id": "1"}', "not utf-8 at byte"),
        (b'{"text": "\\ud800", "id": "1"}', "lone surrogate"),
        (b'{"text": "a", "id": "1", "rev": "new"}', "revision"),
        (b'{"text": "a", "id": "1", "rev": true}', "revision"),
        (b'{"text": "a", "id": "1", "rev": 9223372036854775808}', "revision"),
        (b'{"text": ' + b"[" * 100_000, "not JSON"),
        (b'{"text": "a", "rev": ' + b"9" * 5000 + b"}", "not JSON"),
    ],
)
def test_a_bad_line_is_a_damaged_drop_and_costs_no_other(tmp_path: Path, line: bytes, says: str) -> None:
    good = b'{"text": "good", "id": "g"}\n'
    (tmp_path / "a.jsonl").write_bytes(good + line + b"\n" + good)
    source = FilesSource(name="own", path=str(tmp_path), fields={"key": "id", "revision": "rev"})
    first, bad, last = read(source)
    assert first.text == last.text == "good" and first.drop is last.drop is None
    assert bad.drop is not None and bad.drop.damaged and bad.drop.reason == "damaged"
    assert says in bad.drop.detail
    assert source.raw_record(tmp_path / "a.jsonl", bad.locator) == line


def test_too_large_is_dropped_and_the_next_line_read(tmp_path: Path) -> None:
    lines = [b'{"text": "%s"}' % (b"x" * size) for size in (10, 88, 89, 5000, 10)]
    (tmp_path / "a.jsonl").write_bytes(b"\r\n".join(lines))
    (tmp_path / "b.txt").write_bytes(b"x" * 101)
    records = read(FilesSource(name="own", path=str(tmp_path), max_record_bytes=100))
    assert [len(line) for line in lines] == [22, 100, 101, 5012, 22]
    found = reasons(records)
    assert found == [None, None, "too large", "too large", None, "too large"]


def test_lines_of_any_slicing_are_those_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = [{"text": f"line {number} " + "x" * (number * 37 % 200)} for number in range(300)]
    path = write_lines(tmp_path / "a.jsonl", values)
    path.write_bytes(path.read_bytes() + b"\n  \n\n")
    source = FilesSource(name="own", path=str(path))
    file = raw_file(source)
    assert len(source.slices(file)) == 1
    whole = read(source)
    assert [record.text for record in whole] == [value["text"] for value in values]
    monkeypatch.setattr(files_module, "SLICE_BYTES", 1000)
    slices = source.slices(file)
    assert len(slices) > 20 and [piece.start for piece in slices] == list(range(0, file.size_bytes, 1000))
    assert read(source, slices) == whole
    for record in whole:
        assert source.raw_record(path, record.locator) == record.raw


@given(
    st.lists(st.sampled_from([b"", b"a", b"bc", b"\r", b"long line of text", b" ", b"x" * 70_000]), max_size=12),
    st.integers(1, 40),
    st.booleans(),
)
def test_read_lines_agrees_with_splitting_at_newlines(lines: list[bytes], step: int, ends: bool) -> None:
    import io

    data = b"\n".join(lines) + (b"\n" if ends and lines else b"")
    cuts = [*range(0, len(data) if len(data) < 1000 else 0, step)] or [0]
    found = [
        line
        for start, stop in zip(cuts, [*cuts[1:], len(data)], strict=True)
        for line in read_lines(io.BytesIO(data), start, stop, 50)
    ]
    expected = data.split(b"\n")
    expected = expected[:-1] if expected[-1] == b"" else expected
    assert [line.data for line in found] == [
        None if len(text.removesuffix(b"\r")) > 50 else text.removesuffix(b"\r") for text in expected
    ]
    offsets = [sum(len(text) + 1 for text in expected[:number]) for number in range(len(expected))]
    assert [line.offset for line in found] == offsets


def test_what_cannot_be_a_source_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(b"x")
    for path in (tmp_path, tmp_path / "photo.png", tmp_path / "missing"):
        with pytest.raises(InputError, match=r"Source 'own'.*\.jsonl"):
            FilesSource(name="own", path=str(path)).files()
    for path in ("/**/*", "/.././*/**", "/"):
        with pytest.raises(InputError, match=r"all that this machine has, .* Set it to a file with one of"):
            FilesSource(name="own", path=path).files()
    with pytest.raises(InputError, match="Cannot read"):
        open_raw(tmp_path / "missing.txt")


def test_settings_hold_no_path_and_no_alias() -> None:
    one = FilesSource(name="a", path="x", encoding="utf8").settings()
    assert one == FilesSource(name="b", path="y", encoding="UTF-8").settings()
    assert one != FilesSource(name="a", path="x", fields={"text": "body"}).settings()
