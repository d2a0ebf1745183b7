"""Tasks as stages of a run: learnt, accounted for, reused, compared with what is released, and answered for."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytest.importorskip("torch", reason="the trainer is not installed")
from labelled_world import FIRST, LABELLED, TASK, UNUSABLE, copied, world_of
from small_recipe import Run, World, page, prose, text_of

from corpora.errors import InputError
from corpora.store.places.place import Place
from corpora.store.stage import build_part
from corpora.store.tables import read_table
from flows.command.trainer_process import open_model_folder
from flows.export.release_folder import export_release
from flows.maintenance.release import prepare_candidate, release_if_within_bounds
from flows.recipes.run_settings import read_bounds
from flows.report.page import build_page
from flows.run.plan_run import plan_run
from flows.run.record.figures import compute_figures, list_run_crossings
from flows.run.record.ledger_balance import build_accounts
from flows.run.record.releases import Release, add_release, list_run_artifacts
from flows.run.record.run_record import read_run
from flows.run.record.run_status import list_artifact_names
from trainer.tasks.build import read_judged_splits, rebuild_suite

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(learnt: Run, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return copied(learnt, tmp_path_factory.mktemp("tasks") / "world")


@pytest.fixture(scope="module")
def world(run: Run) -> World:
    return world_of(run)


def release(run: Run, when: str) -> Release:
    """Promote what a run built, without the bounds and the orchestrator."""
    entry = Release(name="prod", number=0, action="release", recipe="small", run=FIRST, who="t", when=when,
                    artifacts=list_run_artifacts(run.place, run.record))  # fmt: skip
    return add_release(run.place, entry)


def test_a_task_is_learnt_from_every_seed_and_its_best_folder_is_kept(run: Run) -> None:
    """Fails if a seed is missing, the folder is not that of the best one, or it does not open as a model."""
    tasks = run.manifest("tasks")
    scores = {row["seed"]: row["score"] for b in read_table(run.place, tasks, "scores") for row in b.to_pylist()
              if row["metric"] == "accuracy"}  # fmt: skip
    assert set(scores) == {1, 2}
    assert max(scores.values()) > 0.9  # it learns: chance has about .5
    made = json.loads(run.place.read(f"{tasks.folder}/finetune.json"))
    [restart] = made["restarts"]
    assert restart["seed"] == max(scores, key=lambda seed: (scores[seed], -seed))
    assert len(read_judged_splits(run.place, tasks)) == 2
    assert rebuild_suite(tasks).tasks[0].task == {"kind": "classes"}


def test_a_run_says_that_it_uses_the_names_of_its_tasks(run: Run) -> None:
    """Fails if `cloze gc` takes the artifacts of tasks for those of a run that it does not know."""
    assert run.manifest("tasks").name in list_artifact_names(run.recipe)


def test_every_labelled_row_is_accounted_for(run: Run) -> None:
    """Fails if rows of the labelled files, or documents to answer, are lost without a reason."""
    steps = {step.title: step for step in build_accounts(run.manifests).steps}
    for which in ("training", "evaluation"):
        step = steps[f"Read labelled rows for {which}"]
        assert (step.total, step.outcomes["used"]) == (LABELLED, LABELLED - UNUSABLE)
        assert step.balances
    answered = steps["Answer new documents"]
    assert answered.balances
    assert answered.total == run.manifest("corpora").count_rows("documents") > 0


def test_a_repeated_run_builds_nothing_and_a_changed_label_builds_its_task_alone(world: World, run: Run) -> None:
    """Fails if a task is learnt again for no reason, or not again where a labelled file has changed."""
    assert [stage.stage.stage_folder for stage in world.run().stages if not stage.reused] == []
    train = world.folder / "labelled" / "train.tsv"
    before = train.read_bytes()
    train.write_bytes(before.replace(b"\tnone", b"\tboat", 1))
    recipe, lock = world.resolved()
    planned = {entry.stage: entry for entry in plan_run(run.place, recipe, lock)}
    train.write_bytes(before)
    assert planned["models/small"].state == "reuse"
    assert planned["tasks/small-boat"].state == "build"
    assert "training.sha256" in planned["tasks/small-boat"].reason
    assert planned["answers/small-boat"].state == "follows"


@pytest.mark.long
def test_a_part_that_is_built_again_has_the_same_bytes(run: Run, tmp_path: Path) -> None:
    """Fails if something of the folder depends on the time or the place, so that a repair could not restore it."""
    [tasks] = run.of("tasks")
    [plan] = tasks.stage.parts
    elsewhere = replace(plan, job=replace(plan.job, work=str(tmp_path / "work")))
    again = build_part(run.place, tasks.stage, elsewhere, out=Place(str(tmp_path / "out")))
    [part] = tasks.manifest.parts
    assert {file.path: file.sha256 for file in again.files} == {file.path: file.sha256 for file in part.files}


def test_documents_are_answered_once(world: World, run: Run, tmp_path: Path) -> None:
    """Fails if a new document is left out, or one that a released model has answered is answered again."""
    first = {row["id"] for row in answers_of(run)}
    assert first == {document.id.hex() for document in run.corpus.iter_documents()}
    release(run, "2026-01-02T00:00:00+00:00")
    assert world.run().manifest("answers").fingerprint == run.manifest("answers").fingerprint
    world.put("pages", "new", [page("900", prose(900)), page("901", prose(901))])
    later = world.run(task__boat__seeds="[1]")
    new = {document.id.hex() for document in later.corpus.iter_documents()} - first
    assert {row["id"] for row in answers_of(later)} == new
    assert len(new) == 2
    assert {row["answer"] for row in answers_of(later)} <= {"boat", "none"}


def answers_of(run: Run) -> list[dict[str, str]]:
    answers = run.manifest("answers")
    files = [file for part in answers.parts for file in part.files]
    tables = [pq.read_table(io.BytesIO(run.place.read(f"{answers.stage_folder}/{file.path}"))) for file in files]
    return [row for table in tables for row in table.to_pylist()]


def test_one_release_holds_encoder_tokenizer_and_heads(world: World, run: Run, tmp_path: Path) -> None:
    """Fails if a run within its bounds is not released by itself, or a part of the release is not in its folder."""
    text = world.text + '[bounds]\n"task boat: accuracy" = { min = 0.5 }\n[release]\nname = "own"\n'
    recipe, lines = replace(world, text=text).recipe(), list[str]()
    for _ in range(2):
        release_if_within_bounds(prepare_candidate(recipe, read_run(run.place, FIRST), "own"), lines.append)
    assert lines == ["Released as own, number 1."]
    strict = replace(world, text=text.replace("min = 0.5", "min = 1.5")).recipe()
    release_if_within_bounds(prepare_candidate(strict, read_run(run.place, FIRST), "own"), lines.append)
    assert lines[1].startswith("Not released as own: a bound is crossed")
    folders = export_release(f"{run.place.address}@own", tmp_path / "own")
    assert set(folders) == {"encoder", "tokenizer", "heads/boat", "answers/boat"}
    files = {path.relative_to(tmp_path / "own").as_posix() for path in (tmp_path / "own").rglob("*")}
    models = {f"{folder}/{name}" for folder in ("encoder", "heads/boat") for name in ("config.json", "tokenizer.json")}
    assert models | {"tokenizer/vocab.txt", "heads/boat/finetune.json", "answers/boat/00000.parquet"} <= files
    assert "boat" in (tmp_path / "own" / "README.md").read_text()
    with open_model_folder(f"{run.place.address}@own", ("tasks", "models")) as folder:
        assert (folder / "finetune.json").is_file()


def test_the_report_shows_scores_and_what_is_released(run: Run) -> None:
    """Fails if the page of a run says nothing of its tasks, or does not compare them with the released ones."""
    shown = text_of(build_page(run.place, run.record, "text"))
    assert "boat: accuracy" in shown
    assert "the most frequent class has" in shown
    assert "Learnt from 2 seeds" in shown


@pytest.mark.long
def test_a_score_that_is_worse_by_more_than_chance_crosses_its_bound(world: World, run: Run) -> None:
    """Fails if a worse model passes its gates, or an equal one does not."""
    poor = world.run(task__boat__epochs="1", task__boat__learning_rate="1e-6", task__boat__answers='""')
    bounds = read_bounds(
        {"task boat: accuracy": {"min": 0.9, "worse": 0.05}, "task boat: gain in accuracy": {"min": 0.2}}
    )
    figures, before = (
        compute_figures(poor.place, poor.manifests),
        (run.record, compute_figures(run.place, run.manifests)),
    )
    crossed = list_run_crossings(run.place, bounds, poor.record, figures, before)
    assert len(crossed) == 3
    assert "on the same examples, p 0.0" in crossed[1]
    assert list_run_crossings(run.place, bounds, run.record, before[1], before) == ()


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('"classes"', '"clases"', "'classes'"),
        ("epochs = 8", "epoch = 8", "'epochs'"),
        ('"predict"', '"guess"', "embed"),
        ('evaluate = "labelled/dev.tsv"\n', "", "evaluate"),
        ('"classes"', '"glue/sst2"', "as it is published"),
        ('task = "classes"\n', 'suite = "glue"\n', "suite"),
        ('"classes"', '"choice"', "a document is one text"),
    ],
)
def test_mistakes_in_a_table_are_named_before_anything_starts(world: World, old: str, new: str, expected: str) -> None:
    """Fails if a mistake in [[task]] is met only when the model is trained, or is not named."""
    with pytest.raises(InputError, match=expected):
        replace(world, text=world.text.replace(TASK, TASK.replace(old, new))).recipe()


def test_a_labelled_file_that_is_missing_is_named(world: World, run: Run) -> None:
    """Fails if a run goes on without a file that it is to learn from."""
    missing = replace(world, text=world.text.replace("labelled/dev.tsv", "labelled/none.tsv"))
    recipe, lock = missing.resolved()
    with pytest.raises(InputError, match=r"none\.tsv"):
        plan_run(run.place, recipe, lock)
