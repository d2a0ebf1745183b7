"""Blocks of a page that are its own and shown: not what it hides, nor an article that scrolling has appended.

Promises: pure functions of the page's table. An element is hidden if it says so (`hidden`, `display: none`,
`visibility: hidden`), unless it holds most of the text: scripts show it then. An article is another one if it names an
address that is not the page's, by an attribute or a link of its headline; one that the page's text begins in stays.
Costs: 0.2 ms for a page of 240,000 characters, in time linear in it however its elements are nested.
"""

import re
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

import numpy as np

from corpora.sources.web.facts import attributes_of
from corpora.sources.web.main_text.features import BIT, NOT_SHOWN, marks_of
from corpora.sources.web.tree import Block, PageLimits, Refused, Tree, parse_page

HIDING = re.compile("hidden|style")
UNTIL_FOUND = "until-found"  # shown where it is looked for
MOST = 0.5  # of the text, which no element hides
ADDRESS = re.compile(r"data-[\w-]*(?:url|href|permalink|canonical)|itemid|about|resource", re.IGNORECASE)
WRITTEN_ADDRESS = re.compile(rb"(?:url|href|permalink|canonical|itemid|about|resource)\s*=")
HEADLINE = re.compile(rb"<h[12]\b[^<>]*>\s*(?:<a\s[^<>]*?\bhref\s*=\s*[\"']?([^\"'\s<>]+))?", re.IGNORECASE)
HEAD_BYTES = 2_000  # of an article, in which its headline is
HEADLINES = ("h1", "h2")


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
    hidden = _inside(tree, _hidden_elements(tree))
    shown = _without(tree, blocks, hidden)
    if sum(len(block.text) for block in shown) < most * sum(len(block.text) for block in blocks):
        return blocks, tree.hidden
    return shown, len(hidden) + tree.hidden


def _inside(tree: Tree, elements: list[int]) -> list[int]:
    """The places of the blocks that are in any of some elements."""
    changes = np.zeros(len(tree.blocks) + 1, np.int64)
    np.add.at(changes, tree.spans[elements, 0], 1)
    np.add.at(changes, tree.spans[elements, 1], -1)
    return np.flatnonzero(np.cumsum(changes)).tolist()


def _without(tree: Tree, blocks: list[Block], places: list[int]) -> list[Block]:
    """Some blocks without those of the elements whose blocks have these places."""
    nodes = {tree.blocks[place].node for place in places}
    return [block for block in blocks if block.node not in nodes] if nodes else blocks


def _hidden_elements(tree: Tree) -> list[int]:
    """The elements that say that they are not shown."""
    perhaps = np.flatnonzero(marks_of(tree)[0] & BIT["not shown"]).tolist()
    return [element for element in perhaps if _is_hidden(tree.written.of(element))]


def _is_hidden(written: str) -> bool:
    """Return True for an element whose attributes say that it is not shown.

    >>> _is_hidden(" hidden"), _is_hidden(" style='Display: none'"), _is_hidden(' title="not hidden"')
    (True, True, False)
    """
    attributes = attributes_of(written, HIDING)
    if attributes.get("hidden", UNTIL_FOUND).lower() != UNTIL_FOUND:
        return True
    return NOT_SHOWN.search(attributes.get("style", "")) is not None


def without_appended(tree: Tree, blocks: list[Block], address: str | None) -> list[Block]:
    """The blocks without those of articles that name another address than the page's, if one is the page's own.

    That is one that names the page's address, or in which the text begins; a list of articles has none.
    """
    if not address or not blocks:
        return blocks
    headlines = [element for name in HEADLINES for element in tree.named(name)]
    named = {at: places for at in _around(tree, headlines) if (places := _addresses(tree, at, address))}
    if not named:
        return blocks
    own, of_text = _plain_address(address, address), _around(tree, [blocks[0].node])
    others = [element for element, places in named.items() if own not in places]
    begins_in_one = any(tree.tag(element) == "article" for element in of_text) and of_text.isdisjoint(others)
    if len(others) == len(named) and not begins_in_one:
        return blocks
    return _without(tree, blocks, _inside(tree, [element for element in others if element not in of_text]))


def _around(tree: Tree, elements: list[int]) -> set[int]:
    """Some elements and those around them."""
    found: set[int] = set()
    for element in elements:
        while element > 0 and element not in found:
            found.add(element)
            element = int(tree.parents[element])
    return found


def _addresses(tree: Tree, element: int, address: str) -> set[str]:
    """The addresses that an element names as its own; of an article also the one that its headline links to."""
    data, start, stop = tree.written.data, int(tree.written.starts[element]), int(tree.written.stops[element])
    named: list[str] = []
    if WRITTEN_ADDRESS.search(data, start, stop):
        named = [value for value in attributes_of(tree.written.of(element), ADDRESS).values() if "/" in value]
    if tree.tag(element) == "article" and not named:
        headline = HEADLINE.search(data, stop, stop + HEAD_BYTES)
        named = [headline[1].decode("utf-8", "replace")] if headline and headline[1] else []
    return {_plain_address(address, value) for value in named}


def _plain_address(base: str, address: str) -> str:
    """The host and the path of an address, without what makes no other page of it."""
    try:
        parts = urlsplit(urljoin(base, address.strip()))
    except ValueError:
        return address
    return f"{(parts.hostname or '').removeprefix('www.')}{parts.path.rstrip('/')}"
