"""Next-word prediction: the documents as one stream, cut into examples that are full.

Radford et al. 2018 and 2019: documents follow one another with a separator at each end, and an example is the next
stretch of that stream, whatever it cuts. GPT-2 has one special token for both ends of a text; a vocabulary of the BERT
family has two. So `[SEP]` ends each document, and `[CLS]` begins each example, where GPT-2 has nothing: with it every
token of every document is guessed once in a copy, the first of an example from `[CLS]`, and position 0 is always the
same, as it is when the vocabulary's tokenizer encodes a prompt.

    documents    a b c d | e f          length 5
    stream       a b c d [SEP] e f [SEP]
    examples     [CLS] a b c d    [CLS] [SEP] e f [SEP]

A model learns `ids[1:]` from `ids[:-1]` of each example; nothing is masked. The last example of a copy is as short as
it is. Documents follow one another in the order of the columns for the first copy, in that of a hash of their keys for
every later one, as those of `shards.builders.pieces.packing`. An example that begins with the end of a document has
that document as its first.

Promise: without their `[CLS]` the examples of a copy, end to end, are the stream: nothing is truncated or left over.
"""

from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

import numpy as np

from corpora.store.ledger import Ledger
from shards.builders.contract import BuiltExamples, Common
from shards.builders.examples import DocumentTokens, check_columns
from shards.builders.pieces.causal_kernels import plan_stream
from shards.builders.pieces.packing import document_order
from shards.builders.pieces.plan import (
    ExampleLayout,
    PlainPiece,
    examples_of,
    joined,
    ledger_of_copy,
    ordinals_of,
    placed_in,
    plain_examples,
    plain_numbered,
    plain_placed,
)
from shards.builders.pieces.plan_kernels import PIECE_WIDTH
from shards.masks.masking import ShardVocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class CausalInput:
    """A stream of documents in full examples for next-word prediction, as GPT reads them; nothing is masked."""

    kind: ClassVar[str] = "causal"
    version: ClassVar[int] = 1
    masked: ClassVar[bool] = False
    segments: ClassVar[int] = 1
    labels: ClassVar[str | None] = None

    def check(self, common: Common) -> None:
        """Accept all settings: everything goes together."""

    def build(self, columns: DocumentTokens, common: Common, vocabulary: ShardVocabulary) -> BuiltExamples:
        """The examples of all copies."""
        return causal_examples(columns, common, ExampleLayout.of(vocabulary))


def causal_examples(columns: DocumentTokens, common: Common, layout: ExampleLayout) -> BuiltExamples:
    """The examples of all copies, by a kernel."""
    check_columns(columns)
    room, parts, ledgers = common.length - 1, [], []
    stream = len(columns.ids) + len(columns.keys)
    pieces = np.empty((len(columns.keys) + stream // room + 1, PIECE_WIDTH), np.int64)
    for copy in range(common.copies):
        order = document_order(columns, common.seed, copy)
        plan = pieces[: plan_stream(columns.sentences, columns.documents, order, room, pieces)].copy()
        parts.append(examples_of(columns, plan, ordinals_of(plan), copy, layout))
        ledgers.append(_ledger(columns, placed_in(plan), len(plan)))
    return BuiltExamples(joined(parts), tuple(ledgers))


def _ledger(columns: DocumentTokens, placed: int, num_pieces: int) -> Ledger:
    return ledger_of_copy(len(columns.ids), placed, 0, {"cut_documents": num_pieces - len(columns.keys)})


def causal_plain(columns: DocumentTokens, common: Common, layout: ExampleLayout) -> BuiltExamples:
    """Return what `causal_examples` gives, over lists of tokens."""
    parts, ledgers = [], []
    for copy in range(common.copies):
        stream = _plain_stream(columns, document_order(columns, common.seed, copy).tolist())
        size = common.length - 1
        examples = [stream[start : start + size] for start in range(0, len(stream), size)]
        planned = plain_numbered([_plain_pieces(example) for example in examples])
        parts.append(plain_examples(columns, planned, copy, layout))
        ledgers.append(_ledger(columns, plain_placed(planned), sum(len(example.pieces) for example in planned)))
    return BuiltExamples(joined(parts), tuple(ledgers))


Item = tuple[int, int, bool]  # document, place of a token or the place after its last, whether it is the separator


def _plain_stream(columns: DocumentTokens, order: list[int]) -> list[Item]:
    stream = list[Item]()
    for document in order:
        start, stop = columns.sentences[columns.documents[document : document + 2]].tolist()
        stream += [(document, place, False) for place in range(start, stop)] + [(document, stop, True)]
    return stream


def _plain_pieces(items: list[Item]) -> list[PlainPiece]:
    pieces = list[PlainPiece]()
    for document, run in groupby(items, key=lambda item: item[0]):
        places = [(place, is_end) for _, place, is_end in run]
        (start, _), (last, closed) = places[0], places[-1]
        pieces.append(PlainPiece(start, last + (not closed), document, closed))
    return pieces
