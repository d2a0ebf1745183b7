"""The runs of a suite (one task learned from one seed each) in the trainer's process, and the scores they leave."""

from collections.abc import Sequence
from itertools import groupby

from corpora.errors import InputError
from corpora.generic_types import Tell
from flows.command.trainer_process import iter_trainer_events, open_job_file
from flows.run.record.task_scores import EventPrinter
from trainer.tasks.suites.split_scores import JudgedSplit, read_judged
from trainer.tasks.suites.suite import SuiteJob, SuiteRun, check_judged
from trainer.tasks.suites.table import JudgedSplits


def run_jobs(runs: Sequence[SuiteRun], tell: Tell) -> None:
    """Run fine-tuning runs one after another.

    Consecutive runs with the same device and number of processes share one trainer process.

    Args:
        runs: The runs.
        tell: Callback that prints a line. It is called with progress messages.

    Raises:
        TrainingFailed: If the trainer's process fails.
    """
    for _, group in groupby(runs, lambda run: (run.job.settings.device, run.job.settings.processes)):
        some = tuple(group)
        listener, training = EventPrinter(tell), some[0].job.settings.to_training_settings(1)
        with open_job_file(SuiteJob(runs=some)) as path:
            for event in iter_trainer_events("evaluate", path, training=training):
                listener.print_event(event)


def read_results(runs: Sequence[SuiteRun]) -> JudgedSplits:
    """Read the scores of finished runs from the runs' folders.

    Args:
        runs: The runs.

    Returns:
        The scores by (task name, seed, split name).

    Raises:
        InputError: If a score file is missing, or has no value for the task's first metric.
    """
    results = dict[tuple[str, int, str], JudgedSplit]()
    for run in runs:
        for split in run.splits:
            judged = read_judged(run.locate_scores(split))
            if judged is None:
                raise InputError(
                    f"{run.locate_scores(split)} disappeared while it was waited for: run the command again."
                )
            check_judged(run, split, judged)
            results[run.task, run.seed, split.name] = judged
    return results
