"""Figures of a report: histograms of lengths as inline SVG, drawn by matplotlib.

Promises: the same numbers give the same bytes (no dates, ids salted by the figure's name); nothing in the SVG
points outside it; text stays text, in the page's font; colours are the page's own (`currentColor`, `--bar`), so
a figure is right in light and dark.
Cost: 0.5 s to import matplotlib, 0.09 s a figure (CPU time, one x86-64 core).
"""

import io
import re

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator

from corpora.kernels.arrays import Float64s, Int64s

BINS = 32

INK, BAR, GRID = "#010203", "#040506", "#070809"  # in place of the page's colours until the SVG is written
_COLOURS = {INK: "currentColor", BAR: "var(--bar)", GRID: "var(--line)"}
STYLE = {
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": GRID,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.major.pad": 6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": GRID,
    "axes.axisbelow": True,
}


def histogram(lengths: Int64s, name: str, unit: str, logarithmic: bool) -> str:
    """An SVG histogram of lengths. `name`: unlike that of any other figure of the page, letters and dashes."""
    assert len(lengths)
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=(4.8, 2.0), layout="constrained")
        axes = figure.subplots()
        edges = bin_edges(lengths, logarithmic)
        counts, _ = np.histogram(lengths, edges)
        axes.bar(edges[:-1], counts, np.diff(edges) * 0.94, align="edge", color=BAR, linewidth=0)
        axes.set_xlabel(unit)
        if logarithmic:
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if edges[-1] < 100 * edges[0] else (1, 3)))
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
            axes.minorticks_off()
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        stream = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(stream, format="svg", transparent=True, metadata=nothing)
    return inline_svg(stream.getvalue(), name)


def bin_edges(lengths: Int64s, logarithmic: bool) -> Float64s:
    """Edges of whole numbers that hold every length; all bins equally wide, or in equal ratios."""
    low, high = int(lengths.min()), int(lengths.max()) + 1
    if logarithmic:
        edges = np.geomspace(max(1, low), max(2, high), BINS + 1)
        return np.unique(np.concatenate([[low], np.ceil(edges[1:])])).astype(np.float64)
    step = max(1, -(-(high - low) // BINS))
    return np.arange(low, low - (low - high) // step * step + step, step).astype(np.float64)


def inline_svg(svg: str, name: str) -> str:
    """A standalone SVG as an element of a page: no prolog, ids of its own, the page's font and colours."""
    element = svg[svg.index("<svg") :].strip()
    element = re.sub(r'\bid="', f'id="{name}-', element)
    element = re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", element)
    element = element.replace("'DejaVu Sans'", "inherit").replace("font: 9px inherit", "font-size: 9px")
    element = re.sub(r"<style.*?</style>", "", element, flags=re.DOTALL)  # its rule would hold for the whole page
    for stand_in, colour in _COLOURS.items():
        element = element.replace(stand_in, colour)
    return element.replace("<svg ", f'<svg role="img" aria-label="{name.replace("-", " ")}" ', 1)
