"""The result of encoding by any algorithm: ids, the range of ids of each sentence, and the tokens at which words begin.

Promise: an `Engine` gives the ids that the tokenizer of its vocabulary gives each sentence by itself, without the
special tokens around it. A special token written out in a text, such as "[MASK]", is text and not that token.
"""

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from corpora.kernels.arrays import Bytes, Ids, Int64s


class EncodedSentences(NamedTuple):
    """The tokens of a list of sentences. Sentence s has the tokens ids[offsets[s]:offsets[s + 1]].

    Attributes:
        ids: uint16 [tokens] if the vocabulary has at most 65,536 tokens, else uint32.
        offsets: int64 [sentences + 1].
        word_starts: uint8 [tokens], 1 if the token begins a word, 0 if it continues one.
    """

    ids: Ids
    offsets: Int64s
    word_starts: Bytes


class Engine(Protocol):
    """Encodes byte ranges of UTF-8 text. An engine may cache words, so it must not be shared between threads."""

    def encode(self, data: Bytes, starts: Int64s, ends: Int64s) -> EncodedSentences:
        """Encode each sentence data[starts[s]:ends[s]] separately.

        The sentences may be in any order.

        Args:
            data: uint8, UTF-8 bytes.
            starts: int64 [sentences], the first byte of each sentence.
            ends: int64 [sentences], the end of each sentence. Each sentence must lie inside the data and consist of
                whole UTF-8 characters.

        Returns:
            The tokens of the sentences, in the given order, without special tokens.
        """


def choose_id_dtype(size: int) -> npt.DTypeLike:
    """Return the integer type for the ids of a vocabulary of `size` tokens: uint16 up to 65,536 tokens, else uint32."""
    return np.uint16 if size <= 1 << 16 else np.uint32
