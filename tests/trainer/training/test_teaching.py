"""A student from its teacher's folder to its export: on one process and two, resumed; and where that cannot be."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small_batches import far_from_zero
from small_training import SmallStore, exported, exported_bytes, of, small_job, small_model, train_here, train_on_ranks

from corpora.errors import InputError
from trainer.build import plan_model
from trainer.huggingface.checkpoints import export
from trainer.huggingface.config import read_tokenizer_files
from trainer.initial_weights import build_initial_model
from trainer.job import TrainingJob
from trainer.model.objective import build_model, count_parameters
from trainer.start_weights import StartModel, read_start

OBJECTIVE = {"kind": "distillation", "teacher": "somewhere"}


@pytest.fixture(scope="module")
def teacher(store: SmallStore, tmp_path_factory: pytest.TempPathFactory) -> StartModel:
    """A BERT of four layers with weights that say something, in a folder with its tokenizer."""
    return put_teacher(store, tmp_path_factory.mktemp("teacher"))


def put_teacher(store: SmallStore, folder: Path, **settings: Any) -> StartModel:
    job = small_job(store, folder)
    asked = replace(small_model(), **{"layers": 4, **settings})
    export(folder, far_from_zero(build_model(asked, job.inputs), seed=5).state_dict(), asked, job.inputs)
    for name, data in read_tokenizer_files(store.place, store.vocabulary.folder, 32).items():
        (folder / name).write_bytes(data)
    return read_start(folder)


def student_job(
    store: SmallStore,
    work: Path,
    teacher: StartModel,
    dropout: float = 0.0,
    objective: dict[str, Any] | None = None,
    **training: Any,
) -> TrainingJob:
    asked = replace(small_model(dropout), family="distilbert", objective={**OBJECTIVE, **(objective or {})})
    return replace(small_job(store, work, dropout=dropout, **training), model=asked, teacher=teacher)


def test_a_student_is_trained_and_exported_alone(store: SmallStore, tmp_path: Path, teacher: StartModel) -> None:
    """Every term is said, and falls; the export and the checkpoints hold the student and nothing of its teacher."""
    job = student_job(store, tmp_path / "work", teacher)
    events = train_here(job)
    steps = of(events, "step")
    assert len(steps) == 6 and all("masked_accuracy" in step and "soft_accuracy" not in step for step in steps)
    assert steps[-1]["soft_loss"] < steps[0]["soft_loss"] and 0 < steps[-1]["cosine_loss"] < 1
    for step in steps:
        parts = 2 * step["masked_loss"] + 5 * step["soft_loss"] + step["cosine_loss"]
        assert step["loss"] == pytest.approx(parts)
    [start] = of(events, "start")
    assert "learns from" in start["message"] and "begins with its layers 0, 3" in start["message"]
    model = build_model(job.model, job.inputs)
    assert start["parameters"] == count_parameters(model)
    tensors = exported(job)
    assert sum(tensor.numel() for tensor in tensors.values()) == count_parameters(model)
    assert all(name.startswith(("distilbert.", "vocab_")) for name in tensors)
    assert json.loads((job.export / "config.json").read_text())["model_type"] == "distilbert"


def test_a_run_that_goes_on_ends_with_the_same_bytes(store: SmallStore, tmp_path: Path, teacher: StartModel) -> None:
    job = student_job(store, tmp_path / "work", teacher, dropout=0.1, keep_checkpoints=3)
    train_here(job)
    whole = exported_bytes(job)
    shutil.rmtree(job.export)
    shutil.rmtree(Path(job.work) / "checkpoints" / "step-00000006")
    assert of(train_here(job), "resume")[-1]["step"] == 4
    assert exported_bytes(job) == whole


def test_how_a_step_is_cut_changes_nothing(store: SmallStore, tmp_path: Path, teacher: StartModel) -> None:
    """Micro-batches by examples, and by tokens, where dummies fill them."""
    found = []
    for number, cut in enumerate(({}, {"micro_batch": 3}, {"micro_batch_tokens": 70})):
        job = student_job(store, tmp_path / str(number), teacher, **cut)
        train_here(job)
        found.append(exported(job))
    for other in found[1:]:
        for name, tensor in found[0].items():
            torch.testing.assert_close(other[name], tensor, rtol=1e-4, atol=1e-5, msg=name)


def test_the_content_of_the_teacher_is_of_the_job(store: SmallStore, tmp_path: Path, teacher: StartModel) -> None:
    """Fails if another teacher resumes from a checkpoint of this one's student, or the folder's place counts."""
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(teacher.folder, elsewhere)
    job, moved = (student_job(store, tmp_path, each) for each in (teacher, read_start(elsewhere)))
    assert job.identity == moved.identity and TrainingJob.from_json(job.to_json()) == job
    other = put_teacher(store, tmp_path / "other", dropout=0.2)
    assert student_job(store, tmp_path, other).identity != job.identity

    def planned(taught: StartModel) -> Any:
        return plan_model(
            store.place, "small", [store.shards], store.vocabulary, job.model, job.training, teacher=taught
        )

    assert planned(teacher).fingerprint == planned(read_start(elsewhere)).fingerprint != planned(other).fingerprint
    assert planned(teacher).facts["teacher"] == teacher.content and planned(teacher).parts[0].job.teacher == teacher


def test_a_folder_that_is_not_what_it_was_is_refused(store: SmallStore, tmp_path: Path) -> None:
    folder = tmp_path / "teacher"
    folder.mkdir()
    job = student_job(store, tmp_path / "work", put_teacher(store, folder))
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    with pytest.raises(InputError, match=r"has changed since .* A student needs its teacher"):
        build_initial_model(job)
    weights.unlink()
    with pytest.raises(InputError, match=r"model\.safetensors is gone"):
        build_initial_model(job, resumes=True)


def test_other_tokens_are_refused(store: SmallStore, tmp_path: Path) -> None:
    """As many, with the same special ones, and two of them in another order."""
    folder = tmp_path / "teacher"
    folder.mkdir()
    put_teacher(store, folder)
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    words = content["model"]["vocab"]
    one, other = sorted(words, key=words.__getitem__)[-2:]
    words[one], words[other] = words[other], words[one]
    path.write_text(json.dumps(content))
    (folder / "vocab.txt").unlink(missing_ok=True)
    with pytest.raises(InputError, match=r"has a different vocabulary from the shards: its token \d+ is"):
        build_initial_model(student_job(store, tmp_path / "work", read_start(folder)))


@pytest.mark.parametrize(
    ("teaching", "objective", "message"),
    [
        ({"hidden_size": 64}, {}, r"hidden_size is 32 and its teacher's 64"),
        ({"hidden_size": 64}, {"cosine": 0.0}, "its hidden_size is 32, and the teacher's is 64"),
        ({}, {"layers": [0, 9]}, "names layer 9 of the teacher, which has 4"),
        ({"max_length": 31}, {}, "reads up to 31 tokens, and the shards hold examples of up to 32"),
    ],
)
def test_a_teacher_that_does_not_fit_is_refused_when_planned(
    store: SmallStore, tmp_path: Path, teaching: dict[str, Any], objective: dict[str, Any], message: str
) -> None:
    teacher = put_teacher(store, tmp_path, **teaching)
    job = student_job(store, tmp_path, teacher, objective=objective)
    with pytest.raises(InputError, match=message):
        plan_model(store.place, "small", [store.shards], store.vocabulary, job.model, job.training, teacher=teacher)


def test_a_teacher_of_another_size_of_vocabulary_is_refused_when_planned(
    store: SmallStore, tmp_path: Path, teacher: StartModel
) -> None:
    shutil.copytree(teacher.folder, tmp_path / "teacher")
    config = json.loads((tmp_path / "teacher" / "config.json").read_text())
    (tmp_path / "teacher" / "config.json").write_text(json.dumps(config | {"vocab_size": config["vocab_size"] + 1}))
    other, job = read_start(tmp_path / "teacher"), student_job(store, tmp_path, teacher)
    with pytest.raises(InputError, match="A student reads what its teacher reads"):
        plan_model(store.place, "small", [store.shards], store.vocabulary, job.model, job.training, teacher=other)


@pytest.mark.long
def test_two_processes_equal_one(store: SmallStore, tmp_path: Path, teacher: StartModel) -> None:
    jobs = [student_job(store, tmp_path / str(count), teacher, processes=count) for count in (1, 2)]
    train_here(jobs[0])
    train_on_ranks(jobs[1])
    one, two = map(exported, jobs)
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, rtol=1e-4, atol=1e-5, msg=name)
