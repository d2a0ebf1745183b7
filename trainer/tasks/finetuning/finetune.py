"""Fine-tuning: a model's folder and two files of labelled examples in, the folder of a model for the task out.

    files ─► examples ─► the task, fitted ─► items ─► the loop: for each restart, for each epoch: steps, then scores
    model, tokenizer ────────────────────────┘          └► the checkpoint of the best epoch of all ─► a folder

AdamW as in pre-training, linear warm-up and decay (Devlin et al. 2018, appendix A.3).

Promise: on one process, on a processor, the same job ends with the same bytes, but for the times in `metrics.jsonl`,
also where it was killed in between and started again. It resumes only with what it began with: where the job, the
model, the teacher or a file of examples is another one, it starts over and says why. The output folder appears in one
step when all is done; it opens in transformers (see `saving`), with the tokenizer next to it, and says how it was made
in `finetune.json`: task and settings, digests of the files, what became of every record, scores of every epoch of every
restart. One run at a time makes an output.

    OUTPUT's unfinished folder/   metrics.jsonl   the log
                                  checkpoints/    the newest one, and the one of the best epoch, as in pre-training
                                  export/         what becomes the output

Cost: a step of 32 texts of 5 to 49 tokens, a BERT of the size mini: 0.39 s (one x86-64 core). Memory: of a
row of 30 tokens some 650 bytes besides its text (`data`), and the weights some five times: as read, as learnt, with
gradients and AdamW's two moments.
"""

import dataclasses
import hashlib
import json
import shutil
import statistics
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from corpora.errors import InputError
from corpora.sources.bytes.unchanged import states_of, unchanged
from corpora.store.checked_folder import check_files, described, mark_complete, names_in, read_finished
from corpora.store.damage import Damaged
from corpora.store.places.files import disk_refusal, unfinished
from corpora.store.settings import settings_json
from trainer.complete_folders import alone, check_output, written_json
from trainer.huggingface.checkpoints import WEIGHTS, Pretrained, load_pretrained
from trainer.huggingface.config import CONFIG, TOKENIZER_CONFIG, read_json, with_max_length
from trainer.huggingface.sentences import read_sentences, sentence_files
from trainer.metrics import METRICS_FILE, MetricsLog, line, speak
from trainer.model.objective import build_model
from trainer.tasks.contract import Task
from trainer.tasks.data import encode, fitted_to, named_file, read_file
from trainer.tasks.finetuning.course import TaskCourse, TaskData, loop_settings
from trainer.tasks.finetuning.held_out import held_out, judged_by, part_of
from trainer.tasks.finetuning.teacher import taught_by_teacher
from trainer.tasks.kinds.texts import TaughtTask
from trainer.tasks.kinds.vectors import VectorTask
from trainer.tasks.registry import read_task
from trainer.tasks.saving import (
    RECORD,
    check_model,
    described_weights,
    task_json,
    usual_length,
    write_task,
    write_vector_files,
)
from trainer.tasks.settings import FinetuneJob, FinetuneSettings, read_job, with_published
from trainer.tasks.suites.baselines import baseline_scores
from trainer.tasks.text_encoder import TOKENIZER_FILES
from trainer.training.checkpoints.folders import FOLDER, Checkpoints, name_of, read_weights
from trainer.training.loop import TrainingLoop
from trainer.training.parallel import Ranks, joined, settle

EXPORT = "export"


def main(arguments: list[str]) -> int:
    """Fine-tune as a job's file says; 0, or 2 where the user can fix what is wrong (a line of the output says it).

    Stopped by a signal: 128 and the signal, after a checkpoint.
    """
    job = read_job(FinetuneJob, arguments)
    with joined(job.settings.device) as ranks:
        try:
            return finetune(job, ranks)
        except InputError as error:
            speak(line({"event": "failure", "message": str(error)}))
            return 2


