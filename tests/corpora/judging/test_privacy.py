"""Masking: what is private and what only looks like it, that columns agree with the definition, and hostile text."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from corpora.judging.steps.privacy import PersonalDataSettings, mask_private, mask_text
from corpora.judging.steps.private_patterns import KINDS, private_spans

ALL = PersonalDataSettings(email=True, ip=True, phone=True)
TAGS = PersonalDataSettings(
    email=True, ip=True, phone=True, email_replacement="<E>", ip_replacement="<I>", phone_replacement="<P>"
)


def column(texts: list[str]) -> pa.Array:
    return pa.array(texts, pa.large_string())


def found(line: str) -> list[tuple[str, str]]:
    return [(KINDS[kind], line[start:end]) for start, end, kind in private_spans(line)]


@pytest.mark.parametrize(
    ("line", "address"),
    [
        ("Write to jane.doe+news@mail.uni-bonn.de.", "jane.doe+news@mail.uni-bonn.de"),
        ("<o'brien@x.ie>,", "o'brien@x.ie"),
        ("'quoted@site.org'", "quoted@site.org"),
        ("_jim@site.museum_ or", "jim@site.museum"),
        ("mailto:a@b.co?subject", "a@b.co"),
        ("联系foo@bar.com。", "foo@bar.com"),
        ("anna@müller.de", "anna@müller.de"),
        ("72600.2026@compuserve.com", "72600.2026@compuserve.com"),
    ],
)
def test_email_addresses(line: str, address: str) -> None:
    assert found(line) == [("email", address)]


@pytest.mark.parametrize(
    "line",
    [
        "user@ home",
        "a@b",
        "@handle and @site.org alone",
        "icon@2x.png",
        "two..dots@site.org",
        "ends.@site.org",
        f"{'x' * 65}@site.org",
        "you@example.com and me@mail.example.org and it@host.test",
        "12 @ 3.50 each",
        "a@b@c.org@",
    ],
)
def test_what_is_no_email_address_or_nobodys(line: str) -> None:
    assert found(line) == []


@pytest.mark.parametrize(
    ("line", "address"),
    [
        ("from 93.184.216.34, at", "93.184.216.34"),
        ("http://93.184.216.34:80/x", "93.184.216.34"),
        ("(15.207.255.7)", "15.207.255.7"),
        ("at 2606:4700:4700::1111.", "2606:4700:4700::1111"),
        ("[2a00:1450:4001:830:0:0:0:200E]:443", "2a00:1450:4001:830:0:0:0:200E"),
        ("is 2a00:1450:: now", "2a00:1450::"),
        ("seen: 2a00:1450::8:", "2a00:1450::8"),
        ("::ffff:93.184.216.34", "93.184.216.34"),
    ],
)
def test_public_ip_addresses(line: str, address: str) -> None:
    assert found(line) == [("ip", address)]


@pytest.mark.parametrize(
    "line",
    [
        "10.0.0.138 172.16.200.1 192.168.1.100 127.0.0.100 169.254.100.1 100.64.0.100",  # nobody's in particular
        "192.0.2.146 198.51.100.1 203.0.113.9 224.0.0.251 240.0.0.100 255.255.255.255 0.0.0.100",
        "::1 fe80::1 fd00::1 ff02::1 2001:db8::1 ::",
        "see 12.5.3.1 and 3.11.2.10, EC 2.7.7.49",  # sections, an enzyme
        "version 93.184.216.34, v. 93.184.216.34, Section 93.184.216.34, § 93.184.216.34, v93.184.216.34",
        "1.93.184.216.34 and 93.184.216.34.5 and 93.184.216.345 and 093.184.216.34 and 256.184.216.34",
        "12:30:45, std::vector, face::cafe, 2001:05:06, 20:15:2222, a::b",
    ],
)
def test_what_is_no_public_ip_address(line: str) -> None:
    assert found(line) == []


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("call +1 (212) 736-5000 now", "+1 (212) 736-5000"),
        ("+44 20 7946 0958. 12 people", "+44 20 7946 0958"),
        ("Tel. +49 (0)30 901820", "+49 (0)30 901820"),
        ("+33.1.42.68.53.00,", "+33.1.42.68.53.00"),
        ("+358401234567", "+358401234567"),
        ("0049 30 901820", "0049 30 901820"),
        ("(212) 736-5000 or", "(212) 736-5000"),
        ("(404)420-5100", "(404)420-5100"),
        ("1-800-273-8255", "1-800-273-8255"),
        ("212.736.5000", "212.736.5000"),
        ("916.445-1773", "916.445-1773"),
        ("Fax: 214/747-3732", "214/747-3732"),
        ("020 7946 0958", "020 7946 0958"),
        ("0333 666 3366.", "0333 666 3366"),
        ("01785 257698", "01785 257698"),
        ("01 42 68 53 00", "01 42 68 53 00"),
        ("089/1234567", "089/1234567"),
        ("(0228) 7350", ""),
        ("(0228) 735000", "(0228) 735000"),
        ("Telephone number: 736 5000", "736 5000"),
        ("Phone:       408 853 9754", "408 853 9754"),
        ("Téléphone\u00a0: 42 68 53 00", "42 68 53 00"),
        ("347\u2011966\u20113806", "347\u2011966\u20113806"),
    ],
)
def test_telephone_numbers(line: str, number: str) -> None:
    assert found(line) == ([("phone", number)] if number else [])


@pytest.mark.parametrize(
    "line",
    [
        "in 1990-1995, 2011-07-19 08:06:12, 12/10/1998, 24.12.2001, 1984-2001 1990-1992",
        "ISBN 0-306-40615-2, 978-3-16-148410-0, ISBN 978-0821842102, ISSN 2049-3630",
        "$212.736.5000, £1,234,567.89, 10 000 000 people, +3.14159265, +12%, -212-736-5000",
        "pp. 212-736, 1234-5678, doi:10.1000/182-212-736-5000, 10.1038/s41586-020-2649-2",
        "52.227-19 and 252.227-7014; §3.2.1.4; 97291-1339; 123-45-6789; 4111 1111 1111 1111",
        "1 2 3 4 5 6 7 8 9 10 11 12 13, 01 02 03 04 05 06 07, 494 58 170 228 11",
        "http://site.org/212-736-5000/x?id=212-736-5000 #212-736-5000 x212-736-5000 212-736-5000-1",
        "736-5000, 212 736 5000, tel quel 1990-1995, phone 1990-1995, Fax: 000-0000",
        "911-736-5000-, 112-736-5000, 212-136-5000, 212-911-5000, +999 123456789, +0 123456789",
        "202-555-0100, +1 202-555-0199, Tel: (212) 555-0142",  # kept for fiction
        "Julian Date 2443144.5003725 (1 January 1977), 0.5772156649, 40.7128, -74.0060",
    ],
)
def test_what_is_no_telephone_number(line: str) -> None:
    assert found(line) == []


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
