"""A page's table in plain Python: the definition of `tree.parse_html`, and its answer if kernels are not sure.

Promises: one pass over the characters, without recursion and without a tree of objects. Costs: 15 ms for a page of
270,000 characters.
"""

import re
from dataclasses import replace

import numpy as np

from corpora.sources.formulas import show_formulas
from corpora.sources.hypertext import unescape_html, without_readings
from corpora.sources.web.markup.elements import (
    HIDDEN_ATTRIBUTES,
    IMPLIED_ENDS,
    INLINE_TAGS,
    P_ENDING_TAGS,
    RAW_TAGS,
    REWRITTEN_TAGS,
    SCOPE_TAGS,
    TABLE_TAGS,
    VOID_TAGS,
    Block,
    PageLimits,
    Refused,
    Tree,
    WrittenAttributes,
)
from corpora.sources.web.markup.kernels import MAX_FAULTS

TOKEN = re.compile(r"<(?:(/?)([a-zA-Z][^\s/>]*+)((?:[^>=]++|=\s*+(?:\"[^\"]*+\"|'[^']*+')?+)*+)>|(!--|[!?/]))")
LOOSE_TOKEN = re.compile(r"<(?:(/?)([a-zA-Z][^\s/>]*+)([^>]*+)>|(!--|[!?/]))")
UNFINISHED_TAG = re.compile(r"<[a-zA-Z/!?]")
NAMED_TAG = re.compile(r"</?[a-zA-Z]")
RAW_ENDS = {
    name: re.compile("</" + "".join(f"[{letter}{letter.upper()}]" for letter in name) + r"(?=[\s/>])[^>]*>")
    for name in RAW_TAGS
}


class _LimitExceeded(Exception):
    """Raised if a page exceeds a limit. Its arguments are `reason` and `detail` of `Refused`."""


def parse_html_plain(html: str, limits: PageLimits, is_rewritten: bool = False) -> Tree | Refused:
    """Parse an HTML page without kernels. This is the reference for `parse_html`, and its fallback for some pages.

    Args:
        html: The page.
        limits: Size limits of the page.
        is_rewritten: True if formulas have already been replaced with text, and ruby readings and deleted text removed.

    Returns:
        The tree, or `Refused` with the limit that the page exceeds.
    """
    if len(html) > limits.max_characters:
        return Refused("too many characters", f"over {limits.max_characters}")
    if not is_rewritten and _needs_rewriting(html, limits):
        return parse_html_plain(without_readings(show_formulas(html.replace("\0", ""))), limits, is_rewritten=True)
    builder = _Builder(limits)
    try:
        _feed_builder(builder, html.replace("\0", "") if "\0" in html else html)
    except _LimitExceeded as error:
        return Refused(*error.args)
    return builder.finish()


def _needs_rewriting(html: str, limits: PageLimits) -> bool:
    """Return True for a page that contains formulas, ruby readings or deleted text.

    Return False for a page with more start tags than `limits.max_nodes`; the other limits are not checked.
    """
    builder = _Builder(replace(limits, max_depth=len(html) + 1, max_text=len(html) + 1))
    try:
        _feed_builder(builder, html.replace("\0", "") if "\0" in html else html)
    except _LimitExceeded:
        return False
    return builder.needs_rewriting


