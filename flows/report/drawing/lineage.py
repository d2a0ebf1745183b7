"""The lineage of artifacts as a stand-alone picture: boxes in layers from top to bottom, an arrow for each step.

Promise: the same boxes give the same bytes; every text is escaped, bounded and wrapped; the background is white, so the
picture reads the same on a light page and on a dark one. It is as wide as `ACROSS` boxes, however many there are: a
layer that has more is drawn in several rows.
"""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import escape

from flows.recipes.settings.privacy import visible

ACROSS = 4  # boxes in a row
WIDTH, GAP, BETWEEN, MARGIN = 164.0, 14.0, 34.0, 10.0  # of a box; to its right; below its row; around everything
LINE, PADDING = 15.0, 8.0
LETTERS, LINES = 25, 6  # of a line, and lines of a box below its title
FILL, EDGE, INK, SOFT = "#f2f5fb", "#4a6fb5", "#1d2433", "#5d677a"

Key = tuple[str, str]
Arrow = tuple[Key, Key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One thing that was made: its title, and the lines below it."""

    key: Key
    title: str
    texts: Sequence[str]

    @property
    def lines(self) -> list[str]:
        """The lines below the title, wrapped to fit."""
        wrapped = [line for text in self.texts for line in textwrap.wrap(visible(text, 120), LETTERS)]
        return wrapped if len(wrapped) <= LINES else [*wrapped[: LINES - 1], "…"]

    @property
    def height(self) -> float:
        """The height of the box."""
        return 2 * PADDING + LINE * (1 + len(self.lines))


def draw_lineage(boxes: Sequence[Box], arrows: Sequence[Arrow]) -> str:
    """Return a picture of boxes, each given after those that it was made from, and of the arrows between."""
    rows = _rows(boxes, arrows)
    widest = max(len(row) for row in rows)
    width = widest * WIDTH + (widest - 1) * GAP + 2 * MARGIN
    corners: dict[Key, tuple[float, float]] = {}
    top = MARGIN
    for row in rows:
        left = (width - len(row) * WIDTH - (len(row) - 1) * GAP) / 2
        corners |= {box.key: (left + place * (WIDTH + GAP), top) for place, box in enumerate(row)}
        top += max(box.height for box in row) + BETWEEN
    height = top - BETWEEN + MARGIN
    tall = {box.key: box.height for box in boxes}
    drawn = [_arrow(corners[start], tall[start], corners[end]) for start, end in arrows]
    drawn += [_box(box, *corners[box.key]) for box in boxes]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" font-family="system-ui, sans-serif" font-size="12">'
        f'<rect width="100%" height="100%" fill="#ffffff"/>{"".join(drawn)}</svg>'
    )


def _rows(boxes: Sequence[Box], arrows: Sequence[Arrow]) -> list[list[Box]]:
    """Return the boxes by their number of steps from the first, each layer ordered by where it comes from."""
    parents: dict[Key, list[Key]] = {box.key: [] for box in boxes}
    for start, end in arrows:
        parents[end].append(start)
    depth: dict[Key, int] = {}
    for box in boxes:
        depth[box.key] = 1 + max((depth[parent] for parent in parents[box.key]), default=-1)
    rows: list[list[Box]] = []
    place: dict[Key, float] = {}
    for level in range(1 + max(depth.values())):
        layer = sorted((box for box in boxes if depth[box.key] == level), key=lambda box: _middle(box, parents, place))
        place |= {box.key: number - (len(layer) - 1) / 2 for number, box in enumerate(layer)}
        rows += [layer[first : first + ACROSS] for first in range(0, len(layer), ACROSS)]
    return rows


def _middle(box: Box, parents: Mapping[Key, Sequence[Key]], place: Mapping[Key, float]) -> float:
    """Return the horizontal middle of a box's parents."""
    places = [place[parent] for parent in parents[box.key]]
    return sum(places) / len(places) if places else 0.0


def _arrow(start: tuple[float, float], tall: float, end: tuple[float, float]) -> str:
    """Return an arrow from the lower edge of one box to the upper edge of another."""
    x0, y0 = start[0] + WIDTH / 2, start[1] + tall
    x1, y1 = end[0] + WIDTH / 2, end[1]
    middle = (y0 + y1) / 2
    return (
        f'<path d="M{x0:g} {y0:g}C{x0:g} {middle:g} {x1:g} {middle:g} {x1:g} {y1 - 6:g}" fill="none" stroke="{EDGE}"/>'
        f'<path d="M{x1 - 4:g} {y1 - 8:g}h8l-4 8z" fill="{EDGE}"/>'
    )


def _box(box: Box, left: float, top: float) -> str:
    middle, base = left + WIDTH / 2, top + PADDING + LINE - 4
    title = escape(visible(box.title, LETTERS))
    lines = [f'<text x="{middle:g}" y="{base:g}" font-weight="600">{title}</text>']
    for number, line in enumerate(box.lines, 1):
        lines.append(f'<text x="{middle:g}" y="{base + LINE * number:g}" fill="{SOFT}">{escape(line)}</text>')
    return (
        f'<rect x="{left:g}" y="{top:g}" width="{WIDTH:g}" height="{box.height:g}" rx="5" fill="{FILL}" '
        f'stroke="{EDGE}"/><g text-anchor="middle" fill="{INK}">{"".join(lines)}</g>'
    )
