"""Answers to a benchmark's test splits as the files in which it takes them, by the median run of each task.

Promise: a file has every record of its split, or is not written and the reason is told. Where answers are many for one
question (ReCoRD), no file is made yet.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from corpora.errors import InputError
from trainer.tasks.formats.published import published_set
from trainer.tasks.formats.submissions import Submission
from trainer.tasks.suites.judged import read_judged
from trainer.tasks.suites.runs import SuiteRun
from trainer.tasks.suites.suite import SuiteSplit

SAID = ("label", "number", "choice")  # what a task's row calls its answer
PLACES = 3  # decimals of a number, as GLUE's own


class SubmissionFile(NamedTuple):
    """A file to hand in. lines: none where it cannot be made, as `why` says"""

    name: str
    lines: tuple[str, ...]
    why: str = ""


def submission_files(runs: Mapping[str, SuiteRun]) -> Iterator[SubmissionFile]:
    """Of each set whose test split has no labels. runs: by task its median run"""
    for run in runs.values():
        for split in run.splits:
            asked = published_set(split.set).submission if split.set and not split.labelled else None
            if asked is not None:
                yield _file(run, split, asked)


def _file(run: SuiteRun, split: SuiteSplit, asked: Submission) -> SubmissionFile:
    judged = read_judged(run.judged(split))
    if judged is not None and judged.unusable:
        why = f"{judged.unusable:,} records of {Path(split.file.path).name} could not be used, and all must be answered"
        return SubmissionFile(asked.file, (), why)
    try:
        return SubmissionFile(asked.file, tuple(asked.lines(_answers(run.answers(split)))))
    except InputError as error:
        return SubmissionFile(asked.file, (), str(error))


def _answers(path: Path) -> Iterator[tuple[str, str | int | float]]:
    """The id and the answer of every line. Raises InputError where one has none."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            called = next((name for name in SAID if name in row), None)
            if called is None or "id" not in row or "group" in row:
                raise InputError(f"{path.name}: a line has no id, or no answer that can be handed in.")
            said = row[called]
            yield str(row["id"]), round(said, PLACES) if isinstance(said, float) else said
