"""Findings: problems in labeled data, as values, and formatted as a paragraph, as lines or as an error.

A finding stops a command if it makes a score meaningless for any model, such as evaluation rows that are also training
rows. It is doubtful if only the owner of the data can say whether it is intended. Findings that are accepted by name do
not stop a command, but are still shown.

`CheckedFile` is a file of labeled data as the checks see it: each usable record with its line, texts and label.
Records are read as in fine-tuning, except that labels may differ from those of training, and that a file with many
unusable records is read to its end. Memory: the records, as Python objects.
"""

import json
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import xxhash

from corpora.errors import InputError
from corpora.kernels.arrays import UInt64s
from corpora.store.settings import check_choice
from corpora.text.normal_form import to_nfc
from trainer.tasks.data import split_roles, with_format
from trainer.tasks.formats.reading import check_columns, read_examples
from trainer.tasks.formats.records import ID, FileSettings, RowCounts, Values
from trainer.tasks.task import Example, Task

Severity = Literal["stops", "doubtful"]
ALL = "all"  # accepted: whatever there is
MAX_SHOWN = 2  # things in a row, such as lines of a place
MAX_LINE_CHARACTERS = 160  # characters of a finding's line
EXCERPT_CHARACTERS = 30  # characters of a value of the data
_WORDING = tomllib.loads((Path(__file__).parent / "wording.toml").read_text(encoding="utf-8"))
WORDING = {case: (severity, text) for severity, texts in _WORDING.items() for case, text in texts.items()}
NAMES = tuple(dict.fromkeys(case.partition("/")[0] for case in WORDING))


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFinding:
    """A problem that was found in labeled data.

    name:     the kind of problem, one of NAMES; users accept a finding by this name
    severity: "stops" or "doubtful"
    where:    the file and the first lines concerned
    what:     a description of the problem, with the number of rows and what to do about it
    """

    name: str
    severity: Severity
    where: str
    what: str

    @property
    def text(self) -> str:
        """The name, the location and the description in one string."""
        return f"{self.name}: {self.where}: {self.what}"

    @property
    def line(self) -> str:
        """The name, the location and the description on one line, truncated to MAX_LINE_CHARACTERS."""
        return shorten(self.text, MAX_LINE_CHARACTERS)


