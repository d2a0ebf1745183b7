"""Fields guessed from a folder's files stay as they were, whatever files come later; their report can be typed."""

import json
from pathlib import Path

import pytest
from small_recipe import World, new_world, note, prose

from corpora.errors import InputError
from corpora.sources.contract import StatCache
from flows.recipes.lock import Lock, read_lock, resolve_raw_files
from flows.recipes.recipe import parse_recipe, render_folder_recipe
from flows.run.inputs.unread_files import describe_guesses

RECIPE = """
name = "small"
store = "store"

[[source]]
kind = "files"
name = "notes"
path = "raw/notes"

[rules]
repetition.enabled = false

[vocabulary]
size = 300
"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Notes whose text is called body, as no recipe says."""
    world = new_world(tmp_path, RECIPE)
    world.put("notes", "a", [note(n, prose(n)) for n in range(12)])
    return world


def guessed(world: World) -> list[tuple[str, int]]:
    return [
        (found.name, found.generation) for found in read_lock(world.recipe_path.with_suffix(".lock")).guessed["notes"]
    ]


def test_later_files_change_nothing_that_is_built(world: World) -> None:
    """Fails if new files of other columns have older documents built again, or are not read under their own."""
    first = world.run()
    assert guessed(world) == [("body", 1)] and first.documents()["notes"].count_rows("documents") == 12
    world.put("notes", "b", [{"said": prose(100 + n), "body_type": "x"} for n in range(5)])
    second = world.run()
    assert guessed(world) == [("body", 1), ("said", 2)]
    assert second.every("documents")[0] == first.documents()["notes"]
    assert [made.manifest.count_rows("documents") for made in second.of("documents")] == [5]
    world.put("notes", "c", [note(n, prose(200 + n, 30)) | {"longer": prose(300 + n, 90)} for n in range(9)])
    third = world.run()
    assert guessed(world) == [("body", 1), ("said", 2)]
    assert third.every("documents")[:2] == second.every("documents")
    assert [made.manifest.count_rows("documents") for made in third.of("documents")] == [9]


def test_what_was_found_is_what_a_recipe_says_with_the_same_name(world: World) -> None:
    """Fails if a guess is not the same setting as the words of a recipe, or outlives them."""
    world.run()
    written = world.run(source__fields__text="body")
    assert all(stage.reused for stage in written.of("documents"))
    assert world.run(source__fields__text="title", rules__gopher__min_words="0", **ANY).of("documents")[0].built
    assert world.run().of("documents")[0].reused and guessed(world) == [("body", 1)]
    world.put("notes", "a", [{"text": prose(n), "body": prose(n, 30)} for n in range(12)])
    world.recipe_path.with_suffix(".lock").unlink()
    assert world.run().of("documents")[0].stage.settings["source"]["fields"] == {"text": "text"}, "as ever"


ANY = {"rules.c4.min_sentences": "0", "documents.max_rule_share": "1.0", "rules.gopher.enabled": "false"}


def test_generations_that_go_take_their_numbers_with_them(world: World) -> None:
    """Fails if a name belongs to another generation once one before it is gone."""
    world.put("pages", "p", [note(n, prose(50 + n)) for n in range(3)])
    pages = RECIPE.replace("notes", "pages")
    both = World(folder=world.folder, text=pages)
    both.run()
    both = World(folder=world.folder, text=pages + RECIPE[RECIPE.index("[[source]]") : RECIPE.index("[rules]")])
    both.run()
    assert guessed(world) == [("body", 2)]
    World(folder=world.folder, text=RECIPE).run()
    lock = read_lock(world.recipe_path.with_suffix(".lock"))
    assert guessed(world) == [("body", 1)] and set(lock.guessed) == {"notes"} and len(lock.generations) == 1


def test_a_table_without_text_is_told_and_one_alone_is_refused(tmp_path: Path) -> None:
    """Fails if a list of prices ends the run of a folder, or is passed over in silence."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "prices.csv").write_text("id,amount\n1,2.50\n2,3.50\n")
    (folder / "note.txt").write_text(prose(1))
    recipe = parse_recipe(render_folder_recipe(folder, "there"), tmp_path / "r.toml", {})
    looked = resolve_raw_files(recipe, Lock(), StatCache()).unread["in"]
    assert [(group.kind, group.names) for group in looked.passed_over] == [("table without text", ("prices.csv",))]
    (folder / "note.txt").unlink()
    with pytest.raises(InputError, match=r"no column of prices.csv holds text: its columns are id, amount.*--set"):
        resolve_raw_files(recipe, Lock(), StatCache())
    named = parse_recipe(render_folder_recipe(folder, "there"), tmp_path / "r.toml", {"source.fields.text": "amount"})
    assert resolve_raw_files(named, Lock(), StatCache()).added["in"]


def test_what_is_said_of_a_guess_is_what_can_be_typed(world: World) -> None:
    """Fails if the option that is shown is refused, or means another source."""
    for rows, field in (("title", "title"), ("NAME", "NAME")):
        lines = [note(n, prose(n)) | ({} if field == "NAME" else {"title": prose(n, 2)}) for n in range(12)]
        world.put("notes", "a", lines)
        recipe = parse_recipe(RECIPE, world.recipe_path, {})
        [line] = describe_guesses(recipe, resolve_raw_files(recipe, Lock(), StatCache()))
        assert line.startswith("notes: the text is guessed to be 'body' (1 .jsonl). To change it: --set ")
        key, value = line.partition("--set ")[2].split(" ")[0].removesuffix(".").split("=")
        assert parse_recipe(RECIPE, world.recipe_path, {key: value}).sources[0].source.fields == {"text": rows}


def test_several_names_are_said_as_they_are_written(world: World) -> None:
    world.put("notes", "b", [{"said": prose(100 + n)} for n in range(5)])
    recipe = parse_recipe(RECIPE, world.recipe_path, {})
    [line] = describe_guesses(recipe, resolve_raw_files(recipe, Lock(), StatCache()))
    assert "'body' (1 .jsonl), else 'said' (1 .jsonl)" in line
    key, value = line.partition("--set '")[2].partition("'")[0].split("=")
    assert json.loads(value) == ["body", "said"]
    written = parse_recipe(RECIPE, world.recipe_path, {key: value}).sources[0].source
    assert written.fields == {"text": ("body", "said")}
