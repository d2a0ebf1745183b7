"""Reads files of labeled data as examples of a task, and encodes examples as items (model inputs). No torch.

The items of many examples are stored in a few long buffers instead of one object each (`PackedItems`).
`batch_by_length` and `group_by_size` form batches.

Promise: the ledger of a file accounts for every record, and for the tokens of long texts that were truncated.
`items[n]` has the contents and the types of the n-th item that was packed. Memory: a row of 22 tokens takes 590 bytes
in addition to its text, a third of that for the model input: five bytes per token, four per point, the size of the
targets, and some 80 bytes per item. Cost: 16,000 rows of 22 tokens are read and encoded per second (one x86-64 core,
2026-11-23). Packing an item takes 7 microseconds, and reading one 13 (2026-11-26).
"""

import hashlib
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from corpora.errors import InputError
from corpora.sources.bytes.objects import parse_raw_path
from corpora.store.ledger import Ledger
from trainer.tasks.formats.reading import ENDINGS, check_columns, read_examples
from trainer.tasks.formats.records import ID, KEEP_PREFIX, FileSettings, RowCounts, Values, find_unpacked_ending
from trainer.tasks.task import Example, Items, Misfit, Task, TaskItem, Tokens
from trainer.tasks.text_encoder import TextEncoder

EXAMPLES_PER_CALL = 1_000  # examples that are encoded in one call

Thing = TypeVar("Thing")


class ArrayColumn:
    """Arrays of one type, concatenated along their first axis for storage.

    stored_type: a smaller type for storage; arrays are converted back when they are read
    """

    def __init__(self, stored_type: npt.DTypeLike | None = None) -> None:
        self._stored_type, self._bytes, self._ends = stored_type, bytearray(), array("q", [0])

    def append(self, values: npt.NDArray[Any]) -> None:
        """Append an array. All arrays must have the same type, and the same shape except for the first axis."""
        self._like = values[:0]
        self._bytes += values.astype(self._stored_type or values.dtype).tobytes()
        self._ends.append(len(self._bytes))

    def __getitem__(self, number: int) -> npt.NDArray[Any]:
        data = self._bytes[self._ends[number] : self._ends[number + 1]]
        values = np.frombuffer(data, self._stored_type or self._like.dtype).reshape(-1, *self._like.shape[1:])
        return values.astype(self._like.dtype, copy=False)


class PackedItems(Sequence[TaskItem]):
    """A sequence of items stored in flat buffers. Each access builds a new `TaskItem`.

    `lengths` holds the number of tokens of each item.
    """

    def __init__(self, items: Iterable[TaskItem]) -> None:
        self._ids, self._segments, self._points = ArrayColumn(np.int32), ArrayColumn(np.uint8), ArrayColumn(np.int32)
        self._targets = defaultdict[str, ArrayColumn](ArrayColumn)
        self._begins, self._examples, self.lengths = array("q", [0]), array("q"), array("q")
        self._origins = list[Any]()
        for item in items:
            self._append(item)

    def _append(self, item: TaskItem) -> None:
        for sequence in item.sequences:
            self._ids.append(sequence.ids)
            self._segments.append(sequence.segment_ids)
        self._points.append(item.points)
        for name, values in item.targets.items():
            self._targets[name].append(values)
        self._begins.append(self._begins[-1] + len(item.sequences))
        self._examples.append(item.example)
        self._origins.append(item.origin)
        self.lengths.append(item.num_tokens)

    def __len__(self) -> int:
        return len(self._examples)

    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            return [self[number] for number in range(len(self))[place]]
        number = range(len(self))[place]  # raises IndexError, and counts from the end
        sequences = range(self._begins[number], self._begins[number + 1])
        return TaskItem(
            sequences=tuple(Tokens(self._ids[each], self._segments[each]) for each in sequences),
            example=self._examples[number],
            points=self._points[number],
            targets={name: column[number] for name, column in self._targets.items()},
            origin=self._origins[number],
        )


def group_by_size(things: Iterable[Thing], size: Callable[[Thing], int], enough: int) -> Iterator[list[Thing]]:
    """Yield lists of consecutive items. Each list ends as soon as its total size is at least `enough`.

    The last list may be smaller. `size` is called with an item and returns its size.

    >>> [*group_by_size(["a", "bcd", "e", "f"], len, 3)]
    [['a', 'bcd'], ['e', 'f']]
    """
    some, total = list[Thing](), 0
    for thing in things:
        some.append(thing)
        total += size(thing)
        if total >= enough:
            yield some
            some, total = [], 0
    if some:
        yield some


