"""The shipped news archive: packed from its pages, true to its form, and read as its articles alone."""

import html
import re
from collections import Counter
from typing import Any

import pack_cc_news as pack
from shipped import documents, dropped

FOLDER = pack.FOLDER
PAGES = FOLDER / "pages"
ARCHIVE = FOLDER / pack.ARCHIVE_NAME

PARAGRAPH = re.compile(r"<p\b[^>]*>(.*?)</p>", re.IGNORECASE | re.DOTALL)
# No paragraph of an article is as short, no line of the matter around the articles as long.
SHORTEST = 100
SUBHEADINGS = {"Twice a year with the shears", "What happens next", "No chainsaws"}
# Short lines around the articles of the paper whose pages are laid out by tables: they count for next to nothing in
# the measure by which the forests are grown, and stay. Nothing else of a page does.
LEFT = {
    "Weather\nShowers, 6°", "Small ads\nPonies\nHay\nPianos", "Printer-friendly version Write to the editor",
    "Norman Siddall, 14 December 2025", "Enid Garside, 8 September 2025", "Staff reporter, 3 January 2026",
    "Hollin Rovers 3 Brackwater United 2 (after extra time)", "Rain fails to dampen Hollin Show",
    "Walter Skaife, keeper of the Hollin clock, dies at 93", "Milk float leads the way as flood-hit bridge opens",
}  # fmt: skip


def visits() -> list[pack.Visit]:
    return pack.read_visits(FOLDER / "crawl.toml")


def is_of(row: dict[str, Any], visit: pack.Visit) -> bool:
    return (row["url"], row["revision"]) == (visit.url, int(re.sub(r"\D", "", visit.time)))


def text_of(slug: str) -> str:
    """The text of the document that a page became."""
    [visit] = [visit for visit in visits() if visit.page.endswith(f"-{slug}.html") and not visit.first_seen]
    [row] = [row for row in documents("cc_news") if is_of(row, visit)]
    return str(row["text"])


def long_paragraphs(page: str) -> list[str]:
    """The paragraphs of the article on a page: its long ones, without markup."""
    parts = [part for found in PARAGRAPH.findall(page) for part in re.split(r"(?i)(?:<br\s*/?>\s*){2,}", found)]
    texts = [html.unescape(re.sub(r"<[^>]+>", "", part)) for part in parts]
    lines = [re.sub(r"\s+", " ", text).strip() for text in texts]
    return [line for line in lines if len(line) > SHORTEST]


def test_the_pages_pack_to_the_shipped_records() -> None:
    """Fails if a page or the crawl was edited and the archive not packed again."""
    # Records, not bytes: another zlib may compress otherwise.
    assert pack.unpack(ARCHIVE.read_bytes()) == list(pack.archive_records(visits(), PAGES))
    assert {path.name for path in PAGES.iterdir()} == {visit.page for visit in visits()} - {""}


def test_what_is_read_and_what_is_dropped() -> None:
    """Fails if a record of another kind passes for a page, or a page is lost."""
    rows, reasons = documents("cc_news"), Counter(f"{row['step']}: {row['reason']}" for row in dropped("cc_news"))
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
    titles = {row["reason"]: row["title"] for row in dropped("cc_news")}
    assert titles["gopher.min_words"] == "Sections"
    assert titles["other language"].startswith("Besuch aus der Partnerstadt")
    # Sixteen articles, one of them corrected, and one that another paper reprints.
    assert len(rows) == 18 and len({row["id"] for row in rows}) == 17
    assert len({row["group"] for row in rows}) == 4
    assert {row["language"] for row in rows} == {"en"}


def test_titles_and_dates_are_those_of_the_pages() -> None:
    """Fails if the day of the crawl stands for a day that a page names."""
    assert {row["date"] for row in documents("cc_news")} > {"2025-09-08", "2025-11-24", "2025-12-03", "2026-01-03"}
    for row in documents("cc_news"):
        [page] = {visit.page for visit in visits() if visit.page and not visit.first_seen and is_of(row, visit)}
        source = (PAGES / page).read_text(encoding="utf-8")
        heading = re.search(r"<h[12]\b[^>]*>(.*?)</h[12]>", source, re.IGNORECASE)
        assert heading and row["title"].endswith(html.unescape(heading[1]))
        assert row["date"] in source


def test_a_document_is_its_article() -> None:
    """Fails if a paragraph is lost, or anything but a subheading came in between or around."""
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
    assert subheadings - LEFT == SUBHEADINGS


def _broken_part(page: str) -> str:
    """The body of the article whose encoding was broken; the rest of the page is sound."""
    return page.partition('<div class="entry-content">')[2].partition('<div class="entry-footer">')[0]


def test_encodings_are_told_apart() -> None:
    """Fails if a label is believed that the bytes contradict, or a byte order mark is not seen."""
    [cup] = [record for record in pack.unpack(ARCHIVE.read_bytes()) if b"charset=ISO-8859-1" in record]
    assert b"\x93I was only trying" in cup  # no character of ISO 8859-1
    assert "\u201cI was only trying to waste a few seconds,\u201d he said" in text_of("dale-cup")
    assert "Agn\u00e8s Loubet" in text_of("fish-auction") and "prices \u2014 particularly" in text_of("fish-auction")
    assert "\u00a338, compared with \u00a395" in text_of("barber-hearing")
    assert "\u00a34.3 million" in text_of("bridge-reprint") and "\ufffd" not in str(documents("cc_news"))


def test_the_later_crawl_supersedes() -> None:
    """Fails if the two are no revisions of one document, or the wrong one is the later."""
    both = [row for row in documents("cc_news") if row["url"].endswith("/pool-to-open-at-dawn")]
    first, second = sorted(both, key=lambda row: int(row["revision"]))
    assert first["id"] == second["id"] and first["revision"] == 20260103002130
    assert "fourteen votes to nine" in first["text"] and "Correction" not in first["text"]
    assert "fifteen votes to eight" in second["text"] and "Correction: an earlier version" in second["text"]
