"""A store that was kept as an earlier version wrote it: all of it is found again, and a run builds nothing."""

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kept_store import WITH_TEXTS, unpacked_store, use_libraries_of
from small_recipe import World, stages_without

from corpora.build import Corpus
from corpora.store.digests.content import compute_content, sum_contents
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, Stage, list_manifests
from flows.export.export import ExportSettings, write_export
from flows.run.addresses import Artifact
from flows.run.record.run_record import collect_raw_paths, iter_raw_files, list_run_ids, read_recorded_lock
from shards.metadata import METADATA_KEY
from shards.reading.files.shard_set import ShardSet


def contents(store: Path) -> dict[str, bytes]:
    return {str(path.relative_to(store)): path.read_bytes() for path in sorted(store.rglob("*")) if path.is_file()}


def manifests(store: Path) -> list[Manifest]:
    """Every published artifact of the store."""
    stages = sorted({path.relative_to(store).parts[:2] for path in store.rglob("manifest.json")})
    return [manifest for kind, name in stages for manifest in list_manifests(Place(str(store)), kind, name)]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """The world of the kept store, unpacked."""
    recipe_path, store = unpacked_store(tmp_path / "world")
    use_libraries_of(store, monkeypatch)
    return World(folder=recipe_path.parent, text=recipe_path.read_text(encoding="utf-8"))


def test_a_run_on_the_kept_store_builds_nothing(world: World) -> None:
    """Fails if a stage has another identity than it had, or what the store says of it is not understood."""
    before = contents(world.folder / "store")

    def refuse(place: Place, stage: Stage, plans: Sequence[PartPlan]) -> None:
        assert not plans, f"{stage.stage_folder} is built again"

    run = world.run(refuse)
    looked_at = {stage.stage.kind for stage in run.stages}
    assert looked_at | {"documents", "signatures"} == {
        *stages_without("fits", "tasks", "answers")
    }  # the two are settled
    assert contents(world.folder / "store") == before


def test_the_runs_of_the_kept_store_find_their_raw_files(world: World) -> None:
    """Fails if the records say where the raw files lay when the store was made, not where they are now."""
    runs = list_run_ids(world.place)
    assert len(runs) == 3
    for run_id in runs:
        paths = collect_raw_paths(read_recorded_lock(world.place, run_id))
        assert len(paths) >= 5
        for sha256, path in paths.items():
            _, found = next(iter_raw_files(world.place, sha256))
            assert str(found) == path and found.is_relative_to(world.folder)


def corpus_rows(world: World) -> dict[int, list[str]]:
    """The contents of all rows of the store's corpora, as they are read, by the number of their generations."""
    found: dict[int, list[str]] = {}
    for manifest in list_manifests(world.place, "corpora", "small"):
        rows = sum_contents(map(compute_content, Corpus(world.place, manifest).iter_batches()))
        found.setdefault(int(manifest.facts["generations"]), []).append(str(rows))
    return found


def test_a_store_whose_corpora_hold_texts_is_read_and_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if older corpora read otherwise than new ones, or more is built again than what their rows decide."""
    recipe_path, store = unpacked_store(tmp_path / "world", WITH_TEXTS)
    use_libraries_of(store, monkeypatch)
    world = World(folder=recipe_path.parent, text=recipe_path.read_text(encoding="utf-8"))
    before, older = contents(store), corpus_rows(world)
    older_shards = {(made.name, made.content) for made in manifests(store) if made.kind == "shards"}
    assert {*older} == {1, 2, 3} and all(len(rows) == 1 for rows in older.values())
    run = world.run()
    assert {stage.stage.kind for stage in run.stages if stage.built} == {
        "documents",
        "verdicts",
        "corpora",
        "counts",
        "tokens",
        "shards",  # with equal rows: its files name their vocabulary since
    }
    shards = {(made.name, made.content) for made in run.manifests if made.kind == "shards"}
    assert len(shards) == 2 and shards <= older_shards
    assert {path: data for path, data in contents(store).items() if path in before} == before
    assert corpus_rows(world) == {number: rows * 2 for number, rows in older.items()}


def test_older_shards_are_read_and_exported(world: World, tmp_path: Path) -> None:
    """Fails if files that say nothing of their vocabulary, next to others in one folder, are not read as before."""
    made = [made for made in manifests(world.folder / "store") if made.kind == "shards"]
    assert len(made) > 2
    for number, shards in enumerate(made):
        files = [file.path for part in shards.parts for file in part.files if file.table == "examples"]
        path = world.folder / "store" / shards.stage_folder / files[0]
        assert pa.ipc.open_file(path).schema.metadata is None
        live = list(ShardSet(world.place, shards).iter_live_examples())
        write_export(Artifact(place=world.place, manifest=shards), tmp_path / str(number), ExportSettings())
        found = pq.read_table(sorted((tmp_path / str(number) / "data").glob("train-*"))[0])
        assert found.column("example_id").to_pylist() == [example.example_id for example in live] != []
        assert json.loads(found.schema.metadata[METADATA_KEY])["vocabulary"]["size"] == shards.facts["vocab_size"]
