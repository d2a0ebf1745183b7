"""The shipped news archive: packed from its pages, true to its form, and read as its articles alone."""

import base64
import hashlib
import html
import json
import re
import zlib
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pack_cc_news as pack
import pytest

from corpora.errors import InputError
from corpora.judging.batches import judge_records
from corpora.judging.settings import DocumentsSettings
from corpora.sources.contract import RawFile, Record, Tally
from corpora.sources.web.source import CcNewsSource

FOLDER = pack.FOLDER
PAGES = FOLDER / "pages"
ARCHIVE = FOLDER / pack.ARCHIVE_NAME

PARAGRAPH = re.compile(r"<p\b[^>]*>(.*?)</p>", re.IGNORECASE | re.DOTALL)
# No paragraph of an article is as short, no line of the matter around the articles as long.
SHORTEST = 100
SUBHEADINGS = {"Twice a year with the shears", "What happens next", "No chainsaws"}
# What is around the articles: each occurs in the archive, none in a document.
BOILERPLATE = (
    "We use cookies", "Accept all", "Your choices", "112 partners", "Skip to content", "Log in", "Read next",
    "Advertisement", "Half-price gutters", "Continue reading below", "More on this", "The Courier by email",
    "Seven stories at seven", "All rights reserved", "Share this", "Copy link", "Picture: Courier archive",
    "Photograph: Ledger", "harbourwatcher", "chip shop", "High water today", "The Slow Breakfast", "Posted in",
    "Tagged", "Recent stories", "registered charity", "free articles left", "Most read", "3 minute read", "Topics:",
    "Gift this article", "Ledger House", "Privacy policy", "Printer-friendly", "Write to the editor", "Small ads",
    "Other stories", "You are visitor", "Guestbook", "dataLayer", "schema.org", "min-height",
)  # fmt: skip


class Packed(NamedTuple):
    """A record of the archive, by hand: fields of its head, what is below, and the gzip member's first bytes."""

    fields: dict[str, str]
    block: bytes
    start: bytes


@cache
def members() -> tuple[tuple[bytes, bytes], ...]:
    """The gzip members of the archive, each as (first bytes, content)."""
    found, rest = [], ARCHIVE.read_bytes()
    while rest:
        member = zlib.decompressobj(wbits=31)
        found.append((rest[:8], member.decompress(rest)))
        assert member.eof
        rest = member.unused_data
    return tuple(found)


def packed_records() -> list[Packed]:
    records = []
    for start, record in members():
        head, _, rest = record.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        assert first == "WARC/1.0" and rest.endswith(b"\r\n\r\n")
        records.append(Packed(dict(line.split(": ", 1) for line in lines), rest[:-4], start))
    return records


def visits() -> list[pack.Visit]:
    return pack.read_visits(FOLDER / "crawl.toml")


def source_records() -> list[Record]:
    data = ARCHIVE.read_bytes()
    file = RawFile(name=ARCHIVE.name, sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data), path=str(ARCHIVE))
    source, tally = CcNewsSource(path=str(ARCHIVE)), Tally()
    records = [record for piece in source.slices(file) for record in source.records(piece, tally)]
    assert tally.records == len(records) == len(members())
    return records


@cache
def judged() -> tuple[tuple[dict[str, Any], ...], tuple[dict[str, Any], ...]]:
    """The rows of documents and of dropped records."""
    found = judge_records(source_records(), "cc-news", DocumentsSettings())
    return tuple(found.documents.to_pylist()), tuple(found.dropped.to_pylist())


def text_of(slug: str) -> str:
    """The text of the document that a page became."""
    [visit] = [visit for visit in visits() if visit.page.endswith(f"-{slug}.html") and not visit.first_seen]
    revision = int(re.sub(r"\D", "", visit.time))
    [row] = [row for row in judged()[0] if row["url"] == visit.url and row["revision"] == revision]
    text = row["text"]
    assert isinstance(text, str)
    return text


