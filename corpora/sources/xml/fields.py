"""The fields of an XML record: paths to elements and attributes, and the text of an element as paragraphs.

Promises: a record is parsed alone, so its parser knows no DTD, loads nothing and expands no entity but XML's five and
those of HTML, which are characters. Names are compared without their namespace. Inline elements join without a
space, elements that are blocks are apart; white space is one space.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from html.entities import html5
from typing import Any, NamedTuple

from lxml import etree

from corpora.errors import InputError
from corpora.sources.bytes.faults import BadRecord
from corpora.sources.formulas import FORMULA, show_formula, show_mathml

STEP = re.compile(r"(?P<name>[\w.-]+|\*)(?:\[@(?P<attribute>[\w.:-]+)=(?P<q>['\"])(?P<value>[^'\"]*)(?P=q)\])?")
XML_ENTITIES = frozenset((b"amp", b"lt", b"gt", b"quot", b"apos"))
ENTITY = re.compile(rb"&([A-Za-z_][\w.-]*);")
CDATA = re.compile(rb"(<!\[CDATA\[.*?\]\]>)", re.DOTALL)
DELETED = re.compile(rb"<\?delete-start\b[^>]*>((?:(?!<\?delete-start\b).)*?)<\?delete-end\b[^>]*>", re.DOTALL)
TAG = re.compile(rb"</?[\w:.-]+(?:[^<>\"']|\"[^\"]*\"|'[^']*')*>")
BOLD = frozenset(("b", "bold"))
LABEL = re.compile(r"\s*[^\W\d_][^:.]{2,60}:\s*[^:]?")  # of a part, and the character after it
BREAK = "\0"  # no character of XML
SPACES = re.compile(r"[ \t\r\n]{2,}|[\t\r\n]")
MARK = "\1"  # nor is this
# Elements that hold a formula: MathML's and TeX's, those around them, and those of patents.
FORMULAS = frozenset(
    "math tex-math inline-formula disp-formula disp-formula-group chem-struct-wrap maths chemistry MATH-US MATH-CWU "
    "CHEM-US math-us math-cwu chemistry-cwu chemistry-us".split()
)
LINE_ENDS = frozenset(("br", "break"))
READINGS = frozenset(("rt", "rp", "rtc"))
IN_LINE = frozenset("italic bold i b roman monospace styled-content".split())  # what a formula in a line may be made of
MARKS = re.compile("\1(?:[\\s,;\u2013-]*\1)*")
BRACKETED_MARK = re.compile("[\\[(]\\s*\1\\s*[\\])]")
TWO_STOPS = re.compile("(?<=\\.)\\s*\1\\s*\\.(?![.\\d])")  # an abbreviation's, and its sentence's
# The letters of ISO 8879 (ISOgrk1), in the order of the alphabet, for HTML has names of its own.
_GREEK_NAMES = "a b g d e z ee th i k l m n x o p r s t u ph kh ps oh".split()
GREEK = {f"{name}gr": letter for name, letter in zip(_GREEK_NAMES, "αβγδεζηθικλμνξοπρστυφχψω", strict=True)}
GREEK |= {f"{name[:-2].upper()}gr": letter.upper() for name, letter in GREEK.items()} | {"sfgr": "ς"}
MONTHS = {name: number for number, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}
UNSAID_LABELS = frozenset(("UNLABELLED", "UNASSIGNED"))


class PathStep(NamedTuple):
    """One step of a path: an element's name ("*" for any), what one of its attributes must be, and how deep it is."""

    name: str
    attribute: str
    value: str
    deep: bool


class FieldPath(NamedTuple):
    """Elements below a record, or one attribute of each. attribute: "" for the elements themselves."""

    steps: tuple[PathStep, ...]
    attribute: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLayout:
    """The layout of an element's text, by names of elements in it: see `XmlSource`."""

    blocks: frozenset[str] = frozenset()
    skip: frozenset[str] = frozenset()
    marks: tuple[PathStep, ...] = ()
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordForm:
    """The form of a record: the paths of its fields, and the layout of its text. key: the paths of the key in words."""

    paths: dict[str, list[FieldPath]]
    layout: TextLayout
    key: str

    def hits(self, element: Any, name: str) -> Iterator[Any]:
        """The elements or values of a field."""
        return (hit for path in self.paths.get(name, ()) for hit in find_all(element, path))

    def first(self, element: Any, name: str) -> str | None:
        """The first of them that holds a text, on one line."""
        return next((text for hit in self.hits(element, name) if (text := plain_text(hit))), None)


