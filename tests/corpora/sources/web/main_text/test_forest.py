"""The forests that judge the blocks of pages: the kernel and its twin, their file, and the rows they are asked of."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.sources.web.facts import collect_metas
from corpora.sources.web.main_text.blocks import (
    CHOICE_COLUMNS,
    MAX_LOG_ODDS,
    STEPS_PER_UNIT,
    Forest,
    choose_blocks,
    compute_chances,
    compute_mean_row,
    compute_odds,
    read_forest,
    sum_trees_plain,
)
from corpora.sources.web.main_text.features import FEATURES, describe_blocks
from corpora.sources.web.tree import PageLimits, Tree, parse_html

COLUMNS = 5


def forest_of(nodes: list[tuple[int, float, int]], trees: list[tuple[int, int]], leaves: list[float]) -> Forest:
    columns, bounds, masks = zip(*(nodes or [(0, 0.0, 0)]), strict=True)
    return Forest(
        np.array(columns, np.int16), np.array(bounds, np.float32), np.array(masks, np.uint32),
        np.array(trees, np.int32), np.array(leaves), np.linspace(0, 1, 2 * MAX_LOG_ODDS * STEPS_PER_UNIT + 1),
    )  # fmt: skip


def grown(seed: int, num_trees: int) -> Forest:
    """A forest of random trees: each leaf is split by chance, to a depth of five."""
    source = np.random.default_rng(seed)
    nodes: list[tuple[int, float, int]] = []
    leaves: list[float] = []
    trees = [(0, 0)]

    def grow(depth: int) -> None:
        if depth == 5 or source.random() < 0.3:
            leaves.append(float(source.normal()))
            return
        at, first = len(nodes), len(leaves) - trees[-1][1]
        nodes.append((int(source.integers(COLUMNS)), float(source.integers(4)), 0))
        grow(depth + 1)
        at_left = sum(1 << leaf for leaf in range(first, len(leaves) - trees[-1][1]))
        nodes[at] = (*nodes[at][:2], 0xFFFFFFFF - at_left)
        grow(depth + 1)

    for _ in range(num_trees):
        grow(0)
        trees.append((len(nodes), len(leaves)))
    return forest_of(nodes, trees, leaves)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1 << 30), st.integers(1, 6), st.lists(st.lists(st.integers(-1, 5), min_size=5, max_size=5)))
def test_the_kernel_sums_as_its_twin(seed: int, trees: int, rows: list[list[int]]) -> None:
    forest = grown(seed, trees)
    values = np.array(rows, np.float32).reshape(len(rows), COLUMNS)
    assert compute_odds(forest, values).tolist() == [sum_trees_plain(row, forest) for row in values.tolist()]


def test_a_sum_becomes_a_chance() -> None:
    one = forest_of([(0, 0.0, 0b10)], [(0, 0), (1, 2)], [-50.0, 50.0])
    assert compute_chances(one, np.array([[0.0], [1.0]], np.float32)).tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("name", "columns"),
    [("pages", len(CHOICE_COLUMNS)), *((name, len(FEATURES)) for name in ("blocks", "articles", "kinds"))],
)
def test_the_shipped_forests_are_trees_of_the_columns_there_are(name: str, columns: int) -> None:
    forest = read_forest(name)
    assert 0 <= forest.columns.min() <= forest.columns.max() < columns
    assert forest.trees[-1].tolist() == [len(forest.columns), len(forest.leaves)]
    nodes, leaves = np.diff(forest.trees, axis=0).T
    assert (leaves == nodes + 1).all() and leaves.max() <= 32 and (forest.masks != 0xFFFFFFFF).all()
    assert (np.diff(forest.chances) >= 0).all() and 0 <= forest.chances[0] <= forest.chances[-1] <= 1
    assert not any(array.flags.writeable for array in forest)


def test_the_choice_has_the_best_expected_f1() -> None:
    """Fails if another number of the best blocks would do better, counted one by one."""
    source = np.random.default_rng(7)
    for _ in range(50):
        given_chances, sizes = source.random(9).round(2), source.integers(1, 400, 9)
        chosen, expected = choose_blocks(given_chances, sizes)
        order = np.argsort(-given_chances, kind="stable")
        wanted = (given_chances * sizes).sum()
        scores = [
            2 * (given_chances * sizes)[order[:count]].sum() / (sizes[order[:count]].sum() + wanted)
            for count in range(1, 10)
        ]
        assert expected == pytest.approx(max(scores)) and chosen.any()
        assert given_chances[chosen].min() >= given_chances[~chosen].max(initial=0)


def test_a_mean_row_is_of_all_characters_alike() -> None:
    """Fails if a block of few characters counts as much as a long one, or a sum loses its small parts."""
    rows = np.array([[1, 7.0, 0.1], [3, -1.0, 0.1], [96, 0.0, 0.1]], np.float32)
    assert compute_mean_row(rows).tolist() == [[np.float32((1 + 9 + 96**2) / 100), np.float32(0.04), np.float32(0.1)]]
    many = np.asfortranarray(np.tile(rows, (100_000, 1)))
    assert (
        np.allclose(compute_mean_row(many), compute_mean_row(rows), rtol=1e-7)
        and compute_mean_row(rows[:1]).tolist() == rows[:1].tolist()
    )


HOSTILE = {
    "no text": "", "one character": "x", "a name of half a character": "<p>\ud800 \U0001f600</p>",
    "wide": "<p>\u65b0\u805e\u306e\u8a18\u4e8b\u3002</p>" * 3, "deep": "<div>" * 1_500 + "text",
    "links alone": "<a href=/>a</a>" * 200, "broken data": "<script type='application/ld+json'>{\\</script><p>a</p>",
    "an address that is none": "<meta property='og:url' content='http://[x'><p>text</p>",
}  # fmt: skip


@pytest.mark.parametrize("html", HOSTILE.values(), ids=HOSTILE)
def test_rows_are_numbers_whatever_the_page(html: str) -> None:
    tree = parse_html(html, PageLimits())
    assert isinstance(tree, Tree)
    if tree.blocks:
        rows = describe_blocks(tree, "", collect_metas(tree))
        assert rows.shape == (len(tree.blocks), len(FEATURES)) and np.isfinite(rows).all()
