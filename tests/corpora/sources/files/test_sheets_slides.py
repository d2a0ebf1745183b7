"""Excel and PowerPoint: what their readers see is read, by rows and by slides; hostile files end in one line."""

import json
import zipfile
from pathlib import Path

import pytest
from office_files import SHEET, cell, package, pptx_parts, shape, sheet, slide, xlsx_parts
from source_reading import raw_file, read_and_find, reasons

from corpora.errors import InputError
from corpora.sources.bytes.faults import BadRecord
from corpora.sources.files.guessing import guess_text_columns
from corpora.sources.files.office.docx_pptx import read_pptx
from corpora.sources.files.office.package import LargeDocument
from corpora.sources.files.source import FilesSource

MOST = 5_000_000


def text(place: str, value: str) -> str:
    return cell(place, value, "inlineStr")


def written(folder: Path, parts: dict[str, str], name: str = "a.xlsx") -> Path:
    path = folder / name
    path.write_bytes(package(parts))
    return path


def test_rows_of_every_sheet_are_records(tmp_path: Path) -> None:
    """Fails if a value is not what Excel shows, an empty row is one, or a title names the columns."""
    first = sheet(
        "",
        text("B2", "All ferries"),
        text("A3", "text") + text("B3", "when") + text("C3", "n") + text("D3", "ok"),
        cell("A4", "0", "s") + cell("B4", "46328", style=1) + cell("C4", "1.50") + cell("D4", "1", "b"),
        "",
        cell("A6", "1", "s") + cell("B6", "46328.5", style=2) + cell("C6", "7.0") + cell("D6", "#N/A", "e"),
        cell("A7", "of a formula", "str") + cell("B7", "0.25", style=1) + cell("C7", "3", style=3),
    )
    second = sheet(
        text("A1", "text") + text("C1", "note"), text("A2", "Second") + text("B2", "beside") + text("D2", "x")
    )
    shared = ("<t>The ferry</t>", "<r><t>was </t></r><r><t>late</t></r><rPh><t>LATE</t></rPh>")
    path = written(tmp_path, xlsx_parts(first, second, shared=shared, formats="14 170 46"))
    records = read_and_find(FilesSource(name="own", path=str(path)))
    assert [json.loads(record.raw) for record in records] == [
        {"text": "The ferry", "when": "2026-11-02", "n": 1.5, "ok": True},
        {"text": "was late", "when": "2026-11-02T12:00:00", "n": 7},
        {"text": "of a formula", "when": "06:00:00", "n": "1900-01-03"},
        {"text": "Second", "text 2": "beside", "column 4": "x"},
    ]
    assert [(record.locator.stream, record.locator.offset) for record in records] == [(1, 4), (1, 6), (1, 7), (2, 2)]
    assert str(records[1].locator).startswith("a.xlsx: row 6 of sheet 1")


def test_merged_names_of_columns(tmp_path: Path) -> None:
    """Fails if columns under a merged name have one name, or the second row of names is a record."""
    rows = (text("A1", "text") + text("B1", "contact"), text("B2", "name") + text("C2", "mail"))
    body = text("A3", "Hello") + text("B3", "Ada") + text("C3", "a@b")
    path = written(tmp_path, xlsx_parts(sheet(*rows, body)))
    (record,) = read_and_find(FilesSource(name="own", path=str(path)))
    assert json.loads(record.raw) == {"text": "Hello", "contact name": "Ada", "contact mail": "a@b"}


def test_days_from_1904_and_before_march_1900(tmp_path: Path) -> None:
    for book, day in (('<workbookPr date1904="1"/>', "1904-01-02"), ("", "1900-01-01")):
        rows = sheet(text("A1", "text") + text("B1", "d"), text("A2", "a") + cell("B2", "1", style=1))
        path = written(tmp_path, xlsx_parts(rows, formats="14", book=book))
        (record,) = read_and_find(FilesSource(name="own", path=str(path), fields={"date": "d"}))
        assert record.date == day


def test_a_sheet_without_text_is_counted_and_no_damage(tmp_path: Path) -> None:
    """Fails if each sheet's column of text is not found, or a price list stops a run."""
    line = "The ferry was late because of the fog that lay in the harbour."
    sheets = [
        sheet(text("A1", name) + text("B1", "n"), text("A2", line) + cell("B2", "7")) for name in ("body", "note")
    ]
    path = written(tmp_path, xlsx_parts(*sheets, sheet(text("A1", "price"), cell("A2", "7"))))
    own = FilesSource(name="own", path=str(path))
    names = guess_text_columns(own, [raw_file(own)]).names
    assert set(names) == {"body", "note"}
    records = read_and_find(FilesSource(name="own", path=str(path), fields={"text": names}))
    assert reasons(records) == [None, None, "no column of text"]
    assert not any(record.drop.damaged for record in records if record.drop)


def test_workbooks_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    """Fails if a bomb is unpacked, an entity grows, or a locked file is no more than damaged."""
    good = xlsx_parts(sheet(text("A1", "text"), text("A2", "a")))
    laughs = (
        f'<!DOCTYPE w [<!ENTITY a "{"ha" * 9}"><!ENTITY b "{"&a;" * 9}">]><worksheet xmlns="{SHEET}">&b;</worksheet>'
    )
    bomb = f'<worksheet xmlns="{SHEET}"><sheetData>{"<row/>" * 900_000}</sheetData></worksheet>'
    cases = {
        "an OLE file": bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600),
        "no zip": b"no zip",
        "a damaged zip": package(good, zipfile.ZIP_STORED).replace(b"<t>text", b"<t>tex!"),
        "a document type": package({**good, "xl/worksheets/sheet1.xml": laughs}),
        "unpacks to more": package({**good, "xl/worksheets/sheet1.xml": bomb}),
        "the shared text 9": package({**good, "xl/worksheets/sheet1.xml": sheet(cell("A1", "9", "s"))}),
    }
    for says, data in cases.items():
        (tmp_path / "a.xlsx").write_bytes(data)
        with pytest.raises(InputError, match=f"a.xlsx cannot be read.*{says}"):
            read_and_find(FilesSource(name="own", path=str(tmp_path), max_record_bytes=20_000))


def test_a_row_that_is_too_large_is_passed_over(tmp_path: Path) -> None:
    rows = sheet(text("A1", "text"), text("A2", "x" * 5000) + text("B2", "y" * 5000), text("A3", "small"))
    path = written(tmp_path, xlsx_parts(rows))
    records = read_and_find(FilesSource(name="own", path=str(path), max_record_bytes=6000))
    assert [(record.text, record.drop and record.drop.reason) for record in records] == [
        ("", "too large"),
        ("small", None),
    ]


def test_slides_come_in_their_order_with_their_notes() -> None:
    """Fails if the order of files counts, notes are lost, or what every slide repeats is there."""
    table = "".join(f"<a:tc><a:txBody><a:p><a:r><a:t>{word}</a:t></a:r></a:p></a:txBody></a:tc>" for word in ("a", "b"))
    slides = {
        "z": slide(shape("First", kind="title"), shape("One", "Two"), f"<a:tbl><a:tr>{table}</a:tr></a:tbl>"),
        "a": slide(shape("12", kind="sldNum"), shape("Second")),
    }
    data = package(pptx_parts(slides, {"z": slide(shape("A note."), shape("1", kind="sldNum"), tag="notes")}))
    assert list(read_pptx(data, MOST).paragraphs) == ["First", "One", "Two", "a\tb", "A note.", "Second"]
    with pytest.raises(LargeDocument):
        read_pptx(data, 500)
    with pytest.raises(BadRecord):
        read_pptx(data[:300], MOST)
