"""One damaged thing costs what it damages: a record that swallows others gives them back, or is counted as many.

The law: of the records that a file was written with, those that do not come out are as many as the counted drops.
"""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from source_reading import read_and_find as read

from corpora.errors import InputError
from corpora.sources.contract import Record
from corpora.sources.files import rows as files_rows
from corpora.sources.files.source import FilesSource

ROWS = 60


def texts(number: int = ROWS) -> list[str]:
    return [f"the ferry of day {at} was late" for at in range(number)]


def table(sign: str, end: str = "\n", **changed: str) -> bytes:
    """A table of two columns, of which some texts are others. changed: t7 is the text of row 7"""
    own = [changed.get(f"t{at}", text) for at, text in enumerate(texts())]
    return end.join([f"id{sign}text", *(f"{at}{sign}{text}" for at, text in enumerate(own)), ""]).encode()


TABLES = {
    "two lone quotes": table("\t", t5='"late it was', t55='so "late it was'),
    "two lone quotes, CRLF": table("\t", "\r\n", t5='"late it was', t55='so "late it was'),
    "a quote that nothing closes": table("\t", t5='"late it was'),
    "in the last rows": table("\t", t55='"late it was', t58='so "late it was'),
    "in the first rows": table("\t", t0='"late it was', t1='so "late it was'),
    "two signs for ditto": table("\t", t5='"', t55='"'),
    "five signs for ditto": table("\t", t5='"', t6='"', t7='"', t30='"', t55='"'),
    "quotes that begin each text": table("\t", **{f"t{at}": '"late' for at in range(1, ROWS)}),
    "a lone quote before a text of two lines": table("\t", t5='"late it was', t30='"it was\nlate, and cold"'),
    "commas": table(",", t5='"late it was', t55='so "late it was'),
    "semicolons": table(";", t5='"late it was', t55='so "late it was'),
    "commas, a quote that nothing closes": table(",", t5='"late it was'),
    "commas, before a quoted text": table(",", t5='"late it was', t30='"late, and ""cold"""'),
    "commas, before a text of two lines": table(",", t5='"late it was', t30='"it was\nlate, and cold"'),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("piece_bytes", [64, 1 << 18])
def test_a_lone_quote_costs_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, piece_bytes: int
) -> None:
    """Fails if rows between two quotes are one record, kept or dropped."""
    monkeypatch.setattr(files_rows, "PIECE_BYTES", piece_bytes)
    path = tmp_path / ("a.tsv" if b"\t" in TABLES[name] else "a.csv")
    path.write_bytes(TABLES[name])
    for fields in ({"text": "text", "key": "id"}, {}):
        records = read(FilesSource(name="own", path=str(path), fields=fields))
        assert [record.drop for record in records if record.drop] == []
        assert len(records) == ROWS
        for each in records:
            assert TABLES[name][each.locator.offset :][: each.locator.length].strip() == each.raw
        untouched = [text for at, text in enumerate(texts()) if records[at].text == text]
        assert len(untouched) >= ROWS - 1 - TABLES[name].count(b'"')
        assert [record.key for record in records] == ([str(at) for at in range(ROWS)] if fields else [None] * ROWS)


def test_a_quote_before_more_than_one_record_may_hold(tmp_path: Path) -> None:
    """Fails if the rows after a lone quote are one record that is too large, or the end of the file."""
    path = tmp_path / "a.tsv"
    path.write_bytes(b"id\ttext\n" + b'0\t"late\n' + b"1\tthe ferry was late\n" * 5_000 + b'2\tso "it was\n3\tend\n')
    records = read(FilesSource(name="own", path=str(path), fields={"text": "text"}, max_record_bytes=20_000))
    assert (len(records), [record.drop for record in records if record.drop]) == (5_003, [])


def test_what_is_damaged_in_itself_is_one_drop(tmp_path: Path) -> None:
    """Fails if a text of several lines with a stray quote is torn into rows of nonsense."""
    path = tmp_path / "a.csv"
    path.write_bytes(b'id,text\n1,ok\n2,"It was late\nand he said "no" and left\n3,ok\n')
    first, bad, last = read(FilesSource(name="own", path=str(path), fields={"text": "text"}))
    assert first.text == last.text == "ok" and bad.drop is not None and bad.drop.damaged


def test_a_file_that_is_cut_off_in_a_field_is_refused(tmp_path: Path) -> None:
    """Fails if the beginning of a text is taken for rows because the file ends in it."""
    path = tmp_path / "a.csv"
    path.write_bytes(b'id,text\n1,ok\n2,"It was late,\nand the ferry\nhad left, they said,\nwithout him')
    with pytest.raises(InputError, match="is never closed"):
        read(FilesSource(name="own", path=str(path), fields={"text": "text"}))


