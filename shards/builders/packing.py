"""Full sentences: examples of one segment, packed with whole sentences, `[CLS] ... [SEP]`.

Liu et al. 2019 (section 4.2): `full-sentences` goes on from one document to the next, with an extra separator in
between; `doc-sentences` ends an example where its document ends. An example takes the sentences that follow one
another while they fit. Neither has pair labels.

What the authors leave open or drop is settled so that nothing is lost: a sentence longer than an example is cut, at
the last word start that fits, into examples of its own, and what is left of it begins the next one; the last example
of a shard is as short as it is. Documents follow one another in the order of the columns for the first copy, and in
the order of a hash of their keys for every later one, so that copies have other neighbours.

The result is a function of the settings and the columns alone. An example's id is a hash of (key of the document of
its first token, copy, its number among the examples that begin in that document).

Promise: for every copy, total = placed + truncated + left over, over the tokens of the columns, where the total is
counted on the input and placed on the examples; here nothing is truncated or left over.
Cost: 0.9 microseconds an example of 128 tokens, 2.3 of 512 (one x86-64 core).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from corpora.kernels.arrays import Int64s
from corpora.store.ledger import Account, Ledger
from corpora.store.randomness import address, fold, stream
from corpora.store.settings import check_range
from shards.builders.contract import BuiltExamples, Common
from shards.builders.examples import MAX_COPIES, MAX_LENGTH, DocumentTokens, Examples, check_columns
from shards.builders.packing_kernels import (
    DOCUMENT,
    END,
    EXAMPLE,
    PIECE_WIDTH,
    START,
    number_packs,
    plan_packs,
    write_packs,
)
from shards.masks.masking import ShardVocabulary

PACK_SPECIALS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PackSettings:
    """What determines the packs.

    length:  of the longest example, in tokens with specials
    crosses: whether an example may go on from one document to the next
    copies:  how often the documents are packed, in another order each time
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
    """Sentences that follow one another, over the ends of documents, as RoBERTa reads them."""

    kind: ClassVar[str] = "full-sentences"
    version: ClassVar[int] = 1
    masked: ClassVar[bool] = True
    segments: ClassVar[int] = 1
    labels: ClassVar[str | None] = None
    crosses: ClassVar[bool] = True

    def check(self, common: Common) -> None:
        """Everything goes together."""

    def build(self, columns: DocumentTokens, common: Common, vocabulary: ShardVocabulary) -> BuiltExamples:
        """The examples of all copies."""
        own = PackSettings(length=common.length, crosses=self.crosses, copies=common.copies, seed=common.seed)
        ids = vocabulary.special_ids
        return BuiltExamples(*pack_sentences(columns, own, cls_id=ids["cls"], sep_id=ids["sep"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class DocSentencesInput(FullSentencesInput):
    """Sentences that follow one another in one document."""

    kind: ClassVar[str] = "doc-sentences"
    crosses: ClassVar[bool] = False


def pack_sentences(
    columns: DocumentTokens, settings: PackSettings, *, cls_id: int, sep_id: int
) -> tuple[Examples, tuple[Ledger, ...]]:
    """The examples of all copies, and one checked ledger a copy."""
    check_columns(columns)
    plans = [_plan(columns, settings, copy) for copy in range(settings.copies)]
    parts = [_written(columns, plan, copy, cls_id, sep_id) for copy, plan in enumerate(plans)]
    return joined(parts), tuple(ledger_of_packs(columns, plan) for plan in plans)


def document_order(columns: DocumentTokens, settings: PackSettings, copy: int) -> Int64s:
    """The order in which the documents of a copy follow one another."""
    if copy == 0:
        return np.arange(len(columns.keys), dtype=np.int64)
    return np.argsort(stream(settings.seed, "pack order", copy, columns.keys), kind="stable").astype(np.int64)


def _plan(columns: DocumentTokens, settings: PackSettings, copy: int) -> Int64s:
    room = settings.length - PACK_SPECIALS
    most = len(columns.sentences) + 2 * (len(columns.ids) // room + 1)  # a sentence's, and two cuts for each room
    pieces = np.empty((most, PIECE_WIDTH), np.int64)
    order = document_order(columns, settings, copy)
    num = plan_packs(columns.word_starts, columns.sentences, columns.documents, order, room, settings.crosses, pieces)
    return pieces[:num].copy()


def _written(columns: DocumentTokens, pieces: Int64s, copy: int, cls_id: int, sep_id: int) -> Examples:
    """The planned examples of one copy."""
    num = int(pieces[-1, EXAMPLE]) + 1 if len(pieces) else 0
    held = np.bincount(pieces[:, EXAMPLE], minlength=num)
    lengths = np.bincount(pieces[:, EXAMPLE], weights=pieces[:, END] - pieces[:, START] + 1, minlength=num) + 1
    offsets = np.concatenate([[0], np.cumsum(lengths.astype(np.int64))])
    ids, word_starts = np.empty(offsets[-1], columns.ids.dtype), np.empty(offsets[-1], np.uint8)
    write_packs(columns.ids, columns.word_starts, pieces, cls_id, sep_id, ids, word_starts)
    ordinal = np.empty(num, np.uint32)
    number_packs(pieces, ordinal)
    document_offsets = np.concatenate([[0], np.cumsum(held, dtype=np.int64)])
    anchors = pieces[document_offsets[:-1], DOCUMENT]
    first_link = np.uint64(address(0, "example", copy))
    return Examples(
        ids=ids,
        offsets=offsets,
        word_starts=word_starts,
        boundary=lengths.astype(np.uint16),
        label=None,
        second_document=None,
        documents=pieces[:, DOCUMENT].astype(np.int32),
        document_offsets=document_offsets,
        ordinal=ordinal,
        copy=np.full(num, copy, np.uint16),
        example_id=fold(fold(first_link, columns.keys[anchors]), ordinal.astype(np.uint64)),
    )


def joined(parts: list[Examples]) -> Examples:
    """Examples end to end."""
    flat = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in Examples._fields
        if name not in ("offsets", "document_offsets", "label", "second_document")
    }
    return Examples(
        label=None,
        second_document=None,
        offsets=_joined_offsets([part.offsets for part in parts]),
        document_offsets=_joined_offsets([part.document_offsets for part in parts]),
        **flat,
    )


def _joined_offsets(parts: list[Int64s]) -> Int64s:
    lengths = np.concatenate([np.diff(part) for part in parts])
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def ledger_of_packs(columns: DocumentTokens, pieces: Int64s) -> Ledger:
    """The ledger of one copy: tokens that came in against tokens in its examples."""
    placed = int((pieces[:, END] - pieces[:, START]).sum())
    outcomes = {"placed": placed, "truncated": 0, "left_over": 0}
    account = Account(unit="tokens", total=len(columns.ids), outcomes=outcomes)
    starts = pieces[:, START]
    inside = columns.sentences[np.searchsorted(columns.sentences, starts)] != starts
    return Ledger(accounts=(account,), figures={"cut_sentences": int(np.count_nonzero(inside))}).check()


def packs_plain(
    columns: DocumentTokens, settings: PackSettings, *, cls_id: int, sep_id: int
) -> tuple[Examples, tuple[Ledger, ...]]:
    """What `pack_sentences` gives, over lists of tokens."""
    parts, ledgers = [], []
    for copy in range(settings.copies):
        rows = list(_plain_rows(columns, settings, copy))
        parts.append(_plain_columns(columns, rows, copy, cls_id, sep_id))
        pieces = np.array([[*piece, row] for row, pieces in enumerate(rows) for piece in pieces], np.int64)
        ledgers.append(ledger_of_packs(columns, pieces.reshape(-1, PIECE_WIDTH)))
    return joined(parts), tuple(ledgers)


Stretch = tuple[int, int, int]  # first token, token after the last, document


def _plain_rows(columns: DocumentTokens, settings: PackSettings, copy: int) -> Iterator[list[Stretch]]:
    """The examples of one copy: the pieces of each."""
    room, row = settings.length - PACK_SPECIALS, list[Stretch]()
    for document in document_order(columns, settings, copy).tolist():
        for sentence in range(columns.documents[document], columns.documents[document + 1]):
            start, end = int(columns.sentences[sentence]), int(columns.sentences[sentence + 1])
            if row and _plain_size([*row, (start, end, document)]) > room:
                yield row
                row = []
            while end - start > room:
                cuts = [place for place in range(start + 1, start + room + 1) if columns.word_starts[place]]
                cut = max(cuts, default=start + room)
                yield [(start, cut, document)]
                start = cut
            row.append((start, end, document))
        if row and not settings.crosses:
            yield row
            row = []
    if row:
        yield row


def _plain_size(row: list[Stretch]) -> int:
    """Tokens of an example without its first and last special one: there is a separator where the document changes."""
    changes = sum(a[2] != b[2] for a, b in pairwise(row))
    return sum(end - start for start, end, _ in row) + changes


def _plain_columns(columns: DocumentTokens, rows: list[list[Stretch]], copy: int, cls_id: int, sep_id: int) -> Examples:
    ids, starts, lengths, held = list[int](), list[int](), list[int](), list[int]()
    documents, ordinals = list[int](), list[int]()
    for row in rows:
        anchor, size = row[0][2], len(ids)
        ids.append(cls_id)
        starts.append(0)
        for index, (start, end, document) in enumerate(row):
            ids += columns.ids[start:end].tolist()
            starts += columns.word_starts[start:end].tolist()
            if index + 1 == len(row) or row[index + 1][2] != document:
                ids.append(sep_id)
                starts.append(0)
        of_row = list(dict.fromkeys(document for _, _, document in row))
        anchors = [documents[place] for place in np.cumsum([0, *held])[:-1]]
        ordinals.append(anchors.count(anchor))
        documents += of_row
        held.append(len(of_row))
        lengths.append(len(ids) - size)
    keys = [int(columns.keys[documents[place]]) for place in np.cumsum([0, *held])[:-1]]
    links = [fold(fold(address(0, "example", copy), key), n) for key, n in zip(keys, ordinals, strict=True)]
    dtype: npt.DTypeLike = columns.ids.dtype
    return Examples(
        ids=np.array(ids, dtype),
        offsets=np.cumsum([0, *lengths], dtype=np.int64),
        word_starts=np.array(starts, np.uint8),
        boundary=np.array(lengths, np.uint16),
        label=None,
        second_document=None,
        documents=np.array(documents, np.int32),
        document_offsets=np.cumsum([0, *held], dtype=np.int64),
        ordinal=np.array(ordinals, np.uint32),
        copy=np.full(len(rows), copy, np.uint16),
        example_id=np.array(links, np.uint64),
    )
