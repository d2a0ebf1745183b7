"""GPT-2's words: cut as the reference cuts them."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numbered_words import spelt

from tokenizers_train.gpt2_words import TABLE_SIZE, Gpt2Words, character_classes, gpt2_pre_tokenizer
from tokenizers_train.gpt2_words_kernels import LETTER, NUMBER, OTHER, SPACE

RULE = Gpt2Words()

# Apostrophes and what may stand behind them; white space, letters, digits and marks of all widths.
ODD = (
    4 * "'" + "streveLlmdSa" + 4 * " " + "0.\n\t\r\x0b\x1c\x85\xa0\u2009\u3000"
    "Éé\u0301²½中Ⅷ٣한😀\u2019\ufeff\U0001d518\U000e0020"
)
TEXTS = st.text(st.one_of(st.sampled_from(ODD), st.characters(exclude_categories=["Cs"])), max_size=40)


@settings(deadline=None, max_examples=400)
@given(st.lists(TEXTS, max_size=6))
@example(["'s't're've'm'll'd'S", "'", "'l", "'r e", "''s", " 's", "don't  'tis"])
@example(["a ", "a  ", "a  b", "a \n b", "a\n\n", " \xa0b", "\xa0 b", "\u3000\u3000中", " ", "\n"])
@example(["x1y²z½", "e\u0301 \u0301a", "\U0001d518😀a\U000e0020b"])
def test_words_are_those_of_the_reference(texts: list[str]) -> None:
    assert spelt(texts, RULE) == [RULE.split(text) for text in texts]


@given(TEXTS)
def test_words_joined_are_the_text(text: str) -> None:
    assert "".join(RULE.split(text)) == text


def test_words_cut_by_hand() -> None:
    text = "It's we'll  don'T\n\n  x 12ab, “ok”"
    expected = ["It", "'s", " we", "'ll", " ", " don", "'", "T", "\n\n ", " x", " 12", "ab", ",", " “", "ok", "”"]
    assert spelt([text], RULE) == [expected] == [RULE.split(text)]


def test_each_character_between_letters_digits_and_marks() -> None:
    text = "".join(f"a{chr(code)}0 {chr(code)}!{chr(code)}" for code in range(0x3100))
    assert spelt([text], RULE) == [RULE.split(text)]


@pytest.mark.parametrize(
    ("kind", "characters"),
    [(LETTER, "azÉßª中한"), (NUMBER, "09²½Ⅷ٣"), (SPACE, " \n\x85\xa0\u3000"), (OTHER, "'!\x1c\u0301😀")],
)
def test_classes_of_characters(kind: int, characters: str) -> None:
    assert {int(character_classes()[ord(character)]) for character in characters} == {kind}


def test_there_is_as_much_white_space_as_unicode_has() -> None:
    assert np.count_nonzero(character_classes() == SPACE) == 25


@pytest.mark.slow
def test_all_characters_beyond_the_table_are_marks() -> None:
    beyond = "".join(map(chr, range(TABLE_SIZE, 0x110000)))
    assert len(gpt2_pre_tokenizer().pre_tokenize_str(f"!{beyond}!")) == 1
    assert spelt([f"!{beyond[0]}!{beyond[-1]}a"], RULE) == [[f"!{beyond[0]}!{beyond[-1]}", "a"]]


def test_a_fingerprint_names_the_rule() -> None:
    assert RULE.settings == {"pre_tokenizer": "gpt2"}
