"""The weights of `corpora.sources.web.blocks`: fitted again on marked pages, and measured against their neighbours.

    python -m benchmarks.fit_blocks --text FOLDER    as for benchmarks.pages; ../shared/data/cc-news by default

A logistic regression with a ridge penalty, of the pages of the sets aeb, newspaper and readability. Every page has the
same weight, and in it every block by the 0.8th power of its length. A block is main text where the expected text holds
at least half of its shingles that no block before it took. The shipped weights were fitted by a rule that was not
kept, and some changed by hand after it, so this fit comes near them and does not reproduce them.

For each weight: as it ships, as it is fitted here, and by how much F1 over the fitted sets changes, in thousandths,
where it alone is smaller or larger by a quarter. A weight is at its place where both say zero or less.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.pages import FITTED, Counts, Marked, agreement, load_marked, precision_recall, shingles
from corpora.errors import InputError
from corpora.kernels.arrays import Float64s
from corpora.sources.web.blocks import BIAS, FEATURES, MARK_WEIGHTS, block_odds, choose_blocks, describe
from corpora.sources.web.marks import BIT, MARKS
from corpora.sources.web.tree import PageLimits, Refused, Tree, parse_page

PAGES = Path("../shared/data/cc-news")
NOT_FITTED = ("short opening", "headline", "short cell", "in table", "cell")
NAMES = (*FEATURES, *MARKS)
LENGTH_POWER = 0.8
LEAST_SHARE = 0.5  # of a block's shingles, from which on it is main text
RIDGE = 0.01
STEP = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class FittingPage:
    """A marked page as numbers: a row of values for each block. rest: the part of its odds that no weight gives."""

    group: str
    expected: str
    tree: Tree
    values: Float64s
    labels: Float64s
    weights: Float64s
    rest: Float64s


def shipped() -> Float64s:
    """Return the bias and the weights as they ship, in the order of `NAMES`."""
    return np.array([BIAS, *FEATURES.values(), *(MARK_WEIGHTS[name] for name in MARKS)])


def labels_of(expected: str, texts: Sequence[str]) -> Float64s:
    """Return 1.0 for each text where the expected one holds enough of its shingles, each of which counts once.

    >>> labels_of("a b c d e", ["a b c d e", "f g h", "a b c d e"])
    array([1., 0., 0.])
    """
    left, labels = Counter(shingles(expected)), []
    for text in texts:
        own = shingles(text)
        common = own & left
        left -= common
        labels.append(float(common.total() >= LEAST_SHARE * max(1, own.total())))
    return np.array(labels)


def fitting_pages(marked: Sequence[Marked]) -> list[FittingPage]:
    """Return the pages whose whole text is known and that can be read."""
    fitting = []
    for page in marked:
        tree = parse_page(page.html, PageLimits())
        if page.text is None or isinstance(tree, Refused) or not tree.blocks:
            continue
        rows, marks = describe(tree)
        bits = [[float(bool(mark & BIT[name])) for name in MARKS] for mark in marks]
        values = np.hstack([np.array(rows), np.array(bits)])
        lengths = np.array([len(block.text) for block in tree.blocks]) ** LENGTH_POWER
        fitting.append(
            FittingPage(
                group=page.group,
                expected=page.text,
                tree=tree,
                values=values,
                labels=labels_of(page.text, [block.text for block in tree.blocks]),
                weights=lengths / lengths.sum(),
                rest=np.array(block_odds(tree)) - BIAS - values @ shipped()[1:],
            )
        )
    return fitting


def fit(pages: Sequence[FittingPage], ridge: float = RIDGE) -> Float64s:
    """Return the bias and the weights of a logistic regression, by Newton's method; 0 for those that are not fitted."""
    values = np.concatenate([page.values for page in pages])
    labels, weights = (np.concatenate([getattr(page, key) for page in pages]) for key in ("labels", "weights"))
    used = np.array([True, *(name not in NOT_FITTED for name in NAMES)])
    columns = np.hstack([np.ones((len(values), 1)), values])[:, used]
    penalty = np.array([0.0] + [ridge] * (columns.shape[1] - 1))
    solution = np.zeros(columns.shape[1])
    for _ in range(100):
        chance = 1 / (1 + np.exp(-np.clip(columns @ solution, -30, 30)))
        slope = columns.T @ (weights * (labels - chance)) - penalty * solution
        bend = (columns * (weights * chance * (1 - chance))[:, None]).T @ columns + np.diag(penalty + 1e-9)
        step = np.linalg.solve(bend, slope)
        solution += step
        if abs(step).max() < 1e-9:
            break
    every = np.zeros(len(used))
    every[used] = solution
    return every


class Scorer:
    """F1 of weights over pages; results for a choice of blocks are remembered."""

    def __init__(self, pages: Sequence[FittingPage]) -> None:
        self.pages = pages
        self._known: dict[tuple[int, str], Counts] = {}

    def f1(self, weights: Float64s) -> float:
        """Return F1 as `benchmarks.pages` measures it."""
        return precision_recall([self._counts(number, weights) for number in range(len(self.pages))])[0]

    def _counts(self, number: int, weights: Float64s) -> Counts:
        page = self.pages[number]
        odds = page.rest + weights[0] + page.values @ weights[1:]
        text = "\n\n".join(block.text for block in choose_blocks(page.tree, odds.tolist()))
        key = (number, text)
        if key not in self._known:
            self._known[key] = agreement(page.expected, text)
        return self._known[key]


def neighbours(scorer: Scorer, weights: Float64s, at: int) -> tuple[float, float]:
    """Return the change of F1, in thousandths, where one weight is smaller and where it is larger."""
    changes = []
    for step in (-STEP, STEP):
        moved = weights.copy()
        moved[at] += step
        changes.append(1000 * (scorer.f1(moved) - scorer.f1(weights)))
    return changes[0], changes[1]


def main() -> None:
    """Print a line for each weight, and F1 of all of them."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fit_blocks", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--text", type=Path, default=PAGES, help="a folder with warc/*.warc.gz and gold/*.jsonl")
    try:
        pages = fitting_pages(load_marked(parser.parse_args().text))
    except InputError as error:
        raise SystemExit(str(error)) from error
    fitted = [page for page in pages if page.group in FITTED]
    unseen = [page for page in pages if page.group not in FITTED]
    ships, again = shipped(), fit(fitted)
    scorer = Scorer(fitted)
    print(f"{'weight':18} {'ships':>6} {'fitted':>7} {'less':>6} {'more':>6}")
    for at, name in enumerate(("bias", *NAMES)):
        less, more = neighbours(scorer, ships, at)
        here = "" if name in NOT_FITTED else f"{again[at]:.2f}"
        print(f"{name:18} {ships[at]:6.2f} {here:>7} {less:6.2f} {more:6.2f}", flush=True)
    for name, weights in (("ships", ships), ("fitted", again)):
        scores = [f"{len(some)} pages {Scorer(some).f1(weights):.4f}" for some in (fitted, unseen) if some]
        print(f"F1 as it {name}: fitted on " + ", unseen ".join(scores))


if __name__ == "__main__":
    main()
