"""Unigram ids against the reference's model."""

import math
import string
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from encoded_texts import assert_equal, by_tokenizers, encoded
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tiers import examples
from tokenizers import Tokenizer, models

from corpora.errors import InputError
from tokenizers_train.encoding.encoded import EncodedSentences
from tokenizers_train.encoding.unigram import UnigramEngine
from tokenizers_train.vocabularies.albert import (
    SPECIAL_IDS,
    SPECIAL_TOKENS,
    UNKNOWN_ID,
    ScoredPiece,
    with_special_tokens,
)
from tokenizers_train.words.sentencepiece import SentencePieceWords, build_albert_normalizer, build_metaspace

RULE = SentencePieceWords()
CASED = SentencePieceWords(lowercase=False, strip_accents=False)


def hand_made_pieces() -> tuple[ScoredPiece, ...]:
    """Letters, some marks, and what English is made of, with scores that often tie."""
    endings = ["ing", "ed", "er", "tion", "the", "he", "th", "in", "an", "and", "on", "re", "ll", "'s", '"', "qqq"]
    words = ["the", "of", "and", "to", "a", "in", "that", "it", "was", "hello", "i", "“", '"', "中文", "résumé", "The"]
    scores = dict.fromkeys(f"{string.ascii_letters}{string.digits}.,;:!?-'“”é中صلىا", -6.0)
    scores |= {"▁": -3.0, **{ending: -3.0 - len(ending) for ending in endings}}
    scores |= {f"▁{word}": -4.5 - 0.25 * number for number, word in enumerate(words)}
    return with_special_tokens(scores.items())


PIECES = hand_made_pieces()


def renamed(pieces: Sequence[ScoredPiece]) -> list[ScoredPiece]:
    """The pieces with special tokens named as no part of a word is."""
    return [(f" {token}" if token in SPECIAL_TOKENS.values() else token, score) for token, score in pieces]


def engine(pieces: Sequence[ScoredPiece] = PIECES, words: SentencePieceWords = RULE) -> UnigramEngine:
    return UnigramEngine(renamed(pieces), UNKNOWN_ID, words)


def encoded_plainly(pieces: Sequence[ScoredPiece], words: SentencePieceWords, texts: Sequence[str]) -> EncodedSentences:
    """Encode with the reference's model."""
    tokenizer = Tokenizer(models.Unigram(renamed(pieces), UNKNOWN_ID, False))
    tokenizer.normalizer = build_albert_normalizer(words.lowercase, words.strip_accents)
    tokenizer.pre_tokenizer = build_metaspace()
    return by_tokenizers(tokenizer, texts)


PARTS = ["'", "`", "''", "``", "the", "The", "and", "hello", "ing", "q", "qqq", "Zz9", " ", " ", "\n", "\xa0", "\x00"]
PARTS += ["\u2581", "\ufdfa", "\xa8", "\u0301", "\xe9", "r\xe9sum\xe9", "\u201c", "\u4e2d\u6587", "\u2603", "."]
PARTS += ["<pad>", "<unk>", "[MASK]", "[CLS]", "\ufb01", "\u0130", "\U0001f600", "abcdefghijklmnop", "the" * 6, ","]
texts_of_parts = st.lists(st.lists(st.sampled_from(PARTS), max_size=12).map("".join), max_size=4)


@pytest.mark.parametrize("words", [RULE, CASED])
@settings(deadline=None)
@given(texts=texts_of_parts)
def test_ids_are_those_of_the_reference(words: SentencePieceWords, texts: list[str]) -> None:
    encoder, wanted = engine(words=words), encoded_plainly(PIECES, words, texts)
    for _ in ("new words", "known words"):
        assert_equal(encoded(encoder, texts), wanted)


few_letters = st.text("ab\xe9\u2581", min_size=1, max_size=4)
few_scores = st.sampled_from([-1.0, -2.0, -3.0, -0.1, -0.2, -0.3, -10.0, 0.0])


@examples(200)
@given(
    learnt=st.dictionaries(few_letters, few_scores, max_size=12),
    texts=st.lists(st.text("ab\xe9c ", max_size=14), min_size=1, max_size=4),
)
@example(learnt={"\u2581a": -2.0, "\u2581": -1.0, "a": -1.0}, texts=["a aa"])
def test_sums_that_are_equal_are_decided_as_in_the_reference(learnt: dict[str, float], texts: list[str]) -> None:
    pieces = with_special_tokens(learnt.items())
    assert_equal(encoded(engine(pieces, CASED), texts), encoded_plainly(pieces, CASED, texts))


def test_a_hand_worked_example() -> None:
    found = encoded(engine(), ["Hello, thing\u2603\u2603 q\u2603", "", "''The''"])
    tokens = [PIECES[number][0] for number in found.ids]
    assert tokens == ["▁hello", ",", "▁", "th", "ing", "<unk>", "▁", "q", "<unk>", "▁", '"', "the", '"']
    assert found.word_starts.tolist() == [1, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0]
    assert found.offsets.tolist() == [0, 9, 9, 13]


@pytest.mark.parametrize("words", [RULE, CASED])
def test_special_tokens_in_a_text_are_text(words: SentencePieceWords) -> None:
    texts = ["[MASK] <pad><unk>z", "a[SEP]b", "<PAD>"]
    found = encoded(engine(words=words), texts)
    assert_equal(found, encoded_plainly(PIECES, words, texts))
    assert set(found.ids.tolist()) & set(SPECIAL_IDS) == {UNKNOWN_ID}, "for < > [ ], which no piece covers"


