"""The blocks of a page that are its own and shown: without what it hides, and without articles that scrolling appended.

Promises: pure functions of the page's table. An element is hidden if it says so (`hidden`, `display: none`,
`visibility: hidden`), unless it holds most of the text, which scripts then show. An article is another one if it names
an address that is not the page's, by an attribute or a link of its headline; the article that the page's text begins in
is kept. Costs: 0.2 ms for a page of 240,000 characters, in time linear in it however its elements are nested.
"""

import re
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

import numpy as np

from corpora.sources.web.facts import parse_attributes
from corpora.sources.web.main_text.features import BIT, NOT_SHOWN, compute_marks
from corpora.sources.web.tree import Block, PageLimits, Refused, Tree, parse_html

HIDING_ATTRIBUTES = re.compile("hidden|style")
UNTIL_FOUND = "until-found"  # shown where it is looked for
MIN_SHOWN_SHARE = 0.5  # of the text; if elements hide more, none of them is taken as hidden
ADDRESS_KEYS = re.compile(r"data-[\w-]*(?:url|href|permalink|canonical)|itemid|about|resource", re.IGNORECASE)
WRITTEN_ADDRESS = re.compile(rb"(?:url|href|permalink|canonical|itemid|about|resource)\s*=")
HEADLINE = re.compile(rb"<h[12]\b[^<>]*>\s*(?:<a\s[^<>]*?\bhref\s*=\s*[\"']?([^\"'\s<>]+))?", re.IGNORECASE)
MAX_HEADLINE_BYTES = 2_000  # of an article, in which its headline is
HEADLINES = ("h1", "h2")


class ShownText(NamedTuple):
    """The visible text of a page.

    Attributes:
        text: The text of the page's blocks, separated by blank lines.
        hidden: Number of hidden blocks and text runs.
    """

    text: str
    hidden: int = 0


def extract_shown_text(html: str, limits: PageLimits) -> ShownText | Refused:
    """Return all visible text of an HTML document that needs no scripts, such as a mail or converted Markdown.

    Returns:
        The text and the number of hidden pieces, or `Refused` if the page exceeds a limit.

    >>> extract_shown_text("<style>p {}</style><p>Dear <b>Ada</b>,</p><p>the ferry<br>was late.</p>", PageLimits())
    ShownText(text='Dear Ada,\\n\\nthe ferry\\nwas late.', hidden=0)
    """
    tree = parse_html(html, limits)
    if isinstance(tree, Refused):
        return tree
    blocks, hidden = split_hidden(tree, tree.blocks, 0)
    return ShownText("\n\n".join(text for block in blocks if (text := block.text.strip())), hidden)


def split_hidden(tree: Tree, blocks: list[Block], min_share: float = MIN_SHOWN_SHARE) -> tuple[list[Block], int]:
    """Remove the hidden blocks. Return the visible blocks, and the number of hidden blocks and text runs of the page.

    Args:
        tree: The page.
        blocks: Some of the page's blocks.
        min_share: If removal would leave less than this share of the blocks' characters, all blocks are returned.
    """
    hidden = _find_inside(tree, _find_hidden_elements(tree))
    shown = _drop_blocks(tree, blocks, hidden)
    if sum(len(block.text) for block in shown) < min_share * sum(len(block.text) for block in blocks):
        return blocks, tree.hidden
    return shown, len(hidden) + tree.hidden


def _find_inside(tree: Tree, elements: list[int]) -> list[int]:
    """Return the indices of all blocks inside the elements with the given indices, in ascending order."""
    changes = np.zeros(len(tree.blocks) + 1, np.int64)
    np.add.at(changes, tree.spans[elements, 0], 1)
    np.add.at(changes, tree.spans[elements, 1], -1)
    return np.flatnonzero(np.cumsum(changes)).tolist()


