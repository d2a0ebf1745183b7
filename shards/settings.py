"""The settings of a recipe's `[shards]` table: the keys that every input has, and those of the chosen one."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.store.settings import bind_settings, check_keys, check_range, convert_value, to_settings_json
from shards.builders.contract import MAX_COPIES, MAX_LENGTH, Common, ExampleInput
from shards.inputs import find_input_class, find_input_package, list_inputs_with_key
from shards.masks.masking import MaskSettings

MIN_LENGTH = 5  # `[CLS] a [SEP] b [SEP]`
DEFAULT_INPUT = "segment-pair"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSettings:
    """Settings for examples and their layout on disk.

    input:         how documents become examples
    length:        maximum length of an example in tokens, including special tokens
    copies:        how often every document is made into examples (BERT's dupe_factor), each time with other random
                   choices and static masks
    target_tokens: approximate number of document tokens in a shard
    sources:       names of the sources to take documents from; empty for all
    own:           the settings of the chosen input
    """

    input: str = DEFAULT_INPUT
    length: int = 128
    copies: int = 1
    target_tokens: int = 20_000_000
    seed: int = 42
    sources: tuple[str, ...] = ()
    masking: MaskSettings = field(default_factory=MaskSettings)
    own: ExampleInput = None  # type: ignore[assignment]  # that of the input, as it comes

    def __post_init__(self) -> None:
        kind = find_input_class(self.input)
        if not kind.masked and self.masking.kind != "none":
            raise InputError(
                f"shards.masking says {self.masking.kind!r}, but input = {self.input!r} masks nothing: leave it out, "
                'or set kind = "none".'
            )
        check_range("shards.length", self.length, MIN_LENGTH, MAX_LENGTH)
        check_range("shards.copies", self.copies, 1, MAX_COPIES)
        check_range("shards.target_tokens", self.target_tokens, 1_000, 1 << 34)
        check_range("shards.seed", self.seed, 0, (1 << 64) - 1)
        if self.own is None:
            object.__setattr__(self, "own", kind())
        assert isinstance(self.own, kind), f"{self.input} has settings of its own"
        self.own.check(self.common)

    @property
    def common(self) -> Common:
        """Settings that all inputs (ways to turn documents into examples) share: length, copies and seed."""
        return Common(self.length, self.copies, self.seed)

    def to_json(self) -> dict[str, Json]:
        """Convert the settings to a dictionary with everything that determines the examples.

        It has the keys of `[shards]` and "input_version", and for an input from an installed package also
        "input_package" (the package's name and version).
        """
        package = find_input_package(self.input)
        return {
            "input": self.input,
            "input_version": self.own.version,
            **({"input_package": package} if package else {}),
            **to_settings_json(self.own),
            "length": self.length,
            "copies": self.copies,
            "target_tokens": self.target_tokens,
            "seed": self.seed,
            "sources": list(self.sources),
            "masking": to_settings_json(self.masking),
        }


def read_shard_settings(table: Mapping[str, Any], where: str = "shards") -> ShardSettings:
    """Convert the `[shards]` table of a recipe to settings. Missing keys get their defaults.

    Args:
        table: The table.
        where: Name of the table in error messages.

    Raises:
        InputError: A key is unknown or belongs to another input, or a value is not allowed.

    >>> read_shard_settings({"input": "segment-pair", "short_sequence_probability": 0.2}).own.labels
    'next-sentence'
    """
    if "compat" in table:
        raise InputError(
            f"{where}.compat is no setting any more. Leave it out: pairs then truncate nothing, and how they look "
            "tells no label; the examples of BERT's authors come from their own script, see the guide of inputs."
        )
    kind = find_input_class(convert_value(table.get("input", DEFAULT_INPUT), str, f"{where}.input"))
    shared = [each.name for each in fields(ShardSettings) if each.name != "own"]
    own = [each.name for each in fields(kind)]
    for key in table:
        others = list_inputs_with_key(key)
        if key not in (*shared, *own) and others:
            names = ", ".join(map(repr, others))
            raise InputError(f"{where}.{key} means nothing to input = {kind.kind!r} (it is of {names}): leave it out.")
    check_keys(table, [*shared, *own], where)
    masking = {"masking": {"kind": "none", **table.get("masking", {})}} if not kind.masked else {}
    given = {**table, **masking}
    common = bind_settings(ShardSettings, {key: value for key, value in given.items() if key in shared}, where)
    return replace(common, own=bind_settings(kind, {key: value for key, value in given.items() if key in own}, where))
