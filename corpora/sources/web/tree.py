"""A page of HTML as a flat table: its elements in document order, and its text cut into blocks.

Promises: the table that `markup.plain.parse_html_plain` makes, made by compiled kernels, without recursion and without
a tree of objects, so a page costs in proportion to its length however it is nested. A page that exceeds `PageLimits` is
`Refused`, with the limit by name. Tags that authors omit or set wrongly are fixed as browsers do in the common cases: a
`<p>` ends at the beginning of a block, an `<li>` at the next one, an end tag without its start is ignored. Costs: 1 ms
for a page of 240,000 characters, while the plain form takes 15 ms: an eighth for UTF-8, two fifths for the kernels, the
rest for Python's blocks. Memory: that of the page twice, and 16 bytes for each tag and text.

Source: html.spec.whatwg.org, sections 13.1.2 (elements, omitted tags) and 13.2.5 (tokens); what is left out is the
adoption of misplaced table content and of misnested formatting, which moves no text.
"""

import re
from functools import partial
from itertools import chain

import numpy as np

from corpora.kernels.arrays import Int64s
from corpora.sources.formulas import show_formulas
from corpora.sources.hypertext import ATTRIBUTE, unescape_html, without_readings
from corpora.sources.web.markup import kernels
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
from corpora.sources.web.markup.kernels import PageTable, ScannedPage, arrange_tokens, cut_tokens
from corpora.sources.web.markup.plain import BlockText, parse_html_plain

__all__ = ["ATTRIBUTE", "Block", "PageLimits", "Refused", "Tree", "parse_html", "unescape_html"]

# What start tags of some names do, besides.
START_ACTIONS = {
    "a": kernels.LINKED,
    "br": kernels.BREAK,
    "hr": kernels.RULE,
    "meta": kernels.META,
    "link": kernels.LINK,
    "time": kernels.TIME,
    "html": kernels.PAGE,
    "title": kernels.TITLE,
    "script": kernels.SCRIPT,
    "svg": kernels.DRAWN,
    "math": kernels.MATH,
}
UNFINISHED_TAG = re.compile(rb"<[a-zA-Z/!?]")
MAX_TOKEN_OFFSET = (1 << 31) - 1  # a token has 32 bits for each of its places


def _build_rules() -> tuple[list[str], Int64s]:
    """Return the names of the elements with special rules, and an int64 array of these rules for the kernels.

    The array has one row for each name, and a last row for all other names. `START_DOES` and the constants after it are
    its columns.
    """
    name_sets = (VOID_TAGS, RAW_TAGS, INLINE_TAGS, P_ENDING_TAGS, SCOPE_TAGS, TABLE_TAGS, IMPLIED_ENDS, ("html",))
    names = sorted({*chain(*name_sets, *(one | other for one, other in IMPLIED_ENDS.values()))})
    number = {name: place for place, name in enumerate(names)}
    actions = (
        dict.fromkeys(VOID_TAGS, kernels.VOID)
        | dict.fromkeys(RAW_TAGS, kernels.RAW)
        | dict.fromkeys(INLINE_TAGS, kernels.INLINE)
        | START_ACTIONS
    )
    ends = {kernels.INLINE: kernels.INLINE_END, kernels.TIME: kernels.INLINE_END, kernels.LINKED: kernels.UNLINKED}
    ends[kernels.BREAK] = kernels.BREAK  # </br> is one, too
    rules = []
    for name in [*names, ""]:
        ended, walls = (("p",), ()) if name in P_ENDING_TAGS else IMPLIED_ENDS.get(name, ((), ()))
        start = actions.get(name, kernels.OPEN)
        end_wall = number["table"] if name in TABLE_TAGS and name != "table" else -1
        ended_numbers = [number[other] for other in sorted(ended)] + [-1, -1]
        wall_numbers = (
            [number[other] for other in sorted(walls)] + [kernels.SCOPED if name in P_ENDING_TAGS else -1] + [-1] * 6
        )
        end, is_rewritten = ends.get(start, kernels.CLOSE), name in REWRITTEN_TAGS
        rules.append((start, end, name in SCOPE_TAGS, is_rewritten, end_wall, *ended_numbers[:2], *wall_numbers[:6]))
    return names, np.array(rules, np.int64)


NAMES, RULES = _build_rules()
PRE_NUMBER = NAMES.index("pre")
PREFIXED_MATH = b":math"
NAMES_PREFIX = "".join(f"{name} " for name in NAMES).encode()


