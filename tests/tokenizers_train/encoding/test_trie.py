"""A trie against a dictionary."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.errors import InputError
from corpora.kernels.arrays import Bytes, Int64s
from corpora.kernels.compiling import kernel
from tokenizers_train.encoding.trie import MAX_VALUE, Trie, build_trie, find_child, get_value

few_bytes = st.lists(st.sampled_from(list(b"\x00ab\xe2\xff")), max_size=6).map(bytes)


@kernel
def walk(trie: Trie, root: int, data: Bytes, values: Int64s) -> int:
    """The value after each byte of the data; returns how many bytes the trie goes along."""
    node = trie.roots[root]
    for i in range(len(data)):
        node = find_child(trie, node, data[i])
        if node < 0:
            return i
        values[i] = get_value(node)
    return len(data)


def found(trie: Trie, text: bytes, root: int = 0) -> dict[bytes, int]:
    """The pieces that a text begins with, and their ids."""
    values = np.full(len(text), -1, np.int64)
    reached = walk(trie, root, np.frombuffer(text, np.uint8), values)
    assert (values[reached:] == -1).all()
    return {text[: i + 1]: int(number) for i, number in enumerate(values) if number >= 0}


def prefixes(pieces: dict[bytes, int], text: bytes) -> dict[bytes, int]:
    return {piece: number for piece, number in pieces.items() if piece and text.startswith(piece)}


@settings(deadline=None)  # the first call compiles
@given(st.dictionaries(few_bytes, st.integers(0, MAX_VALUE), max_size=40), st.lists(few_bytes, min_size=1))
def test_a_trie_finds_the_pieces_that_a_text_begins_with(pieces: dict[bytes, int], texts: list[bytes]) -> None:
    trie = build_trie(list(pieces), list(pieces.values()))
    for text in [*texts, *(piece + b"a" for piece in pieces)]:
        assert found(trie, text) == prefixes(pieces, text)


@settings(deadline=None)
@given(st.lists(st.dictionaries(few_bytes, st.integers(0, 9), max_size=20), min_size=1, max_size=3), few_bytes)
def test_roots_have_pieces_of_their_own(groups: list[dict[bytes, int]], text: bytes) -> None:
    entries = [(piece, number, root) for root, group in enumerate(groups) for piece, number in group.items()]
    ids, roots = [number for _, number, _ in entries], [root for _, _, root in entries]
    trie = build_trie([piece for piece, _, _ in entries], ids, roots, num_roots=len(groups))
    for root, group in enumerate(groups):
        assert found(trie, text, root) == prefixes(group, text)
        assert int(get_value(trie.roots[root])) == group.get(b"", -1)


def test_many_pieces_are_all_found_and_others_are_not() -> None:
    random = np.random.default_rng(1)
    drawn = (random.integers(0, 256, size=random.integers(1, 12), dtype=np.uint8).tobytes() for _ in range(9000))
    pieces = sorted(set(drawn))
    trie, known = build_trie(pieces, range(len(pieces))), set(pieces)
    for number, piece in enumerate(pieces):
        assert found(trie, piece)[piece] == number
        assert found(trie, piece[:-1] + b"\xff\x00").keys() <= known
    assert np.mean(trie.cells & 511 < 256) > 0.5, "most cells are empty"
    again = build_trie(pieces[::-1], range(len(pieces))[::-1])
    assert (again.cells == trie.cells).all(), "the order of the pieces changed the trie"


def test_what_cannot_be_a_trie() -> None:
    with pytest.raises(InputError, match=r"The piece b'a' occurs twice"):
        build_trie([b"a", b"b", b"a"], [0, 1, 2])
    build_trie([b"a", b"a"], [0, 1], [0, 1], num_roots=2)
    with pytest.raises(InputError, match="Ids run from 0 to"):
        build_trie([b"a"], [MAX_VALUE + 1])
    with pytest.raises(InputError, match="Ids run from 0 to"):
        build_trie([b"a"], [-1])
