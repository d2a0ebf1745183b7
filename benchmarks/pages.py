"""Main text of pages: `extract_page` next to the installed extractors, by people's marks and by CPU time.

    python -m benchmarks.pages --text FOLDER    a folder with warc/*.warc.gz and gold/*.jsonl
    python -m benchmarks.pages --kinds PAGES    a .tar.xz or a folder with html/NNNN.html and gold/NNNN.json

Of pages of kinds, as the Web Content eXtraction Benchmark has them, the measure is its authors': F1 of the multisets of
words in small letters, the mean over pages; and how many titles are equal, ignoring case and spaces. The forests were
grown on the 1,497 pages of its development part: `benchmarks.fit_blocks` cross-validates on those, and prints these
rows as well.

A line of gold names its `set`, its page (`warc`, `record_id`), and one of: `text`, the whole expected text;
`expected_html`, the same as HTML; `with` and `without`, pieces of text that must and must not be found.

For whole texts the measure is that of scrapinghub's article-extraction-benchmark (evaluate.py): words are `\\w+`,
a shingle is four of them in a row (a shorter text is one shingle), and shingles are counted as multisets. Of each page
precision is tp / (tp + fp) and recall tp / (tp + fn), both 1 where there is neither fp nor fn; precision is the mean
over the pages where something was found, recall over those where something was to be found, and F1 is the harmonic
mean of these two means. For pieces it is trafilatura's own: a piece of `with` that is found is a true positive, one of
`without` a false one; accuracy and F1 are over all pieces.

The forests were grown on the sets that ../shared/data/cc-news has as well; on others they have seen no page.
"""

import argparse
import importlib
import json
import logging
import re
import tarfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.measuring import figure
from corpora.errors import InputError
from corpora.sources.contract import Tally
from corpora.sources.web.archived_pages import decode_body, read_response
from corpora.sources.web.charset import decode_html
from corpora.sources.web.page import WebPage, extract_page
from corpora.sources.web.tree import PageLimits, Refused, parse_html
from corpora.sources.web.warc import parse_record, parse_warc_head, read_archive

WORD = re.compile(r"\w+")
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")  # which lxml does not take
SHINGLE = 4
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
    title: str | None = None
    by_words: bool = False  # measured by word F1, as pages of kinds are; others by shingles


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


def word_f1(expected: str, extracted: str) -> float:
    """Return F1 of the multisets of words in small letters, as the benchmark of kinds of pages counts it.

    >>> word_f1("The cat sat", "the cat")
    0.8
    """
    left, right = (Counter(WORD.findall(text.lower())) for text in (expected, extracted))
    either = left.total() + right.total()
    return 2 * (left & right).total() / either if either else 1.0


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
    """Return the pages of a folder that have gold. Raises InputError if there are none."""
    lines = [line for path in sorted(folder.glob("gold/*.jsonl")) for line in path.read_text("utf-8").splitlines()]
    pages = {key: page for path in sorted(folder.glob("warc/*.warc.gz")) for key, page in _responses(path)}
    marked = [page for line in lines if (page := _marked(json.loads(line), pages)) is not None]
    if not marked:
        raise InputError(f"{folder} has no page with gold: give --text a folder with warc/*.warc.gz and gold/*.jsonl.")
    return marked


def load_kinds(path: Path) -> list[Marked]:
    """Return the pages of a .tar.xz, or of a folder, with html/NNNN.html and gold/NNNN.json. Raises InputError."""
    if not path.exists():
        raise InputError(f"{path} is not there: give --kinds a .tar.xz or a folder with html/ and gold/.")
    html: dict[str, bytes] = {}
    gold: dict[str, dict[str, Any]] = {}
    for name, data in _members(path):
        if name.suffix == ".html":
            html[name.stem] = data
        elif name.suffix == ".json" and name.parent.name == "gold":
            gold[name.stem] = json.loads(data)
    marked = [_of_kind(html[number], gold[number]) for number in sorted(html.keys() & gold.keys())]
    if not marked:
        raise InputError(f"{path} has no page with gold: give --kinds pages with html/NNNN.html and gold/NNNN.json.")
    return marked


def _members(path: Path) -> Iterator[tuple[Path, bytes]]:
    if path.is_dir():
        yield from ((file, file.read_bytes()) for file in sorted(path.rglob("*.*")))
        return
    with tarfile.open(path) as archive:
        for member in archive:
            if (opened := archive.extractfile(member)) is not None:
                yield Path(member.name), opened.read()


def _of_kind(html: bytes, gold: dict[str, Any]) -> Marked:
    truth = gold["ground_truth"]
    return Marked(
        group=gold["_internal"]["page_type"]["primary"],
        html=decode_html(html, "").text,
        url=gold.get("url", ""),
        text=truth.get("main_content") or "",
        present=tuple(truth.get("with") or ()),
        absent=tuple(truth.get("without") or ()),
        title=truth.get("title"),
        by_words=True,
    )


def _responses(path: Path) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    for cut in read_archive(path, 0, path.stat().st_size, MOST_BYTES, Tally()):
        record = parse_record(cut.data)
        head = parse_warc_head(record.head)
        if head.kind == "response":
            record_id = record.head.get_first(b"warc-record-id").decode()
            response = read_response(record)
            html = decode_html(decode_body(response, MOST_BYTES), response.charset).text
            yield (path.name, record_id), (html, head.url)


def _marked(row: dict[str, Any], pages: dict[tuple[str, str], tuple[str, str]]) -> Marked | None:
    text = row["text"] if "text" in row else _plain(row["expected_html"]) if "expected_html" in row else None
    if text is None and "with" not in row:
        return None
    html, url = pages[row["warc"], row["record_id"]]
    present, absent = tuple(row.get("with", ())), tuple(row.get("without", ()))
    title = row.get("title")
    return Marked(group=row["set"], html=html, url=url, text=text, present=present, absent=absent, title=title)


