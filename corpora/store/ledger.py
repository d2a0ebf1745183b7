"""The ledger: what went in equals what came out, by name, or the run fails.

Every part of every stage keeps one. An account counts one unit (records, documents, tokens) twice, by independent
means: the total when the unit came in, and the outcomes when each one went. `Ledger.check` compares the two;
`check_edge` compares what one stage gave with what the next received.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


class LedgerError(Exception):
    """Rows or tokens appeared or vanished between two counts: a fault of ours, never the user's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The counts of one unit in a stage. Two accounts of a unit can be added.

    unit:     what is counted, as in "documents"
    total:    how many came in
    outcomes: how many ended how, by name

    >>> account = Account(unit="records", total=58, outcomes={"documents": 40, "dropped: redirect": 18})
    >>> account.check()
    """

    unit: str
    total: int
    outcomes: Mapping[str, int]

    def __add__(self, other: "Account") -> "Account":
        names = sorted({*self.outcomes, *other.outcomes})
        sums = {name: self.outcomes.get(name, 0) + other.outcomes.get(name, 0) for name in names}
        return Account(unit=self.unit, total=self.total + other.total, outcomes=sums)

    def check(self) -> None:
        """Raise LedgerError unless the outcomes add up to the total and none is below zero."""
        added = sum(self.outcomes.values())
        if added != self.total or (self.outcomes and min(self.outcomes.values()) < 0):
            raise LedgerError(f"{self.total} {self.unit} came in and {added} are accounted for: {dict(self.outcomes)}")

    def sum_outcomes(self, prefix: str) -> int:
        """Return the sum of the outcomes with names that begin with `prefix`, as in `sum_outcomes("dropped")`."""
        return sum(count for name, count in self.outcomes.items() if name.startswith(prefix))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The accounts of a part or an artifact, one per unit, and figures that are sums but balance nothing (bytes,
    sentences).
    """

    accounts: tuple[Account, ...] = ()
    figures: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        units = [account.unit for account in self.accounts]
        assert len(units) == len({*units}), f"a ledger keeps one account a unit, not {units}"

    def __add__(self, other: "Ledger") -> "Ledger":
        mine, theirs = ({a.unit: a for a in ledger.accounts} for ledger in (self, other))
        units = sorted({*mine, *theirs})
        summed = (
            mine[unit] + theirs[unit] if unit in mine and unit in theirs else mine.get(unit) or theirs[unit]
            for unit in units
        )
        names = sorted({*self.figures, *other.figures})
        figures = {name: self.figures.get(name, 0) + other.figures.get(name, 0) for name in names}
        return Ledger(accounts=tuple(summed), figures=figures)

    def find_account(self, unit: str) -> Account:
        """Return the account of a unit; an empty one if the ledger has none."""
        matches = (account for account in self.accounts if account.unit == unit)
        return next(matches, Account(unit=unit, total=0, outcomes={}))

    def check(self) -> "Ledger":
        """Raise LedgerError unless every account balances; return this ledger."""
        for account in self.accounts:
            account.check()
        return self

    def to_json(self) -> dict[str, Any]:
        """Return the form that the manifest holds, sorted by name."""
        accounts = {
            a.unit: {"total": a.total, "outcomes": dict(sorted(a.outcomes.items()))}
            for a in sorted(self.accounts, key=lambda account: account.unit)
        }
        return {"accounts": accounts, "figures": dict(sorted(self.figures.items()))}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Ledger":
        """Return the ledger that `to_json` wrote."""
        accounts = tuple(
            Account(unit=unit, total=entry["total"], outcomes=entry["outcomes"])
            for unit, entry in data["accounts"].items()
        )
        return Ledger(accounts=accounts, figures=data["figures"])


def sum_ledgers(ledgers: Iterable[Ledger]) -> Ledger:
    """Check each ledger and add them up; two that are wrong by the same amount do not make one that is right.

    The sum is that of `Ledger.__add__`, faster for many: names are put in order once at the end. Raises LedgerError.
    """
    totals, figures = defaultdict[str, int](int), defaultdict[str, int](int)
    outcomes = defaultdict[str, defaultdict[str, int]](lambda: defaultdict(int))
    for ledger in ledgers:
        for account in ledger.check().accounts:
            totals[account.unit] += account.total
            _add_counts(outcomes[account.unit], account.outcomes)
        _add_counts(figures, ledger.figures)
    accounts = (
        Account(unit=unit, total=totals[unit], outcomes=dict(sorted(outcomes[unit].items()))) for unit in totals
    )
    return Ledger(
        accounts=tuple(sorted(accounts, key=lambda account: account.unit)), figures=dict(sorted(figures.items()))
    )


def _add_counts(sums: defaultdict[str, int], counts: Mapping[str, int]) -> None:
    for name, count in counts.items():
        sums[name] += count


def check_edge(num_given: int, num_received: int, unit: str, edge: str) -> None:
    """Raise LedgerError unless one stage gave as many as the next received.

    unit: what is counted
    edge: what lies between the two counts, for the message
    """
    if num_given != num_received:
        raise LedgerError(f"{edge}: {num_given} {unit} were given and {num_received} were received")
