"""A suite: tasks, seeds and settings from a TOML file, and the fine-tuning runs for them.

    name = "GLUE"
    seeds = [42, 43, 44]
    tasks = ["glue/cola", "glue/mnli", "mine"]
    average = true                  # report the mean over tasks; a task counts by the mean of its metrics

    [settings]                      # of fine-tuning, for all tasks
    max_length = 128

    [task."glue/mnli"]              # for one task: settings of fine-tuning, and of the kind of task
    also = ["glue/mnli-mm", "glue/ax"]
    epochs = 3

    [task.mine]                     # a task that is not a published set: its kind and its files
    kind = "classes"
    train = "mine/train.tsv"
    dev = "mine/dev.tsv"
    columns = { text = "sentence" }

A task with the name of a published set (`trainer.tasks.formats.published`) has that set's kind, files, columns, labels
and metrics. The model predicts every split except the training split, and splits with labels are scored. `also` names
other published sets that the model of this task predicts.

Two sets are scored by group, which is the options of a question or the candidates for a gap. The id of a record ends in
the number of its option. A row of scores is a question or a query, because its options must be drawn together:

    MultiRC  f1a over all options; exact: the fraction of questions with all options correct (Khashabi et al. 2018,
             section 4)
    ReCoRD   for a query, the most probable candidate; exact match and F1 of its text with the gold answers (Zhang et
             al. 2018, section 5.1)

Each task and seed is a run. The name of its folder depends on its settings:

    OUTPUT/runs/TASK-SEED-DIGEST/   model/             the fine-tuned model, as written by `cloze finetune`
                                    SPLIT.json         the scores of the predictions (`JudgedSplit`)
                                    SPLIT.jsonl        the predictions, one line per record

The digest depends on the model, the task, its settings and the bytes of its files. So an equal run finds what was
already done, and a different one gets another folder. Cost: the model and the files are read once.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from corpora.errors import InputError
from corpora.sources.bytes.objects import parse_raw_path
from corpora.store.settings import (
    POSITION,
    bind_settings,
    check_choice,
    check_keys,
    parse_toml,
    suggest,
    to_settings_json,
)
from trainer.tasks.data import compute_sha256, describe_file
from trainer.tasks.formats.published import FoundSet, PublishedSet, find_published_set, get_published_set
from trainer.tasks.formats.reading import read_examples
from trainer.tasks.formats.records import FileSettings, RowCounts
from trainer.tasks.kinds.answers import find_best_match
from trainer.tasks.kinds.texts import compute_option_scores
from trainer.tasks.registry import find_task_class, find_task_package, list_field_names, read_task, split_settings
from trainer.tasks.settings import FinetuneJob, FinetuneSettings
from trainer.tasks.suites.split_scores import MEANS, OPTIONS, VERSION, JudgedSplit, read_judged
from trainer.tasks.task import Example, Prediction, Task

SHIPPED = Path(__file__).parent / "shipped"
TRAIN, DEV, TEST = "train", "dev", "test"
FILE_KEYS = ("format", "header", "columns", "max_unusable")  # keys of a task that say how its files are read


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteSplit:
    """A labeled or unlabeled file (a split, such as dev) for which the model of a task makes predictions.

    name:     "dev" or "test", or the name of another published set followed by one of these
    labelled: True if the predictions can be scored
    metrics:  names of the scores, the main one first
    averaged: True if the split is included in the mean over tasks
    set:      name of the published set that it belongs to, or ""
    """

    name: str
    file: FileSettings
    labelled: bool
    metrics: tuple[str, ...]
    averaged: bool = False
    set: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteTask:
    """A task to fine-tune on, with its training file and the splits (files such as dev) to predict.

    `task` has the settings of the task, including its `kind`.
    """

    name: str
    task: Mapping[str, Any]
    training: FileSettings
    splits: tuple[SuiteSplit, ...]
    settings: FinetuneSettings

    @property
    def evaluation(self) -> FileSettings:
        """The file used to choose the best epoch, which is the file of the first split."""
        return self.splits[0].file


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A list of tasks, and the seeds of the runs. `average` is True if a mean over the tasks is reported."""

    name: str
    seeds: tuple[int, ...]
    tasks: tuple[SuiteTask, ...]
    average: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteTable:
    """The keys of a suite file (TOML), as shown at the top of this module."""

    name: str = ""
    seeds: tuple[int, ...] = (42,)
    tasks: tuple[str, ...] = ()
    average: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    task: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteTaskTable:
    """The keys of a task's table, other than the settings of fine-tuning and of the kind of task.

    set:                  name of the published set, if it differs from the name of the task
    folder:               folder with the files of that set, relative to the data folder
    kind:                 kind of a task that is not a published set
    train, dev, test:     files of a task that is not a published set
    format, header, columns, max_unusable: how these files are read
    metrics:              metrics to report; if empty, those of the set or of the kind
    also:                 published sets that the task's model also predicts
    """

    set: str = ""
    folder: str = ""
    kind: str = ""
    train: str = ""
    dev: str = ""
    test: str = ""
    format: str = ""
    header: bool = True
    columns: Mapping[str, str] = field(default_factory=dict)
    max_unusable: float = 0.01
    metrics: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


