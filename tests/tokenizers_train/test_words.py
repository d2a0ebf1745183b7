"""The words of texts: cut as the reference cuts them, and numbered without confusion."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tokenizers_train.words import (
    BLOCK_BYTES,
    NumberedWords,
    byte_rules,
    new_lexicon,
    number_words,
    split_plainly,
    strings,
    words_of,
)
from tokenizers_train.words_kernels import PUNCTUATION, RAW, SPACE, WORD

# Letters, marks, controls and spaces that the reference treats in ways of their own.
ODD = (
    "aZ09 .-'\t\n\r\x00\x0b\x1c\x7f\x85\xa0\xad"
    "Ééßİ\u0131\u017f\u0301\u0307\u200b\u200d\u2028\u3000\ufeff\ufffd“”—中한กु😀\U0001d518#[]"
)
TEXTS = st.text(st.one_of(st.sampled_from(ODD), st.characters(exclude_categories=["Cs"])), max_size=40)


def numbered(texts: list[str], lowercase: bool) -> NumberedWords:
    """The words of texts laid one after another in one buffer."""
    data = [text.encode() for text in texts]
    ends = np.cumsum([len(text) for text in data], dtype=np.int64)
    starts = ends - np.array([len(text) for text in data], np.int64)
    buffer = np.frombuffer(b"".join(data), np.uint8)
    return number_words(buffer, starts, ends, lowercase=lowercase, lexicon=new_lexicon(slots=2, pool=1))


def spelt(words: NumberedWords, lowercase: bool) -> list[list[str]]:
    """The words of each range as strings."""
    names = strings(words.lexicon)
    ranges = [words.numbers[start:end].tolist() for start, end in pairwise(words.offsets.tolist())]
    return [[word for number in numbers for word in words_of(names[number], lowercase)] for numbers in ranges]


@settings(deadline=None)
@given(st.lists(TEXTS, max_size=6), st.booleans())
@example(["I\u0307stanbul e\u0301 don\u2019t", "", " \n", "a\x00b \x00 c", "中文 ab中cd"], True)
def test_words_are_those_of_the_reference(texts: list[str], lowercase: bool) -> None:
    expected = [split_plainly(text, lowercase) for text in texts]
    assert spelt(numbered(texts, lowercase), lowercase) == expected


def test_each_character_up_to_japanese_between_letters_and_alone() -> None:
    text = " ".join(f"A{chr(code)}b {chr(code)}" for code in range(0x3100))
    assert spelt(numbered([text], True), True) == [split_plainly(text, True)]


def test_equal_words_share_a_number_and_others_do_not() -> None:
    words = [f"w{i % 5000}" for i in range(20_000)]  # many growths of the lexicon, each word four times
    found = numbered([" ".join(words)], True)
    names = strings(found.lexicon)
    assert len(names) == len(set(names)) == 5000
    assert [names[number] for number in found.numbers.tolist()] == words


def test_a_lexicon_goes_on_from_call_to_call() -> None:
    first = numbered(["one two"], True)
    data = np.frombuffer(b"three two", np.uint8)
    whole = np.array([0], np.int64), np.array([9], np.int64)
    second = number_words(data, *whole, lowercase=True, lexicon=first.lexicon)
    assert strings(second.lexicon) == ["one", "two", "three"]
    assert second.numbers.tolist() == [2, 1]
    assert strings(second.lexicon, first=2) == ["three"]


def test_ranges_are_read_in_any_order_and_nothing_beside_them() -> None:
    data = np.frombuffer("éclair abc xyz".encode(), np.uint8)
    starts, ends = np.array([12, 8, 0, 3], np.int64), np.array([15, 10, 2, 3], np.int64)
    found = number_words(data, starts, ends, lowercase=True, lexicon=new_lexicon())
    assert spelt(found, True) == [["xyz"], ["ab"], ["e"], []]


def test_more_ranges_than_one_block_holds() -> None:
    half = BLOCK_BYTES // 10
    texts = ["word " * half, "b", "", "c " * 5 * half, "d"]  # each long one fills a half of a block and more
    assert spelt(numbered(texts, True), True) == [["word"] * half, ["b"], [], ["c"] * 5 * half, ["d"]]


def test_a_word_longer_than_all_room() -> None:
    long = "x" * 100_000
    assert spelt(numbered([f"a {long} b"], True), True) == [["a", long, "b"]]


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
