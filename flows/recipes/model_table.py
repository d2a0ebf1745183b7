"""The `[model]` table: an encoder by its settings, or one that training begins with, which says its settings itself."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from corpora.errors import InputError
from corpora.store.settings import bind, convert, unknown_key
from flows.recipes.tables import resolved_path
from tokenizers_train.vocabularies.settings import BroughtVocabulary
from trainer.model_settings import ModelSettings

OF_START = BroughtVocabulary(path="")  # the vocabulary of the model that training begins with, wherever that is


class ModelTable(NamedTuple):
    """What the table says.

    settings: of the encoder; of one that is begun with, only its address
    said:     what else the table says of one that is begun with
    folder:   where such a one may be on this machine, absolute; "" where it is none of this machine
    """

    settings: ModelSettings
    said: Mapping[str, Any]
    folder: str


def read_model_table(section: Mapping[str, Any], path: Path) -> ModelTable:
    """The table of a recipe at a path. Raises InputError."""
    if "start" not in section:
        return ModelTable(bind(ModelSettings, section, "model"), {}, "")
    settings = bind(ModelSettings, {"start": section["start"]}, "model")
    if not settings.start:
        raise InputError("model.start is empty: give the folder of a model, or leave it out for first weights.")
    hints = get_type_hints(ModelSettings)
    said = {}
    for key, value in section.items():
        if key not in hints:
            raise InputError(unknown_key(key, list(hints), "model"))
        said[key] = convert(value, hints[key], f"model.{key}")
    del said["start"]
    folder = "" if "://" in settings.start else resolved_path(settings.start, path)
    return ModelTable(settings, said, folder)
