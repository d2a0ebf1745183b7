"""Texts laid end to end and numbered, and the words that the numbers stand for."""

from itertools import pairwise

import numpy as np

from tokenizers_train.words import NumberedWords, WordRule, new_lexicon, number_words, strings


def numbered(texts: list[str], rule: WordRule) -> NumberedWords:
    """The words of texts laid one after another in one buffer, with a lexicon that must grow."""
    data = [text.encode() for text in texts]
    ends = np.cumsum([len(text) for text in data], dtype=np.int64)
    starts = ends - np.array([len(text) for text in data], np.int64)
    buffer = np.frombuffer(b"".join(data), np.uint8)
    return number_words(buffer, starts, ends, rule=rule, lexicon=new_lexicon(slots=2, pool=1))


def words_of_ranges(words: NumberedWords, rule: WordRule) -> list[list[str]]:
    """The words of each range as strings."""
    names = strings(words.lexicon)
    ranges = [words.numbers[start:end].tolist() for start, end in pairwise(words.offsets.tolist())]
    return [[word for number in numbers for word in rule.words_of(names[number])] for numbers in ranges]


def spelt(texts: list[str], rule: WordRule) -> list[list[str]]:
    """The words that the kernels find in each text."""
    return words_of_ranges(numbered(texts, rule), rule)
