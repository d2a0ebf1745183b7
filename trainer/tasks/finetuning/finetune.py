"""Fine-tuning: reads a model folder and two files of labeled examples, and writes the folder of a model for the task.

    files ─► examples ─► the task, fitted ─► items ─► for each restart: a new head ─► train ─► the best epoch of all
    model, tokenizer ────────────────────────┘                                                 └─► a folder

A restart is one call of `train` (`trainer/train.py`) with the same items and another seed. Its steps are numbered after
those of earlier restarts, so all restarts share one log and one folder of checkpoints. An epoch goes through all items
once, and ends with an evaluation and a checkpoint. The checkpoint of the best epoch so far is kept, and exported at the
end. The random numbers of dropout depend on seed, step and process, so a restart can resume at any step.

The optimizer is AdamW as in pre-training, with linear warm-up and decay (Devlin et al. 2018, appendix A.3).

Promise: with one process on a CPU, the same job writes the same bytes, except for the times in `metrics.jsonl`, even if
it was killed and started again. It resumes only from an equal run: if the job, the model, the teacher or a file of
examples differs, it starts over and says why (`record.py`). Only one run at a time writes an output.

    OUTPUT's unfinished folder/   metrics.jsonl   the log
                                  checkpoints/    the newest checkpoint, and that of the best epoch, as in pre-training
                                  export/         the folder that becomes the output

Cost: a step of 32 texts of 5 to 49 tokens takes 0.39 s with BERT mini (one x86-64 core). Memory: for a row of 30
tokens, some 650 bytes in addition to its text (`data`), and some five times the weights: as read, in training,
gradients, and AdamW's two moments.
"""

import gc
import shutil
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from corpora.errors import InputError
from corpora.sources.bytes.unchanged import hold_unchanged, read_states
from corpora.store.places.files import explain_disk_error, to_unfinished_path
from corpora.store.randomness import compute_keys
from corpora.store.settings import to_settings_json
from trainer.checkpoints.folders import Checkpoints, Cursor
from trainer.complete_folders import check_output, hold_output
from trainer.compute import hold_num_threads, resolve_auto
from trainer.huggingface.checkpoints import Pretrained, load_pretrained
from trainer.huggingface.config import read_json
from trainer.huggingface.sentence_transformers import read_sentences
from trainer.learn import Step, TrainState, build_state, make_step
from trainer.metrics import MetricsLog, print_event
from trainer.model.objective import build_model
from trainer.ranks import Ranks, StopSignal, join_process_group
from trainer.step_log import StepReport, name_counts
from trainer.tasks.data import describe_file, encode, fit_task, read_file, with_unknown_counts
from trainer.tasks.finetuning.held_out import select_examples, split_held_out
from trainer.tasks.finetuning.record import (
    check_best,
    describe_identity,
    describe_output,
    find_other_run,
    is_done,
    write_output,
)
from trainer.tasks.finetuning.restarts import EpochScores, TaskData, cut_slots, plan_training, score_epoch
from trainer.tasks.finetuning.teacher import with_teacher_answers
from trainer.tasks.folders import RECORD, check_model, find_max_length
from trainer.tasks.heads.task_model import build_task_model, freeze
from trainer.tasks.kinds.texts import StudentTask
from trainer.tasks.kinds.vectors import VectorTask
from trainer.tasks.registry import read_task
from trainer.tasks.settings import FinetuneJob, FinetuneSettings, read_job, with_published
from trainer.tasks.suites.baselines import compute_baseline_scores
from trainer.tasks.task import Task
from trainer.train import Phase, Run, split_phases, train
from trainer.watch import NonFinite


def main(arguments: list[str]) -> int:
    """Run the command `finetune JOB.json`: fine-tune a model as described in the job file.

    Returns:
        0; 2 for an error that the user can fix (its message is printed as an event); 128 plus the signal number if a
        signal stopped training, after a checkpoint.

    Raises:
        InputError: If the job file cannot be read.
    """
    job = read_job(FinetuneJob, arguments)
    with join_process_group(job.settings.device) as ranks:
        try:
            return finetune(job, ranks)
        except InputError as error:
            print_event({"event": "failure", "message": str(error)})
            return 2


