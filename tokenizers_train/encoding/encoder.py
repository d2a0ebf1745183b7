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

Encode documents: a vocabulary's tokenizer without the ways by which a text could write special tokens.

A token can be special in two places: among the added tokens, which tokenizers looks for in a text before anything
else, and among the pieces of the model, where a Unigram model takes "<pad>" for its text and a WordPiece one the word
"covid". In what is made here its name is another in both, one that no text holds, and its id the same.

Promise: no text has the id of a special token: written out, it is text. A text in which none is written, and in which
the model finds none either, has the ids that `Tokenizer.from_file` gives it, ordinary added tokens included: each is
found before the text is cut into words, and as its flags say (`single_word`, `lstrip`, `rstrip`, `normalized`). Two
exceptions: the unknown token, which what no piece covers becomes; and a piece of the model that is one letter, or a
byte (`<0x0A>`), with which texts are spelt whatever it is called.

Encoding by tokenizers itself: the definition of every engine, and the engine where no kernel applies.

Promise: the ids of `Tokenizer.encode` for each sentence alone, without special tokens; a special token written out in
a text is text. Whatever tokenizer there is, this is right.

Cost: 2 to 4 MB/s of CPU time, and some 700 bytes a token while a batch of `BATCH_BYTES` is at hand.
"""

import json
import logging
import re
import secrets
from collections.abc import Iterator, Mapping
from copy import copy
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from tokenizers import Encoding, Tokenizer, models

from corpora.kernels.arrays import Bytes, Int64s
from corpora.text.buffers import check_texts, text_buffers
from tokenizers_train.encoding.byte_bpe import ByteBpeEngine
from tokenizers_train.encoding.encoded import EncodedSentences, Engine, choose_id_dtype
from tokenizers_train.encoding.unigram import UnigramEngine
from tokenizers_train.encoding.wordpiece import WordPieceEngine
from tokenizers_train.vocabularies.files import translate_tokenizers_errors
from tokenizers_train.vocabularies.settings import BYTE_BPE, UNIGRAM
from tokenizers_train.vocabularies.vocabulary import Vocabulary
from tokenizers_train.words.bert import BertWords
from tokenizers_train.words.gpt2 import Gpt2Words
from tokenizers_train.words.sentencepiece import SentencePieceWords

_BYTE_TOKEN = re.compile("<0x[0-9A-F]{2}>")
_HIDDEN_SUFFIX = f" {secrets.token_hex(16)}"  # no document can know it; no word of the engines' rules holds a space


def hide_special_tokens(vocabulary: Vocabulary) -> dict[str, Any]:
    """The parsed tokenizer.json of a vocabulary, its special tokens renamed to what no text holds."""
    content = vocabulary.content
    pieces = content["model"]["vocab"]
    tokens = {piece for piece, _ in pieces} if isinstance(pieces, list) else pieces.keys()
    special = (vocabulary.tokens[number] for number in vocabulary.special_ids.values())
    names = {token: token + _HIDDEN_SUFFIX for token in special if token not in tokens or not _is_letter(token)}
    added = [
        {**token, "content": names.get(token["content"], token["content"]), "special": _is_special(token, names)}
        for token in content["added_tokens"]
    ]
    model = _rename_pieces(content["model"], names)
    return {**content, "added_tokens": added, "model": model, "post_processor": _keep_offset_processor(content)}


def _is_letter(token: str) -> bool:
    """True if a piece is one that texts are spelt with."""
    return len(token) == 1 or _BYTE_TOKEN.fullmatch(token) is not None


def _is_special(token: Mapping[str, Any], names: Mapping[str, str]) -> bool:
    return token["special"] or token["content"] in names


def _rename_pieces(model: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """A model whose pieces have other names. What merges make a renamed one of, or it into, they no longer do."""
    if isinstance(model["vocab"], list):
        return {**model, "vocab": [[names.get(piece, piece), score] for piece, score in model["vocab"]]}
    renamed = {**model, "vocab": {names.get(piece, piece): number for piece, number in model["vocab"].items()}}
    if model.get("unk_token") is not None:
        renamed["unk_token"] = names.get(model["unk_token"], model["unk_token"])
    if "merges" in model:
        prefix = model.get("continuing_subword_prefix") or ""
        renamed["merges"] = [
            (left, right)
            for left, right in model["merges"]
            if names.keys().isdisjoint((left, right, left + right[len(prefix) :]))
        ]
    return renamed


def _keep_offset_processor(content: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what the post-processor says of where tokens begin, without templates: a text could be in one twice."""
    post = content.get("post_processor") or {}
    parts = [part for part in post.get("processors", [post]) if part.get("type") in ("ByteLevel", "RobertaProcessing")]
    return parts[0] if parts else None


BATCH_BYTES = 1 << 18


