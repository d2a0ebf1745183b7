"""How often a training reads the text of its shard sets: more often than is known to help, or so often that it stops.

An epoch here is one pass over the text of a set: a set with several copies of its documents has as many in itself.
`HELPS` is what is known of masked text; smaller models and smaller texts were not measured. Raffel et al. 2020 (T5),
table 9, span corruption over 34 billion tokens: text seen 64 times is nearly as good as new text (GLUE 82.87 for 83.28,
SQuAD 80.97 for 80.88), 256 times less so (82.62, 79.78), 1,024 times far less (79.55, 76.27), 4,096 times 76.34 and
70.92. BERT's authors read their text some 40 times (Devlin et al. 2018, A.2); half of the steps gave almost a point
less of MNLI (C.1).

`MOST_EPOCHS` is where T5 lost 3.7 points of GLUE: what goes beyond is a slip in most cases, and is refused unless
`max_epochs` allows it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from corpora.errors import InputError
from corpora.store.manifest import Manifest
from trainer.jobs.job import TrainingJob, readings
from trainer.settings.training import TrainingSettings

HELPS, MOST_EPOCHS = 64, 1_000
KNOWN = (
    "Where tokens are masked, 64 passes were nearly as good as new text, 256 and more were worse (Raffel et al. 2020, "
    "table 9)."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRead:
    """A shard set at the end of a phase that reads it.

    phase:    counted from 1
    slots:    that were read of it until then, those of earlier phases and of a checkpoint included
    examples: of its training split, `copies` of each document
    """

    phase: int
    name: str
    slots: int
    examples: int
    copies: int = 1

    @property
    def epochs(self) -> float:
        """The number of times that its examples were read."""
        return self.slots / max(1, self.examples)

    @property
    def passes(self) -> float:
        """The number of times that its text was read."""
        return self.epochs * self.copies


def train_examples(shards: Manifest) -> tuple[int, int]:
    """Return the examples and tokens of the training split, by the ledger of each shard."""
    parts = [part for part in shards.parts if part.labels.get("split") == "train"]
    return sum(part.count_rows("examples") for part in parts), sum(
        part.ledger.figures["example tokens"] for part in parts
    )


def set_read(phase: int, shards: Manifest, slots: int) -> SetRead:
    """Return what is read of an artifact until the end of a phase."""
    examples, copies = train_examples(shards)[0], int(shards.settings.get("copies", 1))
    return SetRead(phase=phase, name=shards.name, slots=slots, examples=examples, copies=copies)


def reads_of(job: TrainingJob) -> Iterator[SetRead]:
    """Yield every set of every phase of a job. Raises InputError where the store does not hold one."""
    for number, reading in enumerate(readings(job), 1):
        for shards, begin, slots in zip(reading.inputs, reading.begins, reading.slots, strict=True):
            yield set_read(number, job.shard_set(shards), begin + slots)


def refuse_repeats(reads: Iterable[SetRead], training: TrainingSettings) -> None:
    """Raise InputError where a set is read more often than `max_epochs` allows; without one, than `MOST_EPOCHS`."""
    for read in reads:
        own = training.phase[read.phase - 1].max_epochs
        most = training.max_epochs if own is None else own
        if (read.epochs > most) if most is not None else (read.passes > MOST_EPOCHS):
            why = (
                f"its max_epochs is {most:g}" if most is not None else f"without max_epochs {MOST_EPOCHS:,} is the most"
            )
            raise InputError(
                f"At the end of phase {read.phase} the shards {read.name!r} would have been read "
                f"{read.epochs:,.2f} times ({read.slots:,} slots of {read.examples:,} examples), and {why}: read less "
                "of them, shorten the phase, add text, or raise max_epochs in [[training.phase]] or [training]."
            )


def repeat_warning(reads: Iterable[SetRead]) -> str:
    """Return a warning of the set that is read most often, if that is more than is known to help; else ""."""
    last = {read.name: read for read in reads if read.passes > HELPS}  # at the end of all phases that read it
    if not last:
        return ""
    read = max(last.values(), key=lambda read: read.passes)
    more = f" (and of {len(last) - 1} more too often)" if len(last) > 1 else ""
    return (
        f"The text of the shards {read.name!r} is read {read.passes:,.0f} times{more}. {KNOWN} Add text, or train for "
        "fewer steps."
    )
