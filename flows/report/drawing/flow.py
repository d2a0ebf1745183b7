"""The ledger as a flow: raw records, documents and tokens as bands whose width is their number.

    sources ─► documents ─► kept                      records and documents, one scale
          └► dropped, by reason └► removed, by reason
    vocabularies ─► shard sets ─► placed, truncated, left over            tokens, a scale of their own

Promises: a band's width is its count on the drawing's scale, but none is narrower than `LEAST`, so that four records
next to twenty thousand are visible; every node shows its count, so nothing need be read off a width. Plain SVG without
colours of its own: the page's classes `main` and `lost` give them, so it is right in light, dark and print. The same
manifests give the same bytes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from corpora.store.manifest import Manifest
from flows.recipes.settings.privacy import visible
from flows.report.templates import drawings
from flows.run.record.ledger_balance import (
    copy_accounts,
    made_from,
    newest,
    newest_of_each,
    num_tokens,
    of_kind,
    records_account,
)

# Where the nodes of each column begin; labels are left of the first column and right of the others.
COLUMNS, WIDTH = (150.0, 300.0, 540.0), 740.0
LEAST = 1.5  # width of the narrowest band
TALLEST = 210.0  # of the bands of the fullest column together
LABEL = 17.0  # from one label to the next
NODE = 9.0  # width of a node
LETTERS = 46  # of a label
MOST_LOST = 9  # reasons that are drawn by name; the others are drawn as one
MOST_SOURCES = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A place where units are: `count` of them. `lost`: they go no further, for the reason in the label."""

    key: str
    label: str
    column: int
    count: int
    lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """So many units go from one node to another of a later column."""

    start: str
    end: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """A drawing before it is drawn: nodes of each column from top to bottom, and links between them."""

    title: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    columns: tuple[float, ...] = COLUMNS


def document_flow(manifests: Sequence[Manifest]) -> Flow | None:
    """Return the flow from the raw records of each source to the documents in the corpus; None without any."""
    parsed, verdicts = of_kind(manifests, "documents"), newest(manifests, "verdicts")
    if not parsed:
        return None
    fates = _fates_of_sources(parsed)
    ends = sum(fates.values(), Counter[str]())
    nodes = [Node(key=f"from {name}", label=name, column=0, count=fate.total()) for name, fate in fates.items()]
    nodes.append(Node(key="documents", label="documents", column=1, count=ends.pop("documents", 0)))
    dropped = dict(ends.most_common())
    nodes += [_lost(end, 1, count) for end, count in dropped.items()]
    links = [
        Link(start=f"from {name}", end=end, count=fate[end])
        for name, fate in fates.items()
        for end in ("documents", *dropped)  # in the order of their nodes, so that no bands of a source cross
    ]
    if verdicts is not None:
        outcomes = +Counter(verdicts.ledger.account("documents").outcomes)
        nodes.append(Node(key="kept", label="kept", column=2, count=outcomes["kept"]))
        nodes += [_lost(end, 2, count) for end, count in outcomes.most_common() if end != "kept"]
        links += [Link(start="documents", end=node.key, count=node.count) for node in nodes if node.column == 2]
    return Flow(title="Raw records and documents", nodes=tuple(nodes), links=tuple(links))


def _fates_of_sources(parsed: Sequence[Manifest]) -> dict[str, Counter[str]]:
    """Return the outcomes of each source's records, generations added up, under the names that are drawn."""
    sources = _drawn_as(list(dict.fromkeys(manifest.name for manifest in parsed)), MOST_SOURCES, "{} other sources")
    outcomes = +Counter(records_account(parsed).outcomes)
    reasons = [end for end, _ in outcomes.most_common() if end != "documents"]
    ends = {"documents": "documents", **_drawn_as(reasons, MOST_LOST, "dropped: {} other reasons")}
    fates = {name: Counter[str]() for name in sources.values()}
    for manifest in parsed:
        for end, count in (+Counter(manifest.ledger.account("records").outcomes)).items():
            fates[sources[manifest.name]][ends[end]] += count
    return fates


def _drawn_as(names: Sequence[str], most: int, others: str) -> dict[str, str]:
    """Return the name under which each is drawn: its own, or `others` for all from the last of `most` on."""
    named = names if len(names) <= most else names[: most - 1]
    rest = others.format(len(names) - len(named))
    return {name: name if name in named else rest for name in names}


def _lost(end: str, column: int, count: int) -> Node:
    """Return the node of what is dropped or removed."""
    return Node(key=end, label=end.partition(": ")[2], column=column, count=count, lost=True)


