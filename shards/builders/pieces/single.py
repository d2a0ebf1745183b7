"""Single sequences: a document is an example, `[CLS] ... [SEP]`; a longer one is cut into several.

Sanh et al. 2019: DistilBERT learns from one sequence a line, and cuts longer ones to the length. Its script cuts inside
words and drops sequences of up to 11 tokens without a count; here a cut is at a word start, unless a word is longer
than an example, and what is shorter than `min_tokens` is left over and counted: by default nothing is.

The result is a function of the settings and the columns only. Copies hold the same sequences under ids of their own, so
their masks differ.

Promise: for every copy, total = placed + truncated + left over, over the tokens of the columns. `plan_single` is a
kernel that writes a plan of `shards.builders.pieces.plan_kernels`; `build_single_plain` defines the examples.
"""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from corpora.kernels.arrays import Bytes, Int64s
from corpora.kernels.compiling import kernel
from corpora.store.ledger import Ledger
from corpora.store.settings import check_range
from shards.builders.contract import BuiltExamples, Common, DocumentTokens, check_columns
from shards.builders.pieces.plan import (
    ExampleLayout,
    PlainPiece,
    build_copy_ledger,
    build_examples,
    build_examples_plain,
    compute_ordinals,
    count_placed,
    count_placed_plain,
    join_examples,
    number_examples_plain,
)
from shards.builders.pieces.plan_kernels import PIECE_WIDTH, find_word_cut, set_piece
from shards.masks.masking import ShardVocabulary

LEFT_OVER, TOO_SHORT, CUTS, NUM_COUNTS = range(4)  # tokens in no example; sequences that make none; cuts


@kernel
def plan_single(
    word_starts: Bytes, sentences: Int64s, documents: Int64s, room: int, least: int, pieces: Int64s, counts: Int64s
) -> int:
    """Cut all documents into sequences and write them to `pieces`, in order. Return the number of sequences.

    Args:
        word_starts: uint8 [tokens], 1 if the token begins a word.
        sentences: int64 [sentences + 1], the start of each sentence in the tokens.
        documents: int64 [documents + 1], the index of the first sentence of each document.
        room: Maximum number of tokens in a sequence, without special tokens.
        least: Minimum number of tokens in a sequence. Shorter ones are left out.
        pieces: int64 [at least the number of sequences, PIECE_WIDTH], filled with a row (start, end, document, example)
            per sequence. Its size is not checked.
        counts: int64 [NUM_COUNTS], the numbers of tokens left out, sequences left out, and cuts, incremented in place.
    """
    num = 0
    for document in range(len(documents) - 1):
        start, stop = sentences[documents[document]], sentences[documents[document + 1]]
        while start < stop:
            end = find_word_cut(word_starts, start, room) if stop - start > room else stop
            counts[CUTS] += end < stop
            if end - start < least:
                counts[LEFT_OVER] += end - start
                counts[TOO_SHORT] += 1
            else:
                set_piece(pieces[num], start, end, document, num)
                num += 1
            start = end
    return num


SINGLE_SPECIALS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleInput:
    """One document per example, or several examples if it is longer than one, as in DistilBERT.

    min_tokens: minimum number of tokens in an example, not counting special tokens; shorter pieces are left out
    """

    kind: ClassVar[str] = "single"
    version: ClassVar[int] = 1
    masked: ClassVar[bool] = True
    segments: ClassVar[int] = 1
    labels: ClassVar[str | None] = None

    min_tokens: int = 1

    def __post_init__(self) -> None:
        check_range("shards.min_tokens", self.min_tokens, 1, 1 << 16)

    def check(self, common: Common) -> None:
        """Check that `min_tokens` does not exceed the maximum length of an example.

        Args:
            common: Length, copies and seed.

        Raises:
            InputError: `min_tokens` exceeds this length, not counting special tokens.
        """
        check_range("shards.min_tokens", self.min_tokens, 1, common.length - SINGLE_SPECIALS)

    def build(self, columns: DocumentTokens, common: Common, vocabulary: ShardVocabulary) -> BuiltExamples:
        """Build one or more examples from each document of a shard, in `common.copies` passes over its documents.

        Args:
            columns: The documents of the shard.
            common: Length, copies and seed, which all inputs share.
            vocabulary: The number of tokens, and the ids of special tokens by role.

        Returns:
            The examples of all passes, and one ledger per pass that accounts for every token.
        """
        return build_single(columns, self, common, ExampleLayout.from_vocabulary(vocabulary))


