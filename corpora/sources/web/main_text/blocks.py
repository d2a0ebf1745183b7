"""Chooses the blocks of a page that are its main text, and says how likely it is that they are all of it.

Promises: a pure function of the page's table and address, the same on every machine. A forest (boosted decision trees)
that was grown on marked pages of eight kinds gives each block the chance that it is main text, by the numbers in
`features`, which include the kind of page. A second forest, grown only on articles and news, counts in proportion to
the chance that the page is one of these. That chance is judged by a third forest on the page's mean row: on such pages
the lessons of threads, shops and lists about unsure blocks are wrong. Chosen are the blocks with the best chances, as
many as maximize the expected F1 of their words: a page of prose keeps what is nearly sure, and a page of cards or rows,
on which nothing is, the best it has. A block that repeats an earlier one is left out. Costs: 1.6 to 2 ms for a page of
240,000 characters in 250 blocks; the forests take 0.5 ms of it.

The forests are arrays in a file next to the code. `sum_trees`, a kernel, returns for each row what `sum_trees_plain`
returns: the sum, in the order of the trees, of the value of the leaf that the row comes to in each. A row goes left if
its number is at most the node's bound. Only comparisons and sums are made, so the result is the same on every machine.
Costs: 0.35 ms for 250 rows and 450 trees of 31 leaves. A forest is read once a process, in 1 ms.

They are made by `python -m benchmarks.fit_blocks` from the marked pages that its docstring names, grown by LightGBM;
cross-validated figures are in docs/log.md.

Source: a block's odds by shallow features is the idea of Kohlschütter, Fankhauser and Nejdl, WSDM 2010; the choice that
maximizes an expected F1 that of Lewis, SIGIR 1995, and of Lipton, Elkan and Naryanaswamy, ECML 2014 (theorem 1);
Friedman, Greedy Function Approximation, 2001; how the kernel goes through the trees: QuickScorer (Lucchese et al.,
SIGIR 2015).
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
    """An ensemble of decision trees, stored as arrays.

    The first three arrays have one entry per node, in depth-first order with the left child first. Leaves are in the
    same order. A tree has at most 32 leaves.

    Attributes:
        columns: The column of the input row that the node compares with its threshold.
        bounds: The node's threshold. Rows with a value up to this number go left.
        masks: Bit mask of the leaves that a row can still reach after it goes right. The lowest bit is the tree's
            first leaf.
        trees: int32 array [trees + 1, 2]: the first node and the first leaf of each tree, followed by the total numbers
            of nodes and leaves.
        leaves: The values of the leaves.
        chances: A table that converts sums from -10 to 10, in steps of 1/16, to probabilities.
    """

    columns: Int16s
    bounds: Float32s
    masks: UInt32s
    trees: Int32s
    leaves: Float64s
    chances: Float64s


@cache
def read_forest(name: str, file: Path = FORESTS_FILE) -> Forest:
    """Read a forest from a file. The result is cached in the process.

    Args:
        name: Name of the forest; "blocks", "articles", "kinds" or "pages" for `FORESTS_FILE`.
        file: A file written by `benchmarks.fit_blocks`.
    """
    with np.load(file, allow_pickle=False) as arrays:
        forest = Forest(*(arrays[f"{name}.{field}"] for field in Forest._fields))
    for array in forest:
        array.flags.writeable = False
    return forest


def compute_odds(forest: Forest, rows: Float32s) -> Float64s:
    """Apply a forest (boosted decision trees) to rows of features, and return the log odds of each row.

    What they are the odds of depends on the forest, e.g. that a block is main text.

    Args:
        forest: As returned by `read_forest`.
        rows: float32 array [rows, columns].

    Returns:
        float64 array [rows].
    """
    return sum_trees(np.ascontiguousarray(rows.T), *forest[:-1])


def to_chances(forest: Forest, odds: Float64s) -> Float64s:
    """Convert log odds to probabilities from 0 to 1, using the forest's calibration table.

    Odds outside -10 to 10 are clipped.
    """
    steps = np.floor((np.clip(odds, -MAX_LOG_ODDS, MAX_LOG_ODDS) + MAX_LOG_ODDS) * STEPS_PER_UNIT).astype(np.int64)
    return forest.chances[steps]


def compute_chances(forest: Forest, rows: Float32s) -> Float64s:
    """Apply a forest (boosted decision trees) to rows of features, and return the probability for each row.

    Args:
        forest: As returned by `read_forest`.
        rows: float32 array [rows, columns].

    Returns:
        float64 array [rows] of probabilities from 0 to 1.
    """
    return to_chances(forest, compute_odds(forest, rows))


@kernel
def sum_trees(
    values: Float32s, columns: Int16s, bounds: Float32s, masks: UInt32s, trees: Int32s, leaves: Float64s
) -> Float64s:
    """Return the sum of the leaf values that each row reaches in the trees of a forest, float64 [rows].

    Nodes are evaluated four at a time, for all rows. Each row has a bit mask of the leaves it can still reach. If the
    row goes right at a node, its mask is combined with the node's mask. In the end the row reaches the leaf of the
    lowest remaining bit. A column with the same value in all rows is compared once, and nodes are skipped if no row can
    reach their leaves.

    Args:
        values: float32 array [columns, rows].
        columns, bounds, masks, trees, leaves: The arrays of a `Forest`.
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
def compute_means(values: Float32s) -> Float32s:
    """Return the weighted mean of each row of a float32 array; the values of its first row are the weights."""
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
    """Return a bool array that is True for each row in which all values are equal."""
    is_one = np.ones(values.shape[0], np.bool_)
    for row in range(values.shape[0]):
        for number in values[row]:
            if number != values[row, 0]:
                is_one[row] = False
                break
    return is_one


