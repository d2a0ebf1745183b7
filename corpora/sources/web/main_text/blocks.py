"""Chooses the blocks of a page that are its main text, and says how likely it is that they are all of it.

Promises: a pure function of the page's table and address, the same on every machine. A forest (`forest`) that was grown
on marked pages of eight kinds gives each block the chance that it is main text, by what `features` says of it, the kind
of page included. A second one that was grown on articles and news alone counts as far as the page is one of these by
a third, which is asked of the page's mean row: there, what threads, shops and lists taught of an unsure block is wrong.
The blocks that are chosen are those with the best chances, as many as make the expected F1 of their words largest: so a
page of prose keeps what is nearly sure, and a page of cards or rows, where nothing is, the best it has. A block that
repeats an earlier one is left out.
Costs: 1.6 to 2 ms for a page of 240,000 characters in 250 blocks, of which the forests take 0.5 ms.

The forests are what `python -m benchmarks.fit_blocks` makes of the marked pages that its docstring names; its
cross-validated figures are in docs/guide-sources.md.

Source: a block's odds by shallow features is the idea of Kohlschütter, Fankhauser and Nejdl, WSDM 2010; the choice that
maximizes an expected F1 that of Lewis, SIGIR 1995, and of Lipton, Elkan and Naryanaswamy, ECML 2014 (theorem 1).

Boosted decision trees: what is learnt from marked pages, kept as arrays in a file beside the code.

Promises: `sum_trees`, a kernel, gives for each row what `sum_trees_plain` gives: the sum, in the order of the trees, of
the value of the leaf that the row comes to in each. A row goes left where its number is at most the node's bound. Only
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

from corpora.kernels.arrays import Bools, Float32s, Float64s, Int16s, Int32s, Int64s, UInt32s
from corpora.kernels.compiling import kernel
from corpora.kernels.packed import trailing_zeros
from corpora.sources.web.main_text.features import FEATURES, NUMBER, describe_blocks
from corpora.sources.web.tree import Block, Tree

FORESTS_FILE = Path(__file__).with_name("forests.npz")
STEPS_PER_UNIT = 16  # of a logarithm of odds by 1, each with a chance in the table
_ALL = np.uint32(0xFFFFFFFF)  # leaves of a tree
_MAX_NODES, _NODES_AT_ONCE = 36, 4  # nodes of a tree and room for the last few; those that rows are asked by together
MAX_LOG_ODDS = 10  # logarithm of odds at either end of the table


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
def read_forest(name: str, file: Path = FORESTS_FILE) -> Forest:
    """A forest of a file: "blocks", "articles", "kinds" or "pages" of that beside the code."""
    with np.load(file, allow_pickle=False) as arrays:
        forest = Forest(*(arrays[f"{name}.{field}"] for field in Forest._fields))
    for array in forest:
        array.flags.writeable = False
    return forest


def compute_odds(forest: Forest, rows: Float32s) -> Float64s:
    """The logarithm of the odds of each row that what was learnt is so of it."""
    return sum_trees(np.ascontiguousarray(rows.T), *forest[:-1])


def to_chances(forest: Forest, odds: Float64s) -> Float64s:
    """What logarithms of odds mean, by the table of a forest."""
    steps = np.floor((np.clip(odds, -MAX_LOG_ODDS, MAX_LOG_ODDS) + MAX_LOG_ODDS) * STEPS_PER_UNIT).astype(np.int64)
    return forest.chances[steps]


def compute_chances(forest: Forest, rows: Float32s) -> Float64s:
    """The chance of each row that what was learnt is so of it."""
    return to_chances(forest, compute_odds(forest, rows))


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
    reachable = np.empty(values.shape[1], np.uint32)
    is_one = _find_constant_rows(values)
    nodes = np.empty(_MAX_NODES, np.int64)
    for tree in range(trees.shape[0] - 1):
        first_leaf, all_reachable, num_nodes = trees[tree, 1], _ALL, 0
        for node in range(trees[tree, 0], trees[tree + 1, 0]):
            if all_reachable & ~masks[node]:
                if not is_one[columns[node]]:
                    nodes[num_nodes] = node
                    num_nodes += 1
                elif reachable.size and not values[columns[node], 0] <= bounds[node]:
                    all_reachable &= masks[node]
        reachable[:] = all_reachable
        nodes[num_nodes : num_nodes + _NODES_AT_ONCE] = nodes[0]
        for at in range(0, num_nodes, _NODES_AT_ONCE):
            a, b, c, d = nodes[at], nodes[at + 1], nodes[at + 2], nodes[at + 3]
            of_a, of_b, of_c, of_d = values[columns[a]], values[columns[b]], values[columns[c]], values[columns[d]]
            bound_a, bound_b, bound_c, bound_d = bounds[a], bounds[b], bounds[c], bounds[d]
            mask_a, mask_b, mask_c, mask_d = masks[a], masks[b], masks[c], masks[d]
            for row in range(reachable.size):
                may_a = _ALL if of_a[row] <= bound_a else mask_a
                may_b = _ALL if of_b[row] <= bound_b else mask_b
                may_c = _ALL if of_c[row] <= bound_c else mask_c
                may_d = _ALL if of_d[row] <= bound_d else mask_d
                reachable[row] &= may_a & may_b & (may_c & may_d)
        for row in range(reachable.size):
            sums[row] += leaves[first_leaf + trailing_zeros(np.uint64(reachable[row]))]
    return sums


@kernel
def average_values(values: Float32s) -> Float32s:
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
def _find_constant_rows(values: Float32s) -> Bools:
    """Whether all numbers of each row are one."""
    is_one = np.ones(values.shape[0], np.bool_)
    for row in range(values.shape[0]):
        for number in values[row]:
            if number != values[row, 0]:
                is_one[row] = False
                break
    return is_one


def sum_trees_plain(row: list[float], forest: Forest) -> float:
    """The twin of `sum_trees` for one row."""
    total = 0.0
    for (node, leaf), (end, _) in pairwise(forest.trees.tolist()):
        reachable = int(_ALL)
        for at in range(node, end):
            if not row[forest.columns[at]] <= forest.bounds[at]:
                reachable &= int(forest.masks[at])
        total += float(forest.leaves[leaf + (reachable & -reachable).bit_length() - 1])
    return total


MIN_REPEAT_CHARACTERS = 40  # characters from which on a block that was there before is left out
MAX_ERRAND_SIZE, ERRAND_COLUMNS = 60, ("characters", "stop", "opening", "element")
ARTICLE_POWER = 4  # power of the chance that a page is an article
MIN_WEIGHT = 0.01  # from which on the second forest is asked
MIN_CHANCE = 0.1  # of a block that is chosen, however little the page has


class MainText(NamedTuple):
    """The chosen blocks of a page, and the chance that they are its main text, nearly all of it and little else."""

    blocks: list[Block]
    whole: float


def choose_main_text(tree: Tree, address: str, metas: dict[str, str]) -> MainText:
    """The blocks of a page that are its main text, in their order."""
    if not tree.blocks:
        return MainText([], 0.0)
    rows = describe_blocks(tree, address, metas)
    chances = without_errands(judge_blocks(rows), rows)
    sizes = np.array([len(block.text) for block in tree.blocks])
    chosen, expected = choose_blocks(chances, sizes)
    row = describe_choice(chances, sizes, chosen, expected)
    return MainText(without_repeats(tree.blocks, chosen), float(compute_chances(read_forest("pages"), row)[0]))


def judge_blocks(rows: Float32s) -> Float64s:
    """The chance of each block of a page that it is main text. rows: as `describe_blocks` gives them"""
    forest = read_forest("blocks")
    odds = compute_odds(forest, rows)
    weight = weigh_articles(float(compute_chances(read_forest("kinds"), average_blocks(rows))[0]))
    if weight > 0:
        odds = odds + weight * (compute_odds(read_forest("articles"), rows) - odds)
    return to_chances(forest, odds)


def average_blocks(rows: Float32s) -> Float32s:
    """What the blocks of a page look like as one row: the mean of each column, of every character of text alike."""
    return average_values(np.ascontiguousarray(rows.T))[None]


def weigh_articles(chance: float) -> float:
    """How much the forest of articles and news counts, of 1, on a page that is one of these with that chance.

    >>> weigh_articles(1.0), weigh_articles(0.5), weigh_articles(0.2)
    (1.0, 0.0625, 0.0)
    """
    weight = chance**ARTICLE_POWER
    return weight if weight >= MIN_WEIGHT else 0.0


def without_errands(chances: Float64s, rows: Float32s) -> Float64s:
    """The chances, halved for short lines that open as apparatus does ("Advertisement", "Continue reading below").

    F1 of words does not feel these, so trees grown for it do not leave them out. rows: as `describe_blocks` gives them
    """
    characters, stop, opening, element = (rows[:, FEATURES.index(name)] for name in ERRAND_COLUMNS)
    is_heading = (element >= NUMBER["h1"]) & (element <= NUMBER["h6"])
    return np.where((opening > 0) & (characters < MAX_ERRAND_SIZE) & (stop == 0) & ~is_heading, chances / 2, chances)


def choose_blocks(chances: Float64s, sizes: Int64s) -> tuple[Bools, float]:
    """(which blocks make the expected F1 of a page's characters largest, that F1).

    >>> choose_blocks(np.array([0.9, 0.2, 0.8]), np.array([100, 100, 100]))[0].tolist()
    [True, False, True]
    """
    order = np.argsort(-chances, kind="stable")
    expected_hits = np.cumsum(chances[order] * sizes[order])
    expected = 2 * expected_hits / (np.cumsum(sizes[order]) + expected_hits[-1])
    best = int(np.argmax(expected))
    return chances >= max(chances[order[best]], MIN_CHANCE), float(expected[best])


CHOICE_COLUMNS = ("expected", "surely", "chosen share", "chosen", "blocks", "least", "unsure share", "text")


def describe_choice(chances: Float64s, sizes: Int64s, chosen: Bools, expected: float) -> Float32s:
    """What the choice of a page looks like: a row with `CHOICE_COLUMNS`."""
    total, size = int(sizes.sum()), int(sizes[chosen].sum())
    mean = float((chances * sizes)[chosen].sum()) / max(1, size)
    unsure = int(sizes[(chances > 0.2) & (chances < 0.8)].sum())
    least = float(chances[chosen].min()) if size else 0.0
    return np.array([[expected, mean, size / total, size, len(sizes), least, unsure / max(1, size), total]], np.float32)


def without_repeats(blocks: list[Block], chosen: Bools) -> list[Block]:
    kept: list[Block] = []
    earlier: set[str] = set()
    for block, is_chosen in zip(blocks, chosen.tolist(), strict=True):
        if is_chosen and block.text not in earlier:
            kept.append(block)
            if len(block.text) > MIN_REPEAT_CHARACTERS:
                earlier.add(block.text)
    return kept
