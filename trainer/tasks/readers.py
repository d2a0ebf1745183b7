"""Labelled texts from `.tsv`, `.csv` and `.jsonl` files, row by row.

Promise: every row that is not blank is given or counted under the reason for which it cannot be used; the two add up
to the rows of the file. A file whose unusable rows are more than the settings allow, or that lacks the columns, is
refused with the line to look at. Memory: one row.
Cost: `.tsv` 390,000, `.csv` 350,000 and `.jsonl` 180,000 rows of 100 characters a second (one x86-64 core).

A `.tsv` is cut at every tab and line feed and knows no quotes, as the files of GLUE do; a `.csv` is read by RFC 4180,
so a quoted text may hold commas and line feeds.
"""

import csv
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from io import TextIOWrapper
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from corpora.errors import InputError
from trainer.tasks.formats.records import RowCounts, Unusable
from trainer.tasks.settings import TableSettings


class LabelledText(NamedTuple):
    """One labelled text. line: where its row ends in the file, from 1."""

    line: int
    text: str
    label: str


class Cells(NamedTuple):
    """The text and the label as the file has them; None where there is none."""

    text: Any
    label: Any


def read_rows(
    table: TableSettings, counts: RowCounts, labels: Collection[str] = (), *, numbers: bool = False
) -> Iterator[LabelledText]:
    """The labelled texts of a file in its order.

    labels:  those that are known; a row with another cannot be used. None given: every label is known
    numbers: whether a label must be a number
    Raises InputError where the file cannot be read, and at its end where too many rows could not be used.
    """
    ending = Path(table.path).suffix.lower()
    if ending not in FORMATS:
        raise InputError(f"{table.path} is none of {', '.join(FORMATS)}: rename or convert it.")
    with _opened(table.path) as stream:
        records = FORMATS[ending](stream, table.path)
        cells = partial(_json_cells, table) if ending == ".jsonl" else partial(_cells, _columns(records, table))
        for line, record in records:
            counts.rows += 1
            try:
                row = LabelledText(line, *_usable(cells(record), labels, numbers))
            except Unusable as error:
                counts.drop(str(error), line)
                continue
            counts.given += 1
            yield row
    _check_share(table, counts)


def _opened(path: str) -> TextIOWrapper:
    """A file as text; bytes that are no UTF-8 become surrogates, by which their row is known."""
    try:
        return Path(path).open(encoding="utf-8-sig", errors="surrogateescape", newline="\n")
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}. Check the path and its permissions.") from error


# The three formats: (line, record) of every row that is not blank, and the cells of a record.

Records = Iterator[tuple[int, Any]]


def _tab_lines(stream: TextIOWrapper, path: str) -> Records:
    return ((number, line.rstrip("\r\n").split("\t")) for number, line in _lines(stream, path))


def _comma_lines(stream: TextIOWrapper, path: str) -> Records:
    reader = csv.reader(stream, strict=True)
    try:
        yield from ((reader.line_num, values) for values in reader if values)
    except csv.Error as error:
        raise InputError(
            f"{path}, line {reader.line_num}, is not CSV ({error}): double the quotes inside a quoted value and close "
            "it, or save the file as .tsv, which has no quotes."
        ) from error


def _lines(stream: TextIOWrapper, _: str) -> Records:
    return ((number, line) for number, line in enumerate(stream, 1) if line.strip(" \r\n"))


FORMATS: Mapping[str, Callable[[TextIOWrapper, str], Records]] = MappingProxyType(
    {".tsv": _tab_lines, ".csv": _comma_lines, ".jsonl": _lines}
)


def _json_cells(table: TableSettings, line: str) -> Cells:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Unusable("not JSON") from error
    if not isinstance(value, dict):
        raise Unusable("not a JSON object")
    return Cells(value.get(table.text), value.get(table.label))


def _cells(columns: tuple[int, int], values: list[str]) -> Cells:
    return Cells(*(values[column] if column < len(values) else None for column in columns))


def _columns(records: Records, table: TableSettings) -> tuple[int, int]:
    """The places of text and label; takes the header from the records where there is one."""
    header: list[str] | None = next(records, (0, []))[1] if table.header else None
    return _column(table.text, header, table), _column(table.label, header, table)


def _column(name: str, header: list[str] | None, table: TableSettings) -> int:
    """The place of a column from 0. Raises InputError where the file does not have it."""
    if header is not None and name in header:
        return header.index(name)
    if name.isdecimal() and int(name) and (header is None or int(name) <= len(header)):
        return int(name) - 1
    if header is None:
        raise InputError(f"{table.path} is read without a header: give the number of a column, not {name!r}.")
    found = ", ".join(map(repr, header)) or "empty"
    raise InputError(
        f"{table.path}, line 1, has no column {name!r}: its header is {found}. Name one of these or its number; if the "
        "file has no header, say so."
    )


# What makes a row usable.


def _usable(cells: Cells, labels: Collection[str], numbers: bool) -> tuple[str, str]:
    """Text and label. Raises Unusable."""
    if cells.text is None or cells.label is None:
        raise Unusable("no text" if cells.text is None else "no label")
    if not isinstance(cells.text, str):
        raise Unusable("text is no text")
    label = _label(cells.label)
    if not _is_unicode(cells.text) or not _is_unicode(label):
        raise Unusable("not UTF-8")
    if not cells.text.strip() or not label:
        raise Unusable("empty label" if cells.text.strip() else "empty text")
    if labels and label not in labels:
        raise Unusable("unknown label")
    if numbers and as_number(label) is None:
        raise Unusable("label is no number")
    return cells.text, label


def _label(value: Any) -> str:
    """A label as its name; a number, true and false as JSON writes them."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int) or (isinstance(value, float) and isfinite(value)):
        return json.dumps(value)
    raise Unusable("label is neither text nor number")


def as_number(label: str) -> float | None:
    """The number that a label is, if it is one.

    >>> [as_number(label) for label in ("3.80", "-1", "1e3", "good", "nan", "1_000")]
    [3.8, -1.0, 1000.0, None, None, None]
    """
    try:
        number = float(label)
    except ValueError:
        return None
    return number if isfinite(number) and "_" not in label else None


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def _check_share(table: TableSettings, counts: RowCounts) -> None:
    """Raise InputError where nothing is left, or too much was lost."""
    counts.account.check()
    lost = counts.rows - counts.given
    if counts.given and lost <= table.max_unusable * counts.rows:
        return
    if not counts.rows:
        raise InputError(f"{table.path} has no rows: give a file with a labelled text in every row.")
    reasons = ", ".join(
        f"{number} {reason} (first in line {counts.first[reason]})" for reason, number in _sorted(counts)
    )
    raise InputError(
        f"{table.path}: {lost} of {counts.rows} rows cannot be used: {reasons}. That is more than "
        f"max_unusable = {table.max_unusable}: mend the rows, name other columns than text = {table.text!r} and "
        f"label = {table.label!r}, or allow more."
    )


def _sorted(counts: RowCounts) -> list[tuple[str, int]]:
    return sorted(counts.unusable.items(), key=lambda item: (-item[1], item[0]))
