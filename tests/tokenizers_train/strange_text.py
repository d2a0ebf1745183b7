"""Text of all scripts, and what in it is strange to a normaliser."""

from collections.abc import Iterator
from itertools import permutations

from hypothesis import strategies as st

# Letters, marks, controls and spaces that the reference treats in ways of their own.
ODD = (
    "aZ09 .-'\t\n\r\x00\x0b\x1c\x7f\x85\xa0\xad"
    "Ééßİ\u0131\u017f\u0301\u0307\u200b\u200d\u2028\u3000\ufeff\ufffd“”—中한กु😀\U0001d518#[]"
    "\u037e\u1fef\u2260\u212b\u0345\u0334\u034f\u302e\u302f\u08d4\U0001d15f\U0001d16d\uf900\U0002f800"
)
WORDS = (
    "the",
    "The",
    "don't",
    "naïve",
    "Ångström",
    "co-operate",
    "internationalisation",
    "antidisestablishment",
    "x" * 17,
)
CHARACTERS = st.characters(exclude_categories=["Cs"])
TEXTS = st.lists(
    st.one_of(
        st.sampled_from(WORDS),
        st.text(st.sampled_from(ODD), max_size=12),
        st.text(CHARACTERS, max_size=8),
        st.just(" "),
    ),
    max_size=12,
).map("".join)

# Marks that are dropped with the accents, and some that are kept and may change places.
MARKS = "\u0301\u0334\u034f\u0345\u302e\u08d4\u1bf2\U0001d165\U0001d16d"


def code_points(step: int = 1) -> Iterator[int]:
    """Every n-th code point that a text may have, and all of Latin, Greek, Cyrillic and Hebrew."""
    for code in range(0x110000):
        if not 0xD800 <= code < 0xE000 and (code < 0x600 or code % step == 0):
            yield code


def in_contexts(code: int) -> str:
    """A character alone, between letters, next to digits and marks, twice, and where words begin and end."""
    character = chr(code)
    return (
        f"{character} A{character}b 1{character} {character}2 é{character}é e\u0301{character}\u0316x "
        f"a\u302f{character} {character}\u302eb {character}{character} .{character}."
    )


def orders_of_marks() -> Iterator[str]:
    """Up to three marks in all orders, between letters and alone."""
    for number in (1, 2, 3):
        for marks in permutations(MARKS, number):
            yield f"a{''.join(marks)}b {''.join(marks)}"
