"""The page of a run in which nothing was new: the head, and a link to the page that has the rest."""

import re
from dataclasses import replace

import pytest
from small_recipe import Run

from corpora.store.places.place import Place
from flows.recipes.lock import Lock
from flows.report.page import build_page
from flows.report.unchanged import run_with_the_parts
from flows.run.record.run_record import RunRecord, write_run

FIRST, SECOND, THIRD = (f"2026010{day}T000000000000-small" for day in (1, 2, 3))


@pytest.fixture
def reused(finished: Run) -> RunRecord:
    """The record of a run that found everything."""
    stages = tuple(replace(stage, state="reused", parts_built=0) for stage in finished.record.stages)
    return replace(finished.record, run_id=THIRD, stages=stages)


def test_a_page_without_parts_leads_to_one_that_has_them(finished: Run, reused: RunRecord) -> None:
    """Fails where the head lacks anything, holds a part, or a link of it leads elsewhere."""
    whole = build_page(finished.place, reused, "text", finished.lock)
    page = build_page(finished.place, reused, "text", finished.lock, parts_in="2026-a b#c")
    links = set(re.findall(r'href="([^"]+)"', page))
    assert {link.partition("report.html")[0] for link in links} == {"../2026-a%20b%23c/"}
    parts = {link.partition("#")[2] for link in links} - {""}
    assert parts and all(f'id="{part}"' in whole for part in parts)
    assert "<details" not in page and len(page) < 20_000 < len(whole)
    heads = [text[text.index("<header>") : text.index("By source")] for text in (page, whole)]
    assert "Nothing is unaccounted for" in heads[0] and heads[0].count("<tr>") == heads[1].count("<tr>")


def test_the_page_with_the_parts_is_that_of_the_run_that_has_them(
    finished: Run, reused: RunRecord, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Fails where a page leads to one that is not there, that has no parts itself, or that tells of something else."""
    place = Place(str(tmp_path_factory.mktemp("store")))
    assert run_with_the_parts(place, reused) == ""
    write_run(place, replace(reused, run_id=FIRST), Lock())
    assert run_with_the_parts(place, reused) == ""  # its page is gone
    write_run(place, replace(reused, run_id=FIRST), Lock(), "a whole page")
    assert run_with_the_parts(place, reused) == FIRST
    head = build_page(finished.place, reused, "text", parts_in=FIRST)
    write_run(place, replace(reused, run_id=SECOND), Lock(), head)
    assert run_with_the_parts(place, reused) == FIRST
    for other in (
        replace(reused, recipe_toml="other"),
        replace(reused, overrides={"privacy.samples": "none"}),
        replace(reused, inputs={"pages": {"files": 9}}),
        replace(reused, stages=reused.stages[:-1]),
        replace(reused, stages=(replace(reused.stages[0], state="built"), *reused.stages[1:])),
    ):
        assert run_with_the_parts(place, other) == ""
    place.delete(f"runs/{FIRST}/report.html")
    assert run_with_the_parts(place, reused) == ""
