"""Word's `.docx` to paragraphs: the text as it reads now, in the order of the document, tables row by row.

What was inserted under revision is there, what was deleted is not; text boxes come before the paragraph that they hang
on, footnotes and endnotes after the body, a row of a table is a paragraph with tabs between its cells. A formula is as
`corpora.sources.formulas` has it. Not there: headers, footers, comments, tables of contents, readings above words,
numbers that Word itself counts (of lists and headings), and what is hidden, by itself or its style, which is counted.

Promises and costs: those of `package.py`. Memory: the text.
"""
# ruff: noqa: RUF001, RUF002 - letters and signs that resemble ASCII

import re
from dataclasses import dataclass, field
from io import BytesIO

from corpora.sources.bytes.faults import BadRecord
from corpora.sources.files.office.formulas import FormulaReader
from corpora.sources.files.office.package import DEEPEST, Handler, OfficeDocument, open_package

WORD_SPACES = (
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",
)
MAIN_PART = "word/document.xml"
PASSED_OVER = frozenset(("del", "moveFrom", "sectPr", "tblPr", "Fallback", "rt"))
PROPERTIES = frozenset(("pPr", "rPr", "trPr", "tcPr"))  # of which some are read, and no text
YES = ("1", "true", "on")
OFF = frozenset(("0", "false", "off"))
SIGNS = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
HEXADECIMAL = re.compile(r"[0-9A-Fa-f]{1,4}")
SYMBOL_PLACES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-\xa3\xa5\xae\xb0\xb1\xb3\xb4\xb7\xb9\xbb"
SYMBOLS = "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖαβχδεφγηιϕκλμνοπθρστυϖωξψζ−≤∞→°±≥×•≠≈"
# A field that draws a reading above words, which older versions of Word write.
READING = re.compile(r"\A\s*EQ\b.*\\o\s*(?:\\a[a-z]\s*)?\(\s*\\s\s*\\up\s*\d+\s*\([^()]*\)\s*[,;]([^()]*)\)\s*\Z")
NO_NOTES = frozenset(("separator", "continuationSeparator", "continuationNotice"))


def read_docx(data: bytes, max_bytes: int) -> OfficeDocument:
    """A document from the bytes of its file. Raises BadRecord, LockedDocument, LargeDocument.

    max_bytes: what may be unpacked in all
    """
    with open_package(BytesIO(data), max_bytes) as package:
        main = package.main_part(MAIN_PART)
        folder = main.rpartition("/")[0]
        styles = _HidingStyles()
        package.parse(f"{folder}/styles.xml", styles, needed=False)
        body = _Body(styles.hidden())
        package.parse(main, body)
        for name in ("footnotes.xml", "endnotes.xml"):
            package.parse(f"{folder}/{name}", body, needed=False)
        core = package.core()
    return OfficeDocument(paragraphs=tuple(body.paragraphs), title=core.title, date=core.date, hidden=body.hidden)


@dataclass(slots=True)
class _Paragraph:
    """A paragraph that is read. contents: it is a line of a table of contents

    hidden:  its style hides it, or the run whose text box it is in
    goes_on: its end was deleted, or is hidden
    around:  what the run around it says of being hidden
    """

    pieces: list[str] = field(default_factory=list)
    contents: bool = False
    hidden: bool = False
    goes_on: bool = False
    around: bool | None = None


class _HidingStyles(Handler):
    """Finds the styles that hide text."""

    def __init__(self) -> None:
        self._own: dict[str, bool] = {}
        self._based: dict[str, str] = {}
        self._style = ""

    def begin(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(" ")[2]
        if name == "style":
            self._style = _value(attributes, "styleId")
        elif name == "basedOn":
            self._based[self._style] = _value(attributes, "val")
        elif name == "vanish" and self._style:
            self._own[self._style] = _value(attributes, "val").lower() not in OFF

    def hidden(self) -> dict[str, bool]:
        """Return of each style that says so, or is based on one that does, whether it hides text."""
        found = {}
        for style in {*self._own, *self._based}:
            at, passed = style, set[str]()
            while at not in self._own and at in self._based and at not in passed:
                passed.add(at)
                at = self._based[at]
            if at in self._own:
                found[style] = self._own[at]
        return found


class _Body(Handler):
    """The paragraphs of a body, or of notes."""

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
        if self._depth > DEEPEST:
            raise BadRecord(f"elements are nested over {DEEPEST} deep")
        space, _, name = tag.rpartition(" ")
        if self._properties and not self._passing:
            self._begin_property(name, attributes)
        elif self._passing or name in PASSED_OVER or _value(attributes, "type") in NO_NOTES:
            self._passing += 1
        elif self._formulas.begin(space, name, attributes):
            pass
        elif space in WORD_SPACES:
            self._begin_word(name, attributes)

    def _begin_property(self, name: str, attributes: dict[str, str]) -> None:
        """Read a property of a paragraph, a run or a row."""
        value = _value(attributes, "val")
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
        elif name in SIGNS:
            self._take(SIGNS[name])
        elif name == "fldChar":
            if (reading := READING.search("".join(self._codes))) is not None:
                self._take(reading[1])
            self._codes = []
        elif name == "sym":
            self._take(_symbol(_value(attributes, "font"), _value(attributes, "char")))
        elif _value(attributes, "customMarkFollows").lower() in YES:
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

    def text(self, data: str) -> None:
        if self._passing or self._formulas.text(data):
            return
        if self._in_text:
            self._take(data)
        elif self._in_code:
            self._codes.append(data)

    def _take(self, text: str) -> None:
        """Take text of the open run, unless it is hidden."""
        if not self._open or self._in_mark:
            return
        paragraph = self._open[-1]
        if paragraph.hidden if self._run_hidden is None else self._run_hidden:
            self.hidden += bool(text.strip())
        else:
            paragraph.pieces.append(text)

    def _add(self, text: str) -> None:
        if text.strip():
            (self._cells[-1] if self._cells else self.paragraphs).append(text.strip())


def _symbol(font: str, code: str) -> str:
    """A character by its place in a font; "" for a picture.

    >>> _symbol("Symbol", "F061"), _symbol("Arial", "00E9"), _symbol("Wingdings", "F0FC")
    ('α', 'é', '')
    """
    place = int(code, 16) if HEXADECIMAL.fullmatch(code) else 0
    if place >= 0xF000:
        at = SYMBOL_PLACES.find(place & 0xFF) if font == "Symbol" else -1
        return SYMBOLS[at] if at >= 0 else ""
    return chr(place) if 0x20 <= place < 0xD800 else ""


def _value(attributes: dict[str, str], name: str) -> str:
    """An attribute of Word's."""
    return next((attributes[key] for space in WORD_SPACES if (key := f"{space} {name}") in attributes), "")
