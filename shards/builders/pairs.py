"""Segment pairs for next sentence prediction: [CLS] A [SEP] B [SEP], B what follows A, or random text.

Devlin et al. 2018 (section 3.1, appendix A.2) with the known errors of the released script mended:
- the target length is drawn for every chunk, not once for a document and copy;
- the label is drawn first, by the chunk's address, and honoured, so it is a fair coin whatever the documents
  look like: a chunk of one sentence that must have a true next is split inside the sentence, at a word start
  (the script calls every such chunk random: all of them, where a document is a line);
- a random B comes from another document, always. In a shard of a single document no chunk has a partner: its
  chunks are counted and none is labelled, for a label without its opposite teaches nothing;
- a chunk of a single word cannot be split: it is left over whatever its label.

The result is a function of the settings and the columns alone. An example's id is a hash of (anchor's key,
copy, ordinal of its chunk), and every choice about it is addressed by that id: copies can be built apart.
`shards.builders.pairs_plain` is the definition; here kernels do the work.

Promise: for every copy, total = placed + truncated + left over, over the tokens of the anchors, where the
total is counted on the input. Tokens borrowed for random Bs are a figure of their own.
Cost: 0.27 microseconds an example of 128 tokens, 0.38 of 512 (one x86-64 core); in passing, 64 bytes for
every sentence of a shard and 64 for every example.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from corpora.kernels.arrays import Bytes, Ids, Int32s, Int64s, UInt16s, UInt32s, UInt64s
from corpora.store.ledger import Account, Ledger
from corpora.store.randomness import address
from corpora.store.settings import added, check_choice, check_range
from shards.builders import google_bert
from shards.builders.contract import BuiltExamples, Common
from shards.builders.examples import MAX_COPIES, MAX_LENGTH, DocumentTokens, Examples, check_columns
from shards.builders.pairs_kernels import (
    A_LENGTH,
    ANCHOR,
    B_LENGTH,
    FIGURES,
    ORDINAL,
    OTHER,
    OUTCOMES,
    PLAN_WIDTH,
    PURPOSES,
    plan_copy,
    write_examples,
)
from shards.masks.masking import ShardVocabulary
from tokenizers_train.vocabularies.vocabulary import Vocabulary

PAIR_SPECIALS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentPairInput:
    """Segment pairs for next sentence prediction, as BERT reads them.

    short_sequence_probability: share of chunks that aim at a shorter, drawn length
    compat: "google-bert": the examples of the authors' script with its faults, see `shards.builders.google_bert`
    """

    kind: ClassVar[str] = "segment-pair"
    version: ClassVar[int] = 1
    masked: ClassVar[bool] = True
    segments: ClassVar[int] = 2
    labels: ClassVar[str | None] = "next-sentence"

    short_sequence_probability: float = 0.1
    compat: str = added("")

    def __post_init__(self) -> None:
        check_range("shards.short_sequence_probability", self.short_sequence_probability, 0, 1)
        check_choice("shards.compat", self.compat, ("", google_bert.NAME))

    def check(self, common: Common) -> None:
        """The authors' script masks as it does; everything else goes together."""
        if self.compat:
            google_bert.check_masks(common.masking)

    def check_algorithm(self, algorithm: str) -> None:
        """Raise InputError for an algorithm of vocabularies that the authors' script cannot read."""
        if self.compat:
            google_bert.check_algorithm(algorithm)

    def check_vocabulary(self, words: Vocabulary) -> None:
        """Raise InputError for a vocabulary that the authors' script cannot read."""
        if self.compat:
            google_bert.check_vocabulary(words)

    def build(self, columns: DocumentTokens, common: Common, vocabulary: ShardVocabulary) -> BuiltExamples:
        """The examples of all copies."""
        if self.compat:
            script = google_bert.script_settings(common, self.short_sequence_probability)
            return google_bert.google_bert_examples(columns, script, vocabulary)
        own = PairSettings(
            length=common.length,
            short_sequence_probability=self.short_sequence_probability,
            copies=common.copies,
            seed=common.seed,
        )
        ids = vocabulary.special_ids
        return BuiltExamples(*pair_examples(columns, own, cls_id=ids["cls"], sep_id=ids["sep"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSettings:
    """What determines the pairs.

    `length` is that of the longest example, in tokens with specials; a chunk aims at it, or, with
    `short_sequence_probability`, at a shorter text; every document is cut and labelled `copies` times.
    """

    length: int = 128
    short_sequence_probability: float = 0.1
    copies: int = 1
    seed: int = 42

    def __post_init__(self) -> None:
        check_range("shards.length", self.length, 5, MAX_LENGTH)
        check_range("shards.short_sequence_probability", self.short_sequence_probability, 0, 1)
        check_range("shards.copies", self.copies, 1, MAX_COPIES)
        check_range("shards.seed", self.seed, 0, (1 << 64) - 1)


class SegmentPairs(NamedTuple):
    """n examples, by copy, document and ordinal."""

    ids: Ids  # flat: [CLS] A [SEP] B [SEP]
    offsets: Int64s  # [n + 1], into ids
    word_starts: Bytes  # flat, 0 on specials
    boundary: UInt16s  # [n], length of [CLS] A [SEP]
    label: Bytes  # [n], 0 = B follows A, 1 = B is random
    anchor: Int32s  # [n], index of A's document
    partner: Int32s  # [n], index of B's document
    ordinal: UInt32s  # [n], number of the chunk in A's document
    copy: UInt16s  # [n]
    example_id: UInt64s  # [n]


def build_pairs(
    columns: DocumentTokens, settings: PairSettings, *, cls_id: int, sep_id: int
) -> tuple[SegmentPairs, tuple[Ledger, ...]]:
    """The examples of all copies, and one checked ledger a copy: account `tokens`, figures `FIGURES`."""
    check_columns(columns)
    plans, example_ids, ledgers = [], [], []
    for copy in range(settings.copies):
        plan, ids, counts = _plan(columns, settings, copy)
        plans.append(plan)
        example_ids.append(ids)
        ledgers.append(ledger_of_copy(len(columns.ids), counts.tolist()))
    copies = np.repeat(np.arange(settings.copies, dtype=np.uint16), [len(plan) for plan in plans])
    whole = np.concatenate(plans)
    specials = (cls_id, sep_id)
    return _write(columns, whole, copies, np.concatenate(example_ids), specials), tuple(ledgers)


def pair_examples(
    columns: DocumentTokens, settings: PairSettings, *, cls_id: int, sep_id: int
) -> tuple[Examples, tuple[Ledger, ...]]:
    """What `build_pairs` gives, as the columns that every builder gives."""
    pairs, ledgers = build_pairs(columns, settings, cls_id=cls_id, sep_id=sep_id)
    return of_pairs(pairs), ledgers


def of_pairs(pairs: SegmentPairs) -> Examples:
    """Pairs as examples: a pair whose B is random holds two documents, any other one."""
    both = np.stack([pairs.anchor, pairs.partner], axis=1)
    held = np.stack([np.ones(len(both), bool), pairs.label == 1], axis=1)
    return Examples(
        ids=pairs.ids,
        offsets=pairs.offsets,
        word_starts=pairs.word_starts,
        boundary=pairs.boundary,
        label=pairs.label,
        second_document=pairs.label.astype(np.uint16),
        documents=both[held],
        document_offsets=np.concatenate([[0], np.cumsum(held.sum(axis=1), dtype=np.int64)]),
        ordinal=pairs.ordinal,
        copy=pairs.copy,
        example_id=pairs.example_id,
    )


def ledger_of_copy(total: int, counts: Sequence[int]) -> Ledger:
    """The ledger of one copy: tokens that came in against counts named by OUTCOMES and FIGURES."""
    named = dict(zip(OUTCOMES + FIGURES, counts, strict=True))
    tokens = Account(unit="tokens", total=total, outcomes={name: named[name] for name in OUTCOMES})
    return Ledger(accounts=(tokens,), figures={name: named[name] for name in FIGURES}).check()


def _plan(columns: DocumentTokens, settings: PairSettings, copy: int) -> tuple[Int64s, UInt64s, Int64s]:
    """What is in the examples of one copy: a row of the plan each, their ids, and the counts."""
    rows = np.empty((len(columns.sentences) - 1, PLAN_WIDTH), np.int64)
    example_ids = np.empty(len(rows), np.uint64)
    counts = np.zeros(len(OUTCOMES + FIGURES), np.int64)
    addresses = np.array([address(settings.seed, f"pair {purpose}", copy) for purpose in PURPOSES], np.uint64)
    first_link = np.uint64(address(0, "example", copy))
    limit, short = settings.length - PAIR_SPECIALS, float(settings.short_sequence_probability)
    num = plan_copy(*columns[1:], first_link, addresses, limit, short, rows, example_ids, counts)
    return rows[:num].copy(), example_ids[:num].copy(), counts


def _write(
    columns: DocumentTokens,
    plan: Int64s,
    copies: UInt16s,
    example_ids: UInt64s,
    specials: tuple[int, int],
) -> SegmentPairs:
    """The planned examples, written out."""
    offsets = np.zeros(len(plan) + 1, np.int64)
    np.cumsum(plan[:, A_LENGTH] + plan[:, B_LENGTH] + PAIR_SPECIALS, out=offsets[1:])
    ids = np.empty(offsets[-1], columns.ids.dtype)
    word_starts = np.empty(offsets[-1], np.uint8)
    write_examples(columns.ids, columns.word_starts, plan, offsets, *specials, ids, word_starts)
    return SegmentPairs(
        ids=ids,
        offsets=offsets,
        word_starts=word_starts,
        boundary=(plan[:, A_LENGTH] + 2).astype(np.uint16),
        label=(plan[:, ANCHOR] != plan[:, OTHER]).astype(np.uint8),
        anchor=plan[:, ANCHOR].astype(np.int32),
        partner=plan[:, OTHER].astype(np.int32),
        ordinal=plan[:, ORDINAL].astype(np.uint32),
        copy=copies,
        example_id=example_ids,
    )
