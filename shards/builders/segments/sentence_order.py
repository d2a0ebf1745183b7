"""Sentence order: two segments of consecutive sentences of one document, in order (0) or swapped (1).

Lan et al. 2020 (section 3.1): what ALBERT learns in place of next sentence prediction. A chunk is cut as for segment
pairs, between two sentences at a drawn place; a fair coin by its address says whether the parts change places. Segment
ids follow the places, not the text: the first one is A.

Two sentences or more that fit are a chunk, which is never cut inside one. A sentence that no neighbour fits with, or
that is longer than an example, is joined with those next to it of which that is true, and all of them are cut at words
into pieces of like length, each a chunk. A segment that begins or ends inside a sentence tells which side of the cut it
is of where the other one does not, so a piece begins, is divided and ends inside sentences, never where one begins or
ends. The words by such a place tell its side as well (the last word before a full stop): `MARGIN` tokens at both ends
of what is cut are left over and counted, and so is a piece in which no word begins (`one_word`). A chunk of three or
more sentences gives its last one to the next where that would have one alone.

Of the surface, the lengths of both segments are left. The first sentence of a chunk is longer than others, for
it did not fit the one before; so every document is cut from its begin or from its end, by a coin, and the lengths say
nothing where they are the same read backwards. Sentences with which documents begin or end alike (greetings, titles)
are left over as well, `alike_tokens`: see `alike.py`. The rest is measured (`shards.measures.surfaces`).

Of English books, contracts and patents 3.7 % of the tokens are left over at most at length 64, 1.2 % at 128; a probe of
the first and last token of both segments and their lengths guesses at most 54 % of the labels (2026-11).

The result is a function of the settings and the columns alone; ids and choices are addressed as those of pairs are.

Promise: for every copy, total = placed + truncated + left over; none is truncated.
Cost: 0.4 microseconds an example of 128 tokens (one x86-64 core).
"""

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from corpora.store.ledger import Account, Ledger
from corpora.store.randomness import address, below, fold, stream
from corpora.store.settings import check_range
from shards.builders.contract import BuiltExamples, Common
from shards.builders.examples import DocumentTokens, check_columns
from shards.builders.segments.alike import kept_plain, kept_sentences
from shards.builders.segments.pairs_plain import (
    Document,
    PlainExample,
    documents_of,
    plain_chunk,
    plain_columns,
    plain_target,
)
from shards.builders.segments.plan import PAIR_SPECIALS, PlannedSegments, SegmentPairs, built
from shards.builders.segments.sentence_order_kernels import (
    FIGURES,
    MARGIN,
    OUTCOMES,
    PURPOSES,
    plan_orders,
)
from shards.masks.masking import ShardVocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceOrderInput:
    """Two segments of one document, in order or swapped, as ALBERT reads them.

    short_sequence_probability: share of chunks that aim at a shorter, drawn length
    """

    kind: ClassVar[str] = "sentence-order"
    version: ClassVar[int] = 2
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


def plan_all(columns: DocumentTokens, common: Common, short: float) -> PlannedSegments:
    """Plan the examples of all copies, before a token is written."""
    check_columns(columns)
    planned, limit = PlannedSegments([], []), common.length - PAIR_SPECIALS
    inside, kept = np.append(columns.word_starts, np.uint8(0)), kept_sentences(columns, limit)
    inside[columns.sentences] = 0
    alike = len(columns.ids) - int(np.diff(columns.sentences[kept]).sum())
    for copy in range(common.copies):
        counts = np.zeros(len(OUTCOMES + FIGURES), np.int64)
        addresses = np.array([address(common.seed, f"order {purpose}", copy) for purpose in PURPOSES], np.uint64)
        first_link = np.uint64(address(0, "example", copy))
        plan = plan_orders(
            inside, columns.sentences, kept, columns.keys, first_link, addresses, limit, float(short), counts
        )
        planned.plans.append(plan)
        planned.ledgers.append(ledger_of_orders(len(columns.ids), counts.tolist(), alike))
    return planned


def ledger_of_orders(total: int, counts: Sequence[int], alike: int) -> Ledger:
    """The ledger of one copy: tokens that came in against counts named by OUTCOMES and FIGURES.

    alike: tokens of sentences with which documents begin or end alike
    """
    named = dict(zip(OUTCOMES + FIGURES, counts, strict=True))
    outcomes = {name: named[name] for name in OUTCOMES} | {"left_over": named["left_over"] + alike}
    figures = {name: named[name] for name in FIGURES} | {"alike_tokens": alike}
    return Ledger(accounts=(Account(unit="tokens", total=total, outcomes=outcomes),), figures=figures).check()


