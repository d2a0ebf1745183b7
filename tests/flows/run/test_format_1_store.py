"""A store that was kept as format 1 wrote it: all of it is found again, and a run builds nothing.

This version only refuses it: what needs a store of today's format is expected to fail, until a command makes it one.
"""

import json
from pathlib import Path

import pytest
from format_1_store import unpacked_format_1_store, use_libraries_of
from small_recipe import World

from corpora.errors import InputError
from corpora.store.manifest import Manifest
from corpora.store.places import Place
from corpora.store.stage import list_manifests
from flows.command.verifying import find_faults
from flows.run.addresses import Artifact
from flows.run.pipeline import stages_without
from flows.run.records import find_raw_file, list_runs, raw_paths, recorded_lock

NOT_YET = pytest.mark.xfail(raises=InputError, strict=True, reason="no command brings a store of format 1 to format 2")


def contents(store: Path) -> dict[str, bytes]:
    return {str(path.relative_to(store)): path.read_bytes() for path in sorted(store.rglob("*")) if path.is_file()}


def manifests(store: Path) -> list[Manifest]:
    """Every published artifact of the store."""
    stages = sorted({path.relative_to(store).parts[:2] for path in store.rglob("manifest.json")})
    return [manifest for kind, name in stages for manifest in list_manifests(Place(str(store)), kind, name)]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """The world of the kept store, unpacked."""
    recipe_path, store = unpacked_format_1_store(tmp_path / "world")
    use_libraries_of(store, monkeypatch)
    return World(folder=recipe_path.parent, text=recipe_path.read_text(encoding="utf-8"))


def test_a_store_of_format_1_is_refused_whole(world: World) -> None:
    """Fails where a run builds over what it cannot read, or does not say what makes it readable."""
    before = contents(world.folder / "store")
    with pytest.raises(InputError, match=r"is of format 1.*`cloze verify --stamp STORE`"):
        world.run()
    assert contents(world.folder / "store") == before


@NOT_YET
def test_a_run_on_the_kept_store_builds_nothing(world: World) -> None:
    """Fails where a stage has another identity than it had, or what the store says of it is not understood."""
    store = world.folder / "store"
    before = contents(store)
    run = world.run()
    assert {stage.stage.kind for stage in run.stages} == set(stages_without("fits"))
    assert [(stage.stage.stage_folder, stage.reason) for stage in run.stages if not stage.reused] == []
    assert [stage.built for stage in run.stages if stage.built] == []
    assert len(run.lock.generations) == 3
    assert contents(store) == before


@NOT_YET
def test_the_kept_store_has_what_a_store_comes_to_hold(world: World) -> None:
    """Fails where it lacks parts that are pointed to, deleted and revived rows, or a part that nobody published."""
    place, found = world.place, manifests(world.folder / "store")
    assert [fault for manifest in found for fault in find_faults(Artifact(place=place, manifest=manifest))] == []
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
