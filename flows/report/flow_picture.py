"""The run as one picture: raw records, documents, kept documents, tokens and examples, with what was lost at each step.

    sources ─► documents ─► kept ═► tokens ─► examples
          └► dropped   └► removed       └► truncated, left over

Promises: a band's width is its count, records and documents on one scale and tokens on another (the band between the
two, from kept documents to their tokens, has the widths of both ends). No band is narrower than `MIN_BAND_WIDTH`, so
that four records next to twenty thousand are visible. Every node shows its count, so no number must be read from a
width. Plain SVG without colours of its own: the page's classes give them, so it is right in light, dark and print. The
same manifests give the same bytes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from unicodedata import east_asian_width

from markupsafe import Markup

from corpora.store.manifest import Manifest
from flows.recipes.privacy import to_one_line
from flows.report.templates import format_number, load_drawings
from flows.run.record.ledger_balance import (
    count_tokens,
    filter_kind,
    find_newest,
    find_newest_by_name,
    find_parent,
    list_copy_accounts,
    sum_records,
)

# Where the nodes of each column begin; labels are left of the first column and right of the others.
COLUMNS, WIDTH = (150.0, 240.0, 465.0, 585.0, 737.0), 1010.0
SOURCES, DOCUMENTS, KEPT, TOKENS, EXAMPLES = range(5)
MIN_BAND_WIDTH = 1.5  # width of the narrowest band
MAX_COLUMN_HEIGHT = 140.0  # of the bands of the fullest column together
MIN_TOKENS_HEIGHT = 50.0  # of the fullest column of tokens, which is else as tall as the documents that were kept
HEAD_HEIGHT = 40.0  # above the nodes: the heads of the columns
LABEL_HEIGHT = 17.0  # from one label to the next
NODE_WIDTH = 9.0  # width of a node
MAX_LABEL_LETTERS = (20, 60, 60, 20, 41)  # of the labels of each column, with their numbers
MAX_SOURCES = 12
MAX_DROPPED, MAX_REMOVED = 6, 4  # reasons that are drawn by name; the others are drawn as one


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A box in the picture. It shows the number of records, documents or tokens that reached a step.

    Attributes:
        key: Unique name that links refer to.
        label: Text next to the box; "" if the heading of the column is sufficient.
        column: Index in COLUMNS.
        count: Number of records, documents or tokens.
        is_lost: True if the items were dropped or removed at this step. The label states the reason.
    """

    key: str
    label: str
    column: int
    count: int
    is_lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A band in the picture. It shows how many items move from one node to a node in a later column.

    Attributes:
        start: Key of the node on the left.
        end: Key of the node on the right.
        count: Number of records, documents or tokens, summed over all copies.
        copies: Number of copies of the data. The width of the band represents one copy.
    """

    start: str
    end: str
    count: int
    copies: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The content of the picture, before it is drawn.

    Attributes:
        nodes: The boxes. Those of each column are ordered from top to bottom.
        links: The bands.
        heads: The heading of each column, by column index: a number and its unit.
    """

    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    heads: Mapping[int, tuple[str, str]]

    @property
    def description(self) -> str:
        """A two-sentence description of the picture for people who cannot see it."""
        counts = [" ".join(head).strip() for _, head in sorted(self.heads.items())]
        lost = [f"{node.count:,} {to_one_line(node.label, 80)}" for node in self.nodes if node.is_lost]
        return f"{', then '.join(counts)}. Lost on the way: {', '.join(lost) or 'nothing'}."


def build_flow(manifests: Sequence[Manifest]) -> Flow | None:
    """Build the nodes and links of a run, from the raw records of each source to the examples of each shard set.

    Args:
        manifests: Manifests (descriptions) of the run's artifacts (stored stage results).

    Returns:
        The nodes and links of all pipeline stages that the run reached; None if no source was read.
    """
    parsed, verdicts = filter_kind(manifests, "documents"), find_newest(manifests, "verdicts")
    if not parsed:
        return None
    nodes, links = _build_records(parsed)
    heads = {SOURCES: (format_short_number(sum_records(parsed).total), "raw records")}
    heads[DOCUMENTS] = (format_short_number(sum_records(parsed).outcomes.get("documents", 0)), "documents")
    if verdicts is not None:
        outcomes = +Counter(verdicts.ledger.find_account("documents").outcomes)
        heads[KEPT] = (format_short_number(outcomes["kept"]), "kept")
        ends = [Node(key="kept", label="", column=KEPT, count=outcomes.pop("kept", 0))]
        ends += [_build_lost(end, KEPT, count) for end, count in _merge_rare(outcomes, MAX_REMOVED, "removed").items()]
        nodes += ends
        links += [Link(start="documents", end=node.key, count=node.count) for node in ends]
        written = find_newest_by_name(manifests, "tokens")
        sets = find_newest_by_name(manifests, "shards")
        num_tokens = [count_tokens(tokens.parts) for tokens in written.values()]
        num_examples = [each.count_rows("examples") for each in sets.values()]
        heads[TOKENS] = _build_head(num_tokens, "tokens", "vocabularies")
        heads[EXAMPLES] = _build_head(num_examples, "examples", "sets of shards")
        more_nodes, more_links = _build_tokens(written, sets)
        nodes += more_nodes
        links += more_links
    drawn = {node.column for node in nodes}
    return Flow(
        nodes=tuple(nodes),
        links=tuple(links),
        heads={column: head for column, head in heads.items() if column in drawn},
    )


