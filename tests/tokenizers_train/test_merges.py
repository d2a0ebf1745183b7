"""Learning merges: the kernel equals its plain twin, for letters and for bytes."""

from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenizers_train.byte_bpe import spell_bytes
from tokenizers_train.counts import COUNTS, WordCounts
from tokenizers_train.merges import Words, learn_merges, learn_merges_plainly
from tokenizers_train.wordpiece import piece_names, spell


def table(counts: dict[str, int]) -> WordCounts:
    words = sorted(counts)
    return pa.table([words, [counts[word] for word in words]], schema=COUNTS)


COUNT_TABLES = st.dictionaries(
    st.text("abcé", min_size=1, max_size=10), st.integers(1, 6), min_size=1, max_size=25
).map(table)


@settings(deadline=None, max_examples=150)
@given(COUNT_TABLES, st.integers(1, 5), st.integers(0, 40), st.integers(1, 8))
def test_kernel_equals_plain_twin(counts: WordCounts, limit: int, room: int, min_frequency: int) -> None:
    words = spell(counts, limit)
    merges = learn_merges(words, room, min_frequency)
    assert merges == learn_merges_plainly(words, room, min_frequency)
    names = piece_names(words.letters, merges)
    assert len(set(names)) == len(names), "a piece was made twice"


@settings(deadline=None)
@given(COUNT_TABLES, st.integers(0, 40), st.integers(1, 8))
def test_kernel_equals_plain_twin_on_bytes(counts: WordCounts, room: int, min_frequency: int) -> None:
    words = spell_bytes(counts)
    assert learn_merges(words, room, min_frequency) == learn_merges_plainly(words, room, min_frequency)


@pytest.mark.parametrize("spelling", [partial(spell, limit_alphabet=10_000), spell_bytes], ids=["letters", "bytes"])
def test_kernel_equals_plain_twin_past_growth(spelling: Callable[[WordCounts], Words]) -> None:
    # 600 letters give more pairs than the first slots hold; one word is longer than all of them.
    counts = {chr(0x4E00 + i) + chr(0x5000 + i % 40) + "ab": 1 + i % 3 for i in range(600)} | {"ab" * 3000: 1}
    words = spelling(table(counts))
    merges = learn_merges(words, 30, 1)
    assert merges == learn_merges_plainly(words, 30, 1)
    assert len(merges) == 30