def long_paragraphs(page: str) -> list[str]:
    """The paragraphs of the article on a page: its long ones, without markup."""
    parts = [part for found in PARAGRAPH.findall(page) for part in re.split(r"(?i)(?:<br\s*/?>\s*){2,}", found)]
    texts = [html.unescape(re.sub(r"<[^>]+>", "", part)) for part in parts]
    lines = [re.sub(r"\s+", " ", text).strip() for text in texts]
    return [line for line in lines if len(line) > SHORTEST]


def five_grams(text: str) -> list[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return [tuple(words[i : i + 5]) for i in range(len(words) - 4)]


def test_the_pages_pack_to_the_shipped_records() -> None:
    """Fails where a page or the crawl was edited and the archive not packed again."""
    # Records, not bytes: another zlib may compress otherwise.
    assert [content for _, content in members()] == list(pack.archive_records(visits(), PAGES))
    assert {path.name for path in PAGES.iterdir()} == {visit.page for visit in visits()} - {""}


def test_each_record_is_true_to_its_form() -> None:
    """Fails where a length, a digest or an id is wrong, or a gzip member has the time or a name in its head."""
    records = packed_records()
    for fields, block, start in records:
        assert start == b"\x1f\x8b\x08\0\0\0\0\0"
        assert int(fields["Content-Length"]) == len(block)
        sha1 = hashlib.sha1(block, usedforsecurity=False).digest()
        assert fields["WARC-Block-Digest"] == "sha1:" + base64.b32encode(sha1).decode()
    assert len({fields["WARC-Record-ID"] for fields, _, _ in records}) == len(records) == 30
    dates = [fields["WARC-Date"] for fields, _, _ in records]
    assert all(early <= late for early, late in pairwise(dates))


def test_the_kinds_of_records_are_there() -> None:
    records = packed_records()
    kinds = Counter(fields["WARC-Type"] for fields, _, _ in records)
    assert kinds == {"warcinfo": 1, "request": 5, "response": 23, "revisit": 1}
    [revisit] = [fields for fields, _, _ in records if fields["WARC-Type"] == "revisit"]
    same = [fields for fields, _, _ in records if fields.get("WARC-Date") == revisit["WARC-Refers-To-Date"]]
    assert {fields["WARC-Payload-Digest"] for fields in same if fields["WARC-Type"] == "response"} == {
        revisit["WARC-Payload-Digest"]
    }
    heads = [block.split(b"\r\n\r\n")[0].decode() for _, block, _ in records]
    for line in ("HTTP/1.1 404 Not Found", "Content-Type: image/png", "Content-Length: 0", "charset=windows-1252",
                 "charset=ISO-8859-1", "Content-Encoding: gzip", "Transfer-Encoding: chunked"):  # fmt: skip
        assert sum(line in head for head in heads) == 1, line
    bodies = [block.partition(b"\r\n\r\n")[2] for _, block, _ in records]
    assert sum(body.startswith(b"\xff\xfe<\0") for body in bodies) == 1


def test_what_is_read_and_what_is_dropped() -> None:
    """Fails where a record of another kind passes for a page, or a page is lost."""
    documents, dropped = judged()
    reasons = Counter(f"{row['step']}: {row['reason']}" for row in dropped)
    assert reasons == {
        "parse: not a page: warcinfo": 1,
        "parse: not a page: request": 5,
        "parse: not a page: revisit": 1,
        "parse: content type": 1,
        "parse: http status": 1,
        "parse: empty": 1,
        "language: other language": 1,
        "rules: gopher.min_words": 1,
    }
    titles = {row["reason"]: row["title"] for row in dropped}
    assert titles["gopher.min_words"] == "Sections"
    assert titles["other language"].startswith("Besuch aus der Partnerstadt")
    # Sixteen articles, one of them corrected, and one that another paper reprints.
    assert len(documents) == 18 and len({row["id"] for row in documents}) == 17
    assert len({row["group"] for row in documents}) == 4
    assert {row["language"] for row in documents} == {"en"}


def test_titles_and_dates_are_those_of_the_pages() -> None:
    """Fails where the day of the crawl stands for a day that a page names."""
    assert {row["date"] for row in judged()[0]} > {"2025-09-08", "2025-11-24", "2025-12-03", "2026-01-03"}
    for row in judged()[0]:
        [page] = {visit.page for visit in visits() if visit.url == row["url"] and _revision(visit) == row["revision"]}
        source = (PAGES / page).read_text(encoding="utf-8")
        heading = re.search(r"<h[12]\b[^>]*>(.*?)</h[12]>", source, re.IGNORECASE)
        assert heading and row["title"].endswith(html.unescape(heading[1]))
        assert row["date"] in source


def _revision(visit: pack.Visit) -> int:
    return int(re.sub(r"\D", "", visit.time))


def test_a_document_is_its_article() -> None:
    """Fails where a paragraph is lost, or anything but a subheading came in between or around."""
    subheadings = set()
    for path in sorted(PAGES.glob("[01]*.html")):
        if "german" in path.name:
            continue
        page = path.read_text(encoding="utf-8")
        if "pedal-cafe" in path.name:
            page = re.sub(r"[^\x00-\x7f]+", lambda found: found[0].encode("cp1252").decode(), _broken_part(page))
        lines = text_of(path.stem.partition("-")[2]).split("\n\n")
        assert [line for line in lines if len(line) > SHORTEST] == long_paragraphs(page), path.name
        subheadings |= {line for line in lines if len(line) <= SHORTEST}
    assert subheadings == SUBHEADINGS


def _broken_part(page: str) -> str:
    """The body of the article whose encoding was broken; the rest of the page is sound."""
    return page.partition('<div class="entry-content">')[2].partition('<div class="entry-footer">')[0]


def test_nothing_around_the_articles_is_left() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in PAGES.glob("[01]*.html"))
    documents = "\n\n".join(row["text"] for row in judged()[0])
    assert [phrase for phrase in BOILERPLATE if phrase not in sources] == []
    assert [phrase for phrase in BOILERPLATE if phrase in documents] == []


