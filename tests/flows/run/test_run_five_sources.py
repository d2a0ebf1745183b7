"""The shipped samples of the five sources, two vocabularies and two inputs: the same bytes however they are built."""

from pathlib import Path

import pytest
from small_recipe import Run, build_here, build_on, run_lock

from corpora.sources.contract import StatCache
from corpora.store.manifest import Manifest, is_record
from corpora.store.places.place import Place
from corpora.store.stage import MANIFEST, build_stage
from corpora.store.workers.pool import WorkerPool
from flows.recipes.lock import Lock, resolve
from flows.recipes.recipe import Recipe, parse_recipe, shipped_recipes

pytestmark = pytest.mark.slow

SHARDS = """
[[shards]]
name = "pairs"
vocabulary = "wordpiece"
[[shards]]
name = "prose"
vocabulary = "byte-bpe"
sources = ["stories", "bookcorpus"]
input = "full-sentences"
"""


def five_sources(folder: Path) -> Recipe:
    """The demo's sources without the documentation of this Python, in small parts; no model."""
    text = shipped_recipes()["demo"]
    sources = text[: text.index('[[source]]\nkind = "python-docs"')]
    vocabularies = text[text.index("[[vocabulary]]") : text.index("# Two acts for the model")]
    return parse_recipe(
        f"{sources}\n[documents]\npart_bytes = 15_000\n{vocabularies}{SHARDS}", folder / "five.toml", {}
    )


def contents(manifests: list[Manifest]) -> list[tuple[str, dict[str, str]]]:
    return [(m.folder, {table: str(content) for table, content in m.tables.items()}) for m in manifests]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """All of it, built part by part in this process."""
    folder = tmp_path_factory.mktemp("five")
    recipe = five_sources(folder)
    return run_lock(Place(str(folder / "alone")), recipe, resolve(recipe, Lock(), StatCache()).lock, build_here)


@pytest.mark.server
@pytest.mark.long
def test_workers_ranges_and_the_store_decide_nothing(alone: Run, tmp_path: Path, s3_store: Place) -> None:
    """Fails where a new source, vocabulary or input depends on who builds its parts, in which order, or where to."""
    recipe, lock = alone.recipe, alone.lock
    with WorkerPool(2) as pool:
        shared = run_lock(Place(str(tmp_path / "shared")), recipe, lock, build_on(pool, range_size=1))
    remote = run_lock(s3_store, recipe, lock)
    assert contents(alone.manifests) == contents(shared.manifests) == contents(remote.manifests)
    assert alone.bytes() == shared.bytes() == remote.bytes()
    parts = {m.folder.split("/")[1]: len(m.parts) for m in alone.manifests if m.kind == "documents"}
    assert len(parts) == 5 and parts["wikipedia"] > 1 and parts["bookcorpus"] > 1
    kinds = [(m.kind, m.name) for m in alone.manifests]
    assert {("shards", "demo-pairs"), ("shards", "demo-prose"), ("vocabularies", "demo-byte-bpe")} <= set(kinds)


def test_an_interrupted_build_goes_on(alone: Run, tmp_path: Path) -> None:
    """Fails where finished parts of a new stage are built again, or what is left makes other rows."""
    place, last = Place(str(tmp_path / "cut")), alone.stages[-1].stage
    for stage in (run.stage for run in alone.stages):  # every one was published, but for the last, which lacks a part
        build_here(place, stage, stage.parts[:-1])
        if stage is not last:
            build_stage(place, stage)
    for path in place.sizes(""):  # now all that is left are parts and their records
        if path.endswith(f"/{MANIFEST}"):
            place.delete(path)
    again = run_lock(place, alone.recipe, alone.lock)
    assert again.bytes() == alone.bytes()
    assert [run.built for run in again.stages] == [()] * (len(alone.stages) - 1) + [(last.parts[-1].name,)]
    assert len(list(filter(is_record, place.sizes("")))) > 30
