"""Define an input: the way from the documents of a shard to examples.

An input is a frozen dataclass; its fields are keys of the recipe's `[shards]` table besides those that every input
has. One more is a file with such a class and a row in `shards.inputs`; or a class of an installed package, under the
entry point `cloze.inputs`:

    [project.entry-points."cloze.inputs"]
    windows = "my_package:WindowsInput"
"""

from typing import ClassVar, NamedTuple, Protocol

from corpora.kernels.arrays import Int64s
from corpora.store.ledger import Ledger
from shards.builders.examples import DocumentTokens, Examples
from shards.masks.masking import ShardVocabulary


class Common(NamedTuple):
    """The arguments that every input gets.

    length: tokens of the longest example, with specials
    copies: how often every document is made into examples
    seed:   where all addresses of choices begin
    """

    length: int
    copies: int
    seed: int


class BuiltExamples(NamedTuple):
    """The examples of one shard.

    ledgers:  one a copy, checked
    surfaces: looks of examples with a label, as `shards.measures.surfaces.count_surfaces` counts
    """

    examples: Examples
    ledgers: tuple[Ledger, ...]
    surfaces: Int64s | None = None


class ExampleInput(Protocol):
    """One kind of input, besides being a frozen dataclass. Raise `version` whenever its output changes.

    kind:     its name in a recipe
    masked:   whether the model guesses masked tokens; False: `[shards.masking]` is `none`
    segments: 1, or 2: `[CLS] A [SEP] B [SEP]`
    labels:   what the label of an example says: "next-sentence", "sentence-order", another word; None without labels
    """

    kind: ClassVar[str]
    version: ClassVar[int]
    masked: ClassVar[bool]
    segments: ClassVar[int]
    labels: ClassVar[str | None]

    def check(self, common: Common) -> None:
        """Raise InputError for settings that do not go together."""

    def build(self, columns: DocumentTokens, common: Common, vocabulary: ShardVocabulary) -> BuiltExamples:
        """The examples of all copies: a pure function of what is given."""
