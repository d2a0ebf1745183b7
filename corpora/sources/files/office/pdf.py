"""PDF to paragraphs, by pypdfium2 (the PDF reader of Chromium), which is imported when such a file is met.

A PDF has characters at places on pages, and no paragraphs: what is given here is the order in which its writer put the
text, column after column in most, with lines joined as their lengths say. A line at the top or bottom of three pages
or more, whatever its numbers, is a running title and goes; a word cut at a line's end is one again. Lines of a table of
contents go by their dots. Pictures of text have none: such a file is empty.

Promises: nothing is fetched and no script is run. Cost: about 3 MB of text a second.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING

from corpora.sources.bytes.faults import BadRecord
from corpora.sources.files.office.package import LargeDocument, LockedDocument, OfficeDocument

if TYPE_CHECKING:
    import pypdfium2

LIBRARY = "pypdfium2"
HOW_TO_INSTALL = "PDF is read with the extra `documents`: `make install`, or pip install 'cloze-pipeline[documents]'"
EDGE_LINES = 3  # at the top and at the bottom of a page, where running titles are
MIN_TITLE_PAGES, MIN_TITLE_SHARE = 3, 0.02  # that a running title is on
MIN_WRAPPED = 0.8  # of the width: so long is a line that the next continues in a sentence
MIN_FULL = 0.95  # and at the end of a sentence
CUT = re.compile(r"(\w*)\ufffe(\w*)")  # where pdfium joined a word that was cut at a line's end
NUMBER = re.compile(r"\d+|\b[ivxlc]+\b")
ONLY_NUMBER = re.compile(r"[\W_]*(?:page )?(?:\d{1,5}|[ivxlc]{1,8})(?:[\W_]+(?:of )?\d{1,5})?[\W_]*", re.I)
ITEM = re.compile(r"(?:[•◦▪‣·–*-]|\(?(?:\d{1,3}|[a-z]|[ivx]{1,4})[.)])\s")  # noqa: RUF001 - a dash of lists
NUMBERED = re.compile(r"(?:\d{1,3}\.)+\d{0,3}\s+[A-Z]|(?:Article|Section|Chapter|Appendix)\s+[\dIVXA-Z]+\b|§")
ENDED = re.compile(r"[.!?:;][\"'”’)\]]*\Z")  # noqa: RUF001 - typographic quotes
LEADERS = re.compile(r"(?:\.[ .]){4,} ?(?:\d{1,5}|[ivxlc]{1,8})\Z")  # of a table of contents
DATE = re.compile(r"D:(\d{4})(\d\d)(\d\d)")


def can_read_pdf() -> bool:
    """Return True if the library for reading PDF files is installed."""
    return find_spec(LIBRARY) is not None


def read_pdf(data: bytes, max_characters: int) -> OfficeDocument:
    """Read the paragraphs, title and date of a PDF from its bytes.

    Raises:
        BadRecord: If the file is damaged or not a PDF.
        LockedDocument: If the file needs a password.
        LargeDocument: If the text has more than `max_characters` characters.
    """
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if "assword" in str(error) or "ecurity" in str(error):
            raise LockedDocument(f"a password is needed: {error}") from error
        raise BadRecord(f"no PDF, or a damaged one: {error}") from error
    try:
        pages, left = [], max_characters
        for number in range(len(document)):
            pages.append(_read_page_text(document, number))
            left -= len(pages[-1])
            if left < 0:
                raise LargeDocument(f"over {max_characters} characters by page {number + 1}")
        metadata = document.get_metadata_dict()
    except pypdfium2.PdfiumError as error:
        raise BadRecord(f"page {len(pages) + 1} cannot be read: {error}") from error
    finally:
        document.close()
    made = DATE.match(metadata.get("CreationDate", ""))
    return OfficeDocument(
        paragraphs=tuple(build_paragraphs(pages)),
        title=" ".join(metadata.get("Title", "").split()) or None,
        date="-".join(made.groups()) if made else None,
    )


def _read_page_text(document: "pypdfium2.PdfDocument", number: int) -> str:
    """Return the text of the page with index `number` (from 0), with its line breaks."""
    page = document[number]
    text_page = page.get_textpage()
    try:
        text: str = text_page.get_text_range()
        return text
    finally:
        text_page.close()
        page.close()


def build_paragraphs(pages: Sequence[str]) -> list[str]:
    r"""Join the lines of pages into paragraphs. Running titles, page numbers and tables of contents are removed.

    >>> build_paragraphs(["The ferry was late, for there was fog in the\r\nharbour and on the sea.\r\nWe waited."])
    ['The ferry was late, for there was fog in the harbour and on the sea. We waited.']
    """
    kept = (line for page in without_titles([_split_lines(page) for page in pages]) for line in page)
    lines = [line for line in kept if not LEADERS.search(line)]
    width = _measure_width(lines)
    words = Counter(word.strip(".,;:()") for line in lines for word in line.lower().split())
    lines = [CUT.sub(lambda match: _join_cut_word(match[1], match[2], words), line) for line in lines]
    paragraphs: list[str] = []
    for before, line in pairwise(["", *lines]):
        if paragraphs and _is_continued(before, line, width):
            paragraphs[-1] = _join_line(paragraphs[-1], line, words)
        else:
            paragraphs.append(line)
    return paragraphs


def _split_lines(page: str) -> list[str]:
    """Return the nonblank lines of a page with single spaces."""
    return [plain for line in page.replace("\0", "").splitlines() if (plain := " ".join(line.split()))]


def without_titles(pages: Sequence[list[str]]) -> Iterator[list[str]]:
    """Yield the lines of each page, without page numbers and lines that are repeated at the edges of several pages.

    Args:
        pages: The nonblank lines of each page.
    """
    edges = Counter(form for page in pages for form in {_replace_numbers(page[at]) for at in _list_edge_lines(page)})
    least = max(MIN_TITLE_PAGES, MIN_TITLE_SHARE * len(pages))
    for page in pages:
        titles = {
            at
            for at in _list_edge_lines(page)
            if edges[_replace_numbers(page[at])] >= least or ONLY_NUMBER.fullmatch(page[at])
        }
        yield [line for at, line in enumerate(page) if at not in titles]


def _list_edge_lines(page: Sequence[str]) -> list[int]:
    """Return the indices of the first three and last three lines of a page."""
    size = len(page)
    return [at for at in range(size) if at < EDGE_LINES or at >= size - EDGE_LINES]


def _replace_numbers(line: str) -> str:
    """Return a line in lower case, with each number replaced by "#"."""
    return NUMBER.sub("#", line.lower())


def _measure_width(lines: Sequence[str]) -> int:
    """Return the line length, in characters, that 90% of the lines do not exceed; 0 if there are no lines."""
    lengths = sorted(map(len, lines))
    return lengths[int(0.9 * (len(lengths) - 1))] if lengths else 0


def _is_continued(before: str, line: str, width: int) -> bool:
    """Return True if a line continues the previous line's paragraph.

    The previous line must be full, and this line must not start anything new.

    Args:
        before: The previous line.
        line: The line.
        width: Length of a full line, in characters.
    """
    if ITEM.match(line) or NUMBERED.match(line):
        return False
    ended = ENDED.search(before) is not None
    room = len(before) + 1 + len(line.partition(" ")[0])
    return (line[0].islower() and not ended) or room > (MIN_FULL if ended else MIN_WRAPPED) * width


def _join_line(text: str, line: str, words: Counter[str]) -> str:
    """Join a line to the text before it.

    If the text ends with a hyphen that only divides a word, the hyphen is removed. `words` counts the document's words
    in lower case.
    """
    if not text.endswith("-") or text.endswith((" -", "--")):
        return f"{text} {line}"
    head, tail = text.rpartition(" ")[2][:-1].lower(), line.partition(" ")[0].lower().rstrip(".,;:)")
    return text[:-1] + line if words[f"{head}{tail}"] and not words[f"{head}-{tail}"] else text + line


def _join_cut_word(head: str, tail: str, words: Counter[str]) -> str:
    """Join the two parts of a word that was split at the end of a line.

    The hyphen is kept if the second part is capitalized, or if the word occurs elsewhere in the document only with a
    hyphen. `words` counts the document's words in lower case.
    """
    whole, hyphened = f"{head}{tail}", f"{head}-{tail}"
    is_hyphened = tail[:1].isupper() or (words[hyphened.lower()] and not words[whole.lower()])
    return hyphened if is_hyphened and head else whole
