"""The elements of HTML as far as text depends on them, and what a page is read to.

Source: html.spec.whatwg.org, sections 13.1.2 (elements, omitted tags) and 13.2.5 (tokens); what is left out is the
adoption of misplaced table content and of misnested formatting, which moves no text.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Int64s
from corpora.store.settings import check_range

VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
RAW = (
    *("script", "style", "textarea", "title", "iframe", "template", "svg", "math", "select"),
    *("canvas", "audio", "xmp", "noembed", "noframes"),
)
INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr q rb rp rt ruby s samp "
    "small span strike strong sub sup time tt u var wbr o:p".split()
)
REWRITTEN = ("rt", "rp", "del")  # which `hypertext.without_readings` leaves out
ENDS_P = frozenset(
    "address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer form h1 h2 h3 "
    "h4 h5 h6 header hgroup hr main menu nav ol p pre section table ul".split()
)
# A start tag: (the open elements that it ends, those after which it does not look).
ENDED: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "li": (frozenset(("li",)), frozenset(("ul", "ol", "menu", "dir", "table", "body"))),
    "dt": (frozenset(("dt", "dd")), frozenset(("dl", "table", "body"))),
    "dd": (frozenset(("dt", "dd")), frozenset(("dl", "table", "body"))),
    "td": (frozenset(("td", "th")), frozenset(("tr", "table", "body"))),
    "th": (frozenset(("td", "th")), frozenset(("tr", "table", "body"))),
    "tr": (frozenset(("tr",)), frozenset(("table", "tbody", "thead", "tfoot", "body"))),
    "option": (frozenset(("option",)), frozenset(("select", "body"))),
}
# Elements out of which the end tag of another kind does not reach.
SCOPES = frozenset(("table", "td", "th", "caption", "object", "marquee"))
TABLE_TAGS = frozenset(("table", "tbody", "thead", "tfoot", "tr", "td", "th", "caption"))
HIDDEN = re.compile(
    r"(?:^|\s)hidden(?:\s|=|$)(?!=[\"']?until)|aria-hidden\s*=\s*[\"']?true|display\s*:\s*none|visibility\s*:\s*hidden|"
    r"(?:class|id)\s*=\s*[\"'][^\"']*(?<![\w-])(?:sr-only|visually-?hidden|screen-?reader(?:-text)?|hidden|hide)(?![\w-])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLimits:
    """The largest page that is read.

    max_characters: of the decoded page
    max_nodes:      start tags
    max_depth:      of elements in one another
    max_text:       characters of one block of text
    """

    max_characters: int = 20_000_000
    max_nodes: int = 200_000
    max_depth: int = 2_000
    max_text: int = 1_000_000

    def __post_init__(self) -> None:
        for name in ("max_characters", "max_nodes", "max_depth", "max_text"):
            check_range(f"The limit {name} of a page", getattr(self, name), 1, remedy=": set it to 1 or more.")


class Refused(NamedTuple):
    """The reason why a page is not read: the bound it breaks, and how."""

    reason: str
    detail: str = ""


class Block(NamedTuple):
    """Text between two borders of blocks.

    node:  the element it is in, by number
    tag:   the nearest block element's name
    text:  without surplus white space; "\n" is a `<br>` or a line of `<pre>`
    links: how many of its characters are in links
    """

    node: int
    tag: str
    text: str
    links: int


class WrittenAttributes(NamedTuple):
    """The attributes of elements as they are written: stretches of UTF-8, by their first places and those after the
    last."""

    data: bytes
    starts: Int64s
    stops: Int64s

    def of(self, element: int) -> str:
        """The attributes of an element."""
        return self.data[self.starts[element] : self.stops[element]].decode("utf-8", "surrogatepass")


def _zeros(*shape: int) -> Callable[[], Int64s]:
    return lambda: np.zeros(shape, np.int64)


@dataclass(slots=True, eq=False)
class Tree:
    """A page. Element 0 is the page itself.

    names:                  of elements; at last "", which is that of element 0
    numbers:                of each element that is not mere formatting, in document order, the place of its name
    written, parents:       of each of these, its attributes and the element around it
    spans:                  of each, the first block inside and the one after the last
    blocks:                 its text in document order
    metas, links, times:    attributes of `<meta>`, `<link>` and `<time>`, as they are written
    title:                  of `<title>`
    scripts:                contents of the scripts of JSON-LD
    html:                   attributes of `<html>`
    hidden:                 how many runs of text are in formatting elements that are not shown
    marks:                  what `marks_of` has found, which is asked for twice
    """

    names: list[str] = field(default_factory=lambda: [""])
    numbers: Int64s = field(default_factory=lambda: np.full(1, -1))
    written: WrittenAttributes = field(default_factory=lambda: WrittenAttributes(b"", _zeros(1)(), _zeros(1)()))
    parents: Int64s = field(default_factory=lambda: np.full(1, -1))
    spans: Int64s = field(default_factory=_zeros(1, 2))
    blocks: list[Block] = field(default_factory=list)
    metas: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    times: list[str] = field(default_factory=list)
    title: str = ""
    scripts: list[str] = field(default_factory=list)
    html: str = ""
    hidden: int = 0
    marks: tuple[Int64s, Int64s] | None = None

    def tag(self, element: int) -> str:
        """The name of an element."""
        return self.names[int(self.numbers[element])]

    def named(self, name: str) -> list[int]:
        """The elements of a name."""
        return np.flatnonzero(self.numbers == self.names.index(name)).tolist() if name in self.names else []
