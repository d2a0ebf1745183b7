"""WordPiece training: vocabularies made by hand. Others equal the reference's: `test_trainers.py`."""

import pytest
from text_columns import table

from corpora.errors import InputError
from tokenizers_train.learning.wordpiece import spell_letters, train_wordpiece
from tokenizers_train.vocabularies.bert import SPECIAL_TOKENS
from tokenizers_train.vocabularies.settings import VocabularySettings
from tokenizers_train.words.table import COUNTS_SCHEMA

SPECIALS = [*SPECIAL_TOKENS.values()]


def test_a_vocabulary_made_by_hand() -> None:
    # ##u ##g is in hug, pug, hugs: 20; ##u ##n in pun, bun: 16; then h ##ug in hug, hugs: 15.
    counts = table({"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5})
    vocabulary = train_wordpiece(counts, VocabularySettings(size=20, unused=1))
    letters = ["b", "g", "h", "n", "p", "s", "u", "##g", "##n", "##s", "##u"]
    assert vocabulary.tokens == (*SPECIALS, "[unused0]", *letters, "##ug", "##un", "hug")


def test_the_alphabet_keeps_the_most_frequent_letters() -> None:
    counts = table({"zab": 5, "ba": 2, "cc": 1})  # a: 7, b: 7, z: 5, c: 2
    vocabulary = train_wordpiece(counts, VocabularySettings(size=30, limit_alphabet=2, min_frequency=1))
    assert vocabulary.tokens == (*SPECIALS, "a", "b", "##a", "##b", "##ab", "ba")  # z is skipped: ##a ##b stay
    assert spell_letters(table({"d": 2, "c": 2, "b": 1}), 1).letters == ["c"]  # of equals the smaller code point


def test_a_size_smaller_than_the_letters_is_refused() -> None:
    with pytest.raises(InputError, match=r"raise vocabulary\.size to 11"):
        train_wordpiece(table({"abc": 1}), VocabularySettings(size=10, unused=1))


def test_no_words_are_refused() -> None:
    with pytest.raises(InputError, match="no words"):
        train_wordpiece(COUNTS_SCHEMA.empty_table(), VocabularySettings())
