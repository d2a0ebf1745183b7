"""Sentences as token ids.

Promise: `Encoder.encode_sentences` gives the ids that the vocabulary's Hugging Face tokenizer gives each
sentence, without the special tokens around it (`encode_plainly` is that definition), and the places where
words begin. A special token written out in a text, such as "[MASK]", is text and not that token: no document
can put control tokens into the training data.

A sentence is encoded by itself, its range as it is given. In byte-level BPE a word has the space before it in its
token, and trimmed sentences have none: joined again, the tokens of two sentences would lose the space between
them. So a sentence that follows another one in its text is given with that space (`Encoder.sentence_starts`); a
text's first sentence, and one after a line end, begins without a space, as RoBERTa's texts do.

How: sentences are cut into words by `number_words`, each distinct word is encoded once by the tokenizer
itself, and a kernel copies the pieces of the words into place. Words stay known from call to call.

Cost: 70 MB/s of CPU time on English prose (the tokenizer alone: 2.9), and 7 microseconds for each word not met
before; 30 MB/s where no word is known yet. Byte-level BPE has three quarters of that speed, as its tokenizer has:
on 8 MB of novels 26 times the tokenizer's with all words known, 5 times with none. When the words known have more
than `max_known_bytes` bytes (with 60 bytes of tables for each word), all are forgotten and met anew. An encoder
belongs to one thread.
"""

from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from tokenizers import Encoding, Tokenizer

from corpora.errors import InputError
from corpora.kernels import kernel
from corpora.text.buffers import text_buffers
from tokenizers_train.vocabulary import BYTE_BPE, Vocabulary
from tokenizers_train.words import new_lexicon, number_words, strings

Ids: TypeAlias = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]


class Encoded(NamedTuple):
    """The tokens of sentences: those of sentence s are ids[offsets[s]:offsets[s + 1]].

    ids:         uint16 where the vocabulary has at most 65,536 tokens, else uint32
    offsets:     int64, one more than sentences
    word_starts: uint8 for each token: 1 where it begins a word, 0 where it continues one
    """

    ids: Ids
    offsets: npt.NDArray[np.int64]
    word_starts: npt.NDArray[np.uint8]


