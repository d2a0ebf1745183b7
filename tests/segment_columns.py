"""Columns of made-up documents for the tests of builders of two segments, and what was taken from them."""

import numpy as np

from corpora.kernels.arrays import Int64s
from shards.builders.examples import DocumentTokens
from shards.builders.segments.plan import SegmentPairs

CLS, SEP = 1, 2
FIRST_ID = 10


def columns_of(documents: list[list[int]], word_share: float = 0.7, seed: int = 0) -> DocumentTokens:
    """Documents given by the lengths of their sentences; the id of a token is FIRST_ID + its place."""
    lengths = [length for document in documents for length in document]
    num_tokens = sum(lengths)
    sentences = np.cumsum([0, *lengths], dtype=np.int64)
    word_starts = (np.random.default_rng(seed).random(num_tokens) < word_share).astype(np.uint8)
    word_starts[sentences[:-1]] = 1
    return DocumentTokens(
        ids=np.arange(FIRST_ID, FIRST_ID + num_tokens, dtype=np.uint32),
        word_starts=word_starts,
        sentences=sentences,
        documents=np.cumsum([0, *map(len, documents)], dtype=np.int64),
        keys=np.arange(1, len(documents) + 1, dtype=np.uint64) * np.uint64(7919),
    )


def many_documents(num: int, max_sentences: int, max_tokens: int, seed: int = 0) -> DocumentTokens:
    random = np.random.default_rng(seed)
    sizes = random.integers(1, max_sentences + 1, num)
    return columns_of([random.integers(1, max_tokens + 1, size).tolist() for size in sizes], seed=seed)


def segments(pairs: SegmentPairs, index: int) -> tuple[Int64s, Int64s]:
    """Places of A's and B's tokens in the columns of `columns_of`."""
    row = pairs.ids[pairs.offsets[index] : pairs.offsets[index + 1]].astype(np.int64) - FIRST_ID
    boundary = int(pairs.boundary[index])
    return row[1 : boundary - 1], row[boundary:-1]


def assert_same(left: SegmentPairs, right: SegmentPairs) -> None:
    for name, one, other in zip(SegmentPairs._fields, left, right, strict=True):
        assert one.dtype == other.dtype, name
        np.testing.assert_array_equal(one, other, err_msg=name)


def deviation(num_random: int, num_next: int) -> float:
    """How many standard deviations of a fair coin the labels lie from one half."""
    return abs(num_random - num_next) / float(np.sqrt(num_random + num_next))
