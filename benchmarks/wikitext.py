"""Wikitext to prose: `wikitext_to_text` next to mwparserfromhell's `strip_code`, page by page.

The two do not mean the same text: `strip_code` keeps references, captions, category links and the sections of
apparatus, and drops the numbers and dates that are in templates. The report shows how far their words agree.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path

import mwparserfromhell

from benchmarks.measuring import Report, Side, figure, main, side_by_side, spread
from corpora.sources.bytes.bz2_streams import as_utf8, pieces_of
from corpora.sources.wiki.pages import PageCutter, parse_page
from corpora.sources.wiki.source import WikipediaSource
from corpora.sources.wiki.wikitext.prose import is_redirect, wikitext_to_text

SAMPLE = files("corpora") / "samples" / "wikipedia"


def benchmark(texts: Sequence[str], rounds: int) -> list[Report]:
    """Compare pages of wikitext, by both."""
    words = f_measure([wikitext_to_text(page) for page in texts], [strip_code(page) for page in texts])
    sides = [
        Side(name="wikitext_to_text", call=lambda _: [wikitext_to_text(page) for page in texts]),
        Side(name="mwparserfromhell, parse and strip_code", call=lambda _: [strip_code(page) for page in texts]),
    ]
    notes = [f"the words of both agree to an F-measure of {figure(words)}; equality is not defined"]
    return [side_by_side("wikitext", texts, sides, rounds, notes, things="pages")]


def strip_code(page: str) -> str:
    """Return mwparserfromhell's own text of a page."""
    return str(mwparserfromhell.parse(page).strip_code())


def f_measure(ours: Sequence[str], theirs: Sequence[str]) -> float:
    """Return 2 * words in common / all words, each page's words a multiset, without case.

    >>> f_measure(["One two"], ["two, three"])
    0.5
    """
    common = total = 0
    for one, other in zip(ours, theirs, strict=True):
        left, right = (Counter(re.findall(r"\w+", text.lower())) for text in (one, other))
        common += (left & right).total()
        total += left.total() + right.total()
    return 2 * common / total


def load_pages(path: Path | None, megabytes: float) -> list[str]:
    """Return the wikitext of the pages of a dump or of a folder of them, without redirects; None: the shipped sample.

    Raises InputError where there is no dump.
    """
    source = WikipediaSource(path=str(path or SAMPLE))
    return spread([text for _, file in source.files() for text in _pages(file, source.max_page_bytes)], megabytes)


def _pages(dump: Path, max_page_bytes: int) -> Iterator[str]:
    cutter = PageCutter(max_page_bytes)
    for piece in as_utf8(pieces_of(dump)(dump, 0, dump.stat().st_size)):
        for page in cutter.feed(piece):
            text = parse_page(page.data).wikitext
            if text.strip() and not is_redirect(text):
                yield text


if __name__ == "__main__":
    main(benchmark, load_pages)
