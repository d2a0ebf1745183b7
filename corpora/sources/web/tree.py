"""A page of HTML as a flat table: its elements in document order, and its text cut into blocks.

Promises: one pass over the characters, without recursion and without a tree of objects, so a page costs in
proportion to its length however it is nested. What breaks the bounds of `PageLimits` is `Refused`, with the bound
by name. Tags that authors leave out or set wrongly are fixed as browsers do in the common cases: a `<p>` ends
where a block begins, an `<li>` where the next begins, an end tag without its start says nothing.
Costs: 4 ms for a page of 160 kB.

Source: html.spec.whatwg.org, sections 13.1.2 (elements, omitted tags) and 13.2.5 (tokens); what is left out is the
adoption of misplaced table content and of misnested formatting, which moves no text.
"""

import re
from dataclasses import dataclass, field
from html import unescape
from typing import NamedTuple

from corpora.store.settings import check_range


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


@dataclass(slots=True)
class Tree:
    """A page. Element 0 is the page itself.

    tags, attributes, parents: of each element that is not mere formatting, in document order
    spans:                     of each element, the first block inside and the one after the last
    blocks:                    its text in document order
    metas, links, times:       attributes of `<meta>`, `<link>` and `<time>`, as they are written
    title:                     of `<title>`
    scripts:                   contents of the scripts of JSON-LD
    html:                      attributes of `<html>`
    """

    tags: list[str] = field(default_factory=lambda: [""])
    attributes: list[str] = field(default_factory=lambda: [""])
    parents: list[int] = field(default_factory=lambda: [-1])
    spans: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    blocks: list[Block] = field(default_factory=list)
    metas: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    times: list[str] = field(default_factory=list)
    title: str = ""
    scripts: list[str] = field(default_factory=list)
    html: str = ""


TOKEN = re.compile(r"<(?:(/?)([a-zA-Z][^\s/>]*+)((?:[^>=]++|=\s*+(?:\"[^\"]*+\"|'[^']*+')?+)*+)>|(!--|[!?/]))")
LOOSE = re.compile(r"<(?:(/?)([a-zA-Z][^\s/>]*+)([^>]*+)>|(!--|[!?/]))")
ATTRIBUTE = re.compile(r"([^\s\"'<>/=]+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>]+)))?")
UNENDED = re.compile(r"<[a-zA-Z/!?]")
MOST_FAULTS = 16  # tags whose quotes do not end, after which quotes are not looked at: keeps the pass linear

VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
RAW = (
    *("script", "style", "textarea", "title", "iframe", "template", "svg", "math", "select"),
    *("canvas", "audio", "xmp", "noembed", "noframes"),
)
RAW_ENDS = {
    name: re.compile("</" + "".join(f"[{letter}{letter.upper()}]" for letter in name) + r"(?=[\s/>])[^>]*>")
    for name in RAW
}
INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr q rb rp rt ruby s samp "
    "small span strike strong sub sup time tt u var wbr o:p".split()
)
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


class _TooLarge(Exception):
    """A bound is broken; carries what is said of it."""


def parse_page(html: str, limits: PageLimits) -> Tree | Refused:
    """The table of a page, or why it is not read."""
    if len(html) > limits.max_characters:
        return Refused("too many characters", f"over {limits.max_characters}")
    builder = _Builder(limits)
    try:
        _feed(builder, html.replace("\0", "") if "\0" in html else html)
    except _TooLarge as error:
        return Refused(*error.args)
    return builder.finish()


