"""Tables: rows cut by the kernel and by its plain twin, fields against Python's own csv, and every kind of bad row."""

import csv
import gzip
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from source_reading import raw_file, reasons
from source_reading import read_and_find as read

from corpora.errors import InputError
from corpora.sources.bytes.faults import BadRecord
from corpora.sources.files import formats as files_module
from corpora.sources.files import tables as files_rows
from corpora.sources.files.source import FilesSource
from corpora.sources.files.tables import (
    FIELD_START,
    OpenQuote,
    find_row_ends,
    find_row_ends_plain,
    parse_row,
    read_rows,
)

COMMA, QUOTE = ord(","), ord('"')


@settings(deadline=None)
@given(st.lists(st.sampled_from([b'"', b",", b"\n", b"\r\n", b"a", b"\xc3\xa9"]), max_size=40).map(b"".join))
def test_the_kernel_is_its_plain_twin(data: bytes) -> None:
    ends, state = find_row_ends(np.frombuffer(data, np.uint8), FIELD_START, COMMA, QUOTE)
    assert (ends.tolist(), state) == find_row_ends_plain(data, FIELD_START, COMMA, QUOTE)


cells = st.lists(st.sampled_from(['"', '""', ",", "\n", "\r\n", "a", "é", " "]), max_size=6).map("".join)


@settings(deadline=None)
@given(st.lists(st.lists(cells, min_size=2, max_size=4), min_size=1, max_size=5), st.integers(1, 9))
def test_what_csv_writes_is_read(rows: list[list[str]], piece_bytes: int) -> None:
    """Fails if a row is cut elsewhere than Python's csv ends it, in pieces of any size, or a field is another."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    data = text.getvalue().encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files_rows, "PIECE_BYTES", piece_bytes)
        found = list(read_rows(io.BytesIO(data), 10_000, ",", '"'))
    assert [parse_row((row.data or b"").decode(), ",", '"') for row in found] == rows
    for row in found:
        assert data[row.offset : row.offset + row.length] == row.data


@settings(deadline=None)
@given(st.lists(st.sampled_from(["a", '"', ",", "\n", 'b"c']), max_size=30).map("".join))
def test_rows_of_any_text_are_those_that_csv_reads(text: str) -> None:
    """Fails if a field that Python's strict reader takes comes out otherwise, or one that it refuses is taken."""
    try:
        expected = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except csv.Error:
        with pytest.raises((BadRecord, OpenQuote)):
            _parsed(text)
        return
    assert _parsed(text) == expected


def _parsed(text: str) -> list[list[str]]:
    rows = (row.data or b"" for row in read_rows(io.BytesIO(text.encode()), 10_000, ",", '"'))
    return [parse_row(row.decode(), ",", '"') for row in rows if row]


def test_the_header_names_the_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(
        b'\xef\xbb\xbf\r\n"id","body",when,rev\r\n1,"Two, with ""quotes"".\r\nAnd a line.",2024-01-01,3\r\n\r\n'
        b"2,Plain.,,\r\n3,,,\r\n"
    )
    fields = {"text": "body", "key": "id", "date": "when", "revision": "rev"}
    first, second, third = read(FilesSource(name="own", path=str(tmp_path), fields=fields))
    assert (first.key, first.text, first.date, first.revision) == (
        "1",
        'Two, with "quotes".\r\nAnd a line.',
        "2024-01-01",
        3,
    )
    assert (second.key, second.text, second.date, second.revision, second.drop) == ("2", "Plain.", None, None, None)
    assert third.key == "3" and third.drop is not None and third.drop.reason == "empty"


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (b"only one", "1 fields where the header names 2"),
        (b'"a"b,c,d', "3 fields where the header names 2"),
        (b",no key", "no field 'id' (key)"),
        (b"1,\xff", "not utf-8 at byte"),
        (b"1,a\x00b", "a zero"),
    ],
)
def test_a_bad_row_is_a_damaged_drop_and_costs_no_other(tmp_path: Path, row: bytes, says: str) -> None:
    (tmp_path / "a.csv").write_bytes(b"id,text\n1,good\n" + row + b"\n2,good\n")
    first, bad, last = read(FilesSource(name="own", path=str(tmp_path), fields={"key": "id"}))
    assert first.text == last.text == "good"
    assert bad.drop is not None and bad.drop.damaged and says in bad.drop.detail


def test_a_row_that_is_too_large_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_rows, "PIECE_BYTES", 64)
    field = b'"' + b"x,\n" * 500 + b'"'
    (tmp_path / "a.csv").write_bytes(b"id,text\n1,ok\n2," + field + b"\n3,ok\n4," + b"y" * 99 + b"\n5," + b"y" * 98)
    records = read(FilesSource(name="own", path=str(tmp_path), max_record_bytes=100))
    assert reasons(records) == [None, "too large", None, "too large", None]
    assert records[1].locator.length == len(field) + 3


def test_a_quote_that_is_never_closed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'id,text\n1,ok\n2,"open\n3,ok\n')
    with pytest.raises(InputError, match=r"a\.csv: a quote in the row at byte 13 is never closed.*`quote`"):
        read(FilesSource(name="own", path=str(tmp_path)))
    found = read(FilesSource(name="own", path=str(tmp_path), quote=""))
    assert [record.text for record in found] == ["ok", '"open', "ok"]


def test_delimiters(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("id\ttext\n1\tone, two\n")
    (tmp_path / "b.tsv.gz").write_bytes(gzip.compress(b"text\tid\nthree\t2\n"))
    assert [record.text for record in read(FilesSource(name="own", path=str(tmp_path)))] == ["one, two", "three"]
    (tmp_path / "c.csv").write_text("id;text\n1;a,b\n")
    (found,) = read(FilesSource(name="own", path=str(tmp_path / "c.csv"), delimiter=";"))
    assert found.text == "a,b"


def test_slices_of_a_table_without_quotes_are_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,text\n" + "".join(f'{n},"row {n}\n' for n in range(500)))
    source = FilesSource(name="own", path=str(path), quote="", fields={"key": "id"})
    whole = read(source)
    monkeypatch.setattr(files_module, "SLICE_BYTES", 700)
    file = raw_file(source)
    assert len(source.slices(file)) > 8
    assert read(source) == whole and len(whole) == 500
    assert len(FilesSource(name="own", path=str(path)).slices(file)) == 1


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (b"id,body\n", "names the column 'text' not, but id, body"),
        (b"text,text\n", "names the column 'text' twice"),
        (b"\xff\xfet\x00e\x00", "is UTF-16"),
        (b"id,te\xffxt\n", "its header cannot be read"),
        (b'id,te\xffxt\n1,"a quote that nothing closes\n', "its header cannot be read"),
        (b"x" * 200 + b",text\n", "names the column 'text' not"),
    ],
)
def test_a_header_without_the_columns_is_refused(tmp_path: Path, header: bytes, says: str) -> None:
    (tmp_path / "a.csv").write_bytes(header + b"1,2\n")
    with pytest.raises(InputError, match=says):
        read(FilesSource(name="own", path=str(tmp_path), max_record_bytes=100))


def test_an_empty_table_has_no_records(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\n \n")
    (tmp_path / "b.csv").write_bytes(b"text\n")
    assert read(FilesSource(name="own", path=str(tmp_path))) == []
