"""Segment pairs by definition: what `shards.builders.pairs.build_pairs` gives, over lists of tokens.

Promise: the same columns and ledgers, so it says what the kernels mean. Cost: 200 microseconds an
example of 128 tokens, some 500 times what the kernels take: it is for reading and for tests.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from corpora.store.ledger import Ledger
from corpora.store.randomness import address, below, draw, fold, stream, uniform
from shards.builders.examples import DocumentTokens, check_columns
from shards.builders.pairs import PAIR_SPECIALS, PairSettings, SegmentPairs, ledger_of_copy
from shards.builders.pairs_kernels import FIGURES, OUTCOMES, PURPOSES

Token = tuple[int, int]  # id, 1 where a word begins
Segment = list[Token]


class _Example(NamedTuple):
    copy: int
    anchor: int
    partner: int
    ordinal: int
    example_id: int
    a: Segment
    b: Segment


def pairs_plain(
    columns: DocumentTokens, settings: PairSettings, *, cls_id: int, sep_id: int
) -> tuple[SegmentPairs, tuple[Ledger, ...]]:
    """What `build_pairs` gives, in plain Python."""
    check_columns(columns)
    tokens = list(zip(columns.ids.tolist(), columns.word_starts.tolist(), strict=True))
    sentences = [tokens[i:j] for i, j in pairwise(columns.sentences.tolist())]
    documents = [sentences[i:j] for i, j in pairwise(columns.documents.tolist())]
    examples: list[_Example] = []
    ledgers = []
    for copy in range(settings.copies):
        counts = Counter[str]()
        for anchor, key in enumerate(columns.keys.tolist()):
            examples += _plain_pairs(documents, anchor, key, copy, settings, counts)
        ledgers.append(ledger_of_copy(len(tokens), [counts[name] for name in OUTCOMES + FIGURES]))
    return _plain_columns(examples, columns.ids.dtype, (cls_id, 0), (sep_id, 0)), tuple(ledgers)


def _plain_pairs(
    documents: list[list[Segment]],
    anchor: int,
    key: int,
    copy: int,
    settings: PairSettings,
    counts: Counter[str],
) -> Iterator[_Example]:
    """The examples of one document and copy, in order; what became of its tokens goes to `counts`."""
    limit, rest, ordinal = settings.length - PAIR_SPECIALS, documents[anchor], 0
    while rest:
        example_id = int(fold(fold(address(0, "example", copy), key), ordinal))
        keys = {purpose: int(stream(settings.seed, f"pair {purpose}", copy, example_id)) for purpose in PURPOSES}
        target = limit
        if uniform(keys["target"], 0) < settings.short_sequence_probability:
            target = 2 + int(below(keys["target"], 1, limit - 1))
        size = 1
        while size < len(rest) and len(_joined(rest[:size])) < target:
            size += 1
        chunk, middle = rest[:size], 1
        if size > 1:
            middle = 1 + int(below(keys["cut"], 0, size - 1))
            a, b = _joined(chunk[:middle]), _joined(chunk[middle:])
        else:
            a, b = _plain_halves(chunk[0], keys["cut"])
        rest = rest[size:]
        if len(documents) == 1 or not b:
            counts["left_over"] += len(_joined(chunk))
            counts["without_partner" if len(documents) == 1 else "one_word"] += 1
        elif below(keys["label"], 0, 2):
            a, rest = _joined(chunk[:middle]), chunk[middle:] + rest
            partner, b = _plain_random_b(documents, anchor, target - len(a), keys["partner"])
            placed_a, placed_b = _plain_truncated(a, b, limit, keys["truncation"])
            counts["random"] += 1
            counts["placed"] += len(placed_a)
            counts["truncated"] += len(a) - len(placed_a)
            counts["borrowed"] += len(placed_b)
            yield _Example(copy, anchor, partner, ordinal, example_id, placed_a, placed_b)
        else:
            placed_a, placed_b = _plain_truncated(a, b, limit, keys["truncation"])
            counts["next"] += 1
            counts["placed"] += len(placed_a + placed_b)
            counts["truncated"] += len(a + b) - len(placed_a + placed_b)
            yield _Example(copy, anchor, anchor, ordinal, example_id, placed_a, placed_b)
        ordinal += 1


def _joined(sentences: list[Segment]) -> Segment:
    return list(chain.from_iterable(sentences))


def _plain_halves(sentence: Segment, key: int) -> tuple[Segment, Segment]:
    """A sentence cut before the word start nearest to a drawn place (the earlier of two); B empty if none."""
    places = [place for place in range(1, len(sentence)) if sentence[place][1]]
    if not places:
        return sentence, []
    drawn = 1 + int(below(key, 0, len(sentence) - 1))
    place = min(places, key=lambda place: (abs(place - drawn), place))
    return sentence[:place], sentence[place:]


def _plain_random_b(documents: list[list[Segment]], anchor: int, wanted: int, key: int) -> tuple[int, Segment]:
    """Another document, and its sentences from a drawn one on: at least one, until `wanted` tokens."""
    others = [index for index in range(len(documents)) if index != anchor]
    partner = others[int(below(key, 0, len(others)))]
    rest = documents[partner][int(below(key, 1, len(documents[partner]))) :]
    size = 1
    while size < len(rest) and len(_joined(rest[:size])) < wanted:
        size += 1
    return partner, _joined(rest[:size])


def _plain_truncated(a: Segment, b: Segment, limit: int, key: int) -> tuple[Segment, Segment]:
    """While both are too long, the longer (B on a tie) loses its first or last token, by one bit a token."""
    removed = 0
    while len(a) + len(b) > limit:
        front = int(draw(key, removed // 64)) >> removed % 64 & 1
        if len(a) > len(b):
            a = a[1:] if front else a[:-1]
        else:
            b = b[1:] if front else b[:-1]
        removed += 1
    return a, b


def _plain_columns(examples: list[_Example], dtype: npt.DTypeLike, cls: Token, sep: Token) -> SegmentPairs:
    rows = [[cls, *example.a, sep, *example.b, sep] for example in examples]
    tokens = _joined(rows)
    return SegmentPairs(
        ids=np.array([token for token, _ in tokens], dtype),
        offsets=np.cumsum([0, *map(len, rows)], dtype=np.int64),
        word_starts=np.array([begins for _, begins in tokens], np.uint8),
        boundary=np.array([len(example.a) + 2 for example in examples], np.uint16),
        label=np.array([example.anchor != example.partner for example in examples], np.uint8),
        anchor=np.array([example.anchor for example in examples], np.int32),
        partner=np.array([example.partner for example in examples], np.int32),
        ordinal=np.array([example.ordinal for example in examples], np.uint32),
        copy=np.array([example.copy for example in examples], np.uint16),
        example_id=np.array([example.example_id for example in examples], np.uint64),
    )
