"""One damaged thing costs what it damages: a record that swallows others gives them back, or is counted as many.

The law: of the records that a file was written with, those that do not come out are as many as the counted drops.
"""

import codecs
import gzip
import io
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from source_reading import read as all_records
from source_reading import read_and_find as read
from tiers import examples

from corpora.errors import InputError
from corpora.sources.contract import Source
from corpora.sources.files import tables as files_rows
from corpora.sources.files.source import FilesSource
from corpora.sources.files.tables import OpenQuote, read_rows
from corpora.sources.wiki.source import WikipediaSource

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


PARTS = st.sampled_from(['"', '""', "\t", "\n", "\r\n", "a", 'b"c', "\n0\ta"])


@given(st.lists(PARTS, max_size=40), st.integers(1, 9))
@examples(60)
def test_no_byte_is_lost(parts: list[str], piece_bytes: int) -> None:
    """Fails if a line of any table is in no row or in two, or rows depend on the pieces that a file is read in."""
    data, found = "".join(["k\tt\n", *parts]).encode(), []
    for size in (piece_bytes, 1 << 18):
        with pytest.MonkeyPatch.context() as patch, suppress(OpenQuote):
            patch.setattr(files_rows, "PIECE_BYTES", size)
            patch.setattr(files_rows, "STEP_BYTES", piece_bytes)
            found.append([*read_rows(io.BytesIO(data), 10_000, "\t", '"', columns=2)])
    assert not found or (found[0] == found[-1] and len(found) == 2)
    for rows in found:
        at = 0
        for row in rows:
            assert data[at : row.offset].strip(b"\r\n") == b"" and data[row.offset :].startswith(row.data or b"")
            at = row.offset + row.length
        assert data[at:].strip(b"\r\n") == b""


def lines(joined: str, at: int = 7) -> bytes:
    """JSON lines, of which some have lost the sign between them."""
    own = [json.dumps({"text": text, "n": number}) for number, text in enumerate(texts())]
    return ("\n".join([*own[:at], joined.join(own[at : at + 4]), *own[at + 4 :]]) + "\n").encode()


def elements(broken: int, change: Callable[[str], str]) -> bytes:
    """Records of XML as PubMed has them, of which one is changed."""
    own = [
        f"<PubmedArticle><MedlineCitation><PMID>{at}</PMID><Article><ArticleTitle>{text}</ArticleTitle><Abstract>"
        f"<AbstractText>{text}</AbstractText></Abstract></Article></MedlineCitation></PubmedArticle>"
        for at, text in enumerate(texts())
    ]
    own[broken] = change(own[broken])
    return "\n".join(["<PubmedArticleSet>", *own, "</PubmedArticleSet>"]).encode()


def mailbox(change: Callable[[str], str]) -> bytes:
    own = [
        f"From a@b.org Mon Jan  1 10:00:00 2026\nSubject: {at}\nContent-Length: {len(text) + 1}\n\n{text}\n"
        for at, text in enumerate(texts())
    ]
    own[7] = change(own[7])
    return "\n".join([*own, ""]).encode()


def archive(change: Callable[[bytes], bytes]) -> bytes:
    """A WARC archive that is compressed by record, of which one has another head."""
    own = [
        b"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: http://a.org/%d\r\nContent-Type: text/plain\r\n"
        b"WARC-Date: 2026-01-01T00:00:00Z\r\nContent-Length: %d\r\n\r\n%s" % (at, len(text), text.encode())
        for at, text in enumerate(texts())
    ]
    own[7] = change(own[7])
    return b"".join(gzip.compress(record + b"\r\n\r\n") for record in own)


def dump(change: Callable[[str], str]) -> bytes:
    """A dump of a wiki, one page of which is changed."""
    own = [
        f"  <page>\n    <title>Ferry {at}</title>\n    <ns>0</ns>\n    <id>{at + 1}</id>\n    <revision>\n      "
        f"<id>{at + 100}</id>\n      <timestamp>2026-01-01T00:00:00Z</timestamp>\n      <model>wikitext</model>\n      "
        f"<format>text/x-wiki</format>\n      <text>{text.capitalize()}.</text>\n    </revision>\n  </page>\n"
        for at, text in enumerate(texts())
    ]
    own[7] = change(own[7])
    head = "<mediawiki>\n  <siteinfo>\n    <dbname>dewiki</dbname>\n  </siteinfo>\n"
    return f"{head}{''.join(own)}</mediawiki>\n".encode()


OTHERS: dict[str, tuple[str, bytes]] = {
    "lines without their ends": ("a.jsonl", lines("")),
    "lines with spaces for their ends": ("a.jsonl", lines("  ")),
    "lines without their ends, at the beginning": ("a.jsonl", codecs.BOM_UTF8 + lines("", 0)),
    "values without their ends": ("a.json", lines("")),
    "a text that is not closed": ("a.jsonl", lines("\n").replace(b'day 9 was late"', b"day 9 was late")),
    "an object that is not closed": ("a.jsonl", lines("\n").replace(b'"n": 9}', b'"n": 9')),
    "an element that is not closed": ("a.xml", elements(7, lambda one: one.replace("</PubmedArticle>", ""))),
    "an inner element that is not closed": ("a.xml", elements(7, lambda one: one.replace("</PMID>", ""))),
    "an element that is not opened": ("a.xml", elements(7, lambda one: one.replace("<PubmedArticle>", ""))),
    "an attribute that is not closed": ("a.xml", elements(7, lambda one: one.replace("<PMID>", '<PMID a="'))),
    "a message that says it is longer": ("a.mbox", mailbox(lambda one: one.replace("Length: ", "Length: 9"))),
    "a message that says it is shorter": ("a.mbox", mailbox(lambda one: one.replace("Length: ", "Length: 0"))),
    "a message without a blank line after its head": ("a.mbox", mailbox(lambda one: one.replace("\n\n", "\n"))),
    "a page of a wiki that is not closed": ("dewiki.xml", dump(lambda one: one.replace("</page>", ""))),
    "a page of a wiki that is not opened": ("dewiki.xml", dump(lambda one: one.replace("<page>", ""))),
    "a text of a wiki that is not closed": ("dewiki.xml", dump(lambda one: one.replace("</text>", ""))),
    "a page that says it is longer": ("a.warc.gz", archive(lambda one: one.replace(b"Length: ", b"Length: 9"))),
    "a page without a length": ("a.warc.gz", archive(lambda one: one.replace(b"Content-Length", b"Content-Lenght"))),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_lost_is_counted(tmp_path: Path, name: str) -> None:
    """Fails if fewer records are dropped than do not come out."""
    file, data = OTHERS[name]
    (tmp_path / file).write_bytes(data)
    fields = {"text": "text"} if ".json" in file else {}
    path = str(tmp_path / file)
    own: Source = FilesSource(name="own", path=path, fields=fields)
    records = all_records(WikipediaSource(path=path) if file.startswith("dewiki") else own)
    kept, dropped = [[each for each in records if bool(each.drop) is gone] for gone in (False, True)]
    lost = [text for text in texts() if not any(text in each.text.lower() for each in kept)]
    assert len(dropped) == len(lost) <= 1 and all(each.drop and each.drop.damaged for each in dropped)


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
