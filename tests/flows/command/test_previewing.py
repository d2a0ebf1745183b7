"""A preview shows a record's text after each step, and why it is dropped."""

import json
from pathlib import Path

import pytest
from small_recipe import prose

from flows.command.preview import RecordPreview, SourcePreview, StepEffect, inspect_source, preview_source
from flows.recipes.recipe import parse_recipe

RECIPE = """
[[source]]
kind = "files"
name = "notes"
path = "notes.jsonl"
rules.repetition.enabled = false
"""


@pytest.fixture
def looked(tmp_path: Path) -> SourcePreview:
    """Four notes: one to be cleaned, one that is short, one in German, one without text."""
    german = "Der Hafenmeister zählte die Boote, und niemand wusste, warum das Wasser so lange fortblieb. " * 12
    texts = [prose(1).replace(" and ", "\u00a0\u00a0and\u200b "), "Please call back.", german, ""]
    (tmp_path / "notes.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return look_of(RECIPE, tmp_path)


def test_each_step_is_told_until_the_one_that_drops_a_record(looked: SourcePreview) -> None:
    """Fails if a step is passed over, a change is not shown, or a reason is at another step."""
    cleaned, short, german, empty = preview_source(looked.entry, looked.files, 10, print)
    assert [step.step for step in cleaned.steps] == ["clean", "language", "rules"]
    assert cleaned.steps[0].text == prose(1) and cleaned.steps[1].text is None and cleaned.verdict == "kept"
    assert drops(short) == [("rules", "rules: gopher.min_words (3 words)")]
    assert drops(german) == [("language", "language: other language (de)")]
    assert empty.steps == (StepEffect(step="parse", drop="parse: empty"),)


def test_no_more_than_asked_for_are_read(looked: SourcePreview) -> None:
    assert len(list(preview_source(looked.entry, looked.files, 2, print))) == 2


def test_every_kind_of_file_is_shown_and_every_file_of_a_kind(tmp_path: Path) -> None:
    """Fails if the first file of a folder takes all the places of a preview."""
    (tmp_path / "raw").mkdir()
    for name, ending in (("a", "jsonl"), ("b", "jsonl"), ("c", "txt"), ("d", "html")):
        lines = 30 if ending == "jsonl" else 1
        (tmp_path / "raw" / f"{name}.{ending}").write_text("".join(f'{{"text": "{n}"}}\n' for n in range(lines)))
    looked = look_of(RECIPE.replace("notes.jsonl", "raw") + 'fields = { text = "text" }', tmp_path)
    shown = [preview.where.partition(":")[0] for preview in preview_source(looked.entry, looked.files, 8, print)]
    assert shown == ["d.html", "a.jsonl", "c.txt", "b.jsonl", "a.jsonl", "b.jsonl", "a.jsonl", "b.jsonl"]


def look_of(text: str, folder: Path) -> SourcePreview:
    recipe = parse_recipe(text, folder / "own.toml", {})
    return inspect_source(recipe, recipe.sources[0])


def drops(preview: RecordPreview) -> list[tuple[str, str]]:
    return [(step.step, step.drop) for step in preview.steps if step.drop]
