"""Boosted decision trees: what is learnt from marked pages, kept as arrays in a file beside the code.

Promises: `sum_trees`, a kernel, gives for each row what `sum_plain` gives: the sum, in the order of the trees, of the
value of the leaf that the row comes to in each. A row goes left where its number is at most the node's bound. Only
comparisons and sums are made, so the result is the same on every machine.
Costs: 0.8 ms for 290 rows and 150 trees of 31 leaves. A forest is read once a process, in 1 ms.

Source: Friedman, Greedy Function Approximation, 2001; how the kernel goes through the trees: QuickScorer (Lucchese et
al., SIGIR 2015). The trees are grown by LightGBM (`benchmarks/fit_blocks.py`).
"""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Bools, Float32s, Float64s, Int16s, Int32s, Int64s
from corpora.kernels.compiling import kernel
from corpora.kernels.packed import trailing_zeros

FILE = Path(__file__).with_name("forests.npz")
STEPS = 16  # of a logarithm of odds by 1, each with a chance in the table
_ALL = np.uint32(0xFFFFFFFF)  # leaves of a tree
FURTHEST = 10  # logarithm of odds at either end of the table


class Forest(NamedTuple):
    """Trees as arrays, one entry a node but for the last three. Nodes are in the order of a walk that goes to the left
    first, and so are leaves, of which a tree has `MOST_LEAVES`.

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
    """A forest of a file: "blocks", "articles", "kinds" or "pages" of that beside the code."""
    with np.load(file, allow_pickle=False) as arrays:
        forest = Forest(*(arrays[f"{name}.{field}"] for field in Forest._fields))
    for array in forest:
        array.flags.writeable = False
    return forest


def sum_odds(forest: Forest, rows: Float32s) -> Float64s:
    """The logarithm of the odds of each row that what was learnt is so of it."""
    return sum_trees(np.ascontiguousarray(rows.T), *forest[:-1])


def as_chances(forest: Forest, odds: Float64s) -> Float64s:
    """What logarithms of odds mean, by the table of a forest."""
    steps = np.floor((np.clip(odds, -FURTHEST, FURTHEST) + FURTHEST) * STEPS).astype(np.int64)
    return forest.chances[steps]


def chances(forest: Forest, rows: Float32s) -> Float64s:
    """The chance of each row that what was learnt is so of it."""
    return as_chances(forest, sum_odds(forest, rows))


@kernel
def sum_trees(
    values: Float32s, columns: Int16s, bounds: Float32s, left: Int32s, right: Int32s, leaves: Float64s, roots: Int32s
) -> Float64s:
    """The sum of the leaves that each row comes to. values: the rows' numbers, a row of this array for each column.

    All rows are asked by a node before the next one is: a bit for each leaf of the tree that a row may still come to,
    from which a node takes those at its left where the row goes right. The row comes to the lowest that is left. A
    column that has one number is asked once, and no node is whose leaves no row can come to.
    """
    sums = np.zeros(values.shape[1], np.float64)
    may = np.empty(values.shape[1], np.uint32)
    is_one = _have_one_number(values)
    first = np.empty(columns.size, np.int64)  # leaf of each node
    for node in range(columns.size - 1, -1, -1):
        first[node] = _first_leaf(first, left[node])
    for tree in range(roots.size):
        start, later, all_may = _first_leaf(first, roots[tree]), tree + 1, _ALL
        while later < roots.size and roots[later] < 0:
            later += 1
        end = roots[later] if later < roots.size else columns.size
        may[:] = _ALL
        for at in range(roots[tree] if roots[tree] >= 0 else end, end):
            middle = _first_leaf(first, right[at])
            at_left = np.uint32((1 << (middle - start)) - (1 << (first[at] - start)))
            asked, bound, others = values[columns[at]], bounds[at], np.uint32(~at_left)
            if not at_left & all_may:
                continue
            if is_one[columns[at]] and may.size:
                all_may = all_may if asked[0] <= bound else np.uint32(all_may & others)
                continue
            for row in range(may.size):
                may[row] &= _ALL if asked[row] <= bound else others
        for row in range(may.size):
            sums[row] += leaves[start + trailing_zeros(np.uint64(may[row] & all_may))]
    return sums


@kernel
def _first_leaf(first: Int64s, node: int) -> int:
    """The number of the first leaf of a tree from a node on, or of a leaf itself."""
    return first[node] if node >= 0 else -1 - node


@kernel
def _have_one_number(values: Float32s) -> Bools:
    """Whether all numbers of each row are one."""
    is_one = np.ones(values.shape[0], np.bool_)
    for row in range(values.shape[0]):
        for number in values[row]:
            if number != values[row, 0]:
                is_one[row] = False
                break
    return is_one


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