def finetune(job: FinetuneJob, ranks: Ranks) -> int:
    """Fine-tune a model on a task: read the data, score baselines, train all restarts, and export the best epoch.

    If the output already exists and was made from the same job, nothing is done. All processes must call this function.

    Args:
        job: The job.
        ranks: The processes that share the work.

    Returns:
        0, or 128 plus the number of the signal that stopped training.

    Raises:
        InputError: If the model, a file or the output cannot be used, or training diverged.
    """
    output = Path(job.output)
    if is_done(job):
        check_model(output)
        if ranks.rank == 0:
            print_event({"event": "done", **describe_output(read_json(output / RECORD), job.output), "again": True})
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
    with hold_unchanged(read_states((job.training.path, job.evaluation.path))):
        files = {"training": describe_file(job.training), "evaluation": describe_file(job.evaluation)}
        data = read_data(job, settings, pretrained, ranks)
    baselines = compute_baseline_scores(data.task, data.training.examples, data.evaluation.examples)
    data = data._replace(training=replace(data.training, examples=()))  # their items are all that is needed now

    with explain_disk(output), hold_output(output, "fine-tuning into") if ranks.rank == 0 else nullcontext():
        check_output(output)
        stop = train_task(job, settings, data, files, ranks, export=partial(write_output, job, files, data, baselines))
    ranks.wait()
    return stop.exit_code


