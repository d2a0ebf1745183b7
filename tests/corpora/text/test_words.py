"""Words for comparing: the definition says what its page says, and the kernels agree with it on any text and bytes."""

import random
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tiers import examples

from corpora.kernels import array_cache as kept_arrays
from corpora.kernels.hashing import GOLDEN_RATIO
from corpora.text.buffers import make_read_only
from corpora.text.word_kernels import compute_max_words, hash_words, skip_words
from corpora.text.words import (
    EMPTY_WORD,
    HIDDEN,
    INSIDE,
    MARK,
    OUTSIDE,
    SPACELESS,
    find_character_kind,
    fold,
    hash_word,
    read_word_tables,
    split_words,
)

# Characters of every kind, in runs that cross the eight bytes of one load: on both sides of the borders of ASCII's
# letters, of one to four bytes, marks of several classes (U+0345 would be
# a letter in another case), and what is hidden.
ALPHABET = "/09:@AZ[`az{\x7f\x00 ,.'_’“”—éÉßẞςΣİıǅȺK½²ﬁ中國⼈かガｶﾞไที่ำក្ខमि한각ийЙ\u00ad\u200b\u200d\ufeff\ufe0f"  # noqa: RUF001
ALPHABET += "\u0301\u0308\u0323\u0327\u0345\u05b0\u0e48\U0001d165\U00020000\U0002f800\U0001f600\U000e0101\U0010ffffʼʻꞌ"  # noqa: RUF001
PIECES = st.sampled_from([*ALPHABET, "word", "exactly8", "seventeen letters", "-" * 9, "слово", "ȺȺȺȺ"])
TEXTS = st.lists(PIECES | st.characters(exclude_categories=["Cs"]), max_size=40).map("".join)


def hashed(texts: list[bytes]) -> list[list[int]]:
    """The hashes of the words of each text, read as rows of one buffer, whatever bytes they are."""
    offsets = np.cumsum([0, *map(len, texts)])
    data, out = (
        make_read_only(np.frombuffer(b"".join(texts), np.uint8)),
        np.empty(compute_max_words(offsets), np.uint64),
    )
    return [out[: hash_words(data, start, stop, read_word_tables(), out)].tolist() for start, stop in pairwise(offsets)]


def hashes(text: str) -> list[int]:
    return [hash_word(word.encode()) for word in split_words(text)]


@given(texts=st.lists(TEXTS, max_size=4))
@example(texts=["e\u0301e\u0323\u0308 e\u0308\u0323 c惉\u20ee\u103a", "aaaaaaaaa\u0308\u0323a aaaaaaa\u0308\u0323"])
@examples(400)
def test_the_kernel_equals_the_definition(texts: list[str]) -> None:
    """Each row alone, whatever is before and after it in the buffer."""
    assert hashed([text.encode() for text in texts]) == [hashes(text) for text in texts]


def test_the_kernel_equals_the_definition_for_every_character() -> None:
    """Each in a word of ASCII, after an ideograph, alone, and after itself."""
    codes = [code for code in range(0x110000) if unicodedata.category(chr(code)) not in ("Cs", "Cn", "Co")]
    texts = [f"ab{c}C 中{c} {c} {c}{c}" for c in map(chr, codes[::9])]
    assert len(texts) > 14_000
    assert hashed([text.encode() for text in texts]) == [hashes(text) for text in texts]


@given(data=st.binary(max_size=60))
@examples(300)
def test_bytes_that_are_no_text_are_read_to_their_end_and_no_further(data: bytes) -> None:
    """The hashes do not depend on what is behind the row, so nothing of it was read."""
    rows = [hashed([data + b" ", other])[0] for other in (b"", b"\xbf\xbf\xbf", b"abc")]
    assert rows[0] == rows[1] == rows[2]
    assert hashed([data, b""])[0] == hashed([data, b"\xbf\xbf\xbfx"])[0]


