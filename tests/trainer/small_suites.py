"""Suites that are made by hand, and answers to them."""

from trainer.tasks.formats.records import FileSettings
from trainer.tasks.settings import FinetuneSettings
from trainer.tasks.suites.split_scores import JudgedSplit
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
