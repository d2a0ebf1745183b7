"""The folders of a fine-tuning run: checks whether it is done or can be resumed, and writes its output.

A run resumes only from an equal one. The output folder appears in one step when everything is done. It can be loaded in
transformers (see `trainer.tasks.folders`), includes the tokenizer, and records in `finetune.json` how it was made: task
and settings, digests of the files, the ledger of their records, and the scores of every epoch of every restart.
"""

import dataclasses
import hashlib
import json
import shutil
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from corpora.errors import InputError
from corpora.store.checked_folder import check_files, describe_files, list_files, mark_complete, read_complete_file
from corpora.store.damage import Damaged
from corpora.store.settings import to_settings_json
from trainer.checkpoints.folders import FOLDER, format_checkpoint_name, read_weights
from trainer.complete_folders import write_json
from trainer.huggingface.checkpoints import WEIGHTS
from trainer.huggingface.config import CONFIG, TOKENIZER_CONFIG, read_json, with_max_length
from trainer.huggingface.sentence_transformers import list_sentence_files
from trainer.metrics import METRICS_FILE
from trainer.tasks.data import describe_file
from trainer.tasks.finetuning.restarts import EpochScores, TaskData
from trainer.tasks.folders import RECORD, describe_weights, to_task_json, write_task, write_vector_files
from trainer.tasks.kinds.vectors import VectorTask
from trainer.tasks.settings import FinetuneJob
from trainer.tasks.task import Task
from trainer.tasks.text_encoder import TOKENIZER_FILES

EXPORT = "export"


def is_done(job: FinetuneJob) -> bool:
    """Return True if a job's output already exists, made with equal settings from files with equal content."""
    path = Path(job.output) / RECORD
    if not path.is_file():
        return False
    files = {"training": describe_file(job.training), "evaluation": describe_file(job.evaluation)}
    digest = digest_job(job, files)
    return bool(digest) and read_json(path).get("asked") == digest


def digest_job(job: FinetuneJob, files: Mapping[str, Mapping[str, Any]]) -> str:
    """Compute a SHA-256 of everything that determines the result of a job.

    If a file is a pipe, which can only be read once, return "".

    Args:
        job: The job.
        files: Descriptions of the files "training" and "evaluation", as returned by `describe_file`.
    """
    if None in (file["sha256"] for file in files.values()):
        return ""
    teacher = {"teacher": _digest_files(Path(job.task["teacher"]))} if job.task.get("teacher") else {}
    asked = {
        "task": {**job.task, **teacher},
        "settings": to_settings_json(job.settings),
        "model": _digest_files(Path(job.model)),
        "files": files,
        "held_out": [job.folds, job.fold, job.group],
        "first_weights": job.first_weights,
    }
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


# What a run resumes with.


