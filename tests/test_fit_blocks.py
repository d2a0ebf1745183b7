"""The fit of the weights that find a page's main text, on pages made here."""

import doctest
from pathlib import Path

import numpy as np
import pytest

from benchmarks import fit_blocks
from benchmarks.pages import Marked
from corpora.sources.web.blocks import main_blocks

LINES = [
    "The bridge over the river was closed to all traffic in the night, and the council asked people to stay at home.",
    "Nobody was hurt, said the mayor, but the keeper of the lighthouse lost two boats and most of his nets.",
    "The rain will go on until Friday. Boats that cross to the island in the morning are expected to run as usual.",
]


def marked(number: int) -> Marked:
    said = [f"{line} Report {number}." for line in LINES]
    menu = "".join(f"<li><a href='/{name}'>{name}</a></li>" for name in ("Home", "Sport", f"Page {number}", "Weather"))
    body = "".join(f"<p>{line}</p>" for line in said)
    html = f"<html><title>News</title><body><ul class='menu'>{menu}</ul><div><h1>News</h1>{body}</div></body></html>"
    return Marked(group="aeb", html=html, url="", text="\n".join(said), present=(), absent=())


def test_labels_count_each_shingle_once() -> None:
    assert doctest.testmod(fit_blocks).failed == 0
    text = "one two three four five six"
    assert fit_blocks.labels_of(text, ["menu", text, text, "six"]).tolist() == [0, 1, 0, 0]


def test_a_fit_finds_the_text_of_its_pages() -> None:
    """Fails where a column is taken for another, or the shipped weights are not those that choose the blocks."""
    pages = fit_blocks.fitting_pages([marked(number) for number in range(6)])
    ships, again = fit_blocks.shipped(), fit_blocks.fit(pages)
    place = dict(zip(("bias", *fit_blocks.NAMES), range(len(ships)), strict=True))
    assert again[place["length"]] > 0 > again[place["linked"]] and again[place["headline"]] == 0
    scorer = fit_blocks.Scorer(pages)
    assert scorer.f1(again) == 1.0 > scorer.f1(np.zeros(len(ships)))
    moved = ships.copy()
    moved[0] -= 50
    assert scorer.f1(ships) > scorer.f1(moved)
    for page in pages:
        odds = (page.rest + ships[0] + page.values @ ships[1:]).tolist()
        assert fit_blocks.choose_blocks(page.tree, odds) == main_blocks(page.tree) != []


def test_without_marked_pages_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["fit_blocks", "--text", str(tmp_path)])
    with pytest.raises(SystemExit) as left:
        fit_blocks.main()
    assert str(left.value.code).startswith(f"{tmp_path} has no page with gold") and "\n" not in str(left.value.code)