class ReferenceEngine:
    """An engine that asks tokenizers for everything.

    tokenizer: one to which special tokens in a text are text (`encoder.text_tokenizer`)
    size:      of the vocabulary, for the type of ids
    """

    def __init__(self, tokenizer: Tokenizer, size: int) -> None:
        self._tokenizer = tokenizer
        self._dtype = choose_id_dtype(size)

    def encode(self, data: Bytes, starts: Int64s, ends: Int64s) -> EncodedSentences:
        """Encode the sentences data[starts[s]:ends[s]]. Raises InputError for a text that tokenizers gives up on."""
        ids, word_starts = [np.zeros(0, self._dtype)], [np.zeros(0, np.uint8)]
        lengths: list[int] = []
        for sentences in _iter_batches(data, starts, ends):
            with translate_tokenizers_errors("A text cannot be encoded by this vocabulary's tokenizer"):
                encoded = self._tokenizer.encode_batch(sentences, add_special_tokens=False)
            lengths += [len(sentence.ids) for sentence in encoded]
            ids.append(np.array([number for sentence in encoded for number in sentence.ids], self._dtype))
            word_starts.append(
                np.array([begin for sentence in encoded for begin in mark_word_starts(sentence)], np.uint8)
            )
        offsets = np.cumsum([0, *lengths], dtype=np.int64)
        return EncodedSentences(np.concatenate(ids), offsets, np.concatenate(word_starts))


def mark_word_starts(encoding: Encoding) -> list[bool]:
    """For each token whether it is the first of a word."""
    return [word != before for before, word in pairwise([None, *encoding.word_ids])]


def _iter_batches(data: Bytes, starts: Int64s, ends: Int64s) -> Iterator[list[str]]:
    """The sentences as strings, some `BATCH_BYTES` of them at a time."""
    batch: list[str] = []
    size = 0
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        batch.append(data[start:end].tobytes().decode())
        size += end - start
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


logger = logging.getLogger(__name__)


class Encoder:
    """Turns sentences into ids of a vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._engine = build_engine(vocabulary)

    def with_size(self, size: int) -> "Encoder":
        """Return an encoder whose ids are those of a vocabulary that stopped growing at `size` tokens.

        Of byte-level BPE the tokens after its pieces keep their ids. For a vocabulary that was trained here to merge.
        """
        assert isinstance(self._engine, (WordPieceEngine, ByteBpeEngine)), "only what grows by merges has beginnings"
        smaller = copy(self)
        smaller._engine = self._engine.without_last_tokens(self.vocabulary.size - size)
        return smaller

    def encode_sentences(self, texts: pa.Array, starts: Int64s, ends: Int64s) -> EncodedSentences:
        """Encode the sentences data[starts[s]:ends[s]] of the column's data (`text_buffers(texts).data`).

        texts: large_string without nulls
        starts, ends: int64, byte offsets into the column's data, at boundaries of characters; any order
        Raises InputError for another column, or for offsets outside of its data.
        """
        data, _ = text_buffers(texts)
        check_texts(data, starts, ends)
        return self._engine.encode(data, starts, ends)

    def include_leading_spaces(
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
        is_continued = np.ones(len(starts), np.bool_)
        is_continued[rows[:-1][np.diff(rows) > 0]] = False
        after_space = np.flatnonzero(is_continued)
        after_space = after_space[data[starts[after_space] - 1] == ord(" ")]
        moved = starts.copy()
        moved[after_space] -= 1
        return moved


def build_engine(vocabulary: Vocabulary) -> Engine:
    """The engine of a vocabulary: kernels where its rules are known, else tokenizers with a line in the log."""
    rule = vocabulary.word_rule
    if rule is None:
        logger.warning(describe_slow_rules(vocabulary))
        return ReferenceEngine(build_text_tokenizer(vocabulary), vocabulary.size)
    content = hide_special_tokens(vocabulary)
    model = content["model"]
    if isinstance(rule, SentencePieceWords):
        return UnigramEngine([(piece, score) for piece, score in model["vocab"]], model["unk_id"], rule)
    ids = model["vocab"] | {token["content"]: token["id"] for token in content["added_tokens"]}
    if isinstance(rule, BertWords):
        max_word_length = model["max_input_chars_per_word"]
        return WordPieceEngine(ids, rule, model["unk_token"], model["continuing_subword_prefix"], max_word_length)
    assert isinstance(rule, Gpt2Words), "a rule without an engine"
    return ByteBpeEngine(ids, model["merges"], rule, model["unk_token"])


def describe_slow_rules(vocabulary: Vocabulary) -> str:
    """Return the log's message on a vocabulary whose rules no kernel knows."""
    return (
        f"The tokenizer of this vocabulary (a {vocabulary.algorithm} of {vocabulary.size} tokens) has rules that the "
        "kernels do not know: its texts are encoded by tokenizers itself, with the same ids, many times slower."
    )


def encode_plain(vocabulary: Vocabulary, texts: pa.Array, starts: Int64s, ends: Int64s) -> EncodedSentences:
    """Encode each sentence by the vocabulary's tokenizer: the definition of `Encoder.encode_sentences`."""
    data, _ = text_buffers(texts)
    check_texts(data, starts, ends)
    return ReferenceEngine(build_text_tokenizer(vocabulary), vocabulary.size).encode(data, starts, ends)


def build_text_tokenizer(vocabulary: Vocabulary) -> Tokenizer:
    """The vocabulary's tokenizer, to which a special token written out in a text is text."""
    content = hide_special_tokens(vocabulary)
    model = content["model"]
    tokenizer = Tokenizer.from_str(json.dumps(content))
    if vocabulary.algorithm == UNIGRAM:  # the numbers themselves: what is written in JSON is not read to the last bit
        pieces = [(piece, score) for piece, score in model["vocab"]]
        tokenizer.model = models.Unigram(pieces, model["unk_id"], model["byte_fallback"])
    tokenizer.encode_special_tokens = True
    return tokenizer