def _feed_builder(builder: "_Builder", html: str) -> None:
    """Split a page into tags and the text between them, and pass both to the builder.

    Raises:
        _LimitExceeded: If the page exceeds a limit of the builder.
    """
    position = after = num_faults = 0
    last = html.rfind(">")  # after it no tag ends
    find, match, take, start, end = html.find, TOKEN.match, builder.add_text, builder.start_element, builder.end_element
    while 0 <= (at := find("<", position)) < last:
        tag = match(html, at)
        if (tag is None or tag[4] == "/") and NAMED_TAG.match(html, at):  # quotes that do not end
            tag, num_faults = tag or LOOSE_TOKEN.match(html, at), num_faults + 1
            match = LOOSE_TOKEN.match if num_faults >= MAX_FAULTS else TOKEN.match
        if tag is None:  # a mere "<"
            position = at + 1
            continue
        if at > after:
            take(html[after:at])
        is_end_tag, name, attributes, other = tag.groups()
        if other:
            position = builder.skip_comment(html, at, other)
        elif is_end_tag:
            end(name.lower())
            position = tag.end()
        elif (name := name.lower()) in RAW_ENDS:
            position = builder.skip_raw(html, name, attributes, tag.end(), last + 1)
        else:
            start(name, attributes)
            position = tag.end()
        after = position
    cut = UNFINISHED_TAG.search(html, max(after, last + 1))
    builder.add_text(html[after : cut.start() if cut else None])


class BlockText:
    """Collects the text of a block.

    Attributes:
        parts: The runs of characters.
        size: Number of characters in `parts`.
        links: Number of these characters that are in links.
    """

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.size = self.links = 0

    def add_text(self, text: str, in_link: bool, keeps_lines: bool) -> None:
        """Add a run of characters. White space at the beginning of the block is removed.

        Args:
            text: The raw characters; character references are not resolved yet.
            in_link: True if the characters are in a link.
            keeps_lines: True to keep line feeds, as required in `<pre>`.
        """
        if not self.parts and text.isspace():
            return
        if "&" in text:
            text = unescape_html(text)
        if "\n" in text and not keeps_lines:
            text = text.replace("\n", " ")
        self.parts.append(text)
        self.size += len(text)
        if in_link:
            self.links += len(text.strip())

    def end_line(self) -> bool:
        """End a line at a `<br>`. Return True if the line was empty, so that the caller must end the block, too."""
        for part in reversed(self.parts):
            if part == "\n":
                return True
            if not part.isspace():
                self.parts.append("\n")
                return False
        return False

    def end_block(self, node: int, tag: str, blocks: list[Block]) -> None:
        """Append the block to `blocks` if it has text, and begin a new one.

        Args:
            node: Index of the innermost element around the text.
            tag: Name of the nearest block element.
            blocks: The list to which the block is appended.
        """
        text = "".join(self.parts)
        if tag == "pre":
            text = "\n".join(line for line in map(str.rstrip, text.expandtabs().split("\n")) if line)
        elif "\n" in text:
            text = "\n".join(line for line in (" ".join(line.split()) for line in text.split("\n")) if line)
        else:
            text = " ".join(text.split())
        if text:
            blocks.append(Block(node, tag, text, min(self.links, len(text))))
        self.parts, self.size, self.links = [], 0, 0


