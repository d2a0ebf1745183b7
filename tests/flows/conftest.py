"""Fixtures of the run's tests: a filled world for each test, one finished run to look at, one database for all."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from labelled_world import FIRST, tasks_world
from launched import Site, new_home, server
from recorded_run import record
from small_cluster import DaskCluster, dask_cluster
from small_recipe import Run, World, fill, new_world

from corpora.store.places.files import hold_lock


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A recipe with the raw files of its first generation; nothing is built."""
    return fill(new_world(tmp_path / "world"))


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of the first generation, for tests that only read."""
    return fill(new_world(tmp_path_factory.mktemp("finished") / "world")).run()


@pytest.fixture(scope="session")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run on record whose model learns a task, for tests that only read; others take a copy (`copied`)."""
    pytest.importorskip("torch", reason="the trainer is not installed")
    done = tasks_world(tmp_path_factory.mktemp("learnt") / "world").run()
    record(done, FIRST)
    return done


@pytest.fixture
def built(finished: Run, tmp_path: Path) -> World:
    """The same world with a store of its own, in which that run is done: for tests that go on from there."""
    assert finished.recipe.path is not None
    shutil.copytree(finished.recipe.path.parent, tmp_path / "world")
    return World(folder=tmp_path / "world")


@pytest.fixture
def first(finished: Run, built: World) -> Run:
    """That run, as of the copy."""
    return replace(finished, place=built.place)


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Prefect home with its database, for `new_home`: a server has made it, for which it takes 13 s of a core.

    It is made once for all test processes, in the folder that they share.
    """
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    ready, unfinished = shared / "database", shared / "database-unfinished"
    with hold_lock(shared / "database.lock"):
        if not ready.exists():
            with server(new_home(unfinished)):
                pass
            unfinished.rename(ready)
    return ready / "home" / "prefect"


@pytest.fixture(scope="session")
def site(database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A home and its server, as a user may have one running: for all runs that are not about a server of their own.

    Others' runs are on record there as well, those of killed commands among them.
    """
    home = new_home(tmp_path_factory.mktemp("site"), database)
    with server(home) as api:
        yield Site(home, api)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, s3_endpoint: str) -> Iterator[DaskCluster]:
    """A Dask cluster of two workers, for all tests; who kills one of its processes starts it again.

    Its workers have the keys of the object store in their environment.
    """
    with dask_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running
