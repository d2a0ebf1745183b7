"""A file of labeled data: its settings, its text and lines, what became of each record, and the values of records.

Promise: every record is yielded, or counted under the reason that makes it unusable, with the first line for each
reason; a file that loses more than the settings allow is refused. A file is decompressed by its ending. Bytes that are
not UTF-8 become surrogates, which mark their record; a file of another encoding, one that is damaged and a line without
end are refused with the remedy. Memory: one line; of each unusable record its number and its names.
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

    where: finds the record if its line does not, for example `question 56be4db0`
    """

    def __init__(self, reason: str, where: str = "") -> None:
        super().__init__(reason)
        self.where = where


LineRecord = tuple[int, Values | Unusable]  # the line where a record begins, and what it holds; a role it lacks is None


class Roles(NamedTuple):
    """The roles that a task reads.

    A record without one of `needed` cannot be used; `optional` ones are read if present.
    """

    needed: Sequence[str]
    optional: Sequence[str] = ()


def convert_records(records: Iterable[LineRecord], convert: Callable[[Values], Values]) -> Iterator[LineRecord]:
    """Convert the values of each record; if the conversion raises `Unusable`, yield that instead.

    Args:
        records: Pairs of line and values, or line and `Unusable`; the latter are yielded unchanged.
        convert: Returns the new values of a record, or raises `Unusable`.
    """
    for line, values in records:
        try:
            yield line, values if isinstance(values, Unusable) else convert(values)
        except Unusable as error:
            yield line, error


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    """A file of labeled data.

    path:         the file; what ends in `.gz`, `.bz2`, `.xz` or `.zst` after its own ending is unpacked as it is read,
                  but for Parquet; in a zip the only file, or `FILE.zip!/MEMBER`
    format:       its format; "": by its ending
    header:       whether the first line of a table names the columns
    ragged:       whether rows of a table may have more cells than its first line; no role reads what is beyond
    columns:      for a role its column: a name in the header, a number from 1, in JSON and Parquet also a path such as
                  `answers.text.0`; a role that is not named here has the column of its own name
    max_unusable: largest share of records that may be unusable before the file is refused

    A role that begins with KEPT has the column that is named after it.
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
        """Return the column of a role: the one that is named, else the role itself."""
        return self.columns.get(role, role)

    @property
    def kept_roles(self) -> list[str]:
        """Return the roles of the columns that are kept: they begin with KEEP_PREFIX."""
        return [role for role in self.columns if role.startswith(KEEP_PREFIX)]


class DroppedRecord(NamedTuple):
    """A record that cannot be used.

    number: its zero-based number among all records of the file
    names:  its id and the values of columns that are kept, as far as it has them
    """

    number: int
    line: int
    reason: str
    names: Values


@dataclass(slots=True)
class RowCounts:
    """Counts of the records of a file: usable ones (`given`), and unusable ones by reason.

    first_lines, first_places: for each reason the line where it was met first, and what else finds that record
    rows:     all records that were read so far
    unit:     what a record is called in messages, in the plural
    dropped:  the unusable records, in the order of the file
    held_out: usable records that are set aside for evaluation
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
            reason: The reason to count it under.
            line: The line where it begins.
            where: What else finds it, for messages.
            names: Its id and the values of columns that are kept.
        """
        self.unusable[reason] = self.unusable.get(reason, 0) + 1
        self.dropped.append(DroppedRecord(self.rows - 1, line, f"{reason} ({where})" if where else reason, names))
        if reason not in self.first_lines:
            self.first_lines[reason], self.first_places[reason] = line, f", {where}" if where else ""

    @property
    def account(self) -> Account:
        """Return the account of all records for a ledger: given, held out, or dropped by reason."""
        dropped = {f"dropped: {reason}": number for reason, number in sorted(self.unusable.items())}
        elsewhere = {"held out": self.held_out} if self.held_out else {}
        return Account(unit=self.unit, total=self.rows, outcomes={"given": self.given, **elsewhere, **dropped})

    @property
    def reasons(self) -> str:
        """Return the reasons with their counts, the most frequent first: `3 empty text (first in line 99)`."""
        most = sorted(self.unusable.items(), key=lambda item: (-item[1], item[0]))
        return ", ".join(
            f"{number} {reason} (first in line {self.first_lines[reason]}{self.first_places[reason]})"
            for reason, number in most
        )

    def check(self, path: str, max_unusable: float, remedy: str = "fix them") -> None:
        """Raise InputError if the file has no records or no usable ones, or too many unusable ones.

        Args:
            path: The file, for the message.
            max_unusable: The largest share of records that may be unusable.
            remedy: What the user can do besides raising `max_unusable`.
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
    """Return the path of a file; for a zip the path of its only member, or of the member in `FILE.zip!/MEMBER`.

    Raises:
        InputError: If the zip cannot be read, or does not hold exactly one file.
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
    """Open a file as UTF-8 text without its byte order mark, decompressed according to its ending.

    Bytes that are not UTF-8 become surrogates.

    Raises:
        InputError: On entry if the file cannot be opened or has another encoding; while it is read if it is damaged.
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
    """Yield the lines of an open file with their line ends.

    Raises InputError for a line of MAX_LINE_CHARACTERS or more.
    """
    for number, line in enumerate(iter(lambda: stream.readline(MAX_LINE_CHARACTERS), ""), 1):
        if len(line) == MAX_LINE_CHARACTERS and not line.endswith("\n"):
            raise InputError(
                f"{path}, line {number}, has more than {MAX_LINE_CHARACTERS:,} characters: a record is a line, so cut "
                "the file into lines."
            )
        yield line


