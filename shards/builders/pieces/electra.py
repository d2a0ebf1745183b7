"""ELECTRA's examples: sentences that follow one another in one document, as two segments or one, without a label.

Clark et al. 2020, after `build_pretraining_dataset.py`: sentences are taken until there are as many tokens as an
example aims at: the length, or rarely a drawn number. The first segment takes them up to half of that, and by the toss
of a coin one more; the rest are the second. Rarely an example has one segment, as tasks of one text have. Examples are
trimmed to the length, and documents are never joined.

The script's faults are fixed:
- what it trims is lost; here it begins the next example. So all but the last example of a document, and those that aim
  at less, are full;
- it trims inside words; here at a word start. A word is cut only if it is longer than an example; if none of its words
  fits, there is no second segment;
- once a long sentence is in the second segment, later ones that are short may still go to the first, so that sentences
  change their order; here the segments are two runs of text;
- its choices are unseeded, and depend on how many processes share the files; here the example's id addresses each.

An example of one segment has no B: its boundary is its length, and the second document its only one.

Promise: for every copy, total = placed + truncated + left over, over the tokens of the columns, and nothing is
truncated or left over. `plan_electra` is a kernel that writes a plan of `shards.builders.pieces.plan_kernels`;
`build_electra_plain` defines the examples.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from corpora.kernels.arrays import Bytes, Int64s, UInt64s
from corpora.kernels.compiling import kernel
from corpora.store.ledger import Ledger
from corpora.store.randomness import (
    compute_keys,
    draw_below,
    draw_below_one,
    draw_uniform,
    draw_uniform_one,
    fold,
    fold_one,
)
from corpora.store.settings import check_range
from shards.builders.contract import BuiltExamples, Common, DocumentTokens, check_columns
from shards.builders.pieces.plan import (
    ExampleLayout,
    PlainPiece,
    PlannedExample,
    build_copy_ledger,
    build_examples,
    build_examples_plain,
    compute_copy_key,
    compute_ordinals,
    compute_purpose_keys,
    count_placed,
    join_examples,
    to_plan_matrix,
)
from shards.builders.pieces.plan_kernels import END, EXAMPLE, PIECE_WIDTH, find_word_cut, set_piece
from shards.masks.masking import ShardVocabulary

PURPOSES = ("electra target", "electra segments")
_TARGET, _SEGMENTS = range(2)
MIN_TARGET = 5  # target, in tokens with specials


@kernel
def plan_electra(
    word_starts: Bytes,
    sentences: Int64s,
    documents: Int64s,
    keys: UInt64s,
    copy_key: np.uint64,
    addresses: UInt64s,
    length: int,
    short: float,
    single: float,
    pieces: Int64s,
) -> int:
    """Plan ELECTRA's examples of one pass over the documents, and return the number of pieces.

    A piece is a run of one document's tokens. An example has one or two.

    Args:
        word_starts: uint8 [tokens], 1 if the token begins a word.
        sentences: int64 [sentences + 1], the start of each sentence in the tokens.
        documents: int64 [documents + 1], the index of the first sentence of each document.
        keys: uint64 [documents], the hash of each document.
        copy_key: Random key of the copy, from `compute_copy_key`.
        addresses: uint64 [2], the random keys of the choices in `PURPOSES`.
        length: Maximum length of an example in tokens, including special tokens.
        short: Probability that an example is shorter, with a random target length.
        single: Probability that an example has only one segment, although it has several sentences.
        pieces: int64 [at least the number of pieces, PIECE_WIDTH], filled with a row (start, end, document, example)
            per piece, in order. Its size is not checked.
    """
    num, example = 0, 0
    for document in range(len(documents) - 1):
        link = fold_one(copy_key, keys[document])
        first, last, ordinal = documents[document], documents[document + 1], 0
        start = sentences[first]
        while first < last:
            example_id = fold_one(link, np.uint64(ordinal))
            target = _draw_target(fold_one(addresses[_TARGET], example_id), length, short)
            end = first + 1
            while end < last and sentences[end] - start < target:
                end += 1
            middle = _divide(sentences, start, first, end, target, single, fold_one(addresses[_SEGMENTS], example_id))
            a_end, b_end = _trim_segments(word_starts, start, sentences[middle], sentences[end], length)
            set_piece(pieces[num], start, a_end, document, example)
            num += 1
            if b_end > a_end:
                set_piece(pieces[num], a_end, b_end, document, example)
                num += 1
            start, example, ordinal = b_end, example + 1, ordinal + 1
            while first < last and sentences[first + 1] <= start:
                first += 1
    return num


@kernel
def _draw_target(key: np.uint64, length: int, short: float) -> int:
    """Draw the target length of an ELECTRA example in tokens, including special tokens.

    It is `length`, or with probability `short` a random number in [MIN_TARGET, length]. The result is a function of the
    random key `key`.
    """
    return MIN_TARGET + draw_below_one(key, 1, length - MIN_TARGET + 1) if draw_uniform_one(key, 0) < short else length


@kernel
def _divide(sentences: Int64s, start: int, first: int, end: int, target: int, single: float, key: np.uint64) -> int:
    """Find the first sentence of the second segment of an example.

    Args:
        sentences: int64 [sentences + 1], the start of each sentence in the tokens.
        start: Token position at which the example begins.
        first: Index of the sentence that contains `start`.
        end: Index after the last sentence of the example.
        target: Target length of the example in tokens, including special tokens.
        single: Probability that the example has only one segment.
        key: Random key of the choices.

    Returns:
        The index of the sentence, or `end` if there is only one segment.
    """
    if draw_uniform_one(key, 0) < single:
        return end
    wanted, middle = (target - 3) // 2, first + 1
    while middle < end and sentences[middle + 1] - start < wanted:
        middle += 1
    if middle < end and sentences[middle] - start < wanted and draw_below_one(key, 1, 2):
        middle += 1
    return middle


@kernel
def _trim_segments(word_starts: Bytes, start: int, middle: int, end: int, length: int) -> tuple[int, int]:
    """Trim two segments until both together fit into `length` tokens, including special tokens.

    Segments are cut at word starts, unless a single word is longer than an example.

    Args:
        word_starts: uint8 [tokens], 1 if the token begins a word.
        start: Token position at which the first segment begins.
        middle: Token position at which the first segment ends and the second begins.
        end: Token position at which the second segment ends. Equal to `middle` if there is only one.
        length: Maximum length of an example in tokens, including special tokens.

    Returns:
        The new end of the first and of the second segment. Both are equal if there is no second segment or if its first
        word does not fit.
    """
    if middle - start > length - 2:
        a_end = find_word_cut(word_starts, start, length - 2)
        return a_end, a_end
    room = length - 3 - (middle - start)
    if end - middle <= room:
        return middle, end
    for cut in range(middle + room, middle, -1):
        if word_starts[cut]:
            return middle, cut
    return middle, middle


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectraInput:
    """Two consecutive segments, or one, without a label, as in ELECTRA.

    short_sequence_probability: probability that an example is shorter, with a random target length
    one_segment_probability:    probability that an example has one segment; an example with a single sentence always
                                has one
    """

    kind: ClassVar[str] = "electra"
    version: ClassVar[int] = 1
    masked: ClassVar[bool] = True
    segments: ClassVar[int] = 2
    labels: ClassVar[str | None] = None

    short_sequence_probability: float = 0.05
    one_segment_probability: float = 0.1

    def __post_init__(self) -> None:
        check_range("shards.short_sequence_probability", self.short_sequence_probability, 0, 1)
        check_range("shards.one_segment_probability", self.one_segment_probability, 0, 1)

    def check(self, common: Common) -> None:
        """Do nothing, because no setting of ELECTRA's examples can conflict with the shared settings."""

    def build(self, columns: DocumentTokens, common: Common, vocabulary: ShardVocabulary) -> BuiltExamples:
        """Build ELECTRA's examples of one shard, in `common.copies` passes over its documents.

        Args:
            columns: The documents of the shard.
            common: Length, copies and seed, which all inputs share.
            vocabulary: The number of tokens, and the ids of special tokens by role.

        Returns:
            The examples of all passes, and one ledger per pass that accounts for every token.
        """
        return build_electra(columns, self, common, ExampleLayout.from_vocabulary(vocabulary, 2))


