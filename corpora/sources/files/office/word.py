"""Word's `.docx` to paragraphs: the text as it reads now, in the order of the document, tables row by row.

What was inserted under revision is there, what was deleted is not; text boxes come before the paragraph that they hang
on, footnotes and endnotes after the body, a row of a table is a paragraph with tabs between its cells. Not there:
headers, footers, comments, tables of contents, and numbers that Word itself counts (of lists and headings).

Promises and costs: those of `package.py`. Memory: the text.
"""

from dataclasses import dataclass, field
from io import BytesIO

from corpora.sources.bytes.faults import BadRecord
from corpora.sources.files.office.package import DEEPEST, Handler, OfficeDocument, open_package

WORD_SPACES = (
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",
)
MAIN_PART = "word/document.xml"
PASSED_OVER = frozenset(("del", "moveFrom", "pPr", "rPr", "sectPr", "tblPr", "trPr", "tcPr", "Fallback"))
SIGNS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
NO_NOTES = frozenset(("separator", "continuationSeparator", "continuationNotice"))


def read_docx(data: bytes, max_bytes: int) -> OfficeDocument:
    """A document from the bytes of its file. Raises BadRecord, LockedDocument, LargeDocument.

    max_bytes: what may be unpacked in all
    """
    with open_package(BytesIO(data), max_bytes) as package:
        main = package.main_part(MAIN_PART)
        body = _Body()
        package.parse(main, body)
        folder = main.rpartition("/")[0]
        for name in ("footnotes.xml", "endnotes.xml"):
            package.parse(f"{folder}/{name}", body, needed=False)
        core = package.core()
    return OfficeDocument(paragraphs=tuple(body.paragraphs), title=core.title, date=core.date)


@dataclass(slots=True)
class _Paragraph:
    pieces: list[str] = field(default_factory=list)
    contents: bool = False  # a line of a table of contents


class _Body(Handler):
    """The paragraphs of a body, or of notes."""

    def __init__(self) -> None:
        self.paragraphs: list[str] = []
        self._open: list[_Paragraph] = []
        self._cells: list[list[str]] = []  # of each open cell, its paragraphs
        self._rows: list[list[str]] = []  # of each open row, its cells
        self._passing = self._depth = 0
        self._in_text = False

    def begin(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise BadRecord(f"elements are nested over {DEEPEST} deep")
        space, _, name = tag.rpartition(" ")
        if name == "pStyle" and self._open and _value(attributes, "val").lower().startswith("toc"):
            self._open[-1].contents = True
        if self._passing or name in PASSED_OVER or _value(attributes, "type") in NO_NOTES:
            self._passing += 1
        elif space in WORD_SPACES:
            self._begin_word(name, attributes)

    def _begin_word(self, name: str, attributes: dict[str, str]) -> None:
        if name == "p":
            self._open.append(_Paragraph())
        elif name == "tr":
            self._rows.append([])
        elif name == "tc":
            self._cells.append([])
        elif name in SIGNS and self._open:
            self._open[-1].pieces.append(SIGNS[name])
        self._in_text = name == "t"

    def end(self, tag: str) -> None:
        self._depth -= 1
        self._in_text = False
        if self._passing:
            self._passing -= 1
            return
        space, _, name = tag.rpartition(" ")
        if space not in WORD_SPACES:
            return
        if name == "p" and self._open:
            paragraph = self._open.pop()
            self._add("" if paragraph.contents else "".join(paragraph.pieces))
        elif name == "tc" and self._cells:
            cell = " ".join(self._cells.pop())
            if self._rows:
                self._rows[-1].append(cell)
        elif name == "tr" and self._rows:
            self._add("\t".join(cell for cell in self._rows.pop() if cell))

    def text(self, data: str) -> None:
        if self._in_text and self._open and not self._passing:
            self._open[-1].pieces.append(data)

    def _add(self, text: str) -> None:
        if text.strip():
            (self._cells[-1] if self._cells else self.paragraphs).append(text.strip())


def _value(attributes: dict[str, str], name: str) -> str:
    """An attribute of Word's."""
    return next((attributes[key] for space in WORD_SPACES if (key := f"{space} {name}") in attributes), "")
