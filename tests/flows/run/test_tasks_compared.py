"""A recipe whose tasks are compared with other models, come from a suite and make vectors; and what a store does."""

import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytest.importorskip("torch", reason="the trainer is not installed")
from labelled_world import FIRST, MODEL, copied, labelled_file, trainer_here, world_of
from recorded_run import record
from small_recipe import RECIPE, Run, text_of

from corpora.errors import InputError
from corpora.store.damage import Damaged
from flows.command.cli import run_command_line
from flows.report.page import build_page
from flows.run.inputs.start_model import find_baseline
from flows.run.record.figures import compute_figures
from flows.run.record.releases import Release, add_release, list_run_artifacts

pytestmark = pytest.mark.slow

TASKS = """
[[task]]
name = "boat"
task = "classes"
train = "labelled/train.tsv"
evaluate = "labelled/dev.tsv"
epochs = 1
max_unusable = 0.1
seeds = [1, 2]
baseline = "models/small/FINGERPRINT"
control = true
answers = "embed"

[[task]]
name = "both"
suite = "labelled/suite.toml"
"""
SUITE = """
name = "two questions"
seeds = [3]
average = true
[settings]
epochs = 1
max_length = 24
[task.boat]
kind = "classes"
train = "train.tsv"
dev = "dev.tsv"
max_unusable = 0.1
[task.things]
kind = "classes"
train = "things.train.tsv"
dev = "things.dev.tsv"
max_unusable = 0.1
"""


@pytest.fixture(scope="module")
def compared(learnt: Run, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A run that learns two questions of a suite, and one with a baseline, a control and vectors."""
    run = copied(learnt, tmp_path_factory.mktemp("compared") / "world")
    folder = world_of(run).folder / "labelled"
    (folder / "suite.toml").write_text(SUITE)
    for seed, name in enumerate(("train", "dev"), 3):
        labelled_file(folder / f"things.{name}.tsv", seed, ("boat", "lighthouse"))
    text = MODEL + RECIPE + TASKS.replace("FINGERPRINT", run.manifest("models").fingerprint)
    with trainer_here():
        done = replace(world_of(run), text=text).run()
    record(done, "20260103T000000000000-small")
    yield done


def test_a_baseline_and_a_control_learn_the_same(compared: Run) -> None:
    """Fails if another model than the named one is compared with, or the report does not say what it was worth."""
    assert compared.of("models")[0].reused
    boat = next(stage.manifest for stage in compared.of("tasks") if stage.manifest.name == "small-boat")
    assert sum(part.ledger.figures["models learnt"] for part in boat.parts) == 2 * 3
    figures = compute_figures(compared.place, compared.manifests)
    assert figures["task boat: gain in accuracy over the baseline"].value == 0.0  # it is the model itself
    shown = text_of(build_page(compared.place, compared.record, "text"))
    assert shown.count("Pre-training was ") == 1
    assert "from first weights on " in shown
    assert re.search(r"Worth it\? ?\n? ?(Yes|No|Not shown|Yes for \d of 3 tasks)", shown)
    assert "It is pre-training that is judged" in shown
    assert "the baseline (other), on the same examples" in shown


def test_a_suite_is_learnt_as_the_tasks_of_a_recipe(compared: Run) -> None:
    """Fails if a task of a suite has no folder or score, or three classes are judged as two are."""
    both = next(stage.manifest for stage in compared.of("tasks") if stage.manifest.name == "small-both")
    for name in ("boat", "things"):
        made = json.loads(compared.place.read(f"{both.folder}/{name}/finetune.json"))
        assert made["restarts"][0]["seed"] == 3
    names = {*compute_figures(compared.place, compared.manifests)}
    assert {f"task both {name}: accuracy" for name in ("boat", "things")} <= names
    assert "task both boat: f1" in names and "task both things: f1" not in names
    assert "task both things: macro_f1" in names


def test_vectors_are_made_of_all_documents(compared: Run, learnt: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails if a document has no vector, or a trace does not show what was answered."""
    answers = compared.manifest("answers")
    files = [f"{answers.stage_folder}/{file.path}" for part in answers.parts for file in part.files]
    tables = [pq.read_table(io.BytesIO(compared.place.read(file))) for file in files]
    rows = [row for table in tables for row in table.to_pylist()]
    assert {row["id"] for row in rows} == {document.id.hex() for document in compared.corpus.iter_documents()}
    assert {len(row["vector"]) for row in rows} == {32}
    asked = ["trace", compared.place.address, "--document", rows[0]["id"]]
    assert run_command_line(asked, world_of(learnt).folder / "home") == 0
    shown = capsys.readouterr().out
    assert f"{answers.folder}: a vector of 32 numbers" in shown
    assert re.search(r"answers/small-boat/\w+: (boat|none)\n", shown)  # of the run before


def test_the_model_of_the_recipe_is_no_baseline(learnt: Run) -> None:
    """Fails if the refusal speaks of the model that a training starts from."""
    recipe = world_of(learnt).recipe(task__boat__baseline="models/small")
    with pytest.raises(InputError, match=r"boat.*\.baseline = 'models/small' is the model that .* learns the task"):
        find_baseline(recipe, recipe.tasks[0])


def test_releases_of_tasks_are_exported_rolled_back_verified_and_kept(
    learnt: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fails if a command on a store does not know the artifacts of tasks, or takes a damaged one for whole."""
    run = copied(learnt, tmp_path / "world")
    store, home = run.place.address, tmp_path / "home"
    artifacts = list_run_artifacts(run.place, run.record)
    for held in (artifacts, artifacts[:1]):
        add_release(run.place, Release(name="prod", number=0, action="release", recipe="small", run=FIRST, who="t",
                                       when="2026-01-02T00:00:00+00:00", artifacts=held))  # fmt: skip
    assert run_command_line(["rollback", "prod", "--store", store, "--reason", "worse"], home) == 0
    assert run_command_line(["export", f"{store}@prod", str(tmp_path / "all"), "--kind", "release"], home) == 0
    assert (tmp_path / "all" / "heads" / "boat" / "model.safetensors").is_file()
    assert run_command_line(["verify", store], home) == 0
    assert run_command_line(["gc", store, "--keep", "1", "--delete"], home) == 0
    tasks = run.manifest("tasks")
    weights = Path(run.place.to_full_path(f"{tasks.folder}/model.safetensors"))
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    capsys.readouterr()
    assert run_command_line(["verify", store], home) == 1
    assert "model.safetensors: its bytes are not those" in capsys.readouterr().out
    with pytest.raises(Damaged, match=r"tasks/small-boat/.*model.safetensors"):
        run_command_line(["export", f"{store}@prod", str(tmp_path / "again"), "--kind", "release"], home)
