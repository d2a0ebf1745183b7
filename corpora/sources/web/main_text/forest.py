"""Boosted decision trees: what is learnt from marked pages, kept as arrays in a file beside the code.

Promises: `sum_trees`, a kernel, gives for each row what `sum_plain` gives: the sum, in the order of the trees, of the
value of the leaf that the row comes to in each. A row goes left where its number is at most the node's bound. Only
comparisons and sums are made, so the result is the same on every machine.
Costs: 0.35 ms for 250 rows and 450 trees of 31 leaves. A forest is read once a process, in 1 ms.

Source: Friedman, Greedy Function Approximation, 2001; how the kernel goes through the trees: QuickScorer (Lucchese et
al., SIGIR 2015). The trees are grown by LightGBM (`benchmarks/fit_blocks.py`).
"""

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Bools, Float32s, Float64s, Int16s, Int32s, UInt32s
from corpora.kernels.compiling import kernel
from corpora.kernels.packed import trailing_zeros

FILE = Path(__file__).with_name("forests.npz")
STEPS = 16  # of a logarithm of odds by 1, each with a chance in the table
_ALL = np.uint32(0xFFFFFFFF)  # leaves of a tree
_MOST_ASKED, _TOGETHER = 36, 4  # nodes of a tree and room for the last few; those that rows are asked by together
FURTHEST = 10  # logarithm of odds at either end of the table


class Forest(NamedTuple):
    """Trees as arrays. The first three have an entry a node, in the order of a walk that goes to the left first; so are
    leaves, of which a tree has 32 at most.

    columns: the number of the row that a node asks for
    bounds:  the largest with which a row goes left
    masks:   a bit for each leaf of the tree, the first one lowest: those that a row which goes right may come to
    trees:   the first node of each tree and its first leaf; at last those after all
    leaves:  the values of leaves
    chances: what sums mean: the chance of each sixteenth from -10 to 10
    """

    columns: Int16s
    bounds: Float32s
    masks: UInt32s
    trees: Int32s
    leaves: Float64s
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
    values: Float32s, columns: Int16s, bounds: Float32s, masks: UInt32s, trees: Int32s, leaves: Float64s
) -> Float64s:
    """The sum of the leaves that each row comes to. values: the rows' numbers, a row of this array for each column.

    All rows are asked by four nodes before the next four: a bit for each leaf of the tree that a row may still come to,
    of which a node keeps those of its mask where the row goes right. The row comes to the lowest that is left. A column
    that has one number is asked once, and no node is whose leaves no row can come to.
    """
    sums = np.zeros(values.shape[1], np.float64)
    may = np.empty(values.shape[1], np.uint32)
    is_one = _have_one_number(values)
    asked = np.empty(_MOST_ASKED, np.int64)
    for tree in range(trees.shape[0] - 1):
        first_leaf, all_may, num_asked = trees[tree, 1], _ALL, 0
        for node in range(trees[tree, 0], trees[tree + 1, 0]):
            if all_may & ~masks[node]:
                if not is_one[columns[node]]:
                    asked[num_asked] = node
                    num_asked += 1
                elif may.size and not values[columns[node], 0] <= bounds[node]:
                    all_may &= masks[node]
        may[:] = all_may
        asked[num_asked : num_asked + _TOGETHER] = asked[0]
        for at in range(0, num_asked, _TOGETHER):
            a, b, c, d = asked[at], asked[at + 1], asked[at + 2], asked[at + 3]
            of_a, of_b, of_c, of_d = values[columns[a]], values[columns[b]], values[columns[c]], values[columns[d]]
            bound_a, bound_b, bound_c, bound_d = bounds[a], bounds[b], bounds[c], bounds[d]
            mask_a, mask_b, mask_c, mask_d = masks[a], masks[b], masks[c], masks[d]
            for row in range(may.size):
                may_a = _ALL if of_a[row] <= bound_a else mask_a
                may_b = _ALL if of_b[row] <= bound_b else mask_b
                may_c = _ALL if of_c[row] <= bound_c else mask_c
                may_d = _ALL if of_d[row] <= bound_d else mask_d
                may[row] &= may_a & may_b & (may_c & may_d)
        for row in range(may.size):
            sums[row] += leaves[first_leaf + trailing_zeros(np.uint64(may[row]))]
    return sums


@kernel
def average(values: Float32s) -> Float32s:
    """The mean of each row of numbers, each of which counts as much as that of the first row at its place."""
    means, weights = np.empty(values.shape[0], np.float32), values[0].astype(np.float64)
    total = np.sum(weights)
    for row in range(values.shape[0]):
        sums = np.zeros(4)  # in turns: four sums that need not wait for one another
        for at in range(weights.size):
            sums[at & 3] += weights[at] * values[row, at]
        means[row] = (sums[0] + sums[1] + (sums[2] + sums[3])) / total
    return means


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
    for (node, leaf), (end, _) in pairwise(forest.trees.tolist()):
        may = int(_ALL)
        for at in range(node, end):
            if not row[forest.columns[at]] <= forest.bounds[at]:
                may &= int(forest.masks[at])
        total += float(forest.leaves[leaf + (may & -may).bit_length() - 1])
    return total
