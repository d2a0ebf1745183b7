"""A student learns what its teacher says, and no student learns from a teacher of something else."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_models import write_model
from small_tasks import exported_model, kept_of, new_job, run, said_of, sentences, write_rows

from corpora.errors import InputError
from trainer.huggingface.checkpoints import WEIGHTS
from trainer.ranks import join_process_group
from trainer.tasks.data import compute_sha256, encode, read_file
from trainer.tasks.finetuning.teacher import with_teacher_answers
from trainer.tasks.folders import load_task
from trainer.tasks.heads.texts import TEACHER_LOSSES
from trainer.tasks.kinds.texts import TEACHER, ClassesTask, NumberTask, StudentTask
from trainer.tasks.settings import FinetuneJob
from trainer.tasks.text_encoder import TextEncoder


def teacher_of(folder: Path, task: StudentTask, family: str = "bert") -> Path:
    """A folder with weights of chance, of another vocabulary where the family has one."""
    exported_model(task, write_model(folder / f"{family}-model", family), folder / "teacher", {"max_length": 40})
    return folder / "teacher"


def without_a_clue(job: FinetuneJob) -> FinetuneJob:
    """The same job with labels that were drawn."""
    drawn = random.Random(3)
    write_rows(Path(job.training.path), [(text, drawn.choice(("bad", "good"))) for text, _ in sentences(160, 1)])
    return job


@pytest.mark.long
def test_a_student_learns_from_its_teacher_where_labels_tell_nothing(tmp_path: Path) -> None:
    """Fails if the teacher's answers are of other rows or classes, or have no part in the gradient."""
    run(new_job(tmp_path, "teacher", epochs=8))
    task = {"teacher": str(tmp_path / "teacher"), "teacher_weight": 1.0, "labels": ["good", "bad"]}
    smaller = write_model(tmp_path / "student-model", "distilbert", layers=1, hidden_size=16)
    asked = {"epochs": 8, "learning_rate": 1e-2}
    taught = run(replace(without_a_clue(new_job(tmp_path, "taught", task=task, **asked)), model=str(smaller)))
    alone = run(replace(without_a_clue(new_job(tmp_path, "alone", **asked)), model=str(smaller)))
    assert kept_of(taught)["accuracy"] > 0.85 > 0.7 > kept_of(alone)["accuracy"]
    assert taught["task"]["teacher"] == "teacher"
    assert taught["task"]["taught_by"] == compute_sha256(str(tmp_path / "teacher" / WEIGHTS))
    assert str(tmp_path) not in json.dumps(taught["task"])
    assert load_task(tmp_path / "taught").task.metrics[0] == "accuracy"


def taught_items(task: StudentTask, folder: Path, rows: list[dict[str, Any]]) -> list[np.ndarray[Any, Any]]:
    """Return a teacher's answers for rows, as targets of a student that reads words."""
    path = folder / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    job = new_job(folder)
    found = read_file(task, replace(job.training, path=str(path)))
    model = load_task(folder / "student").inputs
    encoded = encode(task, found, TextEncoder.from_folder(folder / "model", model, 40))
    with join_process_group("cpu") as ranks:
        _, [both] = with_teacher_answers(task, [encoded], ranks)
    return [item.targets[TEACHER] for item in both.items]


def test_a_teacher_of_another_vocabulary_says_what_it_predicts(tmp_path: Path) -> None:
    """Its own tokenizer, its classes in the order of the student's, whatever order and length rows have."""
    write_model(tmp_path / "model")
    folder = teacher_of(tmp_path, ClassesTask(labels=("c", "a", "b")), "roberta")
    exported_model(ClassesTask(labels=("a", "b", "c")), tmp_path / "model", tmp_path / "student")
    rows = [{"text": text, "label": "abc"[number % 3]} for number, (text, _) in enumerate(sentences(9, 4))]
    said = taught_items(ClassesTask(labels=("a", "b", "c"), teacher=str(folder)), tmp_path, rows)
    asked = new_job(tmp_path).training
    _, lines = said_of(folder, replace(asked, path=str(tmp_path / "rows.jsonl")), tmp_path / "answers.jsonl")
    wanted = np.array([[line["probabilities"][label] for label in "abc"] for line in lines])
    shares = np.exp(np.concatenate(said))
    np.testing.assert_allclose(shares / shares.sum(-1, keepdims=True), wanted, atol=1e-5)
    assert wanted.std(0).max() > 0.01, "the test compares nothing"


