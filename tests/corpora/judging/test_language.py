"""The language filter: codes, doubt, and what is kept."""

from itertools import pairwise
from pathlib import Path

import pycld2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_columns import column

from corpora.judging.steps.language import (
    KNOWN_LANGUAGES,
    LanguageSettings,
    detect_languages,
    judge_languages,
    sample_pieces,
    sample_rows,
)
from corpora.text.buffers import to_text_buffers

ENGLISH = "The committee will meet again on Thursday to discuss what the new bridge across the river may cost."
GERMAN = "Der Ausschuss trifft sich am Donnerstag wieder, um zu besprechen, was die neue Brücke kosten darf."
HEBREW = "הוועדה תיפגש שוב ביום חמישי כדי לדון בעלות הגשר החדש מעל הנהר ובמועד תחילת העבודות."


def test_languages_are_told_apart_and_short_text_is_unknown() -> None:
    assert (
        detect_languages(column([ENGLISH, GERMAN, HEBREW, "Bonjour", ""]), LanguageSettings())
        == "en de he un un".split()
    )


def test_text_the_detector_refuses_is_unknown_and_does_not_stop_the_others() -> None:
    assert detect_languages(column([ENGLISH + "\x01", ENGLISH + "\ufffe", ENGLISH]), LanguageSettings()) == [
        "un",
        "un",
        "en",
    ]


def test_mixed_text_is_unknown_below_the_confidence_asked_for() -> None:
    mixed = column([f"{ENGLISH}\n{GERMAN}\n{ENGLISH}"])
    assert detect_languages(mixed, LanguageSettings(min_confidence=0.5)) == ["en"]
    assert detect_languages(mixed, LanguageSettings(min_confidence=0.9)) == ["un"]


def test_only_the_sample_is_read_and_it_is_cut_between_characters() -> None:
    text = column([ENGLISH + " " + "ü" * 40 + " " + GERMAN * 20])
    assert detect_languages(text, LanguageSettings()) == ["de"]
    for size in range(len(ENGLISH), len(ENGLISH) + 12):  # some of these fall inside a two-byte letter
        assert detect_languages(text, LanguageSettings(sample_bytes=size)) == ["en"]


def test_a_long_text_is_read_whole_only_where_its_pieces_do_not_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a long text costs its length, or where a language in its middle or in a tenth of it goes unseen."""
    read: list[int] = []
    detected = pycld2.detect
    monkeypatch.setattr(pycld2, "detect", lambda text, **how: (read.append(len(text)), detected(text, **how))[1])
    long, part = " ".join([ENGLISH] * 60), " ".join([GERMAN] * 12)
    assert detect_languages(column([long]), LanguageSettings()) == ["en"] and sum(read) < 600
    for mixed in (f"{part} {long}", f"{long} {part}", f"{long[:3000]} {part} {long[3000:]}"):
        read.clear()
        assert detect_languages(column([mixed]), LanguageSettings(min_confidence=0.9)) == ["un"]
        assert read[-1] == len(mixed.encode())


@given(st.lists(st.text(alphabet="aü€\U0001f600", max_size=9), max_size=3), st.integers(60, 3000), st.integers(1, 300))
def test_pieces_are_those_of_the_definition(texts: list[str], most: int, times: int) -> None:
    """Fails if a piece is of another place, or cuts a character."""
    rows = [text * times for text in texts]
    heads, pieces, bounds = sample_rows(*to_text_buffers(column(rows)), most)
    cut = [pieces[first:last].decode() for first, last in pairwise(bounds)]
    assert list(zip(heads.tolist(), cut, strict=True)) == [sample_pieces(text, most) for text in rows]


def test_reasons_name_what_is_dropped() -> None:
    texts = column([ENGLISH, GERMAN, "Hm."])
    languages, reasons = judge_languages(texts, LanguageSettings())
    assert languages.to_pylist() == ["en", "de", "un"]
    assert reasons == [None, "language", None]
    assert judge_languages(texts, LanguageSettings(keep_unknown=False))[1] == [None, "language", "language"]
    assert judge_languages(texts, LanguageSettings(keep=("de", "fr")))[1] == ["language", None, None]


def test_an_empty_list_keeps_every_language() -> None:
    texts = column([ENGLISH, GERMAN, "Hm."])
    assert judge_languages(texts, LanguageSettings(keep=()))[1] == [None, None, None]
    assert judge_languages(texts, LanguageSettings(keep=(), keep_unknown=False))[1] == [None, None, "language"]


def test_slices_of_a_column_are_read_where_they_are() -> None:
    assert detect_languages(column([GERMAN, ENGLISH, GERMAN])[1:2], LanguageSettings()) == ["en"]


def test_declarations_of_human_rights_get_their_language(shared: Path) -> None:
    codes = {"arb": "ar", "cym": "cy", "dan": "da", "deu_1901": "de", "eng": "en", "fra": "fr", "hin": "hi"}
    codes |= {"jpn": "ja", "nld": "nl", "pol": "pl", "por_PT": "pt", "spa": "es", "swe": "sv", "tur": "tr", "vie": "vi"}
    assert set(codes.values()) <= KNOWN_LANGUAGES
    folder = shared / "data" / "gold" / "languages"
    texts = [(folder / f"udhr-{name}.txt").read_text(encoding="utf-8") for name in codes]
    assert detect_languages(column(texts), LanguageSettings()) == list(codes.values())
