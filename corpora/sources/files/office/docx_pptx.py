"""Files of an office as records: Word's `.docx`, PowerPoint's `.pptx`, and PDF.

A file is one record, with blank lines between paragraphs.

PowerPoint's `.pptx` to paragraphs: slide after slide, the texts of each in their order, and after them its notes.

A row of a table is a paragraph with tabs between its cells. Not there: what every slide repeats (dates, footers,
numbers of slides), comments, and the words of diagrams and charts, which are parts of their own; nor slides and shapes
that are hidden, which are counted. A formula is as `corpora.sources.formulas` has it.

Promises and costs: those of `package.py`. Memory: the text.

Word's `.docx` to paragraphs: the text as it reads now, in the order of the document, tables row by row.

What was inserted under revision is there, what was deleted is not; text boxes come before the paragraph that they hang
on, footnotes and endnotes after the body, a row of a table is a paragraph with tabs between its cells. A formula is as
`corpora.sources.formulas` has it. Not there: headers, footers, comments, tables of contents, readings above words,
numbers that Word itself counts (of lists and headings), and what is hidden, by itself or its style, which is counted.

Promises and costs: those of `package.py`. Memory: the text.
"""

import re
from abc import abstractmethod
from dataclasses import dataclass, field
from io import BytesIO

from corpora.schema import Locator
from corpora.sources.bytes.faults import BadRecord
from corpora.sources.contract import Drop, Record, Tally
from corpora.sources.files.formats import WholeFile, build_record, format_meta
from corpora.sources.files.office.formulas import FormulaReader
from corpora.sources.files.office.package import (
    MAX_DEPTH,
    Handler,
    LargeDocument,
    LockedDocument,
    OfficeDocument,
    find_relation_id,
    open_package,
)
from corpora.sources.files.office.pdf import read_pdf

PPTX_MAIN_PART = "ppt/presentation.xml"
DRAWING_SPACES = (
    "http://schemas.openxmlformats.org/drawingml/2006/main",
    "http://purl.oclc.org/ooxml/drawingml/main",
)
REPEATED = frozenset(("dt", "ftr", "hdr", "sldNum", "sldImg"))  # kinds of places that are no text of the slide
REPEATED_FIELDS = ("slidenum", "datetime")
SHAPES = frozenset(("sp", "grpSp", "graphicFrame", "pic", "cxnSp"))  # what can be hidden
PPTX_TRUE, NOT = ("1", "true"), ("0", "false")
PPTX_SIGNS = {"br": "\n", "tab": "\t"}


def read_pptx(data: bytes, max_bytes: int) -> OfficeDocument:
    """Read the texts of a PowerPoint presentation, slide by slide, from its bytes.

    Args:
        data: The bytes of the file.
        max_bytes: Maximum total size of the uncompressed parts, in bytes.

    Raises:
        BadRecord: If the file is damaged or not a presentation.
        LockedDocument: If the file is encrypted.
        LargeDocument: If the uncompressed parts exceed `max_bytes`.
    """
    with open_package(BytesIO(data), max_bytes) as package:
        main = package.find_main_part(PPTX_MAIN_PART)
        order = _SlideOrder()
        package.parse(main, order)
        related = package.list_related(main)
        texts = _SlideReader()
        for name in (related[id][1] for id in order.slides if id in related):
            texts.begin_slide()
            package.parse(name, texts)
            for kind, notes in package.list_related(name).values() if not texts.is_hidden else ():
                if kind == "notesSlide":
                    package.parse(notes, texts, needed=False)
        core = package.read_core()
    return OfficeDocument(paragraphs=tuple(texts.paragraphs), title=core.title, date=core.date, hidden=texts.hidden)


class _SlideOrder(Handler):
    """Collects the relationship ids of the slides, in order."""

    def __init__(self) -> None:
        self.slides: list[str] = []

    def begin(self, tag: str, attributes: dict[str, str]) -> None:
        if tag.rpartition(" ")[2] == "sldId":
            self.slides.append(find_relation_id(attributes))


