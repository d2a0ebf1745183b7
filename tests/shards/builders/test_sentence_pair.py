"""Sentence pairs: kernel and twin alike, natural sentences, a label that the surface does not tell."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_documents import (
    FIRST_ID,
    LABELLED,
    assert_cut_at_words,
    assert_same,
    assert_sound,
    documents_of,
    held,
    rows,
    shapes,
    word_shares,
)
from tiers import examples

from shards.builders.contract import BuiltExamples, Common, DocumentTokens, Examples
from shards.builders.pieces.sentence_pair import build_sentence_pairs, build_sentence_pairs_plain
from shards.surfaces import Segments, count_surfaces, measure_surface_accuracy, to_surface_rows


@given(shapes, word_shares, st.integers(5, 40), st.integers(1, 3), st.integers(0, 9))
@examples(100)
def test_kernel_equals_the_plain_twin(
    lengths: list[list[int]], word_share: float, length: int, copies: int, seed: int
) -> None:
    """Fails also where a token is in two examples of a copy, or a label is not what the documents say."""
    columns, common = documents_of(lengths, word_share), Common(length, copies, seed)
    built = build_sentence_pairs(columns, common, LABELLED)
    assert_same(built, build_sentence_pairs_plain(columns, common, LABELLED))
    for tokens in assert_sound(columns, built, length, copies):
        assert len(set(tokens)) == len(tokens)
    assert_cut_at_words(columns, built.examples, (length - 3) // 2)
    assert_pairs(columns, built.examples, (length - 3) // 2)


def assert_pairs(columns: DocumentTokens, examples: Examples, room: int) -> None:
    """Each segment is a sentence, or a piece of one that is too long; B follows A, or is of another document."""
    bounds = columns.sentences.tolist()
    assert examples.label is not None and examples.second_document is not None
    np.testing.assert_array_equal(examples.label, examples.second_document)
    for row, boundary, label, documents in zip(
        rows(examples), examples.boundary.tolist(), examples.label.tolist(), held(examples), strict=True
    ):
        a, b = row[1 : boundary - 1], row[boundary:-1]
        assert len(documents) == 1 + label and (b[0] == a[-1] + 1 or label == 1)
        for segment in (a, b):
            start, stop = segment[0] - FIRST_ID, segment[-1] + 1 - FIRST_ID
            inside = [bound for bound in bounds if start < bound < stop]
            assert not inside and segment == list(range(segment[0], segment[-1] + 1)) and len(segment) <= room
            whole = max(bound for bound in bounds if bound <= start), min(bound for bound in bounds if bound >= stop)
            assert whole == (start, stop) or whole[1] - whole[0] > room


def built_of(lengths: list[list[int]], length: int = 64, copies: int = 1) -> BuiltExamples:
    return build_sentence_pairs(documents_of(lengths), Common(length, copies, 7), LABELLED)


@pytest.mark.parametrize(
    ("lengths", "num_examples", "figures"),
    [
        ([[5, 4]], 0, {"without_partner": 1, "odd_sentences": 0}),
        ([[5], [4], [3]], 0, {"without_partner": 0, "odd_sentences": 3}),
        ([[5, 4, 3, 4, 6, 4], [1, 4]], 2, {"without_partner": 2, "odd_sentences": 0}),
        ([[5, 4], [3, 4]], 2, {"without_partner": 0, "odd_sentences": 0}),
        ([[5, 4], [3, 6], [4, 5, 2]], 2, {"without_partner": 1, "odd_sentences": 1}),
        ([[70, 4, 3], [30, 31, 3]], 2, {"without_partner": 2, "odd_sentences": 1, "cut_sentences": 3}),
    ],
)
def test_what_has_no_partner_is_left_over_and_counted(
    lengths: list[list[int]], num_examples: int, figures: dict[str, int]
) -> None:
    """Fails if a corpus of one document, or of lone sentences, gives examples, or does not say what it lost."""
    built = built_of(lengths)
    found = built.ledgers[0].figures
    assert found["next"] + found["random"] == len(built.examples.copy) == num_examples
    assert {name: found[name] for name in figures} == figures


def test_copies_leave_other_sentences_over() -> None:
    """Fails if the odd sentence of a document is the same in every copy, so that a model never sees it."""
    built = built_of([[3, 3, 3]] * 2, copies=40)
    seen = {id for row in rows(built.examples) for id in row if id >= FIRST_ID}
    assert len(seen) == 18
    assert len({tuple(row) for row in rows(built.examples)}) > 4


def short_documents(number: int) -> list[list[int]]:
    """Documents of one to three sentences, as tickets are."""
    random = np.random.default_rng(5)
    return [random.integers(2, 40, random.integers(1, 4)).tolist() for _ in range(number)]


def prose(number: int) -> list[list[int]]:
    """Longer documents, each with sentences of its own usual length."""
    random = np.random.default_rng(6)
    usual = random.uniform(8, 35, number)
    return [np.clip(random.normal(mean, 6, random.integers(5, 60)), 1, 90).astype(int).tolist() for mean in usual]


@pytest.mark.parametrize("lengths", [short_documents(6_000), prose(300)], ids=["short", "prose"])
def test_the_surface_does_not_tell_the_label(lengths: list[list[int]]) -> None:
    """Lengths, beginnings and ends guess no label.

    Fails if random Bs are longer or shorter than true ones, or are cut more often.
    """
    columns, length = documents_of(lengths), 64
    examples = build_sentence_pairs(columns, Common(length, 2, 7), LABELLED).examples
    assert examples.label is not None
    a_length, a_start = examples.boundary - 2, examples.offsets[:-1] + 1
    b_start = examples.offsets[:-1] + examples.boundary
    b_length = examples.offsets[1:] - 1 - b_start
    places = (examples.ids[start].astype(np.int64) - FIRST_ID for start in (a_start, b_start))
    segments = Segments(next(places), a_length.astype(np.int64), next(places), b_length)
    counts = count_surfaces(columns.sentences, segments, examples.label, examples.example_id, room=length - 3)
    looks = to_surface_rows(counts)
    assert all(len(looks.column(name).unique()) == 2 for name in ("a_begins", "a_ends", "b_begins", "b_ends"))
    guessed = measure_surface_accuracy({"train": looks})
    assert guessed is not None and guessed.examples > 800 and guessed.accuracy < 0.54
    assert abs(examples.label.mean() - 0.5) < 2 / len(examples.label) + 1e-9


def test_partners_are_of_many_documents() -> None:
    """Fails if neighbours of the order are exchanged with one document only."""
    examples = built_of(short_documents(400), 128).examples
    seconds = Counter(documents[1] for documents in held(examples) if len(documents) == 2)
    assert len(seconds) > 100 and max(seconds.values()) <= 2


def test_lengths_are_near() -> None:
    """Fails if a partner is taken from anywhere: of these pairs each has one of its B's length, or nearly."""
    figures = built_of(short_documents(2_000), 128).ledgers[0].figures
    assert figures["length_gap"] < 0.1 * figures["random"]
    assert all(a <= b for a, b in pairwise([figures["random"] - 2, figures["next"], figures["random"] + 2]))
