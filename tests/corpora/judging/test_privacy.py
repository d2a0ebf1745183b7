"""Masking: what is private and what only looks like it, that columns agree with the definition, and hostile text."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from labelled_cases import cases_of
from text_columns import column
from tiers import examples

from corpora.judging.steps.privacy import KINDS, PersonalDataSettings, find_private_spans, mask_private, mask_text

CASES = cases_of(__file__, "privacy")
ALL = PersonalDataSettings(email=True, ip=True, phone=True)
TAGS = PersonalDataSettings(
    email=True, ip=True, phone=True, email_replacement="<E>", ip_replacement="<I>", phone_replacement="<P>"
)


def found(line: str) -> list[tuple[str, str]]:
    return [(KINDS[kind], line[start:end]) for start, end, kind in find_private_spans(line)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["line"])
def test_what_is_private_and_what_is_not(case: dict[str, Any]) -> None:
    """Fails if an address or a number is missed, or sections, dates and what is nobody's are taken for one."""
    assert found(case["line"]) == [(kind, text) for kind, text in case["found"]]


@pytest.mark.parametrize(
    "case", cases_of(__file__, "telephones"), ids=lambda case: f"{case['language']} {case['line']}"
)
def test_telephone_numbers_are_known_as_each_language_writes_them(case: dict[str, Any]) -> None:
    """Fails if a number of a language is missed, taken for one in what is none, or masked in English text."""
    line, language, phone = case["line"], case["language"], case["phone"]
    spans = [line[start:end] for start, end, _ in find_private_spans(line, language=language)]
    assert spans == ([phone] if phone else [])
    masked, _ = mask_private(column([line, line]), TAGS, [language, "en"])
    assert masked.to_pylist() == [mask_text(line, TAGS, language)[0], mask_text(line, TAGS)[0]]


def test_every_kind_is_off_unless_asked_for() -> None:
    text = "ann@uni.edu\n93.184.216.34, (212) 736-5000\n\nann@uni.edu"
    assert mask_text(text, PersonalDataSettings()) == (text, {})
    assert mask_text(text, PersonalDataSettings(ip=True))[1] == {"ip": 1}
    masked, counts = mask_text(text, TAGS)
    assert masked == "<E>\n<I>, <P>\n\n<E>"
    assert counts == {"email": 2, "ip": 1, "phone": 1}
    assert list(counts) == list(KINDS)
    assert mask_text(text, ALL)[0] == "email@example.com\n192.0.2.1, +1 202-555-0100\n\nemail@example.com"


def test_a_number_within_an_address_is_part_of_it() -> None:
    assert mask_text("212-736-5000@sms.net", TAGS) == ("<E>", {"email": 1})
    assert mask_text("212-736-5000@sms.net", PersonalDataSettings(phone=True))[1] == {}


PIECES = (
    "ann|@|uni.edu|93.184.216.34|.|2606:4700::1111|:|(212) |736-5000|+49 |30 |901820|Tel: |é|\u00a0|\u2013|中| |\n|0|1"
    "|212|/|-|        |example.com|020 7946 0958|x"
)
TEXT = st.lists(st.sampled_from(PIECES.split("|")), max_size=16).map("".join)


@given(texts=st.lists(TEXT, max_size=5), on=st.tuples(st.booleans(), st.booleans(), st.booleans()))
@examples(300)
def test_the_column_equals_the_definition(texts: list[str], on: tuple[bool, bool, bool]) -> None:
    email, ip, phone = on
    chosen = PersonalDataSettings(email=email, ip=ip, phone=phone, email_replacement="Ä", phone_replacement="")
    masked, counts = mask_private(column(["ann@uni.edu", *texts])[1:], chosen)
    expected = [mask_text(text, chosen) for text in texts]
    assert masked.to_pylist() == [text for text, _ in expected]
    assert counts == {kind: total for kind in KINDS if (total := sum(found.get(kind, 0) for _, found in expected))}


def test_masking_a_masked_text_changes_nothing() -> None:
    texts = [
        "ann@uni.edu, 93.184.216.34; 2606:4700::1111 and Tel: +49 30 901820 or (212) 736-5000",
        "Fax (212) 736-5000",
    ]
    masked, counts = mask_private(column(texts), ALL)
    assert counts == {"email": 1, "ip": 2, "phone": 3}
    assert mask_private(masked, ALL) == (masked, {})


def test_a_column_without_anything_private_is_given_back() -> None:
    texts = column(["Nothing here.", "", "in 1990"])[1:]
    assert mask_private(texts, ALL)[0] is texts