def batch_by_length(items: Items, tokens: int) -> Iterator[list[int]]:
    """Yield batches of item indices, the shortest items first, with at most `tokens` tokens including padding.

    An item that exceeds `tokens` by itself gets its own batch.
    """
    some, size = list[int](), 0
    longest = [max(len(sequence.ids) for sequence in item.sequences) for item in items]
    for number in sorted(range(len(items)), key=lambda number: longest[number]):
        size += len(items[number].sequences)
        if some and size * longest[number] > tokens:
            yield some
            some, size = [], len(items[number].sequences)
        some.append(number)
    if some:
        yield some


# The examples of a file.


@dataclass(frozen=True, slots=True, kw_only=True)
class FileExamples:
    """The examples of one file, as parallel sequences.

    path:     path of the file
    examples: the examples
    lines:    the line number at which each example starts, counted from 1
    ids:      the id of each example, or None if it has none
    counts:   the numbers of usable and unusable records
    labelled: True if the examples have labels
    unknown:  the number of examples with a label that the task does not know, by reason; predictions for them are wrong
    kept:     the values of the `keep:` columns of each example, by column name; () if there are no such columns
    """

    path: str
    examples: Sequence[Example]
    lines: Sequence[int]
    ids: Sequence[Any]
    counts: RowCounts
    labelled: bool
    unknown: RowCounts = field(default_factory=RowCounts)
    kept: Sequence[Values] = ()

    def __len__(self) -> int:
        return len(self.examples)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedExamples:
    """Examples with the items that a model reads. `ledger` accounts for the records and tokens of the file."""

    examples: Sequence[Example]
    items: PackedItems
    ledger: Ledger
    labelled: bool


def read_file(task: Task, file: FileSettings, labelled: bool = True, learning: bool = False) -> FileExamples:
    """Read a labeled file, and build an example from each of its records.

    Args:
        task: The task.
        file: The file and how to read it.
        labelled: True if the examples must have labels.
        learning: True for a training file. Examples with a label that the task does not know are then unusable.

    Raises:
        InputError: If the file cannot be read, has too many unusable records, or has no label that the task knows, or
            if the settings name a column for a role that the task does not have.
    """
    counts = RowCounts()

    def make(values: Values) -> tuple[Values, Example]:
        example = task.make_example(values, labelled)
        if learning and (reason := task.find_unknown_label(example)):
            raise reason
        return values, example

    check_columns(file, (*task.roles, ID), f"the task {task.kind!r}")
    needed, optional = split_roles(task, labelled)
    lines, ids, kept, examples = array("q"), list[Any](), list[Values](), list[Example]()
    for line, (values, example) in read_examples(with_format(task, file), counts, needed, make, [*optional, ID]):
        lines.append(line)
        ids.append(values.get(ID))
        examples.append(example)
        if file.kept_roles:
            kept.append(select_kept_values(values))
    read = FileExamples(
        path=file.path, examples=examples, lines=lines, ids=ids, counts=counts, labelled=labelled, kept=kept
    )
    return with_unknown_counts(task, read) if labelled else read


def with_unknown_counts(task: Task, file: FileExamples) -> FileExamples:
    """Return a copy of labeled examples with counts, in `unknown`, of the labels that the task does not know.

    Raises:
        InputError: If the task knows none of the labels.
    """
    unknown = RowCounts()
    for line, example in zip(file.lines, file.examples, strict=True):
        if reason := task.find_unknown_label(example):
            unknown.drop(str(reason), line, reason.where)
    if file.examples and sum(unknown.unusable.values()) == len(file):
        raise InputError(
            f"{file.path}: no answer to its {len(file):,} {file.counts.unit} is one that the model knows: "
            f"{unknown.reasons}. Is it the column of the answers, and a file of the same task?"
        )
    return replace(file, unknown=unknown)


def select_kept_values(values: Values) -> Values:
    """Select the values of a record that are copied to the output (the `keep:` columns), by column name."""
    return {role.removeprefix(KEEP_PREFIX): value for role, value in values.items() if role.startswith(KEEP_PREFIX)}


def fit_task(task: Task, file: FileExamples) -> Task:
    """Return a copy of a task that is fitted to training examples, for example with the names of the classes.

    Raises:
        InputError: If nothing can be learned from the examples. If one example is the cause, its line is named.
    """
    try:
        return task.fit(file.examples, file.path)
    except Misfit as misfit:
        raise InputError(f"{file.path}, line {file.lines[misfit.example]}: {misfit}") from misfit


