"""What a sample cannot tell for sure: copies that it cannot see, and rules that would stop the run.

A copy is seen where the sample holds both documents, so a sample of one in a hundred sees one pair in ten
thousand. What it shows is no estimate then, but it bounds what there can be: of pairs that are seen `seen` times, at
most `most_seen(seen)` were to be expected, in 95 of 100 cases (Poisson).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from corpora.judging.documents import RuleOverLimit, most_dropped
from corpora.judging.settings import DocumentsSettings
from corpora.store.manifest import Part
from flows.run.units import counted

WIDE = 0.1  # a range that is narrower is not told


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRange:
    """How many documents are no copy of another: at least, as estimated, at most."""

    low: float
    estimated: float
    high: float

    @property
    def is_wide(self) -> bool:
        """Whether it is worth telling."""
        return self.estimated > 0 and (self.high - self.low) > WIDE * self.estimated

    def around(self, value: float) -> list[int]:
        """The range of what grows with these documents."""
        return [round(value * self.low / self.estimated), round(value * self.high / self.estimated)]


def most_seen(seen: int) -> float:
    """The largest expectation with which one sees so few in one of 20 cases.

    >>> round(most_seen(0), 1), round(most_seen(10), 1)
    (3.0, 17.0)
    """
    return 3.0 if not seen else (seen + 1) * (1 - 1 / (9 * (seen + 1)) + 1.645 / (3 * math.sqrt(seen + 1))) ** 3


def kept_range(whole: float, sampled: int, removed: int, estimated: float) -> KeptRange:
    """How many of the documents of a whole are no copies, by a sample of which so many are.

    >>> kept_range(1_000, 1_000, 100, 900.0)
    KeptRange(low=900.0, estimated=900.0, high=900.0)
    >>> kept_range(100_000, 1_000, 0, 100_000.0)
    KeptRange(low=70000.0, estimated=100000.0, high=100000.0)
    >>> kept_range(10_000, 5_000, 0, 10_000.0)
    KeptRange(low=9988.0, estimated=10000.0, high=10000.0)
    """
    if sampled >= whole or not sampled:
        return KeptRange(low=estimated, estimated=estimated, high=estimated)
    share = sampled / whole
    distinct = sampled - removed
    low = max(float(distinct), whole - most_seen(removed) / share**2)
    high = whole * distinct / sampled
    return KeptRange(low=min(low, estimated), estimated=estimated, high=max(high, estimated))


def rules_that_stop(
    source: str, parts: Sequence[tuple[Part, float]], settings: DocumentsSettings
) -> list[RuleOverLimit]:
    """The rules over their bound in a source, by the parts of a sample and what each of them stands for."""
    outcomes: dict[str, float] = {}
    for part, times in parts:
        for outcome, count in part.ledger.account("records").outcomes.items():
            outcomes[outcome] = outcomes.get(outcome, 0.0) + count * times
    parsed = sum(count for outcome, count in outcomes.items() if not outcome.startswith("dropped: parse:"))
    found = []
    for outcome, times in outcomes.items():
        _, step, reason = [*outcome.split(": ", 2), "", ""][:3]
        asked = step == "rules" or step in [entry.step.kind for entry in settings.steps]
        if asked and times > settings.max_rule_share * parsed:
            rule = RuleOverLimit(
                source=source,
                step=step,
                reason=reason,
                dropped=round(times),
                documents=round(parsed),
                bound=settings.max_rule_share,
                stops=times > most_dropped(round(parsed), settings),
            )
            found.append(rule)
    return found


def nothing_seen(records: int, whole: float) -> str:
    """What a sample of which nothing is left says of the whole.

    >>> nothing_seen(300, 1_000_000)
    'Of 300 records of the sample none is left, so of about 1,000,000 at most 10,000 are (95 of 100 cases).'
    """
    most = min(whole, whole * most_seen(0) / max(1, records))
    return (
        f"Of {counted(records, 'record')} of the sample none is left, so of about {round(whole):,} at most "
        f"{round(most):,} are (95 of 100 cases)."
    )
