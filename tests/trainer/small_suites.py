"""Suites that are made by hand, and answers to them."""

import json
from pathlib import Path

from trainer.tasks.formats.records import FileSettings
from trainer.tasks.settings import FinetuneJob, FinetuneSettings
from trainer.tasks.suites.judged import JudgedSplit, write_judged
from trainer.tasks.suites.runs import SuiteRun
from trainer.tasks.suites.suite import SuiteSplit, SuiteTask

FILE = FileSettings(path="test.tsv")


def suite_task(name: str, *splits: tuple[str, tuple[str, ...]]) -> SuiteTask:
    """A task with splits that count for the mean."""
    return SuiteTask(
        name=name,
        task={"kind": "classes"},
        training=FILE,
        splits=tuple(
            SuiteSplit(name=split, file=FILE, labelled=True, metrics=metrics, averaged=split.endswith("dev"))
            for split, metrics in splits
        ),
        settings=FinetuneSettings(),
    )


def answered(right: int, of: int = 60, sha256: str = "x") -> JudgedSplit:
    """Rows of two classes, of which so many are right."""
    rows = tuple((float(place % 2), float((place + (place >= right)) % 2)) for place in range(of))
    score = right / of
    return JudgedSplit(
        sha256=sha256, examples=of, scores={"accuracy": score}, statistic="classes", classes=2, rows=rows
    )


def run_with(
    folder: Path,
    rows: list[dict[str, object]],
    split: str,
    of: str,
    unusable: int = 0,
    file: FileSettings = FILE,
    labelled: bool = False,
) -> SuiteRun:
    """A run that has answered one split."""
    job = FinetuneJob(model="", output="", task={}, training=file, evaluation=file)
    asked = SuiteSplit(name=split, file=file, labelled=labelled, metrics=(), set=of)
    folder.mkdir()
    run = SuiteRun(task=of, seed=1, folder=str(folder), job=job, splits=(asked,))
    run.answers(asked).write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_judged(run.judged(asked), JudgedSplit(sha256="", examples=len(rows), unusable=unusable))
    return run
