"""Looks: which task a file of labelled data seems to be for, and which of its columns is what.

A guess from the format, the names of columns and the first thousand rows, for a person to confirm. Cost: those rows.
"""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from corpora.errors import InputError
from corpora.sources.files.parquet import columns_of
from trainer.tasks.checking.files import text_of
from trainer.tasks.formats.reading import ENDINGS, FORMATS, begins_object
from trainer.tasks.formats.records import (
    FileSettings,
    Unusable,
    Values,
    Wanted,
    as_number,
    numbered_lines,
    opened,
    place_of,
    unpacked_ending,
)
from trainer.tasks.formats.tables import json_items

LOOKED_AT = 1_000  # rows
LONG = 40  # characters of a cell that is no name of a column
MOST_CLASSES = 50
MOST_NUMBERED_CLASSES = 20
OF_FORMATS = {"conll": "tags", "conllu": "tags", "iob1": "tags", "squad": "span", "copa": "choice", "race": "choice",
              "swag": "choice", "pubtator": "tags", "ncbi": "tags"}  # fmt: skip
NAMED: Mapping[str, Mapping[str, Sequence[str]]] = {
    "tags": {"words": ("words", "tokens"), "tags": ("tags", "ner_tags", "pos_tags")},
    "span": {"question": ("question",), "context": ("context",), "answers": ("answers",)},
    "retrieval": {"query": ("query", "anchor"), "positive": ("positive",)},
    "choice": {"context": ("context", "premise", "sent1"), "choices": ("choices",), "label": ("label",)},
}
LABELS = ("label", "labels", "class", "category", "target", "sentiment", "gold", "gold_label", "score", "rating", "y")
IDS = ("id", "index", "idx", "guid", "pairid", "_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLook:
    """What a file looks like. kind: of task; file: how it is read"""

    kind: str
    file: FileSettings

    @property
    def flags(self) -> str:
        """The options with which commands read it so."""
        columns = [f"--column {role}={column}" for role, column in self.file.columns.items() if role != column]
        return " ".join([f"--task {self.kind}", *columns, *([] if self.file.header else ["--no-header"])])


def look_at(file: FileSettings) -> FileLook:
    """Return what a file looks like. Raises InputError where it looks like no task."""
    ending = ENDINGS.get(unpacked_ending(file.path), "")
    chosen = file.format or ending
    if chosen == "json" and begins_object(file.path):
        chosen = "squad"
    if chosen in OF_FORMATS:
        return FileLook(kind=OF_FORMATS[chosen], file=replace(file, format=chosen))
    if chosen not in ("tsv", "csv", "json", "jsonl", "parquet"):
        raise InputError(f"{file.path} does not show which task it is for: name it (`--task classes`).")
    file, names = _with_header(replace(file, format=chosen))
    by_name = {name.casefold(): name for name in names}
    for kind, roles in NAMED.items():
        columns = {
            role: next((by_name[each] for each in spelled if each in by_name), "") for role, spelled in roles.items()
        }
        if all(columns.values()):
            return FileLook(kind=kind, file=replace(file, columns=columns))
    return _table_look(file, names)


def _with_header(file: FileSettings) -> tuple[FileSettings, list[str]]:
    """Return the file with `header` as its first row looks, and the names of its columns."""
    if file.format == "parquet":
        return file, [*columns_of(place_of(file.path))]
    if file.format == "json":
        with opened(file.path) as stream:
            first: Any = next((value for _, value in json_items(stream, file.path)), {})
        return file, [*first] if isinstance(first, dict) else []
    if file.format == "jsonl":
        line = next((line for _, line in numbered_lines(file.path) if line.strip()), "{}")
        value = json.loads(line)
        return file, [*value] if isinstance(value, dict) else []
    line = next((line for _, line in numbered_lines(file.path) if line.strip()), "")
    cells = next(csv.reader([line]), []) if file.format == "csv" else line.rstrip("\r\n").split("\t")
    named = len({*cells}) == len(cells) and all(
        0 < len(cell) <= LONG and as_number(cell) is None and len(cell.split()) < 4 for cell in cells
    )
    if named and file.header:
        return file, cells
    return replace(file, header=False), [str(number) for number in range(1, len(cells) + 1)]


def _table_look(file: FileSettings, names: Sequence[str]) -> FileLook:
    """Return a look by what columns hold: the longest texts, and few values or numbers for labels."""
    rows = list(islice(_rows(file, names), LOOKED_AT))
    columns = {name: [text_of(row.get(name)) for row in rows] for name in names}
    labels = [name for name in names if name.casefold() in LABELS] or _label_like(columns)
    texts = [name for name in names if name not in labels[:1] and _is_text(columns[name])]
    if not texts:
        raise InputError(f"{file.path} has no column that looks like text: name it (`--task KIND --column text=...`).")
    ordered = sorted(texts, key=lambda name: -sum(map(len, columns[name])))[:2]
    one, *others = [name for name in names if name in ordered]
    chosen = {"text": one} | ({"second": others[0]} if others and labels else {})
    if not labels:
        return FileLook(kind="next", file=replace(file, columns=chosen))
    kind = "number" if _are_numbers(columns[labels[0]]) else "classes"
    return FileLook(kind=kind, file=replace(file, columns={**chosen, "label": labels[0]}))


def _rows(file: FileSettings, names: Sequence[str]) -> Iterator[Values]:
    own = replace(file, columns={name: name for name in names})
    for _, row in FORMATS[file.format].records(own, Wanted((), tuple(names))):
        if not isinstance(row, Unusable):
            yield row


def _label_like(columns: Mapping[str, Sequence[str]]) -> list[str]:
    """Return columns that may hold labels, those of fewest values first; numbers with fractions after them."""
    full = {name: cells for name, cells in columns.items() if cells and all(cell.strip() for cell in cells)}
    few = {name: len({*cells}) for name, cells in full.items() if name.casefold() not in IDS}
    classes = [name for name, number in few.items() if 1 < number <= min(MOST_CLASSES, len(full[name]) / 2)]
    numbers = [name for name, cells in full.items() if name.casefold() not in IDS and _are_numbers(cells)]
    ordered = sorted((name for name in classes if name not in numbers), key=lambda name: few[name])
    texts = [name for name in ordered if _is_text(columns[name])]
    return [*(name for name in ordered if name not in texts), *numbers, *texts]


def _are_numbers(cells: Sequence[str]) -> bool:
    """Tells whether cells are numbers that are no classes: some have fractions, or they are many."""
    numbers = [as_number(cell) for cell in cells]
    if None in numbers:
        return False
    return any(number != int(number or 0) for number in numbers if number is not None) or (
        len({*numbers}) > MOST_NUMBERED_CLASSES
    )


def _is_text(cells: Sequence[str]) -> bool:
    return sum(" " in cell.strip() or not cell.isascii() for cell in cells) > len(cells) / 2