def _drop_blocks(tree: Tree, blocks: list[Block], positions: list[int]) -> list[Block]:
    """Return the blocks that are not in the same innermost element as one of the page's blocks at `positions`."""
    nodes = {tree.blocks[place].node for place in positions}
    return [block for block in blocks if block.node not in nodes] if nodes else blocks


def _find_hidden_elements(tree: Tree) -> list[int]:
    """Return the indices of the elements that are hidden by their own attributes, in document order."""
    candidates = np.flatnonzero(compute_marks(tree)[0] & BIT["not shown"]).tolist()
    return [element for element in candidates if _is_hidden(tree.written.read(element))]


def _is_hidden(written: str) -> bool:
    """Return True if an element's raw attributes hide it.

    >>> _is_hidden(" hidden"), _is_hidden(" style='Display: none'"), _is_hidden(' title="not hidden"')
    (True, True, False)
    """
    attributes = parse_attributes(written, HIDING_ATTRIBUTES)
    if attributes.get("hidden", UNTIL_FOUND).lower() != UNTIL_FOUND:
        return True
    return NOT_SHOWN.search(attributes.get("style", "")) is not None


def without_appended(tree: Tree, blocks: list[Block], address: str | None) -> list[Block]:
    """Remove the blocks of other articles that are appended to the page's own article.

    Other articles are recognized by URLs that differ from the page's URL. The page's own article is the article that
    declares the page's URL, or else the article in which the main text begins. If a page has no such article, as a list
    of articles, nothing is removed.

    Args:
        tree: The page.
        blocks: The blocks of the page's main text.
        address: The page's URL. If it is None or "", all blocks are kept.
    """
    if not address or not blocks:
        return blocks
    headlines = [element for name in HEADLINES for element in tree.find_elements(name)]
    addresses = {at: found for at in _find_ancestors(tree, headlines) if (found := _find_addresses(tree, at, address))}
    if not addresses:
        return blocks
    page_address, text_path = _normalize_address(address, address), _find_ancestors(tree, [blocks[0].node])
    others = [element for element, found in addresses.items() if page_address not in found]
    is_inside = any(tree.get_tag(element) == "article" for element in text_path) and text_path.isdisjoint(others)
    if len(others) == len(addresses) and not is_inside:
        return blocks
    return _drop_blocks(tree, blocks, _find_inside(tree, [element for element in others if element not in text_path]))


def _find_ancestors(tree: Tree, elements: list[int]) -> set[int]:
    """Return the indices of the given elements and all their ancestors."""
    found: set[int] = set()
    for element in elements:
        while element > 0 and element not in found:
            found.add(element)
            element = int(tree.parents[element])
    return found


def _find_addresses(tree: Tree, element: int, address: str) -> set[str]:
    """Return the normalized URLs that an element declares as its own; empty if there are none.

    If an article declares none, the URL that its headline links to is used.

    Args:
        tree: The page.
        element: Index of the element.
        address: The page's URL, to which relative URLs refer.
    """
    data, start, stop = tree.written.data, int(tree.written.starts[element]), int(tree.written.stops[element])
    found: list[str] = []
    if WRITTEN_ADDRESS.search(data, start, stop):
        found = [value for value in parse_attributes(tree.written.read(element), ADDRESS_KEYS).values() if "/" in value]
    if tree.get_tag(element) == "article" and not found:
        headline = HEADLINE.search(data, stop, stop + MAX_HEADLINE_BYTES)
        found = [headline[1].decode("utf-8", "replace")] if headline and headline[1] else []
    return {_normalize_address(address, value) for value in found}


def _normalize_address(base: str, address: str) -> str:
    """Return the host and path of a URL, relative to `base`, without "www." and a trailing slash.

    A URL that cannot be parsed is returned unchanged.
    """
    try:
        parts = urlsplit(urljoin(base, address.strip()))
    except ValueError:
        return address
    return f"{(parts.hostname or '').removeprefix('www.')}{parts.path.rstrip('/')}"
