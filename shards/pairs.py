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
`shards.pairs_plain` is the definition; here kernels do the work.

Promise: for every copy, total = placed + truncated + left over, over the tokens of the anchors, where the
total is counted on the input. Tokens borrowed for random Bs are a figure of their own.
Cost: 0.27 microseconds an example of 128 tokens, 0.38 of 512 (one x86-64 core); in passing, 64 bytes for
every sentence of a shard and 64 for every example.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from corpora.store.ledger import Account, Ledger
from corpora.store.randomness import address
from corpora.store.settings import check_range
from shards.pairs_kernels import (
    A_LENGTH,
    ANCHOR,
    B_LENGTH,
    FIGURES,
    ORDINAL,
    OTHER,
    OUTCOMES,
    PLAN_WIDTH,
    PURPOSES,
    Ids,
    Offsets,
    plan_copy,
    write_examples,
)

NUM_SPECIALS = 3
MAX_LENGTH = MAX_COPIES = (1 << 16) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSettings:
    """What determines the pairs.

    `length` is that of the longest example, in tokens with specials; a chunk aims at it, or, with
    `short_sequence_probability`, at a shorter text; every document is cut and labelled anew `copies` times.
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


class DocumentTokens(NamedTuple):
    """The tokenised documents of one shard, in canonical order; no sentence and no document is empty."""

    ids: Ids  # [tokens]
    word_starts: npt.NDArray[np.uint8]  # [tokens], 1 where a word begins
    sentences: Offsets  # [sentences + 1], into the tokens
    documents: Offsets  # [documents + 1], into the sentences
    keys: npt.NDArray[np.uint64]  # [documents], hash of id and revision


class Pairs(NamedTuple):
    """n examples, by copy, document and ordinal."""

    ids: Ids  # flat: [CLS] A [SEP] B [SEP]
    offsets: Offsets  # [n + 1], into ids
    word_starts: npt.NDArray[np.uint8]  # flat, 0 on specials
    boundary: npt.NDArray[np.uint16]  # [n], length of [CLS] A [SEP]
    label: npt.NDArray[np.uint8]  # [n], 0 = B follows A, 1 = B is random
    anchor: npt.NDArray[np.int32]  # [n], index of A's document
    partner: npt.NDArray[np.int32]  # [n], index of B's document
    ordinal: npt.NDArray[np.uint32]  # [n], number of the chunk in A's document
    copy: npt.NDArray[np.uint16]  # [n]
    example_id: npt.NDArray[np.uint64]  # [n]


def build_pairs(
    columns: DocumentTokens, settings: PairSettings, *, cls_id: int, sep_id: int
) -> tuple[Pairs, tuple[Ledger, ...]]:
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


def check_columns(columns: DocumentTokens) -> None:
    """Hold the builder of the columns to its word: offsets that fit, nothing empty."""
    sentences, documents = columns.sentences, columns.documents
    assert sentences[0] == documents[0] == 0
    assert sentences[-1] == len(columns.ids) == len(columns.word_starts)
    assert documents[-1] == len(sentences) - 1 and len(documents) - 1 == len(columns.keys)
    assert np.all(np.diff(sentences) > 0), "an empty sentence"
    assert np.all(np.diff(documents) > 0), "an empty document"


def ledger_of_copy(total: int, counts: Sequence[int]) -> Ledger:
    """The ledger of one copy: tokens that came in against counts named by OUTCOMES and FIGURES."""
    named = dict(zip(OUTCOMES + FIGURES, counts, strict=True))
    tokens = Account(unit="tokens", total=total, outcomes={name: named[name] for name in OUTCOMES})
    return Ledger(accounts=(tokens,), figures={name: named[name] for name in FIGURES}).check()


def _plan(
    columns: DocumentTokens, settings: PairSettings, copy: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """What stands in the examples of one copy: a row of the plan each, their ids, and the counts."""
    rows = np.empty((len(columns.sentences) - 1, PLAN_WIDTH), np.int64)
    example_ids = np.empty(len(rows), np.uint64)
    counts = np.zeros(len(OUTCOMES + FIGURES), np.int64)
    addresses = np.array([address(settings.seed, f"pair {purpose}", copy) for purpose in PURPOSES], np.uint64)
    first_link = np.uint64(address(0, "example", copy))
    limit, short = settings.length - NUM_SPECIALS, float(settings.short_sequence_probability)
    num = plan_copy(*columns[1:], first_link, addresses, limit, short, rows, example_ids, counts)
    return rows[:num].copy(), example_ids[:num].copy(), counts


def _write(
    columns: DocumentTokens,
    plan: npt.NDArray[np.int64],
    copies: npt.NDArray[np.uint16],
    example_ids: npt.NDArray[np.uint64],
    specials: tuple[int, int],
) -> Pairs:
    """The planned examples, written out."""
    offsets = np.zeros(len(plan) + 1, np.int64)
    np.cumsum(plan[:, A_LENGTH] + plan[:, B_LENGTH] + NUM_SPECIALS, out=offsets[1:])
    ids = np.empty(offsets[-1], columns.ids.dtype)
    word_starts = np.empty(offsets[-1], np.uint8)
    write_examples(columns.ids, columns.word_starts, plan, offsets, *specials, ids, word_starts)
    return Pairs(
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