def token_flow(manifests: Sequence[Manifest]) -> Flow | None:
    """Return the flow from the tokens of each vocabulary to the examples of each shard set; None without shards.

    Tokens that several sets take, or several copies of one, flow into each.
    """
    sets = newest_of_each(manifests, "shards")
    nodes: list[Node] = []
    arrivals: list[tuple[str, Node]] = []
    for vocabulary, tokens in newest_of_each(manifests, "tokens").items():
        start = Node(key=f"tokens {vocabulary}", label=vocabulary or "tokens", column=0, count=num_tokens(tokens.parts))
        own = {name: shards for name, shards in sets.items() if made_from(shards, [tokens]) is not None}
        for name, shards in own.items():
            arrivals += _arrivals(start.key, name, shards)
        unused = num_tokens(part for part in tokens.parts if _is_unused(part.labels.get("source"), own.values()))
        if unused:
            arrivals.append((start.key, _lost(f"unused {vocabulary}: of sources in no shards", 1, unused)))
        nodes.append(start)
    links = [Link(start=start, end=node.key, count=node.count) for start, node in arrivals]
    nodes += [node for _, node in arrivals]
    # What is placed has long labels, of billions of tokens longer ones.
    columns = (140.0, 275.0, 430.0)
    return Flow(title="Tokens and examples", nodes=tuple(nodes), links=tuple(links), columns=columns) if sets else None


def _is_unused(source: str | None, sets: Iterable[Manifest]) -> bool:
    """Return whether no shard set takes a source; a part without a label may be of any, and counts as taken."""
    chosen = [shards.settings.get("sources") for shards in sets]
    return source is not None and all(sources and source not in sources for sources in chosen)


def _arrivals(start: str, name: str, shards: Manifest) -> Iterator[tuple[str, Node]]:
    """Yield the tokens that a shard set takes, and what becomes of them, all copies together: each with its start."""
    accounts = copy_accounts(shards)
    copies = f", {len(accounts)} copies" if len(accounts) > 1 else ""
    total, key = sum(account.total for account in accounts), f"shards {name}"
    yield start, Node(key=key, label=f"{name or 'shards'}{copies}", column=1, count=total)
    labels = {"placed": f"placed in {shards.rows('examples'):,} examples", "left_over": "left over"}
    for outcome, count in sum((Counter(account.outcomes) for account in accounts), Counter[str]()).items():
        label, lost = labels.get(outcome, outcome), outcome != "placed"
        yield key, Node(key=f"{outcome} {name}", label=label, column=2, count=count, lost=lost)


@dataclass(slots=True, kw_only=True)
class _Box:
    """A node in its place: its upper edge and height, and how much of either side bands take already."""

    top: float
    height: float
    taken_left: float = 0.0
    taken_right: float = 0.0


def draw(flow: Flow) -> Markup:
    """Return the drawing as an SVG element."""
    widths = _widths(flow)
    boxes = _boxes(flow, widths)
    lost = {node.key for node in flow.nodes if node.lost}
    column = {node.key: flow.columns[node.column] for node in flow.nodes}
    bands = [_band(link, boxes, column, widths[link], link.end in lost) for link in flow.links if link.count]
    nodes = [(node, boxes[node.key], flow.columns[node.column]) for node in flow.nodes]
    height = max(box.top + max(box.height, LABEL) for box in boxes.values()) + 6
    return Markup(drawings().flow(flow.title, WIDTH, height, bands, nodes, NODE, LETTERS))


def _widths(flow: Flow) -> dict[Link, float]:
    """Return the width of each band, on a scale by which the fullest column is TALLEST high."""
    fullest = Counter[int]()
    for node in flow.nodes:
        fullest[node.column] += node.count
    scale = TALLEST / max(1, *fullest.values())
    return {link: max(LEAST, link.count * scale) for link in flow.links}


def _boxes(flow: Flow, widths: Mapping[Link, float]) -> dict[str, _Box]:
    """Return every node's place: columns from top to bottom; losses in a middle column are below its successors."""
    boxes: dict[str, _Box] = {}
    foot = 6.0
    for column in sorted({node.column for node in flow.nodes}, reverse=True):
        place, last = 6.0, len(flow.columns) - 1
        for node in (node for node in flow.nodes if node.column == column):
            if node.lost and 0 < column < last:
                place = max(place, foot)
            arriving = sum(width for link, width in widths.items() if link.end == node.key and link.count)
            leaving = sum(width for link, width in widths.items() if link.start == node.key and link.count)
            height = max(arriving, leaving, LEAST)
            slot = max(height + 4, LABEL)
            boxes[node.key] = _Box(top=place + (slot - height) / 2, height=height)
            place += slot
        foot = max(foot, place)
    return boxes


def _band(
    link: Link, boxes: Mapping[str, _Box], column: Mapping[str, float], width: float, lost: bool
) -> tuple[str, str, str]:
    """Return the kind, the path and the title of one band, from a node's right side to another's left side."""
    start, end = boxes[link.start], boxes[link.end]
    x0, x1 = column[link.start] + NODE, column[link.end]
    y0, y1 = start.top + start.taken_right, end.top + end.taken_left
    start.taken_right += width
    end.taken_left += width
    middle = (x0 + x1) / 2
    over = f"M{x0:g} {y0:.1f}C{middle:g} {y0:.1f} {middle:g} {y1:.1f} {x1:g} {y1:.1f}"
    under = f"V{y1 + width:.1f}C{middle:g} {y1 + width:.1f} {middle:g} {y0 + width:.1f} {x0:g} {y0 + width:.1f}Z"
    title = visible(f"{link.start.removeprefix('from ')} → {link.end}: {link.count:,}", 120)
    return "lost" if lost else "main", f"{over}{under}", title
