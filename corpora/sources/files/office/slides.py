"""PowerPoint's `.pptx` to paragraphs: slide after slide, the texts of each in their order, and after them its notes.

A row of a table is a paragraph with tabs between its cells. Not there: what every slide repeats (dates, footers,
numbers of slides), comments, and the words of diagrams and charts, which are parts of their own; nor slides and shapes
that are hidden, which are counted. A formula is as `corpora.sources.formulas` has it.

Promises and costs: those of `package.py`. Memory: the text.
"""

from io import BytesIO

from corpora.sources.bytes.faults import BadRecord
from corpora.sources.files.office.formulas import FormulaReader
from corpora.sources.files.office.package import (
    DEEPEST,
    Handler,
    OfficeDocument,
    Package,
    open_package,
    relation_of,
)

MAIN_PART = "ppt/presentation.xml"
DRAWING_SPACES = (
    "http://schemas.openxmlformats.org/drawingml/2006/main",
    "http://purl.oclc.org/ooxml/drawingml/main",
)
REPEATED = frozenset(("dt", "ftr", "hdr", "sldNum", "sldImg"))  # kinds of places that are no text of the slide
REPEATED_FIELDS = ("slidenum", "datetime")
SHAPES = frozenset(("sp", "grpSp", "graphicFrame", "pic", "cxnSp"))  # what can be hidden
YES, NOT = ("1", "true"), ("0", "false")
SIGNS = {"br": "\n", "tab": "\t"}


def read_pptx(data: bytes, max_bytes: int) -> OfficeDocument:
    """A presentation from the bytes of its file. Raises BadRecord, LockedDocument, LargeDocument.

    max_bytes: what may be unpacked in all
    """
    with open_package(BytesIO(data), max_bytes) as package:
        main = package.main_part(MAIN_PART)
        order = _Order()
        package.parse(main, order)
        related = package.related(main)
        texts = _Texts()
        for name in (related[id][1] for id in order.slides if id in related):
            texts.begin_slide()
            package.parse(name, texts)
            for notes in _notes_of(package, name) if not texts.is_hidden else ():
                package.parse(notes, texts, needed=False)
        core = package.core()
    return OfficeDocument(paragraphs=tuple(texts.paragraphs), title=core.title, date=core.date, hidden=texts.hidden)


def _notes_of(package: Package, slide: str) -> list[str]:
    return [target for kind, target in package.related(slide).values() if kind == "notesSlide"]


class _Order(Handler):
    """Finds the ids of the slides, in their order."""

    def __init__(self) -> None:
        self.slides: list[str] = []

    def begin(self, tag: str, attributes: dict[str, str]) -> None:
        if tag.rpartition(" ")[2] == "sldId":
            self.slides.append(relation_of(attributes))


class _Texts(Handler):
    """The paragraphs of slides and notes."""

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
        """Begin a slide, whose own part says first whether it is shown."""
        self.is_hidden = False

    def begin(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise BadRecord(f"elements are nested over {DEEPEST} deep")
        space, _, name = tag.rpartition(" ")
        if name == "sld" and attributes.get("show") in NOT:
            self.is_hidden = True
            self.hidden += 1
        if name in SHAPES:
            self._shapes.append(self._depth)
        if name == "cNvPr" and attributes.get("hidden") in YES and self._shapes and not self._shape:
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
        if name == "p":
            self._paragraph = []
        elif name == "tr":
            self._row = []
        elif name == "tc":
            self._cell = []
        elif name in SIGNS and self._paragraph is not None:
            self._paragraph.append(SIGNS[name])
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

    def text(self, data: str) -> None:
        if self._passing or self._formulas.text(data):
            return
        if self._in_text and self._paragraph is not None:
            self._paragraph.append(data)

    def _add(self, text: str) -> None:
        if text and not self._shape and not self.is_hidden:
            (self.paragraphs if self._cell is None else self._cell).append(text)
