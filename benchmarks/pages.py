"""Main text of pages: `extract_page` next to the installed extractors, by people's marks and by CPU time.

    python -m benchmarks.pages --text FOLDER    a folder with warc/*.warc.gz and gold/*.jsonl

A line of gold names its `set`, its page (`warc`, `record_id`), and one of: `text`, the whole expected text;
`expected_html`, the same as HTML; `with` and `without`, pieces of text that must and must not be found.

For whole texts the measure is that of scrapinghub's article-extraction-benchmark (evaluate.py): words are `\\w+`,
a shingle is four of them in a row (a shorter text is one shingle), and shingles are counted as multisets. Of each page
precision is tp / (tp + fp) and recall tp / (tp + fn), both 1 where there is neither fp nor fn; precision is the mean
over the pages where something was found, recall over those where something was to be found, and F1 is the harmonic
mean of these two means. For pieces it is trafilatura's own: a piece of `with` that is found is a true positive, one of
`without` a false one; accuracy and F1 are over all pieces.

Our weights were fitted on the sets aeb, newspaper and readability and have seen no page of the others.
"""

import argparse
import importlib
import json
import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.measuring import figure
from corpora.errors import InputError
from corpora.sources.contract import Tally
from corpora.sources.web.charset import decode_html
from corpora.sources.web.page import WebPage, extract_page
from corpora.sources.web.response import decoded_body, read_response
from corpora.sources.web.tree import PageLimits, Refused, parse_page
from corpora.sources.web.warc import open_record, parse_head, read_archive

WORD = re.compile(r"\w+")
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")  # which lxml does not take
SHINGLE = 4
FITTED = ("aeb", "newspaper", "readability")
MOST_BYTES = 1 << 28

Extractor = Callable[[str, str], str]  # (page, address) -> main text
Counts = tuple[int, int, int]  # true positives, false positives, false negatives


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """A page and what people expect of it. text: whole, or None where only pieces are known."""

    group: str
    html: str
    url: str
    text: str | None
    present: tuple[str, ...]
    absent: tuple[str, ...]


# The measure.


def shingles(text: str) -> Counter[tuple[str, ...]]:
    """Return the multiset of runs of four words.

    >>> sorted(shingles("a b c d e"))
    [('a', 'b', 'c', 'd'), ('b', 'c', 'd', 'e')]
    """
    words = WORD.findall(text)
    return Counter(tuple(words[at : at + SHINGLE]) for at in range(max(1, len(words) - SHINGLE + 1)) if words)


def agreement(expected: str, extracted: str) -> Counts:
    """Return the shingles in common, too many, and missing."""
    left, right = shingles(expected), shingles(extracted)
    common = (left & right).total()
    return common, right.total() - common, left.total() - common


def precision_recall(counts: Sequence[Counts]) -> tuple[float, float, float]:
    """Return (F1, precision, recall) over pages, each page alike.

    >>> precision_recall([(3, 1, 0), (1, 0, 1)])
    (0.8076923076923077, 0.875, 0.75)
    """
    precision = mean([1.0 if fp == fn == 0 else tp / (tp + fp) for tp, fp, fn in counts if tp + fp] or [0.0])
    recall = mean([1.0 if fp == fn == 0 else tp / (tp + fn) for tp, fp, fn in counts if tp + fn] or [0.0])
    both = precision + recall
    return (2 * precision * recall / both if both else 0.0), precision, recall


def pieces_found(pages: Sequence[Marked], texts: Sequence[str]) -> tuple[float, float]:
    """Return (accuracy, F1) over the pieces that must and must not be found."""
    tp = fp = fn = tn = 0
    for page, text in zip(pages, texts, strict=True):
        hits, faults = (sum(piece in text for piece in pieces) for pieces in (page.present, page.absent))
        tp, fn = tp + hits, fn + len(page.present) - hits
        fp, tn = fp + faults, tn + len(page.absent) - faults
    return (tp + tn) / max(1, tp + fp + fn + tn), 2 * tp / max(1, 2 * tp + fp + fn)


# The pages.


def load_marked(folder: Path) -> list[Marked]:
    """Return the pages of a folder that have gold. Raises InputError where there are none."""
    lines = [line for path in sorted(folder.glob("gold/*.jsonl")) for line in path.read_text("utf-8").splitlines()]
    pages = {key: page for path in sorted(folder.glob("warc/*.warc.gz")) for key, page in _responses(path)}
    marked = [page for line in lines if (page := _marked(json.loads(line), pages)) is not None]
    if not marked:
        raise InputError(f"{folder} has no page with gold: give --text a folder with warc/*.warc.gz and gold/*.jsonl.")
    return marked


def _responses(path: Path) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    for cut in read_archive(path, 0, path.stat().st_size, MOST_BYTES, Tally()):
        record = open_record(cut.data)
        head = parse_head(record.head)
        if head.kind == "response":
            record_id = record.head.first(b"warc-record-id").decode()
            response = read_response(record)
            html = decode_html(decoded_body(response, MOST_BYTES), response.charset).text
            yield (path.name, record_id), (html, head.url)


