"""Finds tasks by name. The interface of a task is defined in `trainer.tasks.task`.

A package can add a task with the entry point `cloze.tasks`. Entry points are only searched for names that are not
built in. The record of a fine-tuned model contains the `version` of the task and of its package.
"""

import dataclasses
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from corpora.entry_points import Kinds
from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.store.settings import bind_settings, check_keys
from trainer.settings.model import find_family
from trainer.tasks.kinds.answers import SpanTask
from trainer.tasks.kinds.choices import ChoiceTask
from trainer.tasks.kinds.next_word import NextTask
from trainer.tasks.kinds.tags import TagsTask
from trainer.tasks.kinds.texts import ClassesTask, NumberTask
from trainer.tasks.kinds.vectors import RetrievalTask, SimilarityTask
from trainer.tasks.settings import FinetuneSettings
from trainer.tasks.task import Task

GROUP = "cloze.tasks"
_OURS = (ClassesTask, NumberTask, TagsTask, SimilarityTask, RetrievalTask, SpanTask, ChoiceTask, NextTask)
TASKS: Mapping[str, Any] = MappingProxyType({each.kind: each for each in _OURS})
OTHER_NAMES: Mapping[str, str] = MappingProxyType(  # what others call our settings
    {
        **dict.fromkeys(("lr", "rate"), "learning_rate"),
        **dict.fromkeys(("batch_size", "train_batch_size", "per_device_train_batch_size"), "batch"),
        **dict.fromkeys(("num_epochs", "num_train_epochs", "max_epochs"), "epochs"),
        **dict.fromkeys(("max_len", "max_seq_length", "max_seq_len", "model_max_length"), "max_length"),
        **{"warmup_ratio": "warmup", "wd": "weight_decay", "early_stopping_patience": "patience"},
        **{"lr_scheduler_type": "schedule", "max_grad_norm": "clip_norm", "adam_epsilon": "epsilon"},
    }
)
_MEMBERS = (
    *("version", "builder", "roles", "metrics", "list_terms", "make_example", "make_items", "make_predictions"),
    *("compute_scores", "to_row"),
)
_KINDS = Kinds(what="task", key="task", group=GROUP, ours=TASKS, members=_MEMBERS)


def find_task_class(kind: str) -> Any:
    """Find the class of a kind of task, which may be built in or come from a plugin.

    Raises InputError if the kind is unknown, or its package cannot be imported.
    """
    return _KINDS.find(kind)


def read_task(table: Mapping[str, Json], where: str = "task") -> Task:
    """Build a task from its `kind` and settings, as in a recipe or a record.

    Args:
        table: The `kind` of the task, and settings of that kind.
        where: The name of the table in error messages.

    Raises:
        InputError: If the kind is missing or unknown, or a setting is unknown or out of range.
    """
    if not isinstance(table.get("kind"), str):
        raise InputError(f"{where} does not name its `kind`: one of {', '.join(TASKS)}.")
    own = {key: value for key, value in table.items() if key != "kind"}
    task: Task = bind_settings(find_task_class(str(table["kind"])), own, where)
    return task


def split_settings(
    kind: str,
    given: Mapping[str, Any],
    where: str,
    defaults: Mapping[str, Any] = MappingProxyType({}),
    elsewhere: Collection[str] = (),
    without: Collection[str] = (),
) -> tuple[dict[str, Any], FinetuneSettings]:
    """Split settings into those of a task and those of its fine-tuning.

    Args:
        kind: The kind of task.
        given: Settings of both kinds, by name.
        where: The name of the settings in error messages.
        defaults: Default settings of the task, which `given` overrides.
        elsewhere: Other known keys, which are only used to suggest spellings.
        without: Fine-tuning settings that are not allowed here.

    Returns:
        The settings of the task, including its `kind`, and the settings of fine-tuning.

    Raises:
        InputError: If a key is unknown, or a value is out of range.
    """
    of_task, of_training = list_field_names(find_task_class(kind)), list_field_names(FinetuneSettings) - {*without}
    strange = [key for key in given if key not in of_task | of_training]
    if others := [key for key in strange if key in OTHER_NAMES]:
        raise InputError(f"{where} has no key {others[0]!r}: it is called {OTHER_NAMES[others[0]]!r}.")
    check_keys(strange, sorted({*of_task, *of_training, *elsewhere}), where)
    task = {"kind": kind, **defaults, **{key: value for key, value in given.items() if key in of_task}}
    _ = read_task(task, where)
    return task, bind_settings(FinetuneSettings, {key: v for key, v in given.items() if key not in of_task}, where)


def list_field_names(kind: Any) -> set[str]:
    """Return the names of the fields of a settings dataclass, such as `FinetuneSettings`."""
    return {field.name for field in dataclasses.fields(kind)}


def find_task_package(kind: str) -> str:
    """Return the name and version of the package that defines a kind of task; "" for a built-in kind."""
    return _KINDS.find_package(kind)


def without_old_keys(table: Mapping[str, Json]) -> dict[str, Json]:
    """Return the recorded settings of a task without `package` and without settings that no longer exist.

    A removed setting is only omitted if its value is still supported. Otherwise `read_task` rejects it later. Raises
    InputError if the kind is unknown.

    >>> without_old_keys({"kind": "next", "direction": "left", "leaky": True, "metric": ""})
    {'kind': 'next', 'leaky': True, 'metric': ''}
    """
    former = find_task_class(str(table.get("kind"))).old_keys.values()
    gone = {name: value for settings in former for name, value in settings.items()}
    return {name: value for name, value in table.items() if name != "package" and (name, value) not in gone.items()}


def find_task_for_config(config: Mapping[str, Any]) -> Task | None:
    """Find the task of a model trained elsewhere by the class in its `config.json`. Return None if no task fits."""
    architectures = find_family(config["model_type"]).names.architectures
    names = {holds for holds, name in architectures.items() if name in (config.get("architectures") or ())}
    tasks = (each.from_config(config) for each in _OURS if each.architecture in names - {Task.architecture})
    return next((task for task in tasks if task is not None), None)
