"""BERT's words: cut and counted as the reference cuts them."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strange_text import TEXTS, code_points, in_contexts, orders_of_marks
from text_columns import column

from tokenizers_train.words.bert import BertWords
from tokenizers_train.words.counts import count_words, count_words_plain

UNCASED, CASED = BertWords(lowercase=True), BertWords(lowercase=False)
RULES = (
    UNCASED,
    CASED,
    BertWords(lowercase=True, strip_accents=False),
    BertWords(lowercase=False, strip_accents=True, handle_chinese_chars=False),
    BertWords(lowercase=False, clean_text=False),
)
BLOCK = 1 << 13


def check(rule: BertWords, texts: list[str]) -> None:
    assert count_words(rule, column(texts)).equals(count_words_plain(rule, column(texts)))


def check_code_points(rule: BertWords, step: int) -> None:
    codes = [*code_points(step)]
    assert len(codes) > 5000
    for first in range(0, len(codes), BLOCK):
        check(rule, [" ".join(map(in_contexts, codes[first : first + BLOCK]))])


@settings(deadline=None)
@given(st.lists(TEXTS, max_size=6), st.sampled_from(RULES))
@example(["I\u0307stanbul e\u0301 don\u2019t", "", " \n", "a\x00b \x00 c", "中文 ab中cd"], UNCASED)
@example(["x.\u302f\u302e\u0301 y", "\x00 \u302f\u3000\u302e-a", "\u1112\u1161\u302f\u302e"], UNCASED)
def test_words_are_those_of_the_reference(texts: list[str], rule: BertWords) -> None:
    check(rule, texts)


@pytest.mark.parametrize("rule", [UNCASED, CASED], ids=["uncased", "cased"])
def test_some_code_points_in_contexts(rule: BertWords) -> None:
    check_code_points(rule, 151)


@pytest.mark.long
@pytest.mark.parametrize("rule", RULES, ids=range(len(RULES)))
def test_every_code_point_in_contexts(rule: BertWords) -> None:
    check_code_points(rule, 1)


@pytest.mark.parametrize("rule", RULES, ids=range(len(RULES)))
def test_marks_in_all_orders(rule: BertWords) -> None:
    texts = [*orders_of_marks()]
    assert len(texts) > 500
    check(rule, texts)


def test_marks_do_change_places() -> None:
    """Fails if the test above would hold for tables that ask nothing of the reference."""
    assert UNCASED.split("a\u08d4\u302eb") != ["a\u08d4\u302eb"]


def test_words_end_with_their_range() -> None:
    """Fails if a byte outside of a range becomes part of a word, or a word within is lost."""
    text = "internationalisation, co-operation."
    data = np.frombuffer(text.encode(), np.uint8)
    for start in range(len(text)):
        for end in (*range(start, min(start + 20, len(text))), len(text)):
            found = UNCASED.count(data, np.array([start], np.int64), np.array([end], np.int64))
            assert Counter(dict(zip(*found.to_pydict().values(), strict=True))) == Counter(
                UNCASED.split(text[start:end])
            )


def test_many_words_and_long_ones() -> None:
    """Fails if a word is counted twice or not at all when the table or the scratch has to grow."""
    texts = [" ".join(f"w{i % 9000}é{i % 7}" for i in range(20_000)), "é" * 100_000, "b" * 1_000_000, ".,;" * 1000]
    check(CASED, texts)


def test_settings_name_what_is_not_as_bert_has_it() -> None:
    assert UNCASED.settings == {"lowercase": True}
    assert RULES[2].settings == {"lowercase": True, "strip_accents": False}
    assert RULES[3].settings == {"lowercase": False, "handle_chinese_chars": False, "strip_accents": True}
    assert RULES[4].settings == {"lowercase": False, "clean_text": False}
