"""Sentence order: two segments of consecutive sentences of one document, in order (0) or swapped (1).

Lan et al. 2020 (section 3.1): what ALBERT learns in place of next sentence prediction. A chunk is cut as for segment
pairs, between two sentences at a drawn place; a fair coin by its address says whether the parts change places. Segment
ids follow the places, not the text: the first one is A.

Two sentences or more that fit are a chunk, which is never cut inside one. A sentence that no neighbour fits with, or
that is longer than an example, is joined with neighbours of its kind, and all of them are cut at words into pieces of
like length, each a chunk. A segment that begins or ends inside a sentence tells which side of the cut it is of, if the
other one does not; so a piece begins, is divided and ends inside sentences, never at the begin or end of one. The words
next to such a place tell its side as well (the last word before a full stop): `MARGIN` tokens at both ends of what is
cut are left over and counted, and so is a piece in which no word begins (`one_word`). A chunk of three or more
sentences gives its last one to the next if that would have a single one.

Of the surface, the lengths of both segments are left. The first sentence of a chunk is longer than others, for it did
not fit the one before; so every document is cut from its begin or from its end, by a coin, and the lengths say nothing
if they are the same read backwards. The rest is measured (`shards.surfaces`).

Sentences with which documents begin or end alike (greetings, headings, closings, what a form prints) are left over as
well, `alike_tokens`. A chunk that begins with "Dear Sir," is in order, whatever it says next: the sentence tells its
place in the document, and no other word needs to be read. A look of a sentence is its first token, its last one,
whether that ends one in `COMMON_ONE_IN` sentences (as a full stop does, and the last word of a title does not), or its
length. A sentence at an end of its document is telling if one of its looks is over `MIN_RATIO` times as frequent there
as elsewhere, of more than a few sentences (`MIN_COUNT`). They are left out at one end after the other, first at the one
that takes fewer tokens, and so are the next ones, `MAX_ROUNDS` times at most. If they are fewer than one in
`RARE_ONE_IN` of the chunks that all tokens fill, as in books, they stay: they cannot teach a model.

Of English books, contracts and patents 3.7 % of the tokens are left over at most at length 64, 1.2 % at 128; a probe of
the first and last token of both segments and their lengths guesses at most 54 % of the labels (2026-11). With letters
made of sentences of novels (1 to 4, and greetings, titles, closings) it guesses 50 to 53 %, and 58 to 99.8 % if the
telling sentences stay.

The result is a function of the settings and the columns only; ids and choices are addressed as those of pairs are.

Promise: for every copy, total = placed + truncated + left over; none is truncated. Kernels plan the examples, and those
of `plan_kernels` write them; `build_sentence_orders_plain` defines them. Cost: 0.4 microseconds an example of 128
tokens, and 20 nanoseconds a sentence and round (one x86-64 core).
"""

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import ClassVar

import numpy as np

from corpora.kernels.arrays import Bools, Bytes, Int64s, UInt64s
from corpora.kernels.compiling import kernel
from corpora.store.ledger import Account, Ledger
from corpora.store.randomness import compute_address, compute_keys, draw_below, draw_below_one, fold, fold_one
from corpora.store.settings import check_range
from shards.builders.contract import BuiltExamples, Common, DocumentTokens, check_columns
from shards.builders.segments.pairs_plain import (
    Document,
    PlainExample,
    count_sentences_plain,
    draw_target_plain,
    list_documents,
    to_segment_pairs_plain,
)
from shards.builders.segments.plan import PAIR_SPECIALS, PlannedSegments, SegmentPairs, to_built_examples
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
    PLAN_WIDTH,
    draw_target,
    draw_word_start,
    find_chunk_end,
    find_last_word,
    find_next_word,
    grow_if_full,
)
from shards.masks.masking import ShardVocabulary

MAX_ROUNDS, MIN_RATIO, MIN_COUNT, RARE_ONE_IN, COMMON_ONE_IN = 8, 4, 10, 50, 100


