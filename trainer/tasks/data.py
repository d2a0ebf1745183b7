"""Files of labelled data as a task's examples, and these as what a model reads.

Promise: what became of every record is in the ledger of its file, and how many tokens of long texts were cut off.
Memory: all examples and their ids.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from corpora.errors import InputError
from corpora.store.ledger import Ledger
from trainer.tasks.contract import Example, Task, TaskItem
from trainer.tasks.encoding import TextEncoder
from trainer.tasks.formats.reading import ENDINGS, read_examples
from trainer.tasks.formats.records import FileSettings, RowCounts

ID = "id"  # a role that any file may have: what it calls a record


@dataclass(frozen=True, slots=True, kw_only=True)
class FileExamples:
    """Of one file.

    lines:    where each begins
    ids:      what the file calls each; None where it does not
    counts:   what became of the records
    labelled: whether they have what is learnt
    """

    path: str
    examples: Sequence[Example]
    lines: Sequence[int]
    ids: Sequence[Any]
    counts: RowCounts
    labelled: bool

    def __len__(self) -> int:
        return len(self.examples)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedExamples:
    """FileExamples as items. ledger: of records and tokens"""

    examples: Sequence[Example]
    items: Sequence[TaskItem]
    ledger: Ledger
    labelled: bool


def read_file(task: Task, file: FileSettings, labelled: bool = True) -> FileExamples:
    """The examples of a file. Raises InputError."""
    counts = RowCounts()
    read = [role for role in task.roles if labelled or role not in task.learnt]
    needed = [role for role in read if role not in task.optional]
    optional = [role for role in read if role in task.optional]
    found = read_examples(
        with_format(task, file),
        counts,
        needed,
        lambda values: (values.get(ID), task.example(values, labelled)),
        [*optional, ID],
    )
    lines, made = zip(*found, strict=True)
    ids, examples = zip(*made, strict=True)
    return FileExamples(path=file.path, examples=examples, lines=lines, ids=ids, counts=counts, labelled=labelled)


def with_format(task: Task, file: FileSettings) -> FileSettings:
    """With the task's format, where the file does not tell its own."""
    return replace(file, format=task.format) if task.format and not _is_told(file) else file


def _is_told(file: FileSettings) -> bool:
    """Whether a file's format is named, or known by its ending."""
    return bool(file.format) or Path(file.path).suffix.lower() in ENDINGS


def encode(task: Task, found: FileExamples, encoder: TextEncoder) -> EncodedExamples:
    """FileExamples as items of a model. Raises InputError where none of them can be learnt or judged."""
    cut, lost = encoder.num_cut, encoder.tokens_cut
    items = task.items(found.examples, encoder, found.labelled)
    if not items:
        raise InputError(
            f"{found.path} has nothing that can be read as the task {task.kind!r} asks: give another file."
        )
    figures = {
        "tokens": sum(item.num_tokens for item in items),
        "texts_cut": encoder.num_cut - cut,
        "tokens_cut": encoder.tokens_cut - lost,
    }
    ledger = Ledger(accounts=(found.counts.account,), figures=figures).check()
    return EncodedExamples(examples=found.examples, items=items, ledger=ledger, labelled=found.labelled)


def sha256_of(path: str) -> str:
    """Of a file; of a folder (RACE) that of the names and digests of all files below it."""
    if Path(path).is_dir():
        files = sorted(file for file in Path(path).rglob("*") if file.is_file())
        names = [f"{sha256_of(str(file))}  {file.relative_to(path)}\n" for file in files]
        return hashlib.sha256("".join(names).encode(errors="surrogateescape")).hexdigest()
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def named_file(file: FileSettings) -> dict[str, Any]:
    """A file in a record: without a path of this machine, with its digest."""
    return {
        "path": Path(file.path).name,
        "format": file.format,
        "header": file.header,
        "columns": dict(file.columns),
        "sha256": sha256_of(file.path) if Path(file.path).exists() else None,
    }
