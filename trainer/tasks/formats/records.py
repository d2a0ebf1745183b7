"""A file of labeled data: its settings, its lines, the counts of its records, and the conversion of their values.

Promise: every record is either yielded or counted under the reason why it is unusable, with the first line for each
reason. A file with more unusable records than the settings allow is refused. Files are decompressed according to their
extension. Bytes that are not UTF-8 become surrogates, which make the record unusable. A file in another encoding, a
damaged file, or an extremely long line is refused with a remedy. Memory: one line, and the index and names of each
unusable record.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import TextIOWrapper
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple, cast

from corpora.errors import InputError
from corpora.sources.bytes.endings import PACKED_ENDINGS, ZIP_ENDING
from corpora.sources.bytes.faults import explain_damage
from corpora.sources.bytes.objects import parse_raw_path
from corpora.sources.bytes.raw_files import open_raw
from corpora.sources.bytes.text_encodings import HEAD_BYTES, find_marked_encoding, guess_wide_encoding
from corpora.sources.bytes.zip_members import INNER, BadArchive, build_member_path, list_members
from corpora.store.ledger import Account
from corpora.store.settings import check_range, limit_field

MAX_LINE_CHARACTERS = 1 << 26  # of a line
NOT_UTF_8 = "not UTF-8"
ID = "id"  # a role that any file may have: what it calls a record
KEEP_PREFIX = "keep:"  # before the name of a column that no task reads: its values are written next to the answers

Values = Mapping[str, Any]  # by role


class Unusable(ValueError):
    """A record that cannot be used. The message is the reason under which it is counted.

    where: identifies the record if its line number does not, for example `question 56be4db0`
    """

    def __init__(self, reason: str, where: str = "") -> None:
        super().__init__(reason)
        self.where = where


LineRecord = tuple[int, Values | Unusable]  # the line where a record begins, and what it holds; a role it lacks is None


class Roles(NamedTuple):
    """The roles (meanings of values, such as `text`) that a task reads.

    A record without a value for one of the `needed` roles cannot be used; `optional` roles are read if present.
    """

    needed: Sequence[str]
    optional: Sequence[str] = ()


def convert_records(records: Iterable[LineRecord], convert: Callable[[Values], Values]) -> Iterator[LineRecord]:
    """Yield records with converted values. If the conversion raises `Unusable`, the exception is yielded instead.

    Args:
        records: Pairs of line number and values, or of line number and `Unusable`, which is passed through.
        convert: Function that returns the new values of a record, or raises `Unusable`.
    """
    for line, values in records:
        try:
            yield line, values if isinstance(values, Unusable) else convert(values)
        except Unusable as error:
            yield line, error


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    """A file of labeled data, and how to read it.

    path:         the file; if it has the extension `.gz`, `.bz2`, `.xz` or `.zst` after that of its format, it is
                  decompressed while it is read (except Parquet); for a zip, its only member or `FILE.zip!/MEMBER` is
                  read
    format:       the format of the file; "": by its extension
    header:       whether the first line of a table names the columns
    ragged:       whether rows of a table may have more cells than the first line; the additional cells are ignored
    columns:      the column of each role: a name in the header, a number from 1, or for JSON and Parquet also a path
                  such as `answers.text.0`; the default is the column of the same name
    max_unusable: largest share of records that may be unusable; if it is exceeded, the file is rejected

    A role that begins with KEEP_PREFIX stands for a column that is copied to the output.
    """

    path: str
    format: str = ""
    header: bool = True
    ragged: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)
    max_unusable: float = limit_field(0.01)

    def __post_init__(self) -> None:
        check_range(f"{self.path}: max_unusable", self.max_unusable, 0, 1)
        roles = dict[str, str]()
        for role, column in self.columns.items():
            if not role.startswith(KEEP_PREFIX) and (other := roles.setdefault(column, role)) != role:
                raise InputError(f"{self.path}: {other} and {role} are both {column!r}: name a column for each.")

    def get_column(self, role: str) -> str:
        """Return the name of the column of a role: the one in `columns`, or else the role itself."""
        return self.columns.get(role, role)

    @property
    def kept_roles(self) -> list[str]:
        """The roles of the columns that are copied to the output. They begin with KEEP_PREFIX."""
        return [role for role in self.columns if role.startswith(KEEP_PREFIX)]


class DroppedRecord(NamedTuple):
    """A record that cannot be used.

    number: zero-based index of the record among all records of the file
    line:   line number of the record, counted from 1
    reason: the reason why it cannot be used
    names:  its id and the values of `keep:` columns, if they are known
    """

    number: int
    line: int
    reason: str
    names: Values


@dataclass(slots=True)
class RowCounts:
    """Counts of the records of a file: usable ones (`given`), and unusable ones by reason.

    first_lines, first_places: for each reason, the line of the first record, and other text that identifies the record
    rows:     number of records read so far
    unit:     plural noun for the records, for messages
    dropped:  the unusable records, in the order of the file
    held_out: number of usable records that are held out for evaluation
    """

    given: int = 0
    unusable: dict[str, int] = field(default_factory=dict)
    first_lines: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    unit: str = "rows"
    first_places: dict[str, str] = field(default_factory=dict)
    dropped: list[DroppedRecord] = field(default_factory=list)
    held_out: int = 0

    def drop(self, reason: str, line: int, where: str = "", names: Values = MappingProxyType({})) -> None:
        """Count the record that was read last as unusable.

        Args:
            reason: The reason under which it is counted.
            line: The line number of the record.
            where: Other text that identifies the record, for messages.
            names: The record's id and the values of its `keep:` columns.
        """
        self.unusable[reason] = self.unusable.get(reason, 0) + 1
        self.dropped.append(DroppedRecord(self.rows - 1, line, f"{reason} ({where})" if where else reason, names))
        if reason not in self.first_lines:
            self.first_lines[reason], self.first_places[reason] = line, f", {where}" if where else ""

    @property
    def account(self) -> Account:
        """The ledger account of all records: given, held out, or dropped by reason."""
        dropped = {f"dropped: {reason}": number for reason, number in sorted(self.unusable.items())}
        elsewhere = {"held out": self.held_out} if self.held_out else {}
        return Account(unit=self.unit, total=self.rows, outcomes={"given": self.given, **elsewhere, **dropped})

    @property
    def reasons(self) -> str:
        """The reasons with their counts, the most frequent first, such as `3 empty text (first in line 99)`."""
        most = sorted(self.unusable.items(), key=lambda item: (-item[1], item[0]))
        return ", ".join(
            f"{number} {reason} (first in line {self.first_lines[reason]}{self.first_places[reason]})"
            for reason, number in most
        )

    def check(self, path: str, max_unusable: float, remedy: str = "fix them") -> None:
        """Raise InputError if the file has no usable records, or too many unusable ones.

        Args:
            path: The file, for the error message.
            max_unusable: The largest allowed fraction of unusable records.
            remedy: What the user can do other than raise `max_unusable`.
        """
        self.account.check()
        if not self.rows:
            raise InputError(f"{path} has no {self.unit}: give a file that holds some.")
        lost = self.rows - self.given
        if self.given and lost <= max_unusable * self.rows:
            return
        more = f". That is more than max_unusable = {max_unusable}: {remedy}, or allow more"
        least = more if self.given else f": {remedy}"
        raise InputError(f"{path}: {lost} of {self.rows} {self.unit} cannot be used: {self.reasons}{least}.")


# The text of a file and its lines.


def resolve_path(path: str) -> Path:
    """Return the path of a file or, for a zip, of its only member or of the member in `FILE.zip!/MEMBER`.

    Raises:
        InputError: If the zip cannot be read, or has several members or none and no member is named.
    """
    if not path.lower().endswith(ZIP_ENDING):
        return parse_raw_path(path)
    try:
        names = [member.name for member in list_members(Path(path)) if not member.kind]
    except (BadArchive, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"Cannot read {path}: {reason}. Check the path, or get the file again.") from error
    if len(names) == 1:
        return build_member_path(Path(path), names[0])
    held = f"{len(names):,} files, such as {names[0]}: name it, {path}{INNER}{names[0]}" if names else "none"
    raise InputError(f"{path} is to hold one file of records, and it holds {held}.")


@contextmanager
def open_text(path: str) -> Iterator[TextIOWrapper]:
    """Open a file as UTF-8 text, without its byte order mark, and decompressed according to its file extension.

    Bytes that are not UTF-8 become surrogates.

    Raises:
        InputError: On entry, if the file cannot be opened or has another encoding; while reading, if it is damaged.
    """
    place = resolve_path(path)
    with open_raw(place) as raw, explain_damage(place):
        if raw.seekable():
            head = raw.read(HEAD_BYTES)
            raw.seek(0)
            if wide := find_marked_encoding(head) or guess_wide_encoding(head):
                raise InputError(f"{path} is {wide.upper()}, but must be UTF-8: convert it, for instance with iconv.")
        yield TextIOWrapper(cast(BinaryIO, raw), encoding="utf-8-sig", errors="surrogateescape", newline="\n")


def iter_lines(stream: TextIOWrapper, path: str) -> Iterator[str]:
    """Yield the lines of an open file as strings, including their line ends.

    Raises InputError for a line of MAX_LINE_CHARACTERS or more. `path` is used in the error message.
    """
    for number, line in enumerate(iter(lambda: stream.readline(MAX_LINE_CHARACTERS), ""), 1):
        if len(line) == MAX_LINE_CHARACTERS and not line.endswith("\n"):
            raise InputError(
                f"{path}, line {number}, has more than {MAX_LINE_CHARACTERS:,} characters: a record is a line, so cut "
                "the file into lines."
            )
        yield line


def number_lines(path: str) -> Iterator[tuple[int, str]]:
    """Open a file and yield (line number, line) pairs, numbered from 1. Lines keep their line endings.

    Raises InputError, while iterating, if the file cannot be opened or read.
    """
    with open_text(path) as stream:
        yield from enumerate(iter_lines(stream, path), 1)


def find_unpacked_ending(path: str) -> str:
    """Return the file extension of a path in lower case. A compression extension such as ".gz" is skipped.

    Raises InputError if the path names a zip that cannot be read.

    >>> find_unpacked_ending("rows.JSONL.gz"), find_unpacked_ending("rows.tsv"), find_unpacked_ending("eng.train")
    ('.jsonl', '.tsv', '.train')
    """
    lowered = Path(resolve_path(path).name.lower())
    return Path(lowered.stem).suffix if lowered.suffix in PACKED_ENDINGS else lowered.suffix


# The values of a record as texts, labels and numbers.


def check_values(values: Values, wanted: Roles) -> Values:
    """Check the values of a record, by role, and return those that are not None.

    Raises:
        Unusable: If a needed value is missing, or a string is empty, not UTF-8, or contains a NUL character.
    """
    given = dict[str, Any]()
    for role, value in values.items():
        if value is None:
            if role in wanted.needed:
                raise Unusable(f"no {role}")
            continue
        _check_text(value)
        if isinstance(value, str) and not value.strip():
            raise Unusable(f"empty {role}")
        given[role] = value
    return given


def _check_text(value: Any) -> None:
    """Raise Unusable if a string is not UTF-8 or contains a NUL character. Lists and objects are searched."""
    if isinstance(value, str):
        if not is_unicode(value):
            raise Unusable(NOT_UTF_8)
        if "\0" in value:
            raise Unusable("a zero in a text")
    elif isinstance(value, list | tuple | dict):
        for item in value.items() if isinstance(value, dict) else value:
            _check_text(item)


def is_unicode(text: str) -> bool:
    r"""Return True if a string can be encoded as UTF-8, that is, if it has no surrogates from invalid bytes.

    >>> is_unicode("é"), is_unicode("\ud800")
    (True, False)
    """
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_text(value: Any, role: str) -> str:
    """Return a value unchanged if it is a string.

    Raises Unusable if it is not; `role` is the name of the value in the message.
    """
    if isinstance(value, str):
        return value
    raise Unusable(f"{role} is no text")


def as_label(value: Any, role: str = "label") -> str:
    """Convert a value to the name of a label: a stripped string, or a number or boolean as written in JSON.

    Args:
        value: The value.
        role: The name of the value in the error message.

    Raises:
        Unusable: If the value has another type, or is a number that is not finite.

    >>> as_label(" good "), as_label(1), as_label(True)
    ('good', '1', 'true')
    """
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int) or (isinstance(value, float) and isfinite(value)):
        return json.dumps(value)
    raise Unusable(f"{role} is neither text nor number")


def as_number(label: str) -> float | None:
    """Convert a label to the finite number that it spells, or return None if it is not a number.

    >>> [as_number(label) for label in ("3.80", "-1", "1e3", "good", "nan", "1_000")]
    [3.8, -1.0, 1000.0, None, None, None]
    """
    try:
        number = float(label)
    except ValueError:
        return None
    return number if isfinite(number) and "_" not in label else None


def parse_number(value: Any, name: str) -> float:
    """Convert a value to a finite number.

    Raises Unusable if it is not one; `name` is the name of the value in the message.
    """
    label = as_label(value, name)
    number = as_number(label)
    if number is None:
        raise Unusable(f"{name} is no number", f"{label!r:.40}")
    return number


def as_words(value: Any, role: str) -> list[str]:
    """Return a list of strings unchanged, or split a string at white space.

    Raises Unusable for other values; `role` is the name of the value in the message.

    >>> as_words("B-PER O", "tags"), as_words(["New", "York"], "words")
    (['B-PER', 'O'], ['New', 'York'])
    """
    if isinstance(value, str):
        return value.split()
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    raise Unusable(f"{role} is no list of texts")
