"""Word's `.docx` to paragraphs: the text as it reads now, in the order of the document, tables row by row.

What was inserted under revision is there, what was deleted is not; text boxes come before the paragraph that they hang
on, footnotes and endnotes after the body, a row of a table is a paragraph with tabs between its cells. Not there:
headers, footers, comments, tables of contents, and numbers that Word itself counts (of lists and headings).

Promises: a zip of which no more than `max_bytes` are unpacked, whatever it says of itself; XML is streamed, without
document types, so nothing is fetched and no entity grows. Cost: about 8 MB of XML a second. Memory: one part.
"""

import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from xml.parsers import expat

from corpora.sources.bytes.faults import BadRecord

COMPOUND = bytes.fromhex("d0cf11e0a1b11ae1")  # an OLE file: what is encrypted, and what Word wrote before 2007
WORD_SPACES = (
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",
)
MAIN_PART = "word/document.xml"
PASSED_OVER = frozenset(("del", "moveFrom", "pPr", "rPr", "sectPr", "tblPr", "trPr", "tcPr", "Fallback"))
SIGNS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
NO_NOTES = frozenset(("separator", "continuationSeparator", "continuationNotice"))
PIECE_BYTES = 1 << 16
MOST_ENTRIES = 20_000
DEEPEST = 2_000
DAY = re.compile(r"\d{4}-\d\d-\d\d")
ZIP_FAULTS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    KeyError,
)


class LockedDocument(ValueError):
    """A document that a password protects, or one of another format under the same name."""


class LargeDocument(ValueError):
    """A document that unpacks to more than it may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficeDocument:
    """The content of an office document. date: when it was made, as YYYY-MM-DD"""

    paragraphs: tuple[str, ...]
    title: str | None = None
    date: str | None = None


def read_docx(data: bytes, max_bytes: int) -> OfficeDocument:
    """A document from the bytes of its file. Raises BadRecord, LockedDocument, LargeDocument.

    max_bytes: what may be unpacked in all
    """
    if data.startswith(COMPOUND):
        raise LockedDocument("an OLE file: encrypted, or of Word before 2007")
    try:
        archive = zipfile.ZipFile(BytesIO(data))
    except ZIP_FAULTS as error:
        raise BadRecord(f"no zip, or a damaged one: {error}") from error
    with archive:
        if len(archive.namelist()) > MOST_ENTRIES:
            raise LargeDocument(f"over {MOST_ENTRIES} files in one zip")
        parts = _Parts(archive, max_bytes)
        main = _main_part(parts)
        body = _Body()
        parts.parse(main, body)
        folder = main.rpartition("/")[0]
        for name in ("footnotes.xml", "endnotes.xml"):
            parts.parse(f"{folder}/{name}", body, needed=False)
        core = _Core()
        parts.parse("docProps/core.xml", core, needed=False)
    return OfficeDocument(paragraphs=tuple(body.paragraphs), title=core.title, date=core.date)


@dataclass(slots=True)
class _Parts:
    """The parts of a package, no more than `left` bytes of them all."""

    archive: zipfile.ZipFile
    left: int

    def parse(self, name: str, handler: "_Handler", needed: bool = True) -> None:
        """Have a part read by a handler. Raises BadRecord, LockedDocument, LargeDocument."""
        if name not in self.archive.namelist():
            if needed:
                raise BadRecord(f"it holds no {name}")
            return
        if self.archive.getinfo(name).flag_bits & 1:
            raise LockedDocument(f"{name} is encrypted")
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler, parser.EndElementHandler = handler.begin, handler.end
        parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = handler.text, _refuse_type
        try:
            for piece in self._pieces(name):
                parser.Parse(piece, False)
            parser.Parse(b"", True)
        except (expat.ExpatError, LookupError) as error:
            raise BadRecord(f"{name} is no XML: {error}") from error

    def _pieces(self, name: str) -> Iterator[bytes]:
        try:
            with self.archive.open(name) as stream:
                while piece := stream.read(PIECE_BYTES):
                    self.left -= len(piece)
                    if self.left < 0:
                        raise LargeDocument(f"{name} unpacks to more than max_record_bytes")
                    yield piece
        except LargeDocument:
            raise
        except ZIP_FAULTS as error:
            raise BadRecord(f"a damaged zip: {name}: {error}") from error


def _refuse_type(name: str, system: str | None, public: str | None, internal: bool) -> None:
    raise BadRecord("it declares a document type, which no part of a .docx may")


def _main_part(parts: _Parts) -> str:
    relations = _Relations()
    parts.parse("_rels/.rels", relations, needed=False)
    return relations.main or MAIN_PART


class _Handler:
    """Receives a part's XML, element by element."""

    def begin(self, tag: str, attributes: dict[str, str]) -> None:
        """An element begins."""

    def end(self, tag: str) -> None:
        """An element ends."""

    def text(self, data: str) -> None:
        """Characters between."""


class _Relations(_Handler):
    """Finds the path of the main part."""

    def __init__(self) -> None:
        self.main = ""

    def begin(self, tag: str, attributes: dict[str, str]) -> None:
        if attributes.get("Type", "").endswith("/officeDocument"):
            self.main = attributes.get("Target", "").lstrip("/")


class _Core(_Handler):
    """Title and day of making."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._now = ""

    def begin(self, tag: str, attributes: dict[str, str]) -> None:
        self._now = tag.rpartition(" ")[2]

    def end(self, tag: str) -> None:
        self._now = ""

    def text(self, data: str) -> None:
        if self._now:
            self._texts[self._now] = self._texts.get(self._now, "") + data

    @property
    def title(self) -> str | None:
        return " ".join(self._texts.get("title", "").split()) or None

    @property
    def date(self) -> str | None:
        match = DAY.match(self._texts.get("created", "").strip())
        return match[0] if match else None


@dataclass(slots=True)
class _Paragraph:
    pieces: list[str] = field(default_factory=list)
    contents: bool = False  # a line of a table of contents


class _Body(_Handler):
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
