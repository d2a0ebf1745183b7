"""Encoding by tokenizers itself: the definition of every engine, and the engine where no kernel applies.

Promise: the ids of `Tokenizer.encode` for each sentence alone, without special tokens; a special token written out in
a text is text. Whatever tokenizer there is, this is right.

Cost: 2 to 4 MB/s of CPU time, and some 700 bytes a token while a batch of `BATCH_BYTES` is at hand.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from tokenizers import Encoding, Tokenizer

from corpora.kernels.arrays import Bytes, Int64s
from tokenizers_train.encoding.encoded import Encoded, id_dtype
from tokenizers_train.vocabularies.bounds import refused_by_tokenizers

BATCH_BYTES = 1 << 18


class ReferenceEngine:
    """An engine that asks tokenizers for everything.

    tokenizer: one to which special tokens in a text are text (`encoder.text_tokenizer`)
    size:      of the vocabulary, for the type of ids
    """

    def __init__(self, tokenizer: Tokenizer, size: int) -> None:
        self._tokenizer = tokenizer
        self._dtype = id_dtype(size)

    def encode(self, data: Bytes, starts: Int64s, ends: Int64s) -> Encoded:
        """Encode the sentences data[starts[s]:ends[s]]. Raises InputError for a text that tokenizers gives up on."""
        ids, begins = [np.zeros(0, self._dtype)], [np.zeros(0, np.uint8)]
        lengths: list[int] = []
        for sentences in _batches(data, starts, ends):
            with refused_by_tokenizers("A text cannot be encoded by this vocabulary's tokenizer"):
                encoded = self._tokenizer.encode_batch(sentences, add_special_tokens=False)
            lengths += [len(sentence.ids) for sentence in encoded]
            ids.append(np.array([number for sentence in encoded for number in sentence.ids], self._dtype))
            begins.append(np.array([begin for sentence in encoded for begin in word_begins(sentence)], np.uint8))
        offsets = np.cumsum([0, *lengths], dtype=np.int64)
        return Encoded(np.concatenate(ids), offsets, np.concatenate(begins))


def word_begins(encoding: Encoding) -> list[bool]:
    """For each token whether it is the first of a word."""
    return [word != before for before, word in pairwise([None, *encoding.word_ids])]


def _batches(data: Bytes, starts: Int64s, ends: Int64s) -> Iterator[list[str]]:
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
