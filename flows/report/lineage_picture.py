"""The lineage of artifacts as a stand-alone picture: boxes in layers from top to bottom, an arrow for each step.

Promise: the same boxes give the same bytes; every text is escaped, bounded and wrapped; the background is white, so the
picture reads the same on a light page and on a dark one. It is at most `BOXES_PER_ROW` boxes wide: a layer that has
more is drawn in several rows.
"""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flows.recipes.privacy import to_one_line
from flows.report.templates import load_drawings

BOXES_PER_ROW = 4  # boxes in a row
WIDTH, GAP, BETWEEN, MARGIN = 164.0, 14.0, 34.0, 10.0  # of a box; to its right; below its row; around everything
LINE, PADDING = 15.0, 8.0
LINE_LETTERS, MAX_LINES = 25, 6  # of a line, and lines of a box below its title

Key = tuple[str, str]
Arrow = tuple[Key, Key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A box in the picture. It represents an artifact (stored stage result).

    Attributes:
        key: Unique identifier of the box.
        title: First line, shown in bold.
        texts: Texts below the title. Long texts are wrapped.
    """

    key: Key
    title: str
    texts: Sequence[str]

    @property
    def lines(self) -> list[str]:
        """The lines below the title, at most MAX_LINES, wrapped to the width of the box.

        If the text is truncated, the last line is "…".
        """
        wrapped = [line for text in self.texts for line in textwrap.wrap(to_one_line(text, 120), LINE_LETTERS)]
        return wrapped if len(wrapped) <= MAX_LINES else [*wrapped[: MAX_LINES - 1], "…"]

    @property
    def height(self) -> float:
        """The height of the box in pixels."""
        return 2 * PADDING + LINE * (1 + len(self.lines))


def draw_lineage(boxes: Sequence[Box], arrows: Sequence[Arrow]) -> str:
    """Draw an SVG picture of artifacts (stored stage results), with arrows to the artifacts that were built from them.

    Args:
        boxes: The artifacts, at least one. Each must come after the artifacts that it was built from.
        arrows: Pairs of the key of an artifact and the key of an artifact that was built from it.

    Returns:
        The text of a stand-alone SVG file.
    """
    rows = _arrange_rows(boxes, arrows)
    widest = max(len(row) for row in rows)
    width = widest * WIDTH + (widest - 1) * GAP + 2 * MARGIN
    corners: dict[Key, tuple[float, float]] = {}
    top = MARGIN
    for row in rows:
        left = (width - len(row) * WIDTH - (len(row) - 1) * GAP) / 2
        corners |= {box.key: (left + place * (WIDTH + GAP), top) for place, box in enumerate(row)}
        top += max(box.height for box in row) + BETWEEN
    height = top - BETWEEN + MARGIN
    heights = {box.key: box.height for box in boxes}
    placed = [(box, *corners[box.key]) for box in boxes]
    middles = {key: left + WIDTH / 2 for key, (left, _) in corners.items()}
    lines = [(middles[a], corners[a][1] + heights[a], middles[b], corners[b][1]) for a, b in arrows]
    return str(load_drawings().lineage(width, height, lines, placed, WIDTH, LINE, PADDING))


def _arrange_rows(boxes: Sequence[Box], arrows: Sequence[Arrow]) -> list[list[Box]]:
    """Arrange the boxes in rows by their distance from the artifacts (stored stage results) that have no parents.

    Each row is ordered by the parents' positions, and has at most BOXES_PER_ROW boxes.

    Args:
        boxes: The boxes, each after its parents.
        arrows: Pairs of the key of a parent and the key of a box that was built from it.
    """
    parents: dict[Key, list[Key]] = {box.key: [] for box in boxes}
    for start, end in arrows:
        parents[end].append(start)
    depth: dict[Key, int] = {}
    for box in boxes:
        depth[box.key] = 1 + max((depth[parent] for parent in parents[box.key]), default=-1)
    rows: list[list[Box]] = []
    place: dict[Key, float] = {}
    for level in range(1 + max(depth.values())):
        layer = sorted(
            (box for box in boxes if depth[box.key] == level), key=lambda box: _compute_middle(box, parents, place)
        )
        place |= {box.key: number - (len(layer) - 1) / 2 for number, box in enumerate(layer)}
        rows += [layer[first : first + BOXES_PER_ROW] for first in range(0, len(layer), BOXES_PER_ROW)]
    return rows


def _compute_middle(box: Box, parents: Mapping[Key, Sequence[Key]], place: Mapping[Key, float]) -> float:
    """Compute the mean horizontal position of a box's parents. Returns 0 if it has none.

    Args:
        box: The box.
        parents: The keys of the parents of each box, by its key.
        place: The horizontal position of each box that has been placed, by its key.
    """
    places = [place[parent] for parent in parents[box.key]]
    return sum(places) / len(places) if places else 0.0