@given(text=TEXTS, count=st.integers(0, 6))
@examples(300)
def test_the_place_behind_words_parts_them_from_the_rest(text: str, count: int) -> None:
    data = make_read_only(np.frombuffer(text.encode(), np.uint8))
    place = skip_words(data, 0, data.size, count, read_word_tables())
    assert split_words(bytes(data[:place]).decode()) == split_words(text)[:count]
    assert split_words(bytes(data[place:]).decode()) == split_words(text)[count:]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("... -- ! 😀☺️ €", []),
        ("don't DON’T donʼt _italic_", ["don", "t"] * 3 + ["italic"]),  # noqa: RUF001
        ("м'я мʼя м’я", ["м", "я"] * 3),  # noqa: RUF001
        ("re\u00adwrap\u200bped کـتاب کتاب", ["rewrapped", "کتاب", "کتاب"]),
        ("中文 and かな ⼈人", ["中", "文", "and", "か", "な", "人", "人"]),
        ("ไทย ที่", ["ไ", "ท", "ย", "ที่"]),
        ("ΣΊΣΥΦΟΣ σίσυφος Straße STRASSE", ["σίσυφοσ"] * 2 + ["strasse"] * 2),
        ("ﬁn ＡＢＣ x² ⅷ ﾊﾞ", ["fin", "abc", "x2", "viii", "バ"]),  # noqa: RUF001
        ("½ 1/2 Acme™", ["½", "1", "2", "acme"]),
        ("हिन्दी", ["हिन्दी"]),
        ("\u0301a", ["a"]),
        ("3.14 ٣", ["3", "14", "٣"]),
    ],
)
def test_words(text: str, found: list[str]) -> None:
    assert split_words(text) == [unicodedata.normalize("NFD", word) for word in found]


def every_character() -> Iterator[str]:
    return (chr(code) for code in range(0xE0200) if unicodedata.category(chr(code)) not in ("Cs", "Cn", "Co"))


def test_composed_and_decomposed_text_has_the_same_words() -> None:
    """Every character, in a word and next to another mark."""
    for character in filter(lambda c: unicodedata.normalize("NFD", c) != c, every_character()):
        text = f"a{character}\u0323b {character}"
        forms = {tuple(split_words(unicodedata.normalize(form, text))) for form in ("NFC", "NFD")}
        assert len(forms) == 1, ascii(character)


@given(text=TEXTS)
@examples(300)
def test_both_forms_of_a_text_have_the_same_words(text: str) -> None:
    """Marks in any order, of which Unicode says which orders are the same."""
    assert split_words(unicodedata.normalize("NFC", text)) == split_words(unicodedata.normalize("NFD", text))


def test_folding_twice_changes_nothing_and_case_makes_no_difference() -> None:
    for character in every_character():
        form = fold(character)
        assert "".join(map(fold, form)) == form, ascii(character)
        if character.upper().lower() == character.lower():
            assert split_words(character.upper()) == split_words(character.lower()), ascii(character)


def test_every_letter_mark_and_number_has_a_kind() -> None:
    """Those that part words although they are letters are the apostrophes; fails where a new block is left out."""
    outside = {
        c for c in every_character() if unicodedata.category(c)[0] in "LMN" and find_character_kind(c) == OUTSIDE
    }
    assert {chr(code) for code in range(0x2B9, 0x2C0)} <= outside and len(outside) < 30
    kinds = np.bincount(read_word_tables().entries & 7)
    assert kinds[INSIDE] > 20_000 and kinds[SPACELESS] > 90_000 and kinds[MARK] > 1_500 and kinds[HIDDEN] > 300


def test_tables_are_those_that_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if the tables that are read differ from those that are made, or a character has the entry of another."""
    monkeypatch.setattr(kept_arrays, "make_kernel_folder", lambda: tmp_path)
    made, read = read_word_tables.__wrapped__(), read_word_tables.__wrapped__()
    [file] = tmp_path.iterdir()
    assert file.stat().st_size < 2_000_000 and all(map(np.array_equal, made, read))
    for code in [*range(0x3000), *range(0x33480 - 99, 0x33480 + 99), *range(0xDFFFF, 0x110000, 7)]:
        assert read.entries[code] & 7 == find_character_kind(chr(code)), hex(code)


def test_many_marks_out_of_order_are_sorted_whatever_their_number() -> None:
    """A word of 60,000 bytes whose marks are all in disorder."""
    chance = random.Random(4)
    text = "a" + "".join(chance.choice("\u0301\u0323\u0327\u0345\u05b0") for _ in range(30_000))
    assert hashed([text.encode()]) == [hashes(text)]


@given(word=st.binary(min_size=1, max_size=8).filter(lambda word: 0 not in word))
def test_words_of_up_to_eight_bytes_can_be_read_back_from_their_hash(word: bytes) -> None:
    """So no two of them share one."""
    state = hash_word(word)
    state ^= state >> 32
    state = state * pow(int(GOLDEN_RATIO), -1, 2**64) % 2**64 ^ int(EMPTY_WORD)
    assert state.to_bytes(8, "little").rstrip(b"\x00") == word
