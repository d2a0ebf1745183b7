"""The meaning of a recipe's settings: which dataclass each table has, and what its docstring says about each field."""

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

MEANINGS_BY_NAME = (
    ("seed$", "where the choices of this table begin"),
    ("enabled$", "false switches these off"),
    ("min_", "a document with less is dropped"),
    ("max_", "a document with more is dropped"),
    ("drop_", "whether a document that has it is dropped"),
)


def read_meanings(settings: type) -> dict[str, str]:
    """Return the meaning of each field of a settings dataclass, by field name.

    A meaning is read from a line `field: meaning` of the class docstring (or `a, b: meaning`; it continues until the
    next field or a blank line), else from the comment next to the field. Fields with neither are omitted.

    >>> read_meanings(DuplicateSettings).keys() == {field.name for field in dataclasses.fields(DuplicateSettings)}
    True
    """
    names = {field.name for field in dataclasses.fields(settings)}
    texts: dict[str, str] = {}
    for line in inspect.getsource(settings).splitlines():
        if match := re.match(r"    (\w+): [^#]+  # (.+)", line):
            texts[match[1]] = match[2]
    if issubclass(settings, tuple(map(load_source_class, SOURCES))):
        texts["name"] = _format_first_sentence(inspect.getdoc(Source.name) or "")
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


def explain_by_name(key: str) -> str:
    """Return the meaning of a setting whose name starts with a common prefix, such as `min_`, or "" for other names.

    >>> explain_by_name("min_words"), explain_by_name("share")
    ('a document with less is dropped', '')
    """
    fitting = (meaning for pattern, meaning in MEANINGS_BY_NAME if re.match(pattern, key))
    return next(fitting, "")


def _format_first_sentence(text: str) -> str:
    """Format the first sentence of a docstring for a table cell, without its full stop and starting in lower case."""
    first = text.split(". ")[0].split("; ")[0].rstrip(".")
    return first[:1].lower() + first[1:]
