"""The forests of `corpora.sources.web.main_text.blocks`: grown on marked pages, and measured on pages of other domains.

    python -m benchmarks.fit_blocks --kinds pages.tar.xz --news FOLDER [--write]

--kinds takes pages as `benchmarks.pages` does, --news a folder with warc/*.warc.gz and gold/*.jsonl. Without --write
only figures are printed, cross-validated: word F1 by kind of page, F1 of shingles of four words by set of news, and how
far the chance that a text is whole is from what came out; then the rows of `benchmarks.pages` for the same pages, with
all installed extractors and their times ("Cloze" is the forests of the repository, which know the pages). With it the
forests are grown on all pages, and with the figures by domain take the place of those in the repository. It takes a
quarter of an hour on one core; the same pages and the same versions of numpy and LightGBM give the same file. Other
seeds give figures that are up to .003 away.

Two forests judge blocks: the mean of three that differ in their seed, of all kinds of pages, and one of articles and
news alone. A third judges by a page's mean row how likely it is an article or news, so how much the second counts.
All are cross-validated together.

A block is main text by the share of its words that are the expected text's, in an order common to both (the longest
common subsequence of words). Each page has the same weight, news twice as much, and in it every block by the 0.8th
power of its words and four. A fold holds whole domains, so no domain is on both sides. Of every fifth page the address
is withheld, since a page in a folder has none. What is grown sees other forms of pages too, of less weight: without any
attribute; the main text alone, as simple pages and mails have it; and a few blocks of it with a few of what is not.
"""

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from html import escape
from itertools import chain
from pathlib import Path
from statistics import mean
from typing import Any
from urllib.parse import urlsplit

import lightgbm
import numpy as np
from rapidfuzz.distance import LCSseq

from benchmarks.pages import Marked, load_kinds, load_marked, print_extractors, print_row, scores, word_f1
from corpora.errors import InputError
from corpora.kernels.arrays import Bools, Float32s, Float64s, Int64s
from corpora.sources.web.facts import collect_metas
from corpora.sources.web.main_text.blocks import (
    CHOICE_COLUMNS,
    FORESTS_FILE,
    MAX_LOG_ODDS,
    STEPS_PER_UNIT,
    choose_blocks,
    compute_mean_row,
    describe_choice,
    weigh_articles,
    without_errands,
    without_repeats,
)
from corpora.sources.web.main_text.features import FEATURES, describe_blocks
from corpora.sources.web.page import choose_title, without_headline
from corpora.sources.web.tree import Block, PageLimits, Refused, Tree, parse_html

