"""A recipe with a model, as a user runs it: from raw files to weights, through kills, on an object store, once.

One run builds everything; what the others need of it is copied, so that they train and build nothing else. One
server records them, but for the run that is killed: it has its own, which must end with it.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("torch", reason="the trainer is not installed")
from launched import LONG, Site, cloze, left, start, wait_until
from small_recipe import RECIPE, World, fill, new_world
from small_training import flip_tokens, trained_shard
from terminal import CTRL_C, terminal

from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import list_manifests
from flows.integrity.inventory import find_artifact_faults
from flows.run.record.run_record import list_run_ids, read_run

pytestmark = [pytest.mark.slow, pytest.mark.server]

STEPS = 60
MODEL = f"""
model = {{ layers = 1, hidden_size = 32, heads = 2, feed_forward_size = 64, max_length = 64 }}
training.learning_rate = 1e-3
training.checkpoint_every = 10
training.evaluate_every = 20
training.phase = [{{ steps = {STEPS}, batch = 8 }}]
"""


def run(site: Site, world: World, *more: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run the command to its end."""
    return cloze(site.home, *command(world, *more), api=site.api, more=environment)


def command(world: World, *more: str) -> list[str]:
    return ["run", str(world.recipe_path), "--workers", "1", *more]


def model_of(place: Place) -> Manifest:
    """The one model of a store, whose files are whole."""
    [manifest] = list_manifests(place, "models", "small")
    assert not list(find_artifact_faults(place, manifest))
    return manifest


def work_of(world: World) -> Path | None:
    """Return where the model is trained, once training has begun."""
    found = list((world.folder / "store" / "models" / "small").glob("*/work"))
    return found[0] if found else None


def events(world: World) -> list[Mapping[str, Any]]:
    work = work_of(world)
    path = work / "metrics.jsonl" if work is not None else None
    return [json.loads(line) for line in path.read_text().splitlines()] if path is not None and path.exists() else []


class Trained(NamedTuple):
    """A world in which the command has run to its end, and what it said."""

    world: World
    said: str

    def copy(self, folder: Path, without: tuple[str, ...] = ()) -> World:
        """The same in another folder, where some kinds of the store are missing."""
        shutil.copytree(self.world.folder, folder)
        for kind in without:
            shutil.rmtree(folder / "store" / kind)
        return World(folder=folder, text=self.world.text)


@pytest.fixture(scope="module")
def trained(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    world = fill(new_world(tmp_path_factory.mktemp("trained") / "world", MODEL + RECIPE))
    done = run(site, world)
    assert done.returncode == 0, done.stdout
    return Trained(world, done.stdout)


def test_from_raw_files_to_a_model(trained: Trained) -> None:
    """Fails if the run ends without a model that holds everything, or tells nothing of it."""
    world, said = trained
    manifest = model_of(world.place)
    names = {Path(file.path).name for part in manifest.parts for file in part.files}
    assert {"config.json", "model.safetensors", "tokenizer.json", "vocab.txt"} <= names
    slots = manifest.ledger.find_account("slots")
    assert slots.total == STEPS * 8 == slots.outcomes["read"]
    assert [e["step"] for e in events(world) if e["event"] == "evaluation"] == [20, 40, 60]
    assert "models/small" in said and "✓ nothing is unaccounted for" in said
    assert "held out" in Path(shlex.split(said.split("Report:")[1].splitlines()[0])[0]).read_text()


@pytest.mark.long
def test_a_killed_training_goes_on_and_ends_the_same(site: Site, trained: Trained, tmp_path: Path) -> None:
    """Fails if a kill in mid-training loses the checkpoints, leaves a process behind, or changes a weight."""
    tried = trained.copy(tmp_path / "tried", without=("models",))
    process = start(site.home, *command(tried, "--own-server"))
    ended = process.poll
    assert wait_until(lambda: any(e["event"] == "checkpoint" for e in events(tried)) or ended() is not None, LONG)
    assert process.poll() is None and process.stdout is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not left(process.pid)
    process.stdout.close()
    reached = max(e["step"] for e in events(tried))
    assert 10 <= reached < STEPS, "it was killed before its first checkpoint, or too late"
    last = run(site, tried)
    assert last.returncode == 0, last.stdout
    [resumed] = [e for e in events(tried) if e["event"] == "resume"]
    assert resumed["step"] >= 10
    assert model_of(tried.place).to_bytes() == model_of(trained.world.place).to_bytes()


@pytest.mark.long
def test_a_stopped_training_saves_its_step_and_ends_the_same(site: Site, trained: Trained, tmp_path: Path) -> None:
    """Fails if Ctrl-C loses a step, says nothing of what it waits for, leaves a process, or changes a weight."""
    tried = trained.copy(tmp_path / "tried", without=("models", "runs"))
    with terminal(site.home, *command(tried), api=site.api) as shown:
        shown.wait_for(" steps ")
        assert wait_until(lambda: any(e["event"] == "step" for e in events(tried)), LONG)
        shown.press(CTRL_C)
        assert shown.code() == 130, shown.shown
    assert "training ends with the step that it is in, and saves it; a second signal ends it at once." in shown.shown
    saving = re.search(r"models/small: saving the checkpoint of step (\d+) \.\.\.", shown.shown)
    assert saving, shown.shown
    step = int(saving[1])
    assert f"models/small: the checkpoint of step {step} is saved." in shown.shown and 0 < step < STEPS
    commands = (path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline"))
    assert not [line for line in commands if str(tried.folder).encode() in line]
    assert [read_run(tried.place, run_id).state for run_id in list_run_ids(tried.place)] == ["interrupted"]
    assert run(site, tried).returncode == 0
    [resumed] = [e for e in events(tried) if e["event"] == "resume"]
    assert resumed["step"] == step
    assert model_of(tried.place).to_bytes() == model_of(trained.world.place).to_bytes()


@pytest.mark.long
def test_a_shard_that_is_damaged_when_a_model_learns_is_built_again(
    site: Site, trained: Trained, tmp_path: Path
) -> None:
    """Fails if a flipped bit is learnt, stops the run for good, or the model is another than without it."""
    world = trained.copy(tmp_path / "world", without=("models",))
    [shards] = list_manifests(world.place, "shards", "small")
    flip_tokens(Path(world.place.to_full_path(trained_shard(shards))))
    done = run(site, world)
    assert done.returncode == 0, done.stdout
    damaged = (
        rf"{trained_shard(shards)} is damaged: the bytes of column \w+ .* not those that were written\. It is built"
    )
    assert re.search(damaged, " ".join(done.stdout.split())), done.stdout
    assert model_of(world.place).to_bytes() == model_of(trained.world.place).to_bytes()


@pytest.mark.long
def test_a_model_in_an_object_store(
    site: Site, trained: Trained, s3_store: Place, s3_endpoint: str, tmp_path: Path
) -> None:
    """Fails if workers or the trainer cannot read from an object store, or what they make does not come to it."""
    world = trained.copy(tmp_path / "world", without=("models", "shards", "runs"))
    for path in world.place.list_files(""):
        s3_store.write(path, world.place.read(path))
    keys = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION", "AWS_EC2_METADATA_DISABLED")
    done = run(site, world, "--store", s3_store.address, **{key: os.environ[key] for key in keys})
    assert done.returncode == 0, done.stdout
    manifest = model_of(s3_store)
    assert json.loads(s3_store.read(f"{manifest.folder}/config.json"))["model_type"] == "bert"
    assert list_manifests(s3_store, "shards", "small") == list_manifests(trained.world.place, "shards", "small")
    assert not {"models", "shards"} & {path.name for path in (world.folder / "store").iterdir()}
