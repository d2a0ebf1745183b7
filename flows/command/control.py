"""The control of `cloze finetune`: the same model from first weights learns the same, and both are compared.

    OUTPUT              what was fine-tuned
    OUTPUT-control/     runs/TASK-SEED-DIGEST/, one of each: scores and answers of the rows to judge by; the control's
                        has its model as well
                        comparison.json

Promise: what is finished is not done again. Both are judged by the same rows, by a paired test (`compare`). Cost: that
of the fine-tuning again.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from corpora.errors import InputError
from corpora.generic_types import Tell
from corpora.store.places.files import replace_file
from flows.command.suite_runs import read_results, run_jobs
from flows.run.record.task_scores import format_task_worth, iter_task_worth
from trainer.tasks.registry import read_task
from trainer.tasks.settings import FinetuneJob
from trainer.tasks.suites.compare import compare_models
from trainer.tasks.suites.suite import Suite, SuiteSplit, SuiteTask, iter_runs
from trainer.tasks.suites.table import build_result, with_judged_metrics

COMPARISON = "comparison.json"


def locate_control(output: Path) -> Path:
    """Return the folder, next to a fine-tuned model, for its control: the same model trained from random weights."""
    return output.with_name(f"{output.name}-control")


def compare_with_control(job: FinetuneJob, tell: Tell) -> dict[str, Any]:
    """Fine-tune the same model from random weights, and compare its scores with those of a finished job.

    Args:
        job: The finished job of the fine-tuned model. It must have a separate evaluation file.
        tell: Callback that prints a line. It is called with progress messages and, at the end, the answer.

    Returns:
        A dict, which is also written to the file COMPARISON, with the keys "worth" (the answer as a sentence), "answer"
        ("yes", "no" or "not shown"), "scores" (from `SuiteResult.to_json`) and "comparison" (from
        `SuiteComparison.to_json`).

    Raises:
        InputError: If the model is not valid, or a file cannot be written.
        TrainingFailed: If the trainer's process fails.
    """
    kind, folder = str(job.task["kind"]), locate_control(Path(job.output))
    metrics = read_task(job.task, kind).metrics
    split = SuiteSplit(name="dev", file=job.evaluation, labelled=True, metrics=metrics, averaged=True)
    task = SuiteTask(name=kind, task=job.task, training=job.training, splits=(split,), settings=job.settings)
    suite = Suite(name=kind, seeds=(job.settings.seed,), tasks=(task,), average=False)
    [planned] = iter_runs(suite, Path(job.model), folder)
    [control] = iter_runs(suite, Path(job.model), folder, first_weights=True)
    runs = [replace(planned, job=job), control]
    waiting = [run for run in runs if run.unanswered_splits]
    for run in waiting:
        Path(run.folder).mkdir(parents=True, exist_ok=True)
    tell("control: the same model from first weights learns it, and both answer the rows to judge by")
    run_jobs(waiting, tell)
    judged, others = (read_results([run]) for run in runs)
    suite = with_judged_metrics(suite, judged)
    comparison = compare_models(suite, ("the model", "from first weights"), judged, others, True)
    result = build_result(suite, "the model", judged)
    [worth] = iter_task_worth(result, comparison)
    told = format_task_worth([worth])
    tell(f"Was pre-training worth it? {told}")
    document = {
        "worth": told,
        "answer": worth.answer,
        "scores": result.to_json(),
        "comparison": comparison.to_json(),
    }
    try:
        with replace_file(folder / COMPARISON) as new:
            new.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"Cannot write {folder / COMPARISON}: {error.strerror}. Make room, and run it again."
        ) from error
    return document