class _SlideReader(Handler):
    """Collects the paragraphs of slides and notes.

    Attributes:
        paragraphs: The paragraphs that are displayed, in order.
        hidden: Number of hidden slides and shapes.
        is_hidden: True if the slide that is being read is hidden.
    """

    def __init__(self) -> None:
        self.paragraphs: list[str] = []
        self.hidden = 0  # slides and shapes
        self.is_hidden = False  # the slide that is being read
        self._paragraph: list[str] | None = None
        self._cell: list[str] | None = None
        self._row: list[str] = []
        self._passing = self._depth = 0
        self._shape = 0  # depth of the open shape that is hidden, or whose text is on every slide; 0: none
        self._shapes: list[int] = []
        self._in_text = False
        self._formulas = FormulaReader()

    def begin_slide(self) -> None:
        """Set `is_hidden` to False before the next slide is parsed.

        The slide's XML sets it again if the slide is hidden.
        """
        self.is_hidden = False

    def begin(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise BadRecord(f"elements are nested over {MAX_DEPTH} deep")
        space, _, name = tag.rpartition(" ")
        if name == "sld" and attributes.get("show") in NOT:
            self.is_hidden = True
            self.hidden += 1
        if name in SHAPES:
            self._shapes.append(self._depth)
        if name == "cNvPr" and attributes.get("hidden") in PPTX_TRUE and self._shapes and not self._shape:
            self._shape = self._shapes[-1]
            self.hidden += 1
        if name == "ph" and attributes.get("type") in REPEATED and self._shapes and not self._shape:
            self._shape = self._shapes[-1]
        if (
            self._passing
            or name == "Fallback"
            or (name == "fld" and attributes.get("type", "").startswith(REPEATED_FIELDS))
        ):
            self._passing += 1
        elif self._formulas.begin(space, name, attributes):
            pass
        elif space in DRAWING_SPACES:
            self._begin_text(name)

    def _begin_text(self, name: str) -> None:
        """Process the start of an element in DrawingML: a paragraph, table row, cell, line break, tab or text.

        `name` is the element's name without its namespace.
        """
        if name == "p":
            self._paragraph = []
        elif name == "tr":
            self._row = []
        elif name == "tc":
            self._cell = []
        elif name in PPTX_SIGNS and self._paragraph is not None:
            self._paragraph.append(PPTX_SIGNS[name])
        self._in_text = name == "t"

    def end(self, tag: str) -> None:
        self._in_text = False
        if tag.rpartition(" ")[2] in SHAPES and self._shapes:
            self._shape = 0 if self._shape == self._shapes.pop() else self._shape
        self._depth -= 1
        if self._passing:
            self._passing -= 1
            return
        space, _, name = tag.rpartition(" ")
        if (formula := self._formulas.end(space, name)) is not None and self._paragraph is not None:
            self._paragraph.append(formula)
        if space not in DRAWING_SPACES:
            return
        if name == "p" and self._paragraph is not None:
            self._add("".join(self._paragraph).strip())
            self._paragraph = None
        elif name == "tc" and self._cell is not None:
            cell, self._cell = " ".join(self._cell), None
            self._row.append(cell)
        elif name == "tr":
            self._add("\t".join(cell for cell in self._row if cell))

    def add_text(self, data: str) -> None:
        if self._passing or self._formulas.add_text(data):
            return
        if self._in_text and self._paragraph is not None:
            self._paragraph.append(data)

    def _add(self, text: str) -> None:
        """Add a finished paragraph to the open cell or to `paragraphs`, unless it is empty or not displayed."""
        if text and not self._shape and not self.is_hidden:
            (self.paragraphs if self._cell is None else self._cell).append(text)


# ruff: noqa: RUF001, RUF002 - letters and signs that resemble ASCII


WORD_SPACES = (
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",
)
DOCX_MAIN_PART = "word/document.xml"
PASSED_OVER = frozenset(("del", "moveFrom", "sectPr", "tblPr", "Fallback", "rt"))
PROPERTIES = frozenset(("pPr", "rPr", "trPr", "tcPr"))  # of which some are read, and no text
DOCX_TRUE = ("1", "true", "on")
OFF = frozenset(("0", "false", "off"))
DOCX_SIGNS = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
HEXADECIMAL = re.compile(r"[0-9A-Fa-f]{1,4}")
SYMBOL_PLACES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-\xa3\xa5\xae\xb0\xb1\xb3\xb4\xb7\xb9\xbb"
SYMBOLS = "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖαβχδεφγηιϕκλμνοπθρστυϖωξψζ−≤∞→°±≥×•≠≈"
# A field that draws a reading above words, which older versions of Word write.
READING = re.compile(r"\A\s*EQ\b.*\\o\s*(?:\\a[a-z]\s*)?\(\s*\\s\s*\\up\s*\d+\s*\([^()]*\)\s*[,;]([^()]*)\)\s*\Z")
NO_NOTES = frozenset(("separator", "continuationSeparator", "continuationNotice"))


def read_docx(data: bytes, max_bytes: int) -> OfficeDocument:
    """Read the text of a Word document from its bytes: first its body, then its notes.

    Args:
        data: The bytes of the file.
        max_bytes: Maximum total size of the uncompressed parts, in bytes.

    Raises:
        BadRecord: If the file is damaged or not a document.
        LockedDocument: If the file is encrypted.
        LargeDocument: If the uncompressed parts exceed `max_bytes`.
    """
    with open_package(BytesIO(data), max_bytes) as package:
        main = package.find_main_part(DOCX_MAIN_PART)
        folder = main.rpartition("/")[0]
        styles = _HidingStyles()
        package.parse(f"{folder}/styles.xml", styles, needed=False)
        body = _BodyReader(styles.list_hidden())
        package.parse(main, body)
        for name in ("footnotes.xml", "endnotes.xml"):
            package.parse(f"{folder}/{name}", body, needed=False)
        core = package.read_core()
    return OfficeDocument(paragraphs=tuple(body.paragraphs), title=core.title, date=core.date, hidden=body.hidden)


@dataclass(slots=True)
class _Paragraph:
    """A paragraph that is being read.

    contents: True if it is an entry in a table of contents
    hidden:   True if it is hidden by its style or by the run that contains its text box
    goes_on:  True if its paragraph mark is deleted or hidden, so that the next paragraph continues it
    around:   True if the enclosing run is hidden, False if it is shown, None if it does not specify this
    """

    pieces: list[str] = field(default_factory=list)
    contents: bool = False
    hidden: bool = False
    goes_on: bool = False
    around: bool | None = None


class _HidingStyles(Handler):
    """Collects the styles that hide text."""

    def __init__(self) -> None:
        self._own: dict[str, bool] = {}
        self._based: dict[str, str] = {}
        self._style = ""

    def begin(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(" ")[2]
        if name == "style":
            self._style = _find_attribute(attributes, "styleId")
        elif name == "basedOn":
            self._based[self._style] = _find_attribute(attributes, "val")
        elif name == "vanish" and self._style:
            self._own[self._style] = _find_attribute(attributes, "val").lower() not in OFF

    def list_hidden(self) -> dict[str, bool]:
        """Map the ids of styles to True if they hide text and False if they show it, by themselves or by inheritance.

        Styles that do neither are omitted.
        """
        found = {}
        for style in {*self._own, *self._based}:
            at, passed = style, set[str]()
            while at not in self._own and at in self._based and at not in passed:
                passed.add(at)
                at = self._based[at]
            if at in self._own:
                found[style] = self._own[at]
        return found


class _BodyReader(Handler):
    """Collects the paragraphs of a document's body or notes.

    Attributes:
        paragraphs: The paragraphs that are displayed, in order.
        hidden: Number of hidden runs and rows with text.
    """

    def __init__(self, styles: dict[str, bool]) -> None:
        self.paragraphs: list[str] = []
        self.hidden = 0  # runs and rows with text
        self._styles = styles
        self._open: list[_Paragraph] = []
        self._cells: list[list[str]] = []  # of each open cell, its paragraphs
        self._rows: list[list[str]] = []  # of each open row, its cells
        self._gone: list[str] = []  # of each open row and cell, "" or why it is left out
        self._properties: list[str] = []  # the open ones
        self._run_hidden: bool | None = None  # as the open run itself says; None: nothing
        self._begun: list[str] = []  # the beginning of the next paragraph
        self._passing = self._depth = 0
        self._codes: list[str] = []  # of the open field
        self._in_text = self._in_code = self._in_mark = False
        self._formulas = FormulaReader()

    def begin(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise BadRecord(f"elements are nested over {MAX_DEPTH} deep")
        space, _, name = tag.rpartition(" ")
        if self._properties and not self._passing:
            self._begin_property(name, attributes)
        elif self._passing or name in PASSED_OVER or _find_attribute(attributes, "type") in NO_NOTES:
            self._passing += 1
        elif self._formulas.begin(space, name, attributes):
            pass
        elif space in WORD_SPACES:
            self._begin_word(name, attributes)

    def _begin_property(self, name: str, attributes: dict[str, str]) -> None:
        """Process an element inside the properties of a paragraph, run, row or cell, such as a style or hidden text.

        Args:
            name: Name of the element without its namespace.
            attributes: Its attributes.
        """
        value = _find_attribute(attributes, "val")
        is_on = value.lower() not in OFF
        self._properties.append(name)
        match self._properties:
            case ["pPr", "pStyle"] if self._open:
                self._open[-1].contents = value.lower().startswith("toc")
                self._open[-1].hidden |= self._styles.get(value, False)
            case ["pPr", "rPr", "del" | "moveFrom" | "vanish"] if self._open:
                self._open[-1].goes_on |= is_on
            case ["rPr", "vanish"]:
                self._run_hidden = is_on
            case ["rPr", "rStyle"] if self._run_hidden is None and self._open and self._styles.get(value):
                self._run_hidden = not self._open[-1].hidden  # each of two styles turns it over
            case ["trPr", "hidden" | "del"] | ["tcPr", "cellDel"] if self._gone and is_on:
                self._gone[-1] = name

    def _begin_word(self, name: str, attributes: dict[str, str]) -> None:
        """Process the start of an element in Word's namespace, such as a paragraph, run, row, cell or line break.

        Args:
            name: Name of the element without its namespace.
            attributes: Its attributes.
        """
        if name == "p":
            around = self._run_hidden  # of a text box
            self._open.append(_Paragraph(pieces=self._begun, hidden=bool(around), around=around))
            self._begun, self._run_hidden = [], None
        elif name in PROPERTIES:
            self._properties.append(name)
        elif name == "r":
            self._run_hidden, self._in_mark = None, False
        elif name == "tr":
            self._rows.append([])
            self._gone.append("")
        elif name == "tc":
            self._cells.append([])
            self._gone.append("")
        elif name in DOCX_SIGNS:
            self._take(DOCX_SIGNS[name])
        elif name == "fldChar":
            if (reading := READING.search("".join(self._codes))) is not None:
                self._take(reading[1])
            self._codes = []
        elif name == "sym":
            self._take(_read_symbol(_find_attribute(attributes, "font"), _find_attribute(attributes, "char")))
        elif _find_attribute(attributes, "customMarkFollows").lower() in DOCX_TRUE:
            self._in_mark = True
        self._in_text, self._in_code = name == "t", name == "instrText"

    def end(self, tag: str) -> None:
        self._depth -= 1
        self._in_text = self._in_code = False
        if self._passing:
            self._passing -= 1
            return
        if self._properties:
            self._properties.pop()
            return
        space, _, name = tag.rpartition(" ")
        if (formula := self._formulas.end(space, name)) is not None:
            self._run_hidden = None
            self._take(formula)
        if space not in WORD_SPACES:
            return
        if name == "p" and self._open:
            paragraph = self._open.pop()
            self._run_hidden = paragraph.around
            if paragraph.goes_on:
                self._begun = paragraph.pieces
            else:
                self._add("" if paragraph.contents else "".join(paragraph.pieces))
        elif name == "r":
            self._run_hidden = None
        elif name == "tc" and self._cells:
            self._add("".join(self._begun))
            self._begun = []
            cell, why = " ".join(self._cells.pop()), self._gone.pop()
            if self._rows and not why:
                self._rows[-1].append(cell)
        elif name in ("body", "footnote", "endnote"):
            self._add("".join(self._begun))
            self._begun = []
        elif name == "tr" and self._rows:
            row, why = "\t".join(cell for cell in self._rows.pop() if cell), self._gone.pop()
            self.hidden += why == "hidden" and bool(row.strip())
            self._add("" if why else row)

    def add_text(self, data: str) -> None:
        if self._passing or self._formulas.add_text(data):
            return
        if self._in_text:
            self._take(data)
        elif self._in_code:
            self._codes.append(data)

    def _take(self, text: str) -> None:
        """Append text to the current paragraph, unless the current run is hidden."""
        if not self._open or self._in_mark:
            return
        paragraph = self._open[-1]
        if paragraph.hidden if self._run_hidden is None else self._run_hidden:
            self.hidden += bool(text.strip())
        else:
            paragraph.pieces.append(text)

    def _add(self, text: str) -> None:
        """Add a finished paragraph or row to the open cell or to `paragraphs`, unless it is blank."""
        if text.strip():
            (self._cells[-1] if self._cells else self.paragraphs).append(text.strip())


def _read_symbol(font: str, code: str) -> str:
    """Return the character that a font has at a hexadecimal code; "" for a pictogram or an invalid code.

    >>> _read_symbol("Symbol", "F061"), _read_symbol("Arial", "00E9"), _read_symbol("Wingdings", "F0FC")
    ('α', 'é', '')
    """
    place = int(code, 16) if HEXADECIMAL.fullmatch(code) else 0
    if place >= 0xF000:
        at = SYMBOL_PLACES.find(place & 0xFF) if font == "Symbol" else -1
        return SYMBOLS[at] if at >= 0 else ""
    return chr(place) if 0x20 <= place < 0xD800 else ""


def _find_attribute(attributes: dict[str, str], name: str) -> str:
    """Return the value of an attribute in Word's namespace, or "" if it is missing."""
    return next((attributes[key] for space in WORD_SPACES if (key := f"{space} {name}") in attributes), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficeFile(WholeFile):
    """The base class of office document formats, in which a file becomes one record. Subclasses implement `parse`."""

    def read(self, data: bytes, locator: Locator, tally: Tally) -> Record:
        """Build the record of a file from its decompressed bytes.

        The record's text is that of the office document. An encrypted or too large document yields a dropped record.

        Args:
            data: All bytes of the file.
            locator: The position of the record: the whole file.
            tally: Knows whether the record crashed earlier and must be skipped.

        Raises:
            BadRecord: If the document is damaged.
        """
        if drop := tally.enter(locator):
            return Record(locator=locator, text="", raw=data, drop=drop)
        try:
            document = self.parse(data)
        except (LockedDocument, LargeDocument) as error:
            reason = "encrypted" if isinstance(error, LockedDocument) else "too large"
            return Record(locator=locator, text="", raw=data, drop=Drop(reason, str(error)))
        facts = {"title": document.title, "date": document.date, "meta": format_meta(hidden=document.hidden)}
        return build_record(locator, data, {"text": "\n\n".join(document.paragraphs), **facts})

    @abstractmethod
    def parse(self, data: bytes) -> OfficeDocument:
        """Parse the bytes of an office document into its paragraphs, title and date. Each format implements this.

        Raises:
            BadRecord: If the document is damaged.
            LockedDocument: If the document is encrypted.
            LargeDocument: If the document is too large.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class DocxFile(OfficeFile):
    """The Word format, in which a file becomes one record."""

    def parse(self, data: bytes) -> OfficeDocument:
        """Parse the bytes of a Word document into its paragraphs, title and date.

        Raises:
            BadRecord: If the document is damaged.
            LockedDocument: If the document is encrypted.
            LargeDocument: If the document is too large.
        """
        return read_docx(data, MAX_UNPACK_RATIO * self.max_record_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PptxFile(OfficeFile):
    """The PowerPoint format, in which a file becomes one record."""

    def parse(self, data: bytes) -> OfficeDocument:
        """Parse the bytes of a PowerPoint presentation into its paragraphs, title and date.

        Raises:
            BadRecord: If the presentation is damaged.
            LockedDocument: If the presentation is encrypted.
            LargeDocument: If the presentation is too large.
        """
        return read_pptx(data, MAX_UNPACK_RATIO * self.max_record_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PdfFile(OfficeFile):
    """The PDF format, in which a file becomes one record."""

    def parse(self, data: bytes) -> OfficeDocument:
        """Parse the bytes of a PDF document into its paragraphs, title and date.

        Raises:
            BadRecord: If the document is damaged.
            LockedDocument: If the document needs a password.
            LargeDocument: If the document is too large.
        """
        return read_pdf(data, self.max_record_bytes)


MAX_UNPACK_RATIO = 5  # times `max_record_bytes`: XML of an office is many times its text
