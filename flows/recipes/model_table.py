"""The `[model]` table: the settings of a new encoder, or the address of a model to start from, which has its own."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, get_type_hints

from corpora.errors import InputError
from corpora.store.settings import bind, convert, unknown_key
from flows.recipes.tables import resolved_path
from tokenizers_train.vocabularies.settings import BroughtVocabulary
from trainer.objectives.distillation import DistillationObjective
from trainer.settings.model import ModelSettings

TEACHER = "model.objective.teacher"
OF_START = BroughtVocabulary(path="")  # the vocabulary of the model that training begins with, wherever that is


class ModelTable(NamedTuple):
    """The contents of the table.

    settings: of the encoder; of an existing model only its address
    given:    what else the table sets for an existing model
    folder:   where that model may be on this machine, absolute; "" where it is not on this machine
    teacher:  the address of the model that it learns from; "" where it has none
    teacher_folder: where that may be on this machine, likewise
    """

    settings: ModelSettings
    given: Mapping[str, Any] = MappingProxyType({})
    folder: str = ""
    teacher: str = ""
    teacher_folder: str = ""


def read_model_table(section: Mapping[str, Any], path: Path) -> ModelTable:
    """Return the table of a recipe at a path. Raises InputError."""
    objective = section.get("objective")
    teacher = objective.get("teacher", "") if isinstance(objective, Mapping) else ""
    learns = (teacher, _folder(teacher, path)) if isinstance(teacher, str) and teacher else ("", "")
    if isinstance(objective, Mapping) and objective.get("kind") == DistillationObjective.kind and teacher == "":
        raise InputError(
            f"{TEACHER} is missing: give the folder of a trained model of the same vocabulary, or models/NAME of the "
            "recipe's store."
        )
    if "start" not in section:
        return ModelTable(bind(ModelSettings, section, "model"), {}, "", *learns)
    settings = bind(ModelSettings, {"start": section["start"]}, "model")
    if not settings.start:
        raise InputError("model.start is empty: give the folder of a model, or leave it out for random weights.")
    hints = get_type_hints(ModelSettings)
    given = {}
    for key, value in section.items():
        if key not in hints:
            raise InputError(unknown_key(key, list(hints), "model"))
        given[key] = convert(value, hints[key], f"model.{key}")
    del given["start"]
    return ModelTable(settings, given, _folder(settings.start, path), *learns)


def _folder(address: str, path: Path) -> str:
    """Return where a model may be on this machine."""
    return "" if "://" in address else resolved_path(address, path)
