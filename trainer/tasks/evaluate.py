"""Executes the runs of a suite: fine-tunes each model, predicts every split, and writes the scores.

Promise: finished work is not repeated. An interrupted run resumes its fine-tuning (`finetune`). If the file of a split
has changed since it was predicted, it is predicted again.
"""

import gc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from corpora.errors import InputError
from corpora.sources.bytes.unchanged import hold_unchanged, read_states
from trainer.metrics import print_event
from trainer.ranks import Ranks, join_process_group
from trainer.tasks.data import read_file
from trainer.tasks.finetuning.finetune import finetune
from trainer.tasks.folders import RECORD, LoadedFolder, load_task
from trainer.tasks.predict import FileAnswers, predict_file, write_answers
from trainer.tasks.settings import read_job
from trainer.tasks.suites.baselines import MAJORITY, compute_baseline_answers
from trainer.tasks.suites.compare import compute_p_value
from trainer.tasks.suites.split_scores import JudgedSplit, score_predictions, write_judged
from trainer.tasks.suites.suite import SuiteJob, SuiteRun, SuiteSplit, digest_split, score_groups
from trainer.tasks.task import Prediction, Task


def main(arguments: list[str]) -> int:
    """Run the command `evaluate JOB.json`: fine-tune the models of a suite, and predict and score their files.

    Returns:
        0; 2 for an error that the user can fix, which is printed as an event; 128 plus the signal number if a signal
        stopped the run.

    Raises:
        InputError: If the job file cannot be read.
    """
    asked = read_job(SuiteJob, arguments)
    device = asked.runs[0].job.settings.device if asked.runs else "auto"
    with join_process_group(device) as ranks:
        try:
            for number, run in enumerate(asked.runs, 1):
                print_event({"event": "run", "number": number, "of": len(asked.runs), "task": run.task,
                            "seed": run.seed})  # fmt: skip
                if code := evaluate(run, ranks):
                    return code
        except InputError as error:
            print_event({"event": "failure", "message": str(error)})
            return 2
    return 0


def evaluate(run: SuiteRun, ranks: Ranks) -> int:
    """Fine-tune a model on one task from one seed unless that is already done, and predict the files that remain.

    All processes must call this function.

    Args:
        run: The task and seed, with the files to predict.
        ranks: The processes that share the work.

    Returns:
        0, or an exit code if a signal stopped the run.

    Raises:
        InputError: If the job or one of its files is invalid.
    """
    waiting = run.unanswered_splits
    ranks.wait()  # all have looked before one of them writes
    if not waiting:
        return 0
    model = Path(run.job.output)
    if not (model / RECORD).is_file():
        if ranks.rank == 0:
            model.parent.mkdir(parents=True, exist_ok=True)
        ranks.wait()
        if code := finetune(run.job, ranks):
            return code
        gc.collect()
    loaded = load_task(model)
    loaded.model.to(ranks.device)
    for split in waiting:
        judged = judge(run, split, loaded, ranks)
        if ranks.rank == 0:
            write_judged(run.locate_scores(split), judged)
            print_event({"event": "judged", "split": split.name, "examples": judged.examples, "scores": judged.scores})
    ranks.wait()
    return 0


def judge(run: SuiteRun, split: SuiteSplit, loaded: LoadedFolder, ranks: Ranks) -> JudgedSplit:
    """Predict one file of a task, write the predictions as JSON lines, and return their scores.

    All processes must call this function. Only the first process writes.

    Args:
        run: The run that fine-tuned the model.
        split: The file to predict.
        loaded: The fine-tuned model.
        ranks: The processes that share the work.

    Raises:
        InputError: If the file cannot be read, or changes while it is predicted.
    """
    with hold_unchanged(read_states([split.file.path])):
        answers = predict_file(Path(run.job.output), loaded, split.file, split.labelled, ranks)
        examples, counts = answers.file.examples, answers.file.counts
        if ranks.rank == 0:
            write_answers(run.locate_answers(split), loaded.task, answers)
        counted: dict[str, Any] = {
            "sha256": digest_split(split),
            "examples": len(examples),
            "unusable": counts.rows - counts.given,
        }
    if not split.labelled:
        return JudgedSplit(**counted)
    training = read_file(loaded.task, run.job.training, learning=True).examples
    scored = JudgedSplit(**counted, **_score_answers(split, loaded.task, answers, answers.predictions))
    compared = dict[str, Any]()
    for name, predictions in compute_baseline_answers(loaded.task, training, examples).items():
        baseline = JudgedSplit(**counted, **_score_answers(split, loaded.task, answers, predictions))
        field = "majority" if name == MAJORITY else "words"
        compared |= {field: baseline.scores, f"p_{field}": compute_p_value(scored, baseline, split.metrics[0])}
    return replace(scored, **compared)


def _score_answers(
    split: SuiteSplit, task: Task, answers: FileAnswers, predictions: Sequence[Prediction]
) -> dict[str, Any]:
    """Compute the fields of `JudgedSplit` that depend on predictions (scores and rows), by name.

    `answers` contains the examples. `predictions` come from the model or from a baseline.
    """
    examples = answers.file.examples
    fields = score_predictions(task, examples, predictions)
    together = score_groups(split.set, split.file, answers.file.ids, examples, predictions)
    scores = {**fields["scores"], **together.get("scores", {})}
    return {**fields, **together, "scores": scores, "is_grouped": bool(together)}
