"""The objectives by name; what an objective is, is in `trainer.objectives.contract`.

A package of your own adds one under the entry point `cloze.objectives`, which is looked for only where a name is not
one of ours. Its `version` and its package's enter the fingerprint of its models.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from corpora.entry_points import Kinds
from corpora.errors import InputError
from corpora.store.manifest import Json
from corpora.store.settings import bind
from trainer.objectives.contract import ObjectiveSettings
from trainer.objectives.distillation import DistillationObjective
from trainer.objectives.masked import MaskedObjective
from trainer.objectives.next_token import NextTokenObjective
from trainer.objectives.replaced import ReplacedObjective

GROUP = "cloze.objectives"
_OURS = (MaskedObjective, ReplacedObjective, NextTokenObjective, DistillationObjective)
OBJECTIVES: Mapping[str, Any] = MappingProxyType({each.kind: each for each in _OURS})
_MEMBERS = ("version", "builder", "causal", "check", "check_shards", "terms", "read", "counts", "parts")
_KINDS = Kinds(what="objective", key="model.objective.kind", group=GROUP, ours=OBJECTIVES, members=_MEMBERS)


def read_objective(table: Mapping[str, Json], where: str) -> ObjectiveSettings:
    """The settings of an objective. Raises InputError. where: the table's name in the recipe, for messages"""
    if not isinstance(table.get("kind"), str):
        raise InputError(f"{where} does not name its `kind`: one of {', '.join(OBJECTIVES)}.")
    own = {key: value for key, value in table.items() if key != "kind"}
    settings: ObjectiveSettings = bind(_KINDS.find(str(table["kind"])), own, where)
    return settings


def objective_package(kind: str) -> str:
    """The package that an objective comes from, with its version; empty for one of ours."""
    return _KINDS.package(kind)
