"""Texts encoded by an engine, by a vocabulary and by tokenizers itself, to be compared."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
from text_columns import column
from tokenizers import Tokenizer

from corpora.kernels.arrays import Int64s
from corpora.text.buffers import to_text_buffers
from tokenizers_train.encoding.encoded import EncodedSentences, Engine
from tokenizers_train.encoding.encoder import Encoder, encode_plain
from tokenizers_train.vocabularies.vocabulary import Vocabulary


def sentences(texts: Sequence[str]) -> tuple[pa.Array, Int64s, Int64s]:
    """A column of texts, each of them one sentence."""
    rows = column(texts)
    offsets = to_text_buffers(rows).offsets
    return rows, offsets[:-1], offsets[1:]


def encoded(engine: Engine, texts: Sequence[str]) -> EncodedSentences:
    """What an engine makes of texts that lie one after another, without a byte between them."""
    rows, starts, ends = sentences(texts)
    return engine.encode(to_text_buffers(rows).data, starts, ends)


def by_tokenizers(tokenizer: Tokenizer, texts: Sequence[str]) -> EncodedSentences:
    """What tokenizers gives each text."""
    found = tokenizer.encode_batch([*texts], add_special_tokens=False)
    begins = [word != before for one in found for before, word in pairwise([None, *one.word_ids])]
    ids = np.array([number for one in found for number in one.ids], np.int64)
    return EncodedSentences(ids, np.cumsum([0, *(len(one.ids) for one in found)]), np.array(begins, np.uint8))


def defined(vocabulary: Vocabulary, texts: Sequence[str]) -> EncodedSentences:
    """What a vocabulary makes of texts, which is what tokenizers does with them."""
    rows = sentences(texts)
    found = Encoder(vocabulary).encode_sentences(*rows)
    assert_equal(found, encode_plain(vocabulary, *rows))
    return found


def assert_equal(found: EncodedSentences, expected: EncodedSentences) -> None:
    """Fails if an id, a place or the beginning of a word differs."""
    for name in EncodedSentences._fields:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    assert found.word_starts.dtype == np.uint8 and found.ids.dtype in (np.uint16, np.uint32)
