"""Sentence order: kernel and twin alike, no sentence cut, every token accounted for, a fair coin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_documents import CLS, FIRST_ID, SEP, documents_of, many_documents, segments
from text_columns import assert_equal
from tiers import examples

from corpora.store.ledger import Ledger
from shards.builders.contract import Common
from shards.builders.examples import DocumentTokens
from shards.builders.segments.plan import SegmentPairs, of_pairs
from shards.builders.segments.sentence_order import build_orders, orders_plain


def build(
    columns: DocumentTokens, length: int, copies: int = 1, short: float = 0.1, seed: int = 42
) -> tuple[SegmentPairs, tuple[Ledger, ...]]:
    return build_orders(columns, Common(length, copies, seed), short=short, cls_id=CLS, sep_id=SEP)


@given(
    st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=8), max_size=6),
    st.integers(5, 40),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.integers(0, 2**64 - 1),
)
@examples(100)
def test_the_kernel_equals_its_definition(documents: list[list[int]], length: int, short: float, seed: int) -> None:
    columns, common = documents_of(documents, 0.7), Common(length, 2, seed)
    orders, ledgers = build(columns, length, 2, short, seed)
    plain, plain_ledgers = orders_plain(columns, common, short=short, cls_id=CLS, sep_id=SEP)
    assert_equal(orders, plain)
    assert ledgers == plain_ledgers


def test_segments_are_whole_sentences_that_follow_one_another_or_are_swapped() -> None:
    """Fails where a sentence is cut, one lies between the segments, or the label says something else."""
    columns = many_documents(300, 12, 30)
    orders, (ledger,) = build(columns, 64)
    bounds = set(columns.sentences.tolist())
    for index in range(len(orders.label)):
        a, b = segments(orders, index)
        assert {int(a[0]), int(a[-1]) + 1, int(b[0]), int(b[-1]) + 1} <= bounds
        first, second = (b, a) if orders.label[index] else (a, b)
        assert second[0] == first[-1] + 1
    account, figures = ledger.account("tokens"), ledger.figures
    assert account.outcomes["placed"] == len(orders.ids) - 3 * len(orders.label)
    assert account.outcomes["truncated"] == 0 < account.outcomes["left_over"]
    assert (figures["in_order"], figures["swapped"]) == ((orders.label == 0).sum(), (orders.label == 1).sum())
    assert abs(figures["swapped"] - figures["in_order"]) < 3 * np.sqrt(len(orders.label))  # of a fair coin
    assert np.diff(orders.offsets).max() <= 64


def test_one_document_is_enough_and_both_segments_are_of_it() -> None:
    examples = of_pairs(build(documents_of([[5] * 40], 0.7), 40)[0])
    assert len(examples.example_id) > 4 and set(examples.documents.tolist()) == {0}
    assert examples.second_document is not None and not examples.second_document.any()
    assert set(examples.label.tolist() if examples.label is not None else ()) == {0, 1}


@pytest.mark.parametrize(
    ("documents", "figure", "number"),
    [([[9]] * 20, "one_sentence", 20), ([[400, 5, 5]] * 3, "too_long", 3), ([[20, 30, 30]] * 2, "one_sentence", 6)],
)
def test_a_sentence_without_company_is_left_over_and_counted(
    documents: list[list[int]], figure: str, number: int
) -> None:
    """One-sentence documents, sentences longer than an example, sentences of which no two fit."""
    orders, (ledger,) = build(documents_of(documents, 0.7), 40)
    assert ledger.figures[figure] == number
    held = len(orders.ids) - 3 * len(orders.label)
    assert held + ledger.account("tokens").outcomes["left_over"] == sum(map(sum, documents))


def test_the_last_sentence_of_a_document_is_not_alone_where_it_need_not_be() -> None:
    """Five sentences of which four fit: three and two, not four and one."""
    orders, (ledger,) = build(documents_of([[9] * 5] * 30, 0.7), 40, short=0)
    assert ledger.account("tokens").outcomes["left_over"] == 0
    assert sorted(set(np.diff(orders.offsets).tolist())) == [2 * 9 + 3, 3 * 9 + 3]
    assert orders.ids.min() == CLS and orders.ids.max() == FIRST_ID + 30 * 45 - 1
