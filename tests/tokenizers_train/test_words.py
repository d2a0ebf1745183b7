"""The words of texts: numbered without confusion, whatever the rule that cuts them."""

import numpy as np
import pytest
from numbered_words import numbered, spelt, words_of_ranges

from tokenizers_train.bert_words import BertWords
from tokenizers_train.gpt2_words import Gpt2Words
from tokenizers_train.words import BLOCK_BYTES, WordRule, new_lexicon, number_words, strings

UNCASED, GPT2 = BertWords(lowercase=True), Gpt2Words()
both_rules = pytest.mark.parametrize("rule", [UNCASED, GPT2], ids=["bert", "gpt2"])


@both_rules
def test_equal_words_share_a_number_and_others_do_not(rule: WordRule) -> None:
    text = " ".join(f"w{i % 5000}" for i in range(20_000))  # many growths of the lexicon, each word four times
    words, found = rule.split(text), numbered([text], rule)
    names = strings(found.lexicon)
    assert len(names) == len(set(names)) == len(set(words)) >= 5000
    assert [names[number] for number in found.numbers.tolist()] == words


def test_a_lexicon_goes_on_from_call_to_call() -> None:
    first = numbered(["one two"], UNCASED)
    data = np.frombuffer(b"three two", np.uint8)
    whole = np.array([0], np.int64), np.array([9], np.int64)
    second = number_words(data, *whole, rule=UNCASED, lexicon=first.lexicon)
    assert strings(second.lexicon) == ["one", "two", "three"]
    assert second.numbers.tolist() == [2, 1]
    assert strings(second.lexicon, first=2) == ["three"]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [(UNCASED, [["xyz"], ["ab"], ["e"], [], ["e", "abc"]]), (GPT2, [["xyz"], ["ab"], ["é"], [], ["é", " abc"]])],
    ids=["bert", "gpt2"],
)
def test_ranges_are_read_in_any_order_and_nothing_beside_them(rule: WordRule, expected: list[list[str]]) -> None:
    data = np.frombuffer("é abc xyz".encode(), np.uint8)
    starts, ends = np.array([7, 3, 0, 3, 0], np.int64), np.array([10, 5, 2, 3, 6], np.int64)
    found = number_words(data, starts, ends, rule=rule, lexicon=new_lexicon())
    assert words_of_ranges(found, rule) == expected


@both_rules
def test_more_ranges_than_one_block_holds(rule: WordRule) -> None:
    half = BLOCK_BYTES // 10
    texts = ["word " * half, "b", "", "c " * 5 * half, "d"]  # each long one fills a half of a block and more
    words = spelt(texts, rule)
    assert words == [rule.split(text) for text in texts]
    assert len(words[0]) >= half


@both_rules
def test_a_word_longer_than_all_room(rule: WordRule) -> None:
    text = f"a {'x' * 100_000} b"
    assert spelt([text], rule) == [rule.split(text)]
