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
"""

from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Bools, Float32s, Float64s, Int64s
from corpora.sources.web.main_text.features import FEATURES, NUMBER, describe
from corpora.sources.web.main_text.forest import as_chances, average, chances, read_forest, sum_odds
from corpora.sources.web.tree import Block, Tree

REPEATED = 40  # characters from which on a block that was there before is left out
ERRAND, ERRAND_COLUMNS = 60, ("characters", "stop", "opening", "element")
SURER = 4  # power of the chance that a page is an article
LEAST_WEIGHT = 0.01  # from which on the second forest is asked
LEAST_CHANCE = 0.1  # of a block that is chosen, however little the page has


class MainText(NamedTuple):
    """The chosen blocks of a page, and the chance that they are its main text, nearly all of it and little else."""

    blocks: list[Block]
    whole: float


def main_text(tree: Tree, address: str, metas: dict[str, str]) -> MainText:
    """The blocks of a page that are its main text, in their order."""
    if not tree.blocks:
        return MainText([], 0.0)
    rows = describe(tree, address, metas)
    of_blocks = without_errands(judge_blocks(rows), rows)
    sizes = np.array([len(block.text) for block in tree.blocks])
    chosen, expected = choose(of_blocks, sizes)
    row = page_row(of_blocks, sizes, chosen, expected)
    return MainText(without_repeats(tree.blocks, chosen), float(chances(read_forest("pages"), row)[0]))


def judge_blocks(rows: Float32s) -> Float64s:
    """The chance of each block of a page that it is main text. rows: as `describe` gives them"""
    forest = read_forest("blocks")
    odds = sum_odds(forest, rows)
    weight = weigh_articles(float(chances(read_forest("kinds"), average_rows(rows))[0]))
    if weight > 0:
        odds = odds + weight * (sum_odds(read_forest("articles"), rows) - odds)
    return as_chances(forest, odds)


def average_rows(rows: Float32s) -> Float32s:
    """What the blocks of a page look like as one row: the mean of each column, of every character of text alike."""
    return average(np.ascontiguousarray(rows.T))[None]


def weigh_articles(like_an_article: float) -> float:
    """How much the forest of articles and news counts, of 1, on a page that is one of these with that chance.

    >>> weigh_articles(1.0), weigh_articles(0.5), weigh_articles(0.2)
    (1.0, 0.0625, 0.0)
    """
    weight = like_an_article**SURER
    return weight if weight >= LEAST_WEIGHT else 0.0


def without_errands(of_blocks: Float64s, rows: Float32s) -> Float64s:
    """The chances, halved for short lines that open as apparatus does ("Advertisement", "Continue reading below").

    F1 of words does not feel these, so trees grown for it do not leave them out. rows: as `describe` gives them
    """
    characters, stop, opening, element = (rows[:, FEATURES.index(name)] for name in ERRAND_COLUMNS)
    is_heading = (element >= NUMBER["h1"]) & (element <= NUMBER["h6"])
    return np.where((opening > 0) & (characters < ERRAND) & (stop == 0) & ~is_heading, of_blocks / 2, of_blocks)


def choose(of_blocks: Float64s, sizes: Int64s) -> tuple[Bools, float]:
    """(which blocks make the expected F1 of a page's characters largest, that F1).

    >>> choose(np.array([0.9, 0.2, 0.8]), np.array([100, 100, 100]))[0].tolist()
    [True, False, True]
    """
    order = np.argsort(-of_blocks, kind="stable")
    gained = np.cumsum(of_blocks[order] * sizes[order])
    expected = 2 * gained / (np.cumsum(sizes[order]) + gained[-1])
    best = int(np.argmax(expected))
    return of_blocks >= max(of_blocks[order[best]], LEAST_CHANCE), float(expected[best])


PAGE_COLUMNS = ("expected", "surely", "chosen share", "chosen", "blocks", "least", "unsure share", "text")


def page_row(of_blocks: Float64s, sizes: Int64s, chosen: Bools, expected: float) -> Float32s:
    """What the choice of a page looks like: a row with `PAGE_COLUMNS`."""
    total, held = int(sizes.sum()), int(sizes[chosen].sum())
    sure = float((of_blocks * sizes)[chosen].sum()) / max(1, held)
    unsure = int(sizes[(of_blocks > 0.2) & (of_blocks < 0.8)].sum())
    least = float(of_blocks[chosen].min()) if held else 0.0
    return np.array([[expected, sure, held / total, held, len(sizes), least, unsure / max(1, held), total]], np.float32)


def without_repeats(blocks: list[Block], chosen: Bools) -> list[Block]:
    kept: list[Block] = []
    earlier: set[str] = set()
    for block, is_chosen in zip(blocks, chosen.tolist(), strict=True):
        if is_chosen and block.text not in earlier:
            kept.append(block)
            if len(block.text) > REPEATED:
                earlier.add(block.text)
    return kept
