"""The elements of HTML as far as text depends on them, and the table that a page is read to.

Source: html.spec.whatwg.org, sections 13.1.2 (elements, omitted tags) and 13.2.5 (tokens); what is left out is the
adoption of misplaced table content and of misnested formatting, which moves no text.

The module also has kernels for the characters of a page: white space, and references ("&amp;", "&#233;").

Promises: if `read_reference` is sure, it reads what `html.unescape` makes of the reference. Of others, which are rare
(names without ";", long names, control characters and invalid ones), it says that it is not sure. Costs: 20 ns each.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from html.entities import html5, name2codepoint
from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Bytes, Int64s
from corpora.kernels.compiling import kernel
from corpora.store.settings import check_range

VOID_TAGS = frozenset("area base br col embed hr img input link meta param source track wbr".split())
RAW_TAGS = (
    *("script", "style", "textarea", "title", "iframe", "template", "svg", "math", "select"),
    *("canvas", "audio", "xmp", "noembed", "noframes"),
)
INLINE_TAGS = frozenset(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr q rb rp rt ruby s samp "
    "small span strike strong sub sup time tt u var wbr o:p".split()
)
REWRITTEN_TAGS = ("rt", "rp", "del")  # which `hypertext.without_readings` leaves out
P_ENDING_TAGS = frozenset(
    "address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer form h1 h2 h3 "
    "h4 h5 h6 header hgroup hr main menu nav ol p pre section table ul".split()
)
# A start tag: (the open elements that it ends, those after which it does not look).
IMPLIED_ENDS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "li": (frozenset(("li",)), frozenset(("ul", "ol", "menu", "dir", "table", "body"))),
    "dt": (frozenset(("dt", "dd")), frozenset(("dl", "table", "body"))),
    "dd": (frozenset(("dt", "dd")), frozenset(("dl", "table", "body"))),
    "td": (frozenset(("td", "th")), frozenset(("tr", "table", "body"))),
    "th": (frozenset(("td", "th")), frozenset(("tr", "table", "body"))),
    "tr": (frozenset(("tr",)), frozenset(("table", "tbody", "thead", "tfoot", "body"))),
    "option": (frozenset(("option",)), frozenset(("select", "body"))),
}
# Elements out of which the end tag of another kind does not reach.
SCOPE_TAGS = frozenset(("table", "td", "th", "caption", "object", "marquee"))
TABLE_TAGS = frozenset(("table", "tbody", "thead", "tfoot", "tr", "td", "th", "caption"))
HIDDEN_ATTRIBUTES = re.compile(
    r"(?:^|\s)hidden(?:\s|=|$)(?!=[\"']?until)|aria-hidden\s*=\s*[\"']?true|display\s*:\s*none|visibility\s*:\s*hidden|"
    r"(?:class|id)\s*=\s*[\"'][^\"']*(?<![\w-])(?:sr-only|visually-?hidden|screen-?reader(?:-text)?|hidden|hide)(?![\w-])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLimits:
    """Size limits of an HTML page. Larger pages are refused.

    Attributes:
        max_characters: Maximum number of characters of the decoded page.
        max_nodes: Maximum number of start tags.
        max_depth: Maximum number of nested elements.
        max_text: Maximum number of characters of one block of text.
    """

    max_characters: int = 20_000_000
    max_nodes: int = 200_000
    max_depth: int = 2_000
    max_text: int = 1_000_000

    def __post_init__(self) -> None:
        for name in ("max_characters", "max_nodes", "max_depth", "max_text"):
            check_range(f"The limit {name} of a page", getattr(self, name), 1, remedy=": set it to 1 or more.")


class Refused(NamedTuple):
    """The reason why a page is not read.

    Attributes:
        reason: The limit that the page exceeds, or what it lacks.
        detail: Further explanation, e.g. the number that exceeds the limit.
    """

    reason: str
    detail: str = ""


class Block(NamedTuple):
    """A run of text that contains no block element.

    Attributes:
        node: Index of the innermost element around the text.
        tag: Name of the nearest block element.
        text: The text with white space collapsed. A line feed stands for a `<br>` or the end of a line in `<pre>`.
        links: Number of the text's characters that are in links.
    """

    node: int
    tag: str
    text: str
    links: int


class WrittenAttributes(NamedTuple):
    """The raw attribute strings of elements, as slices of UTF-8 bytes.

    Attributes:
        data: The bytes.
        starts: First byte of each element's attributes.
        stops: First byte after each element's attributes.
    """

    data: bytes
    starts: Int64s
    stops: Int64s

    def read(self, element: int) -> str:
        """Return the raw attribute string of the element with this index, such as ' class="a" id=b'."""
        return self.data[self.starts[element] : self.stops[element]].decode("utf-8", "surrogatepass")


def _zero(*shape: int) -> Callable[[], Int64s]:
    """Return a function that creates an int64 array of zeros with this shape."""
    return lambda: np.zeros(shape, np.int64)


@dataclass(slots=True, eq=False)
class Tree:
    """A parsed page. Element 0 is the page itself. Formatting elements such as `<b>` are not listed.

    Attributes:
        names: Names of elements. The last one is "", the name of element 0.
        numbers: Index in `names` of each element's name, in document order; -1 for element 0.
        written: The raw attributes of the elements.
        parents: Index of each element's parent; -1 for element 0.
        spans: int64 array [elements, 2]: the first block inside each element, and the index after the last one.
        blocks: The blocks of text in document order.
        metas: Raw attribute strings of `<meta>`.
        links: Raw attribute strings of `<link>`, and of `<a>` elements that mention a license.
        times: Raw attribute strings of `<time>`.
        title: Text of `<title>`.
        scripts: Contents of JSON-LD scripts.
        html: Raw attribute string of `<html>`.
        hidden: Number of text runs in hidden formatting elements.
        marks: The cached result of `compute_marks`; None if it has not been called yet.
    """

    names: list[str] = field(default_factory=lambda: [""])
    numbers: Int64s = field(default_factory=lambda: np.full(1, -1))
    written: WrittenAttributes = field(default_factory=lambda: WrittenAttributes(b"", _zero(1)(), _zero(1)()))
    parents: Int64s = field(default_factory=lambda: np.full(1, -1))
    spans: Int64s = field(default_factory=_zero(1, 2))
    blocks: list[Block] = field(default_factory=list)
    metas: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    times: list[str] = field(default_factory=list)
    title: str = ""
    scripts: list[str] = field(default_factory=list)
    html: str = ""
    hidden: int = 0
    marks: tuple[Int64s, Int64s] | None = None

    def get_tag(self, element: int) -> str:
        """Return the name of the element with this index."""
        return self.names[int(self.numbers[element])]

    def find_elements(self, name: str) -> list[int]:
        """Return the indices of the elements with the given name, in document order."""
        return np.flatnonzero(self.numbers == self.names.index(name)).tolist() if name in self.names else []


MAX_NAME_BYTES = 8  # bytes of a name that is looked up as one number
_NAMED = sorted(
    (int.from_bytes(name.encode(), "little"), ord(html5[f"{name};"]))
    for name in name2codepoint
    if len(name) <= MAX_NAME_BYTES
)
_NAMES, _CODES = np.array([name for name, _ in _NAMED], np.uint64), np.array([code for _, code in _NAMED], np.int64)
_AMPERSAND, _NUMBER, _SEMICOLON, _LESS, _X, _A = (ord(each) for each in "&#;<xa")
_ENDS = np.array([chr(each) in "\t\n\f <&" for each in range(256)])  # after a "&" that is itself
MAX_DIGITS = 7


@kernel
def measure_space(data: Bytes, at: int) -> int:
    """Return the length in bytes of the UTF-8 character at `at` if `str.isspace` is true for it, else 0."""
    byte = data[at]
    if byte < 0x80:
        return int(byte == 32 or 9 <= byte <= 13 or 28 <= byte <= 31)
    if byte == 0xC2:
        return 2 if data[at + 1] == 0x85 or data[at + 1] == 0xA0 else 0
    if byte < 0xE1 or byte > 0xE3:
        return 0
    rest = int(data[at + 1]) << 8 | int(data[at + 2])
    if byte == 0xE2:
        return 3 if 0x8080 <= rest <= 0x808A or rest in (0x80A8, 0x80A9, 0x80AF, 0x819F) else 0
    return 3 if (rest == 0x9A80 and byte == 0xE1) or (rest == 0x8080 and byte == 0xE3) else 0


@kernel
def skip_spaces(data: Bytes, at: int, stop: int) -> int:
    """Return the position of the first byte at or after `at` that is not white space.

    The result is at least `stop` if there is none before `stop`.
    """
    width = 1
    while at < stop and width > 0:
        width = measure_space(data, at)
        at += width
    return at


@kernel
def read_reference(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """Read the character reference that may begin with the "&" at `at`.

    Args:
        data: UTF-8 bytes.
        at: Position of the "&".
        stop: End of the text.

    Returns:
        The code point and the reference's length in bytes. A plain "&" returns its own code point and 1. If the kernel
        cannot decide, the result is (-1, 1).
    """
    if at + 1 == stop or _ENDS[data[at + 1]]:
        return _AMPERSAND, 1
    if data[at + 1] == _NUMBER:
        return _read_number(data, at, stop)
    name, end = np.uint64(0), at + 1
    while end < min(stop, at + 1 + MAX_NAME_BYTES) and data[end] != _SEMICOLON:
        name |= np.uint64(data[end]) << np.uint64(8 * (end - at - 1))
        end += 1
    if end == stop or data[end] != _SEMICOLON:
        return -1, 1
    low, high = 0, len(_NAMES) - 1
    while low < high:
        middle = (low + high) >> 1
        if _NAMES[middle] < name:
            low = middle + 1
        else:
            high = middle
    return (int(_CODES[low]), end + 1 - at) if _NAMES[low] == name else (-1, 1)


@kernel
def _read_number(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """Read the numeric character reference ("&#233;" or "&#xe9;") that begins at `at`.

    Args:
        data: UTF-8 bytes.
        at: Position of its "&".
        stop: End of the text.

    Returns:
        The code point and the reference's length in bytes; (-1, 1) if the kernel cannot decide.
    """
    end, base, code = at + 2, 10, 0
    if end < stop and data[end] | 32 == _X:
        end, base = end + 1, 16
    first = end
    while end < min(stop, first + MAX_DIGITS + 1):
        byte = data[end]
        digit = byte - 48 if byte < 58 else (byte | 32) - _A + 10 if byte >= 65 else 16
        if digit < 0 or digit >= base:
            break
        end, code = end + 1, code * base + digit
    is_sure = 0x20 <= code < 0x7F or 0xA0 <= code < 0xD800 or 0xE000 <= code < 0xFDD0
    if not is_sure or end == first or end > first + MAX_DIGITS:
        return -1, 1
    return code, end - at + int(end < stop and data[end] == _SEMICOLON)


@kernel
def write_character(text: Bytes, at: int, code: int) -> int:
    """Write the character with code point `code`, from U+0080 to U+FFFF, as UTF-8 to `text`, beginning at index `at`.

    Returns:
        The number of bytes written: 2 or 3.
    """
    if code < 0x800:
        text[at], text[at + 1] = 0xC0 | code >> 6, 0x80 | code & 0x3F
        return 2
    text[at], text[at + 1], text[at + 2] = 0xE0 | code >> 12, 0x80 | code >> 6 & 0x3F, 0x80 | code & 0x3F
    return 3