def find_kept_sentences(columns: DocumentTokens, room: int) -> Int64s:
    """Find the sentences of each document that are used: all but those with which many documents begin or end.

    Such sentences, for example greetings, would reveal the order of two segments. Every document keeps at least one
    sentence.

    Args:
        columns: The documents of the shard.
        room: Maximum number of tokens in both segments together.

    Returns:
        int64 [documents, 2], the index of the first sentence to use, and the index after the last. Sentences are
        numbered through all documents of the shard.
    """
    sentences, chunks = columns.sentences, len(columns.ids) // room + 1
    lengths = np.diff(sentences)
    first, last = (columns.ids[places].astype(np.int64) for places in (sentences[:-1], sentences[1:] - 1))
    ends_many = (np.bincount(last)[last] * COMMON_ONE_IN >= len(last)).astype(np.int64)
    looks = [first, last, ends_many, np.minimum(lengths, room)]
    kept = np.stack([columns.documents[:-1], columns.documents[1:]], axis=1)
    for _ in range(MAX_ROUNDS):
        several = np.flatnonzero(kept[:, 1] - kept[:, 0] > 1)
        found = [_find_telling(looks, kept[several, side] - side) for side in range(2)]
        costs = [
            (int(lengths[kept[several[is_telling], side] - side].sum()), side)
            for side, is_telling in enumerate(found)
            if np.count_nonzero(is_telling) * RARE_ONE_IN > chunks
        ]
        if not costs:
            break
        _, side = min(costs)
        kept[several[found[side]], side] += 1 - 2 * side
    return kept


def _find_telling(looks: Sequence[Int64s], ends: Int64s) -> Bools:
    """Flag the documents that begin (or end) with a sentence that has a telling feature.

    A feature is telling if it is frequent at the beginning (or end) of documents and rare elsewhere.

    Args:
        looks: The values of each feature, such as the first token: int64 [sentences] each.
        ends: int64 [documents], the index of the first or of the last sentence of each document.

    Returns:
        bool [documents], in the order of `ends`.
    """
    is_telling = np.zeros(len(ends), bool)
    for look in looks:
        here = np.bincount(look[ends], minlength=int(look.max(initial=0)) + 1)
        elsewhere = np.bincount(look, minlength=len(here)) - here
        often = here * (len(look) - len(ends)) > MIN_RATIO * (elsewhere + MIN_COUNT) * len(ends)
        is_telling |= often[look[ends]]
    return is_telling


def find_kept_sentences_plain(columns: DocumentTokens, room: int) -> list[list[range]]:
    """Reference implementation of `find_kept_sentences` in plain Python, for tests.

    Args:
        columns: The documents of the shard.
        room: Maximum number of tokens in both segments together.

    Returns:
        For each document the sentences to use, each as a range of token positions.
    """
    ids = columns.ids.tolist()
    sentences = [range(*bounds) for bounds in pairwise(columns.sentences.tolist())]
    documents = [sentences[first:last] for first, last in pairwise(columns.documents.tolist())]
    lasts = Counter(ids[sentence[-1]] for sentence in sentences)
    common = {id for id in lasts if lasts[id] * COMMON_ONE_IN >= len(sentences)}
    looks = partial(_list_looks, ids, common, room)
    totals = Counter(look for sentence in sentences for look in looks(sentence))
    for _ in range(MAX_ROUNDS):
        several, choices = [document for document in documents if len(document) > 1], []
        for side in (0, -1):
            here = Counter(look for document in several for look in looks(document[side]))
            others = len(sentences) - len(several)
            often = {n for n in here if here[n] * others > MIN_RATIO * (totals[n] - here[n] + MIN_COUNT) * len(several)}
            telling = [document for document in several if often & set(looks(document[side]))]
            if len(telling) * RARE_ONE_IN > len(ids) // room + 1:
                choices.append((sum(len(document[side]) for document in telling), -side, telling))
        if not choices:
            break
        _, side, telling = min(choices)
        for document in telling:
            document.pop(-side)
    return documents


def _list_looks(ids: list[int], common: Set[int], room: int, sentence: range) -> list[tuple[str, int]]:
    """List the surface features of a sentence, as pairs of a name and a value.

    Args:
        ids: The token ids of all documents.
        common: Ids of tokens that end many sentences.
        room: Longer sentences are treated as having this length.
        sentence: The token positions of the sentence.

    Returns:
        The features "first" and "last" (token ids), "ends many" (whether the last token is in `common`) and "length".
    """
    last = ids[sentence[-1]]
    first, length = ids[sentence[0]], min(len(sentence), room)
    return [("first", first), ("last", last), ("ends many", last in common), ("length", length)]


MARGIN = 5  # tokens of a cut sentence that are left over at its begin, and at its end
PURPOSES = ("target", "label", "cut", "direction")
_TARGET, _LABEL, _CUT, _DIRECTION = range(4)
OUTCOMES = ("placed", "truncated", "left_over")
# Chunks by label; those in which sentences are cut; pieces that are left over, for no word begins in them.
FIGURES = ("in_order", "swapped", "cut_sentences", "one_word")
_PLACED, _TRUNCATED, _LEFT, _IN_ORDER, _SWAPPED, _CUTS, _ONE_WORD = range(7)


