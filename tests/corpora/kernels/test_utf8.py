"""UTF-8 in kernels: each against Python's own reading and writing of the same text."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.kernels.utf8 import decode, decode_word, encode, find_start_before

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@settings(deadline=None)
@given(TEXTS)
def test_characters_are_read_forwards_and_backwards(text: str) -> None:
    data, at = np.frombuffer(text.encode(), np.uint8), 0
    for character in text:
        width = len(character.encode())
        assert decode(data, at) == (ord(character), width)
        assert decode_word(np.uint64(int.from_bytes(text.encode()[at : at + 8], "little"))) == (ord(character), width)
        at += width
        assert find_start_before(data, at) == at - width
    assert at == len(data)


@settings(deadline=None)
@given(TEXTS)
def test_characters_are_written(text: str) -> None:
    for character in text:
        raw = character.encode()
        assert encode(ord(character)) == (int.from_bytes(raw, "little"), len(raw))
