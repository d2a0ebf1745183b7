"""Small jobs of fine-tuning: files of a few words, and a model that knows them."""

import json
import random
import shutil
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from small_batches import opened, small_inputs, small_settings
from small_models import WORDS, write_model

from trainer import train as training
from trainer.huggingface.checkpoints import Pretrained, load_pretrained
from trainer.model.encoder import TransformerEncoder
from trainer.ranks import join_process_group
from trainer.settings.model import FAMILIES, build_encoder_shape
from trainer.tasks.data import EncodedExamples, FileExamples, encode
from trainer.tasks.finetuning import finetune as finetuning
from trainer.tasks.finetuning.finetune import finetune
from trainer.tasks.folders import RECORD, load_task, to_task_json, write_task
from trainer.tasks.formats.records import FileSettings, RowCounts
from trainer.tasks.heads.task_model import TaskModel, build_task_model
from trainer.tasks.predict import predict
from trainer.tasks.settings import FinetuneJob, FinetuneSettings
from trainer.tasks.task import Task
from trainer.tasks.text_encoder import TextEncoder
from trainer.train import Run

LABELS = ("bad", "good")


def sentences(number: int, seed: int) -> list[tuple[str, str]]:
    """Texts of words drawn at random, somewhere in each the one that is its label."""
    drawn = random.Random(seed)
    found = []
    for _ in range(number):
        words = drawn.choices(WORDS[2:], k=drawn.randint(3, 9))
        label = drawn.choice(LABELS)
        words.insert(drawn.randrange(len(words) + 1), label)
        found.append((" ".join(words), label))
    return found


def write_rows(path: Path, rows: Sequence[Sequence[str]], columns: Sequence[str] = ("text", "label")) -> FileSettings:
    """A `.tsv` file with a header."""
    lines = ["\t".join(cells) for cells in (columns, *rows)]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return FileSettings(path=str(path))


def write_json_rows(path: Path, rows: Sequence[Any]) -> FileSettings:
    """A `.jsonl` file."""
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return FileSettings(path=str(path))


def new_job(folder: Path, output: str = "out", rows: int = 160, task: Any = None, **settings: Any) -> FinetuneJob:
    """A job on small tables, for the model in `folder/model`, which is written where it is missing."""
    if not (folder / "model").exists():
        write_model(folder / "model")
    return FinetuneJob(
        model=str(folder / "model"),
        output=str(folder / output),
        task={"kind": "classes", **(task or {})},
        training=write_rows(folder / "train.tsv", sentences(rows, 1)),
        evaluation=write_rows(folder / "dev.tsv", sentences(60, 2)),
        settings=FinetuneSettings(**{"epochs": 1, "batch": 16, "learning_rate": 3e-3, **settings}),
    )


def judged_as(patch: pytest.MonkeyPatch, epochs: Sequence[tuple[float, float]]) -> None:
    """Let each epoch be judged with an accuracy and a loss that are said beforehand."""
    left = iter(epochs)

    def score_epoch(*_: Any) -> dict[str, float]:
        accuracy, loss = next(left)
        return {"loss": loss, "accuracy": accuracy}

    patch.setattr(finetuning, "score_epoch", score_epoch)


def end_after(patch: pytest.MonkeyPatch, step: int, save: bool = True) -> None:
    """End a run after a step, by KeyboardInterrupt. save: after each step before, and not after it"""
    is_due, log, done = training.is_checkpoint_due, training.finish_checkpoint, [0]

    def is_due_until(run: Run, at: int, end: int) -> bool:
        done[0] = at
        if save and at == step:
            raise KeyboardInterrupt
        return save or is_due(run, at, end)

    def log_and_end(run: Run, wait: bool) -> None:
        log(run, wait)
        if done[0] == step and not wait:
            raise KeyboardInterrupt

    patch.setattr(training, "is_checkpoint_due", is_due_until)
    patch.setattr(training, "finish_checkpoint", log_and_end)


def run(job: FinetuneJob) -> dict[str, Any]:
    """Fine-tune in this process; the record next to the model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, of features that are new to it
        with join_process_group() as ranks:
            finetune(job, ranks)
    record: dict[str, Any] = json.loads((Path(job.output) / RECORD).read_text(encoding="utf-8"))
    return record


def kept_of(record: dict[str, Any]) -> dict[str, Any]:
    """The kept epoch of the best restart."""
    best = record["restarts"][record["best"]]
    epoch: dict[str, Any] = best["epochs"][best["kept"] - 1]
    return epoch


def encoded_for(
    task: Task, folder: Path, values: Sequence[dict[str, Any]], length: int = 40, labelled: bool = True
) -> EncodedExamples:
    """FileExamples of values by role, as items of the model in a folder."""
    made = [task.make_example(each, labelled) for each in values]
    counts = RowCounts(given=len(made), rows=len(made))
    found = FileExamples(
        path="here",
        examples=made,
        lines=range(1, len(made) + 1),
        ids=(None,) * len(made),
        counts=counts,
        labelled=labelled,
    )
    return encode(task, found, TextEncoder.from_folder(folder, load_pretrained(folder).inputs, length))


def exported_model(task: Task, folder: Path, output: Path, record: Mapping[str, Any] | None = None) -> TaskModel:
    """A task's model on the one in a folder, with weights far from zero, exported to another; in evaluation mode.

    record: what its `finetune.json` holds besides the task; None: there is none
    """
    settings, inputs, state, _ = load_pretrained(folder)
    model = scattered(build_task_model(task, Pretrained(settings, inputs, state)))
    write_task(output, model.state_dict(), task, settings, inputs)
    for path in (*folder.glob("*token*.json"), *folder.glob("vocab.txt")):
        shutil.copyfile(path, output / path.name)
    if record is not None:
        (output / RECORD).write_text(json.dumps({"task": to_task_json(task), **record}), encoding="utf-8")
    return model.eval()


def scattered(model: TaskModel) -> TaskModel:
    """A model whose answers are far enough from zero to be told apart."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.2)
    return model


def both_models(task: Task, family: str, folder: Path, automatic: Any) -> tuple[Any, Any]:
    """A task's model on an encoder of drawn weights, and as transformers opens its export: both in float64."""
    settings, inputs = small_settings(family=family), small_inputs(family)
    encoder = TransformerEncoder(build_encoder_shape(settings, inputs)).state_dict()
    pretrained = Pretrained(settings, inputs, {f"encoder.{name}": tensor for name, tensor in encoder.items()})
    model = scattered(build_task_model(task, pretrained))
    write_task(folder, model.state_dict(), task, settings, inputs)
    assert load_task(folder).task == task
    reference = opened(automatic, folder)
    assert type(reference).__name__ == FAMILIES[family].names.architectures[task.architecture]
    return model.eval().double(), reference


def said_of(folder: Path, file: FileSettings, output: Path, labelled: bool = False) -> tuple[dict[str, Any], Any]:
    """Return the report of `predict`, with scores where there are labels, and its lines."""
    with join_process_group("cpu") as ranks:
        told = predict(folder, file, output, labelled, ranks)
    return told, [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