def split_roles(task: Task, labelled: bool) -> tuple[list[str], list[str]]:
    """Split the roles of a task (meanings of values, such as `text`) into required roles and optional ones.

    Args:
        task: The task.
        labelled: False to omit the roles of labels.

    Returns:
        The roles that every record must have, and the roles that are read if present.
    """
    read = [role for role in task.roles if labelled or role not in task.label_roles]
    return [role for role in read if role not in task.optional_roles], [
        role for role in read if role in task.optional_roles
    ]


def with_defaults_from(file: FileSettings, other: Mapping[str, Any]) -> FileSettings:
    """Return the settings of a file, completed with the settings of another file that has the same extension.

    Settings that name a format are returned unchanged.

    Args:
        file: The settings to fill in. The values that it sets take precedence.
        other: The description of the other file, such as the training file, as returned by `describe_file`; {} if there
            is none.
    """
    if file.format or not other or find_unpacked_ending(file.path) != find_unpacked_ending(other["path"]):
        return file
    taken = {column for role, column in file.columns.items() if not role.startswith(KEEP_PREFIX)}
    named = {
        role: column
        for role, column in other["columns"].items()
        if column not in taken and not role.startswith(KEEP_PREFIX)
    }
    header = file.header and other["header"]
    return replace(file, format=other["format"], header=header, columns={**named, **file.columns})


def with_format(task: Task, file: FileSettings) -> FileSettings:
    """Return the settings of a file with the format of the task, unless the file has a format already.

    It has one if its settings or its file extension determine it.
    """
    has_own = file.format or find_unpacked_ending(file.path) in ENDINGS
    return replace(file, format=task.format) if task.format and not has_own else file


def encode(task: Task, file: FileExamples, encoder: TextEncoder) -> EncodedExamples:
    """Encode the examples of a file as items (model inputs), and account for all records and tokens in a ledger.

    Args:
        task: The task, fitted to training examples.
        file: The examples.
        encoder: Turns texts into tokens.

    Raises:
        InputError: If there are no items.
    """
    cut, lost = encoder.num_cut, encoder.tokens_cut
    items = encode_items(task, file.examples, encoder, file.labelled)
    if not items:
        raise InputError(f"{file.path} has no example that the task {task.kind!r} can use: give another file.")
    figures = {
        "tokens": sum(items.lengths),
        "texts_cut": encoder.num_cut - cut,
        "tokens_cut": encoder.tokens_cut - lost,
    }
    if file.unknown.unusable:
        figures["unknown"] = sum(file.unknown.unusable.values())
    ledger = Ledger(accounts=(file.counts.account,), figures=figures).check()
    return EncodedExamples(examples=file.examples, items=items, ledger=ledger, labelled=file.labelled)


def encode_items(task: Task, examples: Sequence[Example], encoder: TextEncoder, labelled: bool) -> PackedItems:
    """Encode examples as items (model inputs), about EXAMPLES_PER_CALL examples at a time.

    `TaskItem.example` of each item is an index into `examples`. If `labelled` is True, items have targets.
    """
    return PackedItems(
        replace(item, example=groups[0].start + item.example)
        for groups in group_by_size(task.iter_groups(examples), len, EXAMPLES_PER_CALL)
        for item in task.make_items(examples[groups[0].start : groups[-1].stop], encoder, labelled)
    )


def compute_sha256(path: str) -> str:
    """Compute the SHA-256 of a file, in hexadecimal. For a folder, hash the names and digests of all files below it."""
    if Path(path).is_dir():
        files = sorted(file for file in Path(path).rglob("*") if file.is_file())
        names = [f"{compute_sha256(str(file))}  {file.relative_to(path)}\n" for file in files]
        return hashlib.sha256("".join(names).encode(errors="surrogateescape")).hexdigest()
    with parse_raw_path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_files(paths: Iterable[Path]) -> str:
    """Compute one SHA-256 for a list of files: that of a single file, or otherwise that of all digests."""
    digests = [compute_sha256(str(path)) for path in paths]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def digest_if_exists(path: str) -> str | None:
    """Compute the SHA-256 of a file or folder, or return None for anything else.

    A pipe is not read, since reading would consume it.
    """
    return compute_sha256(path) if parse_raw_path(path).is_file() or Path(path).is_dir() else None


def describe_file(file: FileSettings) -> dict[str, Any]:
    """Describe a labeled file for the record of a run.

    Returns:
        A dictionary with the file name without folder (`path`), `format`, `header`, `columns` and `sha256`, which is
        None if the file is a pipe.
    """
    return {
        "path": Path(file.path).name,
        "format": file.format,
        "header": file.header,
        "columns": dict(file.columns),
        "sha256": digest_if_exists(file.path),
    }