def finetune(job: FinetuneJob, ranks: Ranks) -> int:
    """Read, learn, export; 0, or 128 and the signal that stopped it. Every process calls it. Raises InputError."""
    output = Path(job.output)
    if is_done(job):
        check_model(output)
        if ranks.rank == 0:
            speak(line({"event": "done", **done_facts(read_json(output / RECORD), job.output), "again": True}))
        return 0
    check_output(output)
    torch.use_deterministic_algorithms(True, warn_only=True)
    check_model(Path(job.model))
    pretrained = load_pretrained(Path(job.model), read_task(job.task).causal)
    if job.first_weights:
        pretrained = with_first_weights(pretrained, job.settings.seed)
    over = {name: getattr(job.settings, name) for name in ("dropout", "pooling")}
    over = {name: value for name, value in over.items() if value is not None}
    pretrained = pretrained._replace(settings=replace(pretrained.settings, **over))
    settings = with_published(job.settings, pretrained.settings, str(job.task["kind"]))
    with unchanged(states_of((job.training.path, job.evaluation.path))):
        files = {"training": named_file(job.training), "evaluation": named_file(job.evaluation)}
        data = read_data(job, settings, pretrained, ranks)
    with _refusing(output), alone(output, "fine-tuning into") if ranks.rank == 0 else nullcontext():
        stop = fine_tuning(job, settings, data, files, ranks).run()
    ranks.wait()
    return stop.exit_code


def with_first_weights(pretrained: Pretrained, seed: int) -> Pretrained:
    """Return a model as it was before any training: the same on every process."""
    torch.manual_seed(seed)
    model = build_model(pretrained.settings, pretrained.inputs)
    model.init_weights()
    first = model.state_dict()
    return pretrained._replace(state={name: first[name] for name in pretrained.state if name in first})


@contextmanager
def _refusing(output: Path) -> Iterator[None]:
    """Tell what the disk refuses of an output as a paragraph."""
    try:
        yield
    except OSError as error:
        ours = error.filename is None or Path(str(error.filename)).is_relative_to(output.parent)
        refusal = disk_refusal(error, "name an output on another disk") if ours else None
        if refusal is None:
            raise
        raise InputError(f"Cannot write {output}: {refusal}. With the same output the command then resumes.") from error


def length_for(task: Task, asked: int | None, pretrained: Pretrained, model: str) -> int:
    """Return the most tokens of a sequence. Raises InputError where the model reads fewer than the settings ask for."""
    positions = pretrained.settings.positions
    if asked is not None and asked > positions:
        raise InputError(f"max_length = {asked}, and the model {model} reads {positions} tokens: lower it.")
    if isinstance(task, VectorTask) and pretrained.sentences is not None:
        return asked or usual_length(pretrained.sentences, positions)
    return asked or min(task.usual_length, positions)


def read_data(job: FinetuneJob, settings: FinetuneSettings, pretrained: Pretrained, ranks: Ranks) -> TaskData:
    """Return the examples of both files as items, the task fitted to them. Raises InputError."""
    task = read_task(job.task)
    if isinstance(task, VectorTask) and (sentences := read_sentences(Path(job.model))) is not None:
        pretrained, task = pretrained._replace(sentences=sentences), task.begun(sentences)
    max_length = length_for(task, settings.max_length, pretrained, job.model)
    encoder = task.text_encoder(Path(job.model), pretrained.inputs, max_length)
    files, judges = read_file(task, job.training, learning=True), None
    if job.folds:
        learnt, judges = held_out(task, files, job)
        whole, files = files, part_of(files, learnt, judges=False)
    task = fitted_to(task, files)
    judged = read_file(task, job.evaluation) if judges is None else judged_by(task, whole, judges)
    training, evaluation = encode(task, files, encoder), encode(task, judged, encoder)
    baselines = baseline_scores(task, training.examples, evaluation.examples)
    if isinstance(task, TaughtTask) and task.teacher:
        task, (training, evaluation) = taught_by_teacher(task, (training, evaluation), ranks)
    training = replace(training, examples=())  # their items are all that is needed from here on
    return TaskData(task, training, evaluation, pretrained, max_length, baselines)


