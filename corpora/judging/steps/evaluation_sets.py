"""Evaluation sets: the files in which they are handed on, read as numbered texts.

Promises: every text of a file, or of the fields that are named, is read, in order and in NFC; of SQuAD's form that is
every context and question, or the fields of these that are named. What cannot be read is refused with one paragraph.
Lists and objects inside a record are searched to the bottom. Cost: that of the format's reader; a `.json` is held in
memory whole, of Parquet 4,096 rows, of the others a record at a time.
"""

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from corpora.errors import InputError
from corpora.sources.files.parquet import all_batches, open_parquet
from corpora.text.normal_form import nfc

ENDINGS = (".txt", ".jsonl", ".ndjson", ".json", ".tsv", ".csv", ".parquet")
_BATCH_ROWS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSet:
    """One file of evaluation items.

    path:   .txt (a line an item), .jsonl, .json (SQuAD's form, or a list of objects), .tsv, .csv or .parquet
    name:   how the set is called in what is reported; the file's name if left empty
    fields: the fields or columns that are looked for; all that hold text if left empty. A table without a
            heading names its columns by number: "1" is the first.
    """

    path: str
    name: str = ""
    fields: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.path.lower().endswith(ENDINGS):
            raise InputError(
                f"contamination.sets: {self.path!r} has none of the endings {', '.join(ENDINGS)}, by which its form "
                f"is known: rename or convert it."
            )
        if self.fields and self.path.lower().endswith(".txt"):
            raise InputError(f"contamination.sets: {self.path!r} is plain text, where no field has a name: drop them.")

    @property
    def title(self) -> str:
        """Its name in what is reported."""
        return self.name or Path(self.path).name


class Item(NamedTuple):
    """One text of an evaluation set. number: of its line, row or record, from 1; a record may have several."""

    set: str
    number: int
    text: str


def read_items(group: EvaluationSet) -> Iterator[Item]:
    """The texts of a set in order, in NFC. Raises InputError where it cannot be read or lacks a field."""
    path = Path(group.path).expanduser()
    try:
        for number, text in _READERS[path.suffix.lower()](path, group.fields):
            text.encode()  # half a character, which JSON can escape, is refused here
            yield Item(group.title, number, nfc(text))
    except InputError:
        raise
    except FileNotFoundError as error:
        raise InputError(
            f"contamination.sets: there is no {group.path}. Paths are relative to the recipe's folder."
        ) from error
    except (OSError, ValueError, RecursionError, csv.Error, pa.ArrowException) as error:
        raise InputError(
            f"contamination.sets: {group.path} cannot be read as {path.suffix.lower()} in UTF-8: {error}. "
            f"Get it again, or convert it."
        ) from error


_Numbered = Iterator[tuple[int, str]]


def _text_lines(path: Path, fields: Sequence[str]) -> _Numbered:
    """Every line that is not blank."""
    with path.open(encoding="utf-8-sig") as stream:
        yield from ((number, line) for number, line in enumerate(stream, 1) if line.strip())


def _json_lines(path: Path, fields: Sequence[str]) -> _Numbered:
    """The strings of the object on every line."""
    with path.open(encoding="utf-8-sig") as stream:
        for number, line in enumerate(stream, 1):
            if line.strip():
                yield from ((number, text) for text in _strings(json.loads(line), fields, path, number))


def _json_file(path: Path, fields: Sequence[str]) -> _Numbered:
    """SQuAD's contexts and questions, each a record of its own; or the strings of every object of a list."""
    data = json.loads(path.read_text(encoding="utf-8-sig"))
    records = data.get("data") if isinstance(data, dict) else data
    if not isinstance(records, list):
        raise InputError(f"contamination.sets: {path} holds no list of records. Convert it to .jsonl.")
    questions = [question for article in records if _is_article(article) for question in _squad_records(article)]
    if not questions:
        for number, record in enumerate(records, 1):
            yield from ((number, text) for text in _strings(record, fields, path, number))
    for number, question in enumerate(questions, 1):
        wanted = [name for name in fields or ("context", "question") if name in question]
        yield from ((number, text) for name in wanted for text in _strings(question[name], (), path, number))


def _is_article(record: Any) -> bool:
    """Return True if a record is an article of SQuAD."""
    return isinstance(record, dict) and isinstance(record.get("paragraphs"), list)


def _squad_records(article: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every context of an article, each followed by its questions."""
    for paragraph in article["paragraphs"]:
        if not isinstance(paragraph, dict) or not isinstance(paragraph.get("qas", []), list):
            raise ValueError("a paragraph is no object with a list of questions")
        yield {"context": paragraph.get("context", "")}
        yield from (question for question in paragraph.get("qas", []) if isinstance(question, dict))


def _strings(value: Any, fields: Sequence[str], path: Path, number: int) -> Iterator[str]:
    """The strings of the named fields of a record, or all that it holds, lists and objects in it included."""
    if fields:
        missing = [name for name in fields if not isinstance(value, dict) or name not in value]
        if missing:
            names = ", ".join(value) if isinstance(value, dict) else "none, for it is no object"
            raise InputError(f"contamination.sets: record {number} of {path} has no {missing[0]!r}; it has: {names}.")
        value = [value[name] for name in fields]
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _strings(part, (), path, number)


def _table(path: Path, fields: Sequence[str]) -> _Numbered:
    """The named columns of every row. Quotes have no meaning in .tsv, as in GLUE's files."""
    with path.open(encoding="utf-8-sig", newline="") as stream:
        tabs = path.suffix.lower() == ".tsv"
        rows = (line.rstrip("\r\n").split("\t") for line in stream) if tabs else csv.reader(stream, strict=True)
        places: list[int] | None = None
        for number, row in enumerate(rows, 1):
            heading = places is None and any(name in row for name in fields)
            if places is None:
                places = _columns(row, fields, path)
            if row and places and max(places) >= len(row):
                raise InputError(f"contamination.sets: row {number} of {path} has {len(row)} columns only. Fix it.")
            if row and not heading:
                yield from ((number, row[place]) for place in places or range(len(row)))


def _columns(heading: list[str], fields: Sequence[str], path: Path) -> list[int]:
    """Return the places of the named columns."""
    for name in fields:
        if name not in heading and not (name.isdecimal() and 0 < int(name) <= len(heading)):
            raise InputError(
                f"contamination.sets: {path} has no column {name!r}; its first line has: {', '.join(heading)}. "
                f"Name one of these, or a column by number, such as '1'."
            )
    return [heading.index(name) if name in heading else int(name) - 1 for name in fields]


def _parquet(path: Path, fields: Sequence[str]) -> _Numbered:
    """The named columns of every row, lists and structures in them included."""
    with path.open("rb"), open_parquet(path) as table:
        batches = all_batches(table, path, _BATCH_ROWS)
        for number, record in enumerate((record for batch in batches for record in batch.to_pylist()), 1):
            yield from ((number, text) for text in _strings(record, fields, path, number))


_READERS = {
    ".txt": _text_lines,
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json_file,
    ".tsv": _table,
    ".csv": _table,
    ".parquet": _parquet,
}
