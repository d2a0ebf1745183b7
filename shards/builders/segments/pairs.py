"""Segment pairs for next sentence prediction: [CLS] A [SEP] B [SEP], B what follows A, or random text.

Devlin et al. 2018 (section 3.1, appendix A.2), with the known errors of the released script fixed. There a model
guesses the label with no word read: a lone sentence is always "random", a random B may begin at a place with little
text after it, and truncation treats the two kinds unlike. Here:

- A and the true B are fixed first: a chunk of whole sentences that fit, cut between two of them. A sentence that no
  second one fits with goes together with the head of the next; a document's last one is cut at a word; one that is
  longer than an example is cut at word starts into pieces, each a chunk. Nothing is truncated;
- then a partner is sought in another document (`partners.py`): text of exactly the true B's length that begins and
  ends as that does. If the drawn cut has none, another cut or a shorter B is taken; a chunk that has none is left
  over and counted;
- last the label is drawn, a fair coin by the chunk's address. A random B puts the true one back: the next chunk
  begins with it.

So the lengths of A and B, how each begins and ends, and whether there is an example at all say nothing of the label:
they are decided before it is drawn. The target length is drawn for every chunk, not once for a document and copy.

The result is a function of the settings and the columns only. An example's id is a hash of (anchor's key, copy, ordinal
of its chunk), and every choice about it is addressed by that id: copies can be built apart.
`shards.builders.segments.pairs_plain` is the definition; here kernels do the work.

Promise: for every copy, total = placed + truncated + left over, over the tokens of the anchors. The total is counted on
the input; none is truncated. Tokens borrowed for random Bs are a figure of their own. Cost: 0.5 microseconds an example
of 128 tokens, 0.7 of 512 (one x86-64 core), the index of partners among it; in passing, 72 bytes for every example and
what the index takes. Of a shard of 17 million tokens an example of 128 takes 0.9 microseconds, and 1.2 more if its
memory is new.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from corpora.kernels.arrays import Int64s
from corpora.store.ledger import Account, Ledger
from corpora.store.randomness import compute_address
from corpora.store.settings import check_range
from shards.builders.contract import MAX_COPIES, MAX_LENGTH, BuiltExamples, Common, DocumentTokens, check_columns
from shards.builders.segments.pairs_kernels import FIGURES, OUTCOMES, PURPOSES, plan_copy
from shards.builders.segments.partners import build_partner_index
from shards.builders.segments.plan import PAIR_SPECIALS, PlannedSegments, SegmentPairs, to_built_examples, write_pairs
from shards.builders.segments.plan_kernels import LABEL, OTHER
from shards.masks.masking import ShardVocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentPairInput:
    """Segment pairs for next sentence prediction, as in BERT.

    short_sequence_probability: probability that an example is shorter, with a random target length
    """

    kind: ClassVar[str] = "segment-pair"
    version: ClassVar[int] = 1
    masked: ClassVar[bool] = True
    segments: ClassVar[int] = 2
    labels: ClassVar[str | None] = "next-sentence"

    short_sequence_probability: float = 0.1

    def __post_init__(self) -> None:
        check_range("shards.short_sequence_probability", self.short_sequence_probability, 0, 1)

    def check(self, common: Common) -> None:
        """Do nothing, because no setting of segment pairs can conflict with the shared settings."""

    def build(self, columns: DocumentTokens, common: Common, vocabulary: ShardVocabulary) -> BuiltExamples:
        """Build next sentence prediction examples of one shard, in `common.copies` passes over its documents.

        Args:
            columns: The documents of the shard.
            common: Length, copies and seed, which all inputs share.
            vocabulary: The number of tokens, and the ids of special tokens by role.

        Returns:
            The examples of all passes, and one ledger per pass that accounts for every token.
        """
        own = PairSettings(
            length=common.length,
            short_sequence_probability=self.short_sequence_probability,
            copies=common.copies,
            seed=common.seed,
        )
        ids, planned = vocabulary.special_ids, plan_pairs(columns, own)
        return to_built_examples(columns, planned, common.length - PAIR_SPECIALS, cls_id=ids["cls"], sep_id=ids["sep"])


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSettings:
    """Settings that determine the segment pairs.

    length:                     maximum length of an example in tokens, including special tokens
    short_sequence_probability: probability that an example is shorter, with a random target length
    copies:                     how often every document is cut into examples and labelled
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