def fine_tuning(
    job: FinetuneJob, settings: FinetuneSettings, data: TaskData, files: Mapping[str, Any], ranks: Ranks
) -> TrainingLoop:
    """Return the loop of a job, on one of its processes, which has its output to itself. Raises InputError.

    files: by name, as `named_file` describes them
    """
    check_output(Path(job.output))
    folder, identity = unfinished(Path(job.output), alone=True), identity_of(job, data.task, files)
    other = left_by_another(folder, identity)
    ranks.wait()
    if ranks.rank == 0:
        if other:
            shutil.rmtree(folder)
        folder.mkdir(exist_ok=True)
    ranks.wait()
    log, checkpoints = MetricsLog(folder, speaks=ranks.rank == 0), Checkpoints(folder, 1, ranks)
    newest = checkpoints.newest(check_best)
    asked = loop_settings(settings, len(data.training.items))
    plan, choice, computes = settle(asked, data.pretrained.settings, ranks, newest.choice)
    warnings = [f"The earlier run {other}, so this one starts over."] if other else []
    write = partial(write_output, job, folder, files)
    course = TaskCourse(data, settings, plan, ranks, log, identity, computes, warnings, write)
    return TrainingLoop(course, ranks, log, checkpoints, newest, choice)


# What is done already.


def is_done(job: FinetuneJob) -> bool:
    """Tells whether the output is what the job asks for: the same settings, and the same bytes to learn from."""
    path = Path(job.output) / RECORD
    if not path.is_file():
        return False
    files = {"training": named_file(job.training), "evaluation": named_file(job.evaluation)}
    digest = asked_digest(job, files)
    return bool(digest) and read_json(path).get("asked") == digest