def describe_identity(job: FinetuneJob, task: Task, files: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Describe what must be equal for a run to resume an earlier one, as a JSON object.

    The keys are `job`, `model`, `examples` (the digests of the files) and `task`.

    Args:
        job: The job.
        task: The fitted task, which includes the digest of its teacher.
        files: Descriptions of the files "training" and "evaluation", as returned by `describe_file`.
    """
    asked = {
        "job": dataclasses.asdict(job),
        "model": _digest_files(Path(job.model)),
        "examples": {name: file["sha256"] for name, file in files.items()},
        "task": to_task_json(task),
    }
    identity: dict[str, Any] = json.loads(json.dumps(asked))
    return identity


def _digest_files(folder: Path) -> dict[str, Any]:
    """Compute size and digest of each file of a model folder that fine-tuning reads, by name."""
    names = (CONFIG, WEIGHTS, TOKENIZER_CONFIG, *TOKENIZER_FILES, *list_sentence_files(folder))
    return describe_files(folder, [name for name in names if (folder / name).is_file()])


def find_other_run(folder: Path, identity: Mapping[str, Any]) -> str:
    """Describe how the run that left an unfinished folder differs from this run, or return "" if it does not differ.

    The text is the end of a sentence, such as "had a different job".

    Args:
        folder: The unfinished folder.
        identity: The identity of this run, as returned by `describe_identity`.
    """
    for path in folder.glob(f"{FOLDER}/step-*"):
        try:
            return describe_difference(read_complete_file(path)["identity"], identity)
        except Damaged:
            continue  # it is left aside
    return ""


def describe_difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Describe the first difference between the identities of two runs, such as "had a different job".

    If there is none, return "".

    Args:
        before: The identity of the earlier run, as returned by `describe_identity`.
        now: The identity of this run.
    """
    if before["job"] != now["job"]:
        return "had a different job"
    if before["model"] != now["model"]:
        return f"used another model in {now['job']['model']}"
    for name, digest in now["examples"].items():
        if digest is None or before["examples"].get(name) != digest:
            return f"read other contents of {now['job'][name]['path']}"
    return "" if before == now else "used a different teacher or task package"


def check_best(path: Path, facts: Mapping[str, Any]) -> None:
    """Raise Damaged if the checkpoint of the best epoch is damaged. Checkpoints of later epochs refer to it.

    Args:
        path: The checkpoint of a later epoch.
        facts: The progress in that checkpoint, as returned by `EpochScores.to_json`.
    """
    best = path.with_name(format_checkpoint_name(facts["best_step"]))
    if facts["best_step"] and best != path:
        try:
            check_files(best, read_complete_file(best)["files"])
        except Damaged as damage:
            raise Damaged(f"{best.name}/{damage.path}", damage.what) from damage


# What comes out.


def write_output(
    job: FinetuneJob,
    files: Mapping[str, Any],
    data: TaskData,
    baselines: Mapping[str, Mapping[str, float]],
    scores: EpochScores,
    folder: Path,
) -> dict[str, Any]:
    """Export the best epoch as the output folder, which appears in one step, and remove the unfinished folder.

    Args:
        job: The job.
        files: Descriptions of the files "training" and "evaluation", as returned by `describe_file`.
        data: The fitted task, its encoded examples, and the model.
        baselines: For each baseline, its scores by metric.
        scores: The scores of all epochs.
        folder: The unfinished folder with the checkpoints.

    Returns:
        The record of the output, as built by `describe_restarts`, and a digest of the job.

    Raises:
        InputError: If the disk has too little space, or the checkpoint is damaged.
    """
    output, new = Path(job.output), folder / EXPORT
    kept = scores.restarts[scores.best]
    task = data.task.tune(kept["epochs"][kept["kept"] - 1])
    state = read_best_weights(folder / FOLDER / format_checkpoint_name(scores.best_step))
    shutil.rmtree(new, ignore_errors=True)
    check_room(folder, sum(tensor.nbytes for tensor in state.values()))
    write_task(new, state, task, data.pretrained.settings, data.pretrained.inputs)
    if isinstance(task, VectorTask) and task.shared:
        write_vector_files(new, task, data.pretrained.settings.shape[1], data.max_length, state, data.pretrained)
    copy_tokenizer(Path(job.model), new, data.max_length)
    shutil.copyfile(folder / METRICS_FILE, new / METRICS_FILE)
    record = {**describe_restarts(scores, data, task, files, baselines, new), "asked": digest_job(job, files)}
    if job.folds:
        record["held_out"] = {"fold": job.fold, "of": job.folds, "group": job.group}
    write_json(new / RECORD, record)
    mark_complete(new, (name for name in list_files(new) if name != METRICS_FILE))  # that has times
    if output.is_dir():
        output.rmdir()  # seen to be empty
    new.rename(output)
    shutil.rmtree(folder)
    return record


def describe_output(record: Mapping[str, Any], output: str) -> dict[str, Any]:
    """Build the summary that is printed for a finished model, from its record.

    Args:
        record: The record, as returned by `write_output`.
        output: The path of the output folder.

    Returns:
        A dictionary with `epoch`, the scores of that epoch, `output`, `metric` and `baselines`. With several restarts,
        it also has `median` and `spread`.
    """
    best = record["restarts"][record["best"]]
    more = {"median": record["median"], "spread": record["spread"]} if len(record["restarts"]) > 1 else {}
    beside = {"metric": record["metric"], "baselines": record["baselines"]}
    return {"epoch": best["kept"], **best["scores"], "output": output, **more, **beside}


def read_best_weights(path: Path) -> dict[str, Tensor]:
    """Verify the checkpoint of the best epoch and read its weights, by parameter name.

    Raises InputError if it is damaged.
    """
    try:
        check_files(path, read_complete_file(path)["files"])
    except Damaged as damage:
        raise InputError(
            f"{path} is damaged ({damage.path}: {damage.what}), so there is nothing to export: start the command again."
        ) from damage
    return read_weights(path)


def check_room(folder: Path, size_bytes: int) -> None:
    """Raise InputError if the disk that holds a folder has less than `size_bytes` bytes free."""
    free = shutil.disk_usage(folder).free
    if free < size_bytes:
        raise InputError(
            f"There is no room in {folder}: {size_bytes / 1e9:.2g} GB are needed, and {free / 1e9:.2g} GB are free. "
            "Free that much, or name an output on another disk; with the same output the command then resumes."
        )


def copy_tokenizer(source: Path, folder: Path, max_length: int) -> None:
    """Copy a tokenizer between model folders, and set its maximum length to that of training.

    Args:
        source: The folder to copy from.
        folder: The folder to copy to.
        max_length: Maximum number of tokens of a text in training.
    """
    for name in TOKENIZER_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
    config = source / TOKENIZER_CONFIG
    data = config.read_bytes() if config.is_file() else b"{}"
    (folder / TOKENIZER_CONFIG).write_bytes(with_max_length(data, max_length))


def describe_restarts(
    scores: EpochScores,
    data: TaskData,
    task: Task,
    files: Mapping[str, Any],
    baselines: Mapping[str, Mapping[str, float]],
    folder: Path,
) -> dict[str, Any]:
    """Build the record of how the model in a folder was made, without local paths.

    Its keys are `task`, `settings`, `max_length`, `weights`, `files` with their ledgers, `metric`, `baselines`,
    `restarts` with the scores of each epoch, `best` (the index of the restart), `median` and `spread` over restarts.

    Args:
        scores: The scores of all epochs.
        data: The fitted task, its encoded examples, and the model.
        task: The task as returned by `Task.tune`.
        files: Descriptions of the files "training" and "evaluation", as returned by `describe_file`.
        baselines: For each baseline, its scores by metric.
        folder: The folder of the model.
    """
    restarts = [
        {**each, "scores": {k: v for k, v in each["epochs"][each["kept"] - 1].items() if k != "epoch"}}
        for each in scores.restarts
    ]
    judged = [each["scores"][scores.metric] for each in restarts]
    ledgers = {"training": data.training.ledger, "evaluation": data.evaluation.ledger}
    return {
        "task": to_task_json(task),
        "settings": to_settings_json(scores.tuning),
        "max_length": data.max_length,
        "weights": describe_weights(folder),
        "files": {name: {**file, "ledger": ledgers[name].to_json()} for name, file in files.items()},
        "metric": scores.metric,
        "baselines": baselines,
        "restarts": restarts,
        "best": scores.best,
        "median": statistics.median(judged),
        "spread": [min(judged), max(judged)],
    }
