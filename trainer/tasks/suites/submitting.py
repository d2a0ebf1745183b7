"""Answers to a benchmark's test splits as the files in which it takes them, by the median run of each task.

Promise: a file has every record of its split, or is not written and the reason is reported. Of ReCoRD's candidates for
a query the one that is most surely right is handed in.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from corpora.errors import InputError
from trainer.tasks.formats.published import published_set
from trainer.tasks.formats.submissions import Submission
from trainer.tasks.suites.grouped import RECORD, candidates_of, chosen
from trainer.tasks.suites.judged import read_judged
from trainer.tasks.suites.runs import SuiteRun
from trainer.tasks.suites.suite import TEST, SuiteSplit

CALLED = ("label", "number")  # what a task's row calls its answer
PLACES = 3  # decimals of a number, as GLUE's own


class SubmissionFile(NamedTuple):
    """A file to hand in. lines: none where it cannot be made, for the reason in `why`"""

    name: str
    lines: tuple[str, ...]
    why: str = ""


def submission_files(runs: Mapping[str, SuiteRun]) -> Iterator[SubmissionFile]:
    """Yield the file of each set that has one, for its test split. runs: by task its median run"""
    for run in runs.values():
        for split in run.splits:
            asked = published_set(split.set).submission if split.set and _is_asked(split) else None
            if asked is not None:
                yield _file(run, split, asked)


def _is_asked(split: SuiteSplit) -> bool:
    """Tells whether a benchmark takes the answers: without labels, and for diagnostic sets that have them."""
    return not split.labelled or (split.name.split()[-1] == TEST and "id" in split.file.columns)


def _file(run: SuiteRun, split: SuiteSplit, asked: Submission) -> SubmissionFile:
    judged = read_judged(run.judged(split))
    if judged is None:
        return SubmissionFile(asked.file, (), f"the answers to {split.name} are gone: run the command again")
    if judged.unusable:
        why = f"{judged.unusable:,} records of {Path(split.file.path).name} could not be used, and all must be answered"
        return SubmissionFile(asked.file, (), why)
    try:
        rows = _rows(run.answers(split), judged.examples)
        answers = _best(rows, split) if split.set == RECORD else _answers(rows)
        return SubmissionFile(asked.file, tuple(asked.lines(answers)))
    except InputError as error:
        return SubmissionFile(asked.file, (), str(error))


def _rows(path: Path, count: int) -> list[dict[str, Any]]:
    """Return the lines of a file of answers. Raises InputError where it has not one, with an id, for each record."""
    rows = dict[str, dict[str, Any]]()
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line)
            except ValueError as error:
                raise InputError(f"{path}, line {number}, is incomplete: remove the file, and answer again.") from error
            if "id" not in row:
                raise InputError(f"{path.name}: a line has no id by which it could be handed in.")
            if rows.setdefault(str(row["id"]), row) is not row:
                raise InputError(f"Record {row['id']} is answered twice: a benchmark takes one answer for each.")
    if len(rows) != count:
        raise InputError(
            f"{path} has {len(rows):,} answers, and {count:,} records were answered: remove it, and run the command "
            "again."
        )
    return [*rows.values()]


def _answers(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str | int | float]]:
    """Yield the id and the answer of every line of a file."""
    for row in rows:
        answer = next(row[name] for name in CALLED if name in row)
        yield str(row["id"]), round(answer, PLACES) if isinstance(answer, float) else answer


def _best(rows: Sequence[Mapping[str, Any]], split: SuiteSplit) -> Iterator[tuple[str, str]]:
    """Yield the number of every query, and the text of the candidate that is most surely right."""
    candidates = candidates_of(split.file)
    best = chosen([row["id"] for row in rows], [row["probabilities"]["1"] for row in rows])
    yield from ((query.rpartition(".")[2], candidates[name]["answer"]) for query, name in best.items())
