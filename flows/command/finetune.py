"""`cloze finetune`: a job from the arguments, the trainer that does it, and its events as lines for people."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any, NamedTuple

from cyclopts import Parameter

from corpora.errors import InputError
from corpora.generic_types import Tell
from corpora.store.places.files import replace_file
from flows.command.arguments import Model, Position
from flows.command.check import check_data_first
from flows.command.control import compare_with_control
from flows.command.record_files import DEFAULT_FILE_OPTIONS, Accept, FileOptions, hold_piped_file, to_absolute
from flows.command.terminal import print_lines
from flows.command.trainer_process import iter_trainer_events, open_job_file, open_model_folder
from flows.recipes.tables import parse_override, parse_setting
from flows.run.record.task_scores import EventPrinter
from trainer.metrics import Event
from trainer.tasks.formats.published import PUBLISHED, find_published_set, get_published_set
from trainer.tasks.formats.records import KEEP_PREFIX, FileSettings
from trainer.tasks.registry import split_settings
from trainer.tasks.settings import FinetuneJob
from trainer.tasks.suites.suite import derive_settings

PUBLISHED_FILE = FileSettings(path="")
HELD_OUT_FOLDS = 10  # one of so many parts of the file is held out if no file to evaluate with is named
RECORD, FOLDS = "finetune.json", "folds.json"


def finetune(
    task: Annotated[
        str, Parameter(help="What to learn: classes, number, ...; or a published set: glue/sst2, squad/2.0, ...")
    ],
    model: Model,
    *,
    output: Annotated[Path, Parameter(help="Folder for the result; it must be empty or not exist.")],
    train: Annotated[Path | None, Parameter(help="Labeled examples to learn from; - reads the standard input.")] = None,
    evaluate: Annotated[
        Path | None, Parameter(help="Labeled examples to judge by after every epoch; default: a tenth of --train.")
    ] = None,
    folds: Annotated[
        Position, Parameter(help="Fine-tune once for each of so many parts of --train, judged by it.")
    ] = 0,
    group: Annotated[str, Parameter(help="A column whose values --train is divided by, instead of its texts.")] = "",
    data: Annotated[Path | None, Parameter(help="For a published set its folder, in place of the two files.")] = None,
    reading: FileOptions = DEFAULT_FILE_OPTIONS,
    overrides: Annotated[
        list[str] | None,
        Parameter(name="--set", help="key=value, of the task or the training: epochs, restarts, ...", negative=()),
    ] = None,
    control: Annotated[
        bool,
        Parameter(help="Then fine-tune the same model from first weights, and compare: was it worth it?", negative=()),
    ] = False,
    accept: Accept = (),
) -> None:
    """Fine-tune a model on a task.

    Run the same command again to resume it.
    """
    if control and (folds or (evaluate is None and data is None)):
        raise InputError(
            "--control compares two models on the same rows: name their file with --evaluate, and leave --folds out."
        )
    learn = finetune_with_control if control else finetune_model
    pairs, file = dict(map(parse_override, overrides or [])), reading.to_settings(None)
    if data is not None or train is None or "/" in task:  # a published set
        kind, files, settings = find_published_task(task, data, train, evaluate, file=file)
        learn(FinetuneRequest(kind, model, files, output, {**settings, **pairs}, accept), print_lines)
        return
    files = build_task_files(file, train, evaluate, folds, group)
    if evaluate is None and not folds:
        print_lines("--evaluate names no file: a tenth of the examples is held out to judge by")
    with hold_piped_file(files.training) as training:
        files = files._replace(training=training, evaluation=training if files.folds else files.evaluation)
        (finetune_folds if folds else learn)(FinetuneRequest(task, model, files, output, pairs, accept), print_lines)


class TaskFiles(NamedTuple):
    """The files for training and evaluation.

    If `folds` is not 0, both are the same file: the fold with index `fold` is used for evaluation, all others for
    training.

    Attributes:
        training: The file for training.
        evaluation: The file for evaluation.
        folds: The number of folds that the file is divided into; 0 if there are two files.
        fold: The zero-based index of the evaluation fold.
        group: A column; all records with the same value in this column go to the same fold. "" for none.
    """

    training: FileSettings
    evaluation: FileSettings
    folds: int = 0
    fold: int = 0
    group: str = ""

    @property
    def files(self) -> Sequence[FileSettings]:
        """The distinct files, the training file first."""
        return [self.training] if self.folds else [self.training, self.evaluation]


def build_task_files(
    reading: FileSettings, train: Path, evaluate: Path | None, folds: int = 0, group: str = ""
) -> TaskFiles:
    """Build the settings of the training and evaluation files of a fine-tuning run. Both are read in the same way.

    Args:
        reading: How the files are read; its path is ignored.
        train: The file for training.
        evaluate: The file for evaluation. If None, `train` is divided into folds.
        folds: The number of folds. With 0 and no evaluation file, HELD_OUT_FOLDS is used.
        group: A column; all records with the same value in this column go to the same fold. "" for none.

    Raises:
        InputError: If folds or a group are given together with an evaluation file.
    """
    if evaluate is not None:
        if folds or group:
            raise InputError(
                "--folds and --group divide the file of --train, and --evaluate names another to judge by."
            )
        training, evaluation = (replace(reading, path=to_absolute(path)) for path in (train, evaluate))
        return TaskFiles(training, evaluation)
    kept = {f"{KEEP_PREFIX}{group}": group} if group else {}
    file = replace(reading, path=to_absolute(train), columns={**reading.columns, **kept})
    return TaskFiles(file, file, folds or HELD_OUT_FOLDS, group=group)


def find_published_task(
    name: str, data: Path | None, *files: Path | None, file: FileSettings = PUBLISHED_FILE
) -> tuple[str, TaskFiles, dict[str, Any]]:
    """Find the files and settings of a published data set.

    Args:
        name: The name of the data set, such as "glue/sst2".
        data: The folder in which the data set was unpacked. Required.
        files: The files given by other options. Each must be None, because the data set determines its files.
        file: How files are read; only its `max_unusable` may differ from the default.

    Returns:
        The kind of task, the files for training and evaluation, and the task's settings.

    Raises:
        InputError: If `data` is None (the message explains what is required), if one of `files` is set, or if the data
            set is unknown, lacks files or a train or dev split, or other options contradict it.
    """
    if data is None and name in PUBLISHED:
        raise InputError(
            f"{name} is a published set: give the folder that it was unpacked in (--data FOLDER); or for files of your "
            f"own name the kind of task, {get_published_set(name).kind!r}, in its place."
        )
    if data is None:
        raise InputError(
            f"{name}: name the files, --train FILE and --evaluate FILE; or name a published set and the folder that it "
            f"was unpacked in, --data FOLDER. Known sets: {', '.join(PUBLISHED)}."
        )
    if any(files):
        raise InputError("--data names the folder of a published set, and --train and --evaluate files: leave one out.")
    if file != replace(PUBLISHED_FILE, max_unusable=file.max_unusable):
        raise InputError(
            f"{name} is read as it is published: leave --column, --format and --no-header out, or name your own files "
            "and the kind of task."
        )
    of_set = find_published_set(name, str(data))
    if not {"train", "dev"} <= {*of_set.files}:
        lacking = " and no ".join(split for split in ("train", "dev") if split not in of_set.files)
        raise InputError(
            f"{name} has no {lacking} split as it is published: name the task {of_set.published.kind!r} in its place, "
            f"and files of your own choice (--train FILE --evaluate FILE), as the guide to fine-tuning says."
        )
    training, evaluation = (replace(of_set.files[split], max_unusable=file.max_unusable) for split in ("train", "dev"))
    return of_set.published.kind, TaskFiles(training, evaluation), derive_settings(of_set.published)


class FinetuneRequest(NamedTuple):
    """A request for a fine-tuning run, built from a command's arguments.

    Attributes:
        kind: The kind of task.
        model: A model's folder, its folder in a store, or a release.
        files: The labeled files.
        output: The output folder.
        overrides: Settings of the task or of `FinetuneSettings`, by key. Strings are parsed as TOML values.
        accept: Names of the data findings to accept, or "all".
    """

    kind: str
    model: str
    files: TaskFiles
    output: Path
    overrides: Mapping[str, Any]
    accept: Sequence[str] = ()


def finetune_model(request: FinetuneRequest, tell: Tell) -> None:
    """Fine-tune a model on a task, and report its progress. Raises the same errors as `finetune_events`.

    Args:
        request: The model, the task, the files and the settings.
        tell: Called with a line after every evaluation and, from time to time, after a training step.
    """
    listener = EventPrinter(tell)
    for event in finetune_events(request):
        listener.print_event(event)


def finetune_with_control(request: FinetuneRequest, tell: Tell) -> None:
    """Fine-tune a model, and compare it with the same model fine-tuned from random weights.

    Raises the errors of `finetune_model` and `compare_with_control`.

    Args:
        request: The model, the task, the files and the settings; `files.folds` must be 0.
        tell: Callback that prints a line, called with progress messages.
    """
    finetune_model(request, tell)
    with open_model_folder(request.model) as folder:
        compare_with_control(replace(build_job(request), model=str(folder.resolve())), tell)


def finetune_folds(request: FinetuneRequest, tell: Tell) -> None:
    """Fine-tune a model once per fold of the labeled examples, evaluating on that fold.

    Reports the mean and standard deviation of each score over the folds, and writes them to the file FOLDS in the
    output folder. Finished folds are not repeated. Raises the same errors as `finetune_events`.

    Args:
        request: The model, the task, the files and the settings; `files.folds` must not be 0.
        tell: Callback that prints a line, called with progress messages.
    """
    scores, folds = list[dict[str, float]](), request.files.folds
    for fold in range(folds):
        folder = request.output / f"fold-{fold + 1}"
        tell(f"fold {fold + 1} of {folds}")
        finetune_model(request._replace(files=request.files._replace(fold=fold), output=folder), tell)
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        scores.append(record["restarts"][record["best"]]["scores"])
    names = [name for name in scores[0] if all(name in each for each in scores)]
    columns = {name: [each[name] for each in scores] for name in names}
    table = {name: {"mean": fmean(each), "deviation": stdev(each), "folds": each} for name, each in columns.items()}
    with replace_file(request.output / FOLDS) as new:
        new.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    for name, row in table.items():
        tell(f"{name} {row['mean']:.4g} ± {row['deviation']:.2g} over {folds} folds")


def finetune_events(request: FinetuneRequest) -> Iterator[Event]:
    """Check the labeled files, then fine-tune a model on them.

    Yields a warning for each finding, then the trainer's events.

    Args:
        request: The model, the task, the files and the settings.

    Raises:
        InputError: During iteration, if the request is not valid, or the data make a score meaningless.
        TrainingFailed: During iteration, if the trainer's process fails.
    """
    job = build_job(request)
    with open_model_folder(request.model) as folder:
        job = replace(job, model=str(folder.resolve()))
        yield from check_data_first(
            job.task, request.files.files, accept=request.accept, max_length=job.settings.max_length, model=folder
        )
        with open_job_file(job) as path:
            for event in iter_trainer_events("finetune", path, training=job.settings.to_training_settings(1)):
                if event["event"] == "failure":
                    raise InputError(event["message"])
                yield event


def build_job(request: FinetuneRequest) -> FinetuneJob:
    """Build the trainer's job for a request. Its model is still the address; the trainer needs a local folder.

    Args:
        request: The model, the task, the files and the settings.

    Raises:
        InputError: If a setting is unknown or out of range.
    """
    files, overrides = request.files, {key: parse_setting(text) for key, text in request.overrides.items()}
    task, settings = split_settings(request.kind, overrides, "finetune")
    return FinetuneJob(
        model=request.model,
        output=str(request.output.resolve()),
        task=task,
        training=files.training,
        evaluation=files.evaluation,
        settings=settings,
        folds=files.folds,
        fold=files.fold,
        group=files.group,
    )
