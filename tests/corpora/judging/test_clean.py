"""Cleaning: what it promises of its output, and the fast form against the definition."""
# ruff: noqa: RUF001 - typographic marks are part of the subject here

import json
import unicodedata
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from labelled_cases import cases_of
from text_columns import column
from tiers import LONG, examples

from corpora.errors import InputError
from corpora.judging.batches import judge_records
from corpora.judging.settings import DocumentsSettings
from corpora.judging.steps.clean import PROFILES, CleanSettings, clean, clean_and_count, clean_text
from corpora.sources.contract import Locator, Record
from corpora.text.whitespace import tidy_text

CASES = cases_of(__file__, "clean")

CASED = CleanSettings()
AS_FTFY = CleanSettings(quotes="straight", widths="narrow")
SPOILT = [
    "â€™",
    "Ã©",
    "Ã ",
    "â€œ",
    "&amp;",
    "&lt;",
    "&#39;",
    "<b>",
    "<",
    "&c.",
    "&#13;",
    "&#10;",
    "&#x301;",
    "&amp;lt;",
    "\x1b[31m",
    "ﬁ",
    "e\u0301",
    "\u0301",
]
SPACES = [*" \t\r\n\v\f\x85\xa0\u2003\u2028\u3000\ufeff\xad", "  ", "\r\n"]
PLAIN = [*"ŒœÂÉß”—А", "word", "Word", "é”", "日本。", "яЂ", "K\u030c", "H\u0331", "ΑΣ", "İ", "$_"]
MIXED = ["", "\n", "œ\n", "œ", "<\n&amp;", "&amp;<", "&amp;\n<\n&lt;", "a\r\n\r\n\r\nb", "x\xad\u0301"]
MIXED += ["\u1100\u1161", "0\r☃\n0", "é&#13;\r\na", "é&#10;\n", "&#x301;e &amp;lt;"]
TEXTS = st.one_of(
    st.text(),
    st.lists(st.sampled_from(SPOILT + SPACES + PLAIN), max_size=30).map("".join),
    st.text().map(lambda text: text.encode().decode("latin-1")),
    st.text(st.characters(max_codepoint=0x2FFF, exclude_categories=["Cs"])).map(
        lambda text: text.encode().decode("cp1252", "replace")
    ),
)


@pytest.mark.parametrize("profile", PROFILES)
@examples(200)
@given(st.lists(TEXTS, max_size=4))
@example(MIXED)
def test_the_fast_form_equals_the_definition(profile: str, texts: list[str]) -> None:
    chosen = CleanSettings(profile=profile)
    assert clean(column(texts), chosen).to_pylist() == [clean_text(text, chosen) for text in texts]


@pytest.mark.parametrize("chosen", [AS_FTFY, replace(AS_FTFY, widths="kept"), replace(AS_FTFY, quotes="kept")])
@examples(150)
@given(st.lists(TEXTS | st.text(st.sampled_from("œŒÂÃâ€’‘“”‟ʼ&＆ｌｔ;；＜<ｱﾞ　 aé\n")), max_size=3))
@example(["0\r\ufeff\n0", "\r\xad\n", "\ufeff\n"])
@example(["œ’", "Ã’ ", "＆lt;", "“é”\n&amp;＜&lt;", "ʼ"])
def test_quotes_and_widths_are_made_plain_as_ftfy_does_it(chosen: CleanSettings, texts: list[str]) -> None:
    assert clean(column(texts), chosen).to_pylist() == [clean_text(text, chosen) for text in texts]


@pytest.mark.parametrize("profile", PROFILES)
@settings(deadline=None)
@given(TEXTS)
def test_what_comes_out_is_tidy_and_in_nfc(profile: str, text: str) -> None:
    cleaned = clean_text(text, CleanSettings(profile=profile))
    assert unicodedata.is_normalized("NFC", cleaned)
    assert tidy_text(cleaned) == cleaned
    assert not any(unicodedata.category(character) == "Cc" for character in cleaned.replace("\n", ""))
    assert "\n\n\n" not in cleaned
    assert all(line == line.strip(" ") for line in cleaned.split("\n"))