def number_lines(path: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers, from 1, and their line ends. Raises InputError."""
    with open_text(path) as stream:
        yield from enumerate(iter_lines(stream, path), 1)


def find_unpacked_ending(path: str) -> str:
    """Return the ending of a file in lowercase; of a compressed file the ending of its content.

    >>> find_unpacked_ending("rows.JSONL.gz"), find_unpacked_ending("rows.tsv"), find_unpacked_ending("eng.train")
    ('.jsonl', '.tsv', '.train')
    """
    lowered = Path(resolve_path(path).name.lower())
    return Path(lowered.stem).suffix if lowered.suffix in PACKED_ENDINGS else lowered.suffix


# The values of a record as texts, labels and numbers.


def check_values(values: Values, wanted: Roles) -> Values:
    """Return the values of a record that are not None.

    Raises:
        Unusable: If a needed value is missing, or a text is empty, not UTF-8, or holds a NUL character.
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
    """Raise Unusable if a text, at any depth of lists and objects, is not UTF-8 or holds a NUL character."""
    if isinstance(value, str):
        if not is_unicode(value):
            raise Unusable(NOT_UTF_8)
        if "\0" in value:
            raise Unusable("a zero in a text")
    elif isinstance(value, list | tuple | dict):
        for item in value.items() if isinstance(value, dict) else value:
            _check_text(item)


def is_unicode(text: str) -> bool:
    """Check whether a text can be encoded as UTF-8: it holds no surrogate, so no invalid byte was read.

    >>> is_unicode("é"), is_unicode("\\ud800")
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
    """Return a value if it is a text. Raises Unusable if it is not."""
    if isinstance(value, str):
        return value
    raise Unusable(f"{role} is no text")


def as_label(value: Any, role: str = "label") -> str:
    """Return the name of a label: a text without surrounding spaces, or a number, true or false as JSON writes it.

    Raises:
        Unusable: If the value is anything else, or a number that is not finite.

    >>> as_label(" good "), as_label(1), as_label(True)
    ('good', '1', 'true')
    """
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int) or (isinstance(value, float) and isfinite(value)):
        return json.dumps(value)
    raise Unusable(f"{role} is neither text nor number")


def as_number(label: str) -> float | None:
    """Return the finite number that a label stands for, or None if it is not a number.

    >>> [as_number(label) for label in ("3.80", "-1", "1e3", "good", "nan", "1_000")]
    [3.8, -1.0, 1000.0, None, None, None]
    """
    try:
        number = float(label)
    except ValueError:
        return None
    return number if isfinite(number) and "_" not in label else None


def parse_number(value: Any, name: str) -> float:
    """Return a value as a finite number. Raises Unusable if it is none. `name` is what the message calls it."""
    label = as_label(value, name)
    number = as_number(label)
    if number is None:
        raise Unusable(f"{name} is no number", f"{label!r:.40}")
    return number


def as_words(value: Any, role: str) -> list[str]:
    """Return a list of texts as it is, or split a text at its spaces. Raises Unusable for other values.

    >>> as_words("B-PER O", "tags"), as_words(["New", "York"], "words")
    (['B-PER', 'O'], ['New', 'York'])
    """
    if isinstance(value, str):
        return value.split()
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    raise Unusable(f"{role} is no list of texts")
