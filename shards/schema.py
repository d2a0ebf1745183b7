"""The columns of tokenized documents and of examples, and the view of one example.

On the way an example is a row of an Arrow record batch. `Example` is the view of one row, for people, tests and rare
paths. Token ids are uint16 if the vocabulary fits, else uint32.
"""

from dataclasses import dataclass

import pyarrow as pa

from corpora.kernels.arrays import Bools, Ids, UInt16s
from corpora.schema import ID_BYTES


def choose_id_type(vocab_size: int) -> pa.DataType:
    """Return the narrowest unsigned type that holds every id of a vocabulary: uint16 up to 65,536, else uint32."""
    return pa.uint16() if vocab_size <= 1 << 16 else pa.uint32()


def build_token_schema(id_type: pa.DataType) -> pa.Schema:
    """Build the schema of tokenized documents.

    Rows are sorted by (shuffle, id), so a shard is one range of rows of every part.
    """
    return pa.schema(
        [
            pa.field("shuffle", pa.uint64(), nullable=False),  # the document's place in the generation's shuffle
            pa.field("id", pa.binary(ID_BYTES), nullable=False),
            pa.field("revision", pa.int64(), nullable=False),
            pa.field("source", pa.string(), nullable=False),
            pa.field("held_out", pa.bool_(), nullable=False),
            pa.field("ids", pa.large_list(id_type), nullable=False),
            pa.field("word_starts", pa.large_list(pa.bool_()), nullable=False),  # one a token
            pa.field("sentence_lengths", pa.large_list(pa.int32()), nullable=False),  # tokens, each at least one
        ]
    )


def build_example_schema(id_type: pa.DataType, *, labels: bool, pairs: bool, static_masks: bool) -> pa.Schema:
    """Build the schema of training examples: `[CLS] A [SEP] B [SEP]`, or `[CLS] ... [SEP]` with a separator between
    documents.

    labels:       whether each example has a label
    pairs:        whether each example has two segments
    static_masks: whether masks are stored with the examples
    """
    fields = [
        pa.field("example_id", pa.uint64(), nullable=False),
        pa.field("ids", pa.list_(id_type), nullable=False),
        pa.field("word_starts", pa.list_(pa.bool_()), nullable=False),  # one a token; false on specials
        pa.field("boundary", pa.uint16(), nullable=False),  # tokens of `[CLS] A [SEP]`, of all where there is no B
        pa.field("documents", pa.list_(pa.binary(ID_BYTES)), nullable=False),  # that it holds, in their order
        pa.field("revisions", pa.list_(pa.int64()), nullable=False),
        pa.field("copy", pa.uint16(), nullable=False),
        pa.field("ordinal", pa.uint32(), nullable=False),  # of the example in its first document and copy
    ]
    label = [pa.field("label", pa.uint8(), nullable=False)]  # next-sentence: 1, B is not what follows A; see the input
    second = [pa.field("second_document", pa.uint16(), nullable=False)]  # place in `documents` of the one that B is of
    masks = [
        pa.field("mask_positions", pa.list_(pa.uint16()), nullable=False),
        pa.field("mask_ids", pa.list_(id_type), nullable=False),  # what the model sees at those positions
    ]
    return pa.schema(fields + label * labels + second * pairs + masks * static_masks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One example, as a view of its row.

    ids:             uint16 or uint32 [length], unmasked
    word_starts:     bool [length]
    boundary:        number of tokens of `[CLS] A [SEP]`; segment ids are 0 before it and 1 from it on
    documents:       ids of the documents that it holds, in their order; the first is its anchor
    revisions:       revisions of these documents
    label:           next-sentence: 0 if B follows A, else 1; sentence-order: 1 if A and B are swapped; None without
                     labels
    second_document: index in `documents` of the document that B is from; None if there is no B
    mask_positions:  uint16 [masked], ascending; empty with dynamic masks
    mask_ids:        the ids that the model sees at those positions; the original tokens are ids[mask_positions]
    """

    example_id: int
    ids: Ids
    word_starts: Bools
    boundary: int
    documents: tuple[bytes, ...]
    revisions: tuple[int, ...]
    copy: int
    ordinal: int
    label: int | None
    second_document: int | None = None
    mask_positions: UInt16s
    mask_ids: Ids

    @property
    def document(self) -> bytes:
        """The id of the document of its first token: its anchor."""
        return self.documents[0]
