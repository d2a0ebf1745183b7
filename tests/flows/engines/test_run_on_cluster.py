"""A recipe with all stages up to shards on a cluster: the bytes of a run without one, whatever happens on the way."""

import shutil
import threading
from pathlib import Path

import pytest
from faulty_proxy import faulty_proxy
from small_cluster import DaskCluster
from small_recipe import RECIPE, Build, Run, World, build_on, new_world, run_lock

from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, Stage, survey_stage
from corpora.store.worker_pool import WorkerLimits, WorkerPool
from flows.engines.open_engine import open_engine
from flows.engines.worker_checks import SharedPaths

pytestmark = pytest.mark.server


def sight_of(place: Place) -> SharedPaths:
    """Return what a worker of this machine sees of a store."""
    place.write("runs/1/recipe.toml", b"name = 'small'")
    return SharedPaths.from_sources(place, "runs/1/recipe.toml", {})


def run_on(cluster: DaskCluster, world: World, place: Place, before: Build = lambda place, stage, plans: None) -> Run:
    """Run a world's recipe on the cluster. before: called before each stage is built"""
    recipe, lock = world.resolved()
    with open_engine(cluster.address, 1, WorkerLimits(), print, lambda: sight_of(place)) as engine:
        on_engine = build_on(engine)

        def build(place: Place, stage: Stage, plans: list[PartPlan]) -> None:
            before(place, stage, plans)
            on_engine(place, stage, plans)

        return run_lock(place, recipe, lock, build)  # type: ignore[arg-type]


def files_of(place: Place, manifests: list[Manifest]) -> dict[str, int]:
    """Every file that the manifests name, as it is in the store: path -> size."""
    found = place.list_files("")
    return {
        path: found[path]
        for manifest in manifests
        for part in manifest.parts
        for path in (f"{manifest.stage_folder}/{file.path}" for file in part.files)
    }


def test_a_cluster_makes_the_bytes_of_one_process(cluster: DaskCluster, world: World, finished: Run) -> None:
    """Fails if a stage needs something that only a process of this machine has, or is built elsewhere otherwise."""
    run = run_on(cluster, world, world.place)
    assert run.bytes() == finished.bytes()
    assert files_of(world.place, run.manifests) == files_of(finished.place, finished.manifests)


@pytest.mark.long
def test_a_cluster_that_is_disturbed_makes_the_same_bytes(cluster: DaskCluster, world: World, finished: Run) -> None:
    """Every manifest, with the sha256 of every file; a pool builds in the same store at once, with no word between
    them, and a worker is killed on the way. What one has finished when the other surveys is not built twice."""
    kill = threading.Timer(0.3, cluster.kill, ("worker-1",))
    runs: dict[str, Run] = {}

    def run_here() -> None:
        recipe, lock = world.resolved()
        with WorkerPool(1) as pool:
            runs["pool"] = run_lock(world.place, recipe, lock, build_on(pool))

    here = threading.Thread(target=run_here)

    def disturb(place: Place, stage: Stage, plans: object) -> None:
        if stage.kind == "corpora" and here.ident is None:
            here.start()
        if stage.kind == "tokens" and kill.ident is None:
            kill.start()

    try:
        runs["cluster"] = run_on(cluster, world, world.place, disturb)
    finally:
        if kill.ident is not None:
            kill.join()
            cluster.start_worker("worker-1")
    here.join()
    assert len(runs["cluster"].manifests) > 8
    assert runs["pool"].bytes() == runs["cluster"].bytes() == finished.bytes()
    assert files_of(world.place, runs["pool"].manifests) == files_of(finished.place, finished.manifests)
    assert [stage for stage in runs["pool"].of("documents") if stage.built] == []
    assert not survey_stage(world.place, runs["cluster"].of("shards")[-1].stage).missing


@pytest.mark.long
def test_a_cluster_reads_and_writes_objects_alone(
    cluster: DaskCluster, world: World, finished: Run, s3_store: Place, s3_endpoint: str, tmp_path: Path
) -> None:
    """Raw files and store in an object store that answers slowly, at times with a 503, or hangs up."""
    raw = world.folder / "raw"
    for path in raw.rglob("*.jsonl"):
        s3_store.write(f"raw/{path.relative_to(raw).as_posix()}", path.read_bytes())
    shutil.rmtree(raw)
    with faulty_proxy(s3_endpoint) as proxy:
        far = Place(s3_store.address.replace(s3_endpoint, proxy.address))
        text = RECIPE.replace('"raw/pages"', f'"{far.to_address("raw/pages")}"').replace(
            '"raw/notes"', f'"{far.to_address("raw/notes")}"'
        )
        there = new_world(tmp_path / "far", text)
        proxy.pause = 0.0001
        proxy.faults = [*(["", "", "", "busy", "", "", "reset"] * 12)]
        run = run_on(cluster, there, Place(far.to_address("store")))
        assert run.bytes() == finished.bytes()
        assert not proxy.faults
    assert not list(tmp_path.rglob("*.arrow")), "something was built on this machine"
