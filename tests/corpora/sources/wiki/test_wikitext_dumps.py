"""Dumps in every form: cut anywhere, packed in any way, in UTF-16, in any language; labels; and hostile pages."""

import bz2
import itertools
import json
import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.errors import InputError
from corpora.sources.bytes.bz2_streams import StreamPiece, find_streams, read_at
from corpora.sources.contract import Record, StatCache, Tally, group_slices, hash_files
from corpora.sources.wiki.pages import CutPage, PageCounter, PageCutter
from corpora.sources.wiki.source import WikipediaSource

HEAD = """<mediawiki version="0.11"><siteinfo><base>https://ltg.example.org/wiki/Home</base><namespaces>
<namespace key="-2">Medeja</namespace><namespace key="0" /><namespace key="6">Fails</namespace>
<namespace key="14">Kategoreja</namespace></namespaces></siteinfo>
"""
FOOT = "</mediawiki>\n"
PROSE = "This is the prose of page {0}, which says in a whole sentence that its number is {0}."


def page(number: int, text: str | None = None, title: str | None = None) -> str:
    return (
        f"<page><title>{title or f'Page {number}'}</title><ns>0</ns><id>{number}</id><revision><id>{number + 1000}</id>"
        f"<text>{PROSE.format(number) if text is None else text}</text></revision></page>\n"
    )


def dump(folder: Path, body: str, name: str = "wiki.xml", packed: bytes | None = None) -> Path:
    path = folder / name
    path.write_bytes((HEAD + body + FOOT).encode() if packed is None else packed)
    return path


def read(source: WikipediaSource, part_bytes: int = 1) -> tuple[list[Record], int]:
    """All records and the number of slices, read in groups of slices of about `part_bytes`; the tally checked."""
    (file,) = hash_files(source.files(), StatCache())
    slices, tally = source.slices(file), Tally()
    groups = group_slices(slices, part_bytes)
    records = [record for group in groups for piece in group for record in source.records(piece, tally)]
    assert tally.records == len(records)
    return records, len(slices)


def texts(path: Path, **settings: object) -> list[str]:
    records, _ = read(WikipediaSource(path=str(path), **settings))  # type: ignore[arg-type]
    return [record.text for record in records if record.drop is None]


# Cut anywhere.

SCRAPS = st.sampled_from(
    ["<page>", "</page>", "<page>a</page>", "<pa", "ge>", "</", "page>", "x", "yy<page>z", page(1), page(2, "b" * 50)]
)


def cut(data: bytes, borders: list[int]) -> tuple[list[CutPage], int]:
    """The pages of slices between `borders`, each read alone, and the number of `<page>` tags counted."""
    found: list[CutPage] = []
    counted = 0
    for start, stop in itertools.pairwise(borders):
        cutter, count = PageCutter(200, starts_inside=start > 0), PageCounter()
        counted += count.count_tags(data[start:stop])
        found += cutter.feed(StreamPiece(-1, start, data[start:stop]))
        cutter.stop_here()
        for at in range(stop, len(data), 7):
            counted += count.count_begun_tag(data[at : at + 7]) if at == stop else 0
            found += cutter.feed(StreamPiece(-1, at, data[at : at + 7]))
            if cutter.is_done or not cutter.has_begun:
                break
        found += cutter.finish()
    return found, counted


@given(st.lists(SCRAPS, max_size=12).map("".join), st.lists(st.integers(0, 400), max_size=6))
@settings(deadline=None)
def test_slices_cut_anywhere_give_what_the_whole_gives(text: str, borders: list[int]) -> None:
    """Fails if a page that reaches over a border is lost, read twice, or has another place."""
    data = text.encode()
    inner = sorted({border for border in borders if 0 < border < len(data)})
    whole, counted = cut(data, [0, len(data)])
    assert counted == data.count(b"<page>")
    assert cut(data, [0, *inner, len(data)]) == (whole, counted)


@pytest.mark.parametrize("size", [300, 333, 1000])
def test_a_plain_file_is_cut_and_any_grouping_gives_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    body = "".join(page(n) for n in range(1, 20)) + "stray</page><page>no end" + page(30) + "x" * 2000 + page(31)
    source = WikipediaSource(path=str(dump(tmp_path, body)))
    whole, num_slices = read(source)
    assert num_slices == 1 and len(whole) == 23
    monkeypatch.setattr("corpora.sources.wiki.source.SLICE_BYTES", size)
    for part_bytes in (1, 700, 2500):
        records, num_slices = read(source, part_bytes)
        assert num_slices > 5 and records == whole
    for record in whole[:3]:
        assert source.raw_record(Path(source.path), record.locator) == record.raw