def _marked(row: dict[str, Any], pages: dict[tuple[str, str], tuple[str, str]]) -> Marked | None:
    text = row["text"] if "text" in row else _plain(row["expected_html"]) if "expected_html" in row else None
    if text is None and "with" not in row:
        return None
    html, url = pages[row["warc"], row["record_id"]]
    present, absent = tuple(row.get("with", ())), tuple(row.get("without", ()))
    return Marked(group=row["set"], html=html, url=url, text=text, present=present, absent=absent)


def _plain(html: str) -> str:
    """Return all text of a piece of HTML, a block to a line."""
    tree = parse_page(html, PageLimits())
    return "" if isinstance(tree, Refused) else "\n".join(block.text for block in tree.blocks)


# The extractors.


def ours(html: str, url: str) -> str:
    """Return what Cloze reads, facts about the page included."""
    page = extract_page(html, url, "9999-12-31")
    return page.text if isinstance(page, WebPage) else ""


def _trafilatura(**settings: bool) -> Callable[[], Extractor]:
    def load() -> Extractor:
        extract = importlib.import_module("trafilatura").extract
        return lambda html, url: extract(html, url=url, include_comments=False, **settings) or ""

    return load


def _resiliparse() -> Extractor:
    extract = importlib.import_module("resiliparse.extract.html2text").extract_plain_text
    return lambda html, url: str(extract(html, main_content=True, alt_texts=False, links=False, list_bullets=False))


def _readability() -> Extractor:
    document = importlib.import_module("readability").Document
    return lambda html, url: _plain(document(CONTROL.sub("", html)).summary())


def _newspaper() -> Extractor:
    article = importlib.import_module("newspaper").Article

    def extract(html: str, url: str) -> str:
        parsed = article(url)
        parsed.download(input_html=html)
        try:
            parsed.parse()
        except (ImportError, LookupError):  # of what it wants for some languages
            return ""
        return str(parsed.text)

    return extract


EXTRACTORS: dict[str, Callable[[], Extractor]] = {
    "Cloze": lambda: ours,
    "trafilatura": _trafilatura(),
    "trafilatura, fast, no tables": _trafilatura(include_tables=False, fast=True),
    "trafilatura, recall": _trafilatura(include_tables=False, favor_recall=True),
    "resiliparse": _resiliparse,
    "readability-lxml": _readability,
    "newspaper4k": _newspaper,
}


def run_all(pages: Sequence[Marked], extract: Extractor) -> tuple[list[str], float]:
    """Return (the texts, CPU seconds). The first page is read once before, for what is loaded with it."""
    extract(pages[0].html, pages[0].url)
    start = time.process_time()
    texts = [extract(page.html, page.url) for page in pages]
    return texts, time.process_time() - start


def scores(pages: Sequence[Marked], texts: Sequence[str]) -> dict[str, str]:
    """Return the figures of an extractor: a column for each set of pages, one for all whole texts, one for pieces."""
    counts: dict[str, list[Counts]] = {}
    for page, text in zip(pages, texts, strict=True):
        if page.text is not None:
            counts.setdefault(page.group, []).append(agreement(page.text, text))
    pooled = [count for group in counts.values() for count in group]
    held = [count for name, group in counts.items() if name not in FITTED for count in group]
    shown = {name: f"{precision_recall(group)[0]:.4f}" for name, group in sorted(counts.items())}
    shown |= {"unseen": f"{precision_recall(held)[0]:.4f}"} if held else {}
    shown |= {"all": f"{precision_recall(pooled)[0]:.4f}"} if pooled else {}
    with_pieces = [(page, text) for page, text in zip(pages, texts, strict=True) if page.present or page.absent]
    if with_pieces:
        accuracy, f1 = pieces_found([page for page, _ in with_pieces], [text for _, text in with_pieces])
        shown |= {"pieces acc": f"{accuracy:.4f}", "pieces F1": f"{f1:.4f}"}
    return shown


def main() -> None:
    """Print a line per extractor; those that are not installed are named at the end."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--text", type=Path, required=True, help="a folder with warc/*.warc.gz and gold/*.jsonl")
    logging.disable(logging.CRITICAL)  # messages of libraries about pages they cannot use
    try:
        pages = load_marked(parser.parse_args().text)
    except InputError as error:
        parser.error(str(error))
    absent = []
    for name, load in EXTRACTORS.items():
        try:
            extract = load()
        except ImportError:
            absent.append(name)
            continue
        texts, seconds = run_all(pages, extract)
        row = {"ms/page": figure(1000 * seconds / len(pages)), **scores(pages, texts)}
        print(f"{name:30}" + "  ".join(f"{column} {value}" for column, value in row.items()), flush=True)
    print(f"{len(pages)} pages; F1 of {SHINGLE}-word shingles; not installed: {', '.join(absent) or 'none'}")


if __name__ == "__main__":
    main()
