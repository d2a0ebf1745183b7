"""The growth of a corpus by generations as SVG: what each added, on top of what there was.

Promises: bars on one scale from zero; text, not colour alone, says the same (`flows.report.front.growth_view`).
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np
from markupsafe import Markup

from flows.report.drawing.plot import IN_PAGE, Axis, Plot, from_zero, ticks

WIDTH, HEIGHT = 345.6, 165.6


def growth_chart(added: Sequence[int], unit: str) -> Markup:
    """Return a bar for each generation, as high as the sum until then; the part that it added is in another colour."""
    totals = np.array([*accumulate(added)], np.int64)
    edges = np.arange(len(added) + 1, dtype=np.float64) + 0.55
    named = ticks(1.0, max(2.0, float(len(added))), 8, whole=True)
    across = Axis(low=0.4, high=len(added) + 0.6, ticks=[tick for tick in named if tick >= 1], label="generation")
    plot = Plot(width=WIDTH, height=HEIGHT, across=across, up=from_zero(float(totals[-1]), unit, 4), rows=1)
    old = replace(plot, colours=replace(IN_PAGE, bar="var(--old)"))
    entries = [("from before", "var(--old)", False), ("added", IN_PAGE.bar, False)]
    return plot.picture(
        "growth-by-generation",
        [plot.bars(edges, totals), old.bars(edges, totals - np.array(added)), plot.legend(entries)],
    )
