"""Learning merges: the kernel equals its plain twin, for letters and for bytes."""

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_columns import table
from tiers import examples

from tokenizers_train.learning.byte_bpe import (
    SpelledWords,
    compute_min_merged_count,
    learn_merges,
    learn_merges_plain,
    spell_bytes,
)
from tokenizers_train.learning.wordpiece import build_piece_names, spell_letters
from tokenizers_train.words.table import WordCounts


def learnt(words: SpelledWords, room: int, min_frequency: int) -> list[tuple[int, int]]:
    """The merges of a copy of the words: it is written over."""
    copy = words._replace(cells=words.cells._replace(pieces=words.cells.pieces.copy()))
    return [(left, right) for left, right in learn_merges(copy, room, min_frequency).tolist()]


COUNT_TABLES = st.dictionaries(
    st.text("abcé", min_size=1, max_size=10), st.integers(1, 6), min_size=1, max_size=25
).map(table)


@examples(150)
@given(COUNT_TABLES, st.integers(1, 5), st.integers(0, 40), st.integers(1, 8))
def test_kernel_equals_plain_twin(counts: WordCounts, limit: int, room: int, min_frequency: int) -> None:
    words = spell_letters(counts, limit)
    merges = learnt(words, room, min_frequency)
    assert merges == learn_merges_plain(words, room, min_frequency)
    names = build_piece_names(words.letters, merges)
    assert len(set(names)) == len(names), "a piece was made twice"


@settings(deadline=None)
@given(COUNT_TABLES, st.integers(0, 40), st.integers(1, 8))
def test_kernel_equals_plain_twin_on_bytes(counts: WordCounts, room: int, min_frequency: int) -> None:
    words = spell_bytes(counts)
    assert learnt(words, room, min_frequency) == learn_merges_plain(words, room, min_frequency)


@pytest.mark.parametrize(
    "spelling", [partial(spell_letters, limit_alphabet=10_000), spell_bytes], ids=["letters", "bytes"]
)
def test_kernel_equals_plain_twin_past_growth(spelling: Callable[[WordCounts], SpelledWords]) -> None:
    # 600 letters give more pairs than the first slots hold; one word is longer than all of them.
    counts = {chr(0x4E00 + i) + chr(0x5000 + i % 40) + "ab": 1 + i % 3 for i in range(600)} | {"ab" * 3000: 1}
    words = spelling(table(counts))
    merges = learnt(words, 30, 1)
    assert merges == learn_merges_plain(words, 30, 1)
    assert len(merges) == 30


@examples(300)
@given(
    st.dictionaries(st.text("ab", min_size=1, max_size=40), st.sampled_from([1, 2, 3, 1 << 40]), min_size=1),
    st.integers(0, 60),
    st.integers(1, 4),
)
def test_pieces_that_follow_themselves(counts: dict[str, int], room: int, min_frequency: int) -> None:
    # Two letters make runs: aaaa, abab; a pair and its mirror image lose their places to each other.
    words = spell_letters(table(counts), 2)
    assert learnt(words, room, min_frequency) == learn_merges_plain(words, room, min_frequency)


@examples(150)
@given(COUNT_TABLES, st.integers(1, 5), st.integers(0, 20))
def test_no_pair_is_joined_below_the_count_that_is_promised(counts: WordCounts, limit: int, room: int) -> None:
    """Fails if a word whose skipped letters make it another's twin is taken for one that needs a merge of its own."""
    for words in (spell_letters(counts, limit), spell_bytes(counts)):
        least, merges = compute_min_merged_count(words, room), learn_merges_plain(words, room, 1)
        assert merges == learn_merges_plain(words, room, max(1, least))


def test_a_pair_of_words_seen_once_is_not_noted_among_many() -> None:
    """Fails if the bound says nothing of a text of many frequent words; the pairs of rare words still count."""
    words = spell_letters(
        table({f"{a}{b}{c}": 50 for a in "abcd" for b in "efgh" for c in "ijkl"} | {"xyz": 1, "zab": 1}), 30
    )
    assert [compute_min_merged_count(words, room) for room in (0, 63, 64, 65, 66)] == [50, 50, 1, 1, 0]


def test_lists_move_as_they_grow() -> None:
    # 4,000 words of one stem: long lists, whose room is given up and made again.
    words = spell_letters(table({f"{'stem' * 3}{number:04d}": 1 + number % 5 for number in range(4000)}), 1000)
    assert learnt(words, 25, 2) == learn_merges_plain(words, 25, 2)