def train_task(
    job: FinetuneJob,
    tuning: FinetuneSettings,
    data: TaskData,
    files: Mapping[str, Any],
    ranks: Ranks,
    export: Callable[[EpochScores, Path], Mapping[str, Any]],
) -> StopSignal:
    """Train a model on a task from every seed, and export the best epoch unless a signal stops training.

    All processes must call this function.

    Args:
        job: The job.
        tuning: The settings of the job, with published values filled in.
        data: The fitted task, its encoded examples, and the model.
        files: Descriptions of the files "training" and "evaluation", as returned by `describe_file`.
        ranks: The processes that share the work.
        export: Called on the first process with the scores and the unfinished folder. Returns the record of the output.

    Returns:
        The stop signal, which says whether training was stopped.
    """
    folder, identity = (
        to_unfinished_path(Path(job.output), is_only_writer=True),
        describe_identity(job, data.task, files),
    )
    other = find_other_run(folder, identity)
    ranks.wait()
    if ranks.rank == 0:
        if other:
            shutil.rmtree(folder)
        folder.mkdir(exist_ok=True)
    ranks.wait()
    log, stop, checkpoints = MetricsLog(folder, ranks.rank == 0), StopSignal(ranks), Checkpoints(folder, 1, ranks)
    resume_from, faults = checkpoints.find_newest(check_best)
    before = None if resume_from is None else resume_from.choice
    items = data.training.items
    settings, choice, computes = resolve_auto(
        plan_training(tuning, len(items)), data.pretrained.settings, ranks, before
    )
    phases, steps_per_epoch = split_phases(settings), settings.evaluate_every  # a restart is a phase
    scores = EpochScores(tuning=tuning, metric=data.task.metrics[0])

    # A restart: the pre-trained model again, with a head whose first weights are of another seed.
    def begin_restart(restart: int) -> TrainState:
        torch.manual_seed(settings.seed + restart)
        model = build_task_model(data.task, data.pretrained)
        freeze(model, tuning.freeze)
        if len(scores.restarts) == restart:  # else it is resumed
            scores.restarts.append({"seed": settings.seed + restart, "kept": 0, "epochs": []})
        return build_state(model, settings, ranks)

    def read_steps(phase: Phase, done: int) -> Generator[Step, None, None]:
        batch, seed = settings.phase[0].batch, settings.seed + phase.number
        for number in range(done - phase.first, phase.end - phase.first):
            if scores.is_patience_out():
                return
            epoch, within = divmod(number, steps_per_epoch)
            first = epoch * len(items)
            slots = range(first + within * batch, first + min((within + 1) * batch, len(items)))
            torch.manual_seed(int(compute_keys(seed, "dropout", number, ranks.rank)))
            micro_batches = cut_slots(slots, items, data.task, seed, settings.micro_batch, ranks)
            yield make_step(phase.first + number + 1, micro_batches, ranks)

    def evaluate(phase: Phase, state: TrainState) -> Mapping[str, Any]:
        epoch, judged = (state.steps_done - phase.first) // steps_per_epoch, score_epoch(state, data, ranks)
        scores.add_epoch(state.steps_done, epoch, judged)
        checkpoints.kept_steps = scores.kept_steps
        return {"epoch": epoch, "restart": phase.number, **judged, "sequences": len(data.evaluation.examples)}

    def find_cursor(step: int) -> Cursor:
        restart = len(scores.restarts) - 1
        return Cursor(phase=restart, step=step, slot=step - phases[restart].first)

    def describe_line(report: StepReport) -> dict[str, Any]:
        result = report.result
        counts = name_counts(result.step.counts)
        return {
            "epoch": (result.step.number - 1 - phases[result.phase].first) // steps_per_epoch + 1,
            "restart": result.phase,
            **name_losses(report.losses, data.task),
            "learning_rate": result.rate,
            "gradient_norm": report.norm,
            **{name: counts[name] for name in ("tokens", "sequences")},
        }

    run = Run(
        settings=settings,
        choice=choice,
        identity=identity,
        ranks=ranks,
        log=log,
        stop=stop,
        checkpoints=checkpoints,
        watchers=[NonFinite(ranks, explain_divergence)],
        describe_line=describe_line,
        find_cursor=find_cursor,
        describe_progress=scores.to_json,
    )

    # The log says how the run begins.
    def log_start(step: int) -> None:
        log.cut(-1 if resume_from is None else step)
        if other:
            log.write_event("warning", step, message=f"The earlier run {other}, so this one starts over.")
        log.write_event(
            "start",
            step,
            steps=settings.steps,
            processes=ranks.count,
            task=data.task.kind,
            metric=scores.metric,
            computes=computes,
            resumed=resume_from is not None,
            settings=to_settings_json(tuning),
            max_length=data.max_length,
            items=len(items),
            training=data.training.ledger.to_json(),
            evaluation=data.evaluation.ledger.to_json(),
        )
        for fault in faults:
            log.write_event("damaged", step, message=fault)

    # The restarts, from that of the checkpoint on.
    first, step = 0, 0
    if resume_from is not None:
        first, step = resume_from.cursor.phase, resume_from.cursor.step
        scores.restore(resume_from.progress)
        checkpoints.kept_steps = scores.kept_steps
    threads = hold_num_threads(settings, data.pretrained.settings, data.max_length, ranks)
    with checkpoints.wait_at_end(), stop.hold_signals(), threads:
        for phase in phases[first:]:
            state = begin_restart(phase.number)
            if phase.number == first:
                log_start(step)
            train(run, state, [phase], read_steps, evaluate, export=None, resume_from=resume_from)
            if stop.is_requested:
                return stop
            resume_from = None  # the next restart begins anew
            del state
            gc.collect()  # a sharded model is in circles: its weights would stay in memory with those of the next
        if ranks.rank == 0:
            facts = describe_output(export(scores, folder), job.output)
            print_event({"event": "done", "step": settings.steps, **facts})
        ranks.wait()
    return stop