def orders_plain(
    columns: DocumentTokens, common: Common, *, short: float, cls_id: int, sep_id: int
) -> tuple[SegmentPairs, tuple[Ledger, ...]]:
    """Return the examples of all copies and a checked ledger for each, in plain Python: the twin of `plan_all`."""
    check_columns(columns)
    examples: list[PlainExample] = []
    ledgers, limit = [], common.length - PAIR_SPECIALS
    begins = {sentence.start for document in documents_of(columns) for sentence in document}
    inside = {place for place, starts in enumerate(columns.word_starts.tolist()) if starts} - begins
    documents = kept_plain(columns, limit)
    alike = len(columns.ids) - sum(len(sentence) for document in documents for sentence in document)
    for copy in range(common.copies):
        counts = Counter[str]()
        for anchor, document in enumerate(documents):
            key = int(columns.keys[anchor])
            examples += _plain_orders(document, inside, anchor, key, copy, common, short, counts)
        ledgers.append(ledger_of_orders(len(columns.ids), [counts[name] for name in OUTCOMES + FIGURES], alike))
    return plain_columns(columns, examples, cls_id=cls_id, sep_id=sep_id), tuple(ledgers)


def _plain_orders(
    document: Document,
    inside: Set[int],
    anchor: int,
    key: int,
    copy: int,
    common: Common,
    short: float,
    counts: Counter[str],
) -> Iterator[PlainExample]:
    """The examples of one document and copy; the outcomes of its tokens go to `counts`.

    A document that is cut from its end is mirrored: the places of its tokens are below zero.
    """
    rest, limit, ordinal = list(document), common.length - PAIR_SPECIALS, 0
    backwards = bool(below(int(stream(common.seed, "order direction", copy, key)), 0, 2))
    if backwards:
        rest = [range(-sentence.stop, -sentence.start) for sentence in reversed(rest)]
        inside = {-place for place in inside}
    link, at = int(fold(address(0, "example", copy), key)), rest[0].start
    while rest:
        example_id = int(fold(link, ordinal))
        keys = {purpose: int(stream(common.seed, f"order {purpose}", copy, example_id)) for purpose in PURPOSES[:3]}
        size, is_cut = plain_chunk(rest, limit, plain_target(keys["target"], limit, short)), True
        if at == rest[0].start and size > 1:
            middle, after, is_cut = rest[1 + int(below(keys["cut"], 0, size - 1))].start, rest[size - 1].stop, False
            parts = [range(at, middle), range(middle, after)]
        else:
            parts, after = _plain_piece(rest, sorted(inside), at, limit, keys["cut"])
        swapped = int(below(keys["label"], 0, 2))
        counts["left_over"] += after - at - sum(map(len, parts))
        if not parts:
            counts["one_word"] += 1
        else:
            if backwards:
                parts = [range(-part.stop, -part.start) for part in reversed(parts)]
            a, b = reversed(parts) if swapped else parts
            counts["swapped" if swapped else "in_order"] += 1
            counts["cut_sentences"] += is_cut
            counts["placed"] += len(a) + len(b)
            yield PlainExample(copy, anchor, anchor, ordinal, example_id, swapped, a, b)
        at, ordinal = after, ordinal + 1
        rest = [sentence for sentence in rest if sentence.stop > at]


def _plain_piece(
    rest: Sequence[range], inside: Sequence[int], at: int, limit: int, key: int
) -> tuple[list[range], int]:
    """The two parts of the next piece of sentences that are cut at words, and where the text goes on; maybe no part.

    The sentences are those up to the next two that fit an example together.
    """
    fits = (n for n in range(1, len(rest) - 1) if rest[n + 1].stop - rest[n].start <= limit)
    end = rest[next(fits, len(rest)) - 1].stop
    start = at if at > rest[0].start else next((place for place in inside if place >= at + MARGIN), end)
    stops = [place for place in inside if start < place <= end - MARGIN]
    if not stops:
        return [], end
    pieces = -(-(stops[-1] - start) // limit)
    most = start - (-(stops[-1] - start) // pieces)
    if stops[0] > most:
        return [], stops[0]
    stop = max(place for place in stops if place <= most)
    after = end if stop == stops[-1] else stop
    middles = [place for place in stops if place < stop]
    if not middles:
        return [], after
    drawn = start + 1 + int(below(key, 0, stop - start - 1))
    middle = min(middles, key=lambda place: (abs(place - drawn), place))
    return [range(start, middle), range(middle, stop)], after