def test_encodings_are_told_apart() -> None:
    """Fails where a label is believed that the bytes contradict, or a byte order mark is not seen."""
    [cup] = [block for _, block, _ in packed_records() if b"charset=ISO-8859-1" in block]
    assert b"\x93I was only trying" in cup  # no character of ISO 8859-1
    assert "\u201cI was only trying to waste a few seconds,\u201d he said" in text_of("dale-cup")
    assert "Agn\u00e8s Loubet" in text_of("fish-auction") and "prices \u2014 particularly" in text_of("fish-auction")
    assert "\u00a338, compared with \u00a395" in text_of("barber-hearing")
    assert "\u00a34.3 million" in text_of("bridge-reprint") and "\ufffd" not in str(judged()[0])


def test_the_compressed_body_is_the_page() -> None:
    """Fails where chunks or gzip are wrong in a way that the reader forgives."""
    [block] = [block for _, block, _ in packed_records() if b"Transfer-Encoding: chunked" in block]
    rest, body, sizes = block.partition(b"\r\n\r\n")[2], b"", []
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        sizes.append(int(size, 16))
        body, rest = body + rest[: sizes[-1]], rest[sizes[-1] + 2 :]
    assert len(sizes) > 3 and sizes[-1] == 0
    assert zlib.decompress(body, wbits=31) == (PAGES / "13-second-violin.html").read_bytes()


