"""Fixtures of the tests of integrity: a store with three generations, the runs that made it, and a release."""

import shutil
from pathlib import Path

import pytest
from kept_store import unpacked_store, use_libraries_of

from corpora.store.places.place import Place
from flows.run.record.figures import get_figures, write_figures
from flows.run.record.releases import Release, add_release, list_run_artifacts
from flows.run.record.run_record import iter_newest_runs


@pytest.fixture(scope="session")
def kept_world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a recipe, its raw files and its store. Not to be changed."""
    folder = tmp_path_factory.mktemp("kept") / "world"
    _, store = unpacked_store(folder)
    place = Place(str(store))
    record = next(iter_newest_runs(place))
    figures = get_figures(place, record)
    assert figures
    write_figures(place, record, figures)
    entry = Release(name="prod", number=0, action="release", recipe=record.recipe, run=record.run_id, who="ada@host",
                    artifacts=list_run_artifacts(place, record), when="2026-01-04T00:00:00+00:00")  # fmt: skip
    add_release(place, entry)
    return folder


@pytest.fixture
def store(kept_world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A copy of the kept store; its runs find their raw files."""
    shutil.copytree(kept_world / "store", tmp_path / "store")
    use_libraries_of(tmp_path / "store", monkeypatch)
    return Place(str(tmp_path / "store"))