@pytest.mark.parametrize(("text", "expected"), CASES["cleaning"])
def test_what_cleaning_does(text: str, expected: str) -> None:
    assert clean_text(text, CASED) == expected
    assert clean(column([text]), CASED).to_pylist() == [expected]


def test_uncased_keeps_accents_and_roberta_brief_standard_marks_only() -> None:
    text = "“CAFÉ Zürich”—$5 * 100%… [No. 1] ‘a_b’ @me; Ｈｉ！ काम 🙂 ok"
    assert clean_text(text, CleanSettings(profile="uncased")) == text.lower()
    brief = "\"café zürich\"-5 100... no. 1 'ab' me; hi! काम ok"
    assert clean_text(text, CleanSettings(profile="roberta-brief")) == brief


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(InputError, match=r"clean\.profile = 'lower' is not known"):
        CleanSettings(profile="lower")


def test_slices_and_empty_columns() -> None:
    assert clean(column(["  x ", "Ã©  y", "z "])[1:2], CASED).to_pylist() == ["é y"]
    assert clean(column([]), CASED).to_pylist() == []
    assert clean(column(["", ""]), CASED).to_pylist() == ["", ""]


def test_very_long_lines_are_repaired_as_ftfy_cuts_them() -> None:
    text = "Ã©" * 10 + "x" * 1_000_000 + "&amp;<&amp; Ã©"
    assert clean(column([text]), CASED).to_pylist() == [clean_text(text, CASED)]


def test_lines_that_are_repaired_in_part_are_counted() -> None:
    """Fails if the kernel's way and the definition give up other lines, or nobody is told of them."""
    nested = "&" + "amp;" * 400
    texts = [f"{nested}\nÃ©\n{nested}", "plain", nested]
    cleaned, given_up = clean_and_count(column(texts), CASED)
    assert cleaned.to_pylist() == [clean_text(text, CASED) for text in texts]
    assert given_up == 3 and "\né\n" in cleaned[0].as_py()
    locator = Locator(file="f", sha256="0" * 64, stream=-1, offset=0, length=1)
    judged = judge_records([Record(locator=locator, text=text) for text in texts], "s", DocumentsSettings())
    assert judged.figures["lines repaired in part"] == 3


def test_a_text_may_be_left_as_it_is() -> None:
    """Fails if the profile that cleans nothing changes a text, by itself or in a column."""
    settings = CleanSettings(profile="none", quotes="straight", widths="narrow")
    texts = ["  It doesn\u00e2\u20ac\u2122t\r\n\n\n\n matter\u200b. \uff21", "\u201cQuoted\u201d", "&amp;"]
    assert [clean_text(text, settings) for text in texts] == texts
    assert clean(pa.array(texts, pa.large_string()), settings).to_pylist() == texts


def test_marks_that_meet_once_others_are_gone_are_in_order() -> None:
    """Fails if leaving characters out puts marks next to each other that nobody sorts again, or sorts slowly."""
    text = "a" + "\u0301\u200b*\u0316" * (40_000 if LONG else 4_000)
    for profile in PROFILES:
        cleaned = clean_text(text, CleanSettings(profile=profile))
        assert unicodedata.is_normalized("NFC", cleaned)
        assert clean(column([text]), CleanSettings(profile=profile)).to_pylist() == [cleaned]


def test_mojibake_from_the_wild_is_repaired(shared: Path) -> None:
    cases = json.loads((shared / "data" / "gold" / "ftfy" / "in-the-wild.json").read_text(encoding="utf-8"))
    cases = [case for case in cases if case["expect"] == "pass"]
    assert len(cases) > 50
    texts = [case["original"] for case in cases]
    cleaned = clean(column(texts), CASED).to_pylist()
    assert cleaned == [clean_text(text, CASED) for text in texts]
    assert sum(one != before for one, before in zip(cleaned, texts, strict=True)) > 50
