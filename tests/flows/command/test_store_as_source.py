"""A store, and what is in one, is no raw text: each command that reads raw text says so, and what to do is true."""

from collections import Counter
from pathlib import Path

import pytest
from small_recipe import prose

import cloze
from corpora.errors import InputError
from flows.command.arguments import load_recipe
from flows.command.preview import inspect_source
from flows.command.vocabulary_adapt import _iter_file_texts
from flows.dedup.inputs import find_inputs
from flows.export.export import ExportSettings, choose_artifact, write_export
from flows.recipes.lock import list_raw_files

RECIPE = '[[source]]\nkind = "files"\nname = "a"\npath = "{}"\n'


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of documents and a corpus, in which no recorded run was."""
    store = tmp_path_factory.mktemp("of-store") / "store"
    assert len(cloze.deduplicate(cloze.read([prose(n) for n in range(4)], store=store, progress=False))) == 4
    return store


def of_run(path: Path, folder: Path) -> object:
    recipe = folder / "mine.toml"
    recipe.write_text(RECIPE.format(path))
    loaded = load_recipe(str(recipe))
    return list_raw_files(loaded.sources[0], loaded)


def of_preview(path: Path, folder: Path) -> object:
    loaded = load_recipe(None, path)
    return inspect_source(loaded, loaded.sources[0])


DOORS = {
    "a recipe": of_run,
    "--source": lambda path, folder: load_recipe(None, path),
    "preview": of_preview,
    "words of a vocabulary": lambda path, folder: [*_iter_file_texts(str(path), "text", Counter())],
    "dedup": lambda path, folder: find_inputs([str(path)], "", "", ""),
}
PLACES = ("", "corpora", "documents/texts", "corpora/texts/*", "documents/texts/*/*.arrow", "*/*/*/manifest.json")


@pytest.mark.parametrize("inside", PLACES)
@pytest.mark.parametrize("door", DOORS)
def test_what_a_store_holds_is_not_read_as_text(
    door: str, inside: str, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if manifests and tables of a store come to documents, by whatever path they are named."""
    monkeypatch.chdir(tmp_path)
    [path, *_] = [*store.glob(inside)] if inside else [store]
    with pytest.raises(
        InputError, match=r"not raw text: it is of the store .*cloze export .* documents --kind corpora"
    ):
        DOORS[door](path, tmp_path)


@pytest.mark.parametrize("door", ["a recipe", "preview"])
def test_a_folder_with_nothing_but_a_store_has_no_files(door: str, store: Path, tmp_path: Path) -> None:
    """Fails if the text files in a store inside a source's folder are read, or their absence ends in a traceback."""
    (store / "corpora" / "notes.txt").write_text(prose(1))
    with pytest.raises(InputError, match=r"finds is in a store of Cloze.* Give its `path` another folder"):
        DOORS[door](store.parent, tmp_path)
    (tmp_path / "another").mkdir()
    (tmp_path / "another" / "notes.txt").write_text(prose(1))
    assert DOORS[door](tmp_path / "another", tmp_path)


def test_the_documents_of_a_store_are_exported_and_read(store: Path, tmp_path: Path) -> None:
    """Fails if what the refusal says to do gives other documents, or none."""
    write_export(choose_artifact(str(store), "corpora", None), tmp_path / "documents", ExportSettings())
    docs = cloze.read(tmp_path / "documents" / "data", progress=False)
    assert sorted(docs["text"]) == sorted(prose(n) for n in range(4))


def test_a_folder_of_a_store_that_no_run_writes_is_read(store: Path, tmp_path: Path) -> None:
    """Fails if raw text that somebody keeps inside a store, but not in an artifact, is refused."""
    raw = store / "raw" / "old"
    raw.mkdir(parents=True)
    (raw / "a.txt").write_text(prose(1))
    assert len(find_inputs([str(raw)], "", "", "").pieces) == 1 and of_run(raw, tmp_path)
