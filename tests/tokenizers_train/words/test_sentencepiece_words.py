"""SentencePiece's words against the reference's normaliser and pre-tokeniser."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_columns import column
from tiers import LONG

from tokenizers_train.words.counts import count_words, count_words_plain
from tokenizers_train.words.sentencepiece import SentencePieceWords
from tokenizers_train.words.table import WordCounts

RULE = SentencePieceWords()
RULES = [SentencePieceWords(lowercase=small, strip_accents=bare) for small in (True, False) for bare in (True, False)]

# Quotes in a row, what becomes several words, what takes the space before it, marks, Hangul, white space of all kinds.
PARTS = ["'", "`", '"', "''", "``", "A", "b", "Zz9", " ", "\n", "\t", "\x0b", "\x00", "\x1c", "\x85", "\xa0", "\u3000"]
PARTS += ["\u2581", "\ufdfa", "\xa8", "\u0301", "\u0323", "e\u0301", "\xe9", "\u1e69", "\u0130", "\u03a3", "\ufb01"]
PARTS += ["\u1100\u1161\u11a8", "\uac01", "\u0915\u094d", "\u201c", "\u201d", "\uff07", "\uff40", "\u2033", "\u4e2d"]
PARTS += ["\U0001d400", "\U0001f600", "\U0002f800", "\U0010ffff", "abcdefghijklm", "abcdefghijklmnopqrst"]
texts_of_parts = st.lists(st.lists(st.sampled_from(PARTS), max_size=12).map("".join), max_size=4)


def counted(rule: SentencePieceWords, texts: Sequence[str]) -> WordCounts:
    """The words of texts, which are those of their definition."""
    found = count_words(rule, column(texts))
    assert found.equals(count_words_plain(rule, column(texts)))
    return found


def in_a_word_of_its_own(codes: Iterable[int]) -> str:
    """Each character alone, in a word that names it, and before a mark."""
    characters = ((code, chr(code)) for code in codes if not 0xD800 <= code < 0xE000)
    return " ".join(f"{letter} {code:x}{letter}z {code:x}{letter}\u0323" for code, letter in characters)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The cat's hat.", ["▁the", "▁cat's", "▁hat."]),
        ("``Go!'' ''' ````", ['▁"go!"', "▁\"'", '▁""']),
        ("x▁y ▁▁z w▁", ["▁x", "▁y", "▁", "▁z", "▁w", "▁"]),
        ("a\xa8b \ufdfa!", ["▁a", "▁b", "▁صلى", "▁الله", "▁عليه", "▁وسلم!"]),
        ("caf\xe9 \u0301 \ufb01x", ["▁cafe", "▁fix"]),
        (" \n", []),
        ("", []),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert RULE.split(text) == words
    assert counted(RULE, [text])["word"].to_pylist() == sorted(set(words), key=str.encode)


@pytest.mark.parametrize("rule", RULES)
@settings(deadline=None)
@given(texts=texts_of_parts)
def test_words_are_those_of_the_reference(rule: SentencePieceWords, texts: list[str]) -> None:
    counted(rule, texts)


@pytest.mark.parametrize("rule", RULES)
def test_characters_that_change_change_as_in_the_reference(rule: SentencePieceWords) -> None:
    text = in_a_word_of_its_own([*range(0x1300), *range(0x1E00, 0x2300), 0x2581, *range(0xFB00, 0x10000, 3)])
    assert counted(rule, [text]).num_rows > 10_000


@pytest.mark.long
@pytest.mark.parametrize("rule", [RULES[0], RULES[3]])
def test_all_characters_change_as_in_the_reference(rule: SentencePieceWords) -> None:
    for first in range(0, 0x110000, 0x10000):
        counted(rule, [in_a_word_of_its_own(range(first, first + 0x10000))])


def test_no_byte_outside_a_range_is_looked_at() -> None:
    text = "ab''cd``ef gh' 'ij\ufdfa\u0301kl"
    data = np.frombuffer(text.encode(), np.uint8)
    places = np.flatnonzero((data & 0xC0) != 0x80).tolist()
    places.append(len(data))
    for i, start in enumerate(places):
        for end in places[i:]:
            expected = count_words_plain(RULE, column([data[start:end].tobytes().decode()]))
            assert RULE.count(data, np.array([start]), np.array([end])).equals(expected), (start, end)


def test_a_very_long_word() -> None:
    word = "x\xe9\ufb01'" * 50_000
    [whole] = RULE.split(word)
    assert counted(RULE, [word, "a", word])["word"].to_pylist() == ["▁a", whole]
    assert len(whole) > 200_000


@pytest.mark.slow
def test_words_of_real_texts_are_those_of_the_reference(shared: Path) -> None:
    for pattern in ("books/txt/*.txt", "domains/legal-contracts/*.txt", "gold/languages/*.txt"):
        paths = sorted((shared / "data").glob(pattern))[: 20 if LONG else 3]
        texts = [path.read_text(encoding="utf-8", errors="replace")[:100_000] for path in paths]
        assert sum(map(len, texts)) > 0, pattern
        counted(RULE, texts)


def test_a_fingerprint_names_the_rule() -> None:
    assert RULE.settings == {"pre_tokenizer": "metaspace", "lowercase": True, "strip_accents": True}
