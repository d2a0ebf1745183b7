"""A store that was kept as format 1 wrote it: brought to format 2, all of it is found again; a run builds nothing."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from format_1_store import unpacked_format_1_store, use_libraries_of
from small_recipe import World

from corpora.duplicates.build import SIGNATURES_VERSION  # before a test sets another
from corpora.errors import InputError
from corpora.store.manifest import Manifest
from corpora.store.migration import Migration, migrate_store
from corpora.store.places import Place
from corpora.store.stage import PartPlan, Stage, list_manifests
from corpora.store.tables import rows_between
from flows.integrity.faults import faults_of
from flows.run.pipeline import stages_without
from flows.run.records import find_raw_file, list_runs, raw_paths, recorded_lock


def contents(store: Path) -> dict[str, bytes]:
    return {str(path.relative_to(store)): path.read_bytes() for path in sorted(store.rglob("*")) if path.is_file()}


def manifests(store: Path) -> list[Manifest]:
    """Every published artifact of the store."""
    stages = sorted({path.relative_to(store).parts[:2] for path in store.rglob("manifest.json")})
    return [manifest for kind, name in stages for manifest in list_manifests(Place(str(store)), kind, name)]


@pytest.fixture
def old_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """The world of the kept store, unpacked."""
    recipe_path, store = unpacked_format_1_store(tmp_path / "world")
    use_libraries_of(store, monkeypatch)
    return World(folder=recipe_path.parent, text=recipe_path.read_text(encoding="utf-8"))


@pytest.fixture
def world(old_world: World) -> World:
    """The same world, with its store brought to format 2."""
    migrate_store(old_world.place)
    return old_world


def test_a_store_of_format_1_is_refused_whole(old_world: World) -> None:
    """Fails where a run builds over what it cannot read, or does not say what makes it readable."""
    before = contents(old_world.folder / "store")
    with pytest.raises(InputError, match=r"is of format 1.*`cloze verify --stamp STORE`"):
        old_world.run()
    assert contents(old_world.folder / "store") == before


def test_what_came_out_stays_what_it_was(old_world: World) -> None:
    """Fails where a migration leaves an artifact out, changes what it says came out, or touches a file of data."""
    store = old_world.folder / "store"
    before = contents(store)
    old = {path: json.loads(data) for path, data in before.items() if path.endswith("manifest.json")}
    done = migrate_store(old_world.place)
    assert (done.artifacts, done.faults, done.left, done.given_up) == (len(old), (), (), ())
    assert len(manifests(store)) == len(old) > 15
    for manifest in manifests(store):
        said = old[f"{manifest.folder}/manifest.json"]
        assert (manifest.fingerprint, manifest.content) == (said["fingerprint"], said["content"])
        assert manifest.ledger.to_json() == said["ledger"]
    after = contents(store)
    changed = {path for path in before | after if before.get(path) != after.get(path)}
    assert {path.rsplit("/", 1)[1] for path in changed if "/parts/" not in path} == {"manifest.json"}


def test_a_migrated_store_is_left_alone(world: World) -> None:
    """Fails where a second migration writes anything."""
    before = contents(world.folder / "store")
    assert migrate_store(world.place) == Migration(artifacts=0, parts=0, given_up=(), faults=(), left=())
    assert contents(world.folder / "store") == before


def test_a_shard_finds_its_rows_in_migrated_tokens(world: World) -> None:
    """Fails where the records do not tell the first and last key of each batch, by which shards find their rows."""
    tokens = [manifest for manifest in manifests(world.folder / "store") if manifest.kind == "tokens"]
    parts = [(manifest, part) for manifest in tokens for part in manifest.parts if part.rows("tokens")]
    assert len(parts) > 5
    for manifest, part in parts:
        rows = rows_between(world.place, manifest.stage_folder, part, "tokens", 0, 2**64 - 1)
        assert rows == range(part.rows("tokens"))


class _BuiltFirst(Exception):
    """A stage has parts to build."""


def test_a_run_on_the_kept_store_builds_nothing_before_its_shards(world: World) -> None:
    """Fails where a stage has another identity than it had, or what the store says of it is not understood.

    Shards of that time say in another way which document a segment is of, so they are built again.
    """
    store = world.folder / "store"
    before = contents(store)
    reused: list[str] = []

    def stop(place: Place, stage: Stage, plans: Sequence[PartPlan]) -> None:
        if plans:
            assert stage.kind == "shards" and len(plans) == len(stage.parts)
            raise _BuiltFirst
        reused.append(stage.kind)

    with pytest.raises(_BuiltFirst):
        world.run(stop)
    assert set(reused) == set(stages_without("fits", "shards", "models"))
    assert contents(store) == before


def test_a_run_sketches_again_what_was_sketched_by_another_version(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails where old sketches are compared with new ones, or a document is built again for it."""
    monkeypatch.setattr("corpora.duplicates.build.SIGNATURES_VERSION", SIGNATURES_VERSION)

    def stop(place: Place, stage: Stage, plans: Sequence[PartPlan]) -> None:
        if plans:
            assert stage.kind == "signatures" and len(plans) == len(stage.parts)
            raise _BuiltFirst

    with pytest.raises(_BuiltFirst):
        world.run(stop)


def test_the_kept_store_has_what_a_store_comes_to_hold(world: World) -> None:
    """Fails where it lacks parts that are pointed to, deleted and revived rows, or a part that nobody published."""
    place, found = world.place, manifests(world.folder / "store")
    assert [fault for manifest in found for fault in faults_of(place, manifest)] == []
    files = [file.path for manifest in found for part in manifest.parts for file in part.files]
    assert len(files) > len(set(files)) > 50
    newest = next(m for m in found if m.kind == "corpora" and m.facts["generations"] == 3)
    assert newest.rows("deleted") > 1 and newest.ledger.figures["revived documents"] == 1
    assert place.size("corpora/small/tombstones.json")
    published = {part.fingerprint for manifest in found for part in manifest.parts}
    records = [json.loads(path.read_bytes()) for path in world.folder.glob("store/*/*/*/parts/*.json")]
    assert len({record["fingerprint"] for record in records} - published) == 1


def test_the_runs_of_the_kept_store_find_their_raw_files(world: World) -> None:
    """Fails where the records say where the raw files lay when the store was made, not where they are now."""
    runs = list_runs(world.place)
    assert len(runs) == 3
    for run_id in runs:
        paths = raw_paths(recorded_lock(world.place, run_id))
        assert len(paths) >= 5
        for sha256, path in paths.items():
            found = find_raw_file(world.place, sha256)
            assert found is not None and str(found[1]) == path and found[1].is_relative_to(world.folder)