def sum_trees_plain(row: list[float], forest: Forest) -> float:
    """Return the sum of the leaf values that one row of features reaches in the trees of a forest.

    It is the reference implementation of `sum_trees`, for tests.
    """
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
    """The main text of a page.

    Attributes:
        blocks: The chosen blocks, in document order.
        whole: The probability that the blocks are nearly all of the main text and contain little else.
    """

    blocks: list[Block]
    whole: float


def choose_main_text(tree: Tree, address: str, metas: dict[str, str]) -> MainText:
    """Choose the blocks that form the main text of a page, and estimate whether they are all of it.

    Args:
        tree: The page.
        address: URL of the page; "" if unknown.
        metas: Contents of the `<meta>` tags by name, as returned by `collect_metas`.

    Returns:
        The blocks and the estimate. For a page without text there are no blocks, and the estimate is 0.
    """
    if not tree.blocks:
        return MainText([], 0.0)
    rows = describe_blocks(tree, address, metas)
    chances = without_errands(judge_blocks(rows), rows)
    sizes = np.array([len(block.text) for block in tree.blocks])
    chosen, expected = choose_blocks(chances, sizes)
    row = describe_choice(chances, sizes, chosen, expected)
    return MainText(without_repeats(tree.blocks, chosen), float(compute_chances(read_forest("pages"), row)[0]))


def judge_blocks(rows: Float32s) -> Float64s:
    """Return each block's probability of being main text, float64 [blocks].

    Args:
        rows: The features of all blocks of a page, as returned by `describe_blocks`.
    """
    forest = read_forest("blocks")
    odds = compute_odds(forest, rows)
    weight = weigh_articles(float(compute_chances(read_forest("kinds"), compute_mean_row(rows))[0]))
    if weight > 0:
        odds = odds + weight * (compute_odds(read_forest("articles"), rows) - odds)
    return to_chances(forest, odds)


def compute_mean_row(rows: Float32s) -> Float32s:
    """Return the mean of all feature rows as a single row, float32 [1, columns].

    Each row is weighted by the length of its block's text.
    """
    return compute_means(np.ascontiguousarray(rows.T))[None]


def weigh_articles(chance: float) -> float:
    """Return the weight, from 0 to 1, given to the forest (decision trees) for articles and news.

    Args:
        chance: The probability that the page is an article or news.

    >>> weigh_articles(1.0), weigh_articles(0.5), weigh_articles(0.2)
    (1.0, 0.0625, 0.0)
    """
    weight = chance**ARTICLE_POWER
    return weight if weight >= MIN_WEIGHT else 0.0


def without_errands(chances: Float64s, rows: Float32s) -> Float64s:
    """Return the blocks' probabilities, halved for short lines that begin like page furniture.

    An example is "Continue reading below". Trees trained for word F1 do not exclude these lines, because F1 hardly
    depends on them.

    Args:
        chances: Each block's probability of being main text.
        rows: The blocks' features, as returned by `describe_blocks`.
    """
    characters, stop, opening, element = (rows[:, FEATURES.index(name)] for name in ERRAND_COLUMNS)
    is_heading = (element >= NUMBER["h1"]) & (element <= NUMBER["h6"])
    return np.where((opening > 0) & (characters < MAX_ERRAND_SIZE) & (stop == 0) & ~is_heading, chances / 2, chances)


def choose_blocks(chances: Float64s, sizes: Int64s) -> tuple[Bools, float]:
    """Choose the blocks that maximize the expected character F1 of a page.

    Args:
        chances: Each block's probability of being main text.
        sizes: The number of characters of each block. There is at least one block.

    Returns:
        A bool array that is True for the chosen blocks, and the expected F1.

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
    """Compute the features from which a forest judges whether the chosen blocks are the whole main text.

    Args:
        chances: Each block's probability of being main text.
        sizes: The number of characters of each block.
        chosen: True for each chosen block.
        expected: The expected F1 of the choice.

    Returns:
        A float32 array [1, columns] with the columns `CHOICE_COLUMNS`.
    """
    total, size = int(sizes.sum()), int(sizes[chosen].sum())
    mean = float((chances * sizes)[chosen].sum()) / max(1, size)
    unsure = int(sizes[(chances > 0.2) & (chances < 0.8)].sum())
    least = float(chances[chosen].min()) if size else 0.0
    return np.array([[expected, mean, size / total, size, len(sizes), least, unsure / max(1, size), total]], np.float32)


def without_repeats(blocks: list[Block], chosen: Bools) -> list[Block]:
    """Return the chosen blocks without those that repeat an earlier block of more than 40 characters."""
    kept: list[Block] = []
    earlier: set[str] = set()
    for block, is_chosen in zip(blocks, chosen.tolist(), strict=True):
        if is_chosen and block.text not in earlier:
            kept.append(block)
            if len(block.text) > MIN_REPEAT_CHARACTERS:
                earlier.add(block.text)
    return kept
