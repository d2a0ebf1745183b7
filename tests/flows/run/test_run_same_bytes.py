"""Same inputs, same bytes: neither workers nor grouping, order, folder, names nor the kind of store decide them."""

import os
import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from small_recipe import Run, World, build_on, fill, live_rows, new_world, run_lock
from tiers import LONG

from corpora.build import Corpus
from corpora.store.digests.content import compute_content, sum_contents
from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, Stage, build_part
from corpora.store.worker_pool import WorkerPool


def test_a_run_is_not_trivial(finished: Run) -> None:
    """Fails if the world has lost a fate: then the equalities below would say less than they seem to."""
    documents = finished.outcome.corpus.ledger.find_account("documents").outcomes
    assert {"removed: exact duplicate", "removed: near duplicate", "removed: superseded"} < set(documents)
    assert min(documents.values()) > 0
    dropped = [m.ledger.find_account("records").sum_outcomes("dropped") for m in finished.outcome.documents]
    assert dropped == [1, 1]  # too short; damaged
    assert [len(stage.manifest.parts) for stage in finished.of("documents")] == [4, 1]
    assert finished.outcome.shards.count_rows("examples") > 100
    splits = {part.labels["split"] for part in finished.outcome.shards.parts}
    assert splits == {"train", "held-out"}


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    """Some workers, which have built before when the second test comes."""
    with WorkerPool(3 if LONG else 2) as started:
        yield started


@pytest.mark.slow
@pytest.mark.parametrize("range_size", [1, pytest.param(2, marks=pytest.mark.long)])
def test_workers_and_grouping_change_no_byte(finished: Run, world: World, pool: WorkerPool, range_size: int) -> None:
    """Fails if a part's bytes depend on its worker, its neighbours in a task, the order of finishing, or on what
    its worker built before."""
    run = world.run(build_on(pool, range_size))
    assert run.bytes() == finished.bytes()
    assert [stage.built for stage in run.stages] == [stage.built for stage in finished.stages]


def test_another_folder_changes_no_byte(finished: Run, world: World, tmp_path: Path) -> None:
    """Fails if a path of the raw files, the recipe or the store gets into a manifest."""
    moved = tmp_path / "elsewhere" / "with a space"
    shutil.copytree(world.folder, moved)
    other = World(folder=moved, text=world.text.replace('"store"', '"other store"'))
    run = other.run()
    assert run.bytes() == finished.bytes()
    for manifest in run.manifests:
        assert (moved / "other store" / manifest.folder / "manifest.json").read_bytes() == manifest.to_bytes()
        assert str(tmp_path).encode() not in manifest.to_bytes()


def test_other_dates_and_order_on_disk_change_no_byte(finished: Run, tmp_path: Path) -> None:
    """Fails if a file's date, or the order in which a folder lists its files, is looked at."""
    world = fill(new_world(tmp_path / "made"))
    shuffled = World(folder=tmp_path / "world", text=world.text)
    files = sorted((world.folder / "raw").rglob("*.jsonl"), reverse=True)
    for number, file in enumerate(files):
        copy = shuffled.folder / file.relative_to(world.folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
        os.utime(copy, (1e9 + number, 1e9 + number))
    assert shuffled.run().bytes() == finished.bytes()


@pytest.mark.parametrize("part_bytes", ["1", "9000", "10000000"])
def test_the_cut_into_parts_changes_no_row(finished: Run, world: World, part_bytes: str) -> None:
    """Fails if a row knows its part, or where the rows' order depends on the cut."""
    run = world.run(documents__part_bytes=part_bytes)
    cut = [len(stage.manifest.parts) for stage in run.of("documents")]
    assert (cut != [4, 1]) == (part_bytes != "1")
    parted = {"corpora", "counts", "tokens", "vocabularies", "measures", "shards"}  # see below
    assert [entry for entry in run.contents() if entry[0].split("/")[0] not in parted] == [
        entry for entry in finished.contents() if entry[0].split("/")[0] not in parted
    ]
    # A row of a corpus says which row of which documents it is: what is read of it must be equal.
    for read in (Corpus.iter_batches, Corpus.iter_removed):
        mine, theirs = (sum_contents(map(compute_content, read(each.corpus))) for each in (run, finished))
        assert mine == theirs and mine.rows
    # Counts are sums a part and tokens are sorted within a part: what is made of them must be equal again.
    for kind in ("vocabularies", "measures", "shards"):
        assert [stage.manifest.tables for stage in run.of(kind)] == [s.manifest.tables for s in finished.of(kind)]


def test_merged_parts_change_no_row(finished: Run, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if many parts, which are merged before they are read, give another vocabulary or other examples."""
    monkeypatch.setattr("corpora.store.merging.MAX_UNMERGED_PARTS", 2)
    monkeypatch.setattr("corpora.store.merging.MIN_PARTS_PER_MERGE", 2)
    monkeypatch.setattr("shards.tokens.TOKENS_PER_RANGE", 500)
    run = world.run()
    assert [len(stage.manifest.parts) for kind in ("totals", "merges") for stage in run.of(kind)] == [3, 3]
    for kind in ("vocabularies", "measures", "tokens", "shards"):
        assert [stage.manifest.tables for stage in run.of(kind)] == [s.manifest.tables for s in finished.of(kind)]
    for stage in run.stages:
        stage.manifest.ledger.check()


def test_names_of_files_enter_no_identity(finished: Run, world: World) -> None:
    """Fails if a file's name or place gets into an id, a text or a verdict. (The locators do name it.)"""
    folder = world.folder / "raw" / "pages"
    for number, file in enumerate(sorted(folder.iterdir())):
        file.rename(folder / f"part-{number:02d}.ndjson")
    run = world.run()
    assert live_rows(run) == live_rows(finished)
    [verdicts], [before] = run.of("verdicts"), finished.of("verdicts")
    assert verdicts.manifest.tables == before.manifest.tables
    assert run.of("documents")[0].manifest.content != finished.of("documents")[0].manifest.content
    assert run.outcome.shards.tables == finished.outcome.shards.tables


def test_a_moved_record_keeps_its_id(finished: Run, world: World) -> None:
    """Fails if the place of a record in its file, or a record inserted before it, changes an id."""
    file = world.folder / "raw" / "notes" / "notes-0.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(["\n", *reversed(lines)]))
    run = world.run()
    assert live_rows(run) == live_rows(finished)
    assert run.outcome.shards.tables == finished.outcome.shards.tables


@pytest.mark.server
def test_an_object_store_holds_the_same_bytes(finished: Run, world: World, s3_store: Place) -> None:
    """Fails if a stage needs something that only a local folder gives, or writes other bytes through it."""
    recipe, lock = world.resolved()
    assert run_lock(s3_store, recipe, lock).bytes() == finished.bytes()
    again = run_lock(s3_store, recipe, lock)
    assert all(stage.reused for stage in again.stages)
    local = finished.place.list_files("shards")
    assert {path: size for path, size in s3_store.list_files("shards").items() if "/parts/" not in path} == {
        path: size for path, size in local.items() if "/parts/" not in path
    }


def test_the_order_of_building_changes_no_byte(finished: Run, world: World) -> None:
    """Fails if a part leaves something in the process that a later part's bytes depend on."""
    draw = random.Random(3)

    def build_shuffled(place: Place, stage: Stage, plans: Sequence[PartPlan]) -> None:
        for plan in draw.sample(plans, len(plans)):
            build_part(place, stage, plan)

    assert world.run(build_shuffled).bytes() == finished.bytes()