def _build_head(counts: Sequence[int], unit: str, several: str) -> tuple[str, str]:
    """Return the two lines of a column heading, as (first line, second line).

    The lines are a count and its unit. If the column shows several vocabularies or shard sets, they are the unit and
    the number of these sets.

    Args:
        counts: One count for each vocabulary or shard set in the column.
        unit: Unit of the counts.
        several: What the counts belong to, as a plural noun.
    """
    return (format_short_number(counts[0]), unit) if len(counts) == 1 else (unit, f"of {len(counts)} {several}")


def format_short_number(count: int) -> str:
    """Format a number for a column heading, which has room for about eleven characters.

    >>> format_short_number(98_765_432), format_short_number(1_234_567_890), format_short_number(900 * 10**12)
    ('98,765,432', '1.2 billion', '900.0 trillion')
    """
    for bound, word in ((10**12, "trillion"), (10**9, "billion")):
        if count >= bound:
            return f"{count / bound:,.1f} {word}"
    return format_number(count)


def _build_records(parsed: Sequence[Manifest]) -> tuple[list[Node], list[Link]]:
    """Build the nodes and links from sources to documents, and from sources to dropped records.

    Counts are summed over all generations (the raw files that one run added) of a source. If there are too many reasons
    or sources, the rarest ones are merged into one node.

    Args:
        parsed: Manifests (descriptions) of the parsed documents; must not be empty.
    """
    names = list(dict.fromkeys(manifest.name for manifest in parsed))
    few = names if len(names) <= MAX_SOURCES else names[: MAX_SOURCES - 1]
    others = f"{len(names) - len(few)} other sources"
    outcomes = +Counter(sum_records(parsed).outcomes)
    documents = outcomes.pop("documents", 0)
    ends = _merge_rare(outcomes, MAX_DROPPED, "dropped")
    by_source = {name: Counter[str]() for name in (*few, *([others] if len(few) < len(names) else []))}
    for manifest in parsed:
        for end, count in (+Counter(manifest.ledger.find_account("records").outcomes)).items():
            counts = by_source[manifest.name if manifest.name in few else others]
            counts[end if end == "documents" or end in ends else [*ends][-1]] += count
    nodes = [Node(key=f"from {name}", label=name, column=SOURCES, count=c.total()) for name, c in by_source.items()]
    nodes.append(Node(key="documents", label="", column=DOCUMENTS, count=documents))
    nodes += [_build_lost(end, DOCUMENTS, count) for end, count in ends.items()]
    links = [
        Link(start=f"from {name}", end=end, count=counts[end])
        for name, counts in by_source.items()
        for end in ("documents", *ends)  # in the order of their nodes, so that no bands of a source cross
    ]
    return nodes, links


def _merge_rare(lost: Counter[str], max_reasons: int, what: str) -> dict[str, int]:
    """Sort counts by reason, most frequent first, and merge the rest if there are more than `max_reasons`.

    Args:
        lost: The count of each reason.
        max_reasons: Maximum number of entries in the result.
        what: Prefix of the name of the merged entry, such as "dropped".
    """
    ordered = lost.most_common()
    if len(ordered) <= max_reasons:
        return dict(ordered)
    rest = ordered[max_reasons - 1 :]
    return {**dict(ordered[: max_reasons - 1]), f"{what}: {len(rest)} other reasons": sum(count for _, count in rest)}


def _build_lost(end: str, column: int, count: int) -> Node:
    """Build the node that shows dropped or removed items.

    Args:
        end: The reason for the loss, such as "dropped: parse: empty". It becomes the key of the node.
        column: Index of the column in which the node is drawn.
        count: Number of items.
    """
    return Node(key=end, label=end.partition(": ")[2] or end, column=column, count=count, is_lost=True)


