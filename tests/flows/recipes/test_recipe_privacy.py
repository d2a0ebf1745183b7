"""Tests of what may be seen of a text next to the data."""

from hypothesis import given
from hypothesis import strategies as st

from flows.recipes.privacy import Privacy, to_one_line


@given(st.text(), st.integers(4, 50))
def test_visible_text_is_bounded_and_acts_on_nothing(text: str, limit: int) -> None:
    shown = to_one_line(text, limit)
    assert len(shown) <= limit
    assert not any(ord(character) < 32 or "\u202a" <= character <= "\u202e" for character in shown)
    shown.encode()
    if text.isascii() and text.isprintable() and len(text) <= limit:
        assert shown == " ".join(text.split())


def test_nothing_is_shown_of_nothing() -> None:
    assert [Privacy(mode).show(None) for mode in ("text", "hashed", "none")] == ["", "", ""]
