"""Wikipedia dumps: counts by other means, locators, slices, and every kind of damage."""

import bz2
import itertools
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from source_reading import raw_file, read
from tiers import LONG, a_few

from corpora.errors import InputError
from corpora.sources.bytes.bz2_streams import (
    MAX_BLOCK_BYTES,
    PIECE_BYTES,
    StreamPiece,
    read_at,
    read_bz2_pieces,
    verify_pieces,
)
from corpora.sources.bytes.faults import DamagedBytes
from corpora.sources.contract import Record, group_slices
from corpora.sources.wiki.pages import CutPage, PageCutter
from corpora.sources.wiki.source import WikipediaSource

HEAD = b"""<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">
  <siteinfo>
    <dbname>enwiki</dbname>
    <base>https://en.wikipedia.org/wiki/Main_Page</base>
    <namespaces>
      <namespace key="0" case="first-letter" />
      <namespace key="10" case="first-letter">Template</namespace>
    </namespaces>
  </siteinfo>
"""
FOOT = b"</mediawiki>\n"
PROSE = "This is the prose of page {0}, which says in a whole sentence that its number is {0}."


def page(number: int, text: str | None = None, title: str | None = None, more: str = "", ns: str = "0") -> bytes:
    wikitext = PROSE.format(number) if text is None else text
    namespace = f"<ns>{ns}</ns>" if ns else ""
    return (
        f"  <page>\n    <title>{title or f'Page {number}'}</title>\n    {namespace}\n    <id>{number}</id>\n{more}"
        f"    <revision>\n      <id>{1000 + number}</id>\n      <timestamp>2024-05-06T07:08:09Z</timestamp>\n"
        f'      <model>wikitext</model>\n      <text xml:space="preserve">{wikitext}</text>\n    </revision>\n'
        "  </page>\n"
    ).encode()


def write_multistream(folder: Path, streams: list[list[bytes]], name: str = "enwiki-20260101") -> Path:
    """A dump of one stream for the head, one for each list of pages and one for the foot, with its index."""
    dump = folder / f"{name}-pages-articles-multistream.xml.bz2"
    data, lines = bz2.compress(HEAD), []
    for pages in streams:
        for number in re.findall(rb"<id>(\d+)</id>\n(?! *<timestamp)", b"".join(pages)):
            lines.append(f"{len(data)}:{number.decode()}:Page {number.decode()}\n")
        data += bz2.compress(b"".join(pages))
    dump.write_bytes(data + bz2.compress(FOOT))
    index = folder / f"{name}-pages-articles-multistream-index.txt.bz2"
    index.write_bytes(bz2.compress("".join(lines).encode()))
    return dump


def write_xml(folder: Path, pages: Iterable[bytes], name: str = "enwiki-20260101-pages-articles.xml") -> Path:
    path = folder / name
    data = HEAD + b"".join(pages) + FOOT
    path.write_bytes(bz2.compress(data) if name.endswith(".bz2") else data)
    return path


def reasons(records: list[Record]) -> Counter[str]:
    return Counter(record.drop.reason if record.drop else "document" for record in records)


def check_locators(source: WikipediaSource, records: list[Record]) -> None:
    path = Path(raw_file(source).path)
    for record in records:
        found = source.raw_record(path, record.locator)
        assert found.startswith(b"<page>") and found.endswith(b"</page>") and len(found) == record.locator.length
        assert f"<id>{record.key}</id>".encode() in found and f"<id>{record.revision}</id>".encode() in found


def test_a_page_becomes_a_record(tmp_path: Path) -> None:
    source = WikipediaSource(path=str(write_xml(tmp_path, [page(7, title="A &amp; B: 50%?")])))
    (record,) = read(source)
    assert (record.key, record.revision, record.title) == ("7", 1007, "A & B: 50%?")
    assert record.text == PROSE.format(7)
    assert record.url == "https://en.wikipedia.org/wiki/A_%26_B:_50%25%3F"
    assert (record.date, record.license, record.drop) == ("2024-05-06T07:08:09Z", "CC BY-SA 4.0", None)
    check_locators(source, [record])


