"""Addresses: a store is found by what it holds, whatever it and the folders above it are called."""

import json
import os
import shutil
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from small_recipe import RECIPE, fill, new_world
from tiers import LONG, examples

from corpora.store.manifest import compute_fingerprint
from corpora.store.places.place import Place
from flows.command.cli import run_command_line
from flows.run.addresses import find_artifacts, split_address
from flows.run.stage_kinds import STAGES

PRINT = compute_fingerprint(of="a test")
ODD = '-a store: [100%] {x} #1? "it\'s" ~ *.é e\u0301 中\U0001f600'
LETTERS = st.characters(blacklist_characters="/\0", blacklist_categories=("Cs",))
NAMES = (
    st.sampled_from(
        [*STAGES, "runs", "parts", PRINT, "manifest.json", "a b", ".x", "~", "-x", "%20", "café", "cafe\u0301"]
    )
    | st.text(LETTERS, min_size=1, max_size=8)
    | st.text(st.sampled_from("nü中"), min_size=80, max_size=84)
).filter(lambda name: name not in (".", ".."))


def put(store: Path, *paths: str) -> None:
    """Empty files in a store."""
    for path in paths:
        (store / path).parent.mkdir(parents=True, exist_ok=True)
        (store / path).touch()


def found(address: str) -> tuple[str, str]:
    """The store's folder and the path inside it."""
    place, inside = split_address(address)
    return place.to_full_path(""), inside


@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(above=st.lists(NAMES, max_size=3), kind=st.sampled_from([*STAGES]), name=NAMES.filter(lambda n: n[0] != "."))
def test_a_store_is_found_by_what_it_holds(
    above: list[str], kind: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if a folder above a store, or a name in it, is taken for what it is not."""
    top = tmp_path / "top"
    store = top.joinpath(*above)
    put(store, f"{kind}/{name}/{PRINT}/manifest.json", f"{kind}/{name}/{PRINT}/parts/0.json", "runs/r/run.json")
    (top / "link").symlink_to(store / kind)
    monkeypatch.chdir(top)
    try:
        for inside in ("", kind, f"{kind}/{name}", f"{kind}/{name}/{PRINT}", "runs", "runs/r"):
            folder = store / inside
            relative = os.path.relpath(folder, top)
            typed = [f"{folder}/", f"{folder}/../{folder.name}", f"file://{quote(str(folder))}", f"./{relative}"]
            assert {found(address) for address in typed} == {(str(store), inside)}
        assert found(f"{store}/{kind}/{name}/{PRINT}/manifest.json") == (str(store), f"{kind}/{name}/{PRINT}")
        assert found(f"link/{name}") == (str(store), f"{kind}/{name}")
    finally:
        shutil.rmtree(top)


def test_a_folder_called_tilde_is_not_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if the folder above `./~/documents` is taken for the home folder."""
    put(tmp_path / "~", f"documents/news/{PRINT}/manifest.json")
    monkeypatch.chdir(tmp_path)
    assert found("./~/documents") == (f"{tmp_path}/~", "documents")


def test_a_folder_of_a_store_may_be_a_link_to_another_disk(tmp_path: Path) -> None:
    put(tmp_path / "disk", f"news/{PRINT}/manifest.json")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "documents").symlink_to(tmp_path / "disk")
    assert found(f"{tmp_path}/store/documents/news") == (f"{tmp_path}/store", "documents/news")


def test_where_no_store_is_the_address_is_that_of_one(tmp_path: Path) -> None:
    put(tmp_path, "documents/raw/text.txt", "models/news/old/manifest.json", "runs/notes.txt")
    for inside in ("documents", "documents/raw", "models/news", "models/news/old", "runs", "nowhere/documents"):
        assert found(f"{tmp_path}/{inside}") == (f"{tmp_path}/{inside}", "")


def test_any_name_that_can_be_one_is_built_found_and_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a name is taken for a folder of the store's own, as `parts` was, or for markup or a format; or where
    a command does not find the store in one of the ways in which its folder can be typed.
    """
    text = RECIPE.replace('"pages"', '"parts"').replace('"notes"', '"documents"', 1)
    long = "ü" * 75
    text = text.replace('name = "small"', f'name = "{long}"').replace("raw/documents", "raw/notes")
    run = fill(new_world(tmp_path / ODD, text)).run()
    assert sum(content.rows for content in run.outcome.shards.tables.values())
    assert {m.name for m in run.outcome.documents} == {"parts", "documents"}
    store = run.place.to_full_path("")
    assert {a.manifest.folder for a in find_artifacts(store)} == {m.folder for m in run.manifests}
    assert run_command_line(["verify", store], tmp_path) == 0
    monkeypatch.chdir(run.place.to_full_path("").rpartition("/")[0])
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "link").symlink_to(store)
    inside = (run.outcome.shards.folder, f"{run.outcome.corpus.folder}/manifest.json")
    forms = (f"file://{quote(store)}", f"~/{ODD}/store", f"{store}/", "./store", f"{tmp_path}/link")
    for typed in forms[: None if LONG else 2]:
        commands = [["inspect", f"{typed.rstrip('/')}/{path}"] for path in inside]
        commands += [["verify", typed], ["inspect", typed], ["trace", typed, "0"]]
        commands += [["vocabulary", "show", run.outcome.vocabulary.name, "--store", typed]]
        commands += [["vocabulary", "show", f"{typed.rstrip('/')}/{run.outcome.vocabulary.folder}"]]
        assert [command for command in commands if run_command_line(command, tmp_path)] == []
    again = new_world(tmp_path / ODD, text.replace(f'"{long}"', json.dumps(ODD, ensure_ascii=False))).run(
        place=Place(store)
    )
    assert again.outcome.shards.name == ODD
    assert run_command_line(["verify", f"{store}/{again.outcome.shards.stage_folder}"], tmp_path) == 0
