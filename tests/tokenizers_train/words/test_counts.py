"""Word counts: those of the reference, however the texts were cut into parts, weighted exactly."""

from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_columns import column

from corpora.errors import InputError
from tokenizers_train.words.bert import BertWords
from tokenizers_train.words.counts import count_words, merge_counts, to_whole_weights
from tokenizers_train.words.table import COUNTS_SCHEMA, WordCounts

TEXTS = st.lists(st.text(st.sampled_from("abAB .,'\n\x00éÉ\u0301“”中—"), max_size=30), max_size=8)


def as_dict(counts: WordCounts) -> dict[str, int]:
    return dict(zip(counts["word"].to_pylist(), counts["count"].to_pylist(), strict=True))


def test_a_small_text_counted_by_hand() -> None:
    counts = count_words(BertWords(lowercase=True), column(["The cat, the naïve CAT.", "don“t “do” the\x00 cat"]))
    assert counts.schema == COUNTS_SCHEMA
    expected = {"the": 3, "cat": 3, ",": 1, ".": 1, "naive": 1, "don": 1, "t": 1, "“": 2, "do": 1, "”": 1}
    assert as_dict(counts) == expected
    assert counts["word"].to_pylist() == sorted(expected)


@settings(deadline=None)
@given(TEXTS, st.integers(0, 8))
def test_parts_add_up_to_the_whole(texts: list[str], cut: int) -> None:
    whole = column(texts)
    parts = [
        count_words(BertWords(lowercase=True), whole.slice(0, cut)),
        count_words(BertWords(lowercase=True), whole.slice(cut)),
    ]
    assert merge_counts(parts).equals(count_words(BertWords(lowercase=True), whole))


def test_weights_multiply_counts_in_the_smallest_whole_numbers() -> None:
    few, many = (
        count_words(BertWords(lowercase=True), column(["a b"])),
        count_words(BertWords(lowercase=True), column(["a a c"])),
    )
    merged = merge_counts([few, many], [Fraction(3, 2), 1])
    assert as_dict(merged) == {"a": 3 + 4, "b": 3, "c": 2}
    assert merged.schema == COUNTS_SCHEMA
    assert merge_counts([few, many], [0.5, 0.5]).equals(merge_counts([few, many]))


def test_nothing_merged_is_an_empty_table() -> None:
    assert merge_counts([]).equals(COUNTS_SCHEMA.empty_table())
    assert merge_counts([count_words(BertWords(lowercase=True), column([]))]).equals(COUNTS_SCHEMA.empty_table())


def test_a_decimal_weight_is_what_was_written() -> None:
    assert to_whole_weights([0.1, 1.0]) == [1, 10]
    assert to_whole_weights([2, 4, Fraction(2, 3)]) == [3, 6, 1]


@pytest.mark.parametrize("weight", [0, -1, Fraction(-1, 2)])
def test_a_weight_that_is_not_positive_is_refused(weight: Fraction) -> None:
    with pytest.raises(InputError, match="must be above 0"):
        merge_counts([count_words(BertWords(lowercase=True), column(["a"]))] * 2, [1, weight])


def test_counts_too_large_to_add_are_refused() -> None:
    counts = count_words(BertWords(lowercase=True), column(["a"]))
    with pytest.raises(InputError, match="small numerators"):
        merge_counts([counts, counts], [1, Fraction(1, 1 << 60)])


def test_another_type_of_column_is_refused() -> None:
    with pytest.raises(InputError, match="large_string"):
        count_words(BertWords(lowercase=True), pa.array(["a"]))