def test_drops_have_their_reasons(tmp_path: Path) -> None:
    pages = [
        page(1, ns="10", title="Template:X"),
        page(2, "#REDIRECT [[Target of it]]"),
        page(3, more='    <redirect title="Elsewhere" />\n'),
        page(4, "'''X''' may refer to:\n{{disambiguation}}"),
        page(5, title="List of things"),
        page(6, " \n"),
        page(8).replace(b"<model>wikitext", b"<model>Scribunto"),
        page(9),
    ]
    records = read(WikipediaSource(path=str(write_xml(tmp_path, pages))))
    found = [(record.drop.reason, record.drop.detail) if record.drop else None for record in records]
    assert found == [
        ("namespace", "10"),
        ("redirect", "Target of it"),
        ("redirect", "Elsewhere"),
        ("disambiguation", ""),
        ("list", ""),
        ("empty", ""),
        ("model", "Scribunto"),
        None,
    ]
    assert not any(record.drop.damaged for record in records if record.drop)


def test_settings_keep_what_they_say(tmp_path: Path) -> None:
    pages = [page(1, ns="10", title="Template:X"), page(5, title="List of things")]
    path = str(write_xml(tmp_path, pages))
    assert reasons(read(WikipediaSource(path=path, drop=()))) == {"namespace": 1, "document": 1}
    assert reasons(read(WikipediaSource(path=path, namespaces=(0, 10)))) == {"document": 1, "list": 1}
    assert WikipediaSource(path=path).settings() == WikipediaSource(path="elsewhere", name="other").settings()
    assert WikipediaSource(path=path).settings() != WikipediaSource(path=path, lists="drop").settings()


def test_old_schema_without_namespace_numbers(tmp_path: Path) -> None:
    pages = [page(1, ns="", title="Template:X"), page(2, ns="", title="2001: A Space Odyssey")]
    records = read(WikipediaSource(path=str(write_xml(tmp_path, pages))))
    assert [record.drop.reason if record.drop else None for record in records] == ["namespace", None]


@pytest.mark.parametrize(
    ("name", "license"),
    [
        ("enwiki-20230606-pages-articles.xml", "CC BY-SA 3.0"),
        ("enwiki-20230607-pages-articles.xml", "CC BY-SA 4.0"),
        ("enwiki-20080101-pages-articles.xml", "GFDL"),
        ("enwiki-latest-pages-articles.xml", "CC BY-SA 4.0"),
    ],
)
def test_license_by_the_dumps_date_or_the_revisions(tmp_path: Path, name: str, license: str) -> None:
    source = WikipediaSource(path=str(write_xml(tmp_path, [page(1)], name)))
    assert [record.license for record in read(source)] == [license]


def test_slices_are_the_streams_and_any_grouping_gives_the_same_records(tmp_path: Path) -> None:
    streams = [[page(10 * s + n) for n in range(1, 4)] for s in range(5)]
    source = WikipediaSource(path=str(write_multistream(tmp_path, streams)))
    slices = source.slices(raw_file(source))
    assert len(slices) == 5 and slices[-1].stop == raw_file(source).size_bytes and slices[0].start > 0
    alone = read(source)
    assert [record.key for record in alone] == [str(10 * s + n) for s in range(5) for n in range(1, 4)]
    for part_bytes in (1, 2 * (slices[0].stop - slices[0].start), 1 << 30):
        joined = [piece for group in group_slices(slices, part_bytes) for piece in group]
        assert read(source, joined) == alone
    assert len({record.locator.stream for record in alone}) == 5
    check_locators(source, alone)


def test_pages_across_bzip2_streams_cut_anywhere(tmp_path: Path) -> None:
    data = HEAD + b"".join(page(n, PROSE.format(n) * 20) for n in range(1, 9)) + FOOT
    cuts = [0, 100, len(HEAD) + 3, len(HEAD) + 700, 5000, 5001, len(data) - 4, len(data)]
    path = tmp_path / "enwiki-20260101-pages-articles.xml.bz2"
    path.write_bytes(b"".join(bz2.compress(data[a:b]) for a, b in itertools.pairwise(cuts)))
    source = WikipediaSource(path=str(path))
    records = read(source)
    assert [record.key for record in records] == [str(n) for n in range(1, 9)]
    assert len({record.locator.stream for record in records}) > 2
    check_locators(source, records)


@pytest.mark.parametrize("size", [7, 64, 10_000])
def test_a_page_that_is_too_large_is_never_held(size: int) -> None:
    data = page(1) + page(2, "x" * 5000) + page(3)
    cut: list[CutPage] = []
    cutter, held = PageCutter(max_page_bytes=1000), 0
    for start in range(0, len(data), size):
        cut += cutter.feed(StreamPiece(-1, start, data[start : start + size]))
        held = max(held, len(cutter._buffer))
    assert [found.fault for found in cut] == ["", "too large", ""]
    assert cut[1].data == b"" and cut[1].length == len(page(2, "x" * 5000).strip())
    assert held <= 1000 + size


