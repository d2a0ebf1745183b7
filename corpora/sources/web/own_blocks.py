"""Blocks of a page that are its own and shown: not what it hides, nor an article that scrolling has appended.

Promises: pure functions of the page's table. An element is hidden if it says so (`hidden`, `display: none`,
`visibility: hidden`), unless it holds most of the text: scripts show it then. An article is another one if it names an
address of its own that is not the page's, and begins with a headline; one that the page's text begins in stays.
Costs: a look at the attributes of the elements around the chosen blocks.
"""

import re
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from corpora.sources.web.facts import attributes_of
from corpora.sources.web.tree import Block, PageLimits, Refused, Tree, parse_page

HIDDEN = re.compile(
    r"(?:^|\s)hidden(?:\s|=|/|$)(?!\s*=?\s*[\"']?until)|style\s*=\s*(?:\"[^\"]*|'[^']*|[^\s\"'>]*)"
    r"(?:display\s*:\s*none|visibility\s*:\s*hidden)",
    re.IGNORECASE,
)
QUOTED = re.compile(r"=\s*(?:\"[^\"]*\"|'[^']*')")
MOST = 0.5  # of the text, which no element hides
ADDRESS = re.compile(r"data-[\w-]*(?:url|href|permalink|canonical)|itemid|about|resource", re.IGNORECASE)
HEADLINES = frozenset(("h1", "h2"))


class ShownText(NamedTuple):
    """All text of a page that is shown, its blocks apart, and the number of those that are not."""

    text: str
    hidden: int = 0


def shown_text(html: str, limits: PageLimits) -> ShownText | Refused:
    """All text of a page, which no script changes: of a mail, of a text in Markdown.

    >>> shown_text("<style>p {}</style><p>Dear <b>Ada</b>,</p><p>the ferry<br>was late.</p>", PageLimits())
    ShownText(text='Dear Ada,\\n\\nthe ferry\\nwas late.', hidden=0)
    """
    tree = parse_page(html, limits)
    if isinstance(tree, Refused):
        return tree
    blocks, hidden = split_hidden(tree, tree.blocks, 0)
    return ShownText("\n\n".join(text for block in blocks if (text := block.text.strip())), hidden)


def split_hidden(tree: Tree, blocks: list[Block], most: float = MOST) -> tuple[list[Block], int]:
    """Those of the blocks that are shown, and the number of all blocks and runs of the page that are not.

    most: the share of the text from which on it is shown although it says that it is not
    """
    hidden = _of_elements(tree, tree.blocks, lambda element: _is_hidden(tree.written.of(element)))
    num_hidden = sum(hidden[block.node] >= 0 for block in tree.blocks)
    shown = [block for block in blocks if hidden[block.node] < 0] if num_hidden else blocks
    if sum(len(block.text) for block in shown) < most * sum(len(block.text) for block in blocks):
        return blocks, tree.hidden
    return shown, num_hidden + tree.hidden


def _is_hidden(attributes: str) -> bool:
    if "hidden" not in (lowered := attributes.lower()) and "none" not in lowered:
        return False
    return any(
        match[0].lstrip()[:5].lower() == "style" or not _is_quoted(attributes, match.start())
        for match in HIDDEN.finditer(attributes)
    )


def _is_quoted(attributes: str, place: int) -> bool:
    """Return True if a place is in the value of an attribute."""
    return any(match.start() < place < match.end() for match in QUOTED.finditer(attributes))


def without_appended(tree: Tree, blocks: list[Block], address: str | None) -> list[Block]:
    """The blocks without those of articles that follow the page's own and name another address than its."""
    if not address or not blocks:
        return blocks
    own = _plain_address(address, address)
    others = _of_elements(tree, blocks, lambda element: _is_another(tree, element, address, own))
    first = others[blocks[0].node]
    return [block for block in blocks if others[block.node] in (-1, first)]


def _is_another(tree: Tree, element: int, address: str, own: str) -> bool:
    """Return True if an element names an address that is not the page's, and has a headline."""
    written = tree.written.of(element)
    start, stop = tree.spans[element].tolist()
    if not ADDRESS.search(written) or not any(block.tag in HEADLINES for block in tree.blocks[start:stop]):
        return False
    named = [value for name, value in attributes_of(written).items() if ADDRESS.fullmatch(name) and "/" in value]
    places = {_plain_address(address, value) for value in named}
    return bool(places) and own not in places


def _plain_address(base: str, address: str) -> str:
    """The host and the path of an address, without what makes no other page of it."""
    try:
        parts = urlsplit(urljoin(base, address.strip()))
    except ValueError:
        return address
    return f"{(parts.hostname or '').removeprefix('www.')}{parts.path.rstrip('/')}"


def _of_elements(tree: Tree, blocks: list[Block], is_one: Callable[[int], bool]) -> dict[int, int]:
    """For the element of each block, the outermost element around it that is one; -1 if none is."""
    found = {0: -1}
    for block in blocks:
        path, node = [], block.node
        while node not in found:
            path.append(node)
            node = int(tree.parents[node])
        for element in reversed(path):
            around = found[int(tree.parents[element])]
            found[element] = around if around >= 0 else element if is_one(element) else -1
    return found