def _build_tokens(written: Mapping[str, Manifest], sets: Mapping[str, Manifest]) -> tuple[list[Node], list[Link]]:
    """Build the nodes and links from kept documents to the tokens of each vocabulary, and from tokens to examples.

    Tokens that are used by several shard sets flow into each of them. Tokens that are used by several copies in one
    shard set are drawn only once.

    Args:
        written: The manifest (description) of the tokenized documents, by name of the vocabulary.
        sets: The manifest of each shard set, by name.
    """
    nodes, links, losses = list[Node](), list[Link](), list[Link]()
    for vocabulary, tokens in written.items():
        start = Node(key=f"tokens {vocabulary}", label=vocabulary, column=TOKENS, count=count_tokens(tokens.parts))
        own = {name: shards for name, shards in sets.items() if find_parent(shards, [tokens]) is not None}
        placements = [(name, shards, *_link_tokens(start.key, name, shards)) for name, shards in own.items()]
        unused = count_tokens(part for part in tokens.parts if _is_unused(part.labels.get("source"), own.values()))
        nodes += [start, *(_build_examples(name, shards, placed) for name, shards, placed, _ in placements)]
        links += [Link(start="kept", end=start.key, count=start.count), *(placed for _, _, placed, _ in placements)]
        losses += [link for *_, lost in placements for link in lost]
        losses += (
            [Link(start=start.key, end="tokens: of sources in no shards", count=unused)] if sets and unused else []
        )
    lost = Counter[str]()
    for link in losses:
        lost[link.end] += link.count
    nodes += [_build_lost(end, EXAMPLES, count) for end, count in lost.most_common()]
    return nodes, [*links, *(link for end, _ in lost.most_common() for link in losses if link.end == end)]


def _link_tokens(start: str, name: str, shards: Manifest) -> tuple[Link, list[Link]]:
    """Return the link for the tokens that a shard set contains, and the links for the tokens that it omits.

    Args:
        start: Key of the tokens node.
        name: Name of the shard set.
        shards: Manifest (stored description) of the shard set.
    """
    accounts = list_copy_accounts(shards)
    outcomes = +sum((Counter(account.outcomes) for account in accounts), Counter[str]())
    copies = max(1, len(accounts))
    placed = Link(start=start, end=f"examples {name}", count=outcomes.pop("placed", 0), copies=copies)
    ends = {f"tokens: {end.replace('_', ' ')}": count for end, count in outcomes.items()}
    return placed, [Link(start=start, end=end, count=count, copies=copies) for end, count in ends.items()]


def _build_examples(name: str, shards: Manifest, placed: Link) -> Node:
    """Build the node that shows a shard set's examples.

    Args:
        name: Name of the shard set; "" if it is the only one.
        shards: Manifest (description) of the shard set.
        placed: Link for the tokens that the shard set contains. It ends at this node.
    """
    copies = f", {placed.copies} copies" if placed.copies > 1 else ""
    label = f"in {shards.count_rows('examples'):,} examples{': ' if name else ''}{name}{copies}"
    return Node(key=placed.end, label=label, column=EXAMPLES, count=placed.count)


def _is_unused(source: str | None, sets: Iterable[Manifest]) -> bool:
    """Return True if none of the shard sets uses a source.

    Args:
        source: Name of the source. If None (unknown), the result is False.
        sets: Manifests (descriptions) of the shard sets.
    """
    chosen = [shards.settings.get("sources") for shards in sets]
    return source is not None and all(sources and source not in sources for sources in chosen)


@dataclass(slots=True, kw_only=True)
class _Box:
    """The position of a node in the picture, and the height that bands occupy on each of its sides, in pixels."""

    top: float
    height: float
    used_left: float = 0.0
    used_right: float = 0.0


def draw_flow(flow: Flow) -> Markup:
    """Draw the picture of a run, from raw records to examples, as an SVG element."""
    widths = _compute_widths(flow)
    boxes = _place_boxes(flow, widths)
    nodes = {node.key: node for node in flow.nodes}
    bands = [_draw_band(link, nodes, boxes, w) for link, w in zip(flow.links, widths, strict=True) if link.count]
    labels = [(n, boxes[n.key], COLUMNS[n.column], _count_letters(n), _format_count(n)) for n in flow.nodes]
    height = max(box.top + max(box.height, LABEL_HEIGHT) for box in boxes.values()) + 6
    heads = [(COLUMNS[c] + (NODE_WIDTH if not c else 0), *head, c) for c, head in flow.heads.items()]
    return Markup(load_drawings().flow(flow.description, WIDTH, height, bands, labels, heads, NODE_WIDTH))


