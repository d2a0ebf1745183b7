"""Byte-level BPE training: vocabularies made by hand. Others equal the reference's: `test_trainers.py`."""

import pyarrow as pa
import pytest
from text_columns import table
from tokenizers import pre_tokenizers

from corpora.errors import InputError
from tokenizers_train.learning.byte_bpe import spell_bytes, train_byte_bpe
from tokenizers_train.learning.merges_kernels import EDGE
from tokenizers_train.vocabularies.roberta import BYTE_LETTERS, SPECIAL_TOKENS
from tokenizers_train.vocabularies.settings import VocabularySettings
from tokenizers_train.vocabularies.vocabulary import Vocabulary
from tokenizers_train.words.counts import count_words
from tokenizers_train.words.gpt2 import Gpt2Words
from tokenizers_train.words.table import COUNTS_SCHEMA, WordCounts

FIRST = ("<s>", "<pad>", "</s>", "<unk>")


def learn(counts: WordCounts, size: int, min_frequency: int = 2) -> Vocabulary:
    return train_byte_bpe(counts, VocabularySettings(algorithm="byte-bpe", size=size, min_frequency=min_frequency))


def test_a_vocabulary_made_by_hand() -> None:
    # u g is in hug, pug, hugs: 20; u n in pun, bun: 16; then h ug in hug, hugs: 15.
    vocabulary = learn(table({"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}), size=264)
    assert vocabulary.tokens == (*FIRST, *sorted(BYTE_LETTERS), "ug", "un", "hug", "<mask>")
    assert vocabulary.merges == (("u", "g"), ("u", "n"), ("h", "ug"))
    assert vocabulary.special_ids == {"cls": 0, "pad": 1, "sep": 2, "unk": 3, "mask": 263}
    assert (vocabulary.algorithm, vocabulary.lowercase) == ("byte-bpe", False)


def test_bytes_are_numbered_in_the_order_of_their_letters() -> None:
    words = spell_bytes(table({" é": 1, "z": 2}))
    pieces = words.cells.pieces.tolist()
    assert [words.letters[piece] if piece != EDGE else "" for piece in pieces] == ["", "Ġ", "Ã", "©", "", "z", ""]
    assert words.cells.runs.tolist() == [1, 5, 7] and words.cells.counts.tolist() == [1, 2]
    assert words.letters == sorted(pre_tokenizers.ByteLevel.alphabet())


def test_a_special_token_written_out_often_is_not_learnt() -> None:
    text = "<mask> <s>x</s> <pad>" * 50
    vocabulary = learn(count_words(Gpt2Words(), pa.array([text], pa.large_string())), size=400)
    assert {"mask", "pad", "</"} <= {*vocabulary.tokens}
    assert not {left + right for left, right in vocabulary.merges} & {*SPECIAL_TOKENS.values()}


def test_no_words_are_refused() -> None:
    with pytest.raises(InputError, match="no words"):
        learn(COUNTS_SCHEMA.empty_table(), size=300)