BY_DOMAIN = Path(__file__).with_name("main_text_by_domain.tsv")
FOLDS = 5
SIMPLE = {"li": "li", "pre": "pre", "blockquote": "blockquote"} | {f"h{level}": f"h{level}" for level in range(1, 7)}
WORD = re.compile(r"\w+")
LENGTH_POWER = 0.8
LEAST_WORDS = 4.0  # that every block counts as more: else lines of one word would count for nothing
NEWS_WEIGHT = 2.0
NO_ADDRESS = 5  # of as many pages, one is described without its address
PLAINER = 6  # of as many pages, one is seen without attributes as well, and one as its main text alone
OTHER_WEIGHT = 0.3  # of another form
MOST_THIN = 8  # blocks in a row, of main text and of the rest, that a thin page has
ATTRIBUTES = re.compile(r"<([a-zA-Z][\w-]*)\s[^<>]*>")
LEAST_AGREED = 0.5  # word F1 of the blocks by their shares; a page with less is not grown on
WHOLE = 0.9  # the word F1 from which on a text counts as whole
NO_ROWS = np.zeros((0, len(FEATURES)), np.float32)
SEEDS, SEEDS_OF_ARTICLES = (1, 2, 3), (1,)  # of the trees of blocks: each is a forest, whose mean is taken
BLOCK_TREES, KIND_TREES, PAGE_TREES = 150, 120, 40
GROWN = {
    "objective": "cross_entropy", "learning_rate": 0.12, "num_leaves": 31, "min_data_in_leaf": 40,
    "min_sum_hessian_in_leaf": 0.01, "feature_fraction": 0.3, "bagging_fraction": 0.35, "bagging_freq": 1,
    "lambda_l2": 5.0, "max_bin": 63, "seed": 1, "deterministic": True, "force_col_wise": True, "verbose": -1,
}  # fmt: skip
GROWN_OF_PAGES = GROWN | {
    "learning_rate": 0.05, "num_leaves": 6, "min_data_in_leaf": 50, "feature_fraction": 0.8, "bagging_fraction": 0.8,
}  # fmt: skip
GROWN_OF_KINDS = GROWN | {
    "learning_rate": 0.08, "num_leaves": 12, "min_data_in_leaf": 20, "bagging_fraction": 0.7,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class FittingPage:
    """A marked page as numbers. shares: of each block's words that are the expected text's; fold: its domain's."""

    marked: Marked
    domain: str
    fold: int
    title: str | None
    blocks: list[Block]
    rows: Float32s
    shares: Float64s
    words: Int64s
    measured: bool = True  # False for another form of a page
    grown_on: bool = True


def shares_of(expected: str, texts: Sequence[str]) -> tuple[Float64s, Int64s]:
    """(the share of each text's words that the expected one has in the same order, its words).

    >>> shares_of("a b c", ["menu", "A b", "c d"])[0].tolist()
    [0.0, 1.0, 0.5]
    """
    words = [WORD.findall(text.lower()) for text in texts]
    owners = np.repeat(np.arange(len(texts)), [len(some) for some in words])
    every = [word for some in words for word in some]
    found = np.ones(len(every))
    for edit in LCSseq.editops(every, WORD.findall(expected.lower())):
        if edit.tag == "delete":
            found[edit.src_pos] = 0
    counts = np.bincount(owners, minlength=len(texts))
    return np.bincount(owners, found, len(texts)) / np.maximum(counts, 1), counts


def fitting_pages(marked: Sequence[Marked]) -> Iterator[FittingPage]:
    """The pages whose whole text is known, and other forms of some."""
    for page in marked:
        if page.text is None:
            continue
        number = int(sha256(page.html.encode("utf-8", "replace")).hexdigest(), 16)
        own = fitting_page(page, number, tree_of(page.html), with_address=number % NO_ADDRESS > 0)
        yield own
        if own.grown_on:
            yield thin_page(own, number)
        if number % PLAINER == 1:
            plain = ATTRIBUTES.sub(r"<\1>", page.html)
        elif number % PLAINER == 2:
            plain = main_text_alone(own)
        else:
            continue
        other = fitting_page(replace(page, html=plain), number, tree_of(plain), with_address=False)
        yield replace(other, measured=False, domain=own.domain, fold=own.fold)


def tree_of(html: str) -> Tree:
    """The table of a page; that of an empty one where it is refused."""
    tree = parse_html(html, PageLimits())
    return Tree() if isinstance(tree, Refused) else tree


def thin_page(page: FittingPage, number: int) -> FittingPage:
    """A page with a few blocks of the main text of another, one after the other, and as few of the rest."""
    source = np.random.default_rng(number % 2**32)
    kept = np.zeros(len(page.blocks), bool)
    for group in (np.flatnonzero(page.shares >= LEAST_AGREED), np.flatnonzero(page.shares < LEAST_AGREED)):
        if len(group):
            start = int(source.integers(len(group)))
            kept[group[start : start + int(source.integers(1, MOST_THIN + 1))]] = True
    before = np.concatenate(([0], np.cumsum(kept)))
    tree = tree_of(page.marked.html)
    tree.blocks = [block for block, is_kept in zip(tree.blocks, kept, strict=True) if is_kept]
    tree.spans = before[tree.spans]
    thin = fitting_page(page.marked, number, tree, with_address=number % NO_ADDRESS > 0)
    return replace(
        thin, shares=page.shares[kept], words=page.words[kept], grown_on=True, measured=False, domain=page.domain,
        fold=page.fold,
    )  # fmt: skip


def main_text_alone(page: FittingPage) -> str:
    """A page that has nothing but the main text of another."""
    pieces = [block for block, share in zip(page.blocks, page.shares, strict=True) if share >= LEAST_AGREED]
    tagged = [(SIMPLE.get(block.tag, "p"), escape(block.text)) for block in pieces]
    return f"<html><body>{''.join(f'<{tag}>{text}</{tag}>' for tag, text in tagged)}</body></html>"


def fitting_page(page: Marked, number: int, tree: Tree, *, with_address: bool) -> FittingPage:
    """A marked page as numbers, its address among them or not. number: its own."""
    metas = collect_metas(tree)
    domain = domain_of(page.url or metas.get("og:url", "")) or f"unknown {number % 10**6}"
    described = metas if with_address else metas | {"og:url": ""}
    texts = [block.text for block in tree.blocks]
    shares, words = shares_of(page.text or "", texts)
    rows = describe_blocks(tree, page.url if with_address else "", described) if texts else NO_ROWS
    best = "\n".join(text for text, share in zip(texts, shares, strict=True) if share >= LEAST_AGREED)
    return FittingPage(
        marked=page,
        domain=domain,
        fold=int(sha256(domain.encode()).hexdigest(), 16) % FOLDS,
        title=choose_title(tree, metas, page.url),
        blocks=tree.blocks,
        rows=rows,
        shares=shares,
        words=words,
        grown_on=bool(texts) and word_f1(page.text or "", best) >= LEAST_AGREED,
    )


def domain_of(address: str) -> str:
    """The domain that a host belongs to, by the number of its labels and their lengths.

    >>> domain_of("https://news.example.co.uk/a"), domain_of("https://a.b.example.org/")
    ('example.co.uk', 'example.org')
    """
    labels = (urlsplit(address).hostname or "").split(".")
    country = len(labels) > 2 and len(labels[-1]) == 2 and len(labels[-2]) <= 3
    return ".".join(labels[-3 if country else -2 :])


def grow(rows: Float32s, wanted: Float64s, weights: Float64s, settings: dict[str, Any], trees: int) -> lightgbm.Booster:
    """Trees that tell how likely what is wanted is."""
    return lightgbm.train(settings, lightgbm.Dataset(rows, wanted, weight=weights), trees)


def is_article(page: FittingPage) -> bool:
    """Whether a page is marked as an article, or is of news."""
    return not page.marked.by_words or page.marked.group == "article"


def grow_blocks(pages: Sequence[FittingPage], seeds: Sequence[int]) -> list[lightgbm.Booster]:
    """The trees of blocks, of each seed."""
    weights, pages = [], [page for page in pages if page.grown_on]
    for page in pages:
        sizes = (page.words + LEAST_WORDS) ** LENGTH_POWER
        of_page = (1.0 if page.marked.by_words else NEWS_WEIGHT) * (1.0 if page.measured else OTHER_WEIGHT)
        weights.append(sizes / sizes.sum() * 100 * of_page)
    rows, shares = (np.concatenate([getattr(page, key) for page in pages]) for key in ("rows", "shares"))
    return [grow(rows, shares, np.concatenate(weights), GROWN | {"seed": seed}, BLOCK_TREES) for seed in seeds]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forests:
    """What tells of blocks. kinds: how likely a page is an article or news."""

    blocks: list[lightgbm.Booster]
    articles: list[lightgbm.Booster]
    kinds: lightgbm.Booster

    @classmethod
    def grow(cls, pages: Sequence[FittingPage]) -> "Forests":
        """Grow them on pages."""
        pages = [page for page in pages if page.blocks]
        rows = np.concatenate([compute_mean_row(page.rows) for page in pages])
        wanted = np.array([is_article(page) for page in pages], float)
        weights = np.array([1.0 if page.measured else OTHER_WEIGHT for page in pages])
        return cls(
            blocks=grow_blocks(pages, SEEDS),
            articles=grow_blocks([page for page in pages if is_article(page)], SEEDS_OF_ARTICLES),
            kinds=grow(rows, wanted, weights, GROWN_OF_KINDS, KIND_TREES),
        )

    def chances(self, rows: Float32s) -> Float64s:
        """The chances of a page's blocks."""
        if not len(rows):
            return np.zeros(0)
        odds, of_articles = (
            np.mean([np.asarray(trees.predict(rows, raw_score=True)) for trees in forest], axis=0)
            for forest in (self.blocks, self.articles)
        )
        return np.asarray(1 / (1 + np.exp(-odds - self.weigh_articles(rows) * (of_articles - odds))))

    def weigh_articles(self, rows: Float32s) -> float:
        """How much the forest of articles and news counts on a page."""
        return weigh_articles(float(np.asarray(self.kinds.predict(compute_mean_row(rows)))[0]))

    def arrays(self) -> dict[str, np.ndarray]:
        """What the package reads of them."""
        of_blocks = arrays_of("blocks", *self.blocks) | arrays_of("articles", *self.articles)
        return of_blocks | arrays_of("kinds", self.kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What is read of a page by trees that saw no page of its domain. row: as `describe_choice` gives it."""

    page: FittingPage
    text: str
    f1: float
    row: Float32s


def read(page: FittingPage, of_blocks: Float64s) -> Reading:
    """The text of a page by the chances of its blocks."""
    if not page.blocks:
        row = np.zeros((1, len(CHOICE_COLUMNS)), np.float32)
        return Reading(page=page, text="", f1=word_f1(page.marked.text or "", ""), row=row)
    of_blocks, sizes = without_errands(of_blocks, page.rows), np.array([len(block.text) for block in page.blocks])
    chosen, expected = choose_blocks(of_blocks, sizes)
    blocks = without_headline(without_repeats(page.blocks, chosen), page.title)
    text = "\n\n".join(block.text for block in blocks)
    row = describe_choice(of_blocks, sizes, chosen, expected)
    return Reading(page=page, text=text, f1=word_f1(page.marked.text or "", text), row=row)


def cross_validate(pages: Sequence[FittingPage]) -> list[Reading]:
    """A reading of every page, a fold of domains after the other."""
    readings = []
    for fold in range(FOLDS):
        forests = Forests.grow([page for page in pages if page.fold != fold])
        held = [page for page in pages if page.fold == fold and page.measured]
        readings += [read(page, forests.chances(page.rows)) for page in held]
        print(f"fold {fold + 1} of {FOLDS}", flush=True)
    return readings


def grow_pages(readings: Sequence[Reading]) -> lightgbm.Booster:
    """The trees that tell how likely a page's text is whole."""
    rows = np.concatenate([reading.row for reading in readings])
    whole = np.array([reading.f1 >= WHOLE for reading in readings], float)
    return grow(rows, whole, np.ones(len(rows)), GROWN_OF_PAGES, PAGE_TREES)


def chances_of_whole(readings: Sequence[Reading]) -> Float64s:
    """The chance of each reading that it is whole, by trees that saw no page of its domain."""
    given = np.zeros(len(readings))
    for fold in range(FOLDS):
        held: Bools = np.array([reading.page.fold == fold for reading in readings])
        trees = grow_pages([reading for reading, out in zip(readings, held, strict=True) if not out])
        given[held] = trees.predict(np.concatenate([reading.row for reading in readings])[held])
    return given


def arrays_of(name: str, *grown: lightgbm.Booster) -> dict[str, np.ndarray]:
    """Trees as the arrays of a `Forest`, which says the mean of what each of those that were grown says."""
    nodes: list[tuple[int, float, int]] = []
    leaves: list[float] = []
    trees = [(0, 0)]

    def add(node: dict[str, Any]) -> None:
        if "leaf_value" in node:
            leaves.append(node["leaf_value"] / len(grown))
            return
        at, first = len(nodes), len(leaves) - trees[-1][1]
        bound = np.float32(node["threshold"])
        if bound > node["threshold"]:
            bound = np.nextafter(bound, np.float32(-np.inf))
        nodes.append((node["split_feature"], float(bound), 0))
        add(node["left_child"])
        at_left = (1 << len(leaves) - trees[-1][1]) - (1 << first)
        nodes[at] = (*nodes[at][:2], 0xFFFFFFFF & ~at_left)
        add(node["right_child"])

    for tree in chain.from_iterable(booster.dump_model()["tree_info"] for booster in grown):
        add(tree["tree_structure"])
        trees.append((len(nodes), len(leaves)))
    columns, bounds, masks = zip(*nodes, strict=True)
    steps = (np.arange(2 * MAX_LOG_ODDS * STEPS_PER_UNIT + 1) + 0.5) / STEPS_PER_UNIT - MAX_LOG_ODDS
    arrays: dict[str, np.ndarray[Any, np.dtype[Any]]] = {
        "columns": np.array(columns, np.int16), "bounds": np.array(bounds, np.float32),
        "masks": np.array(masks, np.uint32), "trees": np.array(trees, np.int32),
        "leaves": np.array(leaves, np.float64), "chances": np.round(1 / (1 + np.exp(-steps)), 6),
    }  # fmt: skip
    return {f"{name}.{field}": array for field, array in arrays.items()}


def print_figures(readings: Sequence[Reading]) -> None:
    """F1 by kind and by set, and how the chances of wholeness came out."""
    marked = [reading.page.marked for reading in readings]
    print_row("Cloze, cross-validated", scores(marked, [reading.text for reading in readings]))
    given, whole = chances_of_whole(readings), np.array([reading.f1 >= WHOLE for reading in readings])
    for least, most in ((0.0, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 1.01)):
        some = (given >= least) & (given < most)
        if some.any():
            print(f"whole: chance {given[some].mean():.3f}, in truth {whole[some].mean():.3f} of {some.sum()} pages")


def write_by_domain(readings: Sequence[Reading], path: Path) -> None:
    """A line for each domain and kind: pages and their mean word F1."""
    found: dict[tuple[str, str], list[float]] = {}
    for reading in readings:
        found.setdefault((reading.page.domain, reading.page.marked.group), []).append(reading.f1)
    lines = [f"{domain}\t{kind}\t{len(f1)}\t{mean(f1):.3f}\n" for (domain, kind), f1 in sorted(found.items())]
    path.write_text("domain\tkind\tpages\tword F1\n" + "".join(lines), "utf-8")


def read_marked(program: str, story: str | None) -> tuple[list[Marked], list[Marked], bool]:
    """Read the arguments of a program that grows forests; return pages of kinds, news, and whether to write.

    Ends with exit code 2 where the arguments are wrong.
    """
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{program}", description=(story or "").split("\n\n")[0])
    parser.add_argument("--kinds", type=Path, required=True, help="pages of kinds: a .tar.xz or a folder")
    parser.add_argument("--news", type=Path, required=True, help="a folder with warc/*.warc.gz and gold/*.jsonl")
    parser.add_argument(
        "--write", action="store_true", help="grow on all pages, and replace the forests of the package"
    )
    given = parser.parse_args()
    try:
        return load_kinds(given.kinds), load_marked(given.news), given.write
    except InputError as error:
        parser.error(str(error))


def main() -> None:
    """Print the figures, and with --write replace the forests."""
    kinds, news, write = read_marked("fit_blocks", __doc__)
    pages = list(fitting_pages([*kinds, *news]))
    measured, num_blocks = sum(page.measured for page in pages), sum(len(page.blocks) for page in pages)
    print(f"{measured} pages in {len(pages)} forms, {num_blocks} blocks, {len(FEATURES)} columns", flush=True)
    readings = cross_validate(pages)
    print_figures(readings)
    if write:
        forests = Forests.grow(pages).arrays() | arrays_of("pages", grow_pages(readings))
        np.savez_compressed(FORESTS_FILE, allow_pickle=False, **forests)
        write_by_domain(readings, BY_DOMAIN)
        print(f"{FORESTS_FILE.name}: {FORESTS_FILE.stat().st_size} bytes")
    else:
        print_extractors([reading.page.marked for reading in readings])


if __name__ == "__main__":
    main()