def _count_letters(node: Node) -> int:
    """Return the number of characters of a node's label that fit. Wide (CJK) characters count twice."""
    room = MAX_LABEL_LETTERS[node.column] - len(_format_count(node))
    widths = accumulate(1 + (east_asian_width(letter) in "WF") for letter in node.label)
    return max(4, sum(width <= room for width in widths))


def _format_count(node: Node) -> str:
    """Format the count of a node for its label. The first column has a shorter format because it has less room."""
    return format_number(node.count) if node.column else format_short_number(node.count)


def _compute_widths(flow: Flow) -> list[float]:
    """Compute the width, in pixels, of each link's band at its right end. Returns the widths in the order of the links.

    The fullest column of records and documents is MAX_COLUMN_HEIGHT high. The fullest column of tokens is as high as
    the kept documents, but at least MIN_TOKENS_HEIGHT.
    """
    fullest = Counter[int]()
    for node in flow.nodes:
        fullest[node.column] += node.count if node.column < TOKENS else 0
    for link in flow.links:
        fullest[TOKENS if link.start == "kept" else EXAMPLES] += link.count // link.copies * _counts_tokens(link)
    scale = MAX_COLUMN_HEIGHT / max(1, *(fullest[column] for column in (SOURCES, DOCUMENTS, KEPT)))
    kept = scale * sum(node.count for node in flow.nodes if node.key == "kept")
    token_scale = max(kept, MIN_TOKENS_HEIGHT) / max(1, fullest[TOKENS], fullest[EXAMPLES])
    scales = (token_scale if _counts_tokens(link) else scale for link in flow.links)
    return [max(MIN_BAND_WIDTH, link.count / link.copies * each) for link, each in zip(flow.links, scales, strict=True)]


def _counts_tokens(link: Link) -> bool:
    """Return True if a link counts tokens, False if it counts records or documents."""
    return link.start.startswith(("kept", "tokens"))


def _place_boxes(flow: Flow, widths: Sequence[float]) -> dict[str, _Box]:
    """Place all nodes in their columns from top to bottom, and return the boxes by node key.

    Dropped and removed items in a middle column are placed below all boxes of the columns to the right.

    Args:
        flow: The nodes and links.
        widths: Width in pixels of the band of each link, from `_compute_widths`.
    """
    boxes: dict[str, _Box] = {}
    foot = HEAD_HEIGHT
    drawn = [(link, width) for link, width in zip(flow.links, widths, strict=True) if link.count]
    for column in sorted({node.column for node in flow.nodes}, reverse=True):
        top = HEAD_HEIGHT
        for node in (node for node in flow.nodes if node.column == column):
            if node.is_lost and column < EXAMPLES:
                top = max(top, foot)
            arriving = sum(width for link, width in drawn if link.end == node.key)
            leaving = sum(width for link, width in drawn if link.start == node.key != "kept")
            height = max(arriving, leaving, MIN_BAND_WIDTH)
            slot = max(height + 4, LABEL_HEIGHT)
            boxes[node.key] = _Box(top=top + (slot - height) / 2, height=height)
            top += slot
        foot = max(foot, top)
    return boxes


def _draw_band(link: Link, nodes: Mapping[str, Node], boxes: Mapping[str, _Box], width: float) -> tuple[str, str, str]:
    """Return the CSS class, SVG path and title of a band. Updates the used heights of both boxes in place.

    Args:
        link: The link that the band represents.
        nodes: All nodes, by key.
        boxes: The boxes of the nodes, by key.
        width: Width of the band in pixels, at its right end.
    """
    start, end = boxes[link.start], boxes[link.end]
    x0, x1 = COLUMNS[nodes[link.start].column] + NODE_WIDTH, COLUMNS[nodes[link.end].column]
    y0, y1 = start.top + start.used_right, end.top + end.used_left
    is_kept = link.start == "kept"  # every vocabulary reads all that was kept
    height0 = start.height if is_kept else width
    start.used_right += 0 if is_kept else width
    end.used_left += width
    middle = (x0 + x1) / 2
    over = f"M{x0:g} {y0:.1f}C{middle:g} {y0:.1f} {middle:g} {y1:.1f} {x1:g} {y1:.1f}"
    under = f"V{y1 + width:.1f}C{middle:g} {y1 + width:.1f} {middle:g} {y0 + height0:.1f} {x0:g} {y0 + height0:.1f}Z"
    title = to_one_line(f"{link.start.removeprefix('from ')} → {link.end}: {link.count:,}", 120)
    return "turns" if is_kept else "lost" if nodes[link.end].is_lost else "main", f"{over}{under}", title
