"""Sentences as token ids.

Promise: `Encoder.encode_sentences` gives the ids that the vocabulary's Hugging Face tokenizer gives each sentence by
itself, without the special tokens around it (`encode_plain` is the reference implementation), and the tokens at which
words begin. Ordinary added tokens are found in texts as tokenizers finds them, before a text is cut into words and as
their flags say (`single_word`, `lstrip`, `rstrip`, `normalized`).

No text has the id of a special token: written out, such as "[MASK]", it is text, so no document can put control tokens
into the training data. A token can be special in two places: among the added tokens, which tokenizers looks for in a
text before anything else, and among the pieces of the model, in which a Unigram model finds "<pad>" and a WordPiece one
the word "covid". `hide_special_tokens` gives it another name in both, one that no text holds, and the same id. Two
exceptions: the unknown token, which stands for what no piece covers; and a piece of the model that is one letter, or a
byte (`<0x0A>`): texts are spelled with these whatever they are called.

A sentence is encoded as the range that is given. In byte-level BPE a word has the space before it in its token, and
trimmed sentences have none: joined again, the tokens of two sentences would lose the space between them. So a sentence
that follows another one in its text is given with that space (`Encoder.include_leading_spaces`); a text's first
sentence, and one after a line end, begins without a space, as RoBERTa's texts do.

The work is done by an engine: kernels for the rules of BERT, of GPT-2 and RoBERTa, and of ALBERT, which state their own
cost; tokenizers itself for any other tokenizer, and the log says so. That costs 2 to 4 MB/s of CPU time, and some 700
bytes a token while a batch of `BATCH_BYTES` is encoded. An encoder belongs to one thread.
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
from corpora.text.buffers import check_texts, to_text_buffers
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
    """Return a vocabulary's parsed tokenizer.json in which each special token has a name that no text can contain.

    Ids do not change. Single characters and bytes such as `<0x0A>` in the model keep their names, because ordinary text
    is spelled with them.
    """
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
    """Return whether a piece is a single character or a byte such as `<0x0A>`."""
    return len(token) == 1 or _BYTE_TOKEN.fullmatch(token) is not None


def _is_special(token: Mapping[str, Any], names: Mapping[str, str]) -> bool:
    return token["special"] or token["content"] in names


def _rename_pieces(model: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the model of a tokenizer.json with renamed pieces, as parsed JSON.

    Merges that contain or produce a renamed piece are removed.

    Args:
        model: The model, as parsed JSON.
        names: Maps each piece to rename to its new name.
    """
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
    """Return the part of a tokenizer.json's post-processor that adjusts offsets, or None if there is none.

    Templates that add special tokens are left out. `content` is the parsed tokenizer.json.
    """
    post = content.get("post_processor") or {}
    parts = [part for part in post.get("processors", [post]) if part.get("type") in ("ByteLevel", "RobertaProcessing")]
    return parts[0] if parts else None


BATCH_BYTES = 1 << 18


class ReferenceEngine:
    """Encodes sentences with the Hugging Face tokenizers library.

    It defines the correct output of all other engines, and it is used for vocabularies with rules that no other engine
    supports.

    Args:
        tokenizer: A tokenizer that treats special tokens in a text as ordinary text (see `build_text_tokenizer`).
        size: Number of tokens in the vocabulary, which determines the integer type of the ids.
    """

    def __init__(self, tokenizer: Tokenizer, size: int) -> None:
        self._tokenizer = tokenizer
        self._dtype = choose_id_dtype(size)

    def encode(self, data: Bytes, starts: Int64s, ends: Int64s) -> EncodedSentences:
        """Encode each sentence data[starts[s]:ends[s]] separately with the Hugging Face tokenizers library.

        The sentences may be in any order.

        The ranges are not checked, and must consist of whole UTF-8 characters.

        Returns:
            The tokens that the tokenizers library gives the sentences, in the given order.

        Raises:
            InputError: If the tokenizers library fails on a text.
        """
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
    """Return a boolean for each token of an encoding: True if it is the first token of a word.

    The encoding must not contain special tokens.
    """
    return [word != before for before, word in pairwise([None, *encoding.word_ids])]