@pytest.mark.parametrize("step", [211, 500, 4000])
def test_a_bz2_file_without_index_is_cut_at_the_streams_found(tmp_path: Path, step: int) -> None:
    """As the parallel packers write it: a stream every so many bytes, wherever that is in a page."""
    noise = random.Random(step)
    body = "".join(page(n, PROSE.format(n) + noise.randbytes(noise.randrange(900)).hex()) for n in range(1, 30))
    data = (HEAD + body + FOOT).encode()
    streams = [bz2.compress(data[at : at + step]) for at in range(0, len(data), step)]
    path = dump(tmp_path, "", "wiki.xml.bz2", b"".join(streams))
    assert find_streams(path) == list(itertools.accumulate(map(len, streams[:-1]), initial=0))
    source = WikipediaSource(path=str(path))
    records, num_slices = read(source)
    assert [record.key for record in records] == [str(n) for n in range(1, 30)]
    assert num_slices > 3 and not any(record.drop for record in records)
    assert read(source, 1 << 30)[0] == read(source, 5000)[0] == records
    for record in records[::5]:
        assert source.raw_record(path, record.locator) == record.raw


# Packed in other ways.


def test_a_zstd_file_is_read_and_a_damaged_one_refused(tmp_path: Path) -> None:
    body = "".join(page(n, PROSE.format(n) * 50) for n in range(1, 200))
    data = (HEAD + body + FOOT).encode()
    packed = pa.Codec("zstd").compress(data, asbytes=True)
    path = dump(tmp_path, "", "enwiki-20260101-pages-articles.xml.zst", packed)
    source = WikipediaSource(path=str(tmp_path))
    records, num_slices = read(source)
    assert num_slices == 1 and [record.key for record in records] == [str(n) for n in range(1, 200)]
    assert source.raw_record(path, records[70].locator) == records[70].raw
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(InputError, match=r"xml\.zst.*(cut off|damaged|ends)"):
        read(source)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_a_dump_in_utf_16_gives_the_same_texts(tmp_path: Path, encoding: str) -> None:
    body = "".join(page(n, PROSE.format(n) + " Größe 日本 \U0001f600.") for n in range(1, 9))
    bom = "\ufeff" if encoding == "utf-16-be" else ""
    packed = (bom + HEAD + body + FOOT).encode(encoding)
    plain = texts(dump(tmp_path, body))
    for name, data in (("a.xml", packed), ("b.xml.bz2", bz2.compress(packed))):
        path = dump(tmp_path, "", name, data)
        assert texts(path) == plain and len(plain) == 8
        source = WikipediaSource(path=str(path))
        records, _ = read(source)
        assert source.raw_record(path, records[5].locator) == records[5].raw
        assert read_at(path, records[5].locator.stream, records[5].locator.offset, 6) == b"<page>"
    with pytest.raises(InputError, match="cut off"):
        texts(dump(tmp_path, "", "c.xml", packed[:-1]))


def test_half_a_character_of_utf_16_costs_its_page_alone(tmp_path: Path) -> None:
    data = (HEAD + page(1) + page(2, "half \u2603 a") + page(3) + FOOT).encode("utf-16")
    path = dump(tmp_path, "", "a.xml", data.replace("\u2603".encode("utf-16-le"), b"\x00\xd8"))
    records, _ = read(WikipediaSource(path=str(path)))
    assert [record.drop.reason if record.drop else "" for record in records] == ["", "damaged", ""]


# Any wiki, any kind of page.


def test_files_and_categories_go_by_the_names_of_the_wiki_itself(tmp_path: Path) -> None:
    text = "[[Fails:a.png|thumb|A view of it]]Pylsāta irā [[Zviedreja|Zviedrejā]].[[Kategoreja:Ort]] [[Medeja:b.ogg|c]]"
    assert texts(dump(tmp_path, page(1, text))) == ["Pylsāta irā Zviedrejā."]


KINDS = {
    "article": "Prose.\n{{citation needed}}\n== A ==\n{{expand section}} {{section-stub}} Text.",
    "stub": "Prose.\n\n{{France-geo-stub}}",
    "disambiguation": "Prose may be:\n{{disambiguation}} {{stub}}",
    "list": "Prose. {{stub}}",
}


def test_pages_are_labelled_and_dropped_by_their_kind(tmp_path: Path) -> None:
    pages = [page(n, text, "List of it" if kind == "list" else None) for n, (kind, text) in enumerate(KINDS.items(), 1)]
    pages += [page(9, "#REDIRECT [[Page 1]]"), page(10, "{{Ébauche|Lieu}} Texte."), page(11, "{{ stub }}Text.")]
    path = dump(tmp_path, "".join(pages))
    kept, _ = read(WikipediaSource(path=str(path), drop=()))
    labels = [json.loads(record.meta)["page"] if record.meta else None for record in kept]
    assert labels == [*KINDS, "redirect", "stub", "stub"]
    assert [record.drop.reason if record.drop else "" for record in kept] == [""] * 4 + ["empty", "", ""]
    dropped, _ = read(WikipediaSource(path=str(path), drop=("stub", "list")))
    reasons = Counter(record.drop.reason for record in dropped if record.drop)
    assert reasons == {"stub": 3, "list": 1, "empty": 1}
    default, _ = read(WikipediaSource(path=str(path)))
    assert Counter(r.drop.reason for r in default if r.drop) == {"disambiguation": 1, "list": 1, "redirect": 1}