@kernel
def plan_orders(
    inside: Bytes,
    sentences: Int64s,
    kept: Int64s,
    keys: UInt64s,
    copy_key: np.uint64,
    addresses: UInt64s,
    limit: int,
    short: float,
    counts: Int64s,
) -> Int64s:
    """Plan the sentence order examples of one pass over the documents: int64 [examples, PLAN_WIDTH], one row each.

    The columns are start and length of A, start and length of B, document of A, document of B, number of the example in
    A's document, label and example id.

    Args:
        inside: uint8 [tokens + 1], 1 if a word but no sentence begins at the token.
        sentences: int64 [sentences + 1], the start of each sentence in the tokens.
        kept: int64 [documents, 2], the sentences to use, from `find_kept_sentences`.
        keys: uint64 [documents], the hash of each document.
        copy_key: Random key of the copy.
        addresses: uint64 [4], the random keys of the choices in `PURPOSES`.
        limit: Maximum number of tokens in both segments together.
        short: Probability that an example is shorter, with a random target length.
        counts: int64 [outcomes + figures], incremented in place, in the order of OUTCOMES + FIGURES.
    """
    rows, num, mirrored = np.empty((1024, PLAN_WIDTH), np.int64), 0, inside[::-1].copy()
    for anchor in range(len(kept)):
        link = fold_one(copy_key, keys[anchor])
        words, bounds = inside, sentences[kept[anchor, 0] : kept[anchor, 1] + 1]
        backwards = draw_below_one(fold_one(addresses[_DIRECTION], keys[anchor]), 0, 2)
        if backwards:
            words, bounds = mirrored, sentences[-1] - bounds[::-1]
        first, last, ordinal, begin = 0, len(bounds) - 1, 0, bounds[0]
        while first < last:
            example_id = fold_one(link, np.uint64(ordinal))
            target = draw_target(fold_one(addresses[_TARGET], example_id), limit, short)
            cut_key = fold_one(addresses[_CUT], example_id)
            is_whole = begin == bounds[first] and _can_join_next(bounds, first, limit)
            if is_whole:
                end = find_chunk_end(bounds, begin, first, last, limit, target)
                start, middle, stop = (
                    begin,
                    bounds[first + 1 + draw_below_one(cut_key, 0, end - first - 1)],
                    bounds[end],
                )
                after = stop
            else:
                start, middle, stop, after = _find_piece(words, bounds, begin, first, limit, cut_key)
            if middle < 0:
                counts[_LEFT] += after - begin
                counts[_ONE_WORD] += 1
            else:
                counts[_PLACED] += stop - start
                counts[_LEFT] += start - begin + after - stop
                counts[_CUTS] += not is_whole
                if backwards:
                    start, middle, stop = sentences[-1] - stop, sentences[-1] - middle, sentences[-1] - start
                rows, swapped = grow_if_full(rows, num), draw_below_one(fold_one(addresses[_LABEL], example_id), 0, 2)
                row = rows[num]
                row[A_START], row[A_LENGTH] = start, middle - start
                row[B_START], row[B_LENGTH] = middle, stop - middle
                if swapped:
                    row[A_START], row[A_LENGTH] = middle, stop - middle
                    row[B_START], row[B_LENGTH] = start, middle - start
                row[ANCHOR], row[OTHER] = anchor, anchor
                row[ORDINAL], row[LABEL], row[EXAMPLE_ID] = ordinal, swapped, np.int64(example_id)
                counts[_SWAPPED if swapped else _IN_ORDER] += 1
                num += 1
            begin = after
            while first < last and bounds[first + 1] <= begin:
                first += 1
            ordinal += 1
    return rows[:num].copy()


@kernel
def _can_join_next(bounds: Int64s, first: int, limit: int) -> bool:
    """Return whether a sentence and the next one together fit into `limit` tokens.

    Args:
        bounds: The start of each sentence, followed by the end of the last one.
        first: Index of the sentence in `bounds`. The result is False for the last sentence.
        limit: Maximum number of tokens in both sentences together.
    """
    return first + 2 < len(bounds) and bounds[first + 2] - bounds[first] <= limit


