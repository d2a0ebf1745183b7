"""The `[model]` table: settings of a new encoder, or the address of a model to start from, which brings its own
settings.

The `[[task]]` tables: what the model learns from labelled examples after its training, and which documents it answers.

The keys of `TaskSettings` are a table's own; every other key is a setting of the kind of task or of fine-tuning, as in
`cloze finetune --set`. Names of kinds and of their settings are checked when the recipe is read, the labelled files
when a run begins (`TaskEntry.load_suite`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

from corpora.errors import InputError
from corpora.store.settings import bind_settings, check_choice, check_keys, convert_value
from flows.recipes.punctuation import make_missing_labels
from flows.recipes.tables import read_named_tables, resolve_path
from tokenizers_train.vocabularies.settings import GivenVocabulary
from trainer.objectives.distillation import DistillationObjective
from trainer.settings.model import ModelSettings
from trainer.settings.training import TrainingSettings
from trainer.tasks.checking.findings import check_accepted
from trainer.tasks.data import split_roles
from trainer.tasks.formats.published import PUBLISHED, get_published_set
from trainer.tasks.formats.reading import FORMATS
from trainer.tasks.formats.records import ID
from trainer.tasks.registry import list_field_names, read_task, split_settings
from trainer.tasks.suites.suite import (
    FILE_KEYS,
    Suite,
    build_suite_task,
    check_metrics,
    check_seeds,
    list_shipped_suites,
    read_suite,
)
from trainer.tasks.task import Task

TEACHER_KEY = "model.objective.teacher"
START_VOCABULARY = GivenVocabulary(path="")  # the vocabulary of the model that training begins with, wherever that is


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEntry:
    """The `[model]` and `[training]` tables of a recipe: the encoder and how it is trained.

    Attributes:
        settings: Settings of the encoder. If training starts from another model, they only contain the address of that
            model.
        training: Settings of the training.
        phases: For each training phase, the names of the shard sets that it reads.
        given: The other settings of the `[model]` table if training starts from another model.
        folder: Absolute path of the start model if it is on this machine; "" if it is remote or there is none.
        teacher: Address of the teacher model for distillation; "" if there is none.
        teacher_folder: Absolute path of the teacher if it is on this machine; "" if it is remote or there is none.
    """

    settings: ModelSettings
    training: TrainingSettings
    phases: tuple[tuple[str, ...], ...]
    given: Mapping[str, Any] = field(default_factory=dict)
    folder: str = ""
    teacher: str = ""
    teacher_folder: str = ""

    @property
    def shards(self) -> tuple[str, ...]:
        """The distinct names of the shard sets (training data) that training reads, in the order of the phases."""
        return tuple(dict.fromkeys(name for names in self.phases for name in names))


def read_model_table(
    section: Mapping[str, Any], path: Path, training: TrainingSettings, phases: tuple[tuple[str, ...], ...]
) -> ModelEntry:
    """Check a recipe's `[model]` table and return the model and its training.

    Args:
        section: The table, as `tomllib` reads it.
        path: Path of the recipe file. Relative paths are resolved against its folder.
        training: Settings of the training.
        phases: For each training phase, the names of the shard sets that it reads.

    Raises:
        InputError: If a setting is unknown or out of range, or distillation has no teacher.
    """
    objective = section.get("objective")
    teacher = objective.get("teacher", "") if isinstance(objective, Mapping) else ""
    entry = partial(ModelEntry, training=training, phases=phases)
    if isinstance(teacher, str) and teacher:
        entry = partial(entry, teacher=teacher, teacher_folder=_resolve_model_folder(teacher, path))
    if isinstance(objective, Mapping) and objective.get("kind") == DistillationObjective.kind and teacher == "":
        raise InputError(
            f"{TEACHER_KEY} is missing: give the folder of a trained model of the same vocabulary, or models/NAME of "
            "the recipe's store."
        )
    if "start" not in section:
        return entry(settings=bind_settings(ModelSettings, section, "model"))
    settings = bind_settings(ModelSettings, {"start": section["start"]}, "model")
    if not settings.start:
        raise InputError("model.start is empty: give the folder of a model, or leave it out for random weights.")
    hints = get_type_hints(ModelSettings)
    check_keys(section, hints, "model")
    given = {key: convert_value(value, hints[key], f"model.{key}") for key, value in section.items()}
    del given["start"]
    return entry(settings=settings, given=given, folder=_resolve_model_folder(settings.start, path))


def _resolve_model_folder(address: str, path: Path) -> str:
    """Return the absolute path of a model if its address is a path, or "" if its address is a URL.

    Args:
        address: The address in the recipe, such as "models/small".
        path: Path of the recipe file. A relative path is resolved against its folder.
    """
    return "" if "://" in address else resolve_path(address, path)


ANSWER_KINDS = ("", "predict", "embed")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSettings:
    """A task on which the model is fine-tuned, with labelled examples, after its training.

    The other keys of the table are settings of the kind of task and of fine-tuning, as in `cloze finetune --set`.

    task:         a kind of task, or a published set such as "glue/sst2" with its files in the folder `data`
    suite:        instead of `task`: a file of several tasks, or a suite that comes with Cloze, with its files in `data`
    train:        the labelled file to train on
    evaluate:     the labelled file used to choose the best epoch and seed, and to compare models
    data:         the folder of a published set, or of a suite's files
    columns, format, header, max_unusable: how both files are read, as on the command line
    metrics:      the scores to compute, the most important one first; if empty, those of the task's kind or of the set
    seeds:        the model is fine-tuned once with each seed; the model of the best seed and the scores of all are kept
    baseline:     a model to compare with, fine-tuned in the same way: a folder, models/NAME of the store or a release;
                  a comparison with the most frequent class is always made
    control:      whether a model with random initial weights is fine-tuned too, so that the report can say whether
                  pre-training was worth it
    answers:      "predict" or "embed": what to compute for documents that no released model has processed yet
    sources:      the sources of the documents to process; if empty, all sources
    accept:       findings about the labelled files that do not stop a run, by their names in `cloze check`
    """

    task: str = ""
    suite: str = ""
    train: str = ""
    evaluate: str = ""
    data: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    format: str = ""
    header: bool = True
    max_unusable: float = 0.01
    metrics: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (42,)
    baseline: str = ""
    control: bool = False
    answers: str = ""
    sources: tuple[str, ...] = ()
    accept: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEntry:
    """One `[[task]]` table of a recipe.

    Attributes:
        name: Name of the table in the recipe; "" if it is the only task and has no name.
        settings: The settings that all tasks have.
        given: Settings of the task kind and of fine-tuning.
        table_key: Label of the table in messages, such as `task 'labels'`.
        baseline_folder: Absolute path of the baseline model if it is on this machine; "" if it is remote or there is
            none.
    """

    name: str
    settings: TaskSettings
    given: Mapping[str, Any]
    table_key: str
    baseline_folder: str = ""

    def load_suite(self) -> Suite:
        """Build the suite (set of tasks) that this table describes, including settings for reading the labeled files.

        Labels that are generated from installed packages are generated now if they are missing.

        Raises:
            InputError: If a file is missing, or a setting of a suite's file is not valid.
        """
        own = self.settings
        for file in filter(None, (own.train, own.evaluate)):
            make_missing_labels(Path(file))
        data = Path(own.data) if own.data else None
        if own.suite:
            suite = read_suite(own.suite, data)
            return replace(suite, seeds=own.seeds) if own.seeds != TaskSettings().seeds else suite
        name = self.name or own.task
        set_of = {"set": own.task} if own.task in PUBLISHED else {"kind": own.task}
        files = {"train": own.train, "dev": own.evaluate}
        read = {key: getattr(own, key) for key in FILE_KEYS}
        table = {**set_of, **files, **read, "metrics": list(own.metrics), **self.given}
        task = build_suite_task(name, table, data if data is not None else Path(), self.table_key)
        return Suite(name=name, seeds=own.seeds, tasks=(task,), average=False)


def read_task_tables(
    table: Mapping[str, Any], path: Path, sources: tuple[str, ...], has_model: bool
) -> tuple[TaskEntry, ...]:
    """Check a recipe's `[[task]]` tables and return one entry for each; () if there are none.

    Args:
        table: The whole recipe, as `tomllib` reads it.
        path: Path of the recipe file. Relative paths are resolved against its folder.
        sources: Names of the recipe's sources.
        has_model: True if the recipe trains a model.

    Raises:
        InputError: If a setting is not valid, or there is a task but no model to fine-tune.
    """
    if "task" not in table:
        return ()
    if not has_model:
        raise InputError("there is a [[task]] but no [model] that could learn it: add [model] and [training].")
    return tuple(_read_task_table(*named, path, sources) for named in read_named_tables(table, "task"))


def _read_task_table(
    name: str, section: Mapping[str, Any], where: str, path: Path, sources: tuple[str, ...]
) -> TaskEntry:
    own_keys = list_field_names(TaskSettings)
    own = bind_settings(TaskSettings, {key: value for key, value in section.items() if key in own_keys}, where)
    given = {key: value for key, value in section.items() if key not in own_keys}
    check_seeds(where, own.seeds)
    check_choice(f"{where}.answers", own.answers, ANSWER_KINDS)
    check_accepted(f"{where}.accept", own.accept)
    for source in own.sources:
        check_choice(f"{where}.sources", source, sources)
    if own.suite:
        _check_suite(own, given, where)
    else:
        _check_task(own, given, where)
    files = {key: getattr(own, key) for key in ("train", "evaluate", "data")}
    files["suite"] = "" if own.suite in list_shipped_suites() else own.suite
    placed: dict[str, Any] = {key: resolve_path(value, path) for key, value in files.items() if value}
    baseline = "" if not own.baseline or "://" in own.baseline else resolve_path(own.baseline, path)
    return TaskEntry(name=name, settings=replace(own, **placed), given=given, table_key=where, baseline_folder=baseline)


def _check_suite(own: TaskSettings, given: Mapping[str, Any], where: str) -> None:
    strange = [key for key in ("task", "train", "evaluate", "format", "columns", "metrics") if getattr(own, key)]
    if strange := [*strange, *given]:
        raise InputError(
            f"{where}.{strange[0]} is given with {where}.suite, whose file says this for each of its tasks: leave out "
            "one or the other."
        )
    if own.answers:
        raise InputError(f"{where}.answers needs one task, and {where}.suite has several: give that one a [[task]].")


def _check_task(own: TaskSettings, given: Mapping[str, Any], where: str) -> None:
    """Check that the task kind exists, that its settings are known, and that all required files are given.

    Args:
        own: The settings that all tasks have.
        given: The other settings of the table.
        where: Label of the table in messages.

    Raises:
        InputError: If one of these checks fails.
    """
    if not own.task:
        raise InputError(f'{where} names no task: give it task = "classes" (or another kind, or a published set), or '
                         "a suite.")  # fmt: skip
    is_set = own.task in PUBLISHED
    kind = get_published_set(own.task).kind if is_set else own.task
    table, _ = split_settings(kind, given, where, elsewhere=list_field_names(TaskSettings), without=("seed",))
    task = read_task(table, where)
    _check_answers(own.answers, task, where)
    check_metrics(where, own.metrics, task, get_published_set(own.task) if is_set else None)
    check_choice(f"{where}.format", own.format, ("", *FORMATS))
    for role in own.columns:
        check_choice(f"{where}.columns", role, (*task.roles, ID))
    if is_set and (strange := [key for key in ("train", "evaluate", "columns", "format") if getattr(own, key)]):
        raise InputError(f"{where}.{strange[0]} is given, but {own.task} is read as it is published: leave it out, or "
                         f"name the kind of task, {kind!r}, in place of the set.")  # fmt: skip
    needed = ("data",) if is_set else ("train", "evaluate")
    missing = [key for key in needed if not getattr(own, key)]
    if missing:
        raise InputError(f"{where}.{missing[0]} is missing: {own.task!r} needs {' and '.join(needed)}.")


def _check_answers(answers: str, task: Task, where: str) -> None:
    """Check that a task can make predictions for documents, if its setting `answers` requests them.

    Args:
        answers: The setting: "", "predict" or "embed".
        task: The kind of task.
        where: Label of the table in messages.

    Raises:
        InputError: If predictions are requested, and the input of the task is more than one text.
    """
    needed, _ = split_roles(task, labelled=False)
    if answers == "predict" and needed != ["text"]:
        reads = f"the task {task.kind!r} reads {' and '.join(needed)}"
        raise InputError(
            f'{where}.answers = "predict": {reads}, and a document is one text. Leave it out, or let it make vectors: '
            'answers = "embed".'
        )
