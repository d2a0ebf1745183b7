"""A training job: everything that a process needs to train a model, as one JSON file. No torch.

The `identity` of a job contains everything that affects the weights. The rest locates files on this machine.

When a model is planned, `settle_phases` decides which shard sets each phase reads, and in which shares. It converts
weights and quotas to whole numbers, and quotas, tokens and epochs to steps. `list_readings` repeats this on every
process.

A quota of tokens is converted to a number of slots (positions in the training order) by the average length of the set's
examples. The ledger of the shards has the exact number of examples and tokens; a slot counts even if its example was
deleted. So the number of steps is known before the first one, which the learning rate requires. What was actually read
is counted (`build_seen_ledger`). If a quota exceeds an epoch, the set is read again, in another order and with other
masks, unless `max_epochs` forbids it.

Promise: the numbers of read and of deleted examples add up to the slots that the phase assigned to the set, which
depend only on the settings. Both are counted over all processes and all resumed runs.

Repeats: an epoch is one pass over the examples of a set. If the set has several copies of its documents, an epoch reads
the text once for each copy. `MAX_HELPFUL_PASSES` reflects what is known about masked text; smaller models and smaller
texts were not measured. Raffel et al. 2020 (T5), table 9, span corruption over 34 billion tokens: text seen 64 times is
nearly as good as new text (GLUE 82.87 instead of 83.28, SQuAD 80.97 instead of 80.88). 256 times is worse (82.62,
79.78), then 1,024 times (79.55, 76.27) and 4,096 times (76.34, 70.92). BERT's authors read their text some 40 times
(Devlin et al. 2018, A.2); half of the steps gave almost a point less on MNLI (C.1). At `MAX_PASSES`, T5 lost 3.7 points
on GLUE. More passes are usually a mistake, and are refused unless `max_epochs` allows them.
"""

import dataclasses
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from pathlib import Path
from types import MappingProxyType

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.store.checked_folder import COMPLETE_FILE, read_complete_file
from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.settings import bind_settings, to_settings_json
from corpora.store.stage import read_manifest
from shards.reading.loader import TALLY_NAMES
from shards.reading.order import BLOCK_SLOTS, Interleave, to_whole_shares
from trainer.families.contract import ModelInputs
from trainer.settings.model import ModelSettings, to_model_json
from trainer.settings.phases import MAX_STEPS, PhaseSettings, parse_tokens
from trainer.settings.training import TrainingSettings
from trainer.start_weights import Origin, StartModel

