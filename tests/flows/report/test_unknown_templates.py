"""What a wiki loses: its unknown templates on their way from a page to a preview, a ledger and the report."""

import io
from pathlib import Path

import pytest
from rich.console import Console
from small_recipe import Run, new_world, prose, text_of

from corpora.sources.remarks import MAX_REMARKS, REMARK_TABLE, read_remarks
from corpora.store.tables import read_part_table
from flows.command.inspect import render_manifest
from flows.command.preview import inspect_source, preview_source
from flows.orchestration.pages import build_ledger_rows
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


def write_dump(folder: Path, rare: int = 0, first: int = 1) -> None:
    """Write a dump of pages that are named as those of the German wiki, with unknown templates; some of them once."""
    once = "".join(f" A line of {{{{rare{first + number}|words}}}} here." for number in range(rare))
    more = {first: f"It has {USED}", first + 1: once}
    pages = "".join(
        f"<page><title>Page {number}</title><ns>0</ns><id>{number}</id><revision><id>{number}</id>"
        f"<text>{prose(number)}\n\n{more.get(number, '')}</text></revision></page>\n"
        for number in range(first, first + 29)
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"dewiki-20260101-pages-articles{first}.xml").write_text(f"{HEAD}{pages}</mediawiki>", encoding="utf-8")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    world = new_world(tmp_path_factory.mktemp("templates"), RECIPE)
    write_dump(world.folder / "raw" / "wiki", rare=MAX_REMARKS)
    return world.run()


def test_a_table_has_the_unknown_templates_used_most_and_no_more(run: Run) -> None:
    """Fails if one is not counted, a mark after a word is, or the list of a large wiki has no end."""
    manifest = next(stage.manifest for stage in run.stages if stage.stage.kind == "documents")
    used = read_remarks(run.place, [manifest])
    assert len(used) == MAX_REMARKS and used[0].name == "umrahmt" and used[0].number == 2
    assert used[0].example == "{{umrahmt|gold words}} is read as “gold words”"
    assert used[1].name == "rare1" and "anmerkung" not in {template.name for template in used}


def test_each_part_has_a_bounded_table_and_nothing_else_of_them(tmp_path: Path) -> None:
    """Fails if the manifest or a part's record grows with the templates that a wiki has, or with their examples."""
    parts = 4
    world = new_world(tmp_path, f"{RECIPE}\n[documents]\npart_bytes = 1\n")
    for number in range(parts):
        write_dump(world.folder / "raw" / "wiki", rare=2 * MAX_REMARKS, first=1 + 1000 * number)
    run = world.run()
    manifest = next(stage.manifest for stage in run.stages if stage.stage.kind == "documents")
    tables = [list(read_part_table(run.place, manifest.stage_folder, part, REMARK_TABLE)) for part in manifest.parts]
    assert [sum(rows.num_rows for rows in table) for table in tables] == [MAX_REMARKS] * parts
    [first, *others] = read_remarks(run.place, [manifest])
    assert (first.name, first.number, len(others)) == ("umrahmt", 2 * parts, MAX_REMARKS - 1)
    written = [
        manifest.to_bytes(),
        *(run.place.read(f"{manifest.stage_folder}/{part.paths[-1]}") for part in manifest.parts),
    ]
    assert len(written) == 1 + parts and not any(b"rare" in document or b"umrahmt" in document for document in written)


def test_other_pages_and_figures_have_no_text_of_them(run: Run) -> None:
    """Fails if an example, which is text of a document, gets where nothing asks whether text may be shown."""
    manifest = next(stage.manifest for stage in run.stages if stage.stage.kind == "documents")
    console, figures = Console(file=io.StringIO(), width=200, record=True), count_figures(run.place, run.record)
    console.print(render_manifest(manifest))
    shown = console.export_text()
    assert figures and "text bytes" in shown and not any("umrahmt" in name for name in figures)
    assert "umrahmt" not in shown and "umrahmt" not in str(build_ledger_rows(manifest))


@pytest.mark.parametrize(("privacy", "is_shown"), [("text", True), ("hashed", False), ("none", False)])
def test_the_report_lists_them(run: Run, privacy: str, is_shown: bool) -> None:
    page = text_of(build_page(run.place, run.record, privacy))
    assert "Templates that no table names" in page
    assert ("umrahmt 2 {{umrahmt|gold words}} is read as “gold words”" in page) == is_shown


def test_a_preview_lists_them(tmp_path: Path) -> None:
    write_dump(tmp_path / "raw" / "wiki")
    recipe = parse_recipe(RECIPE, tmp_path / "own.toml", {})
    looked, said = inspect_source(recipe, recipe.sources[0]), list[str]()
    assert len(list(preview_source(looked.entry, looked.files, 2, said.append))) == 2
    assert said[0] == "wiki: templates in sentences that no table names, most used first:"
    assert said[1] == "  2 umrahmt: {{umrahmt|gold words}} is read as “gold words”"
    assert said[2].endswith("{{Zähler|12|Kanister}} took its sentence or bracket with it") and len(said) == 3