def build_finding(case: str, where: str, *, stops: bool | None = None, **values: Any) -> DataFinding:
    """Build a finding from a wording in `wording.toml` and the values for its placeholders.

    Args:
        case: The key of the wording. The part before a slash is the name of the finding.
        where: The file and lines concerned.
        stops: True if the finding stops a command. Only used for wordings with the severity "either".
        **values: The values for the placeholders of the wording.

    Raises:
        KeyError: If there is no such wording, or if a placeholder has no value.

    >>> build_finding("leak", "dev.tsv", stops=False, rows=format_share(1, 8, verb="are"), other="train.tsv").line
    'leak: dev.tsv: 1 row (12.5 %) is in train.tsv too: leave them out of one of the two'
    """
    group, text = WORDING[case]
    severity: Severity = "stops" if group == "stops" or (group == "either" and stops) else "doubtful"
    return DataFinding(name=case.partition("/")[0], severity=severity, where=where, what=text.format_map(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class DataReport:
    """The findings in all files of a task.

    looks:    a sentence that describes the content of the files
    rows:     the number of usable records of each file, by name
    findings: the findings; those that stop a command come first
    """

    looks: str
    rows: dict[str, int]
    findings: tuple[DataFinding, ...]

    @property
    def stopping_findings(self) -> tuple[DataFinding, ...]:
        """The findings that stop a command."""
        return tuple(each for each in self.findings if each.severity == "stops")

    @property
    def paragraph(self) -> str:
        """The summary of the report as one paragraph: what the files contain, and the names of the findings."""
        number = len(self.stopping_findings)
        doubtful = len(self.findings) - number
        if not self.findings:
            return f"{self.looks} Nothing was seen that would spoil a score."
        kinds = ", ".join(dict.fromkeys(each.name for each in (*self.stopping_findings, *self.findings)))
        stops = f"{number} that {'makes' if number == 1 else 'make'} a score meaningless"
        return f"{self.looks} Seen: {stops}, {doubtful} to look at ({kinds})."

    def to_json(self) -> dict[str, Any]:
        """Convert the report to a dictionary with its fields, which can be written as JSON."""
        return asdict(self)

    def accept(self, names: Collection[str]) -> "DataReport":
        """Return a copy of the report in which accepted findings are "doubtful", so that they no longer stop a command.

        Args:
            names: Names of the findings to accept, or "all".

        Raises:
            InputError: If a name is neither "all" nor in NAMES.
        """
        check_accepted("--accept", names)
        findings = (
            replace(each, severity="doubtful") if ALL in names or each.name in names else each for each in self.findings
        )
        return replace(self, findings=tuple(findings))

    def check(self, table: str = "") -> None:
        """Raise InputError with the first finding that stops a command, if there is one.

        Args:
            table: The name of the recipe table in which findings can be accepted. If "", the error message names
                command-line options instead.
        """
        if stopping := self.stopping_findings:
            more = f" And {len(stopping) - 1} more that stop." if len(stopping) > 1 else ""
            names = [*dict.fromkeys(each.name for each in stopping)]
            flags = (
                f"accept = {json.dumps(names)} to {table}" if table else " ".join(f"--accept {name}" for name in names)
            )
            raise InputError(
                f"A score on this data would mean nothing. {stopping[0].text}.{more} `cloze check` shows all; if it "
                f"is meant so, add {flags}."
            )


def check_accepted(where: str, names: Collection[str]) -> None:
    """Raise InputError if a name is neither "all" nor the name of a kind of finding.

    Args:
        where: The option or key that gave the names, for the error message.
        names: The names.
    """
    for name in names:
        check_choice(where, name, (ALL, *NAMES))


def shorten(text: str, max_characters: int = EXCERPT_CHARACTERS) -> str:
    r"""Return the beginning of a text on one line, with runs of white space replaced by spaces.

    A truncated text ends in an ellipsis, and has `max_characters` characters.

    >>> shorten("two\nlines"), shorten("three words here", 10)
    ('two lines', 'three wor…')
    """
    line = " ".join(text.split())
    return line if len(line) <= max_characters else line[: max_characters - 1] + "…"


def quote(text: str) -> str:
    """Return the beginning of a text on one line, in quotes, as a Python literal."""
    return repr(shorten(text))


def list_some(things: Sequence[str], max_shown: int = MAX_SHOWN) -> str:
    """Join the first items of a list with commas, and append how many more there are.

    >>> list_some(["3", "9", "12", "40", "41"])
    '3, 9 and 3 more'
    """
    more = len(things) - max_shown
    return ", ".join(things[:max_shown]) + (f" and {more:,} more" if more > 0 else "")


def format_count(number: int, thing: str = "row", verb: str = "have") -> str:
    """Format a count with its noun and verb, in the singular or plural. `thing` is the noun in the singular.

    >>> format_count(1), format_count(2_000, "question", "are")
    ('1 row has', '2,000 questions are')
    """
    one = {"have": "has", "are": "is"}
    return f"{number:,} {thing} {one.get(verb, verb)}" if number == 1 else f"{number:,} {thing}s {verb}"


def format_share(number: int, total: int, thing: str = "row", verb: str = "have") -> str:
    """Format a count with its noun, its percentage of a total, and its verb.

    >>> format_share(2, 16)
    '2 rows (12.5 %) have'
    """
    counted, _, own = format_count(number, thing, verb).rpartition(" ")
    return f"{counted} ({format_percent(number, total)}) {own}"


def format_percent(part: float, whole: float) -> str:
    """Format the ratio of a part to a whole as a percentage; "0.0 %" if the whole is zero.

    >>> format_percent(1, 8), format_percent(1, 3000)
    ('12.5 %', '0.033 %')
    """
    share = 100 * part / whole if whole else 0.0
    return f"{share:.1f} %" if share >= 0.1 or not share else f"{share:.2g} %"


NON_TEXT_ROLES = ("document", "level", "impossible")  # roles that are not read as texts
TEXT_SEPARATOR = "\n"
MAX_NAME_CHARACTERS = 28


@dataclass(frozen=True, kw_only=True)
class CheckedFile:
    """The usable records of a file, as parallel sequences.

    name:       the name of the file in messages
    settings:   the file and how it is read
    examples:   the examples that the task builds from the records
    lines:      the line number of each record, starting at 1
    values:     the values of each record by role (the meaning of a value for the task, such as `text`)
    labels:     the label of each record; None if the file has no labels
    ids:        the id of each record, or None if it has none
    counts:     the numbers of usable and unusable records
    text_roles: the roles that hold texts
    features:   the additional columns that the task reads
    """

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
    def short_name(self) -> str:
        """The name of the file. A long name is truncated at the start."""
        return self.name if len(self.name) <= MAX_NAME_CHARACTERS else f"…{self.name[-MAX_NAME_CHARACTERS:]}"

    def locate_rows(self, rows: Sequence[int]) -> str:
        """Format the file name with the line numbers of the first few rows, such as `train.tsv, lines 3, 9 and 3 more`.

        Args:
            rows: Zero-based indices of rows. If empty, only the name is returned.
        """
        many = "lines" if len(rows) > 1 else "line"
        name = self.short_name
        return f"{name}, {many} {list_some([str(self.lines[row]) for row in rows])}" if rows else name

    def build_finding(self, case: str, rows: Sequence[int] = (), /, **values: Any) -> DataFinding:
        """Build a finding about some rows of the file, or about the whole file if `rows` is empty.

        Args:
            case: The key of the wording in `wording.toml`.
            rows: Zero-based indices of rows.
            **values: Values for the placeholders of the wording.
        """
        return build_finding(case, self.locate_rows(rows), **values)

    @cached_property
    def texts(self) -> list[tuple[str, ...]]:
        """The texts of each row, in the order of `text_roles`."""
        return [tuple(to_text(values.get(role)) for role in self.text_roles) for values in self.values]

    @cached_property
    def joined_texts(self) -> list[str]:
        """The texts of each row as one string, joined by line feeds."""
        return [TEXT_SEPARATOR.join(texts) for texts in self.texts]

    @cached_property
    def number_range(self) -> float:
        """The difference between the highest and the lowest numeric label; 0 if labels are not numbers."""
        numbers = [label for label in self.labels or () if isinstance(label, float)]
        return max(numbers) - min(numbers) if numbers else 0.0

    @cached_property
    def keys(self) -> UInt64s:
        """A hash of each row without its label, to find equal rows: uint64 [rows].

        Case, white space and Unicode normalization are ignored.
        """
        beside = [[to_text(values.get(role)) for role in self.features] for values in self.values]
        pairs = zip(self.texts, beside, strict=True)
        return np.array([hash_text("\0".join((*texts, *more))) for texts, more in pairs], np.uint64)


def hash_text(text: str) -> int:
    """Compute a 64-bit hash of a text that ignores case, white space and Unicode normalization."""
    return xxhash.xxh3_64_intdigest(" ".join(to_nfc(text).casefold().split()).encode("utf-8", "replace"))


def to_text(value: Any) -> str:
    """Convert a value of a record to a string. List items are joined by spaces, and None becomes an empty string."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return " ".join(map(to_text, value))
    return "" if value is None else str(value)


def read_checked(task: Task, name: str, file: FileSettings, labelled: bool = True) -> CheckedFile:
    """Read all records of a file for the checks. The file is accepted even if most of its records are unusable.

    Args:
        task: The task that reads the file.
        name: The name of the file in messages.
        file: The file and how to read it.
        labelled: True if records must have labels.

    Raises:
        InputError: If the file cannot be read, lacks a column, or has settings for a role that the task does not read.
    """
    counts = RowCounts()
    check_columns(file, (*task.roles, ID), f"the task {task.kind!r}")
    needed, optional = split_roles(task, labelled)
    rows = read_examples(
        replace(with_format(task, file), max_unusable=1.0),
        counts,
        needed,
        lambda values: (values, task.make_example(values, labelled)),
        [*optional, ID],
    )
    taken = [(line, values, example) for line, (values, example) in rows]
    features = (*getattr(task, "numeric", ()), *getattr(task, "categorical", ()))
    given = {role for _, values, _ in taken for role in values} - {*task.label_roles, *features, *NON_TEXT_ROLES}
    return CheckedFile(
        name=name,
        settings=file,
        examples=[example for _, _, example in taken],
        lines=[line for line, _, _ in taken],
        values=[values for _, values, _ in taken],
        labels=[find_label(task, example, values) for _, values, example in taken]
        if labelled and task.label_roles
        else None,
        ids=[values.get(ID) for _, values, _ in taken],
        counts=counts,
        text_roles=tuple(role for role in task.roles if role in given),
        features=features,
    )


def find_label(task: Task, example: Example, values: Mapping[str, Any]) -> Any:
    """Return the label of a record.

    It is the label in the example, which may be a class name, a number, or a tuple of tags or answers. If the example
    has none, a tuple of the record's texts for the label roles is returned.

    Args:
        task: The task.
        example: The example that the task built from the record.
        values: The values of the record by role.
    """
    for name in ("label", "tags", "right", "answers", "labels"):
        if hasattr(example, name):
            return getattr(example, name)
    return tuple(to_text(values.get(role)) for role in sorted(task.label_roles))
