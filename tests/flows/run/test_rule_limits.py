"""A rule that drops much of a source stops the run, and says which, how much, and what for instance."""

from dataclasses import replace
from pathlib import Path

import pytest
from small_recipe import World, new_world, note, page, prose

from corpora.errors import InputError


@pytest.fixture
def short_world(tmp_path: Path) -> World:
    """130 pages, of which 30 are too short for a rule."""
    world = new_world(tmp_path)
    bodies = [prose(n) if n >= 30 else f"Ticket {n}: the bell of the ferry is broken again." for n in range(130)]
    world.put("pages", "a", [page(str(n), body) for n, body in enumerate(bodies)])
    world.put("notes", "n", [note(1, prose(500))])
    return world


def test_the_run_stops_and_shows_what_the_rule_drops(short_world: World) -> None:
    with pytest.raises(InputError) as caught:
        short_world.run()
    said = str(caught.value)
    assert "'pages': rules: gopher.min_words drops 30 of 130 documents (23%)" in said
    assert "the bell of the ferry is broken again" in said and "/store/documents/pages/" in said


def test_its_texts_are_shown_as_privacy_allows(short_world: World) -> None:
    with pytest.raises(InputError) as caught:
        replace(short_world, text=short_world.text + '\n[privacy]\nsamples = "hashed"\n').run()
    assert "gopher.min_words" in str(caught.value) and "ferry" not in str(caught.value)


@pytest.mark.parametrize("bound", ["max_rule_share = 0.25", "rule_share_from = 131"])
def test_a_source_has_a_bound_of_its_own(short_world: World, bound: str) -> None:
    """Fails where the bound is not asked, is one for all sources, or enters the fingerprint."""
    text = short_world.text.replace('name = "pages"\n', f'name = "pages"\ndocuments.{bound}\n')
    run = replace(short_world, text=text).run()
    assert run.of("documents")[0].manifest.rows("dropped") == 30
    with pytest.raises(InputError):
        short_world.run()
