"""What training can start from instead of random weights: a model, or a checkpoint of another run. No torch.

A start model is a folder that is identified by its content:

    folder ─► its files by name, each with its digest ─► the content, part of the fingerprint of the trained model

The folder's path does not matter. Its files are hashed again when training starts, and compared with these digests. The
folder is not needed after the first checkpoint.

An origin is the checkpoint of another run from which training continues, with weights and optimizer:

    continue_from = "models/wiki/1a2b3c@90000"  ─►  work/checkpoints/step-00090000  ─►  weights, moments, slots read

The phases of the recipe come after that checkpoint. Their steps are counted from 0 with their own schedule, and shards
that the other run has read are continued where it stopped. The checkpoint's content is part of the fingerprint of the
model, its path is not.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.store.checked_folder import COMPLETE_FILE, check_folder, mark_complete, read_complete_file
from corpora.store.damage import Damaged
from corpora.store.file_check import copy_checked_file
from corpora.store.manifest import Manifest, StoredFile, compute_fingerprint
from corpora.store.places.files import hold_lock, to_unfinished_path
from corpora.store.places.place import Place
from corpora.store.settings import bind_settings, to_settings_json
from shards.reading.loader import TALLY_NAMES
from tokenizers_train.vocabularies.files import FILES
from trainer.settings.model import ModelSettings, to_model_json
from trainer.settings.training import TrainingSettings, find_decay_starts

CONFIG, WEIGHTS = "config.json", "model.safetensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartModel:
    """A folder with a model to start training from, or with the teacher of a student.

    Attributes:
        folder: Local path of the folder.
        files: Maps the names of configuration, weight and tokenizer files to their SHA-256.
        rows: The tokens that have no row in the model: for each, its id, and the ids of the model's tokens that it
            splits into.
    """

    folder: str
    files: Mapping[str, str]
    rows: tuple[tuple[int, tuple[int, ...]], ...] = ()

    @property
    def content(self) -> str:
        """The digest of the names and contents of all files."""
        return compute_fingerprint(files=dict(self.files))

    def check(self, needed: str = "A training that has a checkpoint does not need it.") -> None:
        """Raise InputError if a file is missing or has changed. All files are read, at 1.3 GB per second.

        Args:
            needed: A sentence for the message that says how long the folder is needed.
        """
        for name, digest in self.files.items():
            path = Path(self.folder) / name
            if not path.is_file():
                raise InputError(f"{path} is gone, but the training was to start from it: {_REMEDY} {needed}")
            if hash_file(path) != digest:
                raise InputError(f"{path} has changed since the training was planned: {_REMEDY} {needed}")


_REMEDY = "restore the folder as it was; or run the recipe again, which plans a training from its present content."


def read_start(folder: Path, digest: "Callable[[Path], str] | None" = None) -> StartModel:
    """Describe the model in a folder by its path and the digest of each of its files.

    Args:
        folder: A folder with config.json, model.safetensors and a tokenizer.
        digest: Returns the SHA-256 of a file, for example from a cache; None to read each file.

    Raises:
        InputError: If a file is missing.
    """
    check_folder(folder)
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            raise InputError(
                f"{folder} has no {name}, but a training starts from a model as Hugging Face's save_pretrained writes "
                f"it: {CONFIG}, {WEIGHTS} (one file) and its tokenizer."
            )
    names = [name for name in (CONFIG, WEIGHTS, *FILES) if (folder / name).is_file()]
    parts = sorted(path.parent.name for path in folder.glob(f"*/{CONFIG}") if path.with_name(WEIGHTS).is_file())
    names += [f"{part}/{name}" for part in parts for name in (CONFIG, WEIGHTS)]  # such as ELECTRA's generator
    return StartModel(folder=str(folder), files={name: (digest or hash_file)(folder / name) for name in names})


def hash_file(path: Path) -> str:
    """Compute the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# The model of an artifact.


def list_model_files(manifest: Manifest) -> dict[str, StoredFile]:
    """List the files of a model artifact by their path relative to the folder of config.json."""
    files = [file for part in manifest.parts for file in part.files]
    configs = [file.path.removesuffix(CONFIG) for file in files if f"/{file.path}".endswith(f"/{CONFIG}")]
    folder = min(configs, key=len, default="")
    return {file.path.removeprefix(folder): file for file in files if file.path.startswith(folder)}


def copy_model(place: Place, manifest: Manifest, files: Mapping[str, StoredFile], folder: Path) -> None:
    """Copy files of a model artifact to a local folder, which appears only when complete.

    If the folder exists, nothing is copied. If several processes copy the same model, one copies it and the others
    wait.

    Args:
        place: The store.
        manifest: The manifest of the artifact.
        files: The files to copy, by their path in the new folder, as `list_model_files` returns them.
        folder: The folder to create.

    Raises:
        Damaged: If a file differs from what was written.
    """
    new = to_unfinished_path(folder, is_only_writer=True)
    new.parent.mkdir(parents=True, exist_ok=True)
    with hold_lock(new.with_suffix(".lock")):
        if folder.is_dir():
            return
        shutil.rmtree(new, ignore_errors=True)
        for name, file in files.items():
            copy_checked_file(place, f"{manifest.stage_folder}/{file.path}", file, Place(str(new)), name)
        mark_complete(new)
        new.rename(folder)


