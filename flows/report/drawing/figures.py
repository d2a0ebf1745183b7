"""Figures of a report: histograms of lengths as inline SVG.

Cost: a millisecond a figure.
"""

import numpy as np
from markupsafe import Markup

from corpora.kernels.arrays import Float64s, Int64s
from flows.report.drawing.plot import Plot, around, from_zero, in_ratios

BINS = 32


def histogram(lengths: Int64s, name: str, unit: str, logarithmic: bool) -> Markup:
    """Return an SVG histogram of lengths. `name`: says what it is, letters and dashes."""
    assert len(lengths)
    edges = bin_edges(lengths, logarithmic)
    counts, _ = np.histogram(lengths, edges)
    low, high = float(edges[0]), float(edges[-1])
    across = in_ratios(low, high, unit) if logarithmic else around((low, high), unit, 7, whole=True)
    plot = Plot(width=345.6, height=144.0, across=across, up=from_zero(float(counts.max())))
    return plot.picture(name, [plot.bars(edges, counts)])


def bin_edges(lengths: Int64s, logarithmic: bool) -> Float64s:
    """Return edges of whole numbers that hold every length; all bins equally wide, or in equal ratios."""
    low, high = int(lengths.min()), int(lengths.max()) + 1
    if logarithmic:
        edges = np.geomspace(max(1, low), max(2, high), BINS + 1)
        return np.unique(np.concatenate([[low], np.ceil(edges[1:])])).astype(np.float64)
    step = max(1, -(-(high - low) // BINS))
    return np.arange(low, low - (low - high) // step * step + step, step).astype(np.float64)
