"""Findings: what is wrong with labelled data, as values, and as a paragraph, a table or a refusal.

A finding stops where a score would mean nothing whatever the model does, such as evaluation rows that are training
rows; it is doubtful where only its owner can say whether it is meant. Findings that are accepted by their names stop
nothing and are still told.
"""

import json
import tomllib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from corpora.errors import InputError
from corpora.store.settings import check_choice

Severity = Literal["stops", "doubtful"]
ALL = "all"  # accepted: whatever there is
SHOWN = 3  # examples of a finding, and lines of a place
EXCERPT = 60  # characters of a text that is shown
WORDING = MappingProxyType(tomllib.loads((Path(__file__).parent / "wording.toml").read_text(encoding="utf-8")))
NAMES = tuple(dict.fromkeys(case.partition("/")[0] for case in WORDING))


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFinding:
    """One thing that was seen in labelled data.

    name:     its kind, one of NAMES, by which it is accepted
    severity: "stops" or "doubtful"
    what:     a sentence with its number of rows, without a full stop
    where:    the file and the first lines
    remedy:   what to do, without a full stop
    examples: excerpts that show it
    """

    name: str
    severity: Severity
    what: str
    where: str
    remedy: str
    examples: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """All of it in a sentence or two."""
        shown = f" (such as {', '.join(self.examples)})" if self.examples else ""
        return f"{self.where}: {self.what}{shown}: {self.remedy}." if self.remedy else self.what


def finding(
    case: str, where: str, *, stops: bool | None = None, examples: Iterable[str] = (), **values: Any
) -> DataFinding:
    """Return a finding in the words of `wording.toml`. case: its table there; stops: where the table leaves it open

    >>> finding("leak", "dev.tsv", stops=False, rows=share_of(1, 8, verb="are"), other="train.tsv").sentence
    'dev.tsv: 1 row (12.5 %) is in train.tsv too: leave them out of one of the two.'
    """
    row = WORDING[case]
    return DataFinding(
        name=case.partition("/")[0],
        severity=row.get("severity", "stops" if stops else "doubtful"),
        what=row["what"].format_map(values),
        where=where,
        remedy=row["remedy"].format_map(values),
        examples=tuple(examples),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DataReport:
    """What was seen in files of labelled data. looks: what they are, a sentence; rows: usable ones, by file"""

    looks: str
    rows: dict[str, int]
    findings: tuple[DataFinding, ...]

    @property
    def stopping(self) -> tuple[DataFinding, ...]:
        """Those that stop a command."""
        return tuple(each for each in self.findings if each.severity == "stops")

    @property
    def paragraph(self) -> str:
        """The conclusion in one paragraph."""
        doubtful = len(self.findings) - len(self.stopping)
        if not self.findings:
            return f"{self.looks} Nothing was seen that would spoil a score."
        kinds = ", ".join(dict.fromkeys(each.name for each in (*self.stopping, *self.findings)))
        stops = f"{len(self.stopping)} that {'makes' if len(self.stopping) == 1 else 'make'} a score meaningless"
        return f"{self.looks} Seen: {stops}, {doubtful} to look at ({kinds})."

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON document."""
        return asdict(self)

    def accepting(self, names: Collection[str]) -> "DataReport":
        """Return the report with what is accepted as doubtful only. Raises InputError for a name of no kind."""
        check_accepted("--accept", names)
        findings = (
            replace(each, severity="doubtful") if ALL in names or each.name in names else each for each in self.findings
        )
        return replace(self, findings=tuple(findings))

    def check(self, table: str = "") -> None:
        """Raise InputError, one paragraph, where something stops. table: of a recipe, which may accept it."""
        if stopping := self.stopping:
            more = f" And {len(stopping) - 1} more that stop." if len(stopping) > 1 else ""
            names = [*dict.fromkeys(each.name for each in stopping)]
            flags = (
                f"accept = {json.dumps(names)} to {table}" if table else " ".join(f"--accept {name}" for name in names)
            )
            raise InputError(
                f"A score on this data would mean nothing. {stopping[0].sentence}{more} `cloze check` shows all; if it "
                f"is meant so, add {flags}."
            )


def check_accepted(where: str, names: Collection[str]) -> None:
    """Raise InputError for a name of no kind of finding."""
    for name in names:
        check_choice(where, name, (ALL, *NAMES))


def excerpt(text: str) -> str:
    """Return the beginning of a text, in quotes, on one line.

    >>> excerpt("two\\nlines")
    "'two lines'"
    """
    line = " ".join(text.split())
    return repr(line if len(line) <= EXCERPT else line[: EXCERPT - 1] + "…")


def shortened(things: Sequence[str], most: int = SHOWN) -> str:
    """Return things in a row, not too many.

    >>> shortened(["3", "9", "12", "40", "41"])
    '3, 9, 12 and 2 more'
    """
    more = len(things) - most
    return ", ".join(things[:most]) + (f" and {more:,} more" if more > 0 else "")


def several(number: int, thing: str = "row", verb: str = "have") -> str:
    """Return a count with its verb.

    >>> several(1), several(2_000, "question", "are")
    ('1 row has', '2,000 questions are')
    """
    one = {"have": "has", "are": "is"}
    return f"{number:,} {thing} {one.get(verb, verb)}" if number == 1 else f"{number:,} {thing}s {verb}"


def share_of(number: int, total: int, thing: str = "row", verb: str = "have") -> str:
    """Return a count with its share of all and its verb.

    >>> share_of(2, 16)
    '2 rows (12.5 %) have'
    """
    counted, _, own = several(number, thing, verb).rpartition(" ")
    return f"{counted} ({percent(number, total)}) {own}"


def percent(part: float, whole: float) -> str:
    """Return a share.

    >>> percent(1, 8), percent(1, 3000)
    ('12.5 %', '0.033 %')
    """
    share = 100 * part / whole if whole else 0.0
    return f"{share:.1f} %" if share >= 0.1 or not share else f"{share:.2g} %"
