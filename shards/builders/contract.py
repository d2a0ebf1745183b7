"""Define an input: the way from the documents of a shard to examples.

An input is a frozen dataclass. Its fields are keys of the recipe's `[shards]` table, besides those that every input
has. A new input is a file with such a class and a row in `shards.inputs`; or a class of an installed package, under the
entry point `cloze.inputs`:

    [project.entry-points."cloze.inputs"]
    windows = "my_package:WindowsInput"

The columns that every builder takes are `DocumentTokens`, and those that it returns are `Examples`.
"""

from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from corpora.kernels.arrays import Bytes, Ids, Int32s, Int64s, UInt16s, UInt32s, UInt64s
from corpora.store.ledger import Ledger
from shards.masks.masking import ShardVocabulary

MAX_LENGTH = MAX_COPIES = (1 << 16) - 1  # what the columns of examples hold


class DocumentTokens(NamedTuple):
    """The tokenized documents of one shard, ordered by (shuffle hash, id). No sentence and no document is empty."""

    ids: Ids  # [tokens]
    word_starts: Bytes  # [tokens], 1 where a word begins
    sentences: Int64s  # [sentences + 1], into the tokens
    documents: Int64s  # [documents + 1], into the sentences
    keys: UInt64s  # [documents], hash of id and revision


class Examples(NamedTuple):
    """n training examples. The examples of the first pass over the documents come first, then those of the second, and
    so on.
    """

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
    """Raise AssertionError if offsets are inconsistent or if a sentence or document is empty."""
    sentences, documents = columns.sentences, columns.documents
    assert sentences[0] == documents[0] == 0
    assert sentences[-1] == len(columns.ids) == len(columns.word_starts)
    assert documents[-1] == len(sentences) - 1 and len(documents) - 1 == len(columns.keys)
    assert np.all(np.diff(sentences) > 0), "an empty sentence"
    assert np.all(np.diff(documents) > 0), "an empty document"


class Common(NamedTuple):
    """Settings shared by all input types (the ways to turn documents into examples).

    Attributes:
        length: Maximum length of an example in tokens, including special tokens.
        copies: Number of passes over the documents. Each makes examples with its own random choices.
        seed: Seed of all random choices.
    """

    length: int
    copies: int
    seed: int


class BuiltExamples(NamedTuple):
    """The examples of one shard.

    Attributes:
        examples: The examples of all copies.
        ledgers: For each copy, a checked account of what became of every token.
        surfaces: Counts from `shards.surfaces.count_surfaces`, or None if the input does not count surface features.
    """

    examples: Examples
    ledgers: tuple[Ledger, ...]
    surfaces: Int64s | None = None


class ExampleInput(Protocol):
    """Interface of an input type: a frozen dataclass with settings that turns documents into training examples.

    Attributes:
        kind: Name of the input in a recipe.
        version: Version of the output. Increase it whenever the output changes.
        masked: Whether the model predicts masked tokens. If False, `[shards.masking]` must be `none`.
        segments: Number of segments: 1, or 2 for `[CLS] A [SEP] B [SEP]`.
        labels: What the label of an example means: "next-sentence", "sentence-order" or another name, or None without
            labels.
    """

    kind: ClassVar[str]
    version: ClassVar[int]
    masked: ClassVar[bool]
    segments: ClassVar[int]
    labels: ClassVar[str | None]

    def check(self, common: Common) -> None:
        """Check the settings of this input type together with the shared settings.

        Args:
            common: Length, copies and seed.

        Raises:
            InputError: The settings cannot be used together, for example because a minimum exceeds the maximum length.
        """

    def build(self, columns: DocumentTokens, common: Common, vocabulary: ShardVocabulary) -> BuiltExamples:
        """Build the examples of one shard, in `common.copies` passes over the documents with different random choices.

        The result must depend on the arguments only. Random choices must be functions of `common.seed` and the
        documents' keys.

        Args:
            columns: The documents of the shard.
            common: Settings shared by all input types (the ways to turn documents into examples).
            vocabulary: The number of tokens, and the ids of special tokens by role, such as "cls" and "sep".

        Returns:
            The examples of all passes, the first pass first, and one ledger per pass that accounts for every token.
        """