def explain_divergence(step: int, micro_batch: int) -> InputError:
    """Build the error for a step with a loss or gradient that is not finite.

    Args:
        step: The number of the step.
        micro_batch: Not used.
    """
    return InputError(
        f"At step {step} the loss or the gradient is no longer finite: training has diverged. Lower learning_rate, "
        "raise warmup, or set clip_norm."
    )


def name_losses(losses: Mapping[str, float], task: Task) -> Mapping[str, float]:
    """Return the losses of a step under the names of a log line.

    If the task has a single loss term, its name is omitted.
    """
    terms = task.list_terms()
    if len(terms) > 1:
        return losses
    prefix = f"{terms[0].name}_"
    return {name.removeprefix(prefix): value for name, value in losses.items() if name != f"{prefix}loss"}


def with_first_weights(pretrained: Pretrained, seed: int) -> Pretrained:
    """Return a copy of a model with random weights instead of the pre-trained ones. All processes get the same weights.

    `seed` is the seed of torch's generator.
    """
    torch.manual_seed(seed)
    model = build_model(pretrained.settings, pretrained.inputs)
    model.init_weights()
    first = model.state_dict()
    return pretrained._replace(state={name: first[name] for name in pretrained.state if name in first})


@contextmanager
def explain_disk(output: Path) -> Iterator[None]:
    """Convert an OSError in the block that concerns the output's disk to an InputError with a remedy.

    Other errors are raised unchanged.
    """
    try:
        yield
    except OSError as error:
        ours = error.filename is None or Path(str(error.filename)).is_relative_to(output.parent)
        refusal = explain_disk_error(error, "name an output on another disk") if ours else None
        if refusal is None:
            raise
        raise InputError(f"Cannot write {output}: {refusal}. With the same output the command then resumes.") from error


def choose_length(task: Task, asked: int | None, pretrained: Pretrained, model: str) -> int:
    """Choose the maximum number of tokens of a sequence: the requested one, or the default of the task or the folder.

    Args:
        task: The task.
        asked: The requested number of tokens, or None.
        pretrained: The model.
        model: The folder of the model, for error messages.

    Raises:
        InputError: If the requested number exceeds the number of tokens that the model can read.
    """
    positions = pretrained.settings.positions
    if asked is not None and asked > positions:
        raise InputError(f"max_length = {asked}, and the model {model} reads {positions} tokens: lower it.")
    if isinstance(task, VectorTask) and pretrained.sentences is not None:
        return asked or find_max_length(pretrained.sentences, positions)
    return asked or min(task.default_length, positions)


def read_data(job: FinetuneJob, settings: FinetuneSettings, pretrained: Pretrained, ranks: Ranks) -> TaskData:
    """Read and encode the examples of both files, and fit the task to the training examples.

    All processes must call this function.

    Args:
        job: The job.
        settings: The settings of the job, with published values filled in.
        pretrained: The model.
        ranks: The processes that share the work.

    Raises:
        InputError: If a file cannot be read, or nothing can be learned from it.
    """
    task = read_task(job.task)
    if isinstance(task, VectorTask) and (sentences := read_sentences(Path(job.model))) is not None:
        pretrained, task = pretrained._replace(sentences=sentences), task.with_folder_settings(sentences)
    max_length = choose_length(task, settings.max_length, pretrained, job.model)
    encoder = task.build_text_encoder(Path(job.model), pretrained.inputs, max_length)
    files, judges = read_file(task, job.training, learning=True), None
    if job.folds:
        learnt, judges = split_held_out(task, files, job)
        whole, files = files, select_examples(files, learnt, judges=False)
    task = fit_task(task, files)
    if judges is None:
        judged = read_file(task, job.evaluation)
    else:
        judged = with_unknown_counts(task, select_examples(whole, judges, judges=True))
    training, evaluation = encode(task, files, encoder), encode(task, judged, encoder)
    if isinstance(task, StudentTask) and task.teacher:
        task, (training, evaluation) = with_teacher_answers(task, (training, evaluation), ranks)
    return TaskData(task, training, evaluation, pretrained, max_length)