def _feed(builder: "_Builder", html: str) -> None:
    """Cut a page into tags and the text between them."""
    position = after = faults = 0
    last = html.rfind(">")  # after it no tag ends
    find, match, take, start, end = html.find, TOKEN.match, builder.text, builder.start, builder.end
    while 0 <= (at := find("<", position)) < last:
        tag = match(html, at)
        if tag is None and html[at + 1 : at + 2].isalpha():  # quotes that do not end
            tag, faults = LOOSE.match(html, at), faults + 1
            match = LOOSE.match if faults >= MOST_FAULTS else TOKEN.match
        if tag is None:  # a mere "<"
            position = at + 1
            continue
        if at > after:
            take(html[after:at])
        closing, name, attributes, other = tag.groups()
        if other:
            position = builder.behind_comment(html, at, other)
        elif closing:
            end(name.lower())
            position = tag.end()
        elif (name := name.lower()) in RAW_ENDS:
            position = builder.behind_raw(html, name, attributes, tag.end(), last + 1)
        else:
            start(name, attributes)
            position = tag.end()
        after = position
    cut = UNENDED.search(html, max(after, last + 1))
    builder.text(html[after : cut.start() if cut else None])


class _Builder:
    """Open elements, and the block that is being gathered."""

    def __init__(self, limits: PageLimits) -> None:
        self.limits = limits
        self.tree = Tree()
        self.node_count = 0
        self.names: list[str] = []  # of the open elements
        self.nodes = [0]  # their numbers, after the page's own
        self.scopes = [-1]  # at each level the place of the innermost of SCOPES
        self.levels: dict[str, list[int]] = {}  # where the elements of a name are open
        self.hidden = ""  # the formatting element that is not shown; with how many of its name are open in it
        self.hidden_count = self.hidden_level = 0
        self.in_link = False
        self.parts: list[str] = []
        self.size = self.links = 0
        self.hidden_by_attributes: dict[str, bool] = {}
        self.unended: set[str] = set()  # raw elements whose end was looked for in vain: it is not looked for again

    def text(self, text: str) -> None:
        """Take a run of characters."""
        if self.hidden or (not self.parts and text.isspace()):
            return
        if "&" in text:
            text = unescape(text)
        if "\n" in text and self.tree.tags[self.nodes[-1]] != "pre":
            text = text.replace("\n", " ")
        self.parts.append(text)
        self.size += len(text)
        if self.in_link:
            self.links += len(text.strip())
        if self.size > self.limits.max_text:
            raise _TooLarge("too long a text", f"over {self.limits.max_text} characters in a block")

    def flush(self) -> None:
        """Close the block that is being gathered."""
        node = self.nodes[-1]
        text, tag = "".join(self.parts), self.tree.tags[node] or "body"
        if tag == "pre":
            text = "\n".join(line for line in map(str.rstrip, text.expandtabs().split("\n")) if line)
        elif "\n" in text:
            text = "\n".join(line for line in (" ".join(line.split()) for line in text.split("\n")) if line)
        else:
            text = " ".join(text.split())
        if text:
            self.tree.blocks.append(Block(node, tag, text, min(self.links, len(text))))
        self.parts, self.size, self.links = [], 0, 0

    def start(self, name: str, attributes: str) -> None:
        """Open an element."""
        self._count()
        if name in INLINE:
            self._start_inline(name, attributes)
            return
        if name in VOID:
            self._void(name, attributes)
            return
        if self.parts:
            self.flush()
        if name in ENDS_P:
            self._close_open("p", self.scopes[-1])
        elif name in ENDED:
            ended, barriers = ENDED[name]
            wall = max((self.levels[other][-1] for other in barriers if self.levels.get(other)), default=-1)
            for other in ended:
                self._close_open(other, wall)
        elif name == "html":
            self.tree.html += attributes
            return
        self._open(name, attributes)

    def end(self, name: str) -> None:
        """Close an element, and those that are still open in it."""
        if name in INLINE:
            if name == "a":
                self.in_link = False
            if name == self.hidden:
                self.hidden_count -= 1
                self.hidden = name if self.hidden_count else ""
            return
        if self.parts:
            self.flush()
        levels = self.levels.get(name)
        if not levels:
            return
        wall = self.scopes[-1] if name not in SCOPES else -1
        if name in TABLE_TAGS and name != "table":
            wall = (self.levels.get("table") or (-1,))[-1]
        if levels[-1] > wall:
            self._pop_to(levels[-1])

    def behind_comment(self, html: str, at: int, opening: str) -> int:
        """The end of a comment, a doctype or an instruction; of a comment that does not end, the end of its tag."""
        if opening == "!--" and "!--" not in self.unended:
            if end := html.find("-->", at + 2) + 1:
                return end + 2
            self.unended.add("!--")
        return (html.find(">", at) + 1) or len(html)

    def behind_raw(self, html: str, name: str, attributes: str, start: int, stop: int) -> int:
        """Pass over an element whose content is not text of the page; the position after it. stop: of the last tag."""
        self._count()
        if name in self.unended or (attributes.endswith("/") and name in ("svg", "math")):
            return start
        end = RAW_ENDS[name].search(html, start, stop)
        if end is None:
            self.unended.add(name)
            return start
        if name == "title" and not self.tree.title:
            self.tree.title = unescape(html[start : end.start()])
        elif name == "script" and "ld+json" in attributes:
            self.tree.scripts.append(html[start : end.start()])
        return end.end()

    def finish(self) -> Tree:
        """Close what is open."""
        if self.parts:
            self.flush()
        self._pop_to(0)
        self.tree.spans[0] = (0, len(self.tree.blocks))
        return self.tree

    def _void(self, name: str, attributes: str) -> None:
        if name == "br" and not self.hidden:
            self._break()
        elif name == "hr" and self.parts:
            self.flush()
        elif name == "meta":
            self.tree.metas.append(attributes)
        elif name == "link":
            self.tree.links.append(attributes)

    def _break(self) -> None:
        """A line ends; where the line before it is empty, the paragraph does."""
        for part in reversed(self.parts):
            if part == "\n":
                self.flush()
                return
            if not part.isspace():
                self.parts.append("\n")
                return

    def _count(self) -> None:
        self.node_count += 1
        if self.node_count > self.limits.max_nodes:
            raise _TooLarge("too many elements", f"over {self.limits.max_nodes}")

    def _start_inline(self, name: str, attributes: str) -> None:
        """Begin a formatting element, which is not in the table: only links, and what is not shown, are noted."""
        if name == "a":
            self.in_link = "href" in attributes or "href" in attributes.lower()
            if "license" in attributes:
                self.tree.links.append(attributes)
        elif name == "time":
            self.tree.times.append(attributes)
        elif name == self.hidden:
            self.hidden_count += 1
        elif attributes and not self.hidden and self._is_hidden(attributes):
            self.hidden, self.hidden_count, self.hidden_level = name, 1, len(self.names)

    def _open(self, name: str, attributes: str) -> None:
        level = len(self.names)
        if level >= self.limits.max_depth:
            raise _TooLarge("nested too deep", f"over {self.limits.max_depth} elements in one another")
        tree = self.tree
        self.names.append(name)
        levels = self.levels.get(name)
        if levels is None:
            self.levels[name] = [level]
        else:
            levels.append(level)
        self.scopes.append(level if name in SCOPES else self.scopes[-1])
        tree.parents.append(self.nodes[-1])
        self.nodes.append(len(tree.tags))
        tree.tags.append(name)
        tree.attributes.append(attributes)
        tree.spans.append((len(tree.blocks), 0))

    def _is_hidden(self, attributes: str) -> bool:
        hidden = self.hidden_by_attributes.get(attributes)
        if hidden is None:
            hidden = self.hidden_by_attributes[attributes] = HIDDEN.search(attributes) is not None
        return hidden

    def _close_open(self, name: str, wall: int) -> None:
        levels = self.levels.get(name)
        if levels and levels[-1] > wall:
            self._pop_to(levels[-1])

    def _pop_to(self, level: int) -> None:
        """Close all that is open from a level on."""
        spans, stop = self.tree.spans, len(self.tree.blocks)
        for name in reversed(self.names[level:]):
            self.levels[name].pop()
        for node in self.nodes[level + 1 :]:
            spans[node] = (spans[node][0], stop)
        del self.names[level:], self.nodes[level + 1 :], self.scopes[level + 1 :]
        if self.hidden and self.hidden_level > level:
            self.hidden = ""
