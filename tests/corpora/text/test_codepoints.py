"""Code points read from bytes: each kernel against Python's own reading of the same text."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.text.codepoints import (
    character_class,
    character_classes,
    class_at,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


def buffer(raw: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(raw, np.uint8)


@settings(deadline=None)
@given(TEXTS)
def test_the_class_of_each_character_is_told(text: str) -> None:
    data, classes = buffer(text.encode()), character_classes()
    at = 0
    for character in text:
        width = len(character.encode())
        assert class_at(data, at, classes) == (character_class(character), width)
        at += width
    assert at == len(data)
