"""The families by name; what a family is, is in `trainer.families.contract`.

A package of your own adds one under the entry point `cloze.families`, which is looked for only where a name is not one
of ours. Its package's version enters the fingerprint of its models.
"""

from collections.abc import Mapping
from types import MappingProxyType

from corpora.entry_points import Kinds, load_point, package_of
from corpora.errors import InputError
from trainer.families.albert import ALBERT
from trainer.families.bert import BERT
from trainer.families.contract import Family
from trainer.families.distilbert import DISTILBERT
from trainer.families.electra import ELECTRA
from trainer.families.modernbert import MODERNBERT
from trainer.families.roberta import ROBERTA

GROUP = "cloze.families"
FAMILIES: Mapping[str, Family] = MappingProxyType(
    {family.name: family for family in (BERT, ROBERTA, ELECTRA, ALBERT, DISTILBERT, MODERNBERT)}
)
_KINDS = Kinds(what="family", key="model.family", group=GROUP, ours=FAMILIES)


def family_of(name: str) -> Family:
    """Return a family. Raises InputError for an unknown name and for a broken package."""
    if name in FAMILIES:
        return FAMILIES[name]
    point = _KINDS.point(name)
    family = load_point(point)
    if not isinstance(family, Family) or family.name != name:
        raise InputError(
            f"The family {name!r} of {package_of(point)} is not a `Family` of that name: this is a bug in its package."
        )
    return family


def family_package(name: str) -> str:
    """The package that a family comes from, with its version; empty for one of ours."""
    return _KINDS.package(name)
