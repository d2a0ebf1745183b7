"""XML of your own, read by a map of fields; PubMed, JATS and patents by name.

    [[source]]
    kind = "xml"
    preset = "pubmed"           # or record = "entry", fields = { text = ["title", "body//p"], key = "@id" }

Promises: every element with the record's name is a record; one that cannot be read is a damaged drop with its reason,
and costs no other. A file that ends inside a record, or before the end tag of its root, is refused, and so is one that
cannot be decompressed. Each record is parsed by itself: no DTD is read, nothing is fetched, and no entity is expanded
except XML's five and those of HTML, which are characters. Names are compared without their namespace. In texts, inline
elements are joined without a space, elements that are blocks are separated, and white space is one space. Costs: 35 MB
of PubMed's XML a second (31 packed), 18 MB of JATS. Memory: one record, at most `max_record_bytes`, and its tree.

**Which revision is the newest.** Records with a key revise each other, and a deletion is a record that was dropped: if
it is the newest, no text of its key stays. What is compared is one number, so the order in which files are read changes
nothing:

    revision = version * 10^14 + number of the file * 10^8 + date or number in the record

`file_order` takes the file's number from its name, and a deletion comes after all records of its file. That is how
PubMed is meant to be applied (file after file, deletions last): `pubmed24n1220.xml.gz` gives 241220, so it revises all
that the baseline 0001 to 1219 said, whatever dates are in it, and the baseline of the next year, 250001 and up, revises
both; a citation that it repeats unchanged stays where it is. Before the file's number comes the version of the citation
(`<PMID Version="2">`): to delete version 1 does not delete version 2. Within one file the date of the last revision
decides. Files without a number in their names, such as those of `efetch`, come before all that have one, in the order
of their dates; deletions in such a file could not be put in order, so it is refused.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from html.entities import html5
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from lxml import etree

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.schema import Locator
from corpora.sources.bytes.endings import with_packed_endings
from corpora.sources.bytes.faults import READ_FAULTS, BadRecord
from corpora.sources.bytes.objects import parse_raw_path
from corpora.sources.bytes.raw_files import open_raw, read_again
from corpora.sources.contract import (
    FIELDS,
    MAX_REVISION,
    Drop,
    RawFile,
    Record,
    Slice,
    Tally,
    build_locator,
    check_fields,
    drop_damaged,
    drop_too_large,
    find_by_ending,
    slice_whole_file,
)
from corpora.sources.formulas import FORMULA, show_formula, show_mathml
from corpora.sources.xml.cut import (
    PIECE_BYTES,
    CutElement,
    RecordCounter,
    RecordCutter,
    find_encoding,
    find_namespaces,
)
from corpora.sources.xml.presets import PRESETS, Preset, describe_preset, find_preset
from corpora.store.settings import check_choice, check_range, to_settings_json

STEP = re.compile(r"(?P<name>[\w.-]+|\*)(?:\[@(?P<attribute>[\w.:-]+)=(?P<q>['\"])(?P<value>[^'\"]*)(?P=q)\])?")
XML_ENTITIES = frozenset((b"amp", b"lt", b"gt", b"quot", b"apos"))
ENTITY = re.compile(rb"&([A-Za-z_][\w.-]*);")
CDATA = re.compile(rb"(<!\[CDATA\[.*?\]\]>)", re.DOTALL)
DELETED_TEXT = re.compile(rb"<\?delete-start\b[^>]*>((?:(?!<\?delete-start\b).)*?)<\?delete-end\b[^>]*>", re.DOTALL)
TAG = re.compile(rb"</?[\w:.-]+(?:[^<>\"']|\"[^\"]*\"|'[^']*')*>")
BOLD = frozenset(("b", "bold"))
LABEL = re.compile(r"\s*[^\W\d_][^:.]{2,60}:\s*[^:]?")  # of a part, and the character after it
PARAGRAPH_BREAK = "\0"  # no character of XML
SPACES = re.compile(r"[ \t\r\n]{2,}|[\t\r\n]")
MARK = "\1"  # nor is this
# Elements that hold a formula: MathML's and TeX's, those around them, and those of patents.
FORMULAS = frozenset(
    "math tex-math inline-formula disp-formula disp-formula-group chem-struct-wrap maths chemistry MATH-US MATH-CWU "
    "CHEM-US math-us math-cwu chemistry-cwu chemistry-us".split()
)
LINE_ENDS = frozenset(("br", "break"))
READINGS = frozenset(("rt", "rp", "rtc"))
INLINE_ELEMENTS = frozenset(
    "italic bold i b roman monospace styled-content".split()
)  # what a formula in a line may be made of
MARKS = re.compile("\1(?:[\\s,;\u2013-]*\1)*")
BRACKETED_MARK = re.compile("[\\[(]\\s*\1\\s*[\\])]")
TWO_STOPS = re.compile("(?<=\\.)\\s*\1\\s*\\.(?![.\\d])")  # an abbreviation's, and its sentence's
# The letters of ISO 8879 (ISOgrk1), in the order of the alphabet, for HTML has names of its own.
_GREEK_NAMES = "a b g d e z ee th i k l m n x o p r s t u ph kh ps oh".split()
GREEK = {f"{name}gr": letter for name, letter in zip(_GREEK_NAMES, "αβγδεζηθικλμνξοπρστυφχψω", strict=True)}
GREEK |= {f"{name[:-2].upper()}gr": letter.upper() for name, letter in GREEK.items()} | {"sfgr": "ς"}
MONTHS = {name: number for number, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}
IGNORED_LABELS = frozenset(("UNLABELLED", "UNASSIGNED"))


class PathStep(NamedTuple):
    """One step of an element path.

    Attributes:
        name: Name of an element; "*" for any name.
        attribute: An attribute that the element must have; "" if none is required.
        value: The value that the attribute must have.
        is_deep: True to match elements at any depth, False to match only children.
    """

    name: str
    attribute: str
    value: str
    is_deep: bool


class FieldPath(NamedTuple):
    """A path to elements below a record, or to an attribute of these elements.

    Attributes:
        steps: The steps, beginning at the record.
        attribute: Name of the attribute; "" to find the elements themselves.
    """

    steps: tuple[PathStep, ...]
    attribute: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLayout:
    """Rules for laying out an element's text, by the names of the elements inside it.

    The fields are described at `XmlSource`.
    """

    blocks: frozenset[str] = frozenset()
    skip: frozenset[str] = frozenset()
    marks: tuple[PathStep, ...] = ()
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordForm:
    """Describes how records with one element name are read.

    Attributes:
        paths: Maps fields of a record to their paths, in order of preference.
        layout: The layout of the record's text.
        key: A description of the paths of the key, for error messages.
    """

    paths: dict[str, list[FieldPath]]
    layout: TextLayout
    key: str

    def iter_hits(self, element: Any, name: str) -> Iterator[Any]:
        """Yield the elements or attribute values found by a field's paths, in the order of the paths.

        Args:
            element: The record's element.
            name: Name of the field.
        """
        return (hit for path in self.paths.get(name, ()) for hit in find_all(element, path))

    def find_first(self, element: Any, name: str) -> str | None:
        """Return the first non-empty text found by a field's paths, on one line; None if there is none.

        Args:
            element: The record's element.
            name: Name of the field.
        """
        return next((text for hit in self.iter_hits(element, name) if (text := to_plain_text(hit))), None)


def parse_path(text: str, prefix: str) -> FieldPath:
    """Parse a path such as `a/b`, `a//b`, `a/b[@c='d']`, `a/@b` or `.`.

    Args:
        text: The path.
        prefix: Beginning of the error message, which tells where the path comes from.

    Raises:
        InputError: If the path is invalid.

    >>> parse_path("MedlineCitation/PMID/@Version", "key").attribute
    'Version'
    """
    steps: list[PathStep] = []
    is_deep, attribute = False, ""
    parts = _split_steps(text)
    for number, part in enumerate(parts):
        match = STEP.fullmatch(part)
        if part == "" and number < len(parts) - 1:
            is_deep = True
        elif part.startswith("@") and number == len(parts) - 1 and STEP.fullmatch(part[1:]):
            attribute = part[1:]
        elif match:
            steps.append(PathStep(match["name"], _strip_ns(match["attribute"] or ""), match["value"] or "", is_deep))
            is_deep = False
        elif part != "." or len(parts) > 1:
            raise InputError(
                f"{prefix}: {text!r} is no path. Write names of elements from the record down, as in 'Abstract/"
                "AbstractText', with '//' for any depth, [@name='value'] after one, and '@name' at the end."
            )
    return FieldPath(tuple(steps), _strip_ns(attribute))


def _split_steps(text: str) -> list[str]:
    """Split a path into steps. An empty string stands for `//`. A slash inside brackets does not separate steps."""
    if text.startswith("//"):
        return ["", *_split_steps(text[2:])]
    parts, start, is_inside = [], 0, False
    for at, sign in enumerate(text):
        is_inside = sign == "[" or (is_inside and sign != "]")
        if sign == "/" and not is_inside:
            parts.append(text[start:at])
            start = at + 1
    return [*(parts if text[:1] != "/" else ["/"]), text[start:]]


def parse_step(text: str, prefix: str) -> PathStep:
    """Parse a single element such as `xref` or `xref[@ref-type='bibr']`.

    Args:
        text: The element.
        prefix: Beginning of the error message, which tells where the element comes from.

    Raises:
        InputError: If the text has any other form.
    """
    steps = parse_path(text, prefix).steps
    if len(steps) != 1:
        raise InputError(f"{prefix}: {text!r} is not one element. Write its name alone.")
    return steps[0]


def find_all(record: Any, path: FieldPath) -> list[Any]:
    """Return the elements below a record that match a path, or the values of their attribute; [] if there are none.

    The result is ordered by the elements that the previous step found. With `//`, an element can occur several times:
    `//sec//p` finds a paragraph once for each section around it.
    """
    elements = [record]
    for step in path.steps:
        elements = [
            child for element in elements for child in _list_inner(element, step.is_deep) if is_match(child, step)
        ]
    if not path.attribute:
        return elements
    values = (_get_attribute(element, path.attribute) for element in elements)
    return [value for value in values if value is not None]


def _list_inner(element: Any, is_deep: bool) -> list[Any]:
    """List the children of an element, or all elements below it if `is_deep` is true."""
    return list(element.iterdescendants(etree.Element)) if is_deep else list(element.iterchildren(etree.Element))


def is_match(element: Any, step: PathStep) -> bool:
    """Return True if an element has the name and the attribute required by a step."""
    if step.name not in ("*", _strip_ns(element.tag)):
        return False
    return not step.attribute or _get_attribute(element, step.attribute) == step.value


def _get_attribute(element: Any, name: str) -> str | None:
    """Return the value of the attribute `name` of an element, ignoring namespaces; None if it is missing."""
    return next((str(value) for key, value in element.attrib.items() if _strip_ns(key) == name), None)


@lru_cache(maxsize=1 << 12)
def _strip_ns(name: str) -> str:
    """Return an XML name without its namespace or prefix: "math" for "{http://...}math" or "m:math"."""
    return name.rpartition("}")[2].rpartition(":")[2]


def parse_record(data: bytes, encoding: str, namespaces: bytes) -> Any:
    """Parse the bytes of an XML record to an lxml element.

    Args:
        data: The bytes.
        encoding: The encoding declared by the file.
        namespaces: The namespace declarations that apply to the record, in the form of attributes.

    Returns:
        The record's element.

    Raises:
        BadRecord: If the bytes cannot be decoded, or are not one well-formed element.
    """
    try:
        text = data.decode(encoding).encode()
    except UnicodeDecodeError as error:
        raise BadRecord(f"not {encoding} at byte {error.start} of the record: {error.reason}") from error
    except (LookupError, UnicodeError) as error:  # Python knows encodings that are none of a text
        raise BadRecord(f"its file declares the encoding {encoding!r}, which is not known") from error
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True, remove_pis=True
    )
    try:
        # Of what is deleted the tags stay: it may begin in one element and end in another.
        text = DELETED_TEXT.sub(lambda match: b"".join(TAG.findall(match[1])), with_characters(text))
        root = etree.fromstring(b"<r" + namespaces + b">" + text + b"</r>", parser)
    except etree.XMLSyntaxError as error:
        raise BadRecord(f"not well-formed XML: {error.msg}") from error
    if len(root) != 1:
        raise BadRecord("it is not one element")
    return root[0]


def with_characters(data: bytes) -> bytes:
    """Replace HTML's named entities with their characters, except in CDATA sections. XML's five entities are kept.

    Raises:
        BadRecord: If another entity occurs, which only a DTD could define.

    >>> with_characters(b"<a>&eacute; &lt; <![CDATA[&nbsp;]]></a>").decode()
    '<a>é &lt; <![CDATA[&nbsp;]]></a>'
    """
    if b"&" not in data:
        return data
    last = data.rfind(b"]]>") + 3 if b"<![CDATA[" in data else 0  # a section that does not end is none
    parts = CDATA.split(data[:last])
    parts[-1] += data[last:]
    return b"".join(part if part.startswith(b"<![CDATA[") else ENTITY.sub(_replace_entity, part) for part in parts)


def _replace_entity(match: "re.Match[bytes]") -> bytes:
    """Return the character of a matched HTML entity in UTF-8. XML's five entities are returned unchanged.

    Raises:
        BadRecord: If only a DTD could define the entity.
    """
    name = match[1]
    if name in XML_ENTITIES:
        return match[0]
    word = name.decode("ascii", "replace")
    character = html5.get(word + ";") or GREEK.get(word)
    if character is None:
        raise BadRecord(f"it uses the entity &{name.decode(errors='replace')};, and entities are never expanded")
    return character.replace("&", "&amp;").replace("<", "&lt;").encode()


def extract_paragraphs(element: Any, layout: TextLayout) -> list[str]:
    """Return the text of an XML element as a list of paragraphs.

    If the element has a label, it is put before the first paragraph.
    """
    pieces: list[str] = []
    _collect_text(element, layout, pieces)
    text = "".join(pieces)
    if layout.marks:
        text = without_marks(text)
    parts = [part for part in (SPACES.sub(" ", part).strip(" ") for part in text.split(PARAGRAPH_BREAK)) if part]
    label = (_get_attribute(element, layout.label) or "").strip() if layout.label else ""
    if label and label.upper() not in IGNORED_LABELS and parts:
        parts[0] = f"{label}: {parts[0]}"
    return parts


def without_marks(text: str) -> str:
    r"""Remove the placeholders of reference marks (`MARK`), with the brackets and separators around them.

    >>> without_marks("Shown [\1,\1] here \1, \1. So it is\1 (Lee 2003; \1), by Lee et al. [\1].")
    'Shown here. So it is (Lee 2003), by Lee et al.'
    """
    *parts, last = TWO_STOPS.sub(MARK, BRACKETED_MARK.sub(MARK, MARKS.sub(MARK, text))).split(MARK)
    return "".join(part.rstrip().removesuffix(",").removesuffix(";").rstrip() for part in parts) + last


def _collect_text(element: Any, layout: TextLayout, pieces: list[str]) -> None:
    """Append the pieces of an element's text to `pieces`, in order.

    `PARAGRAPH_BREAK` is added around blocks, and `MARK` in place of each reference mark.
    """
    pieces.append(element.text or "")
    is_split = len(element) == 0 or _strip_ns(element.tag) in layout.blocks or not _is_in_sentence(element)
    for child in element.iterchildren(etree.Element):
        name = _strip_ns(child.tag)
        if layout.marks and _is_mark(child, layout):
            pieces.append(MARK)
        elif name in FORMULAS and name not in layout.skip and (len(child) or "formula" in name):
            pieces.append(_show_formula(child))
        elif name in READINGS and _strip_ns(element.tag) in ("ruby", "rtc"):
            pass
        elif name not in layout.skip and not (name == "sec" and _has_only_title(child, layout)):
            label = name in BOLD and LABEL.fullmatch((child.text or "") + (child.tail or "")[:1])
            gap = PARAGRAPH_BREAK if is_split and name in layout.blocks else " " if label or name in LINE_ENDS else ""
            pieces.append(gap)
            _collect_text(child, layout, pieces)
            pieces.append(gap if not label or ":" in child.text else "")
        pieces.append(child.tail or "")


def _show_formula(element: Any) -> str:
    """Convert a formula element to text, from its TeX, its MathML or its words.

    Return "[formula]" if the formula is too complex, and "" if the element is empty.
    """
    within = [each for each in element.iter(etree.Element) if _strip_ns(each.tag) in ("tex-math", "math")]
    tex = next(
        (text for each in within if _strip_ns(each.tag) == "tex-math" and (text := show_formula(_get_text(each)))),
        "",
    )
    if tex:
        return tex
    shown = (show_mathml(etree.tostring(each, encoding="unicode", with_tail=False)) for each in within)
    if mathml := next(filter(None, shown), ""):
        return mathml
    if lines := [_get_text(each) for each in element.iter(etree.Element) if _strip_ns(each.tag) == "textual-form"]:
        return show_formula(lines[0])
    names = {_strip_ns(each.tag) for each in element.iterdescendants(etree.Element)} - {"label"}
    if not names <= INLINE_ELEMENTS or within:
        return FORMULA
    return (
        show_formula(_get_text(element))
        if "formula" in _strip_ns(element.tag) or not _get_text(element).strip()
        else FORMULA
    )


def _get_text(element: Any) -> str:
    """Return all characters inside an element, in order."""
    return "".join(element.itertext())


def _is_in_sentence(element: Any) -> bool:
    """Return True if there are words directly before or after an element, so that it is part of a sentence."""
    before, parent = element.getprevious(), element.getparent()
    text = before.tail if before is not None else parent.text if parent is not None else ""
    return bool((text or "").strip() or (element.tail or "").strip())


def _has_only_title(section: Any, layout: TextLayout) -> bool:
    """Return True for a section that has only a title left after skipped elements, such as tables, are removed."""
    names = [_strip_ns(child.tag) for child in section.iterchildren(etree.Element)]
    read = [name for name in names if name not in layout.skip]
    return read == ["title"] and not {"label", "title"}.issuperset(names)


def _is_mark(element: Any, layout: TextLayout) -> bool:
    """Return True if an element matches `layout.marks` and has no letters except a raised letter (a footnote sign)."""
    if not any(is_match(element, step) for step in layout.marks):
        return False
    text = _get_text(element).strip(" []()")
    is_raised = any(_strip_ns(each.tag) == "sup" for each in (element.getparent(), *element) if each is not None)
    return not any(letter.isalpha() for letter in text) or (len(text) == 1 and is_raised)


def to_plain_text(hit: Any) -> str:
    """Return the text of an element, or an attribute's value, on one line. `hit` is a result of `find_all`."""
    pieces = [hit] if isinstance(hit, str) else []
    if not isinstance(hit, str):
        _collect_text(hit, TextLayout(), pieces)
    text = "".join(pieces)
    return SPACES.sub(" ", text).strip()


