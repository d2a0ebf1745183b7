"""Fixtures of the tests of the store: an empty store, and a folder that counts calls."""

from pathlib import Path

import pytest

from corpora.store.places.place import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """An empty store."""
    return Place(str(tmp_path / "store"))


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    """A folder where the toy stage's build function leaves a file for each call."""
    folder = tmp_path / "calls"
    folder.mkdir()
    return folder


@pytest.fixture(params=["folder", pytest.param("object store", marks=pytest.mark.server)])
def either_place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty store of either kind."""
    if request.param == "folder":
        return Place(str(tmp_path / "store"))
    store: Place = request.getfixturevalue("s3_store")
    return store
