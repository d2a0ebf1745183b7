"""Fixtures of the run's tests: a filled world of its own for each test, and one finished run to look at."""

from pathlib import Path

import pytest
from small_recipe import Run, World, fill, new_world


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A recipe with the raw files of its first generation; nothing is built."""
    return fill(new_world(tmp_path / "world"))


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of the first generation, for tests that only read."""
    return fill(new_world(tmp_path_factory.mktemp("finished") / "world")).run()
