"""The inputs by name; what they are is in `shards.builders.contract`.

A package of your own adds one under the entry point `cloze.inputs`, which is looked for only where a name is not one
of ours. Its `version` and its package's enter the fingerprint of its shards.
"""

from collections.abc import Mapping
from dataclasses import fields
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any

from corpora.entry_points import load_point, package_of
from corpora.errors import InputError
from corpora.store.settings import check_choice
from shards.builders.causal import CausalInput
from shards.builders.electra import ElectraInput
from shards.builders.packing import DocSentencesInput, FullSentencesInput
from shards.builders.pairs import SegmentPairInput
from shards.builders.sentence_order import SentenceOrderInput
from shards.builders.sentence_pair import SentencePairInput
from shards.builders.single import SingleInput

GROUP = "cloze.inputs"
_OURS = (
    SegmentPairInput,
    SentenceOrderInput,
    SentencePairInput,
    FullSentencesInput,
    DocSentencesInput,
    SingleInput,
    ElectraInput,
    CausalInput,
)
INPUTS: Mapping[str, Any] = MappingProxyType({each.kind: each for each in _OURS})
_MEMBERS = ("version", "masked", "segments", "labels", "check", "build")


def input_class(kind: str) -> Any:
    """The dataclass of an input. Raises InputError for a name that is not known and a package that is broken."""
    if kind in INPUTS:
        return INPUTS[kind]
    points = _points()
    check_choice("shards.input", kind, (*INPUTS, *points))
    found = load_point(points[kind])
    lacking = [member for member in _MEMBERS if not hasattr(found, member)]
    if lacking or not hasattr(found, "__dataclass_fields__"):
        what = f"has no {lacking[0]!r}" if lacking else "is no dataclass"
        raise InputError(f"The input {kind!r} of {package_of(points[kind])} {what}: that is a fault in its package.")
    return found


def input_package(kind: str) -> str:
    """The package that an input comes from, with its version; empty for one of ours."""
    return "" if kind in INPUTS else package_of(_points()[kind])


def inputs_with(key: str) -> list[str]:
    """The inputs of ours that have a key of their own of this name."""
    return [kind for kind, each in INPUTS.items() if key in {field.name for field in fields(each)}]


def _points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
