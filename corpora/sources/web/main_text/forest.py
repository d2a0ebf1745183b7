"""Boosted decision trees: what is learnt from marked pages, kept as arrays in a file beside the code.

Promises: `sum_trees`, a kernel, gives for each row what `sum_plain` gives: the sum, in the order of the trees, of the
value of the leaf that the row comes to in each. A row goes left where its number is at most the node's bound. Only
comparisons and sums are made, so the result is the same on every machine.
Costs: 1.5 ms for 250 rows and 150 trees of 31 leaves. A forest is read once a process, in 1 ms.

Source: Friedman, Greedy Function Approximation, 2001. The trees are grown by LightGBM (`benchmarks/fit_blocks.py`).
"""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Float32s, Float64s, Int16s, Int32s
from corpora.kernels.compiling import kernel

FILE = Path(__file__).with_name("forests.npz")
STEPS = 16  # of a logarithm of odds by 1, each with a chance in the table
FURTHEST = 10  # logarithm of odds at either end of the table


class Forest(NamedTuple):
    """Trees as arrays, one entry a node but for the last three.

    columns:     the number of the row that a node asks for
    bounds:      the largest with which a row goes left
    left, right: the node that follows, or where it is negative, the leaf -1 - n
    leaves:      the values of leaves
    roots:       the first node of each tree
    chances:     what sums mean: the chance of each sixteenth from -10 to 10
    """

    columns: Int16s
    bounds: Float32s
    left: Int32s
    right: Int32s
    leaves: Float64s
    roots: Int32s
    chances: Float64s


@cache
def read_forest(name: str, file: Path = FILE) -> Forest:
    """A forest of a file: "blocks" or "pages" of that beside the code."""
    with np.load(file, allow_pickle=False) as arrays:
        forest = Forest(*(arrays[f"{name}.{field}"] for field in Forest._fields))
    for array in forest:
        array.flags.writeable = False
    return forest


def chances(forest: Forest, rows: Float32s) -> Float64s:
    """The chance of each row that what was learnt is so of it."""
    sums = sum_trees(rows, *forest[:-1])
    steps = np.floor((np.clip(sums, -FURTHEST, FURTHEST) + FURTHEST) * STEPS).astype(np.int64)
    return forest.chances[steps]


@kernel
def sum_trees(
    rows: Float32s, columns: Int16s, bounds: Float32s, left: Int32s, right: Int32s, leaves: Float64s, roots: Int32s
) -> Float64s:
    """The sum of the leaves that each row comes to."""
    sums = np.zeros(rows.shape[0], np.float64)
    for root in roots:
        for row in range(rows.shape[0]):
            node = root
            while node >= 0:
                node = left[node] if rows[row, columns[node]] <= bounds[node] else right[node]
            sums[row] += leaves[-1 - node]
    return sums


def sum_plain(row: list[float], forest: Forest) -> float:
    """The twin of `sum_trees` for one row."""
    total = 0.0
    for root in forest.roots.tolist():
        node = root
        while node >= 0:
            goes_left = row[forest.columns[node]] <= forest.bounds[node]
            node = int((forest.left if goes_left else forest.right)[node])
        total += float(forest.leaves[-1 - node])
    return total
