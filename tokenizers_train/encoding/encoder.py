"""Sentences as token ids.

Promise: `Encoder.encode_sentences` gives the ids that the vocabulary's Hugging Face tokenizer gives each
sentence, without the special tokens around it (`encode_plainly` is that definition), and the places where
words begin. A special token written out in a text, such as "[MASK]", is text and not that token: no document
can put control tokens into the training data, also where tokenizers finds the token when it is set not to look for
any (`documents.py`). Ordinary added tokens are found in texts as tokenizers finds them.

A sentence is encoded by itself, its range as it is given. In byte-level BPE a word has the space before it in its
token, and trimmed sentences have none: joined again, the tokens of two sentences would lose the space between
them. So a sentence that follows another one in its text is given with that space (`Encoder.sentence_starts`); a
text's first sentence, and one after a line end, begins without a space, as RoBERTa's texts do.

The work is done by an engine: kernels for the rules of BERT, of GPT-2 and RoBERTa, and of ALBERT; tokenizers itself
for any other tokenizer, and the log says so. What each costs, it says itself. An encoder belongs to one thread.
"""

import json
import logging
from copy import copy

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer, models

from corpora.kernels.arrays import Bytes, Int64s
from corpora.text.buffers import check_texts, text_buffers
from tokenizers_train.encoding.byte_bpe import ByteBpeEngine
from tokenizers_train.encoding.documents import document_content
from tokenizers_train.encoding.encoded import Encoded, Engine
from tokenizers_train.encoding.reference import ReferenceEngine
from tokenizers_train.encoding.unigram import UnigramEngine
from tokenizers_train.encoding.wordpiece import WordPieceEngine
from tokenizers_train.vocabularies.settings import BYTE_BPE, UNIGRAM
from tokenizers_train.vocabularies.vocabulary import Vocabulary
from tokenizers_train.words.bert import BertWords
from tokenizers_train.words.gpt2 import Gpt2Words
from tokenizers_train.words.sentencepiece import SentencePieceWords

logger = logging.getLogger(__name__)


class Encoder:
    """Turns sentences into ids of a vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._engine = engine_of(vocabulary)

    def beginning(self, size: int) -> "Encoder":
        """Return an encoder whose ids are those of a vocabulary that stopped growing at `size` tokens.

        Of byte-level BPE the tokens after its pieces keep their ids. For a vocabulary that was trained here to merge.
        """
        assert isinstance(self._engine, (WordPieceEngine, ByteBpeEngine)), "only what grows by merges has beginnings"
        smaller = copy(self)
        smaller._engine = self._engine.without_last(self.vocabulary.size - size)
        return smaller

    def encode_sentences(self, texts: pa.Array, starts: Int64s, ends: Int64s) -> Encoded:
        """Encode the sentences data[starts[s]:ends[s]] of the column's data (`text_buffers(texts).data`).

        texts: large_string without nulls
        starts, ends: int64, byte offsets into the column's data, at boundaries of characters; any order
        Raises InputError for another column, or for offsets outside of its data.
        """
        data, _ = text_buffers(texts)
        check_texts(data, starts, ends)
        return self._engine.encode(data, starts, ends)

    def sentence_starts(
        self,
        data: Bytes,
        starts: Int64s,
        rows: Int64s,
    ) -> Int64s:
        """Return where the sentences of texts are to begin: with the space before them, where the vocabulary keeps it.

        data, starts, rows: a column's data and where `sentence_offsets` found sentences in it
        """
        if self.vocabulary.algorithm != BYTE_BPE:
            return starts
        follows = np.ones(len(starts), np.bool_)
        follows[rows[:-1][np.diff(rows) > 0]] = False
        spaced = np.flatnonzero(follows)
        spaced = spaced[data[starts[spaced] - 1] == ord(" ")]
        moved = starts.copy()
        moved[spaced] -= 1
        return moved


def engine_of(vocabulary: Vocabulary) -> Engine:
    """The engine of a vocabulary: kernels where its rules are known, else tokenizers with a line in the log."""
    rule = vocabulary.word_rule
    if rule is None:
        logger.warning(slow_words(vocabulary))
        return ReferenceEngine(text_tokenizer(vocabulary), vocabulary.size)
    content = document_content(vocabulary)
    model = content["model"]
    if isinstance(rule, SentencePieceWords):
        return UnigramEngine([(piece, score) for piece, score in model["vocab"]], model["unk_id"], rule)
    ids = model["vocab"] | {token["content"]: token["id"] for token in content["added_tokens"]}
    if isinstance(rule, BertWords):
        longest = model["max_input_chars_per_word"]
        return WordPieceEngine(ids, rule, model["unk_token"], model["continuing_subword_prefix"], longest)
    assert isinstance(rule, Gpt2Words), "a rule without an engine"
    return ByteBpeEngine(ids, model["merges"], rule, model["unk_token"])


def slow_words(vocabulary: Vocabulary) -> str:
    """Return the log's message on a vocabulary whose rules no kernel knows."""
    return (
        f"The tokenizer of this vocabulary (a {vocabulary.algorithm} of {vocabulary.size} tokens) has rules that the "
        "kernels do not know: its texts are encoded by tokenizers itself, with the same ids, many times slower."
    )


def encode_plainly(vocabulary: Vocabulary, texts: pa.Array, starts: Int64s, ends: Int64s) -> Encoded:
    """Encode each sentence by the vocabulary's tokenizer: the definition of `Encoder.encode_sentences`."""
    data, _ = text_buffers(texts)
    check_texts(data, starts, ends)
    return ReferenceEngine(text_tokenizer(vocabulary), vocabulary.size).encode(data, starts, ends)


def text_tokenizer(vocabulary: Vocabulary) -> Tokenizer:
    """The vocabulary's tokenizer, to which a special token written out in a text is text."""
    content = document_content(vocabulary)
    model = content["model"]
    tokenizer = Tokenizer.from_str(json.dumps(content))
    if vocabulary.algorithm == UNIGRAM:  # the numbers themselves: what is written in JSON is not read to the last bit
        pieces = [(piece, score) for piece, score in model["vocab"]]
        tokenizer.model = models.Unigram(pieces, model["unk_id"], model["byte_fallback"])
    tokenizer.encode_special_tokens = True
    return tokenizer
