"""Define an input: the way from the documents of a shard to examples.

An input is a frozen dataclass; its fields are keys of the recipe's `[shards]` table besides those that every input
has. One more is a file with such a class and a row in `shards.inputs`; or a class of an installed package, under the
entry point `cloze.inputs`:

    [project.entry-points."cloze.inputs"]
    windows = "my_package:WindowsInput"

The columns that every builder takes and gives: the tokens of a shard's documents, and the shard's examples.
"""

from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from corpora.kernels.arrays import Bytes, Ids, Int32s, Int64s, UInt16s, UInt32s, UInt64s
from corpora.store.ledger import Ledger
from shards.masks.masking import ShardVocabulary

MAX_LENGTH = MAX_COPIES = (1 << 16) - 1  # what the columns of examples hold


class DocumentTokens(NamedTuple):
    """The tokenised documents of one shard, in canonical order; no sentence and no document is empty."""

    ids: Ids  # [tokens]
    word_starts: Bytes  # [tokens], 1 where a word begins
    sentences: Int64s  # [sentences + 1], into the tokens
    documents: Int64s  # [documents + 1], into the sentences
    keys: UInt64s  # [documents], hash of id and revision


class Examples(NamedTuple):
    """n examples, by copy."""

    ids: Ids  # flat, with their special tokens
    offsets: Int64s  # [n + 1], into ids
    word_starts: Bytes  # flat, 0 on specials
    boundary: UInt16s  # [n], tokens of the first segment
    label: Bytes | None  # [n], what the input says of each; None without labels
    second_document: UInt16s | None  # [n], place among its documents of the one that B is of; None with one segment
    documents: Int32s  # flat, indices of the documents that each holds, in their order
    document_offsets: Int64s  # [n + 1], into documents
    ordinal: UInt32s  # [n], number of the example in its first document and copy
    copy: UInt16s  # [n]
    example_id: UInt64s  # [n]


def check_columns(columns: DocumentTokens) -> None:
    """Check the columns against what their builder promises: offsets that fit, nothing empty."""
    sentences, documents = columns.sentences, columns.documents
    assert sentences[0] == documents[0] == 0
    assert sentences[-1] == len(columns.ids) == len(columns.word_starts)
    assert documents[-1] == len(sentences) - 1 and len(documents) - 1 == len(columns.keys)
    assert np.all(np.diff(sentences) > 0), "an empty sentence"
    assert np.all(np.diff(documents) > 0), "an empty document"


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
    surfaces: looks of examples with a label, as `shards.surfaces.count_surfaces` counts
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