def parse_html(html: str, limits: PageLimits, is_rewritten: bool = False) -> Tree | Refused:
    """Parse an HTML page into a tree of elements and blocks of text.

    Args:
        html: The page.
        limits: Size limits of the page.
        is_rewritten: True if formulas have already been replaced with text, and ruby readings and deleted text removed.

    Returns:
        The tree, or `Refused` with the limit that the page exceeds.
    """
    if len(html) > limits.max_characters:
        return Refused("too many characters", f"over {limits.max_characters}")
    data = NAMES_PREFIX + html.encode("utf-8", "surrogatepass")
    if b"\0" in data:
        data = data.replace(b"\0", b"")
    if len(data) > MAX_TOKEN_OFFSET:
        return parse_html_plain(html, limits, is_rewritten)
    page, cut_status = _cut_page(data, limits)
    if cut_status == kernels.DONE and not is_rewritten and _needs_rewriting(data, page):
        return parse_html(without_readings(show_formulas(html.replace("\0", ""))), limits, is_rewritten=True)
    table, arrange_status = _arrange(data, page, limits)
    if kernels.UNSURE in (cut_status, arrange_status):
        return parse_html_plain(html, limits, is_rewritten)
    if arrange_status == kernels.TOO_DEEP:
        return Refused("nested too deep", f"over {limits.max_depth} elements in one another")
    if cut_status == kernels.TOO_MANY:
        return Refused("too many elements", f"over {limits.max_nodes}")
    return _build_tree(data, page, table)


def _needs_rewriting(data: bytes, page: ScannedPage) -> bool:
    """Return True for a page that contains formulas, ruby readings (annotations above words) or deleted text.

    Args:
        data: UTF-8 bytes of the page, after the element names.
        page: The page's tokens.
    """
    if page.state[kernels.HAS_REWRITTEN]:
        return True
    names = page.names[len(NAMES) : page.state[kernels.NUM_NAMES], 1].tolist()
    return any(data[stop - len(PREFIXED_MATH) : stop].lower() == PREFIXED_MATH for stop in names)


def _cut_page(data: bytes, limits: PageLimits) -> tuple[ScannedPage, int]:
    """Cut a page into tokens.

    Args:
        data: UTF-8 bytes: the names of the elements with special rules, followed by the page.
        limits: Size limits of the page.

    Returns:
        The tokens and a status: DONE, UNSURE (only the plain implementation can do it) or TOO_MANY (start tags).
    """
    start, max_tokens = len(NAMES_PREFIX), len(data) // 2  # "x<b>" is two tokens
    num_names = len(NAMES) + min(max_tokens, limits.max_nodes) + 1
    page = ScannedPage(
        data=np.frombuffer(data, np.uint8),
        rules=RULES,
        names=np.empty((num_names, 5), np.int64),
        chains=np.full(1 << min(max((max_tokens >> 5).bit_length(), 9), 16), -1, np.int64),
        tokens=np.empty((max_tokens + 2, 4), np.int32),
        state=np.zeros(kernels.FIRST_UNENDED + len(NAMES) + 1, np.int64),
    )
    last = data.rfind(b">", start)
    end = cut_tokens(page, start, last, limits.max_nodes)
    next_start = int(page.state[kernels.AFTER])
    unfinished = UNFINISHED_TAG.search(data, max(next_start, last + 1, start))
    stop = unfinished.start() if unfinished else len(data)
    if end == kernels.DONE and next_start < stop:
        page.tokens[page.state[kernels.NUM_TOKENS]] = kernels.TEXT, 0, next_start, stop
        page.state[kernels.NUM_TOKENS] += 1
    return page, end


def _arrange(data: bytes, page: ScannedPage, limits: PageLimits) -> tuple[PageTable, int]:
    """Arrange a page's tokens in a table.

    Args:
        data: UTF-8 bytes: the names of the elements with special rules, followed by the page.
        page: The tokens. For formatting elements that may be hidden, the token's type is decided here, in place.
        limits: Size limits of the page.

    Returns:
        The table and a status: DONE, UNSURE (only the plain implementation can do it) or TOO_DEEP.
    """
    num_tokens, num_elements = page.state[: kernels.NUM_ELEMENTS + 1].tolist()
    actions = page.tokens[:num_tokens, 0]
    is_hiding: dict[bytes, bool] = {}
    for place in np.flatnonzero(actions == kernels.UNDECIDED).tolist():
        attributes = data[page.tokens[place, 2] : page.tokens[place, 3]]
        if attributes not in is_hiding:
            is_hiding[attributes] = HIDDEN_ATTRIBUTES.search(_decode(attributes)) is not None
        actions[place] = kernels.HIDING if is_hiding[attributes] else kernels.INLINE
    table = PageTable(
        nodes=np.zeros((num_elements + 1, 6), np.int64),
        groups=np.empty((num_tokens + 1, 5), np.int64),
        segments=np.empty((num_tokens + 1, 3), np.int32),
        text=np.empty(len(data), np.uint8),
        opened=np.zeros((min(limits.max_depth, num_elements) + 2, 4), np.int64),
        state=np.zeros(kernels.NUM_STATES, np.int64),
    )
    table.nodes[0, 3] = table.opened[0, 2] = -1
    return table, arrange_tokens(page, table, limits.max_depth, limits.max_text)


