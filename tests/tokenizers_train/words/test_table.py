"""The table of words: every word with its count, sorted, however short, long or alike the words are."""

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import examples

from tokenizers_train.words.table import (
    COUNTS_SCHEMA,
    MAX_SHORT_BYTES,
    WordTable,
    add_words,
    build_table,
    grow_table,
    to_word_counts,
)

# Letters that make many words alike in their first 8 or 16 bytes, zeros among them, which pad short words.
LIKE = st.text("a\0é", min_size=1, max_size=24)
STEMS = st.sampled_from(["", "eightbyt", "eightbytsixteenb", "\0" * 16])
WORDS = st.lists(st.tuples(st.builds(str.__add__, STEMS, LIKE), st.integers(1, 3)), max_size=60)


def added(words: list[tuple[str, int]], table: WordTable) -> WordTable:
    """The table with the words in it, grown as often as it was full."""
    encoded = [word.encode() for word, _ in words]
    ends = np.cumsum([len(word) for word in encoded], dtype=np.int64)
    starts = ends - np.array([len(word) for word in encoded], np.int64)
    data, counts = np.frombuffer(b"".join(encoded), np.uint8), np.array([count for _, count in words], np.int64)
    done = 0
    while (done := add_words(table, data, starts, ends, counts, done)) < len(words):
        table = grow_table(table)
    return table


def counted(words: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Count words as the table does, plainly."""
    totals: Counter[str] = Counter()
    for word, count in words:
        totals[word] += count
    return sorted(totals.items(), key=lambda item: item[0].encode())


def listed(table: WordTable) -> list[tuple[str, int]]:
    found = to_word_counts(table)
    found.validate(full=True)
    assert found.schema == COUNTS_SCHEMA
    return list(zip(found["word"].to_pylist(), found["count"].to_pylist(), strict=True))


@examples(300)
@given(WORDS, WORDS)
def test_counts_equal_the_definition(words: list[tuple[str, int]], more: list[tuple[str, int]]) -> None:
    table = added(more, added(words, build_table(4, 4, 1)))
    assert listed(table) == counted(words + more)


@settings(deadline=None)
@given(WORDS)
def test_the_order_of_adding_does_not_matter(words: list[tuple[str, int]]) -> None:
    first = to_word_counts(added(words, build_table(4, 4, 1)))
    assert first.equals(to_word_counts(added(words[::-1], build_table())))


def test_words_at_the_border_of_short_and_long() -> None:
    words = [
        ("x" * length, length)
        for length in (1, 7, 8, 9, MAX_SHORT_BYTES - 1, MAX_SHORT_BYTES, MAX_SHORT_BYTES + 1, 24, 25, 100_000)
    ]
    assert listed(added(words[::-1], build_table())) == words


def test_many_words_past_many_growths() -> None:
    words = [(f"word {number % 7919} {'of a long kind' * (number % 2)}", 1) for number in range(30_000)]
    table = added(words, build_table())
    assert listed(table) == counted(words)
    assert int(table.used[0]) > 7000 and int(table.used[1]) > 7000, "one kind of word was hardly there"
