"""Encoding: the ids of the reference for every sentence, from first call to last."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from corpora.errors import InputError
from corpora.text.buffers import text_buffers
from tokenizers_train.counts import count_words
from tokenizers_train.encode import Encoded, Encoder, encode_plainly
from tokenizers_train.vocabulary import SPECIAL_TOKENS, Vocabulary, VocabularySettings
from tokenizers_train.wordpiece import train_wordpiece

SPECIALS = (*SPECIAL_TOKENS.values(),)
LETTERS = ("a", "b", "é", "[", "]", "mask", ".", "“", "中", "##a", "##b", "##é", "ab", "##bab", "MASK")
CASED = Vocabulary(tokens=(*SPECIALS, *LETTERS), lowercase=False, max_word_length=6)
UNCASED = Vocabulary(tokens=(*SPECIALS, *LETTERS))
TEXTS = st.lists(
    st.lists(
        st.sampled_from(["a", "b", "A", "É", "é", "e\u0301", " ", "\n", ".", "“", "中", "\x00", "x", "[MASK]"])
    ).map("".join),
    max_size=6,
)

Offsets = npt.NDArray[np.int64]


def rows_as_sentences(texts: list[str]) -> tuple[pa.Array, Offsets, Offsets]:
    """A column of texts, each of them one sentence."""
    column = pa.array(texts, pa.large_string())
    offsets = text_buffers(column).offsets
    return column, offsets[:-1], offsets[1:]


def assert_equal(found: Encoded, expected: Encoded) -> None:
    for name in Encoded._fields:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
        assert getattr(found, name).dtype == getattr(expected, name).dtype


@settings(deadline=None)
@given(TEXTS, TEXTS, st.sampled_from([CASED, UNCASED]))
def test_ids_equal_the_definition(first: list[str], second: list[str], vocabulary: Vocabulary) -> None:
    encoder = Encoder(vocabulary)
    for texts in (first, second):  # the second call meets words known from the first
        sentences = rows_as_sentences(texts)
        assert_equal(encoder.encode_sentences(*sentences), encode_plainly(vocabulary, *sentences))


def test_a_sentence_encoded_by_hand() -> None:
    encoded = Encoder(UNCASED).encode_sentences(*rows_as_sentences(["Aba. abbab x", "", "ab"]))
    tokens = [UNCASED.tokens[number] for number in encoded.ids]
    assert tokens == ["ab", "##a", ".", "ab", "##bab", "[UNK]", "ab"]
    assert encoded.word_starts.tolist() == [1, 0, 1, 1, 0, 1, 1]
    assert encoded.offsets.tolist() == [0, 6, 6, 7]
    assert encoded.ids.dtype == np.uint16 and encoded.word_starts.dtype == np.uint8


def test_the_tokenizer_of_the_saved_folder_gives_the_same_ids(tmp_path: Path) -> None:
    texts = [f"Some words, {i} of them: “unwordly” naïve co-words!" for i in range(40)]
    column = pa.array(texts, pa.large_string())
    vocabulary = train_wordpiece(count_words(column, True), VocabularySettings(size=120))
    vocabulary.save(tmp_path)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    expected = [encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]
    encoded = Encoder(vocabulary).encode_sentences(*rows_as_sentences(texts))
    assert encoded.ids.tolist() == [number for ids in expected for number in ids]
    assert len(set(encoded.ids.tolist())) > 20, "hardly a token was compared"


def test_special_tokens_in_a_text_are_text() -> None:
    for vocabulary, word in ((CASED, "MASK"), (UNCASED, "mask")):
        encoded = Encoder(vocabulary).encode_sentences(*rows_as_sentences(["[MASK] é[MASK]é"]))
        tokens = [vocabulary.tokens[number] for number in encoded.ids]
        assert tokens[:3] == ["[", word, "]"]
        assert "[MASK]" not in tokens


def test_sentences_within_texts_in_any_order() -> None:
    column = pa.array(["zz", "ab. É ab", "b"], pa.large_string()).slice(1)
    starts, ends = np.array([6, 2, 11], np.int64), np.array([8, 5, 12], np.int64)
    encoded = Encoder(UNCASED).encode_sentences(column, starts, ends)
    assert_equal(encoded, encode_plainly(UNCASED, column, starts, ends))
    assert [UNCASED.tokens[number] for number in encoded.ids] == ["[UNK]", "ab", ".", "b"]


def test_forgetting_changes_nothing() -> None:
    encoder = Encoder(UNCASED, max_known_bytes=3)
    for texts, num_known in ((["ab"], 1), (["ab abab a"], 3), (["b a é x a"], 4)):
        sentences = rows_as_sentences(texts)
        assert_equal(encoder.encode_sentences(*sentences), encode_plainly(UNCASED, *sentences))
        assert encoder.num_known == num_known  # "ab" has 2 bytes and is kept, "ab", "abab", "a" are forgotten


def test_a_large_vocabulary_has_four_byte_ids() -> None:
    tokens = (*SPECIALS, *(f"w{i}" for i in range(1 << 16)))
    encoded = Encoder(Vocabulary(tokens=tokens)).encode_sentences(*rows_as_sentences(["w65535"]))
    assert encoded.ids.dtype == np.uint32
    assert encoded.ids.tolist() == [65535 + len(SPECIALS)]


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (2, 1), (0, 4)])
def test_offsets_outside_the_column_are_refused(start: int, end: int) -> None:
    column = pa.array(["abc"], pa.large_string())
    with pytest.raises(InputError, match="Sentence 0 runs from byte"):
        Encoder(UNCASED).encode_sentences(column, np.array([start], np.int64), np.array([end], np.int64))


def test_starts_without_ends_are_refused() -> None:
    column = pa.array(["abc"], pa.large_string())
    with pytest.raises(InputError, match="give one end for each start"):
        Encoder(UNCASED).encode_sentences(column, np.array([0], np.int64), np.array([], np.int64))
