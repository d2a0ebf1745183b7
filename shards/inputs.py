"""The inputs by name; `shards.builders.contract` defines them.

A package of your own adds one under the entry point `cloze.inputs`. Entry points are looked up only if a name is not
one of ours. The `version` of the input and of its package enter the fingerprint of its shards.
"""

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from corpora.entry_points import Kinds
from shards.builders.pieces.electra import ElectraInput
from shards.builders.pieces.packing import DocSentencesInput, FullSentencesInput
from shards.builders.pieces.sentence_pair import SentencePairInput
from shards.builders.pieces.single import SingleInput
from shards.builders.segments.pairs import SegmentPairInput
from shards.builders.segments.sentence_order import SentenceOrderInput

GROUP = "cloze.inputs"
_BUILT_IN = (
    SegmentPairInput,
    SentenceOrderInput,
    SentencePairInput,
    FullSentencesInput,
    DocSentencesInput,
    SingleInput,
    ElectraInput,
)
INPUTS: Mapping[str, Any] = MappingProxyType({each.kind: each for each in _BUILT_IN})
_REQUIRED_MEMBERS = ("version", "masked", "segments", "labels", "check", "build")
_KINDS = Kinds(what="input", key="shards.input", group=GROUP, ours=INPUTS, members=_REQUIRED_MEMBERS)


def find_input_class(kind: str) -> Any:
    """Look up an input's dataclass by name. An input is a way to turn documents into examples.

    Args:
        kind: Name of an input, either built in (see `INPUTS`), such as "segment-pair", or provided by an installed
            package.

    Raises:
        InputError: The name is unknown, or the package that provides the input is broken.
    """
    return _KINDS.find(kind)


def find_input_package(kind: str) -> str:
    """Return the name and version of the package that provides an input (a way to turn documents into examples).

    The result is a string for the fingerprint of the shards. For a built-in input it is "".

    Raises:
        InputError: The name is unknown.
    """
    return _KINDS.find_package(kind)


def list_inputs_with_key(key: str) -> list[str]:
    """Return the names of the built-in inputs (ways to turn documents into examples) that have this setting."""
    return [kind for kind, each in INPUTS.items() if key in {field.name for field in fields(each)}]
