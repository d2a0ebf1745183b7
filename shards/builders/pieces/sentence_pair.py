"""Sentence pairs for next sentence prediction: [CLS] A [SEP] B [SEP], each segment one sentence.

Liu et al. 2019 (section 4.2, SENTENCE-PAIR+NSP): B is the sentence that follows A, or one of another document. The
authors published no code for it; the fault of every script for next sentences is avoided here, the label showing
without a word being read:

- the sentences of a document are taken two by two, before any label. Of an odd number one is left over, another one in
  each copy; a sentence longer than half of an example is cut at word starts into several;
- pairs of two documents become a couple if their Bs are alike: they begin and end as each other (at the begin or end of
  a sentence, or at a cut), and have the same length or the nearest. A pair without one is left over, whatever its label
  were;
- then half of the couples, every second by the toss of a coin for two, exchange their Bs and are labelled 1.

So the Bs of both labels are alike on the surface, every sentence is read once in a copy, and labels balance to within a
couple. An example's id is a hash of (A's key, copy, number of the pair in its document), and every choice is addressed
by it. A document that holds more than half of a shard's pairs has some left over.

Promise: for every copy, total = placed + truncated + left over, over the tokens of the columns. The figure `length_gap`
sums by how many tokens an exchanged B is longer or shorter than the true one. Kernels write pairs as a matrix of int64,
one row for each pair, its columns named here; `build_sentence_pairs_plain` defines the examples.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np

from corpora.kernels.arrays import Bools, Bytes, Int64s, UInt64s
from corpora.kernels.compiling import kernel
from corpora.store.ledger import Ledger
from corpora.store.randomness import draw_below, draw_below_one, fold, fold_one
from shards.builders.contract import BuiltExamples, Common, DocumentTokens, check_columns
from shards.builders.pieces.plan import (
    ExampleLayout,
    PlainPiece,
    PlannedExample,
    build_copy_ledger,
    build_examples,
    build_examples_plain,
    compute_copy_key,
    compute_purpose_keys,
    count_placed_plain,
    join_examples,
)
from shards.builders.pieces.plan_kernels import DOCUMENT, END, EXAMPLE, PIECE_WIDTH, START, find_word_cut
from shards.masks.masking import ShardVocabulary

A_START, B_START, B_END, ANCHOR, ORDINAL, SURFACE, PAIR_WIDTH = range(7)
LEFT_OVER, ODD, CUTS, NUM_COUNTS = range(4)  # tokens in no pair; sentences in no pair; cuts


@kernel
def pair_sentences(
    word_starts: Bytes,
    sentences: Int64s,
    documents: Int64s,
    keys: UInt64s,
    copy_key: np.uint64,
    odd_key: np.uint64,
    room: int,
    bounds: Int64s,
    pairs: Int64s,
    example_ids: UInt64s,
    counts: Int64s,
) -> int:
    """Group the sentences of each document into pairs of consecutive ones, and return the number of pairs.

    Args:
        word_starts: uint8 [tokens], 1 if the token begins a word.
        sentences: int64 [sentences + 1], the start of each sentence in the tokens.
        documents: int64 [documents + 1], the index of the first sentence of each document.
        keys: uint64 [documents], the hash of each document.
        copy_key: Random key of the copy, from `compute_copy_key`.
        odd_key: Random key for choosing the sentence to leave out of a document with an odd number of sentences.
        room: Maximum number of tokens in a sentence. Longer sentences are cut.
        bounds: int64 [at least 1 + the sentences of the longest document after cutting, 2], scratch memory.
        pairs: int64 [at least the number of pairs, PAIR_WIDTH], filled with a row (start of A, start of B, end of B,
            document, number of the pair in it, surface) per pair. A and B are the two sentences. The surface (0 to 3)
            encodes whether B begins and ends where an original sentence does.
        example_ids: uint64 [at least the number of pairs], filled with the example id of each pair.
        counts: int64 [NUM_COUNTS], the numbers of tokens left out, sentences left out, and cuts, incremented in place.
    """
    num = 0
    for document in range(len(documents) - 1):
        link, ordinal, place = fold_one(copy_key, keys[document]), 0, 0
        size = _cut_sentences(word_starts, sentences, documents[document], documents[document + 1], room, bounds)
        counts[CUTS] += size - (documents[document + 1] - documents[document])
        skipped = 2 * draw_below_one(fold_one(odd_key, keys[document]), 0, size // 2 + 1) if size % 2 else size
        while place < size:
            if place == skipped:
                counts[LEFT_OVER] += bounds[place + 1, 0] - bounds[place, 0]
                counts[ODD] += 1
                place += 1
            else:
                pair = pairs[num]
                pair[A_START], pair[B_START], pair[B_END] = bounds[place, 0], bounds[place + 1, 0], bounds[place + 2, 0]
                pair[ANCHOR], pair[ORDINAL] = document, ordinal
                pair[SURFACE] = 2 * bounds[place + 1, 1] + bounds[place + 2, 1]
                example_ids[num] = fold_one(link, np.uint64(ordinal))
                num, place, ordinal = num + 1, place + 2, ordinal + 1
    return num


@kernel
def _cut_sentences(word_starts: Bytes, sentences: Int64s, first: int, last: int, room: int, bounds: Int64s) -> int:
    """Write the start of each sentence of a document to `bounds`, and cut sentences of more than `room` tokens.

    Args:
        word_starts: uint8 [tokens], 1 if the token begins a word.
        sentences: int64 [sentences + 1], the start of each sentence in the tokens.
        first: Index of the first sentence of the document.
        last: Index after the last sentence of the document.
        room: Maximum number of tokens in a sentence.
        bounds: int64 [at least 1 + the sentences after cutting, 2], filled with the start of each sentence, and 1 if it
            is the start of an original sentence or 0 if it is a cut. The row after the last sentence has the end of the
            document.

    Returns:
        The number of sentences after cutting.
    """
    size = 0
    for sentence in range(first, last):
        start, end, is_cut = sentences[sentence], sentences[sentence + 1], 0
        while start < end:
            bounds[size, 0], bounds[size, 1] = start, 1 - is_cut
            start = find_word_cut(word_starts, start, room) if end - start > room else end
            size, is_cut = size + 1, 1
    bounds[size, 0], bounds[size, 1] = sentences[last], 1
    return size


@kernel
def match_pairs(order: Int64s, pairs: Int64s, couples: Int64s) -> int:
    """Match sentence pairs from different documents whose second sentences are alike, and return the number of matches.

    Two pairs can match if their `SURFACE` is equal. The pairs are visited in `order`. Each one is matched with the most
    recently visited unmatched pair from another document, if possible.

    Args:
        order: int64 [pairs], the indices of the pairs, sorted by surface and then by similarity.
        pairs: int64 [pairs, PAIR_WIDTH], the pairs, from `pair_sentences`.
        couples: int64 [at least the number of matches, 2], filled with the indices of both pairs of each match.
    """
    num, waiting = 0, np.empty(len(order), np.int64)
    depth = 0
    for pair in order:
        if depth and pairs[waiting[depth - 1], SURFACE] != pairs[pair, SURFACE]:
            depth = 0
        if depth and pairs[waiting[depth - 1], ANCHOR] != pairs[pair, ANCHOR]:
            depth -= 1
            couples[num, 0], couples[num, 1] = waiting[depth], pair
            num += 1
        else:
            waiting[depth] = pair
            depth += 1
    return num


PAIR_SPECIALS = 3
PURPOSES = ("sentence pair odd", "sentence pair order", "sentence pair label")
_ODD, _ORDER, _LABEL = range(3)
FIGURES = ("borrowed", "next", "random", "length_gap", "odd_sentences", "without_partner", "cut_sentences")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentencePairInput:
    """Sentence pairs for next sentence prediction, as in RoBERTa's SENTENCE-PAIR+NSP.

    The second sentence is the one after the first, or one from another document.
    """

    kind: ClassVar[str] = "sentence-pair"
    version: ClassVar[int] = 1
    masked: ClassVar[bool] = True
    segments: ClassVar[int] = 2
    labels: ClassVar[str | None] = "next-sentence"

    def check(self, common: Common) -> None:
        """Do nothing, because no setting of sentence pairs can conflict with the shared settings."""

    def build(self, columns: DocumentTokens, common: Common, vocabulary: ShardVocabulary) -> BuiltExamples:
        """Build the sentence pairs of one shard, in `common.copies` passes over its documents.

        Args:
            columns: The documents of the shard.
            common: Length, copies and seed, which all inputs share.
            vocabulary: The number of tokens, and the ids of special tokens by role.

        Returns:
            The examples of all passes, and one ledger per pass that accounts for every token.
        """
        return build_sentence_pairs(columns, common, ExampleLayout.from_vocabulary(vocabulary, 2, has_labels=True))


def build_sentence_pairs(columns: DocumentTokens, common: Common, layout: ExampleLayout) -> BuiltExamples:
    """Build sentence pairs with the compiled kernels. Label 1 means that the second sentence is from another document.

    The documents are paired `common.copies` times with different random choices.

    Args:
        columns: The documents of the shard.
        common: Settings shared by all input types (the ways to turn documents into examples).
        layout: Special tokens, with two segments and labels.

    Returns:
        The examples of all passes, and one ledger per pass that accounts for every token.
    """
    check_columns(columns)
    parts, ledgers = [], []
    for copy in range(common.copies):
        addresses = compute_purpose_keys(common, PURPOSES, copy)
        pairs, example_ids, counts = _list_pairs(columns, copy, addresses, (common.length - PAIR_SPECIALS) // 2)
        couples = _list_couples(pairs, example_ids, addresses[_ORDER])
        partners = _assign_partners(len(pairs), couples, _draw_exchanges(example_ids[couples[:, 0]], addresses[_LABEL]))
        kept = np.flatnonzero(partners >= 0)
        plan, ordinals = _build_plan(pairs, kept, partners[kept]), pairs[kept, ORDINAL].astype(np.uint32)
        parts.append(build_examples(columns, plan, ordinals, copy, layout))
        ledgers.append(_build_ledger(columns, pairs, partners, counts))
    return BuiltExamples(join_examples(parts), tuple(ledgers))


def _list_pairs(columns: DocumentTokens, copy: int, addresses: UInt64s, room: int) -> tuple[Int64s, UInt64s, Int64s]:
    """Pair the sentences of all documents in one pass.

    Args:
        columns: The documents of the shard.
        copy: Zero-based pass over the documents.
        addresses: uint64, one random key per kind of choice in this pass, from `compute_purpose_keys`.
        room: Maximum number of tokens in a sentence. Longer sentences are cut.

    Returns:
        The pairs (int64 [pairs, PAIR_WIDTH]), the id of each pair's example (uint64 [pairs]), and the counts of
        `pair_sentences` (int64 [NUM_COUNTS]).
    """
    cap = len(columns.sentences) + 2 * (len(columns.ids) // room + 1)  # two neighbours of a cut are longer than room
    bounds = np.empty((cap + 1, 2), np.int64)
    pairs, example_ids = np.empty((cap // 2, PAIR_WIDTH), np.int64), np.empty(cap // 2, np.uint64)
    counts = np.zeros(NUM_COUNTS, np.int64)
    num = pair_sentences(
        *columns[1:], compute_copy_key(copy), addresses[_ODD], room, bounds, pairs, example_ids, counts
    )
    return pairs[:num].copy(), example_ids[:num].copy(), counts


def _list_couples(pairs: Int64s, example_ids: UInt64s, order_key: np.uint64) -> Int64s:
    """List the sentence pairs that may exchange their second sentences.

    Args:
        pairs: int64 [pairs, PAIR_WIDTH], the pairs, from `pair_sentences`.
        example_ids: uint64 [pairs], the example id of each pair.
        order_key: Random key that determines the order of pairs that are otherwise alike.

    Returns:
        int64 [couples, 2], the indices of both pairs of each couple.
    """
    order = np.lexsort((fold(order_key, example_ids), pairs[:, B_END] - pairs[:, B_START], pairs[:, SURFACE]))
    couples = np.empty((len(pairs) // 2, 2), np.int64)
    return couples[: match_pairs(order, pairs, couples)].copy()


def _draw_exchanges(first_ids: UInt64s, label_key: np.uint64) -> Bools:
    """Decide at random which matches of two sentence pairs exchange their second sentences: bool [couples].

    Exactly one of every two consecutive matches exchanges them, so that both labels are equally frequent.

    Args:
        first_ids: uint64 [couples], the example id of the first pair of each match.
        label_key: Random key of the labels.
    """
    coins = np.repeat(draw_below(fold(label_key, first_ids[::2]), 0, 2) == 1, 2)[: len(first_ids)]
    exchanges: Bools = coins ^ (np.arange(len(first_ids)) % 2 == 1)
    return exchanges


def _assign_partners(num_pairs: int, couples: Int64s, exchanges: Bools) -> Int64s:
    """Find the pair that provides the second sentence of each pair.

    A pair provides its own second sentence unless it exchanges with its match.

    Args:
        num_pairs: Number of pairs.
        couples: int64 [couples, 2], the indices of both pairs of each match.
        exchanges: bool [couples], whether the pairs of each match exchange their second sentences.

    Returns:
        int64 [pairs], the index of a pair, or -1 for a pair without a match, which is left out.
    """
    partners = np.full(num_pairs, -1, np.int64)
    ones, others = couples[:, 0], couples[:, 1]
    partners[ones], partners[others] = np.where(exchanges, others, ones), np.where(exchanges, ones, others)
    return partners


def _build_plan(pairs: Int64s, kept: Int64s, partners: Int64s) -> Int64s:
    """Build the plan of one pass: the first sentence of each kept pair, and the second sentence of its partner.

    Args:
        pairs: int64 [pairs, PAIR_WIDTH], the pairs, from `pair_sentences`.
        kept: int64 [examples], the indices of the pairs that become examples.
        partners: int64 [examples], for each of them the index of the pair that provides the second sentence.

    Returns:
        int64 [2 * examples, PIECE_WIDTH], two rows (start, end, document, example) per example.
    """
    plan = np.ones((2 * len(kept), PIECE_WIDTH), np.int64)
    plan[::2, [START, END, DOCUMENT]] = pairs[kept][:, [A_START, B_START, ANCHOR]]
    plan[1::2, [START, END, DOCUMENT]] = pairs[partners][:, [B_START, B_END, ANCHOR]]
    plan[:, EXAMPLE] = np.repeat(np.arange(len(kept)), 2)
    return plan


def _build_ledger(columns: DocumentTokens, pairs: Int64s, partners: Int64s, counts: Int64s) -> Ledger:
    """Account for every token of one pass of sentence pairs, and count the following:

    borrowed:        number of tokens of second sentences that are from another document
    next, random:    number of examples with the label 0 and 1
    length_gap:      sum of the differences in length between borrowed and true second sentences, in tokens
    odd_sentences:   number of sentences that are in no pair
    without_partner: number of pairs that are in no example
    cut_sentences:   number of cuts inside sentences

    Args:
        columns: The documents of the shard.
        pairs: int64 [pairs, PAIR_WIDTH], the pairs, from `pair_sentences`.
        partners: int64 [pairs], the pair that provides each second sentence, or -1 for a pair that is left out.
        counts: int64 [NUM_COUNTS], the counts of `pair_sentences`.

    Raises:
        LedgerError: The counts do not add up to the tokens of the documents.
    """
    lengths, is_left_over = pairs[:, B_END] - pairs[:, B_START], partners < 0
    is_random = ~is_left_over & (partners != np.arange(len(pairs)))
    own, borrowed = lengths[is_random], lengths[partners[is_random]]
    sizes = pairs[:, B_END] - pairs[:, A_START]
    figures = {
        "borrowed": int(borrowed.sum()),
        "next": int(np.count_nonzero(~is_left_over & ~is_random)),
        "random": int(np.count_nonzero(is_random)),
        "length_gap": int(np.abs(own - borrowed).sum()),
        "odd_sentences": int(counts[ODD]),
        "without_partner": int(np.count_nonzero(is_left_over)),
        "cut_sentences": int(counts[CUTS]),
    }
    left_over = int(sizes[is_left_over].sum() + counts[LEFT_OVER])
    return build_copy_ledger(len(columns.ids), int(sizes[~is_left_over].sum()), left_over, figures)


class _PlainPair(NamedTuple):
    document: int
    ordinal: int
    example_id: int
    a: range
    b: range
    surface: tuple[bool, bool]  # whether B begins a sentence, whether what follows B does


def build_sentence_pairs_plain(columns: DocumentTokens, common: Common, layout: ExampleLayout) -> BuiltExamples:
    """Reference implementation of `build_sentence_pairs` in plain Python, for tests.

    The result has the examples of all passes over the documents in `columns`, and one ledger per pass that accounts for
    every token.
    """
    parts, ledgers, room = [], [], (common.length - PAIR_SPECIALS) // 2
    for copy in range(common.copies):
        keys = dict(zip(PURPOSES, compute_purpose_keys(common, PURPOSES, copy), strict=True))
        pairs, counts = list[_PlainPair](), Counter[str]()
        for document in range(len(columns.keys)):
            pairs += _iter_pairs_plain(columns, document, room, copy, keys["sentence pair odd"], counts)
        partners = _assign_partners_plain(pairs, keys["sentence pair order"], keys["sentence pair label"])
        planned = list[PlannedExample]()
        for pair, partner in zip(pairs, partners, strict=True):
            if partner is None:
                counts["without_partner"] += 1
                counts["left over"] += len(pair.a) + len(pair.b)
                continue
            counts["random" if partner is not pair else "next"] += 1
            counts["borrowed"] += len(partner.b) * (partner is not pair)
            counts["length_gap"] += abs(len(partner.b) - len(pair.b))
            a = PlainPiece(pair.a.start, pair.a.stop, pair.document)
            b = PlainPiece(partner.b.start, partner.b.stop, partner.document)
            planned.append(PlannedExample(pair.ordinal, [a, b]))
        parts.append(build_examples_plain(columns, planned, copy, layout))
        figures = {name: counts[name] for name in FIGURES}
        ledgers.append(build_copy_ledger(len(columns.ids), count_placed_plain(planned), counts["left over"], figures))
    return BuiltExamples(join_examples(parts), tuple(ledgers))


def _iter_pairs_plain(
    columns: DocumentTokens, document: int, room: int, copy: int, odd_key: np.uint64, counts: Counter[str]
) -> Iterator[_PlainPair]:
    """Yield pairs of consecutive sentences of a document. If their number is odd, one sentence is left out.

    Args:
        columns: The documents of the shard.
        document: Index of the document.
        room: Maximum number of tokens in a sentence. Longer sentences are cut.
        copy: Zero-based pass over the documents.
        odd_key: Random key for choosing the sentence that is left out.
        counts: Numbers of tokens and sentences left out and of cuts, by name. Incremented in place.
    """
    first, last = columns.documents[document : document + 2].tolist()
    units = list[range]()
    for start, stop in pairwise(columns.sentences[first : last + 1].tolist()):
        while stop - start > room:
            words = [place for place in range(start + 1, start + room + 1) if columns.word_starts[place]]
            units.append(range(start, max(words, default=start + room)))
            start = units[-1].stop
            counts["cut_sentences"] += 1
        units.append(range(start, stop))
    if len(units) % 2:
        left = units.pop(2 * int(draw_below(fold(odd_key, columns.keys[document]), 0, len(units) // 2 + 1)))
        counts["odd_sentences"] += 1
        counts["left over"] += len(left)
    begins = set(columns.sentences.tolist())
    for ordinal, (a, b) in enumerate(zip(units[::2], units[1::2], strict=True)):
        example_id = int(fold(fold(compute_copy_key(copy), columns.keys[document]), ordinal))
        yield _PlainPair(document, ordinal, example_id, a, b, (b.start in begins, b.stop in begins))


def _assign_partners_plain(pairs: list[_PlainPair], order: np.uint64, label: np.uint64) -> list[_PlainPair | None]:
    """List, for each pair, the pair that provides its second sentence, or None if the pair is left out.

    Args:
        pairs: The pairs.
        order: Random key that determines the order of pairs that are otherwise alike.
        label: Random key that determines which matched pairs exchange their second sentences.
    """
    partners = dict[int, _PlainPair]()
    waiting, couples = list[_PlainPair](), list[tuple[_PlainPair, _PlainPair]]()
    for pair in sorted(pairs, key=lambda pair: (pair.surface, len(pair.b), int(fold(order, pair.example_id)))):
        if waiting and waiting[-1].surface != pair.surface:
            waiting = []
        if waiting and waiting[-1].document != pair.document:
            couples.append((waiting.pop(), pair))
        else:
            waiting.append(pair)
    for number, (one, other) in enumerate(couples):
        coin = bool(draw_below(fold(label, couples[number - number % 2][0].example_id), 0, 2))
        exchanged = coin if number % 2 == 0 else not coin
        partners[one.example_id], partners[other.example_id] = (other, one) if exchanged else (one, other)
    return [partners.get(pair.example_id) for pair in pairs]
