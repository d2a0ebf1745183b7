"""The meaning of a recipe's settings: the dataclass of each table, and what its docstring says of each field."""

import dataclasses
import inspect
import re
from collections.abc import Mapping

from corpora.duplicates.candidates import SplitSettings
from corpora.duplicates.survivors import DuplicateSettings
from corpora.judging.batches import STEP_TABLES
from corpora.judging.settings import DocumentsSettings
from corpora.sources.contract import Source
from corpora.sources.registry import SOURCES, load_source_class
from corpora.store.worker_pool import WorkerLimits
from flows.recipes.model_and_tasks import TaskSettings
from flows.recipes.privacy import Privacy
from flows.recipes.run_settings import BoundSettings, NotifySettings, ReleaseSettings, RetentionSettings
from shards.settings import ShardSettings
from tokenizers_train.vocabularies.settings import VocabularySettings
from trainer.settings.model import ModelSettings
from trainer.settings.training import TrainingSettings

SETTINGS: Mapping[str, type] = {
    "documents": DocumentsSettings,
    **STEP_TABLES,
    "duplicates": DuplicateSettings,
    "held_out": SplitSettings,
    "vocabulary": VocabularySettings,
    "shards": ShardSettings,
    "model": ModelSettings,
    "training": TrainingSettings,
    "privacy": Privacy,
    "retention": RetentionSettings,
    "workers": WorkerLimits,
    "task": TaskSettings,
    "bounds": BoundSettings,
    "release": ReleaseSettings,
    "notify": NotifySettings,
}

SELF_TELLING = (
    ("seed$", "where the choices of this table begin"),
    ("enabled$", "false switches these off"),
    ("min_", "a document with less is dropped"),
    ("max_", "a document with more is dropped"),
    ("drop_", "whether a document that has it is dropped"),
)


def meanings(settings: type) -> dict[str, str]:
    """Return what a dataclass's docstring says of each field, in lines `field: meaning`; else the field's comment.

    >>> sorted(meanings(DuplicateSettings)) == sorted(field.name for field in dataclasses.fields(DuplicateSettings))
    True
    """
    names = {field.name for field in dataclasses.fields(settings)}
    texts: dict[str, str] = {}
    for line in inspect.getsource(settings).splitlines():
        if match := re.match(r"    (\w+): [^#]+  # (.+)", line):
            texts[match[1]] = match[2]
    if issubclass(settings, tuple(map(load_source_class, SOURCES))):
        texts["name"] = _sentence(inspect.getdoc(Source.name) or "")
    current: list[str] = []
    for line in (inspect.getdoc(settings) or "").splitlines():
        key, colon, rest = line.partition(":")
        keys = [key for key in re.split(", ", key) if key in names]
        if colon and keys:
            current = keys
            texts.update(dict.fromkeys(keys, rest.strip()))
        elif not line.strip():
            current = []
        else:
            texts.update({key: f"{texts[key]} {line.strip()}" for key in current})
    return texts


def self_telling(key: str) -> str:
    """Return the meaning of a key that its name explains; "" for any other.

    >>> self_telling("min_words"), self_telling("share")
    ('a document with less is dropped', '')
    """
    fitting = (meaning for pattern, meaning in SELF_TELLING if re.match(pattern, key))
    return next(fitting, "")


def _sentence(text: str) -> str:
    """Return a docstring's first sentence as the cell of a table has it."""
    first = text.split(". ")[0].split("; ")[0].rstrip(".")
    return first[:1].lower() + first[1:]