def test_the_order_of_kinds_to_drop_changes_no_identity() -> None:
    one = WikipediaSource(path="x", drop=("list", "stub")).settings()
    assert one == WikipediaSource(path="x", drop=("stub", "list", "list")).settings()
    assert one != WikipediaSource(path="x").settings()


def test_headings_are_lines_of_the_text_and_named_in_the_meta(tmp_path: Path) -> None:
    text = "Intro.\n\n== Life ==\nOne.\n\nTwo.\n=== ''Early'' &amp;amp; late ===\nThree."
    text += "\n== References ==\n* x\n== Death ==\n{{x}}"
    (record,) = read(WikipediaSource(path=str(dump(tmp_path, page(1, text)))))[0]
    assert record.text == "Intro.\n\nLife\n\nOne.\n\nTwo.\n\nEarly & late\n\nThree."
    assert record.meta == '{"page":"article","sections":[[2,"Life"],[3,"Early & late"]]}'


def test_formulas_and_lists_are_shown_as_the_settings_say(tmp_path: Path) -> None:
    formula = "\\frac{{a}}{b} [[c]] &amp;lt; {|d|}"
    reason, indented = "The first reason is that water freezes.", "An indented line of six words stays."
    text = f"Let &lt;math&gt;{formula}&lt;/math&gt; be.\n* {reason}\n# Ice\n: {indented}"
    path = dump(tmp_path, page(1, text))
    lines = f"\n{reason}\n{indented}"
    assert texts(path) == [f"Let [formula] be.{lines}"]
    assert texts(path, math="tex") == [r"Let \frac{ {a} }{b} [ [c] ] < { |d| } be." + lines]
    assert texts(path, math="drop", lists="drop") == [f"Let be.\n{indented}"]


def test_a_page_may_write_its_own_title(tmp_path: Path) -> None:
    assert texts(dump(tmp_path, page(1, "'''{{PAGENAME}}''' is a town.", "Ayr"))) == ["Ayr is a town."]


# Hostile pages.

DEEP = 100_000
HOSTILE = {
    "an entity bomb": page(2, "&lol9;"),
    "a document type": "<page><!DOCTYPE x [<!ENTITY a 'b'>]><title>A</title></page>",
    "NUL": page(2, "a\x00b"),
    "a control character as an entity": page(2, "a&#1;b"),
    "half a character as an entity": page(2, "a&#xD800;b"),
    "deep tags": "<page>" + "<a>" * DEEP + "</a>" * DEEP + "</page>",
    "deep tags left open": "<page>" + "<a>" * DEEP + "</page>",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_page_is_a_damaged_drop(tmp_path: Path, what: str) -> None:
    records, _ = read(WikipediaSource(path=str(dump(tmp_path, page(1) + HOSTILE[what] + page(3)))))
    assert [record.drop.reason if record.drop else "" for record in records] == ["", "damaged", ""]


def test_invalid_utf_8_is_a_damaged_drop(tmp_path: Path) -> None:
    data = (HEAD + page(1) + page(2, "caf\u00e9") + page(3) + FOOT).encode("latin-1")
    records, _ = read(WikipediaSource(path=str(dump(tmp_path, "", "a.xml", data))))
    assert [record.drop.reason if record.drop else "" for record in records] == ["", "damaged", ""]


def test_a_page_larger_than_allowed_is_passed_over_however_it_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line of 30 MB over many slices: each reads on at most once, none holds the page."""
    monkeypatch.setattr("corpora.sources.wiki.source.SLICE_BYTES", 1_000_000)
    path = dump(tmp_path, page(1) + page(2, "x" * 30_000_000) + page(3))
    records, num_slices = read(WikipediaSource(path=str(path), max_page_bytes=100_000))
    assert num_slices == 30  # the last 500 bytes are no slice
    assert [record.drop.reason if record.drop else record.key for record in records] == ["1", "too large", "3"]


def test_a_head_that_is_damaged_gives_no_licence_and_no_namespace(tmp_path: Path) -> None:
    """Fails if the head's address or a namespace's number is read by what raises for one that is none."""
    head = HEAD.replace("https://ltg.example.org", "https://[ltg.example.org").replace('"14"', f'"{"9" * 5_000}"')
    path = tmp_path / "wiki.xml"
    path.write_text(head + page(1) + FOOT)
    (record,), _ = read(WikipediaSource(path=str(path)))
    assert (record.drop, record.license) == (None, None)