@pytest.mark.parametrize("size", [0, 1, pack.STORED_BYTES, pack.STORED_BYTES + 1, 3 * pack.STORED_BYTES])
def test_stored_gzip_gives_any_length_back(size: int) -> None:
    """Fails where the last block is not marked, or one is longer than its length can say."""
    data = bytes(range(256)) * (size // 256 + 1)
    assert zlib.decompress(pack.gzip_stored(data[:size]), wbits=31) == data[:size]


def test_the_broken_encoding_is_mended() -> None:
    page = (PAGES / "14-pedal-cafe.html").read_text(encoding="utf-8")
    assert "CafÃ©" in page and "isnâ€™t" in page
    text = text_of("pedal-cafe")
    assert "Café Zoë has no plug" in text and "isn\u2019t a stunt" in text and "£22,000" in text and "Naïve" in text
    assert not re.search("[Ãâ€]", text)


def test_the_later_crawl_supersedes() -> None:
    """Fails where the two are no revisions of one document, or the wrong one is the later."""
    first, second = sorted(
        (row for row in judged()[0] if row["url"].endswith("/pool-to-open-at-dawn")), key=lambda row: row["revision"]
    )
    assert first["id"] == second["id"] and first["revision"] == 20260103002130
    assert "fourteen votes to nine" in first["text"] and "Correction" not in first["text"]
    assert "fifteen votes to eight" in second["text"] and "Correction: an earlier version" in second["text"]


def test_the_reprint_is_near() -> None:
    one, other = (set(five_grams(text_of(slug))) for slug in ("coldwater-bridge", "bridge-reprint"))
    assert 0.82 <= len(one & other) / len(one | other) <= 0.95


def test_the_prose_repeats_hardly_anything() -> None:
    twins = {text_of(slug) for slug in ("bridge-reprint", "dawn-swimmers")}
    assert len(twins) == 2
    texts = [row["text"] for row in judged()[0] if row["text"] not in twins]
    assert all(250 <= len(text.split()) <= 350 for text in texts)
    assert 26_000 < sum(map(len, texts)) < 34_000
    grams = [gram for text in texts for gram in five_grams(text)]
    assert len(set(grams)) / len(grams) >= 0.99


GOOD = {"url": "https://a.example/b", "time": "2026-01-03T00:00:00Z", "content_type": "text/html"}
GOOD_VISIT = pack.Visit(url=GOOD["url"], time=GOOD["time"], content_type=GOOD["content_type"])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"agent": "x"}, "visit 1: agent = 'x' is no key"),
        ({"request": 1}, "visit 1: request = 1 is no key with such a value"),
        ({"time": "today"}, "visit 1: time = 'today' is not like"),
        ({"first_seen": "2026"}, "visit 1: first_seen = '2026' is not like"),
        ({"url": None}, "visit 1 lacks url"),
    ],
)
def test_a_wrong_visit_is_refused(tmp_path: Path, change: dict[str, str | int | None], complaint: str) -> None:
    path = tmp_path / "crawl.toml"
    table = {key: value for key, value in {**GOOD, **change}.items() if value is not None}
    path.write_text("[[visit]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items()))
    with pytest.raises(InputError, match=re.escape(complaint)) as caught:
        pack.read_visits(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", ["[[visit]", "", "[visit]\n", 'visit = "x"\n'])
def test_a_file_of_no_visits_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "crawl.toml"
    path.write_text(content)
    with pytest.raises(InputError, match=r"no TOML|no \[\[visit\]\] tables"):
        pack.read_visits(path)


def test_a_visit_to_no_page_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no such page; correct the visit to https://a\.example/b"):
        pack.page_body(replace(GOOD_VISIT, page="01.html"), tmp_path)


@pytest.mark.parametrize("encoding", ["windows-1252", "klingon"])
def test_a_page_that_its_encoding_cannot_say_is_refused(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "01.html").write_text("\u2192", encoding="utf-8")
    with pytest.raises(InputError, match=rf"01\.html cannot be sent in {encoding}"):
        pack.page_body(replace(GOOD_VISIT, page="01.html", encoding=encoding), tmp_path)
