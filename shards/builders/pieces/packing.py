"""Full sentences: examples of one segment, packed with whole sentences, `[CLS] ... [SEP]`.

Liu et al. 2019 (section 4.2): `full-sentences` continues from one document into the next, with an extra separator in
between; `doc-sentences` ends an example at the end of its document. An example takes the sentences that follow one
another while they fit. Neither has pair labels.

What the authors leave open or drop is settled so that nothing is lost: a sentence longer than an example is cut, at the
last word start that fits, into examples of its own, and what is left of it begins the next one; the last example of a
shard is as short as it is. Documents follow one another in the order of the columns for the first copy, and in the
order of a hash of their keys for every later one, so that copies have other neighbours.

The result is a function of the settings and the columns only. An example's id is a hash of (key of the document of its
first token, copy, its number among the examples that begin in that document).

Promise: for every copy, total = placed + truncated + left over, over the tokens of the columns. The total is counted on
the input and placed on the examples; here nothing is truncated or left over. `plan_packs` is a kernel that writes a
plan of `shards.builders.pieces.plan_kernels`; `pack_sentences_plain` defines the examples. Cost: 0.9 microseconds an
example of 128 tokens, 2.3 of 512 (one x86-64 core).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

import numpy as np

from corpora.kernels.arrays import Bytes, Int64s
from corpora.kernels.compiling import kernel
from corpora.store.ledger import Account, Ledger
from corpora.store.randomness import compute_keys
from corpora.store.settings import check_range
from shards.builders.contract import (
    MAX_COPIES,
    MAX_LENGTH,
    BuiltExamples,
    Common,
    DocumentTokens,
    Examples,
    check_columns,
)
from shards.builders.pieces.plan import (
    ExampleLayout,
    PlainPiece,
    build_examples,
    build_examples_plain,
    compute_ordinals,
    join_examples,
    number_examples_plain,
    to_plan_matrix,
)
from shards.builders.pieces.plan_kernels import DOCUMENT, END, PIECE_WIDTH, START, find_word_cut, set_piece
from shards.masks.masking import ShardVocabulary


@kernel
def plan_packs(
    word_starts: Bytes,
    sentences: Int64s,
    documents: Int64s,
    order: Int64s,
    room: int,
    crosses: bool,
    pieces: Int64s,
) -> int:
    """Pack whole sentences into the examples of one pass over the documents, and return the number of pieces.

    A piece is a run of one document's tokens in one example.

    Args:
        word_starts: uint8 [tokens], 1 if the token begins a word.
        sentences: int64 [sentences + 1], the start of each sentence in the tokens.
        documents: int64 [documents + 1], the index of the first sentence of each document.
        order: int64 [documents], the order in which the documents are packed.
        room: Maximum number of tokens in an example, without its first and last special token.
        crosses: Whether an example may continue from one document into the next.
        pieces: int64 [at least the number of pieces, PIECE_WIDTH], filled with a row (start, end, document, example)
            per piece, in order. Its size is not checked.
    """
    num, example, num_tokens, is_open = 0, -1, 0, False
    for document in order:
        for sentence in range(documents[document], documents[document + 1]):
            start, end = sentences[sentence], sentences[sentence + 1]
            continues = is_open and pieces[num - 1, DOCUMENT] == document
            if is_open and num_tokens + (not continues) + end - start > room:
                is_open, continues = False, False
            while end - start > room:
                cut, example = find_word_cut(word_starts, start, room), example + 1
                set_piece(pieces[num], start, cut, document, example)
                num, start = num + 1, cut
            if continues:
                pieces[num - 1, END] = end
                num_tokens += end - start
            else:
                num_tokens = num_tokens + 1 + end - start if is_open else end - start
                example += not is_open
                set_piece(pieces[num], start, end, document, example)
                num, is_open = num + 1, True
        is_open = is_open and crosses
    return num


PACK_SPECIALS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PackSettings:
    """Settings of the packer.

    length:  maximum length of an example in tokens, including special tokens
    crosses: whether an example may continue from one document into the next
    copies:  how often the documents are packed, each time in another order
    """

    length: int = 512
    crosses: bool = True
    copies: int = 1
    seed: int = 42

    def __post_init__(self) -> None:
        check_range("shards.length", self.length, 5, MAX_LENGTH)
        check_range("shards.copies", self.copies, 1, MAX_COPIES)
        check_range("shards.seed", self.seed, 0, (1 << 64) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FullSentencesInput:
    """Consecutive whole sentences up to the maximum length, also across the ends of documents, as in RoBERTa."""

    kind: ClassVar[str] = "full-sentences"
    version: ClassVar[int] = 1
    masked: ClassVar[bool] = True
    segments: ClassVar[int] = 1
    labels: ClassVar[str | None] = None
    crosses: ClassVar[bool] = True

    def check(self, common: Common) -> None:
        """Do nothing, because no setting of packed sentences can conflict with the shared settings."""

    def build(self, columns: DocumentTokens, common: Common, vocabulary: ShardVocabulary) -> BuiltExamples:
        """Pack the sentences of one shard into examples, in `common.copies` passes over its documents.

        Args:
            columns: The documents of the shard.
            common: Length, copies and seed, which all inputs share.
            vocabulary: The number of tokens, and the ids of special tokens by role.

        Returns:
            The examples of all passes, and one ledger per pass that accounts for every token.
        """
        own = PackSettings(length=common.length, crosses=self.crosses, copies=common.copies, seed=common.seed)
        ids = vocabulary.special_ids
        return BuiltExamples(*pack_sentences(columns, own, cls_id=ids["cls"], sep_id=ids["sep"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class DocSentencesInput(FullSentencesInput):
    """Consecutive whole sentences of one document, up to the maximum length."""

    kind: ClassVar[str] = "doc-sentences"
    crosses: ClassVar[bool] = False


def pack_sentences(
    columns: DocumentTokens, settings: PackSettings, *, cls_id: int, sep_id: int
) -> tuple[Examples, tuple[Ledger, ...]]:
    """Pack whole sentences into examples of one segment, in `settings.copies` passes over the documents.

    A sentence is cut only if it is longer than an example.

    Args:
        columns: The documents of the shard.
        settings: Settings of the packer.
        cls_id: Id of the [CLS] token.
        sep_id: Id of the [SEP] token.

    Returns:
        The examples of all passes, and one ledger per pass that accounts for every token and has been checked.
    """
    check_columns(columns)
    plans = [_plan_copy(columns, settings, copy) for copy in range(settings.copies)]
    layout = ExampleLayout(cls_id, sep_id)
    parts = [build_examples(columns, plan, compute_ordinals(plan), copy, layout) for copy, plan in enumerate(plans)]
    return join_examples(parts), tuple(build_pack_ledger(columns, plan) for plan in plans)


def draw_document_order(columns: DocumentTokens, seed: int, copy: int) -> Int64s:
    """Draw the order in which the documents of a shard are packed in one pass over them.

    Pass 0 uses the stored order. In every other pass, the documents are shuffled with `seed`.

    Args:
        columns: The documents of the shard.
        seed: Seed of the shuffle.
        copy: Zero-based pass over the documents.

    Returns:
        int64 [documents], the indices of the documents in the order in which they are packed.
    """
    if copy == 0:
        return np.arange(len(columns.keys), dtype=np.int64)
    return np.argsort(compute_keys(seed, "pack order", copy, columns.keys), kind="stable").astype(np.int64)


def _plan_copy(columns: DocumentTokens, settings: PackSettings, copy: int) -> Int64s:
    """Pack the sentences of one pass over the documents, and return the plan: int64 [pieces, PIECE_WIDTH].

    A row (start, end, document, example) describes one piece, which is a run of consecutive tokens of one document
    inside one example.

    Args:
        columns: The documents of the shard.
        settings: Settings of the packer.
        copy: Zero-based pass over the documents.
    """
    room = settings.length - PACK_SPECIALS
    cap = len(columns.sentences) + 2 * (len(columns.ids) // room + 1)  # a sentence's, and two cuts for each room
    pieces = np.empty((cap, PIECE_WIDTH), np.int64)
    order = draw_document_order(columns, settings.seed, copy)
    num = plan_packs(columns.word_starts, columns.sentences, columns.documents, order, room, settings.crosses, pieces)
    return pieces[:num].copy()


def build_pack_ledger(columns: DocumentTokens, pieces: Int64s) -> Ledger:
    """Account for every token of one pass of packing, and check that the counts add up.

    The count `cut_sentences` of the ledger is the number of pieces that begin inside a sentence.

    Args:
        columns: The documents of the shard.
        pieces: int64 [pieces, PIECE_WIDTH], the plan of the pass: a row (start, end, document, example) per piece.

    Raises:
        LedgerError: The pieces do not contain all tokens of the documents.
    """
    placed = int((pieces[:, END] - pieces[:, START]).sum())
    outcomes = {"placed": placed, "truncated": 0, "left_over": 0}
    account = Account(unit="tokens", total=len(columns.ids), outcomes=outcomes)
    starts = pieces[:, START]
    inside = columns.sentences[np.searchsorted(columns.sentences, starts)] != starts
    return Ledger(accounts=(account,), figures={"cut_sentences": int(np.count_nonzero(inside))}).check()


def pack_sentences_plain(
    columns: DocumentTokens, settings: PackSettings, *, cls_id: int, sep_id: int
) -> tuple[Examples, tuple[Ledger, ...]]:
    """Reference implementation of `pack_sentences` in plain Python, for tests.

    The result has the examples of all passes over the documents in `columns`, and one ledger per pass that accounts for
    every token.
    """
    parts, ledgers = [], []
    for copy in range(settings.copies):
        examples = number_examples_plain([_merge_sentences(row) for row in _iter_rows(columns, settings, copy)])
        parts.append(build_examples_plain(columns, examples, copy, ExampleLayout(cls_id, sep_id)))
        ledgers.append(build_pack_ledger(columns, to_plan_matrix(examples)))
    return join_examples(parts), tuple(ledgers)


def _iter_rows(columns: DocumentTokens, settings: PackSettings, copy: int) -> Iterator[list[PlainPiece]]:
    """Yield the sentences of each example of one pass, in order. A part of a long sentence is an example by itself.

    Args:
        columns: The documents of the shard.
        settings: Settings of the packer.
        copy: Zero-based pass over the documents.
    """
    room, row = settings.length - PACK_SPECIALS, list[PlainPiece]()
    for document in draw_document_order(columns, settings.seed, copy).tolist():
        for sentence in range(columns.documents[document], columns.documents[document + 1]):
            start, end = int(columns.sentences[sentence]), int(columns.sentences[sentence + 1])
            if row and _count_tokens([*row, PlainPiece(start, end, document)]) > room:
                yield row
                row = []
            while end - start > room:
                cuts = [place for place in range(start + 1, start + room + 1) if columns.word_starts[place]]
                cut = max(cuts, default=start + room)
                yield [PlainPiece(start, cut, document)]
                start = cut
            row.append(PlainPiece(start, end, document))
        if row and not settings.crosses:
            yield row
            row = []
    if row:
        yield row


def _merge_sentences(sentences: Sequence[PlainPiece]) -> list[PlainPiece]:
    """Merge neighboring sentences of one document into one piece (run of tokens), and return the pieces in order."""
    runs = [list(run) for _, run in groupby(sentences, key=lambda piece: piece.document)]
    return [run[0]._replace(end=run[-1].end) for run in runs]


def _count_tokens(sentences: Sequence[PlainPiece]) -> int:
    """Count the tokens of an example that consists of these sentences.

    Separators between two documents are counted, but not the first and last special token of the example.
    """
    return sum(piece.end - piece.start + 1 for piece in _merge_sentences(sentences)) - 1
