"""The phases of a training: the shard sets that each reads, their shares of its slots, and where reading resumes.

`settle` decides it when a model is planned: weights and quotas become whole numbers; quotas, tokens and epochs become
steps. `readings` of `job.py` repeats it for every process of a job. No torch.

A quota of tokens is a number of slots, by the average length of the set's examples (the shards' ledger has the exact
number of examples and tokens; a slot whose example was deleted since counts as one). So the number of steps is known
before the first one, as the learning rate needs; what was actually read is counted (`seen_ledger`). A quota beyond
an epoch reads the set again, in another order and under other masks, unless `max_epochs` forbids it.

Promise: what was read and what was deleted add up to the slots that the phase gave the set, which follow from the
settings alone; both are counted over all processes and every resume.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from types import MappingProxyType

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Manifest
from shards.reading.loader import TALLY_NAMES
from shards.reading.order import BLOCK_SLOTS, Interleave, to_whole_shares
from trainer.jobs.job import TrainingJob, readings
from trainer.jobs.repeats import SetRead, refuse_repeats, set_read, train_examples
from trainer.settings.phases import MOST_STEPS, PhaseSettings, num_tokens
from trainer.settings.training import TrainingSettings

_UNIT = re.compile(r"slots of phase (\d+): (.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A training whose phases are settled to the slot.

    training: with the steps of each phase
    shards:   what the phases read, one after the other; of a mixture in the order of contents
    shares:   of each phase
    """

    training: TrainingSettings
    shards: tuple[Manifest, ...]
    shares: tuple[tuple[int, ...], ...]

    def reads(self, before: Mapping[str, int] = MappingProxyType({})) -> Iterator[SetRead]:
        """Yield what is read of each set until the end of each phase. before: slots read earlier, by content"""
        read, left = {**before}, iter(self.shards)
        for number, (phase, shares) in enumerate(zip(self.training.phase, self.shares, strict=True), 1):
            for slots in Interleave(shares).count_before(phase.slots):
                manifest = next(left)
                read[manifest.content] = read.get(manifest.content, 0) + slots
                yield set_read(number, manifest, read[manifest.content])


def settle(
    training: TrainingSettings, shards: Sequence[Manifest], before: Mapping[str, int] = MappingProxyType({})
) -> Settled:
    """Weights and quotas as shares of slots, quotas as steps.

    shards: what the phases read, one after the other; of a mixture in its order
    before: slots of each set, by content, that were read before the first phase
    Raises InputError where a mixture cannot be read so, or a set would be read too often.
    """
    left, phases, sets, shares = list(shards), list[PhaseSettings](), list[Manifest](), list[tuple[int, ...]]()
    for number, phase in enumerate(training.phase, 1):
        own = [left.pop(0) for _ in phase.mixture or (None,)]
        if len(own) > 1:
            _check_mixture(f"phase {number}", own)
        parts = _parts(f"phase {number}", phase, own)
        phase = _with_ramp(f"phase {number}", phase, parts, own)
        steps = _steps(f"phase {number}", phase, parts, own)
        order = sorted(range(len(own)), key=lambda component: own[component].content)
        phases.append(replace(phase, steps=steps, tokens=None, epochs=None))
        sets += [own[component] for component in order]
        shares.append(to_whole_shares([Fraction(parts[component]) for component in order]))
    assert not left, "every component of every phase has its shards"
    settled = Settled(training=replace(training, phase=tuple(phases)), shards=tuple(sets), shares=tuple(shares))
    refuse_repeats(settled.reads(before), training)
    return settled


def _parts(what: str, phase: PhaseSettings, shards: Sequence[Manifest]) -> Sequence[Fraction | int]:
    """The part of each component: its weight, or the slots of its quota. Raises InputError where one is too small."""
    quotas = zip(phase.quotas, shards, strict=True) if phase.quotas else ()
    parts: Sequence[Fraction | int] = [_slots_of(what, tokens, manifest) for tokens, manifest in quotas]
    parts = parts or phase.weights or [1]
    for part, manifest in zip(parts, shards, strict=True):
        if part * BLOCK_SLOTS < sum(parts):
            raise InputError(
                f"The shards {manifest.name!r} are less than a millionth of the mixture of {what}: leave them out, or "
                "give them more."
            )
    return parts


