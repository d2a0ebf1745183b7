"""A file of labelled data as the judge sees it: each usable record with its line, texts and label.

Records are read as fine-tuning reads them, but labels are not held to those of training, and a file with many unusable
records is read to its end. Memory: the records, as Python's objects.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import xxhash

from corpora.kernels.arrays import UInt64s
from corpora.text.normal_form import nfc
from trainer.tasks.checking.findings import DataFinding, finding, shortened
from trainer.tasks.contract import Example, Task
from trainer.tasks.data import roles_of, with_format
from trainer.tasks.formats.reading import check_columns, read_examples
from trainer.tasks.formats.records import ID, FileSettings, RowCounts, Values

ASIDE = ("document", "level", "impossible")  # roles that are not read as texts
TEXTS_APART = "\n"
LONGEST_NAME = 28


@dataclass(frozen=True, kw_only=True)
class CheckedFile:
    """The usable records of a file. settings: how it is read; labels: None where it has none"""

    name: str
    settings: FileSettings
    examples: Sequence[Example]
    lines: Sequence[int]
    values: Sequence[Values]
    labels: Sequence[Any] | None
    ids: Sequence[Any]
    counts: RowCounts
    text_roles: tuple[str, ...]
    features: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def called(self) -> str:
        """The file's name, of a long one the end."""
        return self.name if len(self.name) <= LONGEST_NAME else f"…{self.name[-LONGEST_NAME:]}"

    def at(self, rows: Sequence[int]) -> str:
        """Return where rows are, by their numbers from 0: `train.tsv, lines 3, 9 and 3 more`."""
        many = "lines" if len(rows) > 1 else "line"
        name = self.called
        return f"{name}, {many} {shortened([str(self.lines[row]) for row in rows])}" if rows else name

    def finding(self, case: str, rows: Sequence[int] = (), /, **values: Any) -> DataFinding:
        """Return a finding in some rows, or in the whole file. values: of its wording"""
        return finding(case, self.at(rows), **values)

    @cached_property
    def texts(self) -> list[tuple[str, ...]]:
        """The texts of each row, by `text_roles`."""
        return [tuple(text_of(values.get(role)) for role in self.text_roles) for values in self.values]

    @cached_property
    def wholes(self) -> list[str]:
        """All texts of a row as one."""
        return [TEXTS_APART.join(texts) for texts in self.texts]

    @cached_property
    def number_range(self) -> float:
        """The difference of the highest and the lowest label, where labels are numbers."""
        numbers = [label for label in self.labels or () if isinstance(label, float)]
        return max(numbers) - min(numbers) if numbers else 0.0

    @cached_property
    def keys(self) -> UInt64s:
        """Hashes of all that a row has but its label: equal where rows differ by case, space or form of Unicode."""
        beside = [[text_of(values.get(role)) for role in self.features] for values in self.values]
        pairs = zip(self.texts, beside, strict=True)
        return np.array([hash_of("\0".join((*texts, *more))) for texts, more in pairs], np.uint64)


def hash_of(text: str) -> int:
    """Return the hash of a text, whatever its case, spaces and form of Unicode."""
    return xxhash.xxh3_64_intdigest(" ".join(nfc(text).casefold().split()).encode("utf-8", "replace"))


def text_of(value: Any) -> str:
    """Return a value of a record as a text: a list's parts one after another."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return " ".join(map(text_of, value))
    return "" if value is None else str(value)


def read_checked(task: Task, name: str, file: FileSettings, labelled: bool = True) -> CheckedFile:
    """Return the records of a file. Raises InputError where it cannot be read. name: what messages call it"""
    counts = RowCounts()
    check_columns(file, (*task.roles, ID), f"the task {task.kind!r}")
    needed, optional = roles_of(task, labelled)
    rows = read_examples(
        replace(with_format(task, file), max_unusable=1.0),
        counts,
        needed,
        lambda values: (values, task.example(values, labelled)),
        [*optional, ID],
    )
    taken = [(line, values, example) for line, (values, example) in rows]
    features = (*getattr(task, "numeric", ()), *getattr(task, "categorical", ()))
    given = {role for _, values, _ in taken for role in values} - {*task.learnt, *features, *ASIDE}
    return CheckedFile(
        name=name,
        settings=file,
        examples=[example for _, _, example in taken],
        lines=[line for line, _, _ in taken],
        values=[values for _, values, _ in taken],
        labels=[label_of(task, example, values) for _, values, example in taken] if labelled and task.learnt else None,
        ids=[values.get(ID) for _, values, _ in taken],
        counts=counts,
        text_roles=tuple(role for role in task.roles if role in given),
        features=features,
    )


def label_of(task: Task, example: Example, values: Mapping[str, Any]) -> Any:
    """Return what is learnt of a record: as its task has it, else as the file has it."""
    for name in ("label", "tags", "right", "answers", "labels"):
        if hasattr(example, name):
            return getattr(example, name)
    return tuple(text_of(values.get(role)) for role in sorted(task.learnt))
