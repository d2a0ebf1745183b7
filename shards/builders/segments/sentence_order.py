"""Sentence order: two segments of consecutive sentences of one document, in order (0) or swapped (1).

Lan et al. 2020 (section 3.1): what ALBERT learns in place of next sentence prediction. A chunk is cut as for segment
pairs, between two sentences at a drawn place; a fair coin by its address says whether the parts change places. Segment
ids follow the places, not the text: the first one is A.

No sentence is ever cut, and nothing is truncated. A segment that begins or ends inside a sentence tells which side of
the cut it is of: an end that is cut off makes it the last one, two parts of one sentence fit only one way. So a chunk
of one sentence, which the released script gives a random document and the label 1, is left over and counted:
`one_sentence`, where no second one fits or the document has no more; `too_long`, a sentence longer than an example. A
chunk of three or more gives its last sentence to the next where that would have one alone.

Of the surface, the lengths of both segments are left. The first sentence of a chunk is longer than others, for
it did not fit the one before; so every document is cut from its begin or from its end, by a coin, and the lengths say
nothing where they are the same read backwards. What they say of themselves (a title, a short last line) is measured
(`shards.measures.surfaces`).

The result is a function of the settings and the columns alone; ids and choices are addressed as those of pairs are.

Promise: for every copy, total = placed + truncated + left over; none is truncated.
Cost: 0.4 microseconds an example of 128 tokens (one x86-64 core).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from corpora.store.ledger import Account, Ledger
from corpora.store.randomness import address, below, fold, stream
from corpora.store.settings import check_range
from shards.builders.contract import BuiltExamples, Common
from shards.builders.examples import DocumentTokens, check_columns
from shards.builders.segments.pairs_plain import (
    Document,
    PlainExample,
    documents_of,
    plain_chunk,
    plain_columns,
    plain_target,
)
from shards.builders.segments.plan import PAIR_SPECIALS, PlannedSegments, SegmentPairs, built, written
from shards.builders.segments.sentence_order_kernels import FIGURES, OUTCOMES, PURPOSES, plan_orders
from shards.masks.masking import ShardVocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceOrderInput:
    """Two segments of one document, in order or swapped, as ALBERT reads them.

    short_sequence_probability: share of chunks that aim at a shorter, drawn length
    """

    kind: ClassVar[str] = "sentence-order"
    version: ClassVar[int] = 1
    masked: ClassVar[bool] = True
    segments: ClassVar[int] = 2
    labels: ClassVar[str | None] = "sentence-order"

    short_sequence_probability: float = 0.1

    def __post_init__(self) -> None:
        check_range("shards.short_sequence_probability", self.short_sequence_probability, 0, 1)

    def check(self, common: Common) -> None:
        """Accept all settings: everything goes together."""

    def build(self, columns: DocumentTokens, common: Common, vocabulary: ShardVocabulary) -> BuiltExamples:
        """The examples of all copies."""
        ids, planned = vocabulary.special_ids, plan_all(columns, common, self.short_sequence_probability)
        return built(columns, planned, common.length - PAIR_SPECIALS, cls_id=ids["cls"], sep_id=ids["sep"])


def build_orders(
    columns: DocumentTokens, common: Common, *, short: float, cls_id: int, sep_id: int
) -> tuple[SegmentPairs, tuple[Ledger, ...]]:
    """The examples of all copies, and one checked ledger a copy: account `tokens`, figures `FIGURES`."""
    planned = plan_all(columns, common, short)
    return written(columns, planned.plans, cls_id=cls_id, sep_id=sep_id), tuple(planned.ledgers)


def plan_all(columns: DocumentTokens, common: Common, short: float) -> PlannedSegments:
    """Plan the examples of all copies, before a token is written."""
    check_columns(columns)
    planned, limit = PlannedSegments([], []), common.length - PAIR_SPECIALS
    for copy in range(common.copies):
        counts = np.zeros(len(OUTCOMES + FIGURES), np.int64)
        addresses = np.array([address(common.seed, f"order {purpose}", copy) for purpose in PURPOSES], np.uint64)
        first_link = np.uint64(address(0, "example", copy))
        planned.plans.append(plan_orders(*columns[2:], first_link, addresses, limit, float(short), counts))
        planned.ledgers.append(ledger_of_orders(len(columns.ids), counts.tolist()))
    return planned


def ledger_of_orders(total: int, counts: Sequence[int]) -> Ledger:
    """The ledger of one copy: tokens that came in against counts named by OUTCOMES and FIGURES."""
    named = dict(zip(OUTCOMES + FIGURES, counts, strict=True))
    tokens = Account(unit="tokens", total=total, outcomes={name: named[name] for name in OUTCOMES})
    return Ledger(accounts=(tokens,), figures={name: named[name] for name in FIGURES}).check()


def orders_plain(
    columns: DocumentTokens, common: Common, *, short: float, cls_id: int, sep_id: int
) -> tuple[SegmentPairs, tuple[Ledger, ...]]:
    """Return what `build_orders` gives, in plain Python."""
    check_columns(columns)
    examples: list[PlainExample] = []
    ledgers = []
    for copy in range(common.copies):
        counts = Counter[str]()
        for anchor, document in enumerate(documents_of(columns)):
            key = int(columns.keys[anchor])
            examples += _plain_orders(document, anchor, key, copy, common, short, counts)
        ledgers.append(ledger_of_orders(len(columns.ids), [counts[name] for name in OUTCOMES + FIGURES]))
    return plain_columns(columns, examples, cls_id=cls_id, sep_id=sep_id), tuple(ledgers)


def _plain_orders(
    document: Document, anchor: int, key: int, copy: int, common: Common, short: float, counts: Counter[str]
) -> Iterator[PlainExample]:
    """The examples of one document and copy; the outcomes of its tokens go to `counts`.

    A document that is cut from its end is mirrored: the places of its tokens are below zero.
    """
    rest, limit, ordinal = list(document), common.length - PAIR_SPECIALS, 0
    backwards = bool(below(int(stream(common.seed, "order direction", copy, key)), 0, 2))
    if backwards:
        rest = [range(-sentence.stop, -sentence.start) for sentence in reversed(rest)]
    link = int(fold(address(0, "example", copy), key))
    while rest:
        if len(rest[0]) > limit:
            counts["too_long"] += 1
            counts["left_over"] += len(rest.pop(0))
            continue
        example_id = int(fold(link, ordinal))
        keys = {purpose: int(stream(common.seed, f"order {purpose}", copy, example_id)) for purpose in PURPOSES[:3]}
        size = plain_chunk(rest, limit, plain_target(keys["target"], limit, short))
        chunk, rest = rest[:size], rest[size:]
        text = range(chunk[0].start, chunk[-1].stop)
        if size == 1:
            counts["one_sentence"] += 1
            counts["left_over"] += len(text)
        else:
            middle = chunk[1 + int(below(keys["cut"], 0, size - 1))].start
            parts, swapped = [range(text.start, middle), range(middle, text.stop)], int(below(keys["label"], 0, 2))
            if backwards:
                parts = [range(-part.stop, -part.start) for part in reversed(parts)]
            a, b = reversed(parts) if swapped else parts
            counts["swapped" if swapped else "in_order"] += 1
            counts["placed"] += len(text)
            yield PlainExample(copy, anchor, anchor, ordinal, example_id, swapped, a, b)
        ordinal += 1