def _with_ramp(
    what: str, phase: PhaseSettings, parts: Sequence[Fraction | int], shards: Sequence[Manifest]
) -> PhaseSettings:
    """The same with the steps of its ramp: the mean batch of which is half way between its first and its last."""
    ramp = phase.batch_ramp
    if ramp is None or ramp.steps:
        return phase
    tokens = num_tokens("training.phase.batch_ramp.tokens", ramp.tokens or 0)
    steps = ceil(2 * tokens / _mean_tokens(what, parts, shards) / (ramp.first + phase.batch))
    return replace(phase, batch_ramp=replace(ramp, steps=steps, tokens=None))


def _steps(what: str, phase: PhaseSettings, parts: Sequence[Fraction | int], shards: Sequence[Manifest]) -> int:
    """Those that the phase has, or as many as its tokens, epochs or quotas take. Raises InputError for too many."""
    if phase.steps:
        return phase.steps
    slots = ceil(sum(parts))
    if phase.tokens is not None:
        slots = ceil(num_tokens("training.phase.tokens", phase.tokens) / _mean_tokens(what, parts, shards))
    if phase.epochs is not None:
        slots = ceil(Fraction(repr(phase.epochs)) * _some_examples(what, shards[0])[0])
    steps = phase.steps_of(slots)
    if steps > MOST_STEPS:
        raise InputError(f"The length of {what} would take {steps:,} steps: give a smaller one, or a larger batch.")
    return steps


def _mean_tokens(what: str, parts: Sequence[Fraction | int], shards: Sequence[Manifest]) -> Fraction:
    """Return the tokens of a slot on average."""
    counts = [_some_examples(what, manifest) for manifest in shards]
    means = [part * Fraction(held, examples) for part, (examples, held) in zip(parts, counts, strict=True)]
    return Fraction(sum(means)) / Fraction(sum(parts))


def _some_examples(what: str, shards: Manifest) -> tuple[int, int]:
    """Return the examples and tokens of the training split. Raises InputError where there is none."""
    examples, held = train_examples(shards)
    if not examples:
        raise InputError(_no_example(what, shards))
    return examples, held


def _slots_of(what: str, tokens: int, shards: Manifest) -> int:
    """The slots in which so many tokens are, on average over the set."""
    examples, held = _some_examples(what, shards)
    return ceil(Fraction(tokens * examples, held))


def _check_mixture(what: str, shards: Sequence[Manifest]) -> None:
    """Raise InputError unless sets can be read as one."""
    for number, manifest in enumerate(shards):
        if not train_examples(manifest)[0]:
            raise InputError(_no_example(what, manifest))
        for other in shards[:number]:
            if other.content == manifest.content:
                raise InputError(
                    f"The shards {other.name!r} and {manifest.name!r} of {what} hold the same examples: name one of "
                    "them in the mixture, or give one another seed."
                )
            if _learnt(other) != _learnt(manifest):
                raise InputError(
                    f"The shards {other.name!r} and {manifest.name!r} of {what} cannot be mixed: input = "
                    f"{other.facts['input']!r} has {_learnt(other)}, input = {manifest.facts['input']!r} has "
                    f"{_learnt(manifest)}. Give both inputs that teach the same, or read them in phases of their own."
                )


def _learnt(shards: Manifest) -> str:
    """Return in words what examples teach."""
    labels, masks = shards.facts["labels"], "no masks" if shards.facts["masking"] == "none" else "masks"
    return f"{masks} and {f'labels of {labels}' if labels else 'no labels of pairs'}"


def _no_example(what: str, shards: Manifest) -> str:
    return (
        f"The shards {shards.name!r} of {what} have no example to train on: give them more text, or a smaller held-out "
        "share, or leave them out of the mixture."
    )


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
            tally = dict(zip(TALLY_NAMES, counts, strict=True))
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