def parse_date(hit: Any) -> str | None:
    """Parse a date from an element with a year, month and day, or from a string. `hit` is a result of `find_all`.

    Returns:
        The date as YYYY, YYYY-MM or YYYY-MM-DD; None if there is no date.

    >>> parse_date("20150106"), parse_date(etree.fromstring("<d><Year>2017</Year><Month>Jun</Month></d>"))
    ('2015-01-06', '2017-06')
    """
    children = {} if isinstance(hit, str) else {_strip_ns(child.tag).lower(): to_plain_text(child) for child in hit}
    if "year" in children:
        month = MONTHS.get(children.get("month", "")[:3].lower()) or children.get("month", "")
        parts = [children["year"], str(month), children.get("day", "") if month else ""]
        return "-".join(part.zfill(2) for part in parts if part.isascii() and part.isdigit()) or None
    match = re.match(r"(\d{4})(?:-?(\d\d)(?:-?(\d\d))?)?(?!\d)", to_plain_text(hit), re.ASCII)
    return "-".join(part for part in match.groups() if part) if match else None


ENDINGS = with_packed_endings(".xml", ".nxml")
XML_FIELDS = (*FIELDS, "version")
FILE_UNIT, VERSION_UNIT = 10**8, 10**14
MAX_VERSION = MAX_REVISION // VERSION_UNIT - 1
BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff", b"<\0", b"\0<")
ELEMENT_NAME = r"[A-Za-z_][\w.-]*"


