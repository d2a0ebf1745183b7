"""The data that a model has seen, in its manifest: slots, deleted examples and tokens by phase and set. No torch.

Promise: what was read and what was deleted add up to the slots that the phase gave the set, which follow from the
settings alone; both are counted over all processes and every resume.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Json, Manifest
from shards.reading.loader import TALLIES
from trainer.jobs.job import TrainingJob
from trainer.jobs.phases import readings, train_examples

_UNIT = re.compile(r"slots of phase (\d+): (.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPart:
    """The part of a shard set that a phase read.

    name:     of the set's artifact
    read:     slots that had an example
    deleted:  slots whose example was deleted
    tokens:   of what was read, specials included
    masked:   tokens that were to be guessed
    examples: of the whole set
    """

    phase: int
    name: str
    read: int
    deleted: int
    tokens: int
    masked: int
    examples: int

    @property
    def epochs(self) -> float:
        """The number of times that as many slots would have read the whole set."""
        return (self.read + self.deleted) / max(1, self.examples)


def seen_ledger(job: TrainingJob, facts: Mapping[str, Json]) -> Ledger:
    """Return an account of slots for each phase and shard set, and its tokens. facts: of the export"""
    accounts, figures = list[Account](), dict[str, int]()
    for phase, (reading, tallies) in enumerate(zip(readings(job), facts["seen"], strict=True), 1):
        for shards, slots, counts in zip(reading.inputs, reading.slots, tallies, strict=True):
            tally = dict(zip(TALLIES, counts, strict=True))
            outcomes = {"read": tally["slots"] - tally["deleted"], "deleted": tally["deleted"]}
            called = f"of phase {phase}: {shards.name}"
            accounts.append(Account(unit=f"slots {called}", total=slots, outcomes=outcomes))
            examples, _ = train_examples(job.shard_set(shards))
            figures |= {f"tokens {called}": tally["tokens"], f"masked tokens {called}": tally["masked"]}
            figures |= {f"examples {called}": examples}
    return Ledger(accounts=tuple(accounts), figures=figures)


def seen_in(model: Manifest) -> Iterator[SeenPart]:
    """Yield what the manifest of a model records, phase by phase."""
    units = ((account, _UNIT.fullmatch(account.unit)) for account in model.ledger.accounts)
    accounts = [(int(match[1]), match[2], account.outcomes) for account, match in units if match]
    for phase, name, outcomes in sorted(accounts, key=lambda one: one[:2]):
        figures, called = model.ledger.figures, f"of phase {phase}: {name}"
        yield SeenPart(
            phase=phase,
            name=name,
            read=outcomes["read"],
            deleted=outcomes["deleted"],
            tokens=figures[f"tokens {called}"],
            masked=figures[f"masked tokens {called}"],
            examples=figures[f"examples {called}"],
        )
