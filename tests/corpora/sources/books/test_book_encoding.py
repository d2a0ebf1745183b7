"""Encodings of text files: every kind is told by the bytes alone, and no bytes do harm."""
# ruff: noqa: RUF001 - letters of many alphabets are the subject here

import pytest

from corpora.sources.books.encoding import STRAYS, decode_text, guess_encoding
from corpora.sources.books.epub import BadBook

FRENCH = "“Où est le café?” — l’élève répond: «À l’hôtel, près de la forêt…» Ça été très gêné. "


@pytest.mark.parametrize(
    ("text", "written", "told"),
    [
        ("It was late.", "ascii", "ascii"),
        (FRENCH, "utf-8", "utf-8"),
        (FRENCH, "utf-8-sig", "utf-8-sig"),
        (FRENCH, "utf-16", "utf-16"),
        (f"\ufeff{FRENCH}", "utf-16-be", "utf-16"),
        (FRENCH * 3, "utf-16-le", "utf-16-le"),
        (FRENCH * 3, "utf-16-be", "utf-16-be"),
        (FRENCH, "cp1252", "cp1252"),
        ("Une élève gênée, près du café à l'hôtel.", "latin-1", "cp1252"),
        (FRENCH, "mac-roman", "mac-roman"),
        ("Une élève gênée, près du café à l'hôtel; für Jürgen.", "cp437", "cp437"),
        ("He didn’t say “no” — he couldn’t.", "mac-roman", "mac-roman"),
        ("He didn’t say “no” — he couldn’t, at £5 or 20°.", "cp1252", "cp1252"),
        ("ÉLÉONORE, ÂGÉE, À LA FORÊT", "cp1252", "cp1252"),
    ],
)
def test_encodings_are_told_by_their_bytes(text: str, written: str, told: str) -> None:
    data = text.encode(written)
    assert guess_encoding(data) == told
    assert decode_text(data).removeprefix("\ufeff") == text.removeprefix("\ufeff")


def test_stray_bytes_cost_only_themselves() -> None:
    data = FRENCH.encode() * 5 + b"caf\xe9 \x93so\x94 \x81" + FRENCH.encode()
    assert guess_encoding(data) == STRAYS
    assert decode_text(data) == FRENCH * 5 + "café “so” \x81" + FRENCH


def test_a_header_that_names_no_encoding_or_a_wrong_one_is_passed_over() -> None:
    for stated in ("rune-7", "utf-16", "unicode_escape", "base64", "ISO Latin-1", "None", "\u00e9"):
        data = f"Character set encoding: {stated}\n\ncafé".encode("cp1252")
        assert decode_text(data).endswith("\n\ncafé")
    assert decode_text("Character set encoding: KOI8-R\n\nМир".encode("koi8-r")).endswith("Мир")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"one\0two", "a zero at byte 3"),
        ("one\0two".encode("utf-16"), "a zero at character 3"),
        (b"\xef\xbb\xbfone\xff", "its mark says utf-8-sig, which it is not at byte"),
        (b"\xff\xfeo\0\0\xd8", "its mark says utf-16"),
        (b"\xff\xfe\0", "its mark says utf-16|a zero"),
        (bytes(range(256)) * 9, "a zero at byte 0"),
    ],
)
def test_what_is_no_text_is_a_bad_book(data: bytes, says: str) -> None:
    with pytest.raises(BadBook, match=says):
        decode_text(data)