@kernel
def _find_piece(
    words: Bytes, bounds: Int64s, begin: int, first: int, limit: int, key: np.uint64
) -> tuple[int, int, int, int]:
    """Find the next piece (the text of an example) in sentences of which no two fit into an example.

    Such sentences are cut at words. They end before the next two that fit into an example together. `MARGIN` tokens at
    both ends of the sentences belong to no piece. All positions are token positions in the order in which the document
    is cut.

    Args:
        words: uint8 [tokens + 1], 1 if a word but no sentence begins at the token.
        bounds: int64 [sentences + 1], the start of each sentence of the document, and the end of the last one.
        begin: Position of the first token that is not used yet.
        first: Index in `bounds` of the sentence that contains `begin`.
        limit: Maximum number of tokens in both segments together.
        key: Random key of the position at which the second segment begins.

    Returns:
        The start of the piece, the start of its second segment, its end, and the start of the text after it. If the
        piece has no word start inside, the second number is -1.
    """
    end = first + 1
    while end + 1 < len(bounds) and not _can_join_next(bounds, end, limit):
        end += 1
    start = begin if begin > bounds[first] else find_next_word(words, begin + MARGIN, bounds[end])
    last = find_last_word(words, begin, bounds[end] - MARGIN)
    if start < 0 or last <= start:
        return begin, -1, begin, bounds[end]
    pieces = -(-(last - start) // limit)
    stop = find_last_word(words, start, start - (-(last - start) // pieces))
    if stop < 0:
        return begin, -1, begin, find_next_word(words, start + 1, last + 1)
    return start, draw_word_start(words, start, stop, key), stop, bounds[end] if stop == last else stop


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceOrderInput:
    """Two consecutive segments of one document, in order or swapped, as in ALBERT.

    short_sequence_probability: probability that an example is shorter, with a random target length
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
        """Do nothing, because no setting of sentence order prediction can conflict with the shared settings."""

    def build(self, columns: DocumentTokens, common: Common, vocabulary: ShardVocabulary) -> BuiltExamples:
        """Build sentence order prediction examples of one shard, in `common.copies` passes over its documents.

        Args:
            columns: The documents of the shard.
            common: Length, copies and seed, which all inputs share.
            vocabulary: The number of tokens, and the ids of special tokens by role.

        Returns:
            The examples of all passes, and one ledger per pass that accounts for every token.
        """
        ids, planned = vocabulary.special_ids, plan_sentence_orders(columns, common, self.short_sequence_probability)
        return to_built_examples(columns, planned, common.length - PAIR_SPECIALS, cls_id=ids["cls"], sep_id=ids["sep"])


def plan_sentence_orders(columns: DocumentTokens, common: Common, short: float) -> PlannedSegments:
    """Plan the sentence order examples of all passes over the documents, without writing their tokens.

    Args:
        columns: The documents of the shard.
        common: Settings shared by all input types (the ways to turn documents into examples).
        short: Probability that an example is shorter, with a random target length.

    Returns:
        For each pass a plan (the positions of both segments) and a ledger that accounts for every token.
    """
    check_columns(columns)
    planned, limit = PlannedSegments([], []), common.length - PAIR_SPECIALS
    inside, kept = np.append(columns.word_starts, np.uint8(0)), find_kept_sentences(columns, limit)
    inside[columns.sentences] = 0
    num_alike = len(columns.ids) - int(np.diff(columns.sentences[kept]).sum())
    for copy in range(common.copies):
        counts = np.zeros(len(OUTCOMES + FIGURES), np.int64)
        addresses = np.array(
            [compute_address(common.seed, f"order {purpose}", copy) for purpose in PURPOSES], np.uint64
        )
        copy_key = np.uint64(compute_address(0, "example", copy))
        plan = plan_orders(
            inside, columns.sentences, kept, columns.keys, copy_key, addresses, limit, float(short), counts
        )
        planned.plans.append(plan)
        planned.ledgers.append(build_order_ledger(len(columns.ids), counts.tolist(), num_alike))
    return planned


def build_order_ledger(total: int, counts: Sequence[int], num_alike: int) -> Ledger:
    """Build the ledger of one pass of sentence order examples from its counts, and check that they add up.

    Args:
        total: Number of tokens in the documents.
        counts: The counts, in the order of OUTCOMES + FIGURES.
        num_alike: Number of tokens left out because many documents begin or end with the same sentences.

    Raises:
        LedgerError: The outcomes do not add up to `total`.
    """
    named = dict(zip(OUTCOMES + FIGURES, counts, strict=True))
    outcomes = {name: named[name] for name in OUTCOMES} | {"left_over": named["left_over"] + num_alike}
    figures = {name: named[name] for name in FIGURES} | {"alike_tokens": num_alike}
    return Ledger(accounts=(Account(unit="tokens", total=total, outcomes=outcomes),), figures=figures).check()


def build_sentence_orders_plain(
    columns: DocumentTokens, common: Common, *, short: float, cls_id: int, sep_id: int
) -> tuple[SegmentPairs, tuple[Ledger, ...]]:
    """Reference implementation of `plan_sentence_orders`, for tests, which also writes the tokens.

    Args:
        columns: The documents of the shard.
        common: Settings shared by all input types (the ways to turn documents into examples).
        short: Probability that an example is shorter, with a random target length.
        cls_id: Id of the [CLS] token.
        sep_id: Id of the [SEP] token.

    Returns:
        The examples of all passes, and one ledger per pass that accounts for every token.
    """
    check_columns(columns)
    examples: list[PlainExample] = []
    ledgers, limit = [], common.length - PAIR_SPECIALS
    begins = {sentence.start for document in list_documents(columns) for sentence in document}
    inside = {place for place, starts in enumerate(columns.word_starts.tolist()) if starts} - begins
    documents = find_kept_sentences_plain(columns, limit)
    num_alike = len(columns.ids) - sum(len(sentence) for document in documents for sentence in document)
    for copy in range(common.copies):
        counts = Counter[str]()
        for anchor, document in enumerate(documents):
            key = int(columns.keys[anchor])
            examples += _iter_examples_plain(document, inside, anchor, key, copy, common, short, counts)
        ledgers.append(build_order_ledger(len(columns.ids), [counts[name] for name in OUTCOMES + FIGURES], num_alike))
    return to_segment_pairs_plain(columns, examples, cls_id=cls_id, sep_id=sep_id), tuple(ledgers)


def _iter_examples_plain(
    document: Document,
    inside: Set[int],
    anchor: int,
    key: int,
    copy: int,
    common: Common,
    short: float,
    counts: Counter[str],
) -> Iterator[PlainExample]:
    """Yield the sentence order examples of one document in one pass over the documents.

    If the document is cut from its end, it is mirrored during the work, so that token positions are negative.

    Args:
        document: The sentences to use, as ranges of token positions.
        inside: The positions at which a word but no sentence begins.
        anchor: Index of the document.
        key: Hash of the document.
        copy: Zero-based pass over the documents.
        common: Settings shared by all input types (the ways to turn documents into examples).
        short: Probability that an example is shorter, with a random target length.
        counts: Counters keyed by the names in OUTCOMES and FIGURES. They are incremented in place.
    """
    rest, limit, ordinal = list(document), common.length - PAIR_SPECIALS, 0
    backwards = bool(draw_below(int(compute_keys(common.seed, "order direction", copy, key)), 0, 2))
    if backwards:
        rest = [range(-sentence.stop, -sentence.start) for sentence in reversed(rest)]
        inside = {-place for place in inside}
    link, begin = int(fold(compute_address(0, "example", copy), key)), rest[0].start
    while rest:
        example_id = int(fold(link, ordinal))
        keys = {
            purpose: int(compute_keys(common.seed, f"order {purpose}", copy, example_id)) for purpose in PURPOSES[:3]
        }
        size, is_cut = count_sentences_plain(rest, limit, draw_target_plain(keys["target"], limit, short)), True
        if begin == rest[0].start and size > 1:
            middle, after, is_cut = (
                rest[1 + int(draw_below(keys["cut"], 0, size - 1))].start,
                rest[size - 1].stop,
                False,
            )
            parts = [range(begin, middle), range(middle, after)]
        else:
            parts, after = _find_piece_plain(rest, sorted(inside), begin, limit, keys["cut"])
        swapped = int(draw_below(keys["label"], 0, 2))
        counts["left_over"] += after - begin - sum(map(len, parts))
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
        begin, ordinal = after, ordinal + 1
        rest = [sentence for sentence in rest if sentence.stop > begin]


def _find_piece_plain(
    rest: Sequence[range], inside: Sequence[int], begin: int, limit: int, key: int
) -> tuple[list[range], int]:
    """Reference implementation of `_find_piece`, for tests: find the next piece of sentences that are cut at words.

    Args:
        rest: The sentences of the document that are not used yet, as ranges of token positions.
        inside: The positions at which a word but no sentence begins, ascending.
        begin: Position of the first token that is not used yet.
        limit: Maximum number of tokens in both segments together.
        key: Random key of the position at which the second segment begins.

    Returns:
        The two segments of the piece, or an empty list if no piece is possible, and the start of the text after it.
    """
    fits = (n for n in range(1, len(rest) - 1) if rest[n + 1].stop - rest[n].start <= limit)
    end = rest[next(fits, len(rest)) - 1].stop
    start = begin if begin > rest[0].start else next((place for place in inside if place >= begin + MARGIN), end)
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
    drawn = start + 1 + int(draw_below(key, 0, stop - start - 1))
    middle = min(middles, key=lambda place: (abs(place - drawn), place))
    return [range(start, middle), range(middle, stop)], after