def build_electra(columns: DocumentTokens, own: ElectraInput, common: Common, layout: ExampleLayout) -> BuiltExamples:
    """Build ELECTRA's examples of one shard with the compiled kernel, in `common.copies` passes over its documents.

    Args:
        columns: The documents of the shard.
        own: Settings of this input.
        common: Settings shared by all input types (the ways to turn documents into examples).
        layout: Special tokens and number of segments.

    Returns:
        The examples of all passes, and one ledger per pass that accounts for every token.
    """
    check_columns(columns)
    parts, ledgers = [], []
    trims = 2 * len(columns.ids) // (common.length - 3) + 1  # what is trimmed and what follows it do not fit together
    pieces = np.empty((2 * (len(columns.sentences) + trims), PIECE_WIDTH), np.int64)
    short, single = float(own.short_sequence_probability), float(own.one_segment_probability)
    for copy in range(common.copies):
        keys = compute_purpose_keys(common, PURPOSES, copy)
        num = plan_electra(*columns[1:], compute_copy_key(copy), keys, common.length, short, single, pieces)
        plan = pieces[:num].copy()
        parts.append(build_examples(columns, plan, compute_ordinals(plan), copy, layout))
        ledgers.append(_build_ledger(columns, plan))
    return BuiltExamples(join_examples(parts), tuple(ledgers))


