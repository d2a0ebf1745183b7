"""Origins: the checkpoint of another run that a training continues from, with weights and optimizer. No torch.

    continue_from = "models/wiki/1a2b3c@90000"  ─►  work/checkpoints/step-00090000  ─►  weights, moments, slots read

The phases of the recipe come after that checkpoint: their steps count from 0 under their own schedule, and reading
resumes in shards that were read there. The checkpoint's content names the model, not its place.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.store.checked_folder import COMPLETE_FILE, read_complete_file
from corpora.store.damage import Damaged
from corpora.store.settings import bind_settings, to_settings_json
from shards.reading.loader import TALLY_NAMES
from trainer.settings.model import ModelSettings, model_json
from trainer.settings.training import TrainingSettings, decays_begin

SAME = ("optimizer", "bias_correction", "layer_decay")  # what decides the form of an optimizer's state
_PLAN = ".metadata"  # of torch's writer: it holds a number that is drawn each time


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """A checkpoint to continue from.

    path:    its folder
    content: a digest of what it holds
    read:    slots that were read of each shard set, by the set's content
    """

    path: str
    content: str
    read: Mapping[str, int]

    @property
    def identity(self) -> Json:
        """The facts that decide the weights."""
        return {"content": self.content, "read": dict(self.read)}


def find_origin(training: TrainingSettings, models: Path, model: ModelSettings, vocabulary: str) -> Origin | None:
    """Return the checkpoint that `training.continue_from` names; None where it is not given.

    models:     the folder that holds the work folders of the store's models, under `models/NAME/FINGERPRINT`
    vocabulary: the content of the vocabulary
    Raises InputError where there is no such checkpoint, or where it is of another model or optimizer.
    """
    if not training.continue_from:
        return None
    path = find_checkpoint(training.continue_from, models)
    facts = _facts(path)
    identity = facts["identity"]
    if identity["model"] != json.loads(json.dumps(model_json(model))) or identity["vocabulary"] != vocabulary:
        raise InputError(
            f"training.continue_from = {training.continue_from!r} has another [model] or another vocabulary, so this "
            "training cannot continue from it: give both the same ones, or start from its weights alone."
        )
    now = to_settings_json(training)
    for key in SAME:
        if identity["training"].get(key) != now.get(key):
            raise InputError(
                f"training.continue_from = {training.continue_from!r} was trained with another training.{key}, on "
                "which the state of its optimizer depends: give both the same, or start from its weights alone."
            )
    return Origin(path=str(path), content=content_of(facts), read=slots_read(facts))


def find_checkpoint(location: str, models: Path) -> Path:
    """Return the folder of a checkpoint: the one of a step, or the last before a decay of the rate, or the newest.

    location: a folder of a model's artifact, its work folder or a checkpoint of it, with `@STEP` or without; one that
    begins with `models/` is below `models`. Raises InputError.
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
    return checkpoints[int(step)] if step else checkpoints[_default(checkpoints)]


def _default(checkpoints: Mapping[int, Path]) -> int:
    """Return the last step before a decay that has a checkpoint; the newest where there is none."""
    newest = max(checkpoints)
    training = bind_settings(TrainingSettings, _facts(checkpoints[newest])["identity"]["training"], "training")
    return max(decays_begin(training) & checkpoints.keys(), default=newest)


def _facts(path: Path) -> dict[str, Json]:
    """Return the facts of a checkpoint. Raises InputError where it is damaged."""
    try:
        return read_complete_file(path)
    except Damaged as damage:
        raise InputError(
            f"The checkpoint {path} to continue from is damaged: {damage.path}: {damage.what}. Use another one, or "
            "restore this one."
        ) from damage


def content_of(facts: Mapping[str, Json]) -> str:
    """A digest of what a checkpoint holds: its tensors, its step, and what was read until there."""
    files = {name: file for name, file in facts["files"].items() if name != _PLAN}
    held = {"files": files, "step": facts["cursor"]["step"], "read": slots_read(facts)}
    return hashlib.sha256(json.dumps(held, sort_keys=True).encode()).hexdigest()


def slots_read(facts: Mapping[str, Json]) -> dict[str, int]:
    """Slots of each shard set, by content, that were read up to a checkpoint, by earlier runs as well."""
    identity = facts["identity"]
    read = dict(identity.get("origin", {}).get("read", {}))
    tallies = [component for phase in facts["seen"] for component in phase]
    for content, tally in zip(identity["shards"], tallies, strict=True):
        read[content] = read.get(content, 0) + int(tally[TALLY_NAMES.index("slots")])
    return {content: slots for content, slots in sorted(read.items()) if slots}
