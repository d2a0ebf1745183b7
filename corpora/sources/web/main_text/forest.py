"""Boosted decision trees: what is learnt from marked pages, kept as arrays in a file beside the code.

Promises: `sum_trees`, a kernel, gives for each row what `sum_plain` gives: the sum, in the order of the trees, of the
value of the leaf that the row comes to in each. A row goes left where its number is at most the node's bound. Only
comparisons and sums are made, so the result is the same on every machine.
Costs: 0.8 ms for 290 rows and 150 trees of 31 leaves. A forest is read once a process, in 1 ms.

Source: Friedman, Greedy Function Approximation, 2001; how the kernel goes through the trees: QuickScorer (Lucchese et
al., SIGIR 2015). The trees are grown by LightGBM (`benchmarks/fit_blocks.py`).
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Bools, Float32s, Float64s, Int16s, Int32s, Int64s, UInt32s
from corpora.kernels.compiling import kernel
from corpora.kernels.packed import trailing_zeros

FILE = Path(__file__).with_name("forests.npz")
STEPS = 16  # of a logarithm of odds by 1, each with a chance in the table
_ALL = np.uint32(0xFFFFFFFF)  # leaves of a tree
_MOST_ASKED, _TOGETHER = 36, 4  # nodes of a tree and room for the last few; those that rows are asked by together
FIELDS = ("columns", "bounds", "left", "right", "leaves", "roots", "chances")  # in a file
FURTHEST = 10  # logarithm of odds at either end of the table


class Forest(NamedTuple):
    """Trees as arrays, one entry a node but for the last five. Nodes are in the order of a walk that goes to the left
    first, and so are leaves, of which a tree has 32 at most.

    columns:     the number of the row that a node asks for
    bounds:      the largest with which a row goes left
    left, right: the node that follows, or where it is negative, the leaf -1 - n
    masks:       a bit for each leaf of the tree, the first one lowest, that a row which goes right may come to
    trees:       the first node of each tree and its first leaf; at last those after all
    leaves:      the values of leaves
    roots:       the first node of each tree, or its only leaf
    chances:     what sums mean: the chance of each sixteenth from -10 to 10
    """

    columns: Int16s
    bounds: Float32s
    left: Int32s
    right: Int32s
    masks: UInt32s
    trees: Int64s
    leaves: Float64s
    roots: Int32s
    chances: Float64s


def make_forest(arrays: Mapping[str, np.ndarray]) -> Forest:
    """A forest from the arrays of a file, which has all but masks and trees."""
    masks, trees = lay_out(*(arrays[field] for field in ("left", "right", "roots", "leaves")))
    forest = Forest(**arrays, masks=masks, trees=trees)
    for array in forest:
        array.flags.writeable = False
    return forest


@cache
def read_forest(name: str, file: Path = FILE) -> Forest:
    """A forest of a file: "blocks", "articles", "kinds" or "pages" of that beside the code."""
    with np.load(file, allow_pickle=False) as arrays:
        return make_forest({field: arrays[f"{name}.{field}"] for field in FIELDS})


def sum_odds(forest: Forest, rows: Float32s) -> Float64s:
    """The logarithm of the odds of each row that what was learnt is so of it."""
    values = np.ascontiguousarray(rows.T)
    return sum_trees(values, forest.columns, forest.bounds, forest.masks, forest.trees, forest.leaves)


def as_chances(forest: Forest, odds: Float64s) -> Float64s:
    """What logarithms of odds mean, by the table of a forest."""
    steps = np.floor((np.clip(odds, -FURTHEST, FURTHEST) + FURTHEST) * STEPS).astype(np.int64)
    return forest.chances[steps]


def chances(forest: Forest, rows: Float32s) -> Float64s:
    """The chance of each row that what was learnt is so of it."""
    return as_chances(forest, sum_odds(forest, rows))


@kernel
def lay_out(left: Int32s, right: Int32s, roots: Int32s, leaves: Float64s) -> tuple[UInt32s, Int64s]:
    """The `masks` and `trees` of a forest."""
    masks, trees = np.empty(left.size, np.uint32), np.empty((roots.size + 1, 2), np.int64)
    trees[roots.size] = left.size, leaves.size
    first = np.empty(left.size, np.int64)  # leaf of each node
    node = left.size
    for tree in range(roots.size - 1, -1, -1):
        end, root = node, roots[tree]
        for node in range(end - 1, root - 1 if root >= 0 else end - 1, -1):
            first[node] = _first_leaf(first, left[node])
        start = _first_leaf(first, root)
        trees[tree, 0], trees[tree, 1] = node, start
        for at in range(node, end):
            middle = _first_leaf(first, right[at])
            masks[at] = ~np.uint32((1 << (middle - start)) - (1 << (first[at] - start)))
    return masks, trees


@kernel
def _first_leaf(first: Int64s, node: int) -> int:
    """The number of the first leaf of a tree from a node on, or of a leaf itself."""
    return first[node] if node >= 0 else -1 - node


@kernel
def sum_trees(
    values: Float32s, columns: Int16s, bounds: Float32s, masks: UInt32s, trees: Int64s, leaves: Float64s
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
    for root in forest.roots.tolist():
        node = root
        while node >= 0:
            goes_left = row[forest.columns[node]] <= forest.bounds[node]
            node = int((forest.left if goes_left else forest.right)[node])
        total += float(forest.leaves[-1 - node])
    return total