def test_damage_in_one_page_stays_there(tmp_path: Path) -> None:
    broken = [
        page(2).replace(b"</title>", b"</titel>"),
        page(3, "an &undefined; entity"),
        page(4, "a control \x01 character"),
        page(5).replace(b"<id>5</id>", b""),
        page(6).replace(b"<id>6</id>", b"<id>six</id>"),
        page(7).replace(b"</page>", b""),
        page(8),
        page(9).replace(b"<page>", b""),
        page(10).replace(b"</page>", b"") + page(11).replace(b"<page>", b""),
    ]
    source = WikipediaSource(path=str(write_xml(tmp_path, [page(1), *broken, page(12)])))
    records = read(source)
    assert [record.key for record in records if record.drop is None] == ["1", "8", "12"]
    damaged = [record.drop for record in records if record.drop]
    assert len(damaged) == 8 and all(drop.damaged and drop.reason == "damaged" and drop.detail for drop in damaged)


def _flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


@pytest.mark.parametrize("where", [0, 4, 40, -30])
@pytest.mark.parametrize("joined", [False, True])
def test_a_damaged_stream_costs_what_its_index_promises(tmp_path: Path, where: int, joined: bool) -> None:
    streams = [[page(10 * s + n) for n in range(1, 4)] for s in range(4)]
    dump = write_multistream(tmp_path, streams)
    source = WikipediaSource(path=str(dump))
    whole = source.slices(raw_file(source))
    _flip(dump, (whole[1].start if where >= 0 else whole[1].stop) + where)
    slices = source.slices(raw_file(source))
    if joined:
        slices = list(group_slices(slices, 1 << 30)[0])
        assert len(slices) == 1
    records = read(source, slices)
    assert [record.key for record in records] == [str(10 * s + n) for s in range(4) for n in range(1, 4)]
    lost = [record for record in records if record.drop]
    assert [record.key for record in lost] == ["11", "12", "13"]
    assert all(record.drop and record.drop.damaged and record.title for record in lost)


