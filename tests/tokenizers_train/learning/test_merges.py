"""Learning merges: the kernel equals its plain twin, for letters and for bytes."""

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_columns import table
from tiers import examples

from tokenizers_train.learning.byte_bpe import spell_bytes
from tokenizers_train.learning.merges import Words, learn_merges, learn_merges_plainly
from tokenizers_train.learning.wordpiece import piece_names, spell
from tokenizers_train.words.table import WordCounts


def learnt(words: Words, room: int, min_frequency: int) -> list[tuple[int, int]]:
    return [(left, right) for left, right in learn_merges(words, room, min_frequency).tolist()]


COUNT_TABLES = st.dictionaries(
    st.text("abcé", min_size=1, max_size=10), st.integers(1, 6), min_size=1, max_size=25
).map(table)


@examples(150)
@given(COUNT_TABLES, st.integers(1, 5), st.integers(0, 40), st.integers(1, 8))
def test_kernel_equals_plain_twin(counts: WordCounts, limit: int, room: int, min_frequency: int) -> None:
    words = spell(counts, limit)
    merges = learnt(words, room, min_frequency)
    assert merges == learn_merges_plainly(words, room, min_frequency)
    names = piece_names(words.letters, merges)
    assert len(set(names)) == len(names), "a piece was made twice"


@settings(deadline=None)
@given(COUNT_TABLES, st.integers(0, 40), st.integers(1, 8))
def test_kernel_equals_plain_twin_on_bytes(counts: WordCounts, room: int, min_frequency: int) -> None:
    words = spell_bytes(counts)
    assert learnt(words, room, min_frequency) == learn_merges_plainly(words, room, min_frequency)


@pytest.mark.parametrize("spelling", [partial(spell, limit_alphabet=10_000), spell_bytes], ids=["letters", "bytes"])
def test_kernel_equals_plain_twin_past_growth(spelling: Callable[[WordCounts], Words]) -> None:
    # 600 letters give more pairs than the first slots hold; one word is longer than all of them.
    counts = {chr(0x4E00 + i) + chr(0x5000 + i % 40) + "ab": 1 + i % 3 for i in range(600)} | {"ab" * 3000: 1}
    words = spelling(table(counts))
    merges = learnt(words, 30, 1)
    assert merges == learn_merges_plainly(words, 30, 1)
    assert len(merges) == 30


@examples(300)
@given(
    st.dictionaries(st.text("ab", min_size=1, max_size=40), st.sampled_from([1, 2, 3, 1 << 40]), min_size=1),
    st.integers(0, 60),
    st.integers(1, 4),
)
def test_pieces_that_follow_themselves(counts: dict[str, int], room: int, min_frequency: int) -> None:
    # Two letters make runs: aaaa, abab; a pair and its mirror image lose their places to each other.
    words = spell(table(counts), 2)
    assert learnt(words, room, min_frequency) == learn_merges_plainly(words, room, min_frequency)


def test_lists_move_as_they_grow() -> None:
    # 4,000 words of one stem: long lists, whose room is given up and made again.
    words = spell(table({f"{'stem' * 3}{number:04d}": 1 + number % 5 for number in range(4000)}), 1000)
    assert learnt(words, 25, 2) == learn_merges_plainly(words, 25, 2)
