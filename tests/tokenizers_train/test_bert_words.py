"""BERT's words: cut as the reference cuts them."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numbered_words import spelt

from tokenizers_train.bert_words import BertWords, byte_rules
from tokenizers_train.bert_words_kernels import PUNCTUATION, RAW, SPACE, WORD

# Letters, marks, controls and spaces that the reference treats in ways of their own.
ODD = (
    "aZ09 .-'\t\n\r\x00\x0b\x1c\x7f\x85\xa0\xad"
    "Ééßİ\u0131\u017f\u0301\u0307\u200b\u200d\u2028\u3000\ufeff\ufffd“”—中한กु😀\U0001d518#[]"
)
TEXTS = st.text(st.one_of(st.sampled_from(ODD), st.characters(exclude_categories=["Cs"])), max_size=40)


@settings(deadline=None)
@given(st.lists(TEXTS, max_size=6), st.booleans())
@example(["I\u0307stanbul e\u0301 don\u2019t", "", " \n", "a\x00b \x00 c", "中文 ab中cd"], True)
def test_words_are_those_of_the_reference(texts: list[str], lowercase: bool) -> None:
    rule = BertWords(lowercase=lowercase)
    assert spelt(texts, rule) == [rule.split(text) for text in texts]


def test_each_character_up_to_japanese_between_letters_and_alone() -> None:
    rule = BertWords(lowercase=True)
    text = " ".join(f"A{chr(code)}b {chr(code)}" for code in range(0x3100))
    assert spelt([text], rule) == [rule.split(text)]


@pytest.mark.parametrize("lowercase", [True, False])
def test_rules_for_ascii(lowercase: bool) -> None:
    classes, lowered = byte_rules(lowercase)
    assert {chr(code) for code in range(256) if classes[code] == SPACE} == set(" \t\n\r")
    assert {chr(code) for code in range(256) if classes[code] == WORD} == {
        chr(code) for code in range(128) if chr(code).isalnum()
    }
    assert (classes == PUNCTUATION).sum() == 32
    assert (classes[128:] == RAW).all() and classes[0] == RAW
    assert chr(lowered[ord("Q")]) == ("q" if lowercase else "Q")