class _Builder:
    """Builds a `Tree` from tags and text, using a stack of open elements."""

    def __init__(self, limits: PageLimits) -> None:
        self.limits = limits
        self.tree = Tree()
        self.tags = [""]
        self.attributes = [b""]
        self.parents = [-1]
        self.spans = [(0, 0)]
        self.node_count = 0
        self.names: list[str] = []  # of the open elements
        self.nodes = [0]  # their numbers, after the page's own
        self.scopes = [-1]  # at each level the place of the innermost of SCOPES
        self.levels: dict[str, list[int]] = {}  # where the elements of a name are open
        self.hidden = ""  # the formatting element that is not shown; with how many of its name are open in it
        self.hidden_count = self.hidden_level = 0
        self.in_link = False
        self.block_text = BlockText()
        self.needs_rewriting = False  # formulas, readings, deleted text
        self.unended: set[str] = set()  # raw elements whose end was looked for in vain: it is not looked for again

    def add_text(self, text: str) -> None:
        """Add a run of characters to the current block, unless it is hidden.

        Raises:
            _LimitExceeded: If the block gets too long.
        """
        if self.hidden:
            self.tree.hidden += bool(text) and not text.isspace()
            return
        self.block_text.add_text(text, self.in_link, self.tags[self.nodes[-1]] == "pre")
        if self.block_text.size > self.limits.max_text:
            raise _LimitExceeded("too long a text", f"over {self.limits.max_text} characters in a block")

    def end_block(self) -> None:
        """Finish the current block, and append it to the tree if it has text."""
        if self.block_text.parts:
            node = self.nodes[-1]
            self.block_text.end_block(node, self.tags[node] or "body", self.tree.blocks)

    def start_element(self, name: str, attributes: str) -> None:
        """Process a start tag: end the elements that it implies, and open its element.

        Args:
            name: Name of the element in lower case.
            attributes: Raw attribute string of its start tag.

        Raises:
            _LimitExceeded: If there are too many elements, or too many in one another.
        """
        self._count_element()
        self.needs_rewriting |= name in REWRITTEN_TAGS or name.endswith(":math")
        if name in INLINE_TAGS:
            self._start_inline(name, attributes)
            return
        if name in VOID_TAGS:
            self._add_void(name, attributes)
            return
        self.end_block()
        if name in P_ENDING_TAGS:
            self._close_named("p", self.scopes[-1])
        elif name in IMPLIED_ENDS:
            ended, barriers = IMPLIED_ENDS[name]
            wall = max((self.levels[other][-1] for other in barriers if self.levels.get(other)), default=-1)
            for other in ended:
                self._close_named(other, wall)
        elif name == "html":
            self.tree.html += attributes
            return
        self._open(name, attributes)

    def end_element(self, name: str) -> None:
        """Process an end tag: close the innermost open element with this name, if any, and those inside it."""
        if name in INLINE_TAGS:
            if name == "a":
                self.in_link = False
            if name == self.hidden:
                self.hidden_count -= 1
                self.hidden = name if self.hidden_count else ""
            return
        if name == "br":
            self._add_void(name, "")
            return
        self.end_block()
        levels = self.levels.get(name)
        if not levels:
            return
        wall = self.scopes[-1] if name not in SCOPE_TAGS else -1
        if name in TABLE_TAGS and name != "table":
            wall = (self.levels.get("table") or (-1,))[-1]
        if levels[-1] > wall:
            self._pop_to(levels[-1])

    def skip_comment(self, html: str, at: int, opening: str) -> int:
        """Return the position after the comment, doctype or processing instruction that begins at `at`.

        Args:
            html: The page.
            at: Position of its "<".
            opening: "!--" for a comment. A comment that is never closed ends at the next ">".
        """
        if opening == "!--" and "!--" not in self.unended:
            if end := html.find("-->", at + 2) + 1:
                return end + 2
            self.unended.add("!--")
        return (html.find(">", at) + 1) or len(html)

    def skip_raw(self, html: str, name: str, attributes: str, start: int, stop: int) -> int:
        """Return the position after an element with content that is not text, such as a script.

        The content of `<title>` and of data scripts is stored in the tree.

        Args:
            html: The page.
            name: Name of the element.
            attributes: Raw attribute string of its start tag.
            start: End of its start tag. It is returned if the element has no end tag.
            stop: End of the page's last tag.

        Raises:
            _LimitExceeded: If there are too many elements.
        """
        self._count_element()
        self.needs_rewriting |= name == "math" or (name == "script" and "math/tex" in attributes)
        if name in self.unended or (attributes.endswith("/") and name in ("svg", "math")):
            return start
        end = RAW_ENDS[name].search(html, start, stop)
        if end is None:
            self.unended.add(name)
            return start
        if name == "title" and not self.tree.title:
            self.tree.title = unescape_html(html[start : end.start()])
        elif name == "script" and "ld+json" in attributes:
            self.tree.scripts.append(html[start : end.start()])
        return end.end()

    def finish(self) -> Tree:
        """Close all elements, and return the tree. The builder cannot be used afterwards."""
        self.end_block()
        self._pop_to(0)
        self.spans[0] = (0, len(self.tree.blocks))
        self.tree.names = [*dict.fromkeys(self.tags[1:]), ""]
        number = {name: place for place, name in enumerate(self.tree.names)}
        self.tree.numbers = np.array([-1, *map(number.__getitem__, self.tags[1:])])
        stops = np.cumsum([len(written) for written in self.attributes])
        self.tree.written = WrittenAttributes(b"".join(self.attributes), np.append(0, stops[:-1]), stops)
        self.tree.parents, self.tree.spans = np.array(self.parents), np.array(self.spans)
        return self.tree

    def _add_void(self, name: str, attributes: str) -> None:
        """Process an element that has no content, such as `<br>` or `<meta>`.

        Args:
            name: Name of the element in lower case.
            attributes: Raw attribute string of its tag.
        """
        if name == "hr" or (name == "br" and not self.hidden and self.block_text.end_line()):
            self.end_block()
        elif name == "meta":
            self.tree.metas.append(attributes)
        elif name == "link":
            self.tree.links.append(attributes)

    def _count_element(self) -> None:
        """Count a start tag.

        Raises:
            _LimitExceeded: If there are too many.
        """
        self.node_count += 1
        if self.node_count > self.limits.max_nodes:
            raise _LimitExceeded("too many elements", f"over {self.limits.max_nodes}")

    def _start_inline(self, name: str, attributes: str) -> None:
        """Process the start tag of a formatting element.

        It is not listed in the tree; links, times and hiding are recorded.

        Args:
            name: Name of the element in lower case.
            attributes: Raw attribute string of its start tag.
        """
        if name == "a":
            self.in_link = "href" in attributes or "href" in attributes.lower()
            if "license" in attributes:
                self.tree.links.append(attributes)
        elif name == "time":
            self.tree.times.append(attributes)
        elif name == self.hidden:
            self.hidden_count += 1
        elif attributes and not self.hidden and HIDDEN_ATTRIBUTES.search(attributes):
            self.hidden, self.hidden_count, self.hidden_level = name, 1, len(self.names)

    def _open(self, name: str, attributes: str) -> None:
        """Append an element to the tree, inside the innermost open element, and make it the innermost one.

        Args:
            name: Name of the element in lower case.
            attributes: Raw attribute string of its start tag.

        Raises:
            _LimitExceeded: If it is nested too deep.
        """
        level = len(self.names)
        if level >= self.limits.max_depth:
            raise _LimitExceeded("nested too deep", f"over {self.limits.max_depth} elements in one another")
        self.names.append(name)
        levels = self.levels.get(name)
        if levels is None:
            self.levels[name] = [level]
        else:
            levels.append(level)
        self.scopes.append(level if name in SCOPE_TAGS else self.scopes[-1])
        self.parents.append(self.nodes[-1])
        self.nodes.append(len(self.tags))
        self.tags.append(name)
        self.attributes.append(attributes.encode("utf-8", "surrogatepass"))
        self.spans.append((len(self.tree.blocks), 0))

    def _close_named(self, name: str, wall: int) -> None:
        """Close the innermost open element with a name, and those inside it, if it is at a deeper level than `wall`."""
        levels = self.levels.get(name)
        if levels and levels[-1] > wall:
            self._pop_to(levels[-1])

    def _pop_to(self, level: int) -> None:
        """Close all open elements at nesting level `level` (0 is the outermost) and deeper levels."""
        spans, stop = self.spans, len(self.tree.blocks)
        for name in reversed(self.names[level:]):
            self.levels[name].pop()
        for node in self.nodes[level + 1 :]:
            spans[node] = (spans[node][0], stop)
        del self.names[level:], self.nodes[level + 1 :], self.scopes[level + 1 :]
        if self.hidden and self.hidden_level > level:
            self.hidden = ""