def asked_digest(job: FinetuneJob, files: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the digest of all that decides what a job ends with; "" where a file can be read only once, as a pipe."""
    if None in (file["sha256"] for file in files.values()):
        return ""
    teacher = {"teacher": _digests(Path(job.task["teacher"]))} if job.task.get("teacher") else {}
    asked = {
        "task": {**job.task, **teacher},
        "settings": settings_json(job.settings),
        "model": _digests(Path(job.model)),
        "files": files,
        "held_out": [job.folds, job.fold, job.group],
        "first_weights": job.first_weights,
    }
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


# What a run resumes with.


def identity_of(job: FinetuneJob, task: Task, files: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return what is asked for, and digests of all that is read, as a JSON document has it.

    task: fitted, with the digest of its teacher; files: by name, as `named_file` describes them
    """
    asked = {
        "job": dataclasses.asdict(job),
        "model": _digests(Path(job.model)),
        "examples": {name: file["sha256"] for name, file in files.items()},
        "task": task_json(task),
    }
    identity: dict[str, Any] = json.loads(json.dumps(asked))
    return identity


def _digests(folder: Path) -> dict[str, Any]:
    """Return sizes and digests of those files in a model's folder that are read."""
    names = (CONFIG, WEIGHTS, TOKENIZER_CONFIG, *TOKENIZER_FILES, *sentence_files(folder))
    return described(folder, [name for name in names if (folder / name).is_file()])


def left_by_another(folder: Path, identity: Mapping[str, Any]) -> str:
    """Return in what the run that an unfinished folder is of differs from this one; "" where in nothing."""
    for path in folder.glob(f"{FOLDER}/step-*"):
        try:
            return difference(read_finished(path)["identity"], identity)
        except Damaged:
            continue  # it is left aside
    return ""


def difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return how two runs differ in what they were asked for; "" where they do not."""
    if before["job"] != now["job"]:
        return "had a different job"
    if before["model"] != now["model"]:
        return f"used another model in {now['job']['model']}"
    for name, digest in now["examples"].items():
        if digest is None or before["examples"].get(name) != digest:
            return f"read other contents of {now['job'][name]['path']}"
    return "" if before == now else "used a different teacher or task package"


def check_best(path: Path, facts: Mapping[str, Any]) -> None:
    """Raise Damaged where the checkpoint of the best epoch, which another one names, is not as it was written."""
    best = path.with_name(name_of(facts["best_step"]))
    if facts["best_step"] and best != path:
        try:
            check_files(best, read_finished(best)["files"])
        except Damaged as damage:
            raise Damaged(f"{best.name}/{damage.path}", damage.what) from damage


# What comes out.


def write_output(job: FinetuneJob, folder: Path, files: Mapping[str, Any], course: TaskCourse) -> None:
    """Write the kept epoch as a folder, made visible in one step; what is needed to make it again goes after that."""
    output, new, data = Path(job.output), folder / EXPORT, course.data
    kept = course.restarts[course.best]
    task = data.task.tuned(kept["epochs"][kept["kept"] - 1])
    state = best_weights(folder / FOLDER / name_of(course.best_step))
    shutil.rmtree(new, ignore_errors=True)
    check_room(folder, sum(tensor.nbytes for tensor in state.values()))
    write_task(new, state, task, data.pretrained.settings, data.pretrained.inputs)
    if isinstance(task, VectorTask) and task.shared:
        write_vector_files(new, task, data.pretrained.settings.shape[1], data.max_length, state, data.pretrained)
    _copy_tokenizer(Path(job.model), new, data.max_length)
    shutil.copyfile(folder / METRICS_FILE, new / METRICS_FILE)
    record = {**record_of(course, task, files, new), "asked": asked_digest(job, files)}
    if job.folds:
        record["held_out"] = {"fold": job.fold, "of": job.folds, "group": job.group}
    written_json(new / RECORD, record)
    mark_complete(new, (name for name in names_in(new) if name != METRICS_FILE))  # that has times
    if output.is_dir():
        output.rmdir()  # seen to be empty
    new.rename(output)
    shutil.rmtree(folder)
    speak(line({"event": "done", "step": course.settings.steps, **done_facts(record, job.output)}))


def done_facts(record: Mapping[str, Any], output: str) -> dict[str, Any]:
    """Return what is reported of a finished model. record: its own"""
    best = record["restarts"][record["best"]]
    more = {"median": record["median"], "spread": record["spread"]} if len(record["restarts"]) > 1 else {}
    beside = {"metric": record["metric"], "baselines": record["baselines"]}
    return {"epoch": best["kept"], **best["scores"], "output": output, **more, **beside}


def best_weights(path: Path) -> dict[str, Tensor]:
    """Return the weights of a checkpoint. Raises InputError where it is not as it was written."""
    try:
        check_files(path, read_finished(path)["files"])
    except Damaged as damage:
        raise InputError(
            f"{path} is damaged ({damage.path}: {damage.what}), so there is nothing to export: start the command again."
        ) from damage
    return read_weights(path)


def check_room(folder: Path, size_bytes: int) -> None:
    """Raise InputError where a folder's disk has no room for so much more."""
    free = shutil.disk_usage(folder).free
    if free < size_bytes:
        raise InputError(
            f"There is no room in {folder}: {size_bytes / 1e9:.2g} GB are needed, and {free / 1e9:.2g} GB are free. "
            "Free that much, or name an output on another disk; with the same output the command then resumes."
        )


def _copy_tokenizer(source: Path, folder: Path, max_length: int) -> None:
    """With the length at which texts were cut when the model was judged: what it reads in use is then the same."""
    for name in TOKENIZER_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
    config = source / TOKENIZER_CONFIG
    data = config.read_bytes() if config.is_file() else b"{}"
    (folder / TOKENIZER_CONFIG).write_bytes(with_max_length(data, max_length))


def record_of(course: TaskCourse, task: Task, files: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return how the model in a folder was made, without a path of this machine."""
    restarts = [
        {**each, "scores": {k: v for k, v in each["epochs"][each["kept"] - 1].items() if k != "epoch"}}
        for each in course.restarts
    ]
    judged = [each["scores"][course.metric] for each in restarts]
    ledgers = {"training": course.data.training.ledger, "evaluation": course.data.evaluation.ledger}
    return {
        "task": task_json(task),
        "settings": settings_json(course.tuning),
        "max_length": course.data.max_length,
        "weights": described_weights(folder),
        "files": {name: {**file, "ledger": ledgers[name].to_json()} for name, file in files.items()},
        "metric": course.metric,
        "baselines": course.data.baselines,
        "restarts": restarts,
        "best": course.best,
        "median": statistics.median(judged),
        "spread": [min(judged), max(judged)],
    }
