"""`cloze finetune`: a job from the arguments, the trainer that does it, and its events as lines for people."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from corpora.errors import InputError
from corpora.store.places.files import replaced_file
from corpora.store.settings import toml_table
from flows.command.tasks.check import checked_first
from flows.command.trainer_process import Event, job_file, model_folder, trainer_events
from flows.run.policies import METRIC_SECONDS
from flows.run.record.counts_text import counted
from trainer.tasks.formats.published import PUBLISHED, published, published_set
from trainer.tasks.formats.records import KEPT, FileSettings
from trainer.tasks.registry import task_and_settings
from trainer.tasks.settings import FinetuneJob
from trainer.tasks.suites.baselines import baseline_lines
from trainer.tasks.suites.suite import settings_of_set

Tell = Callable[[str], None]
NUMBERS = ("epoch", "restart", "loss", "learning_rate")  # of a line, next to the scores
NO_SCORES = frozenset(
    {
        "event",
        "step",
        "again",
        "gradient_norm",
        "sequences",
        "tokens",
        "seconds",
        "output",
        "metric",
        "baselines",
        *NUMBERS,
    }
)


AS_PUBLISHED = FileSettings(path="")
HELD_OUT = 10  # parts of a file, of which one is held out where no file to judge by is named
RECORD, FOLDS = "finetune.json", "folds.json"


class TaskFiles(NamedTuple):
    """The file to learn from, and the file to judge by; or the same one twice, with `folds` of its examples.

    folds, fold, group: as `FinetuneJob` has them
    """

    training: FileSettings
    evaluation: FileSettings
    folds: int = 0
    fold: int = 0
    group: str = ""

    @property
    def named(self) -> Sequence[FileSettings]:
        """The files that are there, the one to learn from first."""
        return [self.training] if self.folds else [self.training, self.evaluation]


def task_files(reading: FileSettings, train: Path, evaluate: Path | None, folds: int = 0, group: str = "") -> TaskFiles:
    """Return two files that are read alike; without one to judge by folds of the other, by default HELD_OUT.

    Raises InputError where folds or groups are asked for beside a file to judge by.
    """
    if evaluate is not None:
        if folds or group:
            raise InputError(
                "--folds and --group divide the file of --train, and --evaluate names another to judge by."
            )
        training, evaluation = (replace(reading, path=str(path.resolve())) for path in (train, evaluate))
        return TaskFiles(training, evaluation)
    kept = {f"{KEPT}{group}": group} if group else {}
    file = replace(reading, path=str(train.resolve()), columns={**reading.columns, **kept})
    return TaskFiles(file, file, folds or HELD_OUT, group=group)


def published_task(
    name: str, data: Path | None, *files: Path | None, file: FileSettings = AS_PUBLISHED
) -> tuple[str, TaskFiles, dict[str, Any]]:
    """Return for a published set in a folder the task's kind, its files, and the task's settings. Raises InputError.

    files: those that are named; there must be none
    file:  how they are read; only `max_unusable` may be set
    """
    if data is None and name in PUBLISHED:
        raise InputError(
            f"{name} is a published set: give the folder that it was unpacked in (--data FOLDER); or for files of your "
            f"own name the kind of task, {published_set(name).kind!r}, in its place."
        )
    if data is None:
        raise InputError(
            f"{name}: name the files, --train FILE and --evaluate FILE; or name a published set and the folder that it "
            f"was unpacked in, --data FOLDER. Known sets: {', '.join(PUBLISHED)}."
        )
    if any(files):
        raise InputError("--data names the folder of a published set, and --train and --evaluate files: leave one out.")
    if file != replace(AS_PUBLISHED, max_unusable=file.max_unusable):
        raise InputError(
            f"{name} is read as it is published: leave --column, --format and --no-header out, or name your own files "
            "and the kind of task."
        )
    of_set = published(name, str(data))
    if not {"train", "dev"} <= {*of_set.files}:
        lacking = " and no ".join(split for split in ("train", "dev") if split not in of_set.files)
        raise InputError(
            f"{name} has no {lacking} split as it is published: name the task {of_set.published.kind!r} in its place, "
            f"and files of your own choice (--train FILE --evaluate FILE), as the guide to fine-tuning says."
        )
    training, evaluation = (replace(of_set.files[split], max_unusable=file.max_unusable) for split in ("train", "dev"))
    return of_set.published.kind, TaskFiles(training, evaluation), settings_of_set(of_set.published)


def finetune_model(
    kind: str,
    model: str,
    files: TaskFiles,
    output: Path,
    overrides: Mapping[str, Any],
    tell: Tell,
    accept: Sequence[str] = (),
) -> int:
    """Fine-tune a model as `finetune_events` does, and print its progress. Returns 0.

    tell: called with a line for every evaluation, and for a step from time to time
    """
    listener = Listener(tell)
    for event in finetune_events(kind, model, files, output, overrides, accept):
        listener.hear(event)
    return 0


def finetune_folds(
    kind: str,
    model: str,
    files: TaskFiles,
    output: Path,
    overrides: Mapping[str, Any],
    tell: Tell,
    accept: Sequence[str] = (),
) -> int:
    """Fine-tune once for each fold, each judged by its own; write and print means and deviations. Returns 0.

    Finished folds are not done again. Raises as `finetune_events` does.
    """
    scores = list[dict[str, float]]()
    for fold in range(files.folds):
        folder = output / f"fold-{fold + 1}"
        tell(f"fold {fold + 1} of {files.folds}")
        finetune_model(kind, model, files._replace(fold=fold), folder, overrides, tell, accept)
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        scores.append(record["restarts"][record["best"]]["scores"])
    names = [name for name in scores[0] if all(name in each for each in scores)]
    columns = {name: [each[name] for each in scores] for name in names}
    table = {name: {"mean": fmean(each), "deviation": stdev(each), "folds": each} for name, each in columns.items()}
    with replaced_file(output / FOLDS) as new:
        new.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    for name, row in table.items():
        tell(f"{name} {row['mean']:.4g} ± {row['deviation']:.2g} over {files.folds} folds")
    return 0


def finetune_events(
    kind: str, model: str, files: TaskFiles, output: Path, overrides: Mapping[str, Any], accept: Sequence[str] = ()
) -> Iterator[Event]:
    """Fine-tune a model on two files of labelled examples, and yield the events; `output` becomes the result's folder.

    The files are looked at first (`cloze check`).

    overrides: settings of the task, or of `FinetuneSettings`, by key; a text is written as in TOML
    accept:    findings that stop nothing
    Raises InputError, or TrainingFailed.
    """
    task, settings = task_and_settings(kind, {key: setting_value(text) for key, text in overrides.items()}, "finetune")
    with model_folder(model) as folder:
        job = FinetuneJob(
            model=str(folder.resolve()),
            output=str(output.resolve()),
            task=task,
            training=files.training,
            evaluation=files.evaluation,
            settings=settings,
            folds=files.folds,
            fold=files.fold,
            group=files.group,
        )
        yield from checked_first(task, files.named, accept=accept, max_length=settings.max_length, model=folder)
        with job_file(job) as path:
            for event in trainer_events("finetune", path, training=settings.training(1)):
                if event["event"] == "failure":
                    raise InputError(event["message"])
                yield event


def setting_value(text: Any) -> Any:
    """Return a setting's value as TOML writes it; a bare word is a text. What is not a text is a value."""
    if not isinstance(text, str):
        return text
    try:
        return toml_table(f"value = {text}")["value"]
    except ValueError:
        return text