@dataclass(frozen=True, kw_only=True)
class XmlSource:
    """The `[[source]]` table of kind "xml".

    path:             a file, a folder or a glob: `.xml`, `.nxml`, each also `.gz`, `.zst`, `.bz2` or `.xz`
    preset:           "pubmed", "jats" or "patent" (all formats since 2001): provides the settings not given below
    record:           name of the element that is a record
    fields:           for each field, a path or list of paths below the record: `text` (all elements found become
                      paragraphs), and `key`, `revision` (a number or date), `version`, `title`, `url`, `date`,
                      `license`, `group` (the first path that finds something is used); a path is `a/b`, `a//b`,
                      `a[@b='c']` or `a/@b`
    deleted:          `container/element`: an element that contains the key of a record to delete
    file_order:       regular expression with groups that match a number in a file's name: files with a higher number
                      revise the others
    blocks:           elements in a text that are separate paragraphs
    skip:             elements in a text that are omitted
    marks:            elements in a text that are omitted if they contain no letter, such as reference numbers
    label:            attribute of a text's element that is put before the text, as in "METHODS: ..."
    max_record_bytes: a longer record is dropped
    """

    kind: ClassVar[str] = "xml"
    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("lxml",)

    name: str
    path: str
    preset: str = ""
    record: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    deleted: str = ""
    file_order: str = ""
    blocks: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    label: str = ""
    max_record_bytes: int = 20_000_000

    def __post_init__(self) -> None:
        check_choice(f"source {self.name!r}: preset", self.preset, ("", *PRESETS))
        check_range(f"source {self.name!r}: max_record_bytes", self.max_record_bytes, 1, 1 << 30)
        check_fields(self.name, self.fields, XML_FIELDS)
        form = self._form
        if not re.fullmatch(ELEMENT_NAME, form.record):
            raise InputError(
                f"Source {self.name!r}: `record` = {form.record!r} is no name of an element. Set it to the element "
                f"that is a record, without its prefix, or set `preset` to one of {', '.join(PRESETS)}."
            )
        if "text" not in form.fields:
            raise InputError(f"Source {self.name!r}: `fields` has no text. Set it to paths below <{form.record}>.")
        if form.deleted and not re.fullmatch(f"{ELEMENT_NAME}/{ELEMENT_NAME}", form.deleted):
            raise InputError(
                f"Source {self.name!r}: `deleted` = {form.deleted!r} is not of the form container/element."
            )
        if form.deleted and not (form.file_order and "key" in form.fields):
            raise InputError(
                f"Source {self.name!r}: `deleted` needs `fields.key`, and `file_order` to tell which records came "
                "before a deletion. Set both, as in file_order = 'update-(\\d+)'."
            )
        self._check_order(form.file_order)
        assert self._forms  # made here, so that a wrong path is refused here

    def _check_order(self, pattern: str) -> None:
        """Check that the setting `file_order` is a regular expression with a group.

        Raises:
            InputError: If it is not.
        """
        try:
            num_groups = re.compile(pattern).groups
        except re.error as error:
            raise InputError(f"Source {self.name!r}: `file_order` = {pattern!r} is no pattern: {error}.") from error
        if pattern and not num_groups:
            raise InputError(
                f"Source {self.name!r}: `file_order` = {pattern!r} has no group. Put one around the digits, as in "
                "'update-(\\d+)'."
            )

    @cached_property
    def _form(self) -> Preset:
        """The source's settings, with missing ones taken from its preset."""
        return self._fill_in(PRESETS.get(self.preset, Preset(record="", fields={})))

    def _fill_in(self, base: Preset) -> Preset:
        """Return the source's settings, with missing ones taken from `base`, a preset or one of its `others`.

        Raises:
            InputError: If the paths of a field are empty, or neither a string nor a list of strings.
        """
        paths = {key: _to_paths(self.name, key, value) for key, value in self.fields.items()}
        return Preset(
            record=self.record or base.record,
            fields={**base.fields, **paths},
            deleted=self.deleted or base.deleted,
            file_order=self.file_order or base.file_order,
            blocks=self.blocks or base.blocks,
            skip=self.skip or base.skip,
            marks=self.marks or base.marks,
            label=self.label or base.label,
            others=() if self.record else tuple(map(self._fill_in, base.others)),
        )

    @cached_property
    def _forms(self) -> dict[str, RecordForm]:
        """The form that describes how to read each kind of record, by the record's element name."""
        return {form.record: self._parse_form(form) for form in (self._form, *self._form.others)}

    def _parse_form(self, form: Preset) -> RecordForm:
        """Parse the paths and element names in a preset.

        Raises:
            InputError: If a path or element is invalid.
        """
        prefix = f"Source {self.name!r}: fields"
        marks: list[PathStep] = [parse_step(mark, f"Source {self.name!r}: marks") for mark in form.marks]
        return RecordForm(
            paths={key: [parse_path(path, f"{prefix}.{key}") for path in paths] for key, paths in form.fields.items()},
            layout=TextLayout(
                blocks=frozenset(form.blocks), skip=frozenset(form.skip), marks=tuple(marks), label=form.label
            ),
            key=" or ".join(form.fields.get("key", ())),
        )

    def settings(self) -> dict[str, Json]:
        """Return the settings that affect the documents, as JSON by field name.

        The preset's settings are included instead of its name.
        """
        form = {key: value for key, value in to_settings_json(self._form).items() if key != "others" or value}
        return {**form, "max_record_bytes": self.max_record_bytes}

    def files(self) -> list[tuple[str, Path]]:
        """List the raw files as (name, path) pairs, sorted by name.

        These are the XML files at `path`, without those of another preset.

        Raises:
            InputError: If there are no files, or all of them have another preset's root element.
        """
        wanted = "a .xml or .nxml file (also .gz, .zst, .bz2, .xz), a folder of them, or a glob"
        refused = f"is no .xml or .nxml. Set its `path` to {wanted}."
        files = find_by_ending(self.name, self.path, ENDINGS, wanted, refused)
        found = [each for name, path in files for each in self.iter_inside(name, path)]
        if all(reason for _, _, reason in found):
            kinds = " and ".join(sorted({reason for _, _, reason in found}))
            raise InputError(f"Source {self.name!r}: {self.path} holds {kinds}. Set its `preset` to what it holds.")
        return [(name, path) for name, path, reason in found if not reason]

    def iter_inside(self, name: str, path: Path) -> Iterator[tuple[str, Path, str]]:
        """Yield (name, path, reason) for a file, or for each file inside an archive.

        There is one tuple, for the file itself. The reason is "", or says that the file has another preset's root
        element and is therefore not read.
        """
        other = ""
        if self.preset and name.lower().endswith(ENDINGS):
            with suppress(InputError):  # reading it says why
                other = find_preset(path)
        yield name, path, describe_preset(other) if other not in ("", self.preset) else ""

    def slices(self, file: RawFile) -> list[Slice]:
        """Cut a file into slices, byte ranges that are read independently.

        An XML file is one slice.
        """
        return [slice_whole_file(file)]

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """Yield the records of a slice in file order, and count them in `tally`.

        A deletion is a dropped record.

        Args:
            piece: The slice, which is the whole file.
            tally: Counts the records, and knows which ones crashed earlier and must be skipped.

        Raises:
            InputError: During iteration, if the file is damaged or truncated, or contains no records.
        """
        container = self._form.deleted.partition("/")[0]
        cutter = RecordCutter(tuple(filter(None, (*self._forms, container))), self.max_record_bytes)
        for cut in self._cut_file(piece.file, cutter, tally):
            tally.records += cut.fault == "no start"
            if cut.name == container and container:
                yield from self._read_deletions(cut, piece.file, tally)
            else:
                yield self._build_record(cut, piece.file, cutter.head, tally)

    def raw_record(self, file: Path, locator: Locator) -> bytes:
        """Return the bytes of the record at a locator that `records` yielded.

        These are the bytes of the XML element of a record or deletion. A compressed file is decompressed from its
        beginning.

        Raises:
            InputError: If the file cannot be read.
        """
        return read_again(file, locator.offset, locator.length)

    def _cut_file(self, file: RawFile, cutter: RecordCutter, tally: Tally) -> Iterator[CutElement]:
        """Yield the elements cut out of a file, and count the file's records in the tally along the way.

        Raises:
            InputError: During iteration, if the file is damaged, truncated or UTF-16, or contains no records.
        """
        counts = [RecordCounter(name) for name in self._forms]
        at = 0
        with open_raw(parse_raw_path(file.path)) as stream:
            try:
                while data := stream.read(PIECE_BYTES):
                    if not at and data.startswith(BYTE_ORDER_MARKS):
                        raise InputError(f"{file.path} is UTF-16. Convert it to UTF-8, for instance with `iconv`.")
                    at += len(data)
                    tally.records += sum(count.feed(data) for count in counts)
                    yield from cutter.feed(data)
            except READ_FAULTS as error:
                damage = f"damaged behind byte {at} of what it holds"
                raise InputError(f"{file.path} is {damage}: {error}. Get it again.") from error
        tally.records += sum(count.finish() for count in counts)
        yield from cutter.finish()
        self._check_end(file, cutter, at)

    def _check_end(self, file: RawFile, cutter: RecordCutter, size: int) -> None:
        """Check, after the last byte, that a file is complete and contains records.

        Args:
            file: The file.
            cutter: The cutter that has processed it.
            size: Number of its decompressed bytes.

        Raises:
            InputError: If it is truncated or contains no records.
        """
        if cutter.open_start is not None:
            raise InputError(
                f"{file.path} ends at byte {size} inside the record that begins at byte {cutter.open_start}: it is cut "
                "off. Get it again."
            )
        if cutter.root and not cutter.is_closed:
            raise InputError(
                f"{file.path} ends at byte {size} before </{cutter.root.decode(errors='replace')}>: it is cut off. "
                "Get it again."
            )
        children = len(re.findall(rb"<[A-Za-z_]", cutter.head)) - 1
        if not cutter.num_records and (children > 0 or not cutter.root):
            raise InputError(
                f"{file.path} holds no <{self._form.record}>; it begins {cutter.head[:80]!r}. Set the source's "
                "`record` or `preset` to what it holds, or take it out of `path`."
            )

    def _build_record(self, cut: CutElement, file: RawFile, head: bytes, tally: Tally) -> Record:
        """Build the record of a cut element. An element that is too large or cannot be read yields a dropped record.

        `head` contains the bytes of the file before its first record.
        """
        locator = build_locator(file, cut.offset, cut.length)
        if cut.fault == "too large":
            return drop_too_large(locator, self.max_record_bytes)
        raw = cut.data or str(locator).encode()
        quarantined = tally.enter(locator)
        if quarantined:
            return Record(locator=locator, text="", raw=raw, drop=quarantined)
        try:
            if cut.fault:
                raise BadRecord(f"a record with {cut.fault} tag")
            element = parse_record(cut.data, find_encoding(head), find_namespaces(head))
            fields = self._read_fields(element, file, self._forms[cut.name])
        except BadRecord as error:
            return drop_damaged(locator, raw, error)
        return Record(locator=locator, raw=raw, drop=None if fields["text"] else Drop("empty"), **fields)

    def _read_fields(self, element: Any, file: RawFile, form: RecordForm) -> dict[str, Any]:
        """Read the fields of a record's element. Return them by attribute of `Record`.

        Raises:
            BadRecord: If the record has no key, or an invalid version.
            InputError: If the number in the file's name is too long.
        """
        texts = [
            part
            for path in form.paths["text"]
            for hit in find_all(element, path)
            for part in ([to_plain_text(hit)] if isinstance(hit, str) else extract_paragraphs(hit, form.layout))
        ]
        fields: dict[str, Any] = {"text": "\n\n".join(part for part in texts if part)}
        for name in form.paths.keys() - {"text", "version", "revision", "date"}:
            fields[name] = form.find_first(element, name)
        if "key" in fields and not fields["key"]:
            raise BadRecord(f"no {form.key} (key)")
        if "date" in form.paths:
            fields["date"] = next((date for hit in form.iter_hits(element, "date") if (date := parse_date(hit))), None)
        fields["revision"] = self._compute_revision(element, file, form)
        return fields

    # Revisions and deletions

    def _compute_revision(self, element: Any, file: RawFile, form: RecordForm) -> int | None:
        """Return the number that orders records with the same key; the highest one is kept.

        Return None if the record has no revision, and neither versions nor the setting `file_order` are used.

        Args:
            element: The record's element.
            file: The file, which may have a number in its name.
            form: Describes where the record has its version and revision.

        Raises:
            BadRecord: If the record's version is invalid.
            InputError: If the number in the file's name is too long.
        """
        value = next(
            (number for hit in form.iter_hits(element, "revision") if (number := _parse_number(hit)) is not None), None
        )
        if not self._form.file_order and "version" not in form.paths:
            return value
        version = form.find_first(element, "version") if "version" in form.paths else None
        return _combine_revision(version, self._find_file_number(file) or 0, value or 0)

    def _find_file_number(self, file: RawFile) -> int | None:
        """Return the number in a file's name, as matched by the setting `file_order`; None if it does not match.

        Raises:
            InputError: If the groups match anything but a number of at most six digits.
        """
        if not self._form.file_order:
            return None
        match = re.search(self._form.file_order, file.name.rpartition("/")[2])
        digits = "".join(filter(None, match.groups())) if match else ""
        if match and not (digits.isdecimal() and int(digits) < VERSION_UNIT // FILE_UNIT):
            raise InputError(
                f"{file.path}: `file_order` finds {digits!r} in its name, which is no number of at most 6 digits. Set "
                f"the groups of {self._form.file_order!r} around the digits alone."
            )
        return int(digits) if match else None

    def _read_deletions(self, cut: CutElement, file: RawFile, tally: Tally) -> Iterator[Record]:
        """Yield a dropped record for each element in a container of deletions, and count them in the tally.

        Raises:
            InputError: During iteration, if a deletion cannot be read, or the file's name has no number.
        """
        place = f"{file.path}: the <{cut.name}> at byte {cut.offset}"
        number = self._find_file_number(file)
        if cut.fault:
            remedy = "Raise max_record_bytes." if cut.fault == "too large" else "Get the file again."
            raise InputError(f"{place} cannot be read ({cut.fault}), so what it deletes would stay. {remedy}")
        if number is None:
            raise InputError(
                f"{place} deletes records, but the file's name has no number for {self._form.file_order!r}, so they "
                "cannot be put in order with other files'. Give it back the name that it was published under."
            )
        tag = self._form.deleted.partition("/")[2].encode()
        start = rb"<(?:[\w.-]+:)?" + tag + rb"(?=[ \t\r\n/>])"
        end = rb"</(?:[\w.-]+:)?" + tag + rb"\s*>"
        last = max(
            (match.end() for match in re.finditer(end, cut.data)), default=0
        )  # or each start is looked for an end
        matches = list(re.compile(start + rb".*?" + end, re.DOTALL).finditer(cut.data, 0, last))
        num_starts = len(re.findall(start, cut.data))
        if num_starts != len(matches):
            raise InputError(
                f"{place} begins {num_starts} deletions and {len(matches)} of them can be read. Get the file again."
            )
        tally.records += num_starts
        for match in matches:
            yield self._build_deletion(
                match[0], build_locator(file, cut.offset + match.start(), len(match[0])), number, place
            )

    def _build_deletion(self, data: bytes, locator: Locator, number: int, place: str) -> Record:
        """Build the dropped record of a deletion.

        Args:
            data: The bytes of the deletion's element.
            locator: The position of these bytes.
            number: The number in the file's name.
            place: The file and the container, for error messages.

        Raises:
            InputError: If the element cannot be read.
        """
        try:
            element = parse_record(data, "utf-8", b"")
            paths = self._forms[self._form.record].paths.get("version", ())
            version = [path.attribute for path in paths if path.attribute]
            version_text = next((value for name in version for value in find_all(element, FieldPath((), name))), None)
            revision = _combine_revision(version_text, number, FILE_UNIT - 1)
            key = to_plain_text(element)
            if not key:
                raise BadRecord("it is empty")
        except BadRecord as error:
            raise InputError(f"{place} holds a deletion that cannot be read: {error}. Get the file again.") from error
        return Record(locator=locator, text="", key=key, raw=data, revision=revision, drop=Drop("deleted"))


def _to_paths(name: str, key: str, value: Any) -> tuple[str, ...]:
    """Return a field's paths as a tuple. `value` is one path or a list of paths.

    Args:
        name: Name of the source, for error messages.
        key: The field.
        value: The field's value in the recipe.

    Raises:
        InputError: If the value is empty, or neither a string nor a list of strings.
    """
    paths = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, (list, tuple)) else ()
    if not paths or not all(isinstance(path, str) and path for path in paths):
        raise InputError(f"Source {name!r}: fields.{key} = {value!r} is neither a path nor a list of paths.")
    return paths


def _combine_revision(version: str | None, file_number: int, number: int) -> int:
    """Return a number that orders records by version (1 if not given), then by file, then by the record's own number.

    Raises:
        BadRecord: If the version or the number in the record is invalid.
    """
    if version is not None and not (version.isdecimal() and len(version) < 20 and int(version) <= MAX_VERSION):
        raise BadRecord(f"its version is no number up to {MAX_VERSION}: {version[:40]!r}")
    if not 0 <= number < FILE_UNIT:
        raise BadRecord(f"its revision is no number of at most 8 digits: {number}")
    return (1 if version is None else int(version)) * VERSION_UNIT + file_number * FILE_UNIT + number


def _parse_number(hit: Any) -> int | None:
    """Parse an integer, or a date as the number YYYYMMDD. Return None for anything else.

    `hit` is a result of `find_all`.
    """
    text = to_plain_text(hit)
    if isinstance(hit, str) or not len(hit):
        if re.fullmatch(r"-?\d{1,19}", text) and abs(int(text)) <= MAX_REVISION:
            return int(text)
    date = parse_date(hit)
    return int((date.replace("-", "") + "0000")[:8]) if date else None
