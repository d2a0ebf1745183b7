"""The ledger: what went in equals what came out, by name, or the run fails.

Every part of every stage keeps one. An account counts one unit (records, documents, tokens) twice, by independent
means: the total when the unit came in, and the outcomes when each one went. `Ledger.check` compares the two;
`check_edge` compares what one stage produced with what the next one received.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


class LedgerError(Exception):
    """Raised if rows or tokens were lost or added between two counts. The cause is a bug in this program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Counts of one unit in a stage: the number of inputs, and the number with each outcome. `+` adds two accounts.

    Attributes:
        unit: What is counted, e.g. "documents". Only accounts with the same unit can be added.
        total: Number of inputs.
        outcomes: Number of inputs with each outcome, by name of the outcome.

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
        """Verify that the outcomes add up to the total, and that no outcome is negative.

        Raises:
            LedgerError: If the account does not balance.
        """
        added = sum(self.outcomes.values())
        if added != self.total or (self.outcomes and min(self.outcomes.values()) < 0):
            raise LedgerError(f"{self.total} {self.unit} came in and {added} are accounted for: {dict(self.outcomes)}")

    def sum_outcomes(self, prefix: str) -> int:
        """Return the sum of all outcomes with names that start with `prefix`, e.g. "dropped"."""
        return sum(count for name, count in self.outcomes.items() if name.startswith(prefix))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The counts of a part (a set of files) or an artifact, which account for every input. `+` adds two ledgers.

    Attributes:
        accounts: One account per unit, with the number of inputs and their outcomes.
        figures: Additional sums by name, e.g. the number of sentences. They do not have to balance.
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
        """Return the account of a unit, or an account with a total of 0 if the ledger has none."""
        matches = (account for account in self.accounts if account.unit == unit)
        return next(matches, Account(unit=unit, total=0, outcomes={}))

    def check(self) -> "Ledger":
        """Verify that every account balances, and return this ledger.

        Raises:
            LedgerError: If an account does not balance.
        """
        for account in self.accounts:
            account.check()
        return self

    def to_json(self) -> dict[str, Any]:
        """Convert to the JSON object that is stored in manifests and part records. Its keys are sorted.

        "accounts" maps each unit to its "total" and "outcomes". "figures" maps the name of each additional sum to its
        value.
        """
        accounts = {
            a.unit: {"total": a.total, "outcomes": dict(sorted(a.outcomes.items()))}
            for a in sorted(self.accounts, key=lambda account: account.unit)
        }
        return {"accounts": accounts, "figures": dict(sorted(self.figures.items()))}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Ledger":
        """Create a Ledger from the JSON object that `to_json` returns. It is not checked for balance.

        Raises:
            KeyError: If a field is missing.
        """
        accounts = tuple(
            Account(unit=unit, total=entry["total"], outcomes=entry["outcomes"])
            for unit, entry in data["accounts"].items()
        )
        return Ledger(accounts=accounts, figures=data["figures"])


def sum_ledgers(ledgers: Iterable[Ledger]) -> Ledger:
    """Verify that each ledger (a set of counts) balances, and return the sum of all ledgers.

    Each ledger is verified separately, because errors in two ledgers could cancel out. For many ledgers, this is
    faster than `+`.

    Raises:
        LedgerError: If a ledger does not balance.
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
    """Verify that the number of units produced by one stage equals the number received by the next one.

    Args:
        num_given: The number produced.
        num_received: The number received.
        unit: What is counted, for the message, e.g. "documents".
        edge: Names the two stages, for the error message.

    Raises:
        LedgerError: If the numbers differ.
    """
    if num_given != num_received:
        raise LedgerError(f"{edge}: {num_given} {unit} were given and {num_received} were received")