OPTIMIZER_KEYS = ("optimizer", "bias_correction", "layer_decay")  # what decides the form of an optimizer's state
_METADATA_FILE = ".metadata"  # of torch's writer: it holds a number that is drawn each time


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The checkpoint of another run from which a run continues.

    Attributes:
        path: The folder of the checkpoint.
        content: The digest of the checkpoint's content.
        read: The number of slots (positions in the training order) read of each shard set, by the set's content digest.
    """

    path: str
    content: str
    read: Mapping[str, int]

    @property
    def identity(self) -> Json:
        """What affects the continued run's weights, as a JSON object: the checkpoint's content and the slots read."""
        return {"content": self.content, "read": dict(self.read)}


def find_origin(training: TrainingSettings, models: Path, model: ModelSettings, vocabulary: str) -> Origin | None:
    """Find the checkpoint named by `training.continue_from`, or return None if the setting is not given.

    Args:
        training: The settings of the training run.
        models: The folder that contains the work folders of the store's models, as `models/NAME/FINGERPRINT`.
        model: The settings of the model.
        vocabulary: The content digest of the vocabulary.

    Raises:
        InputError: If the checkpoint does not exist, or belongs to another model, vocabulary or optimizer.
    """
    if not training.continue_from:
        return None
    path = find_checkpoint(training.continue_from, models)
    facts = _read_facts(path)
    identity = facts["identity"]
    if identity["model"] != json.loads(json.dumps(to_model_json(model))) or identity["vocabulary"] != vocabulary:
        raise InputError(
            f"training.continue_from = {training.continue_from!r} has another [model] or another vocabulary, so this "
            "training cannot continue from it: give both the same ones, or start from its weights alone."
        )
    now = to_settings_json(training)
    for key in OPTIMIZER_KEYS:
        if identity["training"].get(key) != now.get(key):
            raise InputError(
                f"training.continue_from = {training.continue_from!r} was trained with another training.{key}, on "
                "which the state of its optimizer depends: give both the same, or start from its weights alone."
            )
    return Origin(path=str(path), content=hash_checkpoint(facts), read=count_slots_read(facts))


def find_checkpoint(location: str, models: Path) -> Path:
    """Find the folder of a checkpoint.

    If no step is given, this is the last checkpoint before a learning-rate decay or, without a decay, the newest one.

    Args:
        location: A model artifact, its work folder or a checkpoint, optionally followed by `@STEP`. If it begins with
            `models/`, it is relative to the folder `models`.
        models: The folder that contains the work folders of the store's models.

    Raises:
        InputError: If the checkpoint does not exist.
    """
    address, _, step = location.rpartition("@") if "@" in Path(location).name else (location, "", "")
    folder = models / address if address.startswith("models/") else Path(address).expanduser()
    if not step and (folder / COMPLETE_FILE).is_file() and folder.name.startswith("step-"):
        return folder
    folders = [folder / below for below in ("work/checkpoints", "checkpoints", ".")]
    checkpoints = {
        int(path.name.removeprefix("step-")): path
        for each in reversed(folders)
        for path in each.glob("step-*")
        if path.name.removeprefix("step-").isdigit()
    }
    if not checkpoints:
        raise InputError(
            f"training.continue_from = {location!r}: {folder} has no checkpoint. Name the artifact or the work folder "
            "of a model that was trained on this machine, as in models/NAME/FINGERPRINT@STEP."
        )
    if step and (not step.isdigit() or int(step) not in checkpoints):
        raise InputError(
            f"training.continue_from = {location!r}: {folder} has no checkpoint of step {step}, only of "
            f"{', '.join(map(str, sorted(checkpoints)))}. Checkpoints before a decay are kept, and the newest "
            "training.keep_checkpoints."
        )
    if step:
        return checkpoints[int(step)]
    newest = max(checkpoints)
    training = bind_settings(TrainingSettings, _read_facts(checkpoints[newest])["identity"]["training"], "training")
    return checkpoints[max(find_decay_starts(training) & checkpoints.keys(), default=newest)]


def _read_facts(path: Path) -> dict[str, Json]:
    """Read the JSON object that describes a checkpoint (`complete.json`). Raises InputError if it is damaged."""
    try:
        return read_complete_file(path)
    except Damaged as damage:
        raise InputError(
            f"The checkpoint {path} to continue from is damaged: {damage.path}: {damage.what}. Use another one, or "
            "restore this one."
        ) from damage


def hash_checkpoint(facts: Mapping[str, Json]) -> str:
    """Compute the digest of a checkpoint from its tensors, its number of steps, and what was read.

    `facts` is the JSON object that describes the checkpoint.
    """
    files = {name: file for name, file in facts["files"].items() if name != _METADATA_FILE}
    held = {"files": files, "step": facts["cursor"]["step"], "read": count_slots_read(facts)}
    return hashlib.sha256(json.dumps(held, sort_keys=True).encode()).hexdigest()


def count_slots_read(facts: Mapping[str, Json]) -> dict[str, int]:
    """Return the number of slots (positions in the training order) read of each shard set, keyed by its content digest.

    The runs from which this one continued are included. `facts` is the JSON object that describes the checkpoint.
    """
    identity = facts["identity"]
    read = dict(identity.get("origin", {}).get("read", {}))
    tallies = [component for phase in facts["seen"] for component in phase]
    for content, tally in zip(identity["shards"], tallies, strict=True):
        read[content] = read.get(content, 0) + int(tally[TALLY_NAMES.index("slots")])
    return {content: slots for content, slots in sorted(read.items()) if slots}
