"""Documents given by the lengths of their sentences, and what any builder of examples must keep of them."""

from itertools import pairwise

import numpy as np
from hypothesis import strategies as st
from text_columns import assert_equal

from corpora.kernels.arrays import Int64s
from shards.builders.contract import BuiltExamples, DocumentTokens, Examples
from shards.builders.pieces.plan import ExampleLayout
from shards.builders.segments.plan import SegmentPairs

CLS, SEP, FIRST_ID = 1, 2, 10
SINGLE, PAIRED, LABELLED = (
    ExampleLayout(CLS, SEP),
    ExampleLayout(CLS, SEP, 2),
    ExampleLayout(CLS, SEP, 2, has_labels=True),
)

shapes = st.lists(st.lists(st.integers(1, 14), min_size=1, max_size=6), min_size=1, max_size=8)
word_shares = st.sampled_from([0.0, 0.3, 1.0])


def documents_of(lengths: list[list[int]], word_share: float = 1.0, seed: int = 0) -> DocumentTokens:
    """Documents given by the lengths of their sentences; the id of a token is FIRST_ID + its place."""
    flat = [length for document in lengths for length in document]
    sentences = np.cumsum([0, *flat], dtype=np.int64)
    word_starts = (np.random.default_rng(seed).random(sum(flat)) < word_share).astype(np.uint8)
    word_starts[sentences[:-1]] = 1
    return DocumentTokens(
        ids=np.arange(FIRST_ID, FIRST_ID + sum(flat), dtype=np.uint32),
        word_starts=word_starts,
        sentences=sentences,
        documents=np.cumsum([0, *map(len, lengths)], dtype=np.int64),
        keys=np.arange(1, len(lengths) + 1, dtype=np.uint64) * np.uint64(7919),
    )


def many_documents(num: int, max_sentences: int, max_tokens: int) -> DocumentTokens:
    """Documents of lengths drawn up to these; seven of ten tokens begin a word."""
    random = np.random.default_rng(0)
    sizes = random.integers(1, max_sentences + 1, num)
    return documents_of([random.integers(1, max_tokens + 1, size).tolist() for size in sizes], 0.7)


def segments(pairs: SegmentPairs, index: int) -> tuple[Int64s, Int64s]:
    """Places of A's and B's tokens in the columns of `documents_of`."""
    row = pairs.ids[pairs.offsets[index] : pairs.offsets[index + 1]].astype(np.int64) - FIRST_ID
    boundary = int(pairs.boundary[index])
    return row[1 : boundary - 1], row[boundary:-1]


def rows(examples: Examples) -> list[list[int]]:
    """The ids of each example."""
    return [examples.ids[i:j].tolist() for i, j in zip(examples.offsets, examples.offsets[1:], strict=False)]


def spelt(examples: Examples) -> list[str]:
    """Examples as letters: c for [CLS], / for [SEP], x for a token."""
    signs = {CLS: "c", SEP: "/"}
    return ["".join(signs.get(id, "x") for id in row) for row in rows(examples)]


def held(examples: Examples) -> list[list[int]]:
    """The documents of each example."""
    return [
        examples.documents[i:j].tolist()
        for i, j in zip(examples.document_offsets, examples.document_offsets[1:], strict=False)
    ]


def assert_same(ours: BuiltExamples, plain: BuiltExamples) -> None:
    """Kernel and twin give the same columns, in the same types, and the same ledgers."""
    assert_equal(ours.examples, plain.examples)
    assert ours.ledgers == plain.ledgers


def assert_sound(columns: DocumentTokens, built: BuiltExamples, length: int, copies: int) -> list[list[int]]:
    """Check what holds for every input. Returns the tokens of each copy, in the order of the examples.

    No example is too long, ids are unlike, columns are as long as they say, segments are runs of the documents that the
    example names, and what the ledger calls placed is in the examples.
    """
    examples, tokens = built.examples, [list[int]() for _ in range(copies)]
    owner = np.repeat(np.arange(len(columns.keys)), np.diff(columns.sentences[columns.documents]))
    assert len(set(examples.example_id.tolist())) == len(examples.copy) == len(examples.boundary)
    begins = dict(zip(columns.ids.tolist(), columns.word_starts.tolist(), strict=True))
    flags = np.array([begins.get(id, 0) for id in examples.ids.tolist()], np.uint8)
    np.testing.assert_array_equal(examples.word_starts, flags)
    for row, documents, copy in zip(rows(examples), held(examples), examples.copy.tolist(), strict=True):
        own = [id for id in row if id >= FIRST_ID]
        tokens[copy] += own
        assert row[0] == CLS and len(row) <= length
        assert {int(owner[id - FIRST_ID]) for id in own} <= set(documents)
        assert len(set(documents)) == len(documents) >= 1
    for placed, ledger in zip(tokens, built.ledgers, strict=True):
        account = ledger.find_account("tokens")
        assert account.total == len(columns.ids) and account.outcomes["placed"] == len(placed)
    return tokens


def assert_cut_at_words(columns: DocumentTokens, examples: Examples, room: int) -> None:
    """A run of tokens begins at a word, unless that word is longer than the room: then it begins `room` into it."""
    words = columns.word_starts
    for row in rows(examples):
        for before, id in pairwise(row):
            place = id - FIRST_ID
            if before < FIRST_ID <= id and not words[place]:
                start = max(at for at in range(place) if words[at])
                assert place - start >= room