class Encoder:
    """Turns sentences into ids of a vocabulary, remembering the words it has met."""

    def __init__(self, vocabulary: Vocabulary, max_known_bytes: int = 1 << 24) -> None:
        self.vocabulary = vocabulary
        self._tokenizer = text_tokenizer(vocabulary)
        self._rule = vocabulary.word_rule
        self._max_known_bytes = max_known_bytes
        self._forget()

    @property
    def num_known(self) -> int:
        """How many words and raw chunks are known at present."""
        return self._known

    def _forget(self) -> None:
        self._lexicon = new_lexicon()
        self._known = 0
        self._pieces: Ids = np.zeros(1 << 12, id_dtype(self.vocabulary))
        self._begins = np.zeros(1 << 12, np.uint8)
        self._piece_offsets = np.zeros(1 << 12, np.int64)

    def encode_sentences(self, texts: pa.Array, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> Encoded:
        """Encode the sentences data[starts[s]:ends[s]] of the column's data (`text_buffers(texts).data`).

        texts: large_string without nulls
        starts, ends: int64, byte offsets into the column's data, at boundaries of characters; any order
        Raises InputError for another column, or for offsets outside of its data.
        """
        data, _ = text_buffers(texts)
        check_ranges(len(data), starts, ends)
        if self._lexicon.starts[self._known] > self._max_known_bytes:
            self._forget()
        words = number_words(data, starts, ends, rule=self._rule, lexicon=self._lexicon)
        self._lexicon = words.lexicon
        for word in strings(words.lexicon, first=self._known):
            self._learn(word)
        token_offsets = np.empty(len(words.numbers) + 1, np.int64)
        num_tokens = _place_words(words.numbers, self._piece_offsets, token_offsets)
        ids, begins = np.empty(num_tokens, self._pieces.dtype), np.empty(num_tokens, np.uint8)
        _copy_pieces(words.numbers, self._piece_offsets, self._pieces, self._begins, token_offsets, ids, begins)
        return Encoded(ids, token_offsets[words.offsets], begins)

    def sentence_starts(
        self,
        data: npt.NDArray[np.uint8],
        starts: npt.NDArray[np.int64],
        rows: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.int64]:
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

    def _learn(self, word: str) -> None:
        """Let the tokenizer encode the next word of the lexicon."""
        encoding = self._tokenizer.encode(word, add_special_tokens=False)
        ids = encoding.ids
        first = int(self._piece_offsets[self._known])
        last = first + len(ids)
        self._known += 1
        self._pieces = _with_room(self._pieces, last)
        self._piece_offsets = _with_room(self._piece_offsets, self._known + 1)
        self._begins = _with_room(self._begins, last)
        self._pieces[first:last] = ids
        self._begins[first:last] = 1 if len(ids) == 1 else word_begins(encoding)
        self._piece_offsets[self._known] = last


def encode_plainly(
    vocabulary: Vocabulary, texts: pa.Array, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> Encoded:
    """What `Encoder.encode_sentences` means: each sentence given to the vocabulary's tokenizer."""
    data, _ = text_buffers(texts)
    check_ranges(len(data), starts, ends)
    tokenizer = text_tokenizer(vocabulary)
    sentences = [data[start:end].tobytes().decode() for start, end in zip(starts, ends, strict=True)]
    encoded = [tokenizer.encode(sentence, add_special_tokens=False) for sentence in sentences]
    ids = np.array([number for sentence in encoded for number in sentence.ids], id_dtype(vocabulary))
    offsets = np.cumsum([0, *(len(sentence.ids) for sentence in encoded)], dtype=np.int64)
    begins = [begin for sentence in encoded for begin in word_begins(sentence)]
    return Encoded(ids, offsets, np.array(begins, np.uint8))


def word_begins(encoding: Encoding) -> list[bool]:
    """For each token whether it is the first of a word."""
    return [word != before for before, word in pairwise([None, *encoding.word_ids])]


def text_tokenizer(vocabulary: Vocabulary) -> Tokenizer:
    """The vocabulary's tokenizer, to which a special token written out in a text is text."""
    tokenizer = vocabulary.tokenizer()
    tokenizer.encode_special_tokens = True
    return tokenizer


def id_dtype(vocabulary: Vocabulary) -> npt.DTypeLike:
    """The type of ids: two bytes where they fit."""
    return np.uint16 if vocabulary.size <= 1 << 16 else np.uint32


def check_ranges(num_bytes: int, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> None:
    """Raise InputError where sentences do not lie inside of a column's data."""
    if len(starts) != len(ends):
        raise InputError(f"{len(starts)} sentences begin and {len(ends)} end: give one end for each start.")
    wrong = np.flatnonzero((starts < 0) | (starts > ends) | (ends > num_bytes))
    if len(wrong):
        first = wrong[0]
        raise InputError(
            f"Sentence {first} runs from byte {starts[first]} to {ends[first]}, and the column has {num_bytes} "
            "bytes: sentence offsets count from the beginning of the column's data, as `sentence_offsets` has them."
        )


def _with_room(array: npt.NDArray[Any], wanted: int) -> npt.NDArray[Any]:
    """The array itself, or a copy twice as long or more where `wanted` entries do not fit."""
    if wanted <= len(array):
        return array
    larger = np.zeros(max(2 * len(array), wanted), array.dtype)
    larger[: len(array)] = array
    return larger


@kernel
def _place_words(
    numbers: npt.NDArray[np.int32], piece_offsets: npt.NDArray[np.int64], token_offsets: npt.NDArray[np.int64]
) -> int:
    """Where the pieces of each word go: word w has the tokens token_offsets[w] to token_offsets[w + 1]."""
    total = 0
    for w in range(len(numbers)):
        token_offsets[w] = total
        total += piece_offsets[numbers[w] + 1] - piece_offsets[numbers[w]]
    token_offsets[len(numbers)] = total
    return total


@kernel
def _copy_pieces(
    numbers: npt.NDArray[np.int32],
    piece_offsets: npt.NDArray[np.int64],
    pieces: Ids,
    piece_begins: npt.NDArray[np.uint8],
    token_offsets: npt.NDArray[np.int64],
    ids: Ids,
    begins: npt.NDArray[np.uint8],
) -> None:
    """Write the pieces of all words one after another, and which of them begin a word."""
    for w in range(len(numbers)):
        first = piece_offsets[numbers[w]]
        for i in range(token_offsets[w + 1] - token_offsets[w]):
            ids[token_offsets[w] + i] = pieces[first + i]
            begins[token_offsets[w] + i] = piece_begins[first + i]