def _plain(html: str) -> str:
    """Return all text of a piece of HTML, a block to a line."""
    tree = parse_html(html, PageLimits())
    return "" if isinstance(tree, Refused) else "\n".join(block.text for block in tree.blocks)


# The extractors.


def ours(html: str, url: str) -> str:
    """Return what Cloze reads, facts about the page included."""
    page = extract_page(html, url, "9999-12-31")
    return page.text if isinstance(page, WebPage) else ""


def title_of(page: Marked) -> str:
    """Return the title that Cloze reads."""
    read = extract_page(page.html, page.url, "9999-12-31")
    return (read.title or "") if isinstance(read, WebPage) else ""


def as_told(title: str) -> str:
    """Return a title without its case and its spaces but one between words."""
    return " ".join(title.split()).casefold()


def _trafilatura(**settings: bool) -> Callable[[], Extractor]:
    def load() -> Extractor:
        extract = importlib.import_module("trafilatura").extract
        return lambda html, url: extract(html, url=url, include_comments=False, **settings) or ""

    return load


def _trafipy() -> Extractor:
    extract = importlib.import_module("trafipy").extract
    return lambda html, url: str(extract(html, url=url or None).text or "")


def _rs_trafilatura() -> Extractor:
    extract = importlib.import_module("rs_trafilatura").extract
    return lambda html, url: str(extract(html, url=url or None).main_content or "")


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
    "trafipy": _trafipy,
    "rs-trafilatura": _rs_trafilatura,
    "resiliparse": _resiliparse,
    "readability-lxml": _readability,
    "newspaper4k": _newspaper,
}


def print_extractors(pages: Sequence[Marked]) -> None:
    """Print a row for each installed extractor, and at last the names of the others.

    Each page is read by all in turn, so whatever else the machine does slows all alike; the first once before, for what
    is loaded with it.
    """
    logging.disable(logging.CRITICAL)  # messages of libraries about pages they cannot use
    extractors: dict[str, Extractor] = {}
    for name, load in EXTRACTORS.items():
        with suppress(ImportError):
            extractors[name] = load()
    texts: dict[str, list[str]] = {name: [] for name in extractors}
    seconds = dict.fromkeys(extractors, 0.0)
    for extract in extractors.values():
        extract(pages[0].html, pages[0].url)
    for page in pages:
        for name, extract in extractors.items():
            start = time.process_time()
            texts[name].append(extract(page.html, page.url))
            seconds[name] += time.process_time() - start
    for name, found in texts.items():
        print_row(name, {"ms/page": figure(1000 * seconds[name] / len(pages)), **scores(pages, found)})
    absent = ", ".join(EXTRACTORS.keys() - extractors.keys())
    print(f"{len(pages)} pages; F1 of {SHINGLE}-word shingles; not installed: {absent or 'none'}")


def print_row(name: str, row: dict[str, str]) -> None:
    """Print the figures of an extractor."""
    print(f"{name:30}" + "  ".join(f"{column} {value}" for column, value in row.items()), flush=True)


def scores(pages: Sequence[Marked], texts: Sequence[str]) -> dict[str, str]:
    """Return the figures of an extractor: a column for each set of pages, one for all whole texts, one for pieces."""
    counts: dict[str, list[Counts]] = {}
    by_words: dict[str, list[float]] = {}
    for page, text in zip(pages, texts, strict=True):
        if page.text is not None and page.by_words:
            by_words.setdefault(page.group, []).append(word_f1(page.text, text))
        elif page.text is not None:
            counts.setdefault(page.group, []).append(agreement(page.text, text))
    shown = {name: f"{precision_recall(group)[0]:.4f}" for name, group in sorted(counts.items())}
    shown |= {name: f"{mean(group):.4f}" for name, group in sorted(by_words.items())}
    pooled = [count for group in counts.values() for count in group]
    shown |= {"all": f"{precision_recall(pooled)[0]:.4f}"} if pooled else {}
    every = [f1 for group in by_words.values() for f1 in group]
    shown |= {"all kinds": f"{mean(every):.4f}"} if every else {}
    shown["empty"] = f"{sum(bool(page.text) and not text for page, text in zip(pages, texts, strict=True))}"
    with_pieces = [(page, text) for page, text in zip(pages, texts, strict=True) if page.present or page.absent]
    if with_pieces:
        accuracy, f1 = pieces_found([page for page, _ in with_pieces], [text for _, text in with_pieces])
        shown |= {"pieces acc": f"{accuracy:.4f}", "pieces F1": f"{f1:.4f}"}
    return shown


def main() -> None:
    """Print a line per extractor; those that are not installed are named at the end."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--text", type=Path, help="a folder with warc/*.warc.gz and gold/*.jsonl")
    parser.add_argument("--kinds", type=Path, help="pages of kinds: a .tar.xz or a folder with html/ and gold/")
    given = parser.parse_args()
    if not (given.text or given.kinds):
        parser.error("give --text, --kinds or both")
    try:
        pages = [*(load_marked(given.text) if given.text else ()), *(load_kinds(given.kinds) if given.kinds else ())]
    except InputError as error:
        parser.error(str(error))
    titled = [page for page in pages if page.title]
    if titled:
        equal = sum(as_told(title_of(page)) == as_told(page.title or "") for page in titled)
        print(f"titles equal, ignoring case and spaces: {equal / len(titled):.3f} of {len(titled)}")
    print_extractors(pages)


if __name__ == "__main__":
    main()
