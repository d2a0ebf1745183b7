"""The stage `tasks`: a model and labeled files in, fine-tuned models with their scores out. No torch.

    model ─► for each task and seed: fine-tuned, with predictions and scores for every split (`suites`, in a process)
                  └► the folder of the best seed, the scores of all seeds, the predictions of the best one

Each task of the suite is a part (one set of files of the artifact). A part's fingerprint depends on the model's
content, the task with its settings, the digests of the labeled files, and the seeds. So if a file changes, only its
task is built again. Runs in progress are in `work` next to the part's files, and an interrupted run resumes there.

In the ledger, records of the labeled files = used + unusable, by reason. Memory: the size of the fine-tuned model's
file.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.store.checked_folder import check_folder, list_files
from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Manifest
from corpora.store.part_writer import PartWriter
from corpora.store.places.files import explain_write_errors, hold_lock
from corpora.store.places.place import Place
from corpora.store.settings import bind_settings, to_settings_json
from corpora.store.stage import PartPlan, Stage, read_manifest
from corpora.store.tables import read_table
from trainer.build import locate_work_folder
from trainer.job import CACHE, JOB, JobInput
from trainer.launch import LOG_FILE, Stop, build_exit_error, run_trainer
from trainer.metrics import METRICS_FILE, Event
from trainer.start_weights import CONFIG, StartModel, copy_model, list_model_files
from trainer.tasks.data import describe_file
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.registry import find_task_class, find_task_package
from trainer.tasks.suites.split_scores import JudgedSplit, read_judged
from trainer.tasks.suites.suite import (
    Suite,
    SuiteJob,
    SuiteRun,
    SuiteSplit,
    SuiteTask,
    check_judged,
    iter_runs,
    to_file_name,
)
from trainer.tasks.suites.table import JudgedSplits

BUILD_VERSION = 1
OURS, BASELINE, CONTROL = "model", "baseline", "control"  # of which model a score is
RECORD = "finetune.json"  # of a fine-tuned folder
OUTCOMES = {"given": "used"}  # of labelled records, in a ledger

SCORES = pa.schema(
    [
        *(pa.field(name, pa.string(), nullable=False) for name in ("of", "task", "split", "metric")),
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("score", pa.float64(), nullable=False),
        pa.field("majority", pa.float64()),
    ]
)
JUDGED = pa.schema(
    [
        *(pa.field(name, pa.string(), nullable=False) for name in ("of", "task", "split")),
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("judged", pa.large_string(), nullable=False),  # a `JudgedSplit` as JSON
    ]
)
ANSWERS = pa.schema([pa.field(name, pa.string(), nullable=False) for name in ("task", "split", "answer")])


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskJob:
    """The job for one part of the stage (the files of one task): fine-tuning the model on a task from every seed.

    store:    the address of the store
    model:    the artifact to fine-tune
    suite:    a suite with this one task and its seeds
    folder:   the folder of the fine-tuned model within the artifact, such as "cola/"; "" if the artifact has one task
    work:     a local folder for runs in progress
    baseline: another model that is fine-tuned on the same task for comparison, or None
    control:  True to also fine-tune a model with random initial weights, which shows the effect of pre-training
    """

    store: str
    model: JobInput
    suite: Suite
    folder: str
    work: str
    baseline: StartModel | None = None
    control: bool = False

    @property
    def task(self) -> SuiteTask:
        """The only task of the suite."""
        return self.suite.tasks[0]

    def plan_runs(self) -> dict[str, list[SuiteRun]]:
        """Plan the runs (one task and one seed each) of the model and of the models that it is compared with.

        Returns:
            The runs, one for each seed, keyed by the model that they train: "model", "baseline" or "control".

        Raises:
            InputError: If the model is no longer in the store.
        """
        folders = {OURS: fetch_model_folder(Place(self.store), self.model)}
        if self.baseline is not None:
            folders[BASELINE] = Path(self.baseline.folder)
        if self.control:
            folders[CONTROL] = folders[OURS]
        work = Path(self.work)
        return {of: [*iter_runs(self.suite, folder, work / of, of == CONTROL)] for of, folder in folders.items()}


def fetch_model_folder(place: Place, model: JobInput) -> Path:
    """Return a local folder with the model of an artifact. A model in an object store is copied to the cache first.

    Raises:
        InputError: If the artifact no longer exists, or its content is not that of `model`.
        Damaged: If a file in the object store is damaged.
    """
    manifest = read_manifest(place, model.folder)
    if manifest is None or manifest.content != model.content:
        raise InputError(
            f"{place.to_address(model.folder)} is not the model that was planned with: run the recipe again."
        )
    files = list_model_files(manifest)
    if place.is_local:
        return Path(place.to_full_path(f"{manifest.stage_folder}/{files[CONFIG].path}")).parent
    folder = CACHE.expanduser() / "starts" / manifest.fingerprint
    if not folder.is_dir():
        copy_model(place, manifest, files, folder)
    return folder


def plan_tasks(
    place: Place, name: str, model: Manifest, suite: Suite, baseline: StartModel | None = None, control: bool = False
) -> Stage:
    """Plan the pipeline stage that fine-tunes a model on the tasks of a suite. Nothing is trained yet.

    Each task becomes a part of the stage, which is a set of files that are built together.

    Args:
        place: The store.
        name: The name of the new artifact.
        model: The manifest of the model's artifact.
        suite: The tasks, with their seeds. The labeled files are read to compute their digests.
        baseline: Another model to compare with, or None.
        control: True to also compare with a model that has random initial weights.
    """
    shared: dict[str, Json] = {"seeds": list(suite.seeds)}
    if baseline is not None:
        shared["baseline"] = baseline.content
    if control:
        shared["control"] = True
    tasks = {task.name: describe_task(task) for task in suite.tasks}
    alone = len(suite.tasks) == 1
    jobs = {
        task.name: TaskJob(
            store=place.address,
            model=JobInput(folder=model.folder, content=model.content),
            suite=replace(suite, tasks=(task,)),
            folder="" if alone else f"{to_file_name(task.name)}/",
            work="",
            baseline=baseline,
            control=control,
        )
        for task in suite.tasks
    }
    stage = Stage(
        kind="tasks",
        name=name,
        build_version=BUILD_VERSION,
        settings={**shared, "suite": suite.name, "average": suite.average, "tasks": tasks},
        part_settings=shared,
        parents=(model.as_parent(),),
        libraries={},
        parts=tuple(
            PartPlan(
                name=to_file_name(task),
                key={"model": model.content, "folder": jobs[task].folder, "task": asked},
                job=jobs[task],
            )
            for task, asked in tasks.items()
        ),
        build=build_task_part,
    )
    work = locate_work_folder(place, stage)
    return replace(
        stage, parts=tuple(replace(part, job=replace(part.job, work=str(work / part.name))) for part in stage.parts)
    )


def describe_task(task: SuiteTask) -> Json:
    """Describe everything that determines a fine-tuned model and its predictions, except the seed, as a JSON object.

    The keys are `task`, `version`, `settings`, `training` and `splits`. Files are described by name and digest, without
    their folders.
    """
    kind = str(task.task["kind"])
    settings = {name: value for name, value in to_settings_json(task.settings).items() if name != "seed"}
    splits = [
        {**to_settings_json(replace(split, file=FileSettings(path=""))), "file": describe_file(split.file)}
        for split in task.splits
    ]
    return {
        "task": json.loads(json.dumps(dict(task.task))),
        "version": [find_task_class(kind).version, find_task_package(kind)],
        "settings": json.loads(json.dumps(settings)),
        "training": describe_file(task.training),
        "splits": json.loads(json.dumps(splits)),
    }


def train_and_answer(
    job: TaskJob, on_event: Callable[[Event], None] = lambda event: None, stop: Stop | None = None
) -> None:
    """Fine-tune a model on a task from every seed, and predict the task's files. Work that is already done is skipped.

    Args:
        job: The task.
        on_event: Called with every event of the trainer, on the calling thread.
        stop: Stops the trainer when called from another thread.

    Raises:
        InputError: If the user can fix the problem, with the trainer's message.
        TrainingFailed: If the trainer fails for another reason.
    """
    work = Path(job.work)
    with ExitStack() as alone:
        with explain_write_errors(job.work):
            work.mkdir(parents=True, exist_ok=True)
            alone.enter_context(hold_lock(work / "lock"))  # of several that are to learn this, one does
        waiting = tuple(run for runs in job.plan_runs().values() for run in runs if run.unanswered_splits)
        if not waiting:
            return
        path, log = work / JOB, work / LOG_FILE
        with explain_write_errors(str(path)):
            path.write_text(json.dumps(asdict(SuiteJob(runs=waiting)), ensure_ascii=False), encoding="utf-8")
            log.touch()
        begin, training = log.stat().st_size, job.task.settings.to_training_settings(1)
        if code := run_trainer(path, log, training, on_event, stop or Stop(), does=("evaluate",)):
            raise build_exit_error(log, begin, code)


def build_task_part(writer: PartWriter, plan: PartPlan) -> Ledger:
    """Fine-tune the models of a task unless that is done, and write the best one, its predictions and all scores.

    Args:
        writer: Writes the files of this part of the stage.
        plan: The plan of the part. Its `job` must be a `TaskJob`.

    Returns:
        The ledger of the labeled files: the number of records that were used, and of those that could not be used.
    """
    job: TaskJob = plan.job
    train_and_answer(job)
    runs = job.plan_runs()
    best = find_best_run(runs[OURS])
    folder = Path(best.job.output)
    check_folder(folder)
    for name in list_files(folder):
        if name != METRICS_FILE:  # it has times
            writer.write_file(job.folder + name, (folder / name).read_bytes())
    rows = [(of, run, split, _read_judged_split(run, split)) for of, all_runs in runs.items() for run in all_runs
            for split in run.splits]  # fmt: skip
    with writer.create_table("scores", SCORES) as sink:
        sink.write(pa.Table.from_pylist([row for each in rows for row in _iter_score_rows(*each)], SCORES))
    with writer.create_table("judged", JUDGED) as sink:
        sink.write(pa.Table.from_pylist([_make_judged_row(*each) for each in rows], JUDGED))
    with writer.create_table("answers", ANSWERS) as sink:
        sink.write(pa.Table.from_pylist([*_iter_answers(best)], ANSWERS))
    return _build_ledger(best, sum(map(len, runs.values())))


def find_best_run(runs: Sequence[SuiteRun]) -> SuiteRun:
    """Find the run with the best main score on its first split. This split was also used to choose the best epochs.

    If several runs have the same score, the first one is returned. `runs` must not be empty.
    """
    split = runs[0].splits[0]
    return max(runs, key=lambda run: _read_judged_split(run, split).scores[split.metrics[0]])


def _read_judged_split(run: SuiteRun, split: SuiteSplit) -> JudgedSplit:
    judged = read_judged(run.locate_scores(split))
    assert judged is not None, "a run ends with its splits judged"
    check_judged(run, split, judged)
    return judged


def _iter_score_rows(of: str, run: SuiteRun, split: SuiteSplit, judged: JudgedSplit) -> Iterator[dict[str, Any]]:
    named = {"of": of, "task": run.task, "split": split.name, "seed": run.seed}
    for metric in split.metrics:
        if metric in judged.scores:
            majority = judged.majority.get(metric)
            yield {**named, "metric": metric, "score": judged.scores[metric], "majority": majority}


def _make_judged_row(of: str, run: SuiteRun, split: SuiteSplit, judged: JudgedSplit) -> dict[str, Any]:
    return {"of": of, "task": run.task, "split": split.name, "seed": run.seed, "judged": json.dumps(asdict(judged))}


def _iter_answers(run: SuiteRun) -> Iterator[dict[str, str]]:
    for split in run.splits:
        with run.locate_answers(split).open(encoding="utf-8") as lines:
            yield from ({"task": run.task, "split": split.name, "answer": line.rstrip("\n")} for line in lines)


def _build_ledger(best: SuiteRun, learnt: int) -> Ledger:
    """Build the ledger of the labeled files from the record of the best model: how many records were used or unusable.

    `learnt` is the number of models that were fine-tuned.
    """
    files = json.loads((Path(best.job.output) / RECORD).read_text(encoding="utf-8"))["files"]
    accounts, figures = [], {"models learnt": learnt}
    for which, file in files.items():
        [(unit, account)] = file["ledger"]["accounts"].items()
        outcomes = {OUTCOMES.get(reason, reason.replace("dropped: ", "unusable: ")): n for reason, n in
                    account["outcomes"].items()}  # fmt: skip
        accounts.append(Account(unit=f"{which} {unit}", total=account["total"], outcomes=outcomes))
        figures |= {f"{which} {name.replace('_', ' ')}": n for name, n in file["ledger"]["figures"].items()}
    return Ledger(accounts=tuple(accounts), figures=figures)


# What an artifact says.


def rebuild_suite(tasks: Manifest) -> Suite:
    """Rebuild the suite from which an artifact was built, from the artifact's manifest.

    The paths in its file settings are file names without folders.
    """
    return Suite(
        name=tasks.settings["suite"],
        seeds=tuple(tasks.settings["seeds"]),
        tasks=tuple(_rebuild_task(name, asked) for name, asked in tasks.settings["tasks"].items()),
        average=tasks.settings["average"],
    )


def _rebuild_task(name: str, asked: Mapping[str, Json]) -> SuiteTask:
    def nowhere(file: Mapping[str, Json]) -> Json:
        return {key: value for key, value in file.items() if key != "sha256"}

    splits = [{**split, "file": nowhere(split["file"])} for split in asked["splits"]]
    table = {"task": asked["task"], "settings": asked["settings"], "training": nowhere(asked["training"])}
    return bind_settings(SuiteTask, {"name": name, **table, "splits": splits}, name)


def read_judged_splits(place: Place, tasks: Manifest, of: str = OURS) -> JudgedSplits:
    """Read the scores of an artifact for each split (a file with predictions of a fine-tuned model, such as dev).

    Args:
        place: The store.
        tasks: The manifest of the artifact.
        of: Which model's scores to read: "model", "baseline" or "control".

    Returns:
        The scores, keyed by (task, seed, split name); {} if the artifact has no such model.

    Raises:
        Damaged: If a table of the artifact is damaged.
    """
    rows = (row for batch in read_table(place, tasks, "judged", columns=None) for row in batch.to_pylist())
    return {
        (row["task"], row["seed"], row["split"]): bind_settings(JudgedSplit, json.loads(row["judged"]), tasks.folder)
        for row in rows
        if row["of"] == of
    }