def list_shipped_suites() -> list[str]:
    """List the names of the built-in suites, sorted."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def read_suite(name_or_path: str, data: Path | None = None) -> Suite:
    """Read a suite, which is a list of tasks to fine-tune on from several seeds.

    Args:
        name_or_path: The name of a built-in suite, or the path of a TOML file.
        data: The folder of the labeled files; None for the folder of the TOML file, or the working directory for a
            built-in suite.

    Raises:
        InputError: If there is no such suite, it has unknown keys, or a file is missing.
    """
    shipped = name_or_path in list_shipped_suites()
    path = SHIPPED / f"{name_or_path}.toml" if shipped else Path(name_or_path)
    table = bind_settings(SuiteTable, _read_toml(path), str(path.name))
    names = table.tasks or tuple(table.task)
    _check_names(path, names, table)
    root = data if data is not None else Path() if shipped else path.parent
    tasks = tuple(
        build_suite_task(name, {**table.settings, **table.task.get(name, {})}, root, f"{path.name}: task.{name}")
        for name in names
    )
    return Suite(name=table.name or path.stem, seeds=table.seeds, tasks=tasks, average=table.average)


def _read_toml(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InputError(
            f"There is no suite {path}: give a TOML file of tasks, or one that comes with the program: "
            f"{suggest(path.name, list_shipped_suites())}"
        )
    try:
        return parse_toml(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is not TOML ({error}): fix it, or name each task's table once.") from error


def _check_names(path: Path, names: Sequence[str], table: SuiteTable) -> None:
    if not names:
        raise InputError(f"{path} names no task: list some under `tasks`, or give each a table [task.NAME].")
    if len({*names}) < len(names):
        raise InputError(f"{path} names a task twice: give one another name, and say which `set` it is.")
    check_keys(table.task, names, f"{path}: `tasks`")
    check_seeds(str(path), table.seeds)


def check_seeds(where: str, seeds: Sequence[int]) -> None:
    """Raise InputError unless there is at least one seed, and the seeds are distinct non-negative integers.

    Args:
        where: The file or option that gave the seeds, for error messages.
        seeds: The seeds.
    """
    if len({*seeds}) < max(1, len(seeds)):
        raise InputError(f"{where}: seeds = {list(seeds)}: give one or more different numbers.")
    for seed in seeds:
        POSITION.check(f"{where}: seeds", seed)


def build_suite_task(name: str, given: Mapping[str, Any], root: Path, where: str) -> SuiteTask:
    """Build a task of a suite from its table.

    Args:
        name: The name of the task. If it is the name of a published set, the files and metrics of that set are used.
        given: Keys of `SuiteTaskTable`, of fine-tuning, and of the kind of task.
        root: The folder of the labeled files.
        where: The name of the table, for error messages.

    Raises:
        InputError: If a key or a metric is unknown, a value is out of range, or a file is missing.
    """
    of_table = list_field_names(SuiteTaskTable)
    own = bind_settings(SuiteTaskTable, {key: value for key, value in given.items() if key in of_table}, where)
    of_set = own.set or ("" if own.kind else name)
    dataset = _find_published_set(of_set, root / own.folder, where) if of_set else None
    kind = dataset.published.kind if dataset else own.kind
    splits = _list_set_splits(dataset, own) if dataset else _build_file_splits(own, root, where)
    training = dataset.files[TRAIN] if dataset else _locate_file(own, own.train, root, where, TRAIN)
    more = {key: value for key, value in given.items() if key not in of_table}
    defaults = derive_settings(dataset.published) if dataset else {}
    task, settings = split_settings(kind, more, where, defaults, of_table, without=("seed",))
    check_metrics(where, own.metrics, read_task(task, where), dataset.published if dataset else None)
    if not splits[0].metrics:
        splits = tuple(replace(split, metrics=read_task(task, where).metrics) for split in splits)
    also = [split for other in own.also for split in _iter_extra_splits(other, root, where)]
    return SuiteTask(name=name, task=task, training=training, splits=(*splits, *also), settings=settings)


def check_metrics(where: str, metrics: Sequence[str], task: Task, published: PublishedSet | None) -> None:
    """Raise InputError if a metric is defined neither for the task nor for the published set.

    Args:
        where: The name of the task's table, for error messages.
        metrics: The names of the metrics.
        task: The task.
        published: The published set of the task, or None.
    """
    for metric in metrics:
        check_choice(f"{where}.metrics", metric, (*task.metrics, *(published.metrics if published else ())))


def _find_published_set(name: str, folder: Path, where: str, splits: Sequence[str] = (TRAIN, DEV)) -> FoundSet:
    """Find the files of a published set in a folder, for a task of a suite.

    Args:
        name: The name of the set.
        folder: The folder to search.
        where: The name of the task's table, for messages.
        splits: The splits that must exist.

    Raises:
        InputError: If the name is unknown, or if one of the splits is missing.
    """
    try:
        offered = {split for layout in get_published_set(name).layouts for split in layout.files}
        if not {*splits} <= offered:
            lacking = " and ".join(split for split in splits if split not in offered)
            raise InputError(
                f"{name} has no {lacking} split as it is published: name the files of the task yourself (`kind`, "
                "`train`, `dev`)."
            )
        return find_published_set(name, str(folder), splits)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def derive_settings(published: PublishedSet) -> dict[str, Any]:
    """Derive the settings of a task from a published set, by name.

    They include `labels`, and `metric` if the task has the set's first metric.
    """
    kind = find_task_class(published.kind)
    values: dict[str, Any] = {"labels": published.labels} if published.labels else {}
    if published.metrics[0] in kind(**values).metrics:
        values["metric"] = published.metrics[0]
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


# Splits.


def _list_set_splits(dataset: FoundSet, own: SuiteTaskTable) -> tuple[SuiteSplit, ...]:
    """List the splits of a published set to predict: the dev split first, then all others except the training split."""
    names = [DEV, *(name for name in dataset.files if name not in (TRAIN, DEV))]
    return tuple(_build_split(dataset, name, name, own.metrics) for name in names)


def _build_split(dataset: FoundSet, split: str, name: str, metrics: tuple[str, ...] = ()) -> SuiteSplit:
    file = dataset.files[split]
    hidden = split == TEST and dataset.published.hidden and "label" not in file.columns
    return SuiteSplit(
        name=name,
        file=file,
        labelled=not hidden,
        metrics=metrics or dataset.published.metrics,
        averaged=split == DEV,
        set=dataset.name,
    )


def _iter_extra_splits(name: str, root: Path, where: str) -> Iterator[SuiteSplit]:
    """Yield the splits of another published set that the task's model also predicts.

    Raises InputError if the files of the set are missing. `where` is the name of the task's table, for messages.
    """
    entry = get_published_set(name)
    wanted = {split for layout in entry.layouts for split in layout.files} - {TRAIN}
    dataset = _find_published_set(name, root, where, [DEV] if DEV in wanted else [TEST])
    for split in (DEV, TEST):
        if split in dataset.files:
            yield _build_split(dataset, split, f"{name} {split}")


def _build_file_splits(own: SuiteTaskTable, root: Path, where: str) -> tuple[SuiteSplit, ...]:
    """Build the splits of a task with its own files: dev and, if a test file is given, test. All have labels.

    Raises InputError if a file is missing. `where` is the name of the task's table, for messages.
    """
    names = [DEV, *([TEST] if own.test else [])]
    return tuple(
        SuiteSplit(
            name=name,
            file=_locate_file(own, getattr(own, name), root, where, name),
            labelled=True,
            metrics=own.metrics,
            averaged=name == DEV,
        )
        for name in names
    )


def _locate_file(own: SuiteTaskTable, path: str, root: Path, where: str, split: str) -> FileSettings:
    if not path:
        raise InputError(f"{where} names no file for {split}: say `{split} = FILE`.")
    if not parse_raw_path(str(root / path)).exists():
        raise InputError(f"{where}: there is no {root / path}: give its path from {root}, or another --data FOLDER.")
    return FileSettings(path=str((root / path).resolve()), **{name: getattr(own, name) for name in FILE_KEYS})


MULTIRC, RECORD = "superglue/multirc", "superglue/record"

Ids = Sequence[Any]


def score_groups(
    name: str, file: FileSettings, ids: Ids, examples: Sequence[Example], predictions: Sequence[Prediction]
) -> dict[str, Any]:
    """Score a set of examples that form groups: the options of a question, or the candidates for a gap.

    Args:
        name: The published set. Returns {} unless it is MultiRC or ReCoRD.
        file: The file with the examples.
        ids: The id of each example, which ends in a dot and the number of the option.
        examples: The examples.
        predictions: The outputs of each example for the classes "0" and "1".

    Returns:
        Fields of `JudgedSplit`: `scores`, and `statistic`, `rows` and `columns`, from which they can be recomputed.
    """
    if name == MULTIRC:
        return _score_options(ids, examples, predictions)
    return _score_candidates(file, ids, predictions) if name == RECORD else {}


def find_question_id(name: Any) -> str:
    """Return the id of the question to which an answer option belongs. It is the part of its id before the last dot.

    >>> find_question_id("7.3.0")
    '7.3'
    """
    return str(name).rpartition(".")[0]


def _score_options(ids: Ids, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, Any]:
    counts: dict[str, list[float]] = {}
    for name, example, prediction in zip(ids, examples, predictions, strict=True):
        wanted, answered = int(example.label), int(prediction.argmax())
        row = counts.setdefault(find_question_id(name), [0.0, 0.0, 0.0, 1.0])
        for place, added in enumerate((wanted and answered, answered, wanted)):
            row[place] += added
        row[3] = float(row[3] and wanted == answered)
    rows = tuple(map(tuple, counts.values()))
    return {"scores": compute_option_scores(rows), "statistic": OPTIONS, "rows": rows}


def _score_candidates(file: FileSettings, ids: Ids, predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Score the text of each query's most probable candidate against the gold answers, as fields of `JudgedSplit`.

    If candidates are equally probable, the first one is used.
    """
    best: dict[str, tuple[float, str]] = {}
    for name, prediction in zip(ids, predictions, strict=True):
        query, weight = find_question_id(name), float(prediction[1] - prediction[0])
        if query not in best or weight > best[query][0]:
            best[query] = weight, str(name)
    records = read_examples(replace(file, max_unusable=1.0), RowCounts(), ("id", "answer"), dict, ("gold",))
    candidates = {str(values["id"]): values for _, values in records}
    matches = [find_best_match(candidates[name]["gold"], candidates[name]["answer"]) for _, name in best.values()]
    rows = tuple((match.f1, match.exact) for match in matches)
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    names = ("f1", "exact")
    return {"scores": dict(zip(names, means, strict=True)), "statistic": MEANS, "columns": names, "rows": rows}


