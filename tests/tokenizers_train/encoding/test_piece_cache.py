"""The pieces of short words: what is found is what was remembered, or nothing."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenizers_train.encoding.piece_cache import (
    LONGEST,
    PieceCache,
    find,
    new_piece_cache,
    num_ids,
    packed_ids,
    remember,
)

WORDS = st.binary(min_size=1, max_size=LONGEST)


def halves(word: bytes) -> tuple[np.uint64, np.uint64, int]:
    low, high = (np.uint64(int.from_bytes(word[at : at + 8], "little")) for at in (0, 8))
    return low, high, len(word)


def found(cache: PieceCache, word: bytes) -> tuple[int, int] | None:
    entry = find(cache, *halves(word))
    return None if entry < 0 else (int(packed_ids(cache, entry)), num_ids(cache, entry))


@settings(deadline=None)
@given(st.lists(st.tuples(WORDS, st.integers(0, (1 << 64) - 1), st.integers(0, 4)), max_size=40))
def test_what_is_found_was_remembered(words: list[tuple[bytes, int, int]]) -> None:
    cache = new_piece_cache(8)
    said: dict[bytes, tuple[int, int]] = {}
    for word, ids, count in words:
        assert found(cache, word) in (None, said.get(word))
        if found(cache, word) is None:
            remember(cache, *halves(word), np.uint64(ids), count)
            said[word] = (ids, count)
        assert found(cache, word) == said[word]


def test_words_that_differ_in_zeros_alone_are_not_confused() -> None:
    cache = new_piece_cache(2)  # one bucket: they all meet
    remember(cache, *halves(b"a"), np.uint64(7), 1)
    assert found(cache, b"a") == (7, 1)
    assert found(cache, b"a\0") is None
    remember(cache, *halves(b"a\0"), np.uint64(8), 2)
    assert (found(cache, b"a"), found(cache, b"a\0")) == ((7, 1), (8, 2))
