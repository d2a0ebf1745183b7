"""Code points read from bytes: each kernel against Python's own reading of the same text."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.text.codepoints import (
    OTHER,
    classify_at,
    classify_character,
    pack_bytes,
    pack_word,
    read_character_classes,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


def buffer(raw: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(raw, np.uint8)


@settings(deadline=None)
@given(TEXTS)
def test_the_class_of_each_character_is_told(text: str) -> None:
    data, classes = buffer(text.encode()), read_character_classes()
    at = 0
    for character in text:
        width = len(character.encode())
        assert classify_at(data, at, classes) == (classify_character(character), width)
        at += width
    assert at == len(data)


def test_every_class_occurs_and_the_last_plane_has_none() -> None:
    assert set(read_character_classes().tolist()) == set(range(OTHER + 1))
    far = [chr(code) for code in (0x20000, 0x3FFFF, 0x40000, 0x10FFFF)]
    classes = [classify_at(buffer(one.encode()), 0, read_character_classes())[0] for one in far]
    assert classes == [classify_character(one) for one in far]
    assert classes[1] != classes[2]


@settings(deadline=None)
@given(st.binary(max_size=10))
def test_words_are_packed_as_defined_and_told_apart(raw: bytes) -> None:
    assert pack_bytes(buffer(b"x" + raw + b"y"), 1, 1 + len(raw)) % 2**64 == pack_word(raw)
    assert 0 < pack_word(b"A" + raw[:6]) == pack_word(b"a" + raw[:6].lower()) != pack_word(b"b" + raw[:6])