def _iter_batches(data: Bytes, starts: Int64s, ends: Int64s) -> Iterator[list[str]]:
    """Yield the sentences data[starts[s]:ends[s]] as strings, in batches of about `BATCH_BYTES` bytes."""
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
    """Encodes sentences with a vocabulary. An encoder must not be shared between threads."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._engine = build_engine(vocabulary)

    def with_size(self, size: int) -> "Encoder":
        """Return an encoder for the vocabulary that training would have produced with a maximum of `size` tokens.

        Only WordPiece and byte-level BPE vocabularies trained by this package are supported. In byte-level BPE, special
        tokens after the learned pieces (such as <mask>) keep their ids.

        Args:
            size: Between the number of tokens before the first merge and the size of the vocabulary.
        """
        assert isinstance(self._engine, (WordPieceEngine, ByteBpeEngine)), "only what grows by merges has beginnings"
        smaller = copy(self)
        smaller._engine = self._engine.without_last_tokens(self.vocabulary.size - size)
        return smaller

    def encode_sentences(self, texts: pa.Array, starts: Int64s, ends: Int64s) -> EncodedSentences:
        """Encode sentences given as byte ranges of a text column. Each sentence is encoded separately.

        Args:
            texts: large_string column without nulls.
            starts: int64 [sentences], first byte of each sentence in `to_text_buffers(texts).data`. Sentences may be in
                any order.
            ends: int64 [sentences], end of each sentence (exclusive).

        Returns:
            The tokens of the sentences, in the given order, without special tokens.

        Raises:
            InputError: If the column is not large_string (or large_binary with valid UTF-8) or has nulls, or if a range
                is outside the data or splits a UTF-8 character.
        """
        data, _ = to_text_buffers(texts)
        check_texts(data, starts, ends)
        return self._engine.encode(data, starts, ends)

    def include_leading_spaces(
        self,
        data: Bytes,
        starts: Int64s,
        rows: Int64s,
    ) -> Int64s:
        """Include the space before each sentence if the vocabulary is byte-level BPE.

        In byte-level BPE the space before a word is a part of its first token. The first sentence of a text is never
        extended. For other algorithms `starts` is returned unchanged.

        Args:
            data: Bytes of the text column.
            starts: int64 [sentences], first byte of each sentence, as returned by `sentence_offsets`.
            rows: int64 [texts + 1]. Text t has the sentences rows[t] to rows[t + 1] - 1.

        Returns:
            int64 [sentences], the new starts. An extended sentence starts one byte earlier.
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
    """Build the fastest engine that supports the vocabulary's rules.

    If no kernel supports them, a warning is logged and the engine uses the tokenizers library.

    Raises:
        InputError: If the vocabulary is not consistent, e.g. if a merge joins tokens that are not in it.
    """
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
    """Return the log message for a vocabulary with rules that no kernel supports."""
    return (
        f"The tokenizer of this vocabulary (a {vocabulary.algorithm} of {vocabulary.size} tokens) has rules that the "
        "kernels do not know: its texts are encoded by tokenizers itself, with the same ids, many times slower."
    )


def encode_plain(vocabulary: Vocabulary, texts: pa.Array, starts: Int64s, ends: Int64s) -> EncodedSentences:
    """Encode byte ranges of a text column with the tokenizers library.

    This is the reference implementation for testing `Encoder.encode_sentences`.

    Args:
        vocabulary: The vocabulary.
        texts: large_string column without nulls.
        starts: int64 [sentences], first byte of each sentence in `to_text_buffers(texts).data`.
        ends: int64 [sentences], end of each sentence (exclusive).

    Raises:
        InputError: If the column or a range is not valid, or if the tokenizers library fails on a text.
    """
    data, _ = to_text_buffers(texts)
    check_texts(data, starts, ends)
    return ReferenceEngine(build_text_tokenizer(vocabulary), vocabulary.size).encode(data, starts, ends)


def build_text_tokenizer(vocabulary: Vocabulary) -> Tokenizer:
    """Build the vocabulary's Hugging Face tokenizer, in which special tokens in a text are treated as ordinary text."""
    content = hide_special_tokens(vocabulary)
    model = content["model"]
    tokenizer = Tokenizer.from_str(json.dumps(content))
    if vocabulary.algorithm == UNIGRAM:  # the numbers themselves: what is written in JSON is not read to the last bit
        pieces = [(piece, score) for piece, score in model["vocab"]]
        tokenizer.model = models.Unigram(pieces, model["unk_id"], model["byte_fallback"])
    tokenizer.encode_special_tokens = True
    return tokenizer
