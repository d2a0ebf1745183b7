"""The `[model]` table: the settings of a new encoder, or the address of a model to start from, which has its own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

from corpora.errors import InputError
from corpora.store.settings import bind_settings, check_keys, convert_value
from flows.recipes.tables import resolved_path
from tokenizers_train.vocabularies.settings import GivenVocabulary
from trainer.objectives.distillation import DistillationObjective
from trainer.settings.model import ModelSettings
from trainer.settings.training import TrainingSettings

TEACHER = "model.objective.teacher"
OF_START = GivenVocabulary(path="")  # the vocabulary of the model that training begins with, wherever that is


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEntry:
    """`[model]` and `[training]`: the encoder, and how it is trained. `phases`: the sets that each phase reads.

    settings: of the encoder; of an existing model only its address
    given:    what else the table sets for an existing model
    folder:   where that model may be on this machine, absolute; "" where it is not on this machine
    teacher:  the address of the model that it learns from; "" where it has none
    teacher_folder: where that may be on this machine, likewise
    """

    settings: ModelSettings
    training: TrainingSettings
    phases: tuple[tuple[str, ...], ...]
    given: Mapping[str, Any] = field(default_factory=dict)
    folder: str = ""
    teacher: str = ""
    teacher_folder: str = ""

    @property
    def shards(self) -> tuple[str, ...]:
        """Return every set that is read, once."""
        return tuple(dict.fromkeys(name for names in self.phases for name in names))


def read_model_table(
    section: Mapping[str, Any], path: Path, training: TrainingSettings, phases: tuple[tuple[str, ...], ...]
) -> ModelEntry:
    """Return the table of a recipe at a path, with how its model is trained. Raises InputError."""
    objective = section.get("objective")
    teacher = objective.get("teacher", "") if isinstance(objective, Mapping) else ""
    entry = partial(ModelEntry, training=training, phases=phases)
    if isinstance(teacher, str) and teacher:
        entry = partial(entry, teacher=teacher, teacher_folder=_folder(teacher, path))
    if isinstance(objective, Mapping) and objective.get("kind") == DistillationObjective.kind and teacher == "":
        raise InputError(
            f"{TEACHER} is missing: give the folder of a trained model of the same vocabulary, or models/NAME of the "
            "recipe's store."
        )
    if "start" not in section:
        return entry(settings=bind_settings(ModelSettings, section, "model"))
    settings = bind_settings(ModelSettings, {"start": section["start"]}, "model")
    if not settings.start:
        raise InputError("model.start is empty: give the folder of a model, or leave it out for random weights.")
    hints = get_type_hints(ModelSettings)
    check_keys(section, hints, "model")
    given = {key: convert_value(value, hints[key], f"model.{key}") for key, value in section.items()}
    del given["start"]
    return entry(settings=settings, given=given, folder=_folder(settings.start, path))


def _folder(address: str, path: Path) -> str:
    """Return where a model may be on this machine."""
    return "" if "://" in address else resolved_path(address, path)