RUNS, MODEL = "runs", "model"
DECIDING_FILES = ("*.safetensors", "config.json", "tokenizer.json")  # files of a model's folder


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteRun:
    """Fine-tuning on one task from one seed.

    `job` describes the fine-tuning. The model, its predictions and their scores are stored in `folder`.
    """

    task: str
    seed: int
    folder: str
    job: FinetuneJob
    splits: tuple[SuiteSplit, ...]

    def locate_answers(self, split: SuiteSplit) -> Path:
        """Return the path of the file with the predictions for a split (a file of the task, such as dev)."""
        return Path(self.folder) / f"{to_file_name(split.name)}.jsonl"

    def locate_scores(self, split: SuiteSplit) -> Path:
        """Return the path of the file with the scores of a split (a file of the task, such as dev)."""
        return Path(self.folder) / f"{to_file_name(split.name)}.json"

    @property
    def unanswered_splits(self) -> list[SuiteSplit]:
        """The splits (files of the task, such as dev) that have no up-to-date predictions and scores yet.

        Raises:
            InputError: If a file of scores is damaged.
        """
        return [split for split in self.splits if not is_judged(self, split)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteJob:
    """The runs that one process of the trainer executes."""

    runs: tuple[SuiteRun, ...]


def iter_runs(suite: Suite, model: Path, output: Path, first_weights: bool = False) -> Iterator[SuiteRun]:
    """Yield the runs of a suite (one task and one seed each), task by task and seed by seed.

    Args:
        suite: The suite.
        model: The folder of the model to fine-tune.
        output: The folder in which each run gets its own folder.
        first_weights: True to start from random weights instead of the pre-trained ones, as a control.

    Raises:
        InputError: If the model has no weights. Raised at the first iteration.
    """
    weights = digest_model(model) + (" from first weights" if first_weights else "")
    for task in suite.tasks:
        asked = _describe_request(task, weights)
        for seed in suite.seeds:
            digest = hashlib.sha256(f"{asked}{seed}".encode()).hexdigest()[:12]
            folder = output / RUNS / f"{to_file_name(task.name)}-{seed}-{digest}"
            job = FinetuneJob(
                model=str(model.resolve()),
                output=str((folder / MODEL).resolve()),
                task=task.task,
                training=task.training,
                evaluation=task.evaluation,
                settings=replace(task.settings, seed=seed),
                first_weights=first_weights,
            )
            yield SuiteRun(task=task.name, seed=seed, folder=str(folder.resolve()), job=job, splits=task.splits)


def is_judged(run: SuiteRun, split: SuiteSplit) -> bool:
    """Return True if a run has up-to-date predictions and scores for a split.

    They are up to date if the file still has the same content and the scores are of the current version.

    Raises:
        InputError: If the file of scores is damaged.
    """
    judged = read_judged(run.locate_scores(split))
    is_now = judged is not None and (judged.version, judged.sha256) == (VERSION, digest_split(split))
    return is_now and run.locate_answers(split).is_file()


def check_judged(run: SuiteRun, split: SuiteSplit, judged: JudgedSplit) -> None:
    """Raise InputError if the scores of a labeled split lack the first metric that the suite reports for it.

    `run` names the task in the message.
    """
    if split.labelled and split.metrics[0] not in judged.scores:
        raise InputError(
            f"The task {run.task} has no {split.metrics[0]} of {split.name}: name `metrics` of "
            f"{', '.join(judged.scores)} in its table."
        )


def digest_split(split: SuiteSplit) -> str:
    """Compute the SHA-256 of a split's file, or return the name of the folder if the split is a folder."""
    path = parse_raw_path(split.file.path)
    return compute_sha256(str(path)) if path.is_file() else path.name


def digest_model(model: Path) -> str:
    """Compute a SHA-256 over the model files that determine its predictions (weights, configuration, tokenizer).

    Raises:
        InputError: If the folder has no weights.
    """
    files = [path for pattern in DECIDING_FILES for path in sorted(model.glob(pattern))]
    if not any(path.suffix == ".safetensors" for path in files):
        raise InputError(
            f"{model} holds no weights (*.safetensors), so it is not a model: give a model's folder, an artifact of a "
            "store, a release, or a store."
        )
    named = [(path.name, compute_sha256(str(path))) for path in files]
    return hashlib.sha256(json.dumps(named).encode()).hexdigest()


def _describe_request(task: SuiteTask, model: str) -> str:
    """Serialize everything except the seed that determines a fine-tuned model to JSON, from which a digest is computed.

    `model` is the digest of the model to start from.
    """
    kind = str(task.task["kind"])
    settings = {name: value for name, value in to_settings_json(task.settings).items() if name != "seed"}
    files = [describe_file(task.training), describe_file(task.evaluation)]
    version = [find_task_class(kind).version, find_task_package(kind)]
    return json.dumps([model, dict(task.task), version, settings, files], sort_keys=True)


def to_file_name(name: str) -> str:
    """Replace characters that may be unsafe in file names with hyphens.

    >>> to_file_name("glue/mnli-mm dev")
    'glue-mnli-mm-dev'
    """
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)