def test_a_model_that_holds_its_special_tokens_is_followed_too() -> None:
    # With names that a text can hold, the engine is the bare model: a piece named <unk> is found in a text, and joins.
    pieces = [(f" {token}" if number == 2 else token, score) for number, (token, score) in enumerate(PIECES)]
    bare = UnigramEngine(pieces, UNKNOWN_ID, RULE)
    found = encoded(bare, ["a\u2603<unk>\u2603 <pad>"])
    assert found.ids.tolist() == [dict_of(pieces)["▁a"], 1, dict_of(pieces)["▁"], 0]


def dict_of(pieces: Sequence[ScoredPiece]) -> dict[str, int]:
    return {token: number for number, (token, _) in enumerate(pieces)}


def test_wide_ids() -> None:
    many = [*PIECES, *((f"\u2581filler{number}", -20.0) for number in range(70_000)), ("▁wide", -5.0), ("st", -5.0)]
    texts = ["wide", "widest the widest", "filler69999 filler1", "thethethe wide the.", ""] * 3
    found = encoded(engine(many), texts)
    assert (found.ids.itemsize, encoded(engine(), texts).ids.itemsize) == (4, 2)
    assert found.ids.max() > 65_535
    assert_equal(found, encoded_plainly(many, RULE, texts))


def test_ranges_in_any_order_and_no_byte_outside_of_them() -> None:
    text = "The ''cat''s hat\ufdfa\u0301, a\u0301 thing"
    data = np.frombuffer(text.encode(), np.uint8)
    places = np.flatnonzero((data & 0xC0) != 0x80).tolist()
    places.append(len(data))
    ranges = [(start, end) for i, start in enumerate(places) for end in places[i:]][::-1]
    starts, ends = np.array(ranges, np.int64).T.copy()
    sentences = [data[start:end].tobytes().decode() for start, end in ranges]
    assert_equal(engine().encode(data, starts, ends), encoded_plainly(PIECES, RULE, sentences))


def test_arrays_grow_where_tokens_are_short() -> None:
    texts = ["a b c d e f g h " * 500 + "zzzzzzzz" * 100 + " \ufdfa" * 300, "i"]
    found = encoded(engine(), texts)
    assert len(found.ids) > sum(len(text.encode()) for text in texts) / 3 + 64, "no need to grow"
    assert_equal(found, encoded_plainly(PIECES, RULE, texts))


def test_a_word_of_a_million_letters() -> None:
    word = "theing\xe9\u2603" * 125_000
    found = encoded(engine(), [word, "the"])
    ids = {piece: number for number, (piece, _) in enumerate(PIECES)}
    first = [ids["▁the"], ids["ing"], ids["e"], UNKNOWN_ID]
    assert found.ids.tolist() == first + [ids["the"], *first[1:]] * 124_999 + [ids["▁the"]]


def test_characters_in_words_of_their_own() -> None:
    codes = [*range(0xD7, 0x600), *range(0x1E00, 0x2300), 0x2581, *range(0xFB00, 0x10000, 7), *range(0x1F600, 0x1F640)]
    texts = [f"{chr(code)} the{chr(code)}ing {chr(code)}\u0301a" for code in codes]
    assert_equal(encoded(engine(), texts), encoded_plainly(PIECES, RULE, texts))


@pytest.mark.long
def test_all_characters() -> None:
    codes = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    encoder = engine()
    for first in range(0, len(codes), 1 << 16):
        texts = [f"{chr(code)} e{chr(code)}r" for code in codes[first : first + (1 << 16)]]
        assert_equal(encoded(encoder, texts), encoded_plainly(PIECES, RULE, texts))


def real_pieces(text: str) -> tuple[ScoredPiece, ...]:
    """Pieces as real vocabularies have them: the beginnings, ends and letters of the words of a text."""
    counts: Counter[str] = Counter()
    for word in RULE.split(text):
        counts.update({word[:length] for length in range(1, len(word) + 1)})
        counts.update({word[-length:] for length in range(1, len(word))})
    total = sum(counts.values())
    frequent = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:20_000]
    return with_special_tokens((piece, math.log(count / total)) for piece, count in frequent)


def assert_real_texts(paths: Sequence[Path], most: int) -> None:
    texts = [path.read_text(encoding="utf-8", errors="replace")[:most] for path in paths]
    assert sum(map(len, texts)) > 100_000
    pieces = real_pieces(texts[0][:200_000])
    sentences = [sentence for text in texts for sentence in text.split("\n\n")]
    assert_equal(encoded(engine(pieces), sentences), encoded_plainly(pieces, RULE, sentences))


@pytest.mark.parametrize("pattern", ["books/txt/*.txt", "gold/languages/*.txt"])
def test_real_texts(shared: Path, pattern: str) -> None:
    assert_real_texts(sorted((shared / "data").glob(pattern))[:12], most=15_000)


def test_what_is_no_vocabulary() -> None:
    for unknown_id in (5, -1, None):
        with pytest.raises(InputError, match=f"unknown token of the vocabulary has the id {unknown_id}, and its 5"):
            UnigramEngine(PIECES[:5], unknown_id, RULE)
    with pytest.raises(InputError, match="The score of the token 'x' is nan, and scores are"):
        engine([*PIECES, ("x", float("nan"))])
    with pytest.raises(InputError, match="The score of the token 'a' is 11"):
        UnigramEngine([("a", 11.0), ("b", 12.0)], 0, RULE)
    with pytest.raises(InputError, match="occurs twice"):
        engine([*PIECES, ("the", -1.0)])
