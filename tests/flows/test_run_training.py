"""A recipe with a model, as a user runs it: from raw files to weights, through kills, on an object store, once."""

import json
import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the trainer is not installed")
from launched import cloze, left, new_home, start, wait_until
from small_recipe import RECIPE, World, fill, new_world

from corpora.store.manifest import Manifest
from corpora.store.places import Place
from corpora.store.stage import list_manifests
from flows.addresses import Artifact
from flows.verifying import find_faults

pytestmark = [pytest.mark.slow, pytest.mark.server]

STEPS = 60
MODEL = f"""
[model]
layers = 1
hidden_size = 32
heads = 2
feed_forward_size = 64
max_length = 64

[training]
learning_rate = 1e-3
checkpoint_every = 10
evaluate_every = 20

[[training.phase]]
steps = {STEPS}
batch = 8
"""
GONE_SECONDS = 20


def trained_world(folder: Path, more: str = "") -> World:
    """The small recipe with a model of one layer."""
    text = RECIPE.replace("part_bytes = 4000", "part_bytes = 4000\nmax_damaged_share = 0.1") + MODEL + more
    world = World(folder=fill(new_world(folder)).folder, text=text)
    world.recipe_path.write_text(text, encoding="utf-8")
    return world


def command(world: World, *more: str) -> list[str]:
    return ["run", str(world.recipe_path), "--own-server", *more]


def model_of(place: Place) -> Manifest:
    """The one model of a store, whose files are whole."""
    [manifest] = list_manifests(place, "models", "small")
    assert not list(find_faults(Artifact(place=place, manifest=manifest)))
    return manifest


def work_of(world: World) -> Path | None:
    """Where the model is trained, once it has begun."""
    found = list((world.folder / "store" / "models" / "small").glob("*/work"))
    return found[0] if found else None


def events(world: World) -> list[Mapping[str, Any]]:
    work = work_of(world)
    path = work / "metrics.jsonl" if work is not None else None
    return [json.loads(line) for line in path.read_text().splitlines()] if path is not None and path.exists() else []


def test_from_raw_files_to_a_model(tmp_path: Path) -> None:
    """Fails where the run ends without a model that holds everything, tells nothing of it, or trains it again."""
    home, world = new_home(tmp_path), trained_world(tmp_path / "world")
    done = cloze(home, *command(world))
    assert done.returncode == 0, done.stdout
    manifest = model_of(world.place)
    names = {Path(file.path).name for part in manifest.parts for file in part.files}
    assert {"config.json", "model.safetensors", "tokenizer.json", "vocab.txt"} <= names
    slots = manifest.ledger.account("slots")
    assert slots.total == STEPS * 8 == slots.outcomes["read"]
    assert [e["step"] for e in events(world) if e["event"] == "evaluation"] == [20, 40, 60]
    assert "models/small" in done.stdout and "✓ nothing is unaccounted for" in done.stdout
    assert "held out" in Path(done.stdout.split("Report:")[1].split()[0]).read_text()
    before = (Path(world.place.full_path(manifest.folder)) / "model.safetensors").stat().st_mtime_ns
    again = cloze(home, *command(world))
    assert again.returncode == 0 and "models/small                     reused" in again.stdout, again.stdout
    assert (Path(world.place.full_path(manifest.folder)) / "model.safetensors").stat().st_mtime_ns == before


def test_a_killed_training_goes_on_and_ends_the_same(tmp_path: Path) -> None:
    """Fails where a kill in mid-training loses the checkpoints, leaves a process behind, or changes a weight."""
    home = new_home(tmp_path)
    calm, tried = (trained_world(tmp_path / name) for name in ("calm", "tried"))
    done = cloze(home, *command(calm))
    assert done.returncode == 0, done.stdout
    process = start(home, *command(tried))
    assert wait_until(lambda: any(e["event"] == "checkpoint" for e in events(tried)) or process.poll() is not None, 240)
    assert process.poll() is None and process.stdout is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not left(process.pid, GONE_SECONDS)
    process.stdout.close()
    reached = max(e["step"] for e in events(tried))
    assert 10 <= reached < STEPS, "it was killed before its first checkpoint, or too late"
    last = cloze(home, *command(tried))
    assert last.returncode == 0, last.stdout
    [resumed] = [e for e in events(tried) if e["event"] == "resume"]
    assert resumed["step"] >= 10
    assert model_of(tried.place).to_bytes() == model_of(calm.place).to_bytes()


def test_a_model_in_an_object_store(s3_store: Place, tmp_path: Path, s3_endpoint: str) -> None:
    """Fails where the trainer cannot read shards from an object store, or the model does not come back to it."""
    home, world = new_home(tmp_path), trained_world(tmp_path / "world")
    keys = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION", "AWS_EC2_METADATA_DISABLED")
    done = cloze(home, *command(world, "--store", s3_store.address), more={key: os.environ[key] for key in keys})
    assert done.returncode == 0, done.stdout
    manifest = model_of(s3_store)
    assert json.loads(s3_store.read(f"{manifest.folder}/config.json"))["model_type"] == "bert"
    assert not (world.folder / "store" / "models").exists()


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    """Fails where training goes on from what was trained otherwise, or says so in a traceback."""
    home, world = new_home(tmp_path), trained_world(tmp_path / "world")
    done = cloze(home, *command(world, "--set", "training.phase.1.steps=12"))
    assert done.returncode == 0, done.stdout
    work = work_of(world)
    assert work is not None
    [newest] = list(work.rglob("step-*12/complete.json"))
    newest.write_text(newest.read_text().replace('"learning_rate": 0.001', '"learning_rate": 0.002'))
    for gone in (work / "export", work.parent / "parts"):
        shutil.rmtree(gone)
    (work.parent / "manifest.json").unlink()
    again = cloze(home, *command(world, "--set", "training.phase.1.steps=12"))
    assert again.returncode == 2 and "Traceback" not in again.stdout, again.stdout
    assert "is of another model: there training.learning_rate is 0.002, here it is 0.001." in again.stdout
    short = cloze(home, *command(world, "--set", "model.max_length=32"))
    assert short.returncode == 2 and "raise model.max_length, or make shorter examples" in short.stdout