def _build_ledger(columns: DocumentTokens, plan: Int64s) -> Ledger:
    """Build the ledger of one pass of ELECTRA's examples: every token is in an example.

    It also counts the examples with one segment (`one_segment`) and the examples that end inside a sentence
    (`cut_sentences`).

    Args:
        columns: The documents of the shard.
        plan: int64 [pieces, PIECE_WIDTH], the plan of the pass: a row (start, end, document, example) per piece.

    Raises:
        LedgerError: The examples do not contain all tokens of the documents.
    """
    lasts = np.diff(plan[:, EXAMPLE], append=-1) != 0
    ends = plan[lasts, END]
    inside = columns.sentences[np.searchsorted(columns.sentences, ends)] != ends
    figures = {"one_segment": 2 * len(ends) - len(plan), "cut_sentences": int(np.count_nonzero(inside))}
    return build_copy_ledger(len(columns.ids), count_placed(plan), 0, figures)


def build_electra_plain(
    columns: DocumentTokens, own: ElectraInput, common: Common, layout: ExampleLayout
) -> BuiltExamples:
    """Reference implementation of `build_electra` in plain Python, for tests.

    The result has the examples of all passes over the documents in `columns`, and one ledger per pass that accounts for
    every token.
    """
    parts, ledgers = [], []
    for copy in range(common.copies):
        planned = [
            example
            for document in range(len(columns.keys))
            for example in _iter_examples_plain(columns, document, own, common, copy)
        ]
        parts.append(build_examples_plain(columns, planned, copy, layout))
        ledgers.append(_build_ledger(columns, to_plan_matrix(planned)))
    return BuiltExamples(join_examples(parts), tuple(ledgers))


def _iter_examples_plain(
    columns: DocumentTokens, document: int, own: ElectraInput, common: Common, copy: int
) -> Iterator[PlannedExample]:
    """Yield ELECTRA's examples of one document in one pass.

    Args:
        columns: The documents of the shard.
        document: Index of the document.
        own: Settings of this input.
        common: Settings shared by all input types.
        copy: Zero-based pass over the documents.
    """
    first, last = columns.documents[document : document + 2].tolist()
    rest = [range(*bounds) for bounds in pairwise(columns.sentences[first : last + 1].tolist())]
    ordinal = 0
    while rest:
        example_id = int(fold(fold(compute_copy_key(copy), columns.keys[document]), ordinal))
        target_key, key = (int(compute_keys(common.seed, purpose, copy, example_id)) for purpose in PURPOSES)
        target = common.length
        if draw_uniform(target_key, 0) < own.short_sequence_probability:
            target = MIN_TARGET + int(draw_below(target_key, 1, common.length - MIN_TARGET + 1))
        size = 1
        while size < len(rest) and sum(map(len, rest[:size])) < target:
            size += 1
        wanted = 1 << 62 if draw_uniform(key, 0) < own.one_segment_probability else (target - 3) // 2
        a, b = _divide_sentences_plain(rest[:size], wanted, exceeds=bool(draw_below(key, 1, 2)))
        a, b = _trim_segments_plain(columns, a, b, common.length)
        yield PlannedExample(ordinal, [PlainPiece(each.start, each.stop, document) for each in (a, b) if each])
        end = b.stop if b else a.stop
        rest = [range(max(each.start, end), each.stop) for each in rest if each.stop > end]
        ordinal += 1


def _divide_sentences_plain(sentences: list[range], wanted: int, *, exceeds: bool) -> tuple[range, range]:
    """Divide sentences into the first and the second segment, and return both as ranges of token positions.

    The second segment may be empty.

    Args:
        sentences: The sentences, as ranges of token positions.
        wanted: The first segment has fewer tokens than this, but at least one sentence.
        exceeds: Whether the first segment takes one more sentence, even if it then has `wanted` tokens or more.
    """
    a = sentences[0]
    end = sentences[-1].stop
    for sentence in sentences[1:]:
        fits = len(a) + len(sentence) < wanted
        if not fits and not (len(a) < wanted and exceeds):
            break
        a = range(a.start, sentence.stop)
    return a, range(a.stop, end)


def _trim_segments_plain(columns: DocumentTokens, a: range, b: range, length: int) -> tuple[range, range]:
    """Trim both segments so that they fit into `length` tokens, including special tokens. The second may become empty.

    Args:
        columns: The documents of the shard.
        a: The token positions of the first segment.
        b: The token positions of the second segment.
        length: Maximum length of the example.

    Returns:
        The trimmed ranges, in the same order.
    """
    if len(a) > length - 2:
        words = [place for place in a[1 : length - 1] if columns.word_starts[place]]
        return range(a.start, max(words, default=a.start + length - 2)), range(0)
    room = length - 3 - len(a)
    if len(b) > max(room, 0):
        words = [place for place in b[1 : max(room, 0) + 1] if columns.word_starts[place]]
        b = range(b.start, max(words, default=b.start))
    return a, b
