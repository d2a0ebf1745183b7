"""The settings of a file of labelled data, and what became of each of its records.

Promise: every record is given or counted under the reason for which it cannot be used, with the line where that reason
was met first; a file that loses more than the settings allow is refused. Memory: one counter for each reason.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from corpora.errors import InputError
from corpora.store.ledger import Account
from corpora.store.settings import check_range, limit

Values = Mapping[str, Any]  # by role


class TaskRecord(NamedTuple):
    """One record of a file. line: where it begins there, from 1; of Parquet the row. values: by role."""

    line: int
    values: Values


class Unusable(ValueError):
    """A record that cannot be used. The message is the reason under which it is counted.

    where: what finds the record if its line does not: `question 56be4db0`
    """

    def __init__(self, reason: str, where: str = "") -> None:
        super().__init__(reason)
        self.where = where


Found = tuple[int, Values | Unusable]  # the line where a record begins, and what it holds; a role it lacks is None


class Wanted(NamedTuple):
    """The roles that a task reads. needed: a record without one of them cannot be used; optional: read if there."""

    needed: Sequence[str]
    optional: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    """A file of labelled data.

    path:         the file; what ends in `.gz`, `.bz2`, `.xz` or `.zst` after its own ending is unpacked as it is read,
                  but for Parquet
    format:       its format; "": by its ending
    header:       whether the first line of a table names the columns
    ragged:       whether rows of a table may have more cells than its first line; no role reads what is beyond
    columns:      for a role its column: a name in the header, a number from 1, in JSON and Parquet also a path such as
                  `answers.text.0`; a role that is not named here has the column of its own name
    max_unusable: largest share of records that may be unusable before the file is refused
    """

    path: str
    format: str = ""
    header: bool = True
    ragged: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)
    max_unusable: float = limit(0.01)

    def __post_init__(self) -> None:
        check_range(f"{self.path}: max_unusable", self.max_unusable, 0, 1)
        roles = dict[str, str]()
        for role, column in self.columns.items():
            if other := roles.get(column):
                raise InputError(f"{self.path}: {other} and {role} are both {column!r}: name a column for each.")
            roles[column] = role

    def column(self, role: str) -> str:
        """The column of a role."""
        return self.columns.get(role, role)


@dataclass(slots=True)
class RowCounts:
    """The fate of a file's records. first, where: the line where each reason was met first, and its place."""

    given: int = 0
    unusable: dict[str, int] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    unit: str = "rows"
    where: dict[str, str] = field(default_factory=dict)

    def drop(self, reason: str, line: int, where: str = "") -> None:
        """Count a record that cannot be used."""
        self.unusable[reason] = self.unusable.get(reason, 0) + 1
        if reason not in self.first:
            self.first[reason], self.where[reason] = line, f", {where}" if where else ""

    @property
    def account(self) -> Account:
        """Records of the file, and what became of each."""
        dropped = {f"dropped: {reason}": number for reason, number in sorted(self.unusable.items())}
        return Account(unit=self.unit, total=self.rows, outcomes={"given": self.given, **dropped})

    @property
    def reasons(self) -> str:
        """The reasons why records cannot be used, the most frequent first: `3 empty text (first in line 99)`."""
        most = sorted(self.unusable.items(), key=lambda item: (-item[1], item[0]))
        return ", ".join(
            f"{number} {reason} (first in line {self.first[reason]}{self.where[reason]})" for reason, number in most
        )

    def check(self, path: str, max_unusable: float, remedy: str = "fix them") -> None:
        """Raise InputError where nothing is left, or too much was lost. remedy: what to do, but for allowing more."""
        self.account.check()
        if not self.rows:
            raise InputError(f"{path} has no {self.unit}: give a file that holds some.")
        lost = self.rows - self.given
        if self.given and lost <= max_unusable * self.rows:
            return
        raise InputError(
            f"{path}: {lost} of {self.rows} {self.unit} cannot be used: {self.reasons}. That is more than "
            f"max_unusable = {max_unusable}: {remedy}, or allow more."
        )
