"""Sentence order: kernel and twin alike, cuts that look alike on both sides, every token accounted for, a fair coin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_documents import CLS, FIRST_ID, SEP, documents_of, many_documents, segments
from text_columns import assert_equal
from tiers import examples

from corpora.store.ledger import Ledger
from shards.builders.contract import Common, DocumentTokens
from shards.builders.segments.plan import SegmentPairs, to_examples, write_pairs
from shards.builders.segments.sentence_order import (
    build_sentence_orders_plain,
    find_kept_sentences,
    find_kept_sentences_plain,
    plan_sentence_orders,
)


def build(
    columns: DocumentTokens, length: int, copies: int = 1, short: float = 0.1, seed: int = 42
) -> tuple[SegmentPairs, tuple[Ledger, ...]]:
    planned = plan_sentence_orders(columns, Common(length, copies, seed), short)
    return write_pairs(columns, planned.plans, cls_id=CLS, sep_id=SEP), tuple(planned.ledgers)


@given(
    st.lists(st.lists(st.sampled_from([*range(1, 13), 40, 90]), min_size=1, max_size=8), max_size=6),
    st.integers(5, 40),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.integers(0, 2**64 - 1),
)
@examples(100)
def test_the_kernel_equals_its_definition(documents: list[list[int]], length: int, short: float, seed: int) -> None:
    columns, common = documents_of(documents, 0.7), Common(length, 2, seed)
    orders, ledgers = build(columns, length, 2, short, seed)
    plain, plain_ledgers = build_sentence_orders_plain(columns, common, short=short, cls_id=CLS, sep_id=SEP)
    assert_equal(orders, plain)
    assert ledgers == plain_ledgers


letters = st.lists(
    st.tuples(st.sampled_from([1, 1, 1, 2]), st.lists(st.tuples(st.integers(3, 5), st.integers(1, 4)), max_size=3)),
    min_size=60,
    max_size=90,
)


@given(letters, st.integers(2, 20))
@examples(50)
def test_the_ends_that_are_left_out_equal_their_definition(
    documents: list[tuple[int, list[tuple[int, int]]]], room: int
) -> None:
    """Documents that begin with one token in most cases, and so alike, or not."""
    sentences = [[[first, 9], *([look] * length for look, length in body)] for first, body in documents]
    columns = documents_of([[len(sentence) for sentence in document] for document in sentences])
    columns = columns._replace(ids=np.array([id for document in sentences for each in document for id in each]))
    kept = find_kept_sentences(columns, room)
    plain = find_kept_sentences_plain(columns, room)
    assert [columns.sentences[first:last].tolist() for first, last in kept] == [[s.start for s in d] for d in plain]
    assert all(plain)


def test_segments_follow_one_another_or_are_swapped_and_look_alike_at_every_cut() -> None:
    """Fails if text lies between the segments, the label says something else, or one end alone is in a sentence."""
    columns = many_documents(300, 12, 60)
    orders, (ledger,) = build(columns, 64)
    bounds, cut = set(columns.sentences.tolist()), 0
    for index in range(len(orders.label)):
        a, b = segments(orders, index)
        first, second = (b, a) if orders.label[index] else (a, b)
        assert second[0] == first[-1] + 1
        places = {int(first[0]), int(second[0]), int(second[-1]) + 1}
        assert places <= bounds or all(columns.word_starts[place] and place not in bounds for place in places)
        cut += not places & bounds
    account, figures = ledger.find_account("tokens"), ledger.figures
    assert account.outcomes["placed"] == len(orders.ids) - 3 * len(orders.label)
    assert account.outcomes["truncated"] == 0 < account.outcomes["left_over"]
    assert (figures["in_order"], figures["swapped"]) == ((orders.label == 0).sum(), (orders.label == 1).sum())
    assert 100 < figures["cut_sentences"] == cut < len(orders.label)
    assert abs(figures["swapped"] - figures["in_order"]) < 3 * np.sqrt(len(orders.label))  # of a fair coin
    assert np.diff(orders.offsets).max() <= 64


def test_one_document_is_enough_and_both_segments_are_of_it() -> None:
    examples = to_examples(build(documents_of([[5] * 40], 0.7), 40)[0])
    assert len(examples.example_id) > 4 and set(examples.documents.tolist()) == {0}
    assert examples.second_document is not None and not examples.second_document.any()
    assert set(examples.label.tolist() if examples.label is not None else ()) == {0, 1}


@pytest.mark.parametrize(
    ("documents", "left"),
    [
        ([[50]] * 20, 20 * 10),  # one sentence each: five tokens at both ends, and the rest in two pieces
        ([[400, 33]] * 3, 3 * 10),  # a sentence longer than an example
        ([[20, 30, 30]] * 2, 2 * 10),  # sentences of which no two fit are joined
        ([[9]] * 20, 20 * 9),  # too short to be cut
    ],
)
def test_sentences_without_company_are_joined_and_cut(documents: list[list[int]], left: int) -> None:
    orders, (ledger,) = build(documents_of(documents), 40)
    assert ledger.find_account("tokens").outcomes["left_over"] == left
    assert len(orders.ids) - 3 * len(orders.label) + left == sum(map(sum, documents))
    assert ledger.figures["cut_sentences"] == len(orders.label)


def test_text_without_words_is_left_over_and_counted() -> None:
    orders, (ledger,) = build(documents_of([[200, 20]] * 3, 0.0), 40)
    assert not len(orders.label) and ledger.figures["one_word"] == 3


def test_letters_lose_their_greeting_and_books_keep_their_title() -> None:
    """Fails if a sentence with which all documents begin is in an example, or one is left out for nothing."""
    for sentences, left in ((3, 100 * 4), (300, 0)):
        columns = documents_of([[4] + [12] * sentences] * 100)
        ids = columns.ids.copy()
        ids[columns.sentences[columns.documents[:-1]]] = 5
        orders, (ledger,) = build(columns._replace(ids=ids), 64, short=0)
        assert ledger.figures["alike_tokens"] == left and (5 in orders.ids) == (not left)


def test_the_last_sentence_of_a_document_is_not_alone_where_it_need_not_be() -> None:
    """Five sentences of which four fit: three and two, not four and one."""
    orders, (ledger,) = build(documents_of([[9] * 5] * 30, 0.7), 40, short=0)
    assert ledger.find_account("tokens").outcomes["left_over"] == 0
    assert sorted(set(np.diff(orders.offsets).tolist())) == [2 * 9 + 3, 3 * 9 + 3]
    assert orders.ids.min() == CLS and orders.ids.max() == FIRST_ID + 30 * 45 - 1
