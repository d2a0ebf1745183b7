"""The records of a file of labelled data as they are read, without a task that makes examples of them."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trainer.tasks.formats.reading import read_examples
from trainer.tasks.formats.records import FileSettings, RowCounts, Values


class TaskRecord(NamedTuple):
    """One record of a file. line: where it begins there, from 1; values: by role."""

    line: int
    values: Values


def read_records(
    settings: FileSettings, counts: RowCounts, roles: Sequence[str], optional: Sequence[str] = ()
) -> Iterator[TaskRecord]:
    """Yield the records of a file in its order."""
    for line, values in read_examples(settings, counts, roles, dict, optional):
        yield TaskRecord(line, values)
