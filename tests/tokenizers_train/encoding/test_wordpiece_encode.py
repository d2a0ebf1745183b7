"""WordPiece: the ids of the reference for every range, whatever is in it."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from encoded_texts import assert_equal, by_tokenizers, encoded
from growth_by_size import QUADRATIC, growth
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strange_text import MARKS, ODD, TEXTS, WORDS, code_points, in_contexts, orders_of_marks
from tokenizers import Tokenizer, models

from corpora.errors import InputError
from tokenizers_train.encoding.wordpiece import WordPieceEngine
from tokenizers_train.words.bert import BertWords, build_bert_pre_tokenizer

UNCASED, CASED = BertWords(lowercase=True), BertWords(lowercase=False)
both_rules = pytest.mark.parametrize("words", [UNCASED, CASED], ids=["uncased", "cased"])
UNKNOWN = "[UNK]"
BLOCK = 1 << 13


def vocabulary(texts: Sequence[str], words: BertWords, size: int = 0) -> dict[str, int]:
    """A token for each word of a text, each letter that begins or goes on, and some pieces of two; padded to a size."""
    found = {word: None for text in texts for word in words.split(text)}
    letters = {letter: None for word in found for letter in word}
    pairs = {word[at : at + 2]: None for word in found for at in range(0, len(word) - 1, 3)}
    tokens = [UNKNOWN, *found, *letters, *(f"##{piece}" for piece in (*letters, *pairs))]
    return {token: number for number, token in enumerate(dict.fromkeys([*(f"[{i}]" for i in range(size)), *tokens]))}


def reference(ids: Mapping[str, int], words: BertWords, max_word_length: int = 100) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(dict(ids), unk_token=UNKNOWN, max_input_chars_per_word=max_word_length))
    tokenizer.normalizer, tokenizer.pre_tokenizer = words.normalizer, build_bert_pre_tokenizer()
    return tokenizer


def check(engine: WordPieceEngine, tokenizer: Tokenizer, texts: Sequence[str]) -> int:
    """Compare ids, offsets and word starts; returns how many tokens there were."""
    found = encoded(engine, texts)
    assert_equal(found, by_tokenizers(tokenizer, texts))
    return len(found.ids)


@cache
def engines() -> list[tuple[WordPieceEngine, Tokenizer]]:
    """Small vocabularies: uncased and cased, of two-byte ids and of four, with words that are too long."""
    texts = ["a", ODD[:-8], MARKS, " ".join(WORDS[:5]), "The the", "co operate inter ##nation"]
    found = []
    for words, size, longest in ((UNCASED, 0, 100), (CASED, 1 << 16, 100), (UNCASED, 1 << 16, 9), (CASED, 0, 3)):
        ids = vocabulary(texts, words, size)
        engine = WordPieceEngine(ids, words, UNKNOWN, max_word_length=longest)
        found.append((engine, reference(ids, words, longest)))
    return found


@settings(deadline=None)
@given(st.lists(TEXTS, max_size=6), st.integers(0, 3))
@example(["I\u0307stanbul e\u0301 don\u2019t", "", " \n", "a\x00b \x00 c", "中文 ab中cd"], 0)
@example(["x.\u302f\u302e\u0301 y", "\x00 \u302f\u3000\u302e-a", "\u1112\u1161\u302f\u302e"], 0)
def test_ids_are_those_of_the_reference(texts: list[str], which: int) -> None:
    check(*engines()[which], texts)


@pytest.mark.parametrize("which", range(4))
def test_marks_in_all_orders(which: int) -> None:
    assert check(*engines()[which], [*orders_of_marks()]) > 1000


def check_code_points(words: BertWords, step: int, size: int) -> None:
    codes = code_points(step)
    while block := [*islice(codes, BLOCK)]:
        texts = [in_contexts(code) for code in block]
        ids = vocabulary(texts, words, size)
        check(WordPieceEngine(ids, words, UNKNOWN), reference(ids, words), texts)


@pytest.mark.parametrize(("words", "size"), [(UNCASED, 0), (CASED, 1 << 16)], ids=["uncased", "cased, four bytes"])
def test_some_code_points_in_contexts(words: BertWords, size: int) -> None:
    check_code_points(words, 307, size)


@pytest.mark.long
@both_rules
def test_every_code_point_in_contexts(words: BertWords) -> None:
    check_code_points(words, 1, 0)


def test_a_range_encoded_by_hand() -> None:
    ids = {
        token: number for number, token in enumerate([UNKNOWN, "un", "##aff", "##able", "a", "##ffable", "##e", "."])
    }
    found = encoded(WordPieceEngine(ids, UNCASED, UNKNOWN), ["Unaffable. a", "", "unx unaffably", "ae"])
    tokens = [[*ids][number] for number in found.ids]
    assert tokens == ["un", "##aff", "##able", ".", "a", UNKNOWN, UNKNOWN, "a", "##e"]
    assert found.offsets.tolist() == [0, 5, 5, 7, 9]
    assert found.word_starts.tolist() == [1, 0, 0, 1, 1, 1, 1, 1, 0]
    assert found.ids.dtype == np.uint16


def test_ids_of_berts_own_tokenizer(shared: Path) -> None:
    gold = shared / "data/gold"
    tokens = (gold / "vocab/bert-base-uncased-vocab.txt").read_text(encoding="utf-8").splitlines()
    lines = (gold / "tokenization/bert-base-uncased.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    ids = {token: number for number, token in enumerate(tokens)}
    found = encoded(WordPieceEngine(ids, UNCASED, UNKNOWN), [record["text"] for record in records])
    assert len(records) > 400
    assert found.ids.tolist() == [number for record in records for number in record["ids"]]
    assert np.diff(found.offsets).tolist() == [len(record["ids"]) for record in records]


def text_files(shared: Path) -> list[Path]:
    found = (path for path in (shared / "data").rglob("*") if path.is_file() and path.suffix in TEXT_SUFFIXES)
    return sorted(path for path in found if path.stat().st_size)


TEXT_SUFFIXES = {".txt", ".json", ".jsonl", ".html", ".xml", ".tsv", ".csv", ".wikitext", ".nxml", ".md", ""}


@both_rules
def test_beginnings_of_real_files(shared: Path, words: BertWords) -> None:
    """The first 3,000 bytes of every seventh, read as UTF-8, wrong bytes replaced."""
    tokens = (shared / "data/gold/vocab/bert-base-uncased-vocab.txt").read_text(encoding="utf-8").splitlines()
    ids = {token: number for number, token in enumerate(tokens)}
    engine, tokenizer = WordPieceEngine(ids, words, UNKNOWN), reference(ids, words)
    files, num_tokens = text_files(shared)[::7], 0
    for path in files:
        with path.open("rb") as file:
            num_tokens += check(engine, tokenizer, [file.read(3000).decode("utf-8", "replace")])
    assert len(files) > 10 and num_tokens > 10_000


def test_words_end_with_their_range() -> None:
    """Fails if a byte outside of a range becomes part of a word, or a load passes the end of the buffer."""
    text = "internationalisation, co-operation the."
    engine, tokenizer = engines()[0]
    bounds = [(start, end) for start in range(len(text)) for end in range(start, len(text) + 1)]
    starts, ends = (np.array(column, np.int64) for column in zip(*bounds, strict=True))
    found = engine.encode(np.frombuffer(text.encode(), np.uint8), starts, ends)
    assert_equal(found, by_tokenizers(tokenizer, [text[start:end] for start, end in bounds]))


def test_more_tokens_than_there_was_room_for() -> None:
    """Fails if a word is written twice or lost when the output grows."""
    engine, tokenizer = engines()[0]
    assert (
        check(engine, tokenizer, ["...---" * 5000, "a. b. " * 3000, "a\u302e\u302f." * 2000, "\uff0e中" * 4000])
        > 40_000
    )


@pytest.mark.parametrize(("letter", "number"), [("a", 10**6), ("é", 10**6), ("\u0416", 10**6), ("\u302e", 10**5)])
def test_a_very_long_word_takes_time_by_its_length(letter: str, number: int) -> None:
    """Fails if the time grows with the square of a word's length: it would take hours."""
    ids = vocabulary([letter], UNCASED)
    engine = WordPieceEngine(ids, UNCASED, UNKNOWN, max_word_length=1 << 30)
    assert growth(lambda length: encoded(engine, [letter * length]), number) < QUADRATIC
    found = encoded(engine, [letter * number])
    assert len(found.ids) == number and found.word_starts.sum() == 1
    short = WordPieceEngine(ids, UNCASED, UNKNOWN)
    assert encoded(short, [letter * number]).ids.tolist() == [ids[UNKNOWN]]


