"""The forest of `corpora.sources.web.page`: grown on pages whose titles people noted, measured on other domains.

    python -m benchmarks.fit_titles --kinds pages.tar.xz --news FOLDER [--write]

Takes pages as `benchmarks.fit_blocks` does. Prints by kind of page and set of news how many titles are equal to what
was noted but for case and spaces, by trees that saw no page of its domain, and on how many pages a candidate is equal.
With --write the forest is grown on all pages, and takes the place of that in the repository. It takes two minutes; the
same pages and the same versions of numpy and LightGBM give the same file.

The trees are grown to put the candidate that was noted before the others of its page (LambdaMART). Pages where none
was noted are not grown on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

import lightgbm
import numpy as np

from benchmarks.fit_blocks import FOLDS, arrays_of, domain_of, read_marked, tree_of
from benchmarks.pages import Marked, as_told
from corpora.kernels.arrays import Bools, Float32s
from corpora.sources.web.facts import collect_metas
from corpora.sources.web.page import TITLE_FOREST_FILE, collect_title_sources, describe_titles, list_candidates

TREES = 120
GROWN = {
    "objective": "lambdarank", "learning_rate": 0.08, "num_leaves": 8, "min_data_in_leaf": 8, "lambda_l2": 5.0,
    "feature_fraction": 0.3, "bagging_fraction": 0.7, "bagging_freq": 1, "max_bin": 63, "seed": 1,
    "deterministic": True, "force_row_wise": True, "verbose": -1,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TitledPage:
    """A page's candidates as numbers. equal: which are what was noted."""

    group: str
    fold: int
    rows: Float32s
    equal: Bools


def titled_page(page: Marked) -> TitledPage:
    """The candidates of a page with a title that people noted."""
    tree = tree_of(page.html)
    metas = collect_metas(tree)
    given = collect_title_sources(tree, metas, page.url)
    found = list_candidates(given)
    domain = domain_of(page.url or metas.get("og:url", "")) or page.html
    return TitledPage(
        group=page.group,
        fold=int(sha256(domain.encode("utf-8", "replace")).hexdigest(), 16) % FOLDS,
        rows=describe_titles(given, found),
        equal=np.array([as_told(text) == as_told(page.title or "") for text in found], bool),
    )


def grow_titles(pages: Sequence[TitledPage]) -> lightgbm.Booster:
    """Trees that put what was noted first."""
    pages = [page for page in pages if page.equal.any() and not page.equal.all()]
    rows, equal = (np.concatenate([getattr(page, key) for page in pages]) for key in ("rows", "equal"))
    return lightgbm.train(GROWN, lightgbm.Dataset(rows, equal, group=[len(page.equal) for page in pages]), TREES)


def chosen(trees: lightgbm.Booster, page: TitledPage) -> bool:
    """Return True if what the trees put first is what was noted."""
    return bool(len(page.equal) and page.equal[np.argmax(trees.predict(page.rows))])


def figures(pages: Sequence[TitledPage]) -> dict[str, list[tuple[bool, bool]]]:
    """By group, of each page: is the noted title chosen, is it among the candidates."""
    shown: dict[str, list[tuple[bool, bool]]] = {}
    for fold in range(FOLDS):
        trees = grow_titles([page for page in pages if page.fold != fold])
        for page in (page for page in pages if page.fold == fold):
            shown.setdefault(page.group, []).append((chosen(trees, page), bool(page.equal.any())))
    return shown


def main() -> None:
    """Print the figures, and with --write replace the forest."""
    kinds, news, write = read_marked("fit_titles", __doc__)
    by_set = {
        name: [titled_page(page) for page in marked if page.title]
        for name, marked in (("kinds", kinds), ("news", news))
    }
    every = [page for pages in by_set.values() for page in pages]
    shown = figures(every)
    for name, pages in by_set.items():
        shown[name] = [hit for group in sorted({page.group for page in pages}) for hit in shown[group]]
        for group in (*sorted({page.group for page in pages}), name):
            equal, oracle = np.mean(shown[group], axis=0)
            print(f"{group:15} {len(shown[group]):5} pages  equal {equal:.4f}  a candidate is equal {oracle:.4f}")
    if write:
        np.savez_compressed(TITLE_FOREST_FILE, allow_pickle=False, **arrays_of("titles", grow_titles(every)))
        print(f"{TITLE_FOREST_FILE.name}: {TITLE_FOREST_FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