def build_single(columns: DocumentTokens, own: SingleInput, common: Common, layout: ExampleLayout) -> BuiltExamples:
    """Build single-document examples with the compiled kernel.

    The examples are repeated `common.copies` times. The repetitions have the same tokens but different example ids, and
    therefore different masks.

    Args:
        columns: The documents of the shard.
        own: Settings of this input.
        common: Settings shared by all input types (the ways to turn documents into examples).
        layout: Special tokens, with one segment.

    Returns:
        The examples of all passes, and one ledger per pass that accounts for every token.
    """
    check_columns(columns)
    room, counts = common.length - SINGLE_SPECIALS, np.zeros(NUM_COUNTS, np.int64)
    cap = len(columns.documents) + 2 * (len(columns.ids) // room + 1)  # two neighbours are longer than the room
    pieces = np.empty((cap, PIECE_WIDTH), np.int64)
    num = plan_single(*columns[1:4], room, own.min_tokens, pieces, counts)
    plan = pieces[:num].copy()
    ordinals = compute_ordinals(plan)
    parts = [build_examples(columns, plan, ordinals, copy, layout) for copy in range(common.copies)]
    ledger = _build_ledger(len(columns.ids), count_placed(plan), counts[LEFT_OVER], counts[TOO_SHORT], counts[CUTS])
    return BuiltExamples(join_examples(parts), (ledger,) * common.copies)


def _build_ledger(total: int, placed: int, left_over: int, too_short: int, cuts: int) -> Ledger:
    """Build the ledger of one pass of single-document examples, and check that the numbers of tokens add up.

    Args:
        total: Number of tokens in the documents.
        placed: Number of tokens in examples.
        left_over: Number of tokens in sequences that are too short for an example.
        too_short: Number of these sequences.
        cuts: Number of places at which a document was cut.

    Raises:
        LedgerError: `placed` and `left_over` do not add up to `total`.
    """
    return build_copy_ledger(total, placed, int(left_over), {"too_short": int(too_short), "cuts": int(cuts)})


def build_single_plain(
    columns: DocumentTokens, own: SingleInput, common: Common, layout: ExampleLayout
) -> BuiltExamples:
    """Reference implementation of `build_single` in plain Python, for tests.

    The result has the examples of all passes over the documents in `columns`, and one ledger per pass that accounts for
    every token.
    """
    room, rows, counts = common.length - SINGLE_SPECIALS, list[list[PlainPiece]](), Counter[str]()
    for document in range(len(columns.keys)):
        start, stop = columns.sentences[columns.documents[document : document + 2]].tolist()
        while start < stop:
            cuts = [
                place for place in range(start + 1, start + room + 1) if place < stop and columns.word_starts[place]
            ]
            end = stop if stop - start <= room else max(cuts, default=start + room)
            counts["cuts"] += end < stop
            if end - start >= own.min_tokens:
                rows.append([PlainPiece(start, end, document)])
            else:
                counts["left over"] += end - start
                counts["too short"] += 1
            start = end
    planned = number_examples_plain(rows)
    parts = [build_examples_plain(columns, planned, copy, layout) for copy in range(common.copies)]
    figures = (counts["left over"], counts["too short"], counts["cuts"])
    return BuiltExamples(
        join_examples(parts), (_build_ledger(len(columns.ids), count_placed_plain(planned), *figures),) * common.copies
    )
