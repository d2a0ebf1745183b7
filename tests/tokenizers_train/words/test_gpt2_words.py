"""GPT-2's words: cut and counted as the reference cuts them."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from encoded_texts import encoded
from hypothesis import example, given
from hypothesis import strategies as st
from text_columns import column
from tiers import examples

from tokenizers_train.encoding.byte_bpe import ByteBpeEngine
from tokenizers_train.vocabularies.roberta import BYTE_LETTERS
from tokenizers_train.words.counts import count_words, count_words_plain
from tokenizers_train.words.gpt2 import TABLE_SIZE, Gpt2Words, build_gpt2_pre_tokenizer, load_character_classes
from tokenizers_train.words.gpt2_kernels import LETTER, NUMBER, OTHER, SPACE

RULE, SPACED = Gpt2Words(), Gpt2Words(add_prefix_space=True)

# Apostrophes and what may be after them; white space, letters, digits and marks of all widths.
ODD = (
    4 * "'" + "streveLlmdSa" + 4 * " " + "0.\n\t\r\x0b\x1c\x85\xa0\u2009\u3000"
    "Éé\u0301²½中Ⅷ٣한😀\u2019\ufeff\U0001d518\U000e0020"
)
TEXTS = st.text(st.one_of(st.sampled_from(ODD), st.characters(exclude_categories=["Cs"])), max_size=40)
LINES = st.text(st.sampled_from("ab 1.'s\n\t\x00"), max_size=24)


def spelt(texts: Sequence[str], rule: Gpt2Words) -> list[list[str]]:
    """The words that the kernels find in each text: all bytes are tokens, and it is told where words begin."""
    found = encoded(ByteBpeEngine({letter: byte for byte, letter in enumerate(BYTE_LETTERS)}, [], rule), texts)
    spelt = []
    for first, last in pairwise(found.offsets):
        begins = [*np.flatnonzero(found.word_starts[first:last]).tolist(), last - first]
        text = found.ids[first:last].astype(np.uint8).tobytes()
        spelt.append([text[start:end].decode() for start, end in pairwise(begins)])
    return spelt


def assert_counts(texts: Sequence[str], rule: Gpt2Words) -> None:
    """The words of each range, sorted by their bytes, as often as `split` finds them."""
    assert count_words(rule, column(texts)).equals(count_words_plain(rule, column(texts)))


@examples(150)
@given(st.lists(st.one_of(TEXTS, LINES), max_size=6), st.sampled_from([RULE, SPACED]))
@example(["'s't're've'm'll'd'S", "'", "'l", "'r e", "''s", " 's", "don't  'tis"], RULE)
@example(["it'", "s", "we'v", "e", "a'r", "e", "'", "ll", "\n", "\n", "a ", " b"], RULE)
@example(["a ", "a  ", "a  b", "a \n b", "a\n\n", " \xa0b", "\xa0 b", "\u3000\u3000中", " ", "\n"], RULE)
@example(["", "'s", "\na", "\n\n", "\u3000a", " a", "  a", "\xa0 b", "\t", "中", "1", "\x00" * 9], SPACED)
@example(["x1y²z½", "e\u0301 \u0301a", "\U0001d518😀a\U000e0020b", "a" * 8, "a" * 7 + "é", " " + "a" * 15 + "中"], RULE)
def test_words_are_those_of_the_reference(texts: list[str], rule: Gpt2Words) -> None:
    assert spelt(texts, rule) == [rule.split(text) for text in texts]
    assert_counts(texts, rule)


def test_words_cut_by_hand() -> None:
    text = "It's we'll  don'T\n\n  x 12ab, “ok”"
    expected = ["It", "'s", " we", "'ll", " ", " don", "'", "T", "\n\n ", " x", " 12", "ab", ",", " “", "ok", "”"]
    assert spelt([text], RULE) == [expected] == [RULE.split(text)]
    assert spelt(["'s", "\n\nx"], SPACED) == [[" '", "s"], [" \n", "\n", "x"]] == [*map(SPACED.split, ["'s", "\n\nx"])]


def test_each_character_between_letters_digits_and_marks() -> None:
    text = "".join(f"a{chr(code)}0 {chr(code)}!{chr(code)}" for code in range(0x3100))
    assert spelt([text], RULE) == [RULE.split(text)]
    assert_counts([text], RULE)


@pytest.mark.long
def test_all_characters_between_letters_digits_and_marks() -> None:
    for first in range(0, 0x110000, 0x8000):
        characters = [chr(code) for code in range(first, first + 0x8000) if not 0xD800 <= code < 0xE000]
        texts = [f"a{c}b {c} {c}{c}1{c}2 '{c}'s\n{c}\n" for c in characters]
        assert spelt(texts, RULE) == [RULE.split(text) for text in texts]
        assert spelt(characters, SPACED) == [SPACED.split(text) for text in characters]


@pytest.mark.parametrize("fill", ["a", "1", ".", "\n", " ", "é", "中", "."])
def test_runs_of_any_length_at_any_place(fill: str) -> None:
    texts = [
        head + fill * count + tail
        for count in range(20)
        for head in ("", " ", "x", "\n")
        for tail in ("", " y", "é", "'s")
    ]
    assert spelt(texts, RULE) == [RULE.split(text) for text in texts]
    assert spelt(texts, SPACED) == [SPACED.split(text) for text in texts]
    assert_counts(texts, RULE)


def test_many_and_long_words_are_counted() -> None:
    words = [" w" + format(number * 7919 % 99991, "b").translate({48: "o", 49: "i"}) for number in range(9000)] + [
        " " + "ab" * (9 + number) for number in range(90)
    ]
    texts = ["".join(words[first : first + 1000]) for first in range(0, len(words), 500)]
    assert_counts(texts, RULE)
    assert_counts(texts, SPACED)
    assert count_words(RULE, column(texts)).num_rows > 9000


@pytest.mark.parametrize(
    ("kind", "characters"),
    [(LETTER, "azÉßª中한"), (NUMBER, "09²½Ⅷ٣"), (SPACE, " \n\x85\xa0\u3000"), (OTHER, "'!\x1c\u0301😀")],
)
def test_classes_of_characters(kind: int, characters: str) -> None:
    assert {int(load_character_classes()[ord(character)]) for character in characters} == {kind}


def test_there_is_as_much_white_space_as_unicode_has() -> None:
    assert np.count_nonzero(load_character_classes() == SPACE) == 25


@pytest.mark.slow
def test_all_characters_beyond_the_table_are_marks() -> None:
    beyond = "".join(map(chr, range(TABLE_SIZE, 0x110000)))
    assert len(build_gpt2_pre_tokenizer().pre_tokenize_str(f"!{beyond}!")) == 1
    assert int(load_character_classes()[-1]) == OTHER  # which stands for them
    assert spelt([f"!{beyond[0]}!{beyond[-1]}a"], RULE) == [[f"!{beyond[0]}!{beyond[-1]}", "a"]]


def test_a_fingerprint_names_the_rule() -> None:
    assert RULE.settings == {"pre_tokenizer": "gpt2"}
    assert SPACED.settings == {"pre_tokenizer": "gpt2", "add_prefix_space": True}
