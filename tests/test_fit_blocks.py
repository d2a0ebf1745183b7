"""The fit of the forests that find a page's main text, on pages made here."""

import doctest
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.pages import Marked
from corpora.sources.web.main_text import blocks
from corpora.sources.web.main_text.blocks import Forest, compute_chances, compute_odds, read_forest
from corpora.sources.web.main_text.features import FEATURES


@pytest.fixture(scope="module")
def fit_blocks() -> Any:
    """The module, imported when a test asks for it: LightGBM takes a second."""
    return import_module("benchmarks.fit_blocks")


LINES = [
    "The bridge over the river was closed to all traffic in the night, and the council asked people to stay at home.",
    "Nobody was hurt, said the mayor, but the keeper of the lighthouse lost two boats and most of his nets.",
    "The rain will go on until Friday. Boats that cross to the island in the morning are expected to run as usual.",
]


def marked(number: int) -> Marked:
    lines = [f"{line} Report {number}." for line in LINES]
    menu = "".join(f"<li><a href='/{name}'>{name}</a></li>" for name in ("Home", "Sport", f"Page {number}", "Weather"))
    body = "".join(f"<p>{line}</p>" for line in lines)
    html = f"<html><title>News</title><body><ul class='menu'>{menu}</ul><div><h1>News</h1>{body}</div></body></html>"
    url = f"https://www.site{number}.example/"
    return Marked(group="article", html=html, url=url, text="\n".join(lines), present=(), absent=(), by_words=True)


def test_shares_are_of_words_in_a_common_order(fit_blocks: Any) -> None:
    assert doctest.testmod(fit_blocks).failed == 0
    text = "one two three four five six"
    shares, words = fit_blocks.shares_of(text, ["menu", text, text, "six"])
    assert (shares @ words, shares[0], words.tolist()) == (6, 0, [1, 6, 6, 1])  # each word once


def test_a_fit_finds_the_text_of_pages_of_other_domains(fit_blocks: Any) -> None:
    """Fails if a column is taken for another, a fold sees its own domain, or a page's forms are measured."""
    pages = list(fit_blocks.fitting_pages([marked(number) for number in range(60)]))
    assert sum(page.measured for page in pages) == 60 < len(pages)
    assert {page.domain: page.fold for page in pages} == {page.domain: page.fold for page in pages if page.measured}
    assert all(page.rows.shape == (len(page.blocks), len(FEATURES)) for page in pages)
    readings = fit_blocks.cross_validate(pages)
    assert len(readings) == 60 and all(reading.f1 == 1.0 for reading in readings)


def test_trees_are_kept_as_they_were_grown(fit_blocks: Any) -> None:
    """Fails if a bound is rounded to the wrong side, or a child is taken for the other."""
    source = np.random.default_rng(3)
    rows = source.random((2_000, 4)).astype(np.float32).round(3)
    wanted = (rows[:, 0] > rows[:, 1]).astype(float)
    trees = fit_blocks.grow(rows, wanted, np.ones(2_000), fit_blocks.GROWN, 12)
    other = fit_blocks.grow(rows, wanted, np.ones(2_000), fit_blocks.GROWN | {"seed": 2}, 12)
    assert np.ptp(trees.predict(rows) - other.predict(rows)) > 0
    arrays = fit_blocks.arrays_of("some", trees, other)
    forest = Forest(*(arrays[f"some.{field}"] for field in Forest._fields))
    odds = (trees.predict(rows, raw_score=True) + other.predict(rows, raw_score=True)) / 2
    assert np.allclose(compute_odds(forest, rows), odds, atol=1e-12)
    assert np.abs(compute_chances(forest, rows) - 1 / (1 + np.exp(-odds))).max() < 0.01


def thread(number: int) -> Marked:
    """A page of another kind, with the same lines in posts."""
    page = marked(number)
    html = page.html.replace("<p>", "<div class='post'><b>Ann</b><p>").replace("</p>", "</p></div>")
    return replace(page, html=html, group="forum")


def test_a_page_is_read_as_it_is_cross_validated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fit_blocks: Any
) -> None:
    """Fails if the reader joins the forests otherwise than the fit, whose figures are quoted."""
    pages = list(fit_blocks.fitting_pages([(marked if number % 2 else thread)(number) for number in range(120)]))
    grown = fit_blocks.Forests.grow(pages)
    np.savez(tmp_path / "forests.npz", allow_pickle=False, **grown.arrays())
    monkeypatch.setattr(blocks, "read_forest", partial(read_forest, file=tmp_path / "forests.npz"))
    says = []
    for page in pages:
        assert np.abs(blocks.judge_blocks(page.rows) - grown.chances(page.rows)).max() < 0.01
        says.append(grown.weigh_articles(page.rows))
    assert min(says) == 0 and 0.5 < max(says) < 1


def test_figures_by_domain_are_written(tmp_path: Path, fit_blocks: Any) -> None:
    pages = [page for page in fit_blocks.fitting_pages([marked(1), marked(2)]) if page.measured]
    readings = [fit_blocks.read(page, np.ones(len(page.blocks))) for page in pages]
    fit_blocks.write_by_domain(readings, tmp_path / "by_domain.tsv")
    lines = (tmp_path / "by_domain.tsv").read_text().splitlines()
    assert lines[0].startswith("domain\t") and [line.split("\t")[:3] for line in lines[1:]] == [
        ["site1.example", "article", "1"],
        ["site2.example", "article", "1"],
    ]


def test_without_marked_pages_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fit_blocks: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["fit_blocks", "--kinds", str(tmp_path), "--news", str(tmp_path)])
    with pytest.raises(SystemExit, match="2"):
        fit_blocks.main()
    assert (
        capsys.readouterr()
        .err.splitlines()[-1]
        .startswith(f"python -m benchmarks.fit_blocks: error: {tmp_path} has no")
    )