def _decode(data: bytes) -> str:
    """Decode UTF-8 bytes, which may contain encoded lone surrogates."""
    return data.decode("utf-8", "surrogatepass")


def _build_tree(data: bytes, page: ScannedPage, table: PageTable) -> Tree:
    """Build the tree of a page from the table filled by the kernels.

    Args:
        data: UTF-8 bytes: the names of the elements with special rules, followed by the page.
        page: The page's tokens.
        table: The page's elements and text.
    """
    extra = [_decode(data[a:b]).lower() for a, b in page.names[len(NAMES) : page.state[kernels.NUM_NAMES], :2].tolist()]
    numbers, starts, stops, parents, firsts, lasts = np.ascontiguousarray(table.nodes[: table.state[kernels.NODES]].T)
    tree = Tree(
        names=[*NAMES, *extra, ""],
        numbers=numbers,
        written=WrittenAttributes(data, starts, stops),
        parents=parents,
        hidden=int(table.state[kernels.NUM_HIDDEN]),
    )
    numbers[0] = -1
    before = _add_blocks(tree, data, table)
    tree.spans = np.stack((before[firsts], before[lasts]), axis=1)
    tokens = page.tokens[: page.state[kernels.NUM_TOKENS]]
    for does, _, start, stop in tokens[tokens[:, 0] >= kernels.META].tolist():
        written = _decode(data[start:stop])
        if does == kernels.PAGE:
            tree.html += written
        elif does == kernels.TITLE:
            tree.title = tree.title or unescape_html(written)
        else:
            lists = {kernels.META: tree.metas, kernels.LINK: tree.links, kernels.TIME: tree.times}
            lists.get(does, tree.scripts).append(written)
    return tree


def _add_blocks(tree: Tree, data: bytes, table: PageTable) -> Int64s:
    """Add the blocks of a page to the tree, from the table that the kernels have filled.

    Returns:
        An int64 array with the number of blocks before each group of text. Its last entry is the number of all blocks.
    """
    text = _decode(table.text[: table.state[kernels.SIZE]].tobytes())
    segments = table.segments[: table.state[kernels.SEGMENTS]]
    nodes, firsts, links, is_mixed, stops = table.groups[: table.state[kernels.GROUPS]].T
    starts, places, numbers = np.append(0, stops)[:-1], nodes.tolist(), tree.numbers[nodes]
    tags = list(map([*tree.names[:-1], "body"].__getitem__, numbers.tolist()))
    texts = [text[start:stop] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]
    columns = zip(places, tags, texts, np.minimum(links, stops - starts).tolist(), strict=True)
    written = list(map(partial(tuple.__new__, Block), columns))
    counts, after = np.ones(len(nodes) + 1, np.int64), 0
    is_pre = numbers == PRE_NUMBER
    for group in np.flatnonzero((is_mixed > 0) | is_pre | (starts == stops)).tolist():
        tree.blocks += written[after:group]
        before, after = len(tree.blocks), group + 1
        if is_mixed[group] or is_pre[group]:
            parts = segments[firsts[group] : firsts[after] if after < len(nodes) else None]
            _add_mixed(tree.blocks, places[group], tags[group], data, parts.tolist())
        counts[after] = len(tree.blocks) - before
    tree.blocks += written[after:]
    counts[0] = 0
    return np.cumsum(counts)


def _add_mixed(blocks: list[Block], node: int, tag: str, data: bytes, segments: list[list[int]]) -> None:
    """Add the blocks of a group of text that contains character references, line breaks or preserved lines.

    Args:
        blocks: The list to which the blocks are appended.
        node: Index of the innermost element around the text.
        tag: Name of the nearest block element.
        data: UTF-8 bytes of the page, after the element names.
        segments: The group's segments, as [first byte, first byte after it, 1 if it is in a link]. Both positions are
            0 for a line break.
    """
    gathered = BlockText()
    for start, stop, in_link in segments:
        if stop:
            gathered.add_text(_decode(data[start:stop]), bool(in_link), tag == "pre")
        elif gathered.end_line():
            gathered.end_block(node, tag, blocks)
    gathered.end_block(node, tag, blocks)
