"""What the tests of integrity share: a store with three generations and the runs that made it."""

import shutil
from pathlib import Path

import pytest
from format_1_store import unpacked_format_1_store, use_libraries_of

from corpora.store.places import Place
from flows.integrity.stamping import stamp_store


@pytest.fixture(scope="session")
def kept_world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a recipe, its raw files and its store, which is of today's format. Not to be changed."""
    folder = tmp_path_factory.mktemp("kept") / "world"
    _, store = unpacked_format_1_store(folder)
    stamp_store(Place(str(store)))
    return folder


@pytest.fixture
def store(kept_world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A copy of the kept store; its runs find their raw files."""
    shutil.copytree(kept_world / "store", tmp_path / "store")
    use_libraries_of(tmp_path / "store", monkeypatch)
    return Place(str(tmp_path / "store"))
