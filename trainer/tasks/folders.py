"""Writes fine-tuned models to folders, and reads them.

    config.json, model.safetensors    loaded by Hugging Face's class for the task; if there is none, only the encoder
    task.safetensors                  weights that this class does not have, under our names; only if there are any
    finetune.json                     the task, how it was trained, and digests of the weight files
    complete.json                     digests of all files

A vector task also has the files of sentence-transformers (see `trainer.huggingface.sentence_transformers`), which hold
the modules after the pooling. A model with a second encoder for passages has no such files, because they support only
one encoder.

Promise: the folder loads in transformers' class without missing or unexpected keys, with the names of the labels, and
with equal outputs. `load_task` returns exactly the same model, and `SentenceTransformer(folder).encode` returns the
same vectors as `cloze embed`. Folders written by other programs can also be read if their class belongs to one of our
tasks, or if they say how to compute vectors. A file that has changed since it was written is refused
(`corpora/store/checked_folder.py`), because a flipped bit would change predictions without any error.
Cost: 440 MB of weights are verified in 0.1 s (one x86-64 core, 2026-11-23, the file in memory).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.store.checked_folder import check_files, check_folder, describe_files
from corpora.store.damage import Damaged
from corpora.store.settings import to_settings_json
from trainer.families.contract import ModelInputs
from trainer.huggingface.checkpoints import (
    WEIGHTS,
    Pretrained,
    load_pretrained,
    map_names,
    read_weights,
    save_tensors,
    stack_tensors,
    update_names,
    write_model,
)
from trainer.huggingface.config import CONFIG, read_config, read_json
from trainer.huggingface.sentence_transformers import MODULES, SentenceFolder, read_sentences, write_sentences
from trainer.model.batches import Batch
from trainer.objectives.contract import ModelPart, Term
from trainer.settings.model import ModelSettings
from trainer.tasks.heads.task_model import TaskModel, build_task_model
from trainer.tasks.kinds.vectors import RetrievalTask, SimilarityTask, VectorTask
from trainer.tasks.registry import find_task_for_config, find_task_package, read_task, without_old_keys
from trainer.tasks.task import Task

RECORD = "finetune.json"
EXTRA_WEIGHTS = "task.safetensors"
AFTER_PREFIX = "after."  # how the names of parameters of what follows a pooling begin
HEADS: Mapping[str, tuple[str, ...]] = {
    "encoder": (),
    "next": ("masked_head",),
    "classes": ("class_head",),
    "tags": ("token_head",),
    "spans": ("span_head",),
    "choices": ("choice_head",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedFolder:
    """The model of a folder in memory, with its task.

    max_length: maximum number of tokens of a sequence in training, or of the model if that is unknown
    file:       description of the training file, as returned by `describe_file`; {} if it is unknown
    """

    task: Task
    settings: ModelSettings
    inputs: ModelInputs
    model: TaskModel
    max_length: int
    file: Mapping[str, Any] = field(default_factory=dict)


def write_task(
    folder: Path, state: Mapping[str, Tensor], task: Task, settings: ModelSettings, inputs: ModelInputs
) -> None:
    """Write a fine-tuned model to a folder, so that the task's Hugging Face class can open it.

    Args:
        folder: The folder. It is created if necessary.
        state: All weights of the model, not divided among processes. Weights that the Hugging Face class does not have
            are written to a separate file.
        task: The task.
        settings: The settings of the model.
        inputs: The model's vocabulary size and special token ids.
    """
    part = _build_model_part(task, settings)
    write_model(folder, state, settings, inputs, part, task.to_config())
    named = {*map_names(state, settings.family_row, part)}
    named |= {name for name in state if name.startswith(AFTER_PREFIX)}
    more = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items() if name not in named}
    if more:
        save_tensors(more, folder / EXTRA_WEIGHTS)


def to_task_json(task: Task) -> dict[str, Any]:
    """Convert the kind and settings of a task to a dictionary for its record.

    Settings that have been removed from the code are included, so that old records still match.
    """
    package = find_task_package(task.kind)
    now = {"kind": task.kind, **({"package": package} if package else {}), **to_settings_json(task)}
    return dict(pair for name in now for pair in ((name, now[name]), *task.old_keys.get(name, {}).items()))


def load_task(folder: Path) -> LoadedFolder:
    """Load the fine-tuned model of a folder, with its task.

    Raises:
        InputError: If the folder is damaged or incomplete, or its model has no task.
    """
    check_model(folder)
    record = read_json(folder / RECORD) if (folder / RECORD).is_file() else {}
    task, sentences = _find_task(folder, record), None
    settings, inputs, *_ = pretrained = load_pretrained(folder, task.causal)
    if isinstance(task, VectorTask) and (sentences := read_sentences(folder)) is not None:
        pretrained, task = pretrained._replace(sentences=sentences), task.with_folder_settings(sentences)
    model = build_task_model(task, pretrained)
    names = map_names(model.state_dict(), settings.family_row, _build_model_part(task, settings))
    tensors, whole = update_names(read_weights(folder / WEIGHTS)), model.state_dict()
    more = read_weights(folder / EXTRA_WEIGHTS) if (folder / EXTRA_WEIGHTS).is_file() else {}
    heads = {ours: theirs for ours, theirs in names.items() if not ours.startswith("encoder.")}
    lacking = [each for theirs in heads.values() for each in theirs if each not in tensors]
    elsewhere = {*names, *more}
    lacking += [name for name in whole if not name.startswith(AFTER_PREFIX) and name not in elsewhere]
    if lacking:
        raise InputError(
            f"{folder} has no {lacking[0]}, which the task {task.kind!r} needs: it was not fine-tuned for it, or is "
            "incomplete. Give the folder that `cloze finetune` wrote, with all its files."
        )
    read = {ours: stack_tensors(tensors, whole[ours], theirs, str(folder / WEIGHTS)) for ours, theirs in heads.items()}
    read |= {
        name: stack_tensors(more, whole[name], (name,), str(folder / EXTRA_WEIGHTS))
        for name in more.keys() & whole.keys()
    }
    model.load_state_dict({**whole, **read})
    length = record.get("max_length") or find_max_length(sentences, settings.positions)
    file = record.get("files", {}).get("training", {})
    return LoadedFolder(task=task, settings=settings, inputs=inputs, model=model, max_length=length, file=file)


def find_max_length(sentences: SentenceFolder | None, positions: int) -> int:
    """Return the maximum number of tokens of a text that a sentence-transformers folder sets, or else `positions`.

    The result never exceeds `positions`.

    Args:
        sentences: The sentence-transformers settings of the folder; None if it has none.
        positions: The number of tokens that the model can read.
    """
    return min(sentences.max_length or positions, positions) if sentences is not None else positions


class NoTask(Task):
    """The task of an encoder without heads."""

    kind: ClassVar[str] = "encoder"
    unit: ClassVar[str] = "token"

    def list_terms(self) -> tuple[Term, ...]:
        """Return no loss terms, since nothing is learned."""
        return ()


class StatesModel(TaskModel):
    """An encoder without heads."""

    def compute_outputs(self, batch: Batch) -> Tensor:
        """Compute the hidden states of all tokens of a batch: [T, H]."""
        hidden_TH: Tensor = self.encoder(batch)
        return hidden_TH


def read_source(folder: Path) -> LoadedFolder:
    """Load the model of any supported folder, with its task, or with `NoTask` if it has none.

    Raises:
        InputError: If the folder is damaged or incomplete.
    """
    check_model(folder)
    says = (folder / RECORD, folder / MODULES)
    if any(path.is_file() for path in says) or find_task_for_config(read_config(folder / CONFIG)) is not None:
        return load_task(folder)
    settings, inputs, *_ = pretrained = load_pretrained(folder)
    model, length = StatesModel(NoTask(), pretrained), settings.positions
    return LoadedFolder(task=NoTask(), settings=settings, inputs=inputs, model=model, max_length=length)


def _build_model_part(task: Task, settings: ModelSettings) -> ModelPart:
    named = settings.family_row.names.architectures
    exported = task.export_architecture if task.export_architecture in named else "encoder"
    config = {"direction": "left", "is_decoder": True} if task.causal and "next" in named else {}
    return ModelPart("", "encoder", {name: name for name in HEADS[exported]}, exported, config)


def _find_task(folder: Path, record: Mapping[str, Any]) -> Task:
    if "task" in record:
        return read_task(without_old_keys(record["task"]), str(folder / RECORD))
    if (sentences := read_sentences(folder)) is not None:
        return RetrievalTask() if sentences.similarity == "dot" else SimilarityTask()
    config = read_config(folder / CONFIG)
    task = find_task_for_config(config)
    if task is None:
        raise InputError(
            f"{folder} has no task: its {CONFIG} names {', '.join(config.get('architectures') or ('no class',))}. "
            "Fine-tune it first (`cloze finetune`), or give a folder that was."
        )
    return task


# Whether weights are those that were written.


def describe_weights(folder: Path) -> dict[str, Json]:
    """Compute the size and the digest of each weight file in a model folder, and return them by relative path."""
    paths = [folder / EXTRA_WEIGHTS, folder / WEIGHTS, *folder.glob(f"*/{WEIGHTS}")]
    return describe_files(folder, sorted(path.relative_to(folder).as_posix() for path in paths if path.is_file()))


def check_model(folder: Path) -> None:
    """Compare the files of a model folder with the digests that were recorded when it was written, if there are any.

    For a fine-tuned model that was copied out of its store, only the digests of its weights are recorded.

    Raises:
        InputError: If a file is damaged or was changed.
    """
    tuned = (folder / RECORD).is_file()
    if check_folder(folder, other_record=f" and `weights` in {RECORD}" if tuned else "") or not tuned:
        return
    recorded = read_json(folder / RECORD).get("weights", {})
    try:
        check_files(folder, {name: recorded[name] for name in recorded if (folder / name).is_file()})
    except (TypeError, KeyError) as error:
        raise InputError(
            f"{folder / RECORD}: `weights` is {recorded!r}, which is not what fine-tuning writes there: copy the "
            "folder again."
        ) from error
    except Damaged as error:
        raise InputError(
            f"{folder / error.path} is not the file that {RECORD} records: it is damaged, or was changed since. Copy "
            "the folder again, or fine-tune again; to use a file that was changed on purpose, remove it from "
            f"`weights` in {RECORD}."
        ) from error


# What the library sentence-transformers opens.


def write_vector_files(
    folder: Path, task: VectorTask, hidden_size: int, max_length: int, state: Mapping[str, Tensor], start: Pretrained
) -> None:
    """Write the sentence-transformers files for an encoder that is already in the folder.

    Args:
        folder: The folder of the encoder.
        task: The task, with its pooling and similarity.
        hidden_size: The size of the token vectors.
        max_length: Maximum number of tokens of a text.
        state: All weights of the model, not divided among processes.
        start: The model from which fine-tuning started.
    """
    as_before = start.sentences or SentenceFolder(folder=folder, pooling="")
    sentences = replace(as_before, pooling=task.pooling or "mean", max_length=max_length)
    for place, path in enumerate(write_sentences(folder, sentences, hidden_size, task.resolved_similarity)):
        first = f"{AFTER_PREFIX}{place}."
        tensors = {name.removeprefix(first): tensor for name, tensor in state.items() if name.startswith(first)}
        if tensors:
            save_tensors(
                {name: each.detach().cpu().contiguous() for name, each in tensors.items()}, folder / path / WEIGHTS
            )