def parse_path(text: str, where: str) -> FieldPath:
    """A path such as `a/b`, `a//b`, `a/b[@c='d']`, `a/@b` or `.`. where: for the message. Raises InputError.

    >>> parse_path("MedlineCitation/PMID/@Version", "key").attribute
    'Version'
    """
    steps: list[PathStep] = []
    deep, attribute = False, ""
    parts = _split(text)
    for number, part in enumerate(parts):
        match = STEP.fullmatch(part)
        if part == "" and number < len(parts) - 1:
            deep = True
        elif part.startswith("@") and number == len(parts) - 1 and STEP.fullmatch(part[1:]):
            attribute = part[1:]
        elif match:
            steps.append(PathStep(match["name"], _local(match["attribute"] or ""), match["value"] or "", deep))
            deep = False
        elif part != "." or len(parts) > 1:
            raise InputError(
                f"{where}: {text!r} is no path. Write names of elements from the record down, as in 'Abstract/"
                "AbstractText', with '//' for any depth, [@name='value'] after one, and '@name' at the end."
            )
    return FieldPath(tuple(steps), _local(attribute))


def _split(text: str) -> list[str]:
    """The steps of a path, "" for any depth; a slash in brackets does not end one."""
    if text.startswith("//"):
        return ["", *_split(text[2:])]
    parts, start, inside = [], 0, False
    for at, sign in enumerate(text):
        inside = sign == "[" or (inside and sign != "]")
        if sign == "/" and not inside:
            parts.append(text[start:at])
            start = at + 1
    return [*(parts if text[:1] != "/" else ["/"]), text[start:]]


def parse_step(text: str, where: str) -> PathStep:
    """One element such as `xref` or `xref[@ref-type='bibr']`. Raises InputError."""
    steps = parse_path(text, where).steps
    if len(steps) != 1:
        raise InputError(f"{where}: {text!r} is not one element. Write its name alone.")
    return steps[0]


def find_all(record: Any, path: FieldPath) -> list[Any]:
    """The elements of a path, or the values of its attribute, below each element of the step before in its order.

    An element that is below two of the step before, one in the other, is found twice: `//sec//p` where sections nest.
    """
    elements = [record]
    for step in path.steps:
        elements = [child for element in elements for child in _below(element, step.deep) if matches(child, step)]
    if not path.attribute:
        return elements
    values = (_attribute(element, path.attribute) for element in elements)
    return [value for value in values if value is not None]


def _below(element: Any, deep: bool) -> list[Any]:
    return list(element.iterdescendants(etree.Element)) if deep else list(element.iterchildren(etree.Element))


def matches(element: Any, step: PathStep) -> bool:
    """Return True if an element matches a step."""
    if step.name not in ("*", _local(element.tag)):
        return False
    return not step.attribute or _attribute(element, step.attribute) == step.value


def _attribute(element: Any, name: str) -> str | None:
    return next((str(value) for key, value in element.attrib.items() if _local(key) == name), None)


@lru_cache(maxsize=1 << 12)
def _local(name: str) -> str:
    return name.rpartition("}")[2].rpartition(":")[2]


def parse_record(data: bytes, encoding: str, declared: bytes) -> Any:
    """The element of a record's bytes. declared: namespaces that hold around it. Raises BadRecord."""
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
        text = DELETED.sub(_tags, with_characters(text))
        root = etree.fromstring(b"<r" + declared + b">" + text + b"</r>", parser)
    except etree.XMLSyntaxError as error:
        raise BadRecord(f"not well-formed XML: {error.msg}") from error
    if len(root) != 1:
        raise BadRecord("it is not one element")
    return root[0]


def with_characters(data: bytes) -> bytes:
    """The named entities of HTML as characters. Raises BadRecord for an entity that only a DTD could tell.

    >>> with_characters(b"<a>&eacute; &lt; <![CDATA[&nbsp;]]></a>").decode()
    '<a>é &lt; <![CDATA[&nbsp;]]></a>'
    """
    if b"&" not in data:
        return data
    last = data.rfind(b"]]>") + 3 if b"<![CDATA[" in data else 0  # a section that does not end is none
    parts = CDATA.split(data[:last])
    parts[-1] += data[last:]
    return b"".join(part if part.startswith(b"<![CDATA[") else ENTITY.sub(_character, part) for part in parts)


def _tags(match: "re.Match[bytes]") -> bytes:
    """Only the tags of what was deleted, which may begin in one element and end in another."""
    return b"".join(TAG.findall(match[1]))


def _character(match: "re.Match[bytes]") -> bytes:
    name = match[1]
    if name in XML_ENTITIES:
        return match[0]
    word = name.decode("ascii", "replace")
    character = html5.get(word + ";") or GREEK.get(word)
    if character is None:
        raise BadRecord(f"it uses the entity &{name.decode(errors='replace')};, and entities are never expanded")
    return character.replace("&", "&amp;").replace("<", "&lt;").encode()


def paragraphs(element: Any, layout: TextLayout) -> list[str]:
    """An element's text, in paragraphs where it has blocks; after its label, where it has one."""
    pieces: list[str] = []
    _collect(element, layout, pieces)
    text = "".join(pieces)
    if layout.marks:
        text = without_marks(text)
    parts = [part for part in (SPACES.sub(" ", part).strip(" ") for part in text.split(BREAK)) if part]
    label = (_attribute(element, layout.label) or "").strip() if layout.label else ""
    if label and label.upper() not in UNSAID_LABELS and parts:
        parts[0] = f"{label}: {parts[0]}"
    return parts


