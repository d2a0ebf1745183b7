"""The pieces of short words: what is found is what was remembered, or nothing."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenizers_train.encoding.piece_cache import (
    MAX_CACHED_BYTES,
    PieceCache,
    build_piece_cache,
    count_ids,
    find_entry,
    get_packed_ids,
    remember,
)

WORDS = st.binary(min_size=1, max_size=MAX_CACHED_BYTES)


def halves(word: bytes) -> tuple[np.uint64, np.uint64, int]:
    low, high = (np.uint64(int.from_bytes(word[at : at + 8], "little")) for at in (0, 8))
    return low, high, len(word)


def found(cache: PieceCache, word: bytes) -> tuple[int, int] | None:
    entry = find_entry(cache, *halves(word))
    return None if entry < 0 else (int(get_packed_ids(cache, entry)), count_ids(cache, entry))


@settings(deadline=None)
@given(st.lists(st.tuples(WORDS, st.integers(0, (1 << 64) - 1), st.integers(0, 4)), max_size=40))
def test_what_is_found_was_remembered(words: list[tuple[bytes, int, int]]) -> None:
    cache = build_piece_cache(8)
    said: dict[bytes, tuple[int, int]] = {}
    for word, ids, count in words:
        assert found(cache, word) in (None, said.get(word))
        if found(cache, word) is None:
            remember(cache, *halves(word), np.uint64(ids), count)
            said[word] = (ids, count)
        assert found(cache, word) == said[word]


def test_words_that_differ_in_zeros_alone_are_not_confused() -> None:
    cache = build_piece_cache(2)  # one bucket: they all meet
    remember(cache, *halves(b"a"), np.uint64(7), 1)
    assert found(cache, b"a") == (7, 1)
    assert found(cache, b"a\0") is None
    remember(cache, *halves(b"a\0"), np.uint64(8), 2)
    assert (found(cache, b"a"), found(cache, b"a\0")) == ((7, 1), (8, 2))


def test_the_first_word_of_a_bucket_stays_and_the_second_gives_way() -> None:
    cache = build_piece_cache(2)
    for number, word in enumerate((b"first", b"second", b"third")):
        remember(cache, *halves(word), np.uint64(number), 1)
    assert [found(cache, word) for word in (b"first", b"second", b"third")] == [(0, 1), None, (2, 1)]


def test_most_words_of_a_filled_cache_are_found() -> None:
    """Fails if words crowd in few buckets: one word for each, thrown at random, has 10.4% find theirs full."""
    cache, words = build_piece_cache(1 << 12), [f"w{number}".encode() for number in range(1 << 11)]
    for number, word in enumerate(words):
        remember(cache, *halves(word), np.uint64(number), 1)
    known = sum(found(cache, word) is not None for word in words)
    assert known > 0.85 * len(words)


def test_a_bucket_is_one_line_of_the_processors_cache() -> None:
    assert all(build_piece_cache(1 << bits).entries.ctypes.data % 64 == 0 for bits in range(1, 12))
