"""The columns of tokenized documents and of examples, and the view of one example.

On the way an example is a row of an Arrow record batch. `Example` is the view of one row, for people, tests and rare
paths. Token ids are uint16 if the vocabulary fits, else uint32.
"""

from dataclasses import dataclass

import pyarrow as pa

from corpora.kernels.arrays import Bools, Ids, UInt16s
from corpora.schema import ID_BYTES


def choose_id_type(vocab_size: int) -> pa.DataType:
    """Return the narrowest Arrow type for a vocabulary's token ids: uint16 up to 65,536 tokens, otherwise uint32."""
    return pa.uint16() if vocab_size <= 1 << 16 else pa.uint32()


def build_token_schema(id_type: pa.DataType) -> pa.Schema:
    """Build the Arrow schema of tokenized documents with token ids of this type.

    Rows are sorted by (shuffle hash, id), so each shard is one contiguous range of rows in every part.
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
    """Build the Arrow schema of training examples.

    Args:
        id_type: Arrow type of the token ids.
        labels: Whether each example has a label.
        pairs: Whether each example has two segments, `[CLS] A [SEP] B [SEP]`.
        static_masks: Whether masks are stored with the examples.
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
    """One training example. The arrays are views of its row.

    Attributes:
        example_id: Hash of the first document, the copy and the ordinal. It addresses all random choices for this
            example.
        ids: uint16 or uint32 [length], the unmasked token ids.
        word_starts: bool [length], whether each token begins a word. It is False for special tokens.
        boundary: Number of tokens of the first segment, `[CLS] A [SEP]`, or the length of the example if there is no B.
        documents: Ids of the documents that the example contains, in order.
        revisions: Revision of each of these documents.
        copy: Zero-based pass over the documents in which the example was made.
        ordinal: Zero-based index of the example among those with the same first document and copy.
        label: 1 if B does not follow A (next-sentence) or if A and B are swapped (sentence-order), otherwise 0. None
            without labels.
        second_document: Index in `documents` of the document that contains B, or None if the input has one segment.
        mask_positions: uint16 [masks], the positions of masked tokens, ascending. Empty with dynamic masks.
        mask_ids: [masks], the ids that the model sees at these positions.
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
        """Id of the first document of the example."""
        return self.documents[0]