class Listener:
    """Turns the events of a fine-tuning run into lines for people."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._last = 0.0
        self._steps = 0

    def hear(self, event: Event) -> None:
        """Print one event."""
        if event["event"] == "warning":
            self._tell(f"warning: {event['message']}")
        elif event["event"] == "start":
            self._steps = event["steps"]
            for line in starting(event):
                self._tell(line)
        elif event.get("again"):
            self._tell(f"{event['output']} is done already, with the same settings and files: {_figures(event)}")
        elif event["event"] == "step" and time.monotonic() - self._last < METRIC_SECONDS:
            return
        elif event["event"] != "checkpoint":
            self._last = time.monotonic()
            self._tell(progress(event, self._steps))
        if event["event"] == "done" and event["metric"] in event:
            for line in baseline_lines(event["metric"], event[event["metric"]], event.get("baselines", {})):
                self._tell(line)


def starting(event: Event) -> Iterator[str]:
    """Yield the first lines: what became of the records of each file, and how the training goes."""
    for name in ("training", "evaluation"):
        yield f"{name}: {ledger_line(event[name])}"
    settings = {name: value for name, value in event["settings"].items() if value not in (None, [], ())}
    yield f"settings: {', '.join(f'{name} {_readable(value)}' for name, value in settings.items())}"
    if event["resumed"]:
        yield f"resumes after step {event['step']}"


def ledger_line(ledger: Mapping[str, Any]) -> str:
    """Return what became of the records of a file."""
    [(unit, account)] = ledger["accounts"].items()
    figures = ledger["figures"]
    dropped = [f"{number} {reason}" for reason, number in account["outcomes"].items() if reason != "given"]
    counts = [
        counted(account["outcomes"]["given"], unit.removesuffix("s")),
        counted(figures["tokens"], "token"),
        *dropped,
    ]
    cut = f"{counted(figures['texts_cut'], 'text')} cut by {counted(figures['tokens_cut'], 'token')}"
    unknown = f"{counted(figures.get('unknown', 0), 'answer')} unknown to the model, which count as wrong"
    return ", ".join(counts + [cut] * bool(figures["texts_cut"]) + [unknown] * bool(figures.get("unknown")))


def progress(event: Event, steps: int) -> str:
    """Return an event on one line.

    >>> progress({"event": "step", "step": 3, "epoch": 1, "loss": 0.6931}, 9)
    'step 3/9: epoch 1, loss 0.6931'
    """
    parts = [_figures(event), *([f"output {event['output']}"] if "output" in event else [])]
    return f"{event['event']} {event['step']}/{steps}: {', '.join(filter(None, parts))}"


def _figures(event: Event) -> str:
    scores = [name for name, value in event.items() if name not in NO_SCORES and value is not None]
    return ", ".join(f"{name} {_readable(event[name])}" for name in (*NUMBERS, *scores) if name in event)


def _readable(value: Any) -> str:
    if isinstance(value, list):
        return " to ".join(map(_readable, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
