"""Encoding: the ids of the reference for every sentence, from first call to last."""

import numpy as np
import pyarrow as pa
import pytest
from encoded_texts import assert_equal, sentences
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.errors import InputError
from corpora.text.buffers import to_text_buffers
from corpora.text.sentences.splitter import sentence_offsets
from tokenizers_train.encoding.encoder import Encoder, build_engine, encode_plain
from tokenizers_train.learning.byte_bpe import train_byte_bpe
from tokenizers_train.vocabularies.bert import SPECIAL_TOKENS
from tokenizers_train.vocabularies.settings import VocabularySettings
from tokenizers_train.vocabularies.vocabulary import Vocabulary, build_albert_vocabulary, build_bert_vocabulary
from tokenizers_train.words.counts import count_words

SPECIALS = (*SPECIAL_TOKENS.values(),)
LETTERS = ("a", "b", "é", "[", "]", "mask", ".", "“", "中", "##a", "##b", "##é", "ab", "##bab", "MASK")
CASED = build_bert_vocabulary((*SPECIALS, *LETTERS), lowercase=False, max_word_length=6)
UNCASED = build_bert_vocabulary((*SPECIALS, *LETTERS))
PARTS = [*"abAÉé \n.'s“中\x00x", "e\u0301", " ", "[MASK]", "<mask>"]
TEXTS = st.lists(st.lists(st.sampled_from(PARTS)).map("".join), max_size=6)


def byte_bpe(text: str, size: int) -> Vocabulary:
    """A byte-level BPE vocabulary learnt from one text."""
    settings = VocabularySettings(algorithm="byte-bpe", size=size, min_frequency=1)
    return train_byte_bpe(count_words(settings.word_rule, pa.array([text], pa.large_string())), settings)


BYTES = byte_bpe("abab ab aba éa é ébé bé “a “ab 中 a's b's ba's\n\n <mask> [MASK] x", 300)


@settings(deadline=None)
@given(TEXTS, TEXTS, st.sampled_from([CASED, UNCASED, BYTES]))
def test_ids_equal_the_definition(first: list[str], second: list[str], vocabulary: Vocabulary) -> None:
    encoder = Encoder(vocabulary)
    for texts in (first, second):  # the second call meets words known from the first
        rows = sentences(texts)
        assert_equal(encoder.encode_sentences(*rows), encode_plain(vocabulary, *rows))


def test_a_sentence_encoded_by_hand_in_bytes() -> None:
    vocabulary = byte_bpe("ab ab ab cab", 264)
    assert vocabulary.tokens[260:] == ("ab", "Ġab", "cab", "<mask>")
    encoded = Encoder(vocabulary).encode_sentences(*sentences(["ab ab. abc é", "", "cabb"]))
    tokens = [vocabulary.tokens[number] for number in encoded.ids]
    assert tokens == ["ab", "Ġab", ".", "Ġab", "c", "Ġ", "Ã", "©", "cab", "b"]
    assert encoded.word_starts.tolist() == [1, 1, 1, 1, 0, 1, 0, 0, 1, 0]
    assert encoded.offsets.tolist() == [0, 8, 8, 10]


def test_special_tokens_in_a_text_are_text() -> None:
    in_bytes = Encoder(BYTES).encode_sentences(*sentences(["<mask> a<mask></s>"]))
    assert not {*in_bytes.ids.tolist()} & {*BYTES.special_ids.values()}
    assert "".join(BYTES.format_token(number) for number in in_bytes.ids) == "<mask>\u2423a<mask></s>"
    for vocabulary, word in ((CASED, "MASK"), (UNCASED, "mask")):
        encoded = Encoder(vocabulary).encode_sentences(*sentences(["[MASK] é[MASK]é"]))
        tokens = [vocabulary.tokens[number] for number in encoded.ids]
        assert tokens[:3] == ["[", word, "]"]
        assert "[MASK]" not in tokens


def test_sentences_within_texts_in_any_order() -> None:
    column = pa.array(["zz", "ab. É ab", "b"], pa.large_string()).slice(1)
    starts, ends = np.array([6, 2, 11], np.int64), np.array([8, 5, 12], np.int64)
    encoded = Encoder(UNCASED).encode_sentences(column, starts, ends)
    assert_equal(encoded, encode_plain(UNCASED, column, starts, ends))
    assert [UNCASED.tokens[number] for number in encoded.ids] == ["[UNK]", "ab", ".", "b"]


def test_sentences_keep_the_space_between_them_where_the_vocabulary_does() -> None:
    column = pa.array([" One é. Two b.  Three.\nFour.\n\nFive five", "", "Six. Seven."], pa.large_string())
    data, offsets = to_text_buffers(column)
    starts, ends, rows = sentence_offsets(data, offsets)
    moved = Encoder(BYTES).include_leading_spaces(data, starts, rows)
    cut = [data[start:end].tobytes().decode() for start, end in zip(moved, ends, strict=True)]
    assert cut == ["One é.", " Two b.", " Three.", "Four.", "Five five", "Six.", " Seven."]
    encoded = Encoder(BYTES).encode_sentences(column, moved, ends)
    assert_equal(encoded, encode_plain(BYTES, column, moved, ends))
    assert Encoder(UNCASED).include_leading_spaces(data, starts, rows) is starts


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (2, 1), (0, 4)])
def test_offsets_outside_the_column_are_refused(start: int, end: int) -> None:
    column = pa.array(["abc"], pa.large_string())
    with pytest.raises(InputError, match="Text 0 runs from byte"):
        Encoder(UNCASED).encode_sentences(column, np.array([start], np.int64), np.array([end], np.int64))


@pytest.mark.parametrize("vocabulary", [UNCASED, BYTES, build_albert_vocabulary([("\u2581", -1.0), ("a", -2.0)])])
def test_each_engine_refuses_them(vocabulary: Vocabulary) -> None:
    with pytest.raises(InputError, match="Text 0 runs from byte 0 to 4"):
        build_engine(vocabulary).encode(np.zeros(3, np.uint8), np.array([0]), np.array([4]))


def test_starts_without_ends_are_refused() -> None:
    column = pa.array(["abc"], pa.large_string())
    with pytest.raises(InputError, match="give one end for each start"):
        Encoder(UNCASED).encode_sentences(column, np.array([0], np.int64), np.array([], np.int64))
