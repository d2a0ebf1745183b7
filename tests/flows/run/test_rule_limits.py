"""A rule that drops much of a source stops the run, and says which, how much, and what for instance."""

from dataclasses import replace
from pathlib import Path

import pytest
from small_recipe import World, new_world, note, page, prose, run_lock

from corpora.errors import InputError
from corpora.judging.steps.rules import DETAILS, RulesSettings, explain, find_off_setting
from corpora.sources.contract import StatCache
from corpora.store.settings import bind_settings
from flows.recipes.lock import Lock, resolve_raw_files
from flows.recipes.recipe import parse_recipe


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


@pytest.mark.parametrize(("short", "of"), [(100, 130), (30, 130)])
def test_the_template_that_fits_is_named(tmp_path: Path, short: int, of: int) -> None:
    """Fails if a source of short texts is stopped for its rules, and not told which rules are for such."""
    with pytest.raises(InputError) as caught:
        run_notes(tmp_path, [prose(n) for n in range(of - short)], short)
    assert ("`cloze new NAME --template tickets`" in str(caught.value)) == (short > of / 2)


def test_its_texts_are_shown_as_privacy_allows(short_world: World) -> None:
    with pytest.raises(InputError) as caught:
        replace(short_world, text=short_world.text + '\n[privacy]\nsamples = "hashed"\n').run()
    assert "gopher.min_words" in str(caught.value) and "ferry" not in str(caught.value)


@pytest.mark.parametrize("bound", ["max_rule_share = 0.25", "rule_share_from = 131"])
def test_a_source_has_a_bound_of_its_own(short_world: World, bound: str) -> None:
    """Fails if the bound is not asked, is one for all sources, or enters the fingerprint."""
    text = short_world.text.replace('name = "pages"\n', f'name = "pages"\ndocuments.{bound}\n')
    run = replace(short_world, text=text).run()
    assert run.of("documents")[0].manifest.count_rows("dropped") == 30
    with pytest.raises(InputError):
        short_world.run()


@pytest.mark.parametrize(("short", "of", "said"), [(1, 3, True), (11, 50, True), (20, 100, False)])
def test_a_small_source_is_warned_of_and_goes_on(tmp_path: Path, short: int, of: int, said: bool) -> None:
    """Fails if a source is too small to be told of, or a share within the bound is told."""
    told = " ".join(run_notes(tmp_path, [prose(n) for n in range(of - short)], short))
    assert (f"gopher.min_words drops {short} of {of} documents" in told) == said
    assert ("--set source.notes.rules.gopher.min_words=0" in told) == said


@pytest.mark.parametrize(("short", "of"), [(6, 10), (21, 100)])
def test_a_source_that_loses_too_much_for_its_size_stops_the_run(tmp_path: Path, short: int, of: int) -> None:
    with pytest.raises(InputError, match=f"gopher.min_words drops {short} of {of} documents"):
        run_notes(tmp_path, [prose(n) for n in range(of - short)], short)


def test_all_sources_and_all_their_rules_are_told_at_once(short_world: World) -> None:
    """Fails if a run ends for each of several faults, or a rule is named that did not drop the documents."""
    one_sentence = " ".join(prose(7, 12).replace(".", "").split()[:60]) + "."
    letters = [note(n, f"{n} {one_sentence}") for n in range(120)]
    short_world.put("notes", "letters", letters)
    with pytest.raises(InputError) as caught:
        short_world.run()
    said = str(caught.value)
    assert "'pages': rules: gopher.min_words drops 30 of 130 documents" in said
    assert "'pages': rules: c4.min_sentences drops 30 of 130 documents (23%), once the above are loosened" in said
    assert "'notes': rules: c4.min_sentences drops 120 of 121 documents" in said
    options = [key for line in said.splitlines() for key in line.split() if key.startswith("source.")]
    assert options == [
        "source.pages.rules.gopher.min_words=0",
        "source.pages.rules.c4.min_sentences=0",
        "source.notes.rules.c4.min_sentences=0",
    ]


@pytest.mark.parametrize("reason", DETAILS)
def test_every_rule_can_be_switched_off_as_it_is_said(reason: str) -> None:
    """Fails if a rule's setting is not called as a run says, or its value does not switch it off."""
    found = find_off_setting(reason)
    if found is None:
        assert reason == "document.empty"
        return
    (group, name), value = found[0].split("."), found[1]
    settings = bind_settings(RulesSettings, {group: {"enabled": True, name: value}}, "rules")
    texts = ["lorem ipsum { # # ... ", "# a", "- b ...\n- b ...", "\u2026 \u2026", prose(1, 40), "a" * 40 + "\nb"]
    assert reason not in {name for text in texts for name, _, fails in explain(text, settings) if fails}


def run_notes(folder: Path, texts: list[str], short: int) -> list[str]:
    """Return what a run prints about notes, some of which are short."""
    world = new_world(folder)
    text = world.text.replace(world.text[world.text.index("[[source]]") : world.text.rindex("[[source]]")], "")
    notes = [note(n, body) for n, body in enumerate([*texts, *(f"Call number {n} back." for n in range(short))])]
    world.put("notes", "n", notes)
    recipe = parse_recipe(text, world.recipe_path, {"language.keep_unknown": "true"})
    told: list[str] = []
    run_lock(world.place, recipe, resolve_raw_files(recipe, Lock(), StatCache()).lock, tell=told.append)
    return told


def test_a_few_new_documents_are_judged_together_with_earlier_ones(tmp_path: Path) -> None:
    """Fails if a night of a dozen files, most of which a rule drops, ends a run that a hundred of them would not."""
    world = new_world(tmp_path)
    world.put("notes", "n", [note(1, prose(500))])
    for name, short, of in (("first", 0, 130), ("few", 7, 12)):
        pages = [page(f"{name} {n}", "The ferry is late." if n < short else prose(of * 100 + n)) for n in range(of)]
        world.put("pages", name, pages)
        run = world.run()
    assert run.documents()["pages"].count_rows("dropped") == 7
    world.put("pages", "many", [page(f"m{n}", "Late again." if n < 61 else prose(n)) for n in range(120)])
    with pytest.raises(InputError, match=r"gopher\.min_words drops 61 of 120 documents"):
        world.run()
