"""The shipped samples of the five sources, two vocabularies and two inputs: the same bytes however they are built."""

from pathlib import Path

import pytest
from small_recipe import build_on, run_lock

from corpora.sources.contract import StatCache
from corpora.store.places.place import Place
from corpora.store.worker_pool import WorkerPool
from flows.recipes.lock import Lock, resolve_raw_files
from flows.recipes.recipe import Recipe, parse_recipe, read_shipped_recipes

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
    text = read_shipped_recipes()["demo"]
    sources = text[: text.index('[[source]]\nkind = "python-docs"')]
    vocabularies = text[text.index("[[vocabulary]]") : text.index("# Two acts for the model")]
    return parse_recipe(
        f"{sources}\n[documents]\npart_bytes = 15_000\n{vocabularies}{SHARDS}", folder / "five.toml", {}
    )


@pytest.mark.server
@pytest.mark.long
def test_workers_ranges_and_the_store_decide_nothing(tmp_path: Path, s3_store: Place) -> None:
    """Fails if a new source, vocabulary or input depends on who builds its parts, in which order, or where to."""
    recipe = five_sources(tmp_path)
    lock = resolve_raw_files(recipe, Lock(), StatCache()).lock
    alone = run_lock(Place(str(tmp_path / "alone")), recipe, lock)
    with WorkerPool(2) as pool:
        shared = run_lock(Place(str(tmp_path / "shared")), recipe, lock, build_on(pool, range_size=1))
    remote = run_lock(s3_store, recipe, lock)
    assert alone.bytes() == shared.bytes() == remote.bytes()
    parts = {m.folder.split("/")[1]: len(m.parts) for m in alone.manifests if m.kind == "documents"}
    assert len(parts) == 5 and parts["wikipedia"] > 1 and parts["bookcorpus"] > 1
    kinds = [(m.kind, m.name) for m in alone.manifests]
    assert {("shards", "demo-pairs"), ("shards", "demo-prose"), ("vocabularies", "demo-byte-bpe")} <= set(kinds)
