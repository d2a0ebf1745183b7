"""A store of format 1, with the recipe and the raw files that it was made of, kept as the program wrote it.

    recipe_path, store = unpacked_format_1_store(tmp_path)
    use_libraries_of(store, monkeypatch)         stages are the same ones whatever is installed here, and whatever
                                                 versions they have had since

It has what a store comes to hold: three generations (pages and notes; new and revised pages, a copy that is revived;
a forget), so parts that newer artifacts point to, `deleted` and `changes`; two shard sets; a model of one layer; the
records of the three runs; and in `signatures/pages` one part of an artifact that was never published.

What is in ARCHIVE cannot be made again by a program that writes another format. It was made at commit b9f7cfd by

    PYTHONPATH=.:tests/flows python tests/flows/format_1_store.py tests/flows/run/cases/format_1_store.tar.xz

In the archive the folder that everything lay in is called FOLDER; checkpoints of the training are left out.
"""

import json
import sys
import tarfile
import tempfile
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from small_recipe import World, fill, first_pages, live_texts, nearly, new_world, page, prose

from corpora.schema import keyed_id
from corpora.store.places import Place
from corpora.store.stage import PartPlan, Stage, build_parts
from corpora.tombstones import Tombstones, text_hash, write_tombstones
from flows.recipes.lock import write_lock
from flows.run.records import begin_run, write_run

ARCHIVE = Path(__file__).parent / "run" / "cases" / "format_1_store.tar.xz"
FOLDER = "/the/folder/of/the/recipe"
# The versions of stages whose output has changed since.
RAISED = {
    "documents": "corpora.judging.documents.BUILD_VERSION",
    "signatures": "corpora.duplicates.build.SIGNATURES_VERSION",
    "shards": "shards.build.BUILD_VERSION",
    "models": "trainer.build.BUILD_VERSION",
}

RECIPE = """
name = "small"
store = "store"

[[source]]
kind = "files"
name = "pages"
path = "raw/pages"
fields = { text = "body", key = "id", revision = "revision", title = "title", group = "author" }

[[source]]
kind = "files"
name = "notes"
path = "raw/notes"
fields = { text = "body", title = "title" }

[documents]
part_bytes = 4000
max_damaged_share = 0.1

# The prose made here has few words, so it says the same things again and again.
[rules]
repetition.enabled = false

[held_out]
share = 0.2

[vocabulary]
size = 300

[[shards]]
name = "pairs"
length = 64
target_tokens = 2000
masking = { kind = "static", unit = "whole-word" }

[[shards]]
name = "packed"
input = "full-sentences"
length = 64
sources = ["pages"]

[model]
layers = 1
hidden_size = 16
heads = 2
feed_forward_size = 32
max_length = 64

[training]
learning_rate = 1e-3

[[training.phase]]
shards = "pairs"
steps = 20
batch = 8
"""


def unpacked_format_1_store(folder: Path) -> tuple[Path, Path]:
    """Unpack into an empty folder; the recipe's path, and the store's. Its lock and its raw files are next to it."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    for path in _with_paths(folder):
        path.write_text(path.read_text(encoding="utf-8").replace(FOLDER, str(folder)), encoding="utf-8")
    return folder / "small.toml", folder / "store"


def use_libraries_of(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan stages as with the libraries and at the versions that the store was made with, so that they have the
    fingerprints they had.
    """
    versions: dict[str, str] = {}
    for path in sorted(store.rglob("manifest.json")):
        manifest = json.loads(path.read_bytes())
        versions |= manifest["libraries"]
        if manifest["kind"] in RAISED:
            monkeypatch.setattr(RAISED[manifest["kind"]], manifest["build_version"])
    unicode = versions.pop("unicode")
    monkeypatch.setattr("corpora.store.stage.version", versions.__getitem__)
    monkeypatch.setattr("corpora.judging.documents.unidata_version", unicode)
    monkeypatch.setattr("corpora.duplicates.build.UNICODE", {})  # what a word is did not depend on it
    monkeypatch.setattr(unicodedata, "unidata_version", unicode)


def _with_paths(folder: Path) -> Iterator[Path]:
    """The files that say where things lay: records of runs."""
    yield from (path for name in ("raw.json", "run.json") for path in sorted(folder.glob(f"store/runs/*/{name}")))


# How it was made.


def make(archive: Path) -> None:
    """Three runs and one that is interrupted, packed."""
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "world"
        world = fill(new_world(folder, RECIPE))
        survivor = _run(world, 1)
        _put_second_generation(world, survivor)
        _run(world, 2)
        _forget(world)
        _run(world, 3)
        _begin_another(world)
        for path in _with_paths(folder):
            path.write_text(path.read_text(encoding="utf-8").replace(str(folder), FOLDER), encoding="utf-8")
        paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and "work" not in path.parts)
        with tarfile.open(archive, "w:xz", preset=9) as packed:
            for path in paths:
                packed.add(path, str(path.relative_to(folder)), filter=_of_nobody)


def _of_nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mtime = entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _run(world: World, number: int) -> int:
    """Run, with a record in the store. Returns the page that is kept of the two that have one text."""
    run = world.run()
    begin_run(world.place, _run_id(number), run.recipe)
    write_run(world.place, replace(run.record, run_id=_run_id(number)), run.lock)
    return 5 if keyed_id("pages", "5") in live_texts(run) else 101


def _run_id(number: int) -> str:
    return f"2026010{number}T000000000000-small"


def _put_second_generation(world: World, survivor: int) -> None:
    """New pages, revised ones, unchanged ones, and a copy. The survivor of two equal pages is one of the revised."""
    new = [page(str(n), prose(n), author=f"author {n % 5}") for n in range(200, 212)]
    revised = [page("3", prose(903), revision=2, author="author 0"), page(str(survivor), prose(905), revision=2)]
    same = [*first_pages(0)[6:8], page("8", prose(8), revision=9)]
    world.put("pages", "pages-9", [*new, *revised, *same, page("212", nearly(prose(100, 40)))])


def _forget(world: World) -> None:
    """Forget a page, as a generation of its own."""
    forgotten = [(keyed_id("pages", "7"), text_hash(prose(7).encode()))]
    write_tombstones(world.place, "small", Tombstones(key="5a" * 16).with_documents(forgotten, generation=3))
    recipe, lock = world.resolved()
    assert recipe.lock_path is not None
    write_lock(recipe.lock_path, replace(lock, generations=(*lock.generations, {})))


class _Interrupted(Exception):
    """One part is built."""


def _begin_another(world: World) -> None:
    """Build one part of other signatures."""

    def build_one(place: Place, stage: Stage, plans: Sequence[PartPlan]) -> None:
        if plans:
            build_parts(place, stage, plans[:1])
            raise _Interrupted

    with pytest.raises(_Interrupted):
        world.run(build_one, duplicates__shingle_words="6")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
