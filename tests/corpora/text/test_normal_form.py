"""NFC by sorted runs of marks, against the standard library's."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from corpora.text.normal_form import MAX_MARKS_IN_A_ROW, is_non_starter, to_nfc

MARKS = "\u0301\u0316\u0345\u0338\u0f71\u0f72\u0f73\u0f81\u0344\u093c\u05b0\u064b\u3099"
TEXTS = st.text(st.sampled_from("aé=日\u1100\u1161\u11a8\u0958か" + MARKS))
RUNS = st.text(st.sampled_from(MARKS), min_size=MAX_MARKS_IN_A_ROW - 2, max_size=3 * MAX_MARKS_IN_A_ROW)


@given(st.lists(st.one_of(TEXTS, RUNS, st.text()), max_size=4).map("".join))
def test_it_is_the_normal_form_of_the_standard_library(text: str) -> None:
    assert to_nfc(text) == unicodedata.normalize("NFC", text)


def test_marks_are_those_of_all_of_unicode() -> None:
    """Fails if a later version of Unicode has marks where none are looked for: they would take long again."""
    assert not any(map(is_non_starter, map(chr, range(0x20000, 0x110000))))
    assert all(map(is_non_starter, MARKS))