def test_of_a_stream_read_in_part_the_rest_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a stream too large to be held back whole: its first pages are out when the damage is found."""
    monkeypatch.setattr("corpora.sources.bytes.bz2_streams.MAX_BLOCK_BYTES", 1)
    random_text = random.Random(2)
    pages = [page(n, PROSE.format(n) + random_text.randbytes(100_000).hex()) for n in range(1, 13)]
    dump = write_multistream(tmp_path, [[page(50)], pages, [page(20)]])
    _flip(dump, raw_start(dump) - 3)
    records = read(WikipediaSource(path=str(dump)))
    assert [record.key for record in records] == ["50", *map(str, range(1, 13)), "20"]
    assert [bool(record.drop) for record in records[:4] + records[-2:]] == [False] * 4 + [True, False]


def test_every_single_bit_of_a_stream_counts(tmp_path: Path) -> None:
    """No flip anywhere in a stream lets a wrong text through: its pages are right, or damaged drops."""
    dump = write_multistream(tmp_path, [[page(1), page(2)], [page(3)]])
    source = WikipediaSource(path=str(dump))
    first = source.slices(raw_file(source))[0]
    good, damaged = dump.read_bytes(), 0
    for position in range(first.start, first.stop, 7):
        dump.write_bytes(good)
        _flip(dump, position)
        records = read(source)
        assert [record.key for record in records] == ["1", "2", "3"]
        assert all(record.drop or record.text == PROSE.format(record.key) for record in records)
        damaged += sum(bool(record.drop) for record in records)
    assert damaged > 20


def test_a_flip_without_index_refuses_the_file(tmp_path: Path) -> None:
    path = write_xml(tmp_path, [page(n) for n in range(50)], "enwiki-20260101-pages-articles.xml.bz2")
    source = WikipediaSource(path=str(path))
    _flip(path, path.stat().st_size // 2)
    with pytest.raises(InputError, match="damaged"):
        read(source)


@pytest.mark.parametrize("cut", [1, 20, 100])
def test_a_truncated_file_is_refused(tmp_path: Path, cut: int) -> None:
    indexed = write_multistream(tmp_path, [[page(1)], [page(2), page(3)]])
    alone = write_xml(tmp_path, [page(1), page(2)], "dewiki-20260101-pages-articles.xml.bz2")
    for path in (indexed, alone):
        path.write_bytes(path.read_bytes()[:-cut])
        with pytest.raises(InputError, match=rf"{path.name}.*(cut off|ends).*[Dd]ownload"):
            read(WikipediaSource(path=str(path)))


def test_a_file_cut_at_the_end_of_a_stream_is_refused(tmp_path: Path) -> None:
    dump = write_multistream(tmp_path, [[page(1)], [page(2)]])
    foot = len(bz2.compress(FOOT))
    dump.write_bytes(dump.read_bytes()[:-foot])
    with pytest.raises(InputError, match="cut off"):
        read(WikipediaSource(path=str(dump)))
    dump.write_bytes(dump.read_bytes()[: raw_start(dump)])
    with pytest.raises(InputError, match="do not belong together"):
        read(WikipediaSource(path=str(dump)))


def raw_start(dump: Path) -> int:
    """Return where the second stream of pages begins, by the index."""
    index = dump.with_name(dump.name.replace("multistream.xml", "multistream-index.txt"))
    return max(int(line.split(b":")[0]) for line in bz2.decompress(index.read_bytes()).splitlines())


def test_a_plain_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    path = write_xml(tmp_path, [page(1), page(2)])
    path.write_bytes(path.read_bytes()[:-150])
    with pytest.raises(InputError, match="cut off"):
        read(WikipediaSource(path=str(path)))


def test_pages_without_a_root(tmp_path: Path) -> None:
    path = tmp_path / "some.xml"
    path.write_bytes(page(1) + page(2)[:-20])
    records = read(WikipediaSource(path=str(path)))
    assert [record.drop.detail if record.drop else None for record in records] == [
        None,
        "the page has no end",
    ]


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("x.xml", b"<html></html>", "no MediaWiki dump"),
        ("x.xml.bz2", b"BZh9 no", "is it a bzip2 file"),
        ("x.xml.bz2", bz2.compress(b"just text"), "no MediaWiki dump"),
        ("x.xml.zst", b"no zstd", "cannot be read"),
        ("x.xml", b"", "no MediaWiki dump"),
    ],
)
def test_what_is_no_dump_is_refused(tmp_path: Path, name: str, data: bytes, says: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=f"(?i){says}"):
        read(WikipediaSource(path=str(tmp_path / name)))


@pytest.mark.parametrize("lines", [b"", b"no index\n", b"5:1:A\n9:2:B\n", b"x:1:A\n"])
def test_a_wrong_index_is_refused(tmp_path: Path, lines: bytes) -> None:
    dump = write_multistream(tmp_path, [[page(1)], [page(2)]])
    index = dump.with_name(dump.name.replace("multistream.xml", "multistream-index.txt"))
    index.write_bytes(bz2.compress(lines))
    with pytest.raises(InputError, match="index"):
        read(WikipediaSource(path=str(dump)))


def test_a_wiki_that_holds_no_articles_is_refused(tmp_path: Path) -> None:
    head = HEAD.replace(b"en.wikipedia.org", b"en.wiktionary.org")
    (tmp_path / "d.xml").write_bytes(head + page(1) + FOOT)
    with pytest.raises(InputError, match=r"is a dump of en\.wiktionary\.org, whose pages are entries of a dict"):
        read(WikipediaSource(path=str(tmp_path / "d.xml")))


NOT_ENGLISH = HEAD.replace(b"en.wikipedia.org", b"nl.wikipedia.org")
NO_ADDRESS = HEAD.replace(b"<base>https://en.wikipedia.org/wiki/Main_Page</base>", b"").replace(b'"en"', b'"nl"')
OWN_ADDRESS = HEAD.replace(b"en.wikipedia.org", b"wiki.example.org")


@pytest.mark.parametrize(
    ("name", "head", "is_dutch"),
    [
        ("d.xml", NOT_ENGLISH, True),
        ("d.xml", NO_ADDRESS, True),
        ("d.xml", OWN_ADDRESS.replace(b'"en"', b'"nl"'), True),
        ("nlwiki-20260101-pages-articles.xml", HEAD, True),
        ("nlwiki.xml", HEAD, True),
        ("nlwiki.xml", OWN_ADDRESS, False),
        ("mywiki.xml", HEAD, False),
        ("samplewiki-20260101-pages-articles.xml", HEAD, False),
        ("d.xml", HEAD, False),
    ],
)
def test_a_page_is_read_by_its_wiki(tmp_path: Path, name: str, head: bytes, is_dutch: bool) -> None:
    """Fails if a file's name, its address or its language does not lead to the wiki's templates and form of numbers."""
    pages = [page(1, "Er zijn {{formatnum:12345.6}} huizen."), page(2, "Hier staat: {{dp}}")]
    (tmp_path / name).write_bytes(head + b"".join(pages) + FOOT)
    records = read(WikipediaSource(path=str(tmp_path / name)))
    assert records[0].text == ("Er zijn 12.345,6 huizen." if is_dutch else "Er zijn 12,345.6 huizen.")
    assert (records[1].drop is not None and records[1].drop.reason == "disambiguation") == is_dutch


def test_files_are_the_dumps_of_one_wiki(tmp_path: Path) -> None:
    write_multistream(tmp_path, [[page(1)]])
    assert [name for name, _ in WikipediaSource(path=str(tmp_path)).files()] == [
        "enwiki-20260101-pages-articles-multistream.xml.bz2"
    ]
    write_xml(tmp_path, [page(1)], "dewiki-20260101-pages-articles.xml")
    with pytest.raises(InputError, match="dewiki, enwiki"):
        WikipediaSource(path=str(tmp_path)).files()
    with pytest.raises(InputError, match="`path`"):
        WikipediaSource(path=str(tmp_path / "missing.xml.bz2")).files()


def test_pieces_are_bounded_and_read_at_reads_across_streams(tmp_path: Path) -> None:
    data = bytes(range(256)) * 4000
    path = tmp_path / "x.bz2"
    path.write_bytes(bz2.compress(data[:500_000]) + bz2.compress(data[500_000:]))
    pieces = list(read_bz2_pieces(path, 0, path.stat().st_size))
    assert b"".join(piece.data for piece in pieces) == data
    assert max(len(piece.data) for piece in pieces) <= PIECE_BYTES
    assert read_at(path, 0, 499_990, 20) == data[499_990:500_010]


def test_all_dumps_of_the_samples_are_read(shared: Path) -> None:
    dumps = sorted((shared / "data" / "wikipedia").rglob("*wiki*.xml.bz2"))
    dumps = [dump for dump in dumps if "wiktionary" not in dump.name]
    assert len(dumps) >= 9
    utf16 = 0
    for dump in a_few(dumps, 3):
        xml = bz2.decompress(dump.read_bytes())
        source = WikipediaSource(path=str(dump))
        if xml.startswith(b"\xff\xfe"):
            utf16 += 1
            xml = xml.decode("utf-16").encode()
        records = read(source)
        assert len(records) == xml.count(b"<page>")
        assert not any(record.drop.damaged for record in records if record.drop)
        check_locators(source, records[:: max(1, len(records) // 3)])
    assert utf16 == 1 or not LONG


def test_verified_passes_no_wrong_byte_on(tmp_path: Path) -> None:
    """bzip2 gives bytes of a block out before it compares the block's checksum."""
    data = random.Random(1).randbytes(700_000)
    path = tmp_path / "x.bz2"
    good = bz2.compress(data[:1000]) + bz2.compress(data)
    second, wrong = len(bz2.compress(data[:1000])), 0
    for part in range(1, 10):
        path.write_bytes(good)
        _flip(path, second + (len(good) - second) * part // 10)
        checked = stream_bytes(verify_pieces(read_bz2_pieces(path, 0, len(good))))
        assert checked == data[:1000]
        wrong += not (data[:1000] + data).startswith(stream_bytes(read_bz2_pieces(path, 0, len(good))))
    assert wrong > 0, "no flip showed why bytes are held back"


def stream_bytes(pieces: Iterator[StreamPiece]) -> bytes:
    """Return what pieces hold until their stream turns out damaged."""
    found = b""
    with pytest.raises(DamagedBytes):
        for piece in pieces:
            found += piece.data
    return found


def test_verified_holds_back_no_more_than_a_block_can_become() -> None:
    data = bytes(1_000_000)

    def pieces() -> Iterator[StreamPiece]:
        for number in range(60):
            yield StreamPiece(0, number * len(data), data)
        raise DamagedBytes("the stream is damaged", 1, stream=0)

    counted = []
    with pytest.raises(DamagedBytes):
        for piece in verify_pieces(pieces()):
            counted.append(piece.offset)
    assert counted == [number * len(data) for number in range(60 - -(-MAX_BLOCK_BYTES // len(data)))]