def build_pairs(
    columns: DocumentTokens, settings: PairSettings, *, cls_id: int, sep_id: int
) -> tuple[SegmentPairs, tuple[Ledger, ...]]:
    """Build segment pairs for next sentence prediction, in `settings.copies` passes with different random choices.

    Args:
        columns: The documents of the shard.
        settings: Settings of the pairs.
        cls_id: Id of the [CLS] token.
        sep_id: Id of the [SEP] token.

    Returns:
        The pairs of all passes, and one ledger per pass that accounts for every token and has been checked. A ledger
        also contains the counts named in `FIGURES`, and a histogram of the lengths of the documents that random second
        segments come from.
    """
    planned = plan_pairs(columns, settings)
    return write_pairs(columns, planned.plans, cls_id=cls_id, sep_id=sep_id), tuple(planned.ledgers)


def plan_pairs(columns: DocumentTokens, settings: PairSettings) -> PlannedSegments:
    """Plan the segment pairs of all passes over the documents, without writing their tokens.

    Args:
        columns: The documents of the shard.
        settings: Settings of the pairs.

    Returns:
        For each pass a plan (the positions of both segments) and a ledger that accounts for every token.
    """
    check_columns(columns)
    limit = settings.length - PAIR_SPECIALS
    partners, planned = build_partner_index(columns, limit - 1), PlannedSegments([], [])
    for copy in range(settings.copies):
        counts = np.zeros(len(OUTCOMES + FIGURES), np.int64)
        addresses = np.array(
            [compute_address(settings.seed, f"pair {purpose}", copy) for purpose in PURPOSES], np.uint64
        )
        copy_key, short = np.uint64(compute_address(0, "example", copy)), float(settings.short_sequence_probability)
        plan = plan_copy(*columns[1:], partners, copy_key, addresses, limit, short, counts)
        planned.plans.append(plan)
        planned.ledgers.append(build_pair_ledger(columns, counts.tolist(), plan[plan[:, LABEL] == 1, OTHER]))
    return planned


def build_pair_ledger(columns: DocumentTokens, counts: Sequence[int], partners: Int64s) -> Ledger:
    """Build the ledger of one pass of segment pairs from its counts, and check that they add up.

    It also has a histogram of the lengths of the documents that random second segments come from.

    Args:
        columns: The documents of the shard.
        counts: The counts, in the order of OUTCOMES + FIGURES.
        partners: int64, the index of the document that each randomly chosen second segment comes from.

    Raises:
        LedgerError: The outcomes do not add up to the number of tokens.
    """
    named = dict(zip(OUTCOMES + FIGURES, counts, strict=True))
    tokens = Account(unit="tokens", total=len(columns.ids), outcomes={name: named[name] for name in OUTCOMES})
    lengths = np.diff(columns.sentences[columns.documents])[partners]
    figures = {name: named[name] for name in FIGURES} | count_by_power(lengths)
    return Ledger(accounts=(tokens,), figures=figures).check()


def count_by_power(lengths: Int64s) -> dict[str, int]:
    """Count documents by length, in ranges of 1, 2-3, 4-7, ... tokens.

    Args:
        lengths: int64 [documents], the number of tokens of each document, at least 1.

    >>> count_by_power(np.array([1, 5, 6, 70]))
    {'partners of 1-1 tokens': 1, 'partners of 4-7 tokens': 2, 'partners of 64-127 tokens': 1}
    """
    counts = np.bincount(np.frexp(lengths)[1] - 1)
    return {
        f"partners of {1 << power}-{(2 << power) - 1} tokens": count
        for power, count in enumerate(counts.tolist())
        if count
    }
