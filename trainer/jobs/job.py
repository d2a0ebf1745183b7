"""A training job: everything that a process needs to train a model, as one JSON file. No torch.

Its `identity` is what decides the weights; the rest is where things are on this machine.
"""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.store.checked_folder import COMPLETE_FILE, read_complete_file
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.settings import bind_settings, to_settings_json
from corpora.store.stage import read_manifest
from shards.reading.order import Interleave, compute_first_slots
from trainer.families.contract import ModelInputs
from trainer.jobs.origins import Origin
from trainer.jobs.start import Start
from trainer.settings.model import ModelSettings, model_json
from trainer.settings.training import TrainingSettings

JOB = "job.json"  # in a model's work folder: the job that is done there
CACHE = Path("~/.cache/cloze")  # for what is of an object store and must be on this machine


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInput:
    """An artifact of the store: its folder there, and the digest of what it holds."""

    folder: str
    content: str

    @property
    def name(self) -> str:
        """The name of the artifact."""
        return self.folder.split("/")[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJob:
    """One run of the trainer.

    store:  address of the store that holds the shards
    shards: what the phases read, one after the other; of a mixture every component
    shares: slots of each component in a period of its phase's mixture; none where no phase has one
    work:   folder of this machine for checkpoints, metrics, logs and the export; one model has one
    source: address of the object store from which windows of the train split are fetched as they are read; empty where
            all shards are in `store`
    start:  the model whose weights it starts from; None for first ones
    origin: the checkpoint of another run that this one continues from
    teacher: the model that it learns from; None where its objective has none
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
    start: Start | None = None
    origin: Origin | None = None
    teacher: Start | None = None

    def __post_init__(self) -> None:
        assert not self.shares or len(self.shares) == len(self.training.phase), "shares are of all phases, or of none"
        assert len(self.shards) == sum(self._numbers), "every component of a phase is a shard set"

    @property
    def _numbers(self) -> list[int]:
        """Shard sets of each phase."""
        return [*map(len, self.shares)] if self.shares else [1] * len(self.training.phase)

    def inputs_of(self, phase: int) -> tuple[JobInput, ...]:
        """The shard sets that a phase reads."""
        first = sum(self._numbers[:phase])
        return self.shards[first : first + self._numbers[phase]]

    @property
    def identity(self) -> dict[str, Json]:
        """Everything that decides the weights, and must be the same where a run is resumed."""
        return {
            "model": model_json(self.model),
            "training": to_settings_json(self.training),
            "vocabulary": self.vocabulary.content,
            "shards": [shards.content for shards in self.shards],
            **({"shares": [list(shares) for shares in self.shares]} if self.shares else {}),
            **({"start": self.start.content} if self.start is not None else {}),
            **({"origin": self.origin.identity} if self.origin is not None else {}),
            **({"teacher": self.teacher.content} if self.teacher is not None else {}),
        }

    def to_json(self) -> str:
        """The job as a JSON document."""
        return json.dumps(dataclasses.asdict(self), indent=1, ensure_ascii=False)

    @staticmethod
    def from_json(data: str) -> "TrainingJob":
        """The job that `to_json` wrote. Raises InputError for keys and values that a job does not have."""
        return bind_settings(TrainingJob, json.loads(data), "job")

    def shard_set(self, shards: JobInput) -> Manifest:
        """One that a phase reads. Raises InputError where the store does not hold what the job was planned for."""
        manifest = read_manifest(Place(self.store), shards.folder)
        if manifest is None or manifest.content != shards.content:
            raise InputError(
                f"The store {self.store} does not hold the shards {shards.folder} with the content that this training "
                "was planned for: build them first, or plan the training again."
            )
        return manifest

    @property
    def shard_sets(self) -> list[Manifest]:
        """Return the shard sets of all phases. Raises InputError as `shard_set` does."""
        return [self.shard_set(shards) for shards in self.shards]

    @property
    def elsewhere(self) -> str:
        """The split whose files are fetched as they are read, and held to their digests then."""
        return "train" if self.source else ""

    @property
    def windows(self) -> Path:
        """The folder for files that are fetched as they are read."""
        return Path(self.store).parent / "windows"

    @property
    def export(self) -> Path:
        """The folder of the finished model."""
        return Path(self.work) / "export"

    @property
    def export_folders(self) -> tuple[str, ...]:
        """The beginning of each model part's path in the export, "" for the export itself."""
        parts = self.model.objective_settings.parts(self.model.of_family, self.inputs)
        return tuple(f"{part.folder}/" if part.folder else "" for part in parts)

    def read_export(self) -> dict[str, Json] | None:
        """Return the facts of the export (steps, parameters, counts, `files`), or None where it is not finished.

        Raises InputError where it is of another model, Damaged where its document is damaged.
        """
        if not (self.export / COMPLETE_FILE).exists():
            return None
        facts = read_complete_file(self.export)
        self.refuse_another(str(self.export), facts["identity"])
        return facts

    def refuse_another(self, path: str, identity: Mapping[str, Json]) -> None:
        """Raise InputError unless a path holds this model, trained as this job says."""
        differing = _difference(identity, json.loads(json.dumps(self.identity)))
        if differing is not None:
            key, theirs, ours = differing
            raise InputError(
                f"{path} belongs to another model: its {key} is {theirs!r}, but here it is {ours!r}. Train in a work "
                f"folder other than {self.work}, or remove that folder to start over."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The shard sets that a phase reads.

    inputs: the shard sets; several are a mixture
    shares: slots of each in a period of the mixture
    begins: slots of each that earlier phases read
    slots:  of each in this phase
    """

    inputs: tuple[JobInput, ...]
    shares: tuple[int, ...]
    begins: tuple[int, ...]
    slots: tuple[int, ...]


def readings(job: TrainingJob) -> list[Reading]:
    """Return what each phase reads. A set that an earlier phase read is resumed where that ended."""
    inputs = [job.inputs_of(phase) for phase in range(len(job.training.phase))]
    shares = job.shares or ((1,),) * len(inputs)
    slots = [
        Interleave(parts).count_before(phase.slots) for parts, phase in zip(shares, job.training.phase, strict=True)
    ]
    flat = [one.content for some in inputs for one in some]
    before = {} if job.origin is None else job.origin.read
    firsts = compute_first_slots(flat, [number for some in slots for number in some])
    begins = iter([first + before.get(content, 0) for first, content in zip(firsts, flat, strict=True)])
    return [
        Reading(inputs=some, shares=parts, begins=tuple(next(begins) for _ in some), slots=numbers)
        for some, parts, numbers in zip(inputs, shares, slots, strict=True)
    ]


def _difference(theirs: Json, ours: Json, key: str = "") -> tuple[str, Json, Json] | None:
    """Return the first place where two documents differ, with both values."""
    if not isinstance(theirs, dict) or not isinstance(ours, dict):
        return None if theirs == ours else (key, theirs, ours)
    for name in [*ours, *(name for name in theirs if name not in ours)]:
        differing = _difference(theirs.get(name), ours.get(name), f"{key}.{name}" if key else name)
        if differing is not None:
            return differing
    return None