def without_marks(text: str) -> str:
    r"""A text without the signs that are marks, their brackets, and what parts them from other words.

    >>> without_marks("Shown [\1,\1] here \1, \1. So it is\1 (Lee 2003; \1), by Lee et al. [\1].")
    'Shown here. So it is (Lee 2003), by Lee et al.'
    """
    *parts, last = TWO_STOPS.sub(MARK, BRACKETED_MARK.sub(MARK, MARKS.sub(MARK, text))).split(MARK)
    return "".join(part.rstrip().removesuffix(",").removesuffix(";").rstrip() for part in parts) + last


def _collect(element: Any, layout: TextLayout, pieces: list[str]) -> None:
    pieces.append(element.text or "")
    parted = len(element) == 0 or _local(element.tag) in layout.blocks or not _is_in_sentence(element)
    for child in element.iterchildren(etree.Element):
        name = _local(child.tag)
        if layout.marks and _is_mark(child, layout):
            pieces.append(MARK)
        elif name in FORMULAS and name not in layout.skip and (len(child) or "formula" in name):
            pieces.append(_show_formula(child))
        elif name in READINGS and _local(element.tag) in ("ruby", "rtc"):
            pass
        elif name not in layout.skip and not (name == "sec" and _has_title_alone(child, layout)):
            label = name in BOLD and LABEL.fullmatch((child.text or "") + (child.tail or "")[:1])
            gap = BREAK if parted and name in layout.blocks else " " if label or name in LINE_ENDS else ""
            pieces.append(gap)
            _collect(child, layout, pieces)
            pieces.append(gap if not label or ":" in child.text else "")
        pieces.append(child.tail or "")


def _show_formula(element: Any) -> str:
    """A formula in one of its forms, which are TeX, MathML, or words and pictures; "" for one that is empty."""
    within = [each for each in element.iter(etree.Element) if _local(each.tag) in ("tex-math", "math")]
    tex = next((text for each in within if _local(each.tag) == "tex-math" and (text := show_formula(_text(each)))), "")
    if tex:
        return tex
    shown = (show_mathml(etree.tostring(each, encoding="unicode", with_tail=False)) for each in within)
    if mathml := next(filter(None, shown), ""):
        return mathml
    if lines := [_text(each) for each in element.iter(etree.Element) if _local(each.tag) == "textual-form"]:
        return show_formula(lines[0])
    names = {_local(each.tag) for each in element.iterdescendants(etree.Element)} - {"label"}
    if not names <= IN_LINE or within:
        return FORMULA
    return show_formula(_text(element)) if "formula" in _local(element.tag) or not _text(element).strip() else FORMULA


def _text(element: Any) -> str:
    return "".join(element.itertext())


def _is_in_sentence(element: Any) -> bool:
    """Return True if there are words right before an element or after it, as about a reference to another claim."""
    before, parent = element.getprevious(), element.getparent()
    text = before.tail if before is not None else parent.text if parent is not None else ""
    return bool((text or "").strip() or (element.tail or "").strip())


def _has_title_alone(section: Any, layout: TextLayout) -> bool:
    """Return True for a section of which all but its title is left out, such as one of tables or supplements."""
    names = [_local(child.tag) for child in section.iterchildren(etree.Element)]
    read = [name for name in names if name not in layout.skip]
    return read == ["title"] and not {"label", "title"}.issuperset(names)


def _is_mark(element: Any, layout: TextLayout) -> bool:
    """Return True if an element is one of `marks` that holds no letter, or one that is raised: the sign of a note."""
    if not any(matches(element, step) for step in layout.marks):
        return False
    text = _text(element).strip(" []()")
    is_raised = any(_local(each.tag) == "sup" for each in (element.getparent(), *element) if each is not None)
    return not any(letter.isalpha() for letter in text) or (len(text) == 1 and is_raised)


def plain_text(hit: Any) -> str:
    """Return what an element or attribute holds, on one line."""
    pieces = [hit] if isinstance(hit, str) else []
    if not isinstance(hit, str):
        _collect(hit, TextLayout(), pieces)
    text = "".join(pieces)
    return SPACES.sub(" ", text).strip()


def date_of(hit: Any) -> str | None:
    """A date as YYYY, YYYY-MM or YYYY-MM-DD: of an element with a year, month and day, or of a text.

    >>> date_of("20150106"), date_of(etree.fromstring("<d><Year>2017</Year><Month>Jun</Month></d>"))
    ('2015-01-06', '2017-06')
    """
    children = {} if isinstance(hit, str) else {_local(child.tag).lower(): plain_text(child) for child in hit}
    if "year" in children:
        month = MONTHS.get(children.get("month", "")[:3].lower()) or children.get("month", "")
        parts = [children["year"], str(month), children.get("day", "") if month else ""]
        return "-".join(part.zfill(2) for part in parts if part.isascii() and part.isdigit()) or None
    match = re.match(r"(\d{4})(?:-?(\d\d)(?:-?(\d\d))?)?(?!\d)", plain_text(hit), re.ASCII)
    return "-".join(part for part in match.groups() if part) if match else None
