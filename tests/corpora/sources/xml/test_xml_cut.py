"""Records cut out of XML by bytes: in pieces of any size, with comments and CDATA, and with tags missing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.sources.xml import cut as xml_cut
from corpora.sources.xml.cut import CutElement, RecordCounter, RecordCutter, find_namespaces

TOKENS = (
    "<rec>|</rec>|<rec a='1'>|<rec/>|<x:rec>|</x:rec>|<!-- <rec> -->|<![CDATA[ </rec> ]]>|<record>|text|<p>|</p>| < |\n"
    "|<rec |<!--|-->|<![CDATA[|]]>|<!-->"
)


def cut(data: bytes, piece_bytes: int, max_bytes: int = 10_000) -> tuple[list[CutElement], RecordCutter, int]:
    """Records, the cutter, and the count of start tags."""
    cutter, count = RecordCutter(("rec",), max_bytes), RecordCounter("rec")
    records: list[CutElement] = []
    number = 0
    for start in range(0, len(data), piece_bytes):
        piece = data[start : start + piece_bytes]
        records += cutter.feed(piece)
        number += count.feed(piece)
    return [*records, *cutter.finish()], cutter, number + count.finish()


@settings(deadline=None)
@given(st.lists(st.sampled_from(TOKENS.split("|")), max_size=14).map("".join), st.integers(1, 12))
def test_pieces_of_any_size_give_the_same_records(text: str, piece_bytes: int) -> None:
    """Fails if a tag, comment or section that two pieces share is overlooked, or the count differs."""
    data = text.encode()
    records, cutter, number = cut(data, piece_bytes)
    whole, one, counted = cut(data, len(data) or 1)
    assert records == whole and number == counted
    assert (cutter.open_start, cutter.is_closed, cutter.root, cutter.head) == (
        one.open_start,
        one.is_closed,
        one.root,
        one.head,
    )
    assert number == sum(record.fault != "no start" for record in records) + (cutter.open_start is not None)
    for record in records:
        assert record.data == data[record.offset : record.offset + record.length]


@settings(deadline=None)
@given(st.lists(st.sampled_from(TOKENS.split("|")), max_size=14).map("".join))
def test_tags_are_found_where_the_pattern_finds_them(text: str) -> None:
    """Fails if the quick search for the next tag passes over one, or sees one that is none."""
    data = text.encode()
    cutter = RecordCutter(("rec",), 10_000)
    at, places = 0, {needle: data.find(needle) for needle in cutter._needles}
    for expected in cutter._tag.finditer(data):
        found = cutter._find_tag(data, at, len(data), places)
        assert found is not None and found.span() == expected.span()
        at = found.end()
    assert cutter._find_tag(data, at, len(data), places) is None


def test_every_byte_belongs_to_the_record_that_it_is_in() -> None:
    data = b"<?xml version='1.0'?><set><!-- <rec> --><rec a='>'>1<p/></rec>\n<rec/><recs/><n:rec>2</n:rec></set>"
    records, cutter, number = cut(data, 7)
    assert [record.data for record in records] == [b"<rec a='>'>1<p/></rec>", b"<rec/>", b"<n:rec>2</n:rec>"]
    assert (cutter.root, cutter.is_closed, cutter.open_start, number) == (b"set", True, None, 3)
    assert cutter.head == b"<?xml version='1.0'?><set><!-- <rec> -->"


def test_a_comment_that_begins_in_a_section_is_none() -> None:
    """Fails if the count takes the rest of the file for a comment."""
    records, _, number = cut(b"<set><rec><![CDATA[ <!-- ]]></rec><rec>2</rec></set>", 1_000)
    assert ([record.fault for record in records], number) == (["", ""], 2)


def test_missing_tags_cost_one_record() -> None:
    data = b"<set><rec>1</rec><rec>2<rec>3</rec>4</rec><rec>5</rec></set>"
    records, _, number = cut(data, 5)
    assert [(record.data, record.fault) for record in records] == [
        (b"<rec>1</rec>", ""),
        (b"<rec>2", "no end"),
        (b"<rec>3</rec>", ""),
        (b"</rec>", "no start"),
        (b"<rec>5</rec>", ""),
    ]
    assert number == 4


def test_a_record_that_is_too_large_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xml_cut, "MAX_TAG_BYTES", 50)
    data = b"<set><rec>" + b"x" * 5000 + b"</rec><rec>" + b"< " * 2000 + b"</rec><rec>ok</rec></set>"
    records, cutter, number = cut(data, 10, max_bytes=100)
    assert [(record.length, record.data, record.fault) for record in records] == [
        (5011, b"", "too large"),
        (4011, b"", "too large"),
        (13, b"<rec>ok</rec>", ""),
    ]
    assert number == 3 and cutter.is_closed and len(cutter._tail) < 100


def test_namespaces_of_the_head_hold_in_a_record() -> None:
    head = b"<set xmlns=\"d\" xmlns:a='one' xmlns:b=\"two\"><x xmlns:a='three'>"
    assert find_namespaces(head) == b" xmlns:a='three' xmlns:b=\"two\""