@pytest.mark.parametrize("length", [15, 16, 17, 99, 100, 101])
@pytest.mark.parametrize("letter", ["a", "é"])
def test_the_length_of_a_word_is_counted_in_characters(letter: str, length: int) -> None:
    for longest in (length - 1, length):
        ids = vocabulary(["a é"], CASED)
        engine = WordPieceEngine(ids, CASED, UNKNOWN, max_word_length=longest)
        assert check(engine, reference(ids, CASED, longest), [letter * length]) == (1 if longest < length else length)


def test_words_of_no_length_are_unknown() -> None:
    ids = vocabulary(["a . é"], CASED)
    assert check(WordPieceEngine(ids, CASED, UNKNOWN, max_word_length=0), reference(ids, CASED, 0), ["a.é a"]) == 4
    assert check(WordPieceEngine(ids, CASED, UNKNOWN, max_word_length=10**30), reference(ids, CASED), ["a.é a"]) == 4


def test_ids_of_two_bytes_as_far_as_they_reach() -> None:
    for size, dtype in ((1 << 16, np.uint16), ((1 << 16) + 1, np.uint32)):
        ids = {UNKNOWN: 0, **{f"w{number}": number for number in range(1, size)}}
        found = encoded(WordPieceEngine(ids, CASED, UNKNOWN), [f"w{size - 1} x w1"])
        assert found.ids.dtype == dtype
        assert found.ids.tolist() == [size - 1, 0, 1]


def test_another_prefix() -> None:
    ids = {token: number for number, token in enumerate(["<unk>", "a", "@@b", "b", "@@", "##b"])}
    engine = WordPieceEngine(ids, UNCASED, "<unk>", prefix="@@")
    assert encoded(engine, ["Abb b ##b"]).ids.tolist() == [1, 2, 2, 3, 0, 0, 3]


def test_no_ranges_and_no_bytes() -> None:
    engine, _ = engines()[0]
    for texts in ([], [""], ["", ""]):
        found = encoded(engine, texts)
        assert len(found.ids) == len(found.word_starts) == 0
        assert found.offsets.tolist() == [0] * (len(texts) + 1)


def test_a_vocabulary_without_its_unknown_token_is_refused() -> None:
    with pytest.raises(InputError, match="no token '<unk>'"):
        WordPieceEngine({"a": 0}, UNCASED, "<unk>")
