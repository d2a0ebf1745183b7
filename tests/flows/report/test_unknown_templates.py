"""What a wiki loses: its unknown templates on their way from a page to a preview, a ledger and the report."""

import io
from pathlib import Path

import pytest
from rich.console import Console
from small_recipe import Run, new_world, prose, text_of

from corpora.sources.remarks import MOST_KEPT, frequent_remarks
from flows.command.preview import look_at, preview_source
from flows.command.terminal.display import show_manifest
from flows.orchestration.pages import ledger_table
from flows.recipes.recipe import parse_recipe
from flows.report.page import build_page
from flows.run.record.figures import count_figures

RECIPE = """
name = "small"
store = "store"
source = [{ kind = "wikipedia", name = "wiki", path = "raw/wiki" }]

[rules]
repetition.enabled = false
gopher.min_words = 20

[vocabulary]
size = 300

[shards]
length = 64
"""
HEAD = '<mediawiki xml:lang="en"><siteinfo><base>https://en.wikipedia.org/wiki/Main_Page</base></siteinfo>'
USED = "{{umrahmt|gold words}} and {{Zähler|12|Kanister}} and{{anmerkung|a long note}} and {{umrahmt|more}} words."


def write_dump(folder: Path, rare: int = 0) -> None:
    """Write a dump of a page that is named as one of the German wiki's, with unknown templates; some of them once."""
    once = "".join(f" A line of {{{{rare{number}|words}}}} here." for number in range(rare))
    more = {1: f"It has {USED}", 2: once}
    pages = "".join(
        f"<page><title>Page {number}</title><ns>0</ns><id>{number}</id><revision><id>{number}</id>"
        f"<text>{prose(number)}\n\n{more.get(number, '')}</text></revision></page>\n"
        for number in range(1, 30)
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dewiki-20260101-pages-articles.xml").write_text(f"{HEAD}{pages}</mediawiki>", encoding="utf-8")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    world = new_world(tmp_path_factory.mktemp("templates"), RECIPE)
    write_dump(world.folder / "raw" / "wiki", rare=MOST_KEPT)
    return world.run()


def test_a_ledger_has_the_unknown_templates_used_most_and_no_more(run: Run) -> None:
    """Fails if one is not counted, a mark after a word is, or the list of a large wiki has no end."""
    ledger = next(stage.manifest.ledger for stage in run.stages if stage.stage.kind == "documents")
    used = frequent_remarks(ledger.figures)
    assert len(used) == MOST_KEPT and used[0].name == "umrahmt" and used[0].number == 2
    assert used[0].example == "{{umrahmt|gold words}} is read as “gold words”"
    assert used[1].name == "rare0" and "anmerkung" not in {template.name for template in used}


def test_other_pages_and_figures_have_no_text_of_them(run: Run) -> None:
    """Fails if an example, which is text of a document, gets where nothing asks whether text may be shown."""
    manifest = next(stage.manifest for stage in run.stages if stage.stage.kind == "documents")
    console, figures = Console(file=io.StringIO(), width=200, record=True), count_figures(run.place, run.record)
    console.print(show_manifest(manifest))
    shown = console.export_text()
    assert figures and "text bytes" in shown and not any("umrahmt" in name for name in figures)
    assert "umrahmt" not in shown and "umrahmt" not in str(ledger_table(manifest))


@pytest.mark.parametrize(("privacy", "is_shown"), [("text", True), ("hashed", False), ("none", False)])
def test_the_report_lists_them(run: Run, privacy: str, is_shown: bool) -> None:
    page = text_of(build_page(run.place, run.record, privacy))
    assert "Templates that no table names" in page
    assert ("umrahmt 2 {{umrahmt|gold words}} is read as “gold words”" in page) == is_shown


def test_a_preview_lists_them(tmp_path: Path) -> None:
    write_dump(tmp_path / "raw" / "wiki")
    recipe = parse_recipe(RECIPE, tmp_path / "own.toml", {})
    looked, said = look_at(recipe, recipe.sources[0]), list[str]()
    assert len(list(preview_source(looked.entry, looked.files, 2, said.append))) == 2
    assert said[0] == "wiki: templates in sentences that no table names, most used first:"
    assert said[1] == "  2 umrahmt: {{umrahmt|gold words}} is read as “gold words”"
    assert said[2].endswith("{{Zähler|12|Kanister}} took its sentence or bracket with it") and len(said) == 3