def test_the_divergence_is_that_of_the_two_distributions() -> None:
    """By its definition, in float64: fails where the two are swapped, or the temperature is missing or not squared."""
    drawn = torch.Generator().manual_seed(0)
    ours, theirs = torch.randn(2, 5, 3, generator=drawn, dtype=torch.float64).unbind(0)
    for temperature in (1.0, 4.0):
        p, q = (torch.softmax(each / temperature, -1) for each in (theirs, ours))
        loss, same = TEACHER_LOSSES["label"](ours, theirs, temperature)
        assert loss.item() == pytest.approx(temperature**2 * (p * (p.log() - q.log())).sum().item())
        assert same == (ours.argmax(-1) == theirs.argmax(-1)).sum()
        p, q = (torch.sigmoid(each / temperature) for each in (theirs, ours))
        each = p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log()
        loss, _ = TEACHER_LOSSES["labels"](ours, theirs, temperature)
        assert loss.item() == pytest.approx(temperature**2 * each.mean(-1).sum().item())
    loss, _ = TEACHER_LOSSES["number"](ours[:, :1], theirs[:, :1], 4.0)
    assert loss.item() == pytest.approx(((ours - theirs)[:, 0] ** 2).sum().item())


def test_both_terms_are_in_the_log_and_add_up(tmp_path: Path) -> None:
    """Fails unless, for numbers too, the loss is the weighted sum and the teacher's term that of its answers."""
    teacher = teacher_of(tmp_path, NumberTask())
    job = new_job(tmp_path, task={"kind": "number", "teacher": str(teacher), "teacher_weight": 0.25}, rows=40)
    for file, seed in ((job.training, 1), (job.evaluation, 2)):
        write_rows(Path(file.path), [(text, f"{len(text) / 10:.1f}") for text, _ in sentences(40, seed)])
    run(job)
    lines = (tmp_path / "out" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    steps = [each for each in map(json.loads, lines) if each["event"] == "step"]
    assert len(steps) == 3
    for step in steps:
        assert step["loss"] == pytest.approx(0.75 * step["number_loss"] + 0.25 * step["teacher_loss"], rel=1e-5)
        assert step["teacher_loss"] != pytest.approx(step["number_loss"], rel=1e-3)


@pytest.mark.parametrize(
    ("teacher", "student", "message"),
    [
        (ClassesTask(labels=("bad", "good", "x")), {}, "knows 'x', and the student does not"),
        (ClassesTask(labels=("bad", "well")), {}, "knows 'well', and the student does not"),
        (ClassesTask(labels=("bad",), multi_label=True), {}, "multi_label = True, and the student learns with False"),
        (NumberTask(), {}, "kind = 'number', and the student learns with 'classes'"),
        (ClassesTask(labels=("bad", "good")), {"teacher_weight": 2.0}, "teacher_weight = 2.0 is out of range"),
        (ClassesTask(labels=("bad", "good")), {"teacher": "nowhere"}, "nowhere has no config.json"),
    ],
)
def test_a_teacher_of_something_else_is_refused(
    tmp_path: Path, teacher: StudentTask, student: dict[str, Any], message: str
) -> None:
    """Fails if the student begins to learn all the same."""
    folder = teacher_of(tmp_path, teacher)
    with pytest.raises(InputError, match=message):
        run(new_job(tmp_path, task={"teacher": str(folder), **student}, rows=20))
