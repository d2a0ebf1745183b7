"""A damaged store under Prefect, and what tasks are given: the command in a process of its own, with a server."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from launched import LONG, Site, cloze, environment
from small_recipe import Run, World

from corpora.store.places.place import Place
from flows.run.record.run_record import StageRecord, list_runs, read_run

pytestmark = [pytest.mark.slow, pytest.mark.server]

SMALL = 20_000  # bytes: of a small run; what tasks are given grows with the parts that they are about


@pytest.fixture
def copy(finished: Run, tmp_path: Path) -> World:
    """A copy of the finished run, whose store may be damaged."""
    assert finished.recipe.path is not None
    shutil.copytree(finished.recipe.path.parent, tmp_path / "world", copy_function=shutil.copy2)
    return World(folder=tmp_path / "world")


def stages(place: Place) -> dict[str, StageRecord]:
    """The stages of the newest run on record."""
    record = read_run(place, list_runs(place)[-1])
    assert record.state == "completed"
    found = {f"{stage.kind}/{stage.name}": stage for stage in record.stages}
    assert len(found) == len(record.stages)
    return found


def flip(file: Path) -> None:
    """Change bits all over a file."""
    data = bytearray(file.read_bytes())
    for at in range(50, len(data), 97):
        data[at] ^= 4
    file.write_bytes(data)


def test_a_run_mends_what_it_meets(finished: Run, copy: World, site: Site) -> None:
    """Fails where a worker's word of a damaged file does not reach the run, or its record and report do not say it."""
    store = Path(copy.place.address)
    part = finished.manifest("tokens").parts[2]
    [file] = [file.path for file in part.files if file.table == "tokens"]
    path = f"tokens/small/{file}"
    flip(store / path)
    shutil.rmtree(store / "shards")
    done = cloze(site.home, "run", str(copy.recipe_path), "--workers", "1", api=site.api)
    assert done.returncode == 0, done.stdout
    said = " ".join(done.stdout.split())
    assert said.count(f"{path} is damaged: ") == 1 and "It is built again." in said
    found = stages(copy.place)
    [name] = [stage for stage, record in found.items() if record.state == "built" and stage != "shards/small"]
    mended = found[name]
    assert (name, mended.parts_built, mended.parts) == ("tokens/small", 1, len(finished.manifest("tokens").parts))
    assert mended.reason.startswith(f"files are missing or damaged in parts {part.name} ({Path(file).name}: ")
    shards = found["shards/small"]
    assert (shards.state, shards.parts_built, shards.reason) == ("built", shards.parts, "new")
    [report] = (store / "runs").glob("*/report.html")
    assert f"damaged in parts {part.name}" in report.read_text()
    for manifest in finished.manifests:
        assert (store / manifest.folder / "manifest.json").read_bytes() == manifest.to_bytes()
        for one in (one for p in manifest.parts for one in p.paths):
            assert (store / manifest.stage_folder / one).read_bytes() == Path(
                finished.place.full_path(f"{manifest.stage_folder}/{one}")
            ).read_bytes()


@pytest.mark.long
def test_what_a_task_is_given_can_be_sent_anywhere(copy: World, site: Site, tmp_path: Path) -> None:
    """Fails where a parameter holds a pool, a lock or a function of the driver, or grows with what it does not need.

    Each task works on what came out of the pickle, so nothing that it needs was left behind.
    """
    shutil.rmtree(Path(copy.place.address) / "verdicts")
    shutil.rmtree(Path(copy.place.address) / "tokens")
    noted = tmp_path / "noted.jsonl"
    arguments = ["run", str(copy.recipe_path), "--workers", "2"]
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("noted_parameters.py")), str(noted), *arguments],
        cwd=site.home,
        env={**environment(site.home, site.api), "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LONG,
    )
    assert done.returncode == 0, done.stdout
    lines = [json.loads(line) for line in noted.read_text().splitlines()]
    assert {(line["task"], line["given"]) for line in lines} == {
        ("build_range", "PartsWork"),
        ("publish_stage", "PublishWork"),
        ("reuse_stage", "ReuseWork"),
    }
    counted, found = Counter(line["task"] for line in lines), stages(copy.place)
    assert counted["publish_stage"] == sum(stage.state == "built" for stage in found.values()) == 2
    assert counted["reuse_stage"] == sum(stage.state == "reused" for stage in found.values())
    assert 0 < max(line["bytes"] for line in lines) < SMALL
