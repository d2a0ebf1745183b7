"""Examples of two segments, `[CLS] A [SEP] B [SEP]`: planned as rows of numbers, written out as columns."""

from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Bytes, Ids, Int32s, Int64s, UInt16s, UInt32s, UInt64s
from corpora.store.ledger import Ledger
from shards.builders.contract import BuiltExamples, DocumentTokens, Examples
from shards.builders.segments.plan_kernels import (
    A_LENGTH,
    A_START,
    ANCHOR,
    B_LENGTH,
    B_START,
    EXAMPLE_ID,
    LABEL,
    ORDINAL,
    OTHER,
    write_examples,
)
from shards.surfaces import Segments, count_surfaces

PAIR_SPECIALS = 3


class PlannedSegments(NamedTuple):
    """The planned examples of each copy.

    Attributes:
        plans: One plan per copy: int64 [examples, PLAN_WIDTH], the positions of both segments and the values of other
            columns.
        ledgers: One checked ledger (an account of every token) per copy.
    """

    plans: list[Int64s]
    ledgers: list[Ledger]


class SegmentPairs(NamedTuple):
    """n examples with two segments, ordered by copy, document and ordinal."""

    ids: Ids  # flat: [CLS] A [SEP] B [SEP]
    offsets: Int64s  # [n + 1], into ids
    word_starts: Bytes  # flat, 0 on specials
    boundary: UInt16s  # [n], length of [CLS] A [SEP]
    label: Bytes  # [n]
    anchor: Int32s  # [n], index of A's document
    partner: Int32s  # [n], index of B's document
    ordinal: UInt32s  # [n], number of the chunk in A's document
    copy: UInt16s  # [n]
    example_id: UInt64s  # [n]


def write_pairs(columns: DocumentTokens, plans: list[Int64s], *, cls_id: int, sep_id: int) -> SegmentPairs:
    """Build the examples of all plans: write their tokens, and return them concatenated in the order of the plans.

    Args:
        columns: The documents of the shard.
        plans: One plan per copy, int64 [examples, PLAN_WIDTH], as from `plan_copy` or `plan_orders`.
        cls_id: Id of the [CLS] token.
        sep_id: Id of the [SEP] token.
    """
    return _write_plan(columns, np.concatenate(plans), [len(plan) for plan in plans], cls_id, sep_id)


def _write_plan(columns: DocumentTokens, plan: Int64s, numbers: list[int], cls_id: int, sep_id: int) -> SegmentPairs:
    """Build the examples of all passes over the documents from their concatenated plans.

    Args:
        columns: The documents of the shard.
        plan: int64 [examples, PLAN_WIDTH], the concatenated plans of all passes, as from `plan_copy`.
        numbers: Number of examples of each pass.
        cls_id: Id of the [CLS] token.
        sep_id: Id of the [SEP] token.
    """
    offsets = np.zeros(len(plan) + 1, np.int64)
    np.cumsum(plan[:, A_LENGTH] + plan[:, B_LENGTH] + PAIR_SPECIALS, out=offsets[1:])
    ids = np.empty(offsets[-1], columns.ids.dtype)
    word_starts = np.empty(offsets[-1], np.uint8)
    write_examples(columns.ids, columns.word_starts, plan, offsets, cls_id, sep_id, ids, word_starts)
    return SegmentPairs(
        ids=ids,
        offsets=offsets,
        word_starts=word_starts,
        boundary=(plan[:, A_LENGTH] + 2).astype(np.uint16),
        label=plan[:, LABEL].astype(np.uint8),
        anchor=plan[:, ANCHOR].astype(np.int32),
        partner=plan[:, OTHER].astype(np.int32),
        ordinal=plan[:, ORDINAL].astype(np.uint32),
        copy=np.repeat(np.arange(len(numbers), dtype=np.uint16), numbers),
        example_id=plan[:, EXAMPLE_ID].copy().view(np.uint64),
    )


def to_examples(pairs: SegmentPairs) -> Examples:
    """Convert segment pairs to `Examples`. If both segments are from one document, it is listed once."""
    has_two = pairs.partner != pairs.anchor
    offsets = np.concatenate([[0], np.cumsum(has_two, dtype=np.int64)]) + np.arange(len(has_two) + 1)
    documents = np.empty(offsets[-1], np.int32)
    documents[offsets[1:] - 1] = pairs.partner
    documents[offsets[:-1]] = pairs.anchor
    return Examples(
        ids=pairs.ids,
        offsets=pairs.offsets,
        word_starts=pairs.word_starts,
        boundary=pairs.boundary,
        label=pairs.label,
        second_document=has_two.astype(np.uint16),
        documents=documents,
        document_offsets=offsets,
        ordinal=pairs.ordinal,
        copy=pairs.copy,
        example_id=pairs.example_id,
    )


def to_built_examples(
    columns: DocumentTokens, planned: PlannedSegments, room: int, *, cls_id: int, sep_id: int
) -> BuiltExamples:
    """Build the planned examples, and count their surface features, such as lengths.

    A model could use these features to guess the labels without reading the text.

    Args:
        columns: The documents of the shard.
        planned: The plan and ledger of each copy.
        room: Maximum number of tokens in both segments together.
        cls_id: Id of the [CLS] token.
        sep_id: Id of the [SEP] token.
    """
    plan = np.concatenate(planned.plans)
    pairs = _write_plan(columns, plan, [len(rows) for rows in planned.plans], cls_id, sep_id)
    segments = Segments(plan[:, A_START], plan[:, A_LENGTH], plan[:, B_START], plan[:, B_LENGTH])
    surfaces = count_surfaces(columns.sentences, segments, pairs.label, pairs.example_id, room=room)
    return BuiltExamples(to_examples(pairs), tuple(planned.ledgers), surfaces=surfaces)