JOB = "job.json"  # in a model's work folder: the job that is done there
CACHE = Path("~/.cache/cloze")  # for what is of an object store and must be on this machine


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInput:
    """An artifact of the store that a training run reads.

    Attributes:
        folder: The path of the artifact's folder in the store.
        content: The digest of the artifact's content.
    """

    folder: str
    content: str

    @property
    def name(self) -> str:
        """The name of the artifact, which is part of its folder's path."""
        return self.folder.split("/")[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJob:
    """A job that trains one model: the complete input of a training run.

    Attributes:
        name: The name of the model.
        store: Address of the store that holds the shards.
        shards: The shard sets of all phases, in phase order. A phase with a mixture has one for each component.
        vocabulary: The vocabulary of the shards.
        model: The settings of the model.
        training: The settings of the training, with the steps of each phase.
        inputs: The properties of the vocabulary and the examples that the model needs.
        work: Local folder for checkpoints, metrics, logs and the export. It belongs to one model.
        shares: For each phase, the number of slots (positions in the training order) of each component in a period of
            the mixture; empty if no phase has a mixture.
        source: Address of the object store from which the shards of the train split are fetched when they are read;
            empty if all shards are in `store`.
        start: The model that training starts from; None for random weights.
        origin: The checkpoint of another run to continue from; None to start from the beginning.
        teacher: The model that a student learns from; None for other objectives.
    """

    name: str
    store: str
    shards: tuple[JobInput, ...]
    vocabulary: JobInput
    model: ModelSettings
    training: TrainingSettings
    inputs: ModelInputs
    work: str
    shares: tuple[tuple[int, ...], ...] = ()
    source: str = ""
    start: StartModel | None = None
    origin: Origin | None = None
    teacher: StartModel | None = None

    def __post_init__(self) -> None:
        assert not self.shares or len(self.shares) == len(self.training.phase), "shares are of all phases, or of none"
        assert len(self.shards) == sum(map(len, self.phase_shares)), "every component of a phase is a shard set"

    @property
    def phase_shares(self) -> tuple[tuple[int, ...], ...]:
        """For each phase, the number of slots of each component in a period of its mixture.

        A slot is a position in the training order. The value is (1,) for a phase without a mixture.
        """
        return self.shares or ((1,),) * len(self.training.phase)

    def get_inputs(self, phase: int) -> tuple[JobInput, ...]:
        """Return the shard sets that a phase reads. `phase` is zero-based."""
        first = sum(map(len, self.phase_shares[:phase]))
        return self.shards[first : first + len(self.phase_shares[phase])]

    @property
    def identity(self) -> dict[str, Json]:
        """Everything that affects the weights, as a JSON object. A resumed run must have the same identity."""
        return {
            "model": to_model_json(self.model),
            "training": to_settings_json(self.training),
            "vocabulary": self.vocabulary.content,
            "shards": [shards.content for shards in self.shards],
            **({"shares": [list(shares) for shares in self.shares]} if self.shares else {}),
            **({"start": self.start.content} if self.start is not None else {}),
            **({"origin": self.origin.identity} if self.origin is not None else {}),
            **({"teacher": self.teacher.content} if self.teacher is not None else {}),
        }

    def to_json(self) -> str:
        """Serialize the job to a JSON document."""
        return json.dumps(dataclasses.asdict(self), indent=1, ensure_ascii=False)

    @staticmethod
    def from_json(data: str) -> "TrainingJob":
        """Build a job from the JSON document that `to_json` returned.

        Raises InputError if a key is unknown or a value is out of range.
        """
        return bind_settings(TrainingJob, json.loads(data), "job")

    def read_shard_set(self, shards: JobInput) -> Manifest:
        """Read the manifest of one of the job's shard sets.

        Raises InputError if the shard set is missing from the store, or if its content differs from what the job
        expects.
        """
        manifest = read_manifest(Place(self.store), shards.folder)
        if manifest is None or manifest.content != shards.content:
            raise InputError(
                f"The store {self.store} does not hold the shards {shards.folder} with the content that this training "
                "was planned for: build them first, or plan the training again."
            )
        return manifest

    @property
    def shard_sets(self) -> list[Manifest]:
        """The manifests of all shard sets, in the order of `shards`, read from the store at each access.

        Raises InputError if one is missing from the store, or if its content differs from what the job expects.
        """
        return [self.read_shard_set(shards) for shards in self.shards]

    @property
    def fetched_split(self) -> str:
        """The split whose files are fetched from an object store when they are read: "train", or "" if none is."""
        return "train" if self.source else ""

    @property
    def windows_folder(self) -> Path:
        """The local folder for shard files that are fetched from an object store when they are read."""
        return Path(self.store).parent / "windows"

    @property
    def export(self) -> Path:
        """The path of the folder to which the finished model is exported."""
        return Path(self.work) / "export"

    @property
    def export_folders(self) -> tuple[str, ...]:
        """The subfolder of each of the model's parts in the export, with a slash at its end, such as "generator/".

        The main part is first, and its subfolder is "".
        """
        parts = self.model.objective_settings.list_parts(self.model.family_row, self.inputs)
        return tuple(f"{part.folder}/" if part.folder else "" for part in parts)

    def read_export(self) -> dict[str, Json] | None:
        """Read the facts of the exported model, or return None if it is incomplete.

        Returns:
            A dictionary with the keys `identity`, `steps`, `parameters`, `seen` (counts by phase and shard set),
            `files` (size and digest by name), and one for each of the counts, such as `tokens` and `sequences`.

        Raises:
            InputError: If the export belongs to another model.
            Damaged: If the JSON document in the export is damaged.
        """
        if not (self.export / COMPLETE_FILE).exists():
            return None
        facts = read_complete_file(self.export)
        self.check_identity(str(self.export), facts["identity"])
        return facts

    def check_identity(self, path: str, identity: Mapping[str, Json]) -> None:
        """Raise InputError if the identity recorded in a folder differs from the identity of this job.

        Args:
            path: The folder, for the message.
            identity: The recorded identity.
        """
        differing = _find_difference(identity, json.loads(json.dumps(self.identity)))
        if differing is not None:
            key, theirs, ours = differing
            raise InputError(
                f"{path} belongs to another model: its {key} is {theirs!r}, but here it is {ours!r}. Train in a work "
                f"folder other than {self.work}, or remove that folder to start over."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The shard sets that a phase reads.

    Attributes:
        inputs: The shard sets; more than one if the phase reads a mixture.
        shares: The number of slots (positions in the training order) of each set in a period of the mixture.
        begins: The number of slots of each set that earlier phases have read.
        slots: The number of slots of each set that the phase reads.
    """

    inputs: tuple[JobInput, ...]
    shares: tuple[int, ...]
    begins: tuple[int, ...]
    slots: tuple[int, ...]


def list_readings(job: TrainingJob) -> list[Reading]:
    """List what each phase reads: its shard sets, and where it starts in each of them.

    A set continues where an earlier phase stopped reading it.
    """
    read, readings = {} if job.origin is None else {**job.origin.read}, list[Reading]()
    for number, (phase, shares) in enumerate(zip(job.training.phase, job.phase_shares, strict=True)):
        inputs, slots = job.get_inputs(number), Interleave(shares).count_before(phase.slots)
        begins = tuple(read.get(each.content, 0) for each in inputs)
        read |= {each.content: begin + more for each, begin, more in zip(inputs, begins, slots, strict=True)}
        readings.append(Reading(inputs=inputs, shares=shares, begins=begins, slots=slots))
    return readings


def _find_difference(theirs: Json, ours: Json, key: str = "") -> tuple[str, Json, Json] | None:
    """Find the first difference between two JSON documents.

    Args:
        theirs: One document.
        ours: The other document.
        key: The dotted path of the documents within larger ones; "" at the top.

    Returns:
        The dotted path of the difference and both values, or None if the documents are equal.
    """
    if not isinstance(theirs, dict) or not isinstance(ours, dict):
        return None if theirs == ours else (key, theirs, ours)
    for name in [*ours, *(name for name in theirs if name not in ours)]:
        differing = _find_difference(theirs.get(name), ours.get(name), f"{key}.{name}" if key else name)
        if differing is not None:
            return differing
    return None


MAX_HELPFUL_PASSES, MAX_PASSES = 64, 1_000
REPEATS_EVIDENCE = (
    "Where tokens are masked, 64 passes were nearly as good as new text, 256 and more were worse (Raffel et al. 2020, "
    "table 9)."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRead:
    """How much of a shard set has been read by the end of a phase.

    Attributes:
        phase: One-based number of the phase.
        name: The name of the shard set.
        slots: The number of slots (positions in the training order) that have been read, including by earlier phases
            and before the checkpoint that the run continues from.
        examples: The number of examples in the training split, which has `copies` examples for each document.
        copies: The number of copies (passes over the documents with other masks) in the shard set.
    """

    phase: int
    name: str
    slots: int
    examples: int
    copies: int = 1

    @property
    def epochs(self) -> float:
        """The number of times that all examples have been read, which may be fractional."""
        return self.slots / max(1, self.examples)

    @property
    def passes(self) -> float:
        """The number of times that the text has been read, which may be fractional.

        An epoch reads it once for each copy.
        """
        return self.epochs * self.copies


def count_train_examples(shards: Manifest) -> tuple[int, int]:
    """Return the number of examples and the number of their tokens in the training split of a shard set."""
    parts = [part for part in shards.parts if part.labels.get("split") == "train"]
    return sum(part.count_rows("examples") for part in parts), sum(
        part.ledger.figures["example tokens"] for part in parts
    )


def check_repeats(reads: Iterable[SetRead], training: TrainingSettings) -> None:
    """Check that no shard set is read more often than `max_epochs` allows or, without it, MAX_PASSES times.

    Args:
        reads: How much of each shard set has been read by the end of each phase.
        training: The settings, with `max_epochs` of each phase and of the whole run.

    Raises:
        InputError: If a shard set is read too often.
    """
    for read in reads:
        own = training.phase[read.phase - 1].max_epochs
        most = training.max_epochs if own is None else own
        if (read.epochs > most) if most is not None else (read.passes > MAX_PASSES):
            why = (
                f"its max_epochs is {most:g}" if most is not None else f"without max_epochs {MAX_PASSES:,} is the most"
            )
            raise InputError(
                f"At the end of phase {read.phase} the shards {read.name!r} would have been read "
                f"{read.epochs:,.2f} times ({read.slots:,} slots of {read.examples:,} examples), and {why}: read less "
                "of them, shorten the phase, add text, or raise max_epochs in [[training.phase]] or [training]."
            )


def describe_repeats(reads: Iterable[SetRead]) -> str:
    """Return a warning about the shard set with the text that is read most often, or "" if none is read too often.

    "Too often" means more than MAX_HELPFUL_PASSES times. `reads` are in phase order.
    """
    last = {
        read.name: read for read in reads if read.passes > MAX_HELPFUL_PASSES
    }  # at the end of all phases that read it
    if not last:
        return ""
    read = max(last.values(), key=lambda read: read.passes)
    more = f" (and of {len(last) - 1} more too often)" if len(last) > 1 else ""
    return (
        f"The text of the shards {read.name!r} is read {read.passes:,.0f} times{more}. {REPEATS_EVIDENCE} Add text, or "
        "train for fewer steps."
    )


_UNIT = re.compile(r"slots of phase (\d+): (.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledTraining:
    """Training settings with the exact length of each phase.

    Attributes:
        training: The settings, with the number of steps of each phase.
        shards: The shard sets of all phases, in phase order. Those of a mixture are sorted by content digest.
        shares: For each phase, the number of slots (positions in the training order) of each set in a period of the
            mixture.
    """

    training: TrainingSettings
    shards: tuple[Manifest, ...]
    shares: tuple[tuple[int, ...], ...]

    def iter_reads(self, before: Mapping[str, int] = MappingProxyType({})) -> Iterator[SetRead]:
        """Yield how much of each shard set has been read by the end of each phase.

        Args:
            before: The number of slots that were read before the first phase, by content digest of the shard set.
        """
        read, left = {**before}, iter(self.shards)
        for number, (phase, shares) in enumerate(zip(self.training.phase, self.shares, strict=True), 1):
            for slots in Interleave(shares).count_before(phase.slots):
                manifest = next(left)
                read[manifest.content] = read.get(manifest.content, 0) + slots
                yield SetRead(
                    phase=number,
                    name=manifest.name,
                    slots=read[manifest.content],
                    examples=count_train_examples(manifest)[0],
                    copies=int(manifest.settings.get("copies", 1)),
                )


def settle_phases(
    training: TrainingSettings, shards: Sequence[Manifest], before: Mapping[str, int] = MappingProxyType({})
) -> SettledTraining:
    """Compute the number of steps of each phase, and the exact shares of its mixture.

    Args:
        training: The settings as given in the recipe. The weights and quotas of a mixture are converted to shares of
            slots, and quotas also determine the number of steps.
        shards: The shard sets of all phases, in phase order. Those of a mixture are in the order of the recipe.
        before: The number of slots (positions in the training order) that were read before the first phase, by content
            digest of the shard set.

    Raises:
        InputError: If sets cannot be mixed, if a phase would take too many steps, or if a set would be read too often.
    """
    left, phases, sets, shares = list(shards), list[PhaseSettings](), list[Manifest](), list[tuple[int, ...]]()
    for number, phase in enumerate(training.phase, 1):
        own = [left.pop(0) for _ in phase.mixture or (None,)]
        if len(own) > 1:
            _check_mixture(f"phase {number}", own)
        parts = _compute_parts(f"phase {number}", phase, own)
        phase = _with_ramp(f"phase {number}", phase, parts, own)
        steps = _count_steps(f"phase {number}", phase, parts, own)
        order = sorted(range(len(own)), key=lambda component: own[component].content)
        phases.append(replace(phase, steps=steps, tokens=None, epochs=None))
        sets += [own[component] for component in order]
        shares.append(to_whole_shares([Fraction(parts[component]) for component in order]))
    assert not left, "every component of every phase has its shards"
    settled = SettledTraining(training=replace(training, phase=tuple(phases)), shards=tuple(sets), shares=tuple(shares))
    check_repeats(settled.iter_reads(before), training)
    return settled


def _compute_parts(what: str, phase: PhaseSettings, shards: Sequence[Manifest]) -> Sequence[Fraction | int]:
    """Compute the weight of each component of a phase, or its number of slots if the phase has quotas.

    A slot is a position in the training order. Raises InputError if a weight or a number is too small.

    Args:
        what: The name of the phase, for messages.
        phase: The settings of the phase.
        shards: The shard sets of the phase, one per component.
    """
    parts: Sequence[Fraction | int] = phase.weights or [1]
    if phase.quotas:  # the slots that hold so many tokens on average
        counts = [_count_examples(what, manifest) for manifest in shards]
        each = zip(phase.quotas, counts, strict=True)
        parts = [ceil(Fraction(tokens * examples, held)) for tokens, (examples, held) in each]
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
    """Return a phase's settings with its batch ramp in steps. A ramp that is given in tokens is converted.

    Args:
        what: The name of the phase, for messages.
        phase: The settings of the phase.
        parts: The weight or the number of slots of each component, as `_compute_parts` returns them.
        shards: The shard sets of the phase, one per component.
    """
    ramp = phase.batch_ramp
    if ramp is None or ramp.steps:
        return phase
    tokens = parse_tokens("training.phase.batch_ramp.tokens", ramp.tokens or 0)
    steps = ceil(2 * tokens / _compute_mean_tokens(what, parts, shards) / (ramp.first + phase.batch))
    return replace(phase, batch_ramp=replace(ramp, steps=steps, tokens=None))


def _count_steps(what: str, phase: PhaseSettings, parts: Sequence[Fraction | int], shards: Sequence[Manifest]) -> int:
    """Compute the number of steps of a phase from its steps, tokens, epochs or quotas.

    Raises InputError if the number is too large.

    Args:
        what: The name of the phase, for messages.
        phase: The settings of the phase.
        parts: The weight or the number of slots of each component, as `_compute_parts` returns them.
        shards: The shard sets of the phase, one per component.
    """
    if phase.steps:
        return phase.steps
    slots = ceil(sum(parts))
    if phase.tokens is not None:
        slots = ceil(parse_tokens("training.phase.tokens", phase.tokens) / _compute_mean_tokens(what, parts, shards))
    if phase.epochs is not None:
        slots = ceil(Fraction(repr(phase.epochs)) * _count_examples(what, shards[0])[0])
    steps = phase.count_steps(slots)
    if steps > MAX_STEPS:
        raise InputError(f"The length of {what} would take {steps:,} steps: give a smaller one, or a larger batch.")
    return steps


def _compute_mean_tokens(what: str, parts: Sequence[Fraction | int], shards: Sequence[Manifest]) -> Fraction:
    """Compute the average number of tokens per slot (position in the training order) of a mixture.

    Args:
        what: The name of the phase, for messages.
        parts: The weight or the number of slots of each component.
        shards: The shard sets of the phase, one per component.
    """
    counts = [_count_examples(what, manifest) for manifest in shards]
    means = [part * Fraction(held, examples) for part, (examples, held) in zip(parts, counts, strict=True)]
    return Fraction(sum(means)) / Fraction(sum(parts))


def _count_examples(what: str, shards: Manifest) -> tuple[int, int]:
    """Return the number of examples and of tokens in the training split of a shard set.

    Raises InputError if the split is empty. `what` is the name of the phase, for the message.
    """
    examples, held = count_train_examples(shards)
    if not examples:
        raise InputError(_explain_no_example(what, shards))
    return examples, held


def _check_mixture(what: str, shards: Sequence[Manifest]) -> None:
    """Check that the shard sets of a mixture can be mixed. `what` is the name of the phase, for messages.

    Raises:
        InputError: If one is empty, if two are the same, or if only some have masks or pair labels.
    """
    for number, manifest in enumerate(shards):
        if not count_train_examples(manifest)[0]:
            raise InputError(_explain_no_example(what, manifest))
        for other in shards[:number]:
            if other.content == manifest.content:
                raise InputError(
                    f"The shards {other.name!r} and {manifest.name!r} of {what} hold the same examples: name one of "
                    "them in the mixture, or give one another seed."
                )
            if _describe_targets(other) != _describe_targets(manifest):
                raise InputError(
                    f"The shards {other.name!r} and {manifest.name!r} of {what} cannot be mixed: input = "
                    f"{other.facts['input']!r} has {_describe_targets(other)}, input = {manifest.facts['input']!r} has "
                    f"{_describe_targets(manifest)}. Give both inputs that teach the same, or read them in phases of "
                    "their own."
                )


def _describe_targets(shards: Manifest) -> str:
    """Describe the targets that the examples of a shard set have, such as "masks and no labels of pairs"."""
    labels, masks = shards.facts["labels"], "no masks" if shards.facts["masking"] == "none" else "masks"
    return f"{masks} and {f'labels of {labels}' if labels else 'no labels of pairs'}"


def _explain_no_example(what: str, shards: Manifest) -> str:
    return (
        f"The shards {shards.name!r} of {what} have no example to train on: give them more text, or a smaller held-out "
        "share, or leave them out of the mixture."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPart:
    """How much of a shard set a phase has read.

    Attributes:
        phase: One-based number of the phase.
        name: The name of the shard set.
        read: The number of slots (positions in the training order) that held an example.
        deleted: The number of slots of deleted examples.
        tokens: The number of tokens read, including special tokens.
        masked: The number of tokens to predict.
        examples: The number of examples in the shard set.
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
        """The number of times that the phase read the shard set, which may be fractional."""
        return (self.read + self.deleted) / max(1, self.examples)


def build_seen_ledger(job: TrainingJob, facts: Mapping[str, Json]) -> Ledger:
    """Build a ledger of what each phase read of each shard set.

    For each of them, it has an account of read and deleted slots, and the numbers of tokens, masked tokens and
    examples.

    Args:
        job: The job.
        facts: The facts of the export. `seen` has the counts.
    """
    accounts, figures = list[Account](), dict[str, int]()
    for phase, (reading, tallies) in enumerate(zip(list_readings(job), facts["seen"], strict=True), 1):
        for shards, slots, counts in zip(reading.inputs, reading.slots, tallies, strict=True):
            tally = dict(zip(TALLY_NAMES, counts, strict=True))
            outcomes = {"read": tally["slots"] - tally["deleted"], "deleted": tally["deleted"]}
            called = f"of phase {phase}: {shards.name}"
            accounts.append(Account(unit=f"slots {called}", total=slots, outcomes=outcomes))
            examples, _ = count_train_examples(job.read_shard_set(shards))
            figures |= {f"tokens {called}": tally["tokens"], f"masked tokens {called}": tally["masked"]}
            figures |= {f"examples {called}": examples}
    return Ledger(accounts=tuple(accounts), figures=figures)


def iter_seen_parts(model: Manifest) -> Iterator[SeenPart]:
    """Yield how much each phase read of each shard set, from the manifest of a trained model."""
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
