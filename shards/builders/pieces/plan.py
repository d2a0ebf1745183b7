"""Examples made of pieces of documents: a plan of one copy becomes columns, by kernels and by definition.

The pieces of an example follow `[CLS]`, each with a `[SEP]`. With two segments the first piece is A and the second, if
there is one, is B. An example's id is a hash of (key of the document of its first piece, copy, its ordinal in that
document).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from corpora.kernels.arrays import Int64s, UInt32s, UInt64s
from corpora.store.ledger import Account, Ledger
from corpora.store.randomness import compute_address, fold
from shards.builders.contract import Common, DocumentTokens, Examples
from shards.builders.pieces.plan_kernels import (
    DOCUMENT,
    END,
    EXAMPLE,
    PIECE_WIDTH,
    START,
    fill_ordinals,
    write_pieces,
)
from shards.masks.masking import ShardVocabulary


class ExampleLayout(NamedTuple):
    """The format of examples: their special tokens, their number of segments, and whether they have labels.

    Attributes:
        cls_id: Id of the [CLS] token.
        sep_id: Id of the [SEP] token.
        segments: Number of segments, 1 or 2.
        has_labels: Whether examples have a label: 1 if their segments are from two documents, otherwise 0.
    """

    cls_id: int
    sep_id: int
    segments: int = 1
    has_labels: bool = False

    @classmethod
    def from_vocabulary(
        cls, vocabulary: ShardVocabulary, segments: int = 1, *, has_labels: bool = False
    ) -> "ExampleLayout":
        """Return a layout with the [CLS] and [SEP] tokens of a vocabulary.

        Args:
            vocabulary: The vocabulary.
            segments: Number of segments, 1 or 2.
            has_labels: Whether examples have a label.

        Raises:
            KeyError: The vocabulary has no special token with the role "cls" or "sep".
        """
        return cls(vocabulary.special_ids["cls"], vocabulary.special_ids["sep"], segments, has_labels)


def compute_copy_key(copy: int) -> np.uint64:
    """Compute the random key for copy number `copy`. Copies are passes over the documents, numbered from 0.

    The id of an example is `fold(fold(compute_copy_key(copy), document key), ordinal)`.
    """
    return np.uint64(compute_address(0, "example", copy))


def compute_purpose_keys(common: Common, purposes: Sequence[str], copy: int) -> UInt64s:
    """Compute one random key for each kind of random choice in one pass over the documents.

    Args:
        common: Settings shared by all input types, which contain the seed.
        purposes: Names of the kinds of choices.
        copy: Zero-based pass over the documents.

    Returns:
        uint64 [purposes], the keys in the order of `purposes`.
    """
    return np.array([compute_address(common.seed, purpose, copy) for purpose in purposes], np.uint64)


def compute_ordinals(pieces: Int64s) -> UInt32s:
    """Number the examples that begin in the same document, from 0, in the order of the plan: uint32 [examples].

    Args:
        pieces: int64 [pieces, PIECE_WIDTH], the plan: a row (start, end, document, example) per piece. Examples that
            begin in the same document must be consecutive.
    """
    ordinals = np.empty(_count_examples(pieces), np.uint32)
    fill_ordinals(pieces, ordinals)
    return ordinals


def build_examples(
    columns: DocumentTokens, pieces: Int64s, ordinals: UInt32s, copy: int, layout: ExampleLayout
) -> Examples:
    """Write the tokens of the planned examples of one pass over the documents, and compute their other columns.

    Args:
        columns: The documents of the shard.
        pieces: int64 [pieces, PIECE_WIDTH], the plan: a row (start, end, document, example) for each run of one
            document's tokens in one example.
        ordinals: uint32 [examples], the zero-based index of each example among those that begin in the same document.
        copy: Zero-based pass over the documents.
        layout: Special tokens, number of segments and labels.
    """
    num_examples, numbers = _count_examples(pieces), pieces[:, EXAMPLE]
    sizes = pieces[:, END] - pieces[:, START] + 1
    lengths = 1 + np.bincount(numbers, weights=sizes, minlength=num_examples).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ids, word_starts = np.empty(offsets[-1], columns.ids.dtype), np.empty(offsets[-1], np.uint8)
    write_pieces(columns.ids, columns.word_starts, pieces, layout.cls_id, layout.sep_id, ids, word_starts)
    is_first = np.diff(numbers, prepend=-1) != 0
    is_new_document = is_first | (np.diff(pieces[:, DOCUMENT], prepend=-1) != 0)
    num_documents = np.bincount(numbers[is_new_document], minlength=num_examples)
    anchors = pieces[is_first, DOCUMENT]
    return Examples(
        ids=ids,
        offsets=offsets,
        word_starts=word_starts,
        boundary=(lengths if layout.segments == 1 else 1 + sizes[is_first]).astype(np.uint16),
        label=(num_documents - 1).astype(np.uint8) if layout.has_labels else None,
        second_document=(num_documents - 1).astype(np.uint16) if layout.segments == 2 else None,
        documents=pieces[is_new_document, DOCUMENT].astype(np.int32),
        document_offsets=np.concatenate([[0], np.cumsum(num_documents, dtype=np.int64)]),
        ordinal=ordinals,
        copy=np.full(num_examples, copy, np.uint16),
        example_id=fold(fold(compute_copy_key(copy), columns.keys[anchors]), ordinals.astype(np.uint64)),
    )


def count_placed(pieces: Int64s) -> int:
    """Count the tokens that a plan puts into examples, without special tokens.

    `pieces` is the plan, int64 [pieces, PIECE_WIDTH]: a row (start, end, document, example) per piece.
    """
    return int((pieces[:, END] - pieces[:, START]).sum())


def build_copy_ledger(total: int, placed: int, left_over: int, figures: Mapping[str, int]) -> Ledger:
    """Build the ledger of one pass over the documents from token counts, and check that they add up.

    Args:
        total: Number of tokens in the documents.
        placed: Number of these tokens that are in examples.
        left_over: Number of these tokens that are in no example.
        figures: Additional counts to store, by name.

    Raises:
        LedgerError: `placed` and `left_over` do not add up to `total`.
    """
    outcomes = {"placed": placed, "truncated": 0, "left_over": left_over}
    return Ledger(accounts=(Account(unit="tokens", total=total, outcomes=outcomes),), figures=dict(figures)).check()


def _count_examples(pieces: Int64s) -> int:
    """Return the number of examples in a plan, int64 [pieces, PIECE_WIDTH]. It is 0 if the plan has no rows."""
    return int(pieces[-1, EXAMPLE]) + 1 if len(pieces) else 0


def join_examples(parts: Sequence[Examples]) -> Examples:
    """Concatenate several `Examples`. The list must not be empty, and either all parts have labels or none has."""
    columns: dict[str, Any] = {}
    for name in Examples._fields:
        values = [getattr(part, name) for part in parts]
        if name in ("offsets", "document_offsets"):
            columns[name] = _join_offsets(values)
        else:
            columns[name] = None if values[0] is None else np.concatenate(values)
    return Examples(**columns)


def _join_offsets(parts: Sequence[Int64s]) -> Int64s:
    """Combine the list offsets of several arrays into the offsets of the concatenated array: int64, starting with 0."""
    lengths = np.concatenate([np.diff(part) for part in parts])
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


class PlainPiece(NamedTuple):
    """The run of tokens [start, end) of one document. Positions count through all documents of the shard."""

    start: int
    end: int
    document: int


class PlannedExample(NamedTuple):
    """One example as a list of pieces (runs of tokens), numbered from 0 among the examples that begin in the same
    document.
    """

    ordinal: int
    pieces: Sequence[PlainPiece]


def build_examples_plain(
    columns: DocumentTokens, planned: Sequence[PlannedExample], copy: int, layout: ExampleLayout
) -> Examples:
    """Reference implementation of `build_examples`, for tests.

    Args:
        columns: The documents of the shard.
        planned: The examples of one pass, in order.
        copy: Zero-based pass over the documents.
        layout: Special tokens, number of segments and labels.
    """
    ids, starts, lengths, boundaries = list[int](), list[int](), list[int](), list[int]()
    documents, num_documents, example_ids = list[int](), list[int](), list[int]()
    for ordinal, pieces in planned:
        tokens = [(layout.cls_id, 0)]
        ends = []
        for piece in pieces:
            run = slice(piece.start, piece.end)
            tokens += zip(columns.ids[run].tolist(), columns.word_starts[run].tolist(), strict=True)
            tokens.append((layout.sep_id, 0))
            ends.append(len(tokens))
        ids += [id for id, _ in tokens]
        starts += [begins for _, begins in tokens]
        lengths.append(len(tokens))
        boundaries.append(ends[0] if layout.segments == 2 else ends[-1])
        of_example = list(dict.fromkeys(piece.document for piece in pieces))
        documents += of_example
        num_documents.append(len(of_example))
        example_ids.append(int(fold(fold(compute_address(0, "example", copy), columns.keys[of_example[0]]), ordinal)))
    num_others = [number - 1 for number in num_documents]
    dtype: npt.DTypeLike = columns.ids.dtype
    return Examples(
        ids=np.array(ids, dtype),
        offsets=np.cumsum([0, *lengths], dtype=np.int64),
        word_starts=np.array(starts, np.uint8),
        boundary=np.array(boundaries, np.uint16),
        label=np.array(num_others, np.uint8) if layout.has_labels else None,
        second_document=np.array(num_others, np.uint16) if layout.segments == 2 else None,
        documents=np.array(documents, np.int32),
        document_offsets=np.cumsum([0, *num_documents], dtype=np.int64),
        ordinal=np.array([ordinal for ordinal, _ in planned], np.uint32),
        copy=np.full(len(planned), copy, np.uint16),
        example_id=np.array(example_ids, np.uint64),
    )


def count_placed_plain(planned: Sequence[PlannedExample]) -> int:
    """Count the document tokens in the examples. Special tokens are not counted."""
    return sum(piece.end - piece.start for example in planned for piece in example.pieces)


def number_examples_plain(rows: Sequence[Sequence[PlainPiece]]) -> list[PlannedExample]:
    """Convert each row of pieces to a `PlannedExample`, numbered from 0 among the rows that begin in the same document.

    Args:
        rows: The pieces (runs of tokens) of each example.
    """
    anchors = [row[0].document for row in rows]
    return [PlannedExample(anchors[:number].count(anchors[number]), row) for number, row in enumerate(rows)]


def to_plan_matrix(planned: Sequence[PlannedExample]) -> Int64s:
    """Convert examples to the matrix that the kernels write: int64 [pieces, PIECE_WIDTH].

    The pieces keep their order, and the index of an example in `planned` becomes its number in the matrix.
    """
    rows = [
        [piece.start, piece.end, piece.document, number]
        for number, example in enumerate(planned)
        for piece in example.pieces
    ]
    return np.array(rows, np.int64).reshape(-1, PIECE_WIDTH)
