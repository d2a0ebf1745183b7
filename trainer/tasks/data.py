"""Files of labelled data as examples of a task, and examples as items that a model reads. No torch.

The items of many examples are numbers in a few long buffers, not an object for each (`PackedItems`). `batch_by_length`
and `group_by_size` choose what is read at once.

Promise: what became of every record is in the ledger of its file, and how many tokens of long texts were cut off;
`items[n]` has the contents and the types of the n-th item that was packed. Memory: a row of 22 tokens takes 590 bytes
besides its text, a third of it for what the model reads: a token takes five bytes, a point four, a target what its
numbers take, and an item some 80 bytes besides. Cost: 16,000 rows of 22 tokens are read and encoded in a second (one
x86-64 core, 2026-11-23); 7 microseconds for an item that is packed, 13 for one that is read (2026-11-26).
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
    """Arrays of one type, stored end to end along their first axis.

    stored_type: a smaller type in which they are held; arrays are returned in their own type
    """

    def __init__(self, stored_type: npt.DTypeLike | None = None) -> None:
        self._stored_type, self._bytes, self._ends = stored_type, bytearray(), array("q", [0])

    def append(self, values: npt.NDArray[Any]) -> None:
        """Append an array. All arrays must have the same type and the same shape but for the first axis."""
        self._like = values[:0]
        self._bytes += values.astype(self._stored_type or values.dtype).tobytes()
        self._ends.append(len(self._bytes))

    def __getitem__(self, number: int) -> npt.NDArray[Any]:
        data = self._bytes[self._ends[number] : self._ends[number + 1]]
        values = np.frombuffer(data, self._stored_type or self._like.dtype).reshape(-1, *self._like.shape[1:])
        return values.astype(self._like.dtype, copy=False)


class PackedItems(Sequence[TaskItem]):
    """A sequence of items held in flat buffers; each access builds a new `TaskItem`. `lengths` has the tokens of each
    item.
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
    """Yield lists of consecutive items, each as short as it can be with a total size of at least `enough`.

    The last list may be smaller.

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
    """Yield lists of item indices, shortest items first, with at most `tokens` tokens if sequences are padded to the
    longest.

    An item that is longer by itself gets a list of its own.
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

    path:     the file
    examples: the examples
    lines:    the line where each begins, from 1
    ids:      the id of each, None if the file gives none
    counts:   usable and unusable records
    labelled: True if the examples have labels
    unknown:  counts of examples with a label that the task does not know, by reason; every prediction for them is wrong
    kept:     for each example the values of the columns that are kept, by name; () if none are
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
    """Read a labelled file, and make an example of each of its records.

    Args:
        task: The task.
        file: The file and how to read it.
        labelled: True if the examples must have labels.
        learning: True for a training file: examples with a label that the task does not know are then unusable.

    Raises:
        InputError: If the file cannot be read, has too many unusable records, or no label that the task knows, or if
            the settings name a column for a role that the task does not have.
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
    """Return labelled examples, with counts of labels that the task does not know.

    Raises:
        InputError: If the task knows the label of none.
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
    """Return the values of columns that are copied to the output (`keep:` columns), by column name."""
    return {role.removeprefix(KEEP_PREFIX): value for role, value in values.items() if role.startswith(KEEP_PREFIX)}


def fit_task(task: Task, file: FileExamples) -> Task:
    """Fit a task to the examples of a file, for example to the names of their classes, and return it.

    Raises:
        InputError: If nothing can be learnt from them; with the line, if one example is to blame.
    """
    try:
        return task.fit(file.examples, file.path)
    except Misfit as misfit:
        raise InputError(f"{file.path}, line {file.lines[misfit.example]}: {misfit}") from misfit


def split_roles(task: Task, labelled: bool) -> tuple[list[str], list[str]]:
    """Return the roles (meanings of values, such as `text`) that a record must have, and those read if present.

    Args:
        task: The task.
        labelled: False to leave out the roles of labels.
    """
    read = [role for role in task.roles if labelled or role not in task.label_roles]
    return [role for role in read if role not in task.optional_roles], [
        role for role in read if role in task.optional_roles
    ]


def with_defaults_from(file: FileSettings, other: Mapping[str, Any]) -> FileSettings:
    """Return the settings of a file, completed by those of another file with the same ending.

    So a file is read as the training file was. Settings that name a format are returned unchanged.

    Args:
        file: The settings to complete. What they name has precedence.
        other: The other file, as `describe_file` describes it; {} if there is none.
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
    """Return the settings of a file with the format of the task, if neither they nor the file's ending name one."""
    has_own = file.format or find_unpacked_ending(file.path) in ENDINGS
    return replace(file, format=task.format) if task.format and not has_own else file


def encode(task: Task, file: FileExamples, encoder: TextEncoder) -> EncodedExamples:
    """Encode the examples of a file as items (what a model reads at once), and account for all records and tokens.

    Raises:
        InputError: If no example gives an item.
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
    """Encode examples as items (what a model reads at once), about EXAMPLES_PER_CALL examples at a time.

    `TaskItem.example` of an item is the index of its example among all examples.
    """
    return PackedItems(
        replace(item, example=groups[0].start + item.example)
        for groups in group_by_size(task.iter_groups(examples), len, EXAMPLES_PER_CALL)
        for item in task.make_items(examples[groups[0].start : groups[-1].stop], encoder, labelled)
    )


def compute_sha256(path: str) -> str:
    """Compute the SHA-256 of a file; of a folder (RACE) that of the names and digests of all files below it."""
    if Path(path).is_dir():
        files = sorted(file for file in Path(path).rglob("*") if file.is_file())
        names = [f"{compute_sha256(str(file))}  {file.relative_to(path)}\n" for file in files]
        return hashlib.sha256("".join(names).encode(errors="surrogateescape")).hexdigest()
    with parse_raw_path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_files(paths: Iterable[Path]) -> str:
    """Return the SHA-256 of one file, or of the digests of several."""
    digests = [compute_sha256(str(path)) for path in paths]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def digest_if_exists(path: str) -> str | None:
    """Return the SHA-256 of a file or folder, and None for anything else: reading a pipe would empty it."""
    return compute_sha256(path) if parse_raw_path(path).is_file() or Path(path).is_dir() else None


def describe_file(file: FileSettings) -> dict[str, Any]:
    """Describe a file for a record: its settings, its name without folder, and its digest."""
    return {
        "path": Path(file.path).name,
        "format": file.format,
        "header": file.header,
        "columns": dict(file.columns),
        "sha256": digest_if_exists(file.path),
    }
