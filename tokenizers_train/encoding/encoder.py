"""Sentences as token ids.

Promise: `Encoder.encode_sentences` gives the ids that the vocabulary's Hugging Face tokenizer gives each
sentence, without the special tokens around it (`encode_plainly` is that definition), and the places where
words begin. A special token written out in a text, such as "[MASK]", is text and not that token: no document
can put control tokens into the training data. (So Unigram's "<pad>" is cut into pieces here, where tokenizers finds
the special token even when it is told not to look for any: there it is a piece of the model, too.)

A sentence is encoded by itself, its range as it is given. In byte-level BPE a word has the space before it in its
token, and trimmed sentences have none: joined again, the tokens of two sentences would lose the space between
them. So a sentence that follows another one in its text is given with that space (`Encoder.sentence_starts`); a
text's first sentence, and one after a line end, begins without a space, as RoBERTa's texts do.

The work is done by an engine: kernels for the rules of BERT, of GPT-2 and RoBERTa, and of ALBERT; tokenizers itself
for any other tokenizer, and the log says so. What each costs, it says itself. An encoder belongs to one thread.
"""

import json
import logging

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer

from corpora.kernels.arrays import Bytes, Int64s
from corpora.text.buffers import text_buffers
from tokenizers_train.encoding.byte_bpe import ByteBpeEngine
from tokenizers_train.encoding.encoded import Encoded, Engine, check_ranges
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

    def encode_sentences(self, texts: pa.Array, starts: Int64s, ends: Int64s) -> Encoded:
        """Encode the sentences data[starts[s]:ends[s]] of the column's data (`text_buffers(texts).data`).

        texts: large_string without nulls
        starts, ends: int64, byte offsets into the column's data, at boundaries of characters; any order
        Raises InputError for another column, or for offsets outside of its data.
        """
        data, _ = text_buffers(texts)
        check_ranges(len(data), starts, ends)
        return self._engine.encode(data, starts, ends)

    def sentence_starts(
        self,
        data: Bytes,
        starts: Int64s,
        rows: Int64s,
    ) -> Int64s:
        """Where the sentences of texts are to begin: with the space before them, where the vocabulary keeps it.

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
    rule, model = vocabulary.word_rule, vocabulary.content["model"]
    ids = {token: number for number, token in enumerate(vocabulary.tokens)}
    if isinstance(rule, BertWords):
        unknown, prefix = model["unk_token"], model["continuing_subword_prefix"]
        return WordPieceEngine(ids, rule, unknown, prefix, model["max_input_chars_per_word"])
    if isinstance(rule, Gpt2Words):
        return ByteBpeEngine(ids, vocabulary.merges, rule, model["unk_token"])
    if isinstance(rule, SentencePieceWords):
        pieces = [(piece, score) for piece, score in model["vocab"]]
        return UnigramEngine(pieces, model["unk_id"], rule, special={*vocabulary.special_ids.values()})
    logger.warning(slow_words(vocabulary))
    return ReferenceEngine(text_tokenizer(vocabulary), vocabulary.size)


def slow_words(vocabulary: Vocabulary) -> str:
    """What the log says of a vocabulary whose rules no kernel knows."""
    return (
        f"The tokenizer of this vocabulary (a {vocabulary.algorithm} of {vocabulary.size} tokens) has rules that the "
        "kernels do not know: its texts are encoded by tokenizers itself, with the same ids, many times slower."
    )


def encode_plainly(vocabulary: Vocabulary, texts: pa.Array, starts: Int64s, ends: Int64s) -> Encoded:
    """What `Encoder.encode_sentences` means: each sentence given to the vocabulary's tokenizer."""
    data, _ = text_buffers(texts)
    check_ranges(len(data), starts, ends)
    return ReferenceEngine(text_tokenizer(vocabulary), vocabulary.size).encode(data, starts, ends)


def text_tokenizer(vocabulary: Vocabulary) -> Tokenizer:
    """The vocabulary's tokenizer, to which a special token written out in a text is text."""
    definition = vocabulary.definition
    if vocabulary.algorithm == UNIGRAM:
        definition = _without_special_pieces(vocabulary)
    tokenizer = Tokenizer.from_str(definition)
    tokenizer.encode_special_tokens = True
    return tokenizer


def _without_special_pieces(vocabulary: Vocabulary) -> str:
    """The definition of a Unigram tokenizer, its special tokens renamed to what no word holds.

    They are pieces of the model with the best score, so that otherwise it would choose them for their text.
    """
    special = {*vocabulary.special_ids.values()}
    pieces = [
        [f" {piece}" if number in special else piece, score]
        for number, (piece, score) in enumerate(vocabulary.content["model"]["vocab"])
    ]
    model = {**vocabulary.content["model"], "vocab": pieces}
    return json.dumps({**vocabulary.content, "model": model, "added_tokens": []})
