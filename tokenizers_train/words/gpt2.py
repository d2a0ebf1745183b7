"""GPT-2's words: runs of letters, of digits or of other marks, each with the space before it.

Promise: the words that Hugging Face's ByteLevel pre-tokenizer finds with GPT-2's regular expression (Radford et al.
2019, section 2.2, and the encoder published with it). They follow each other without a gap: joined, they are the text,
with a space before it if one is to be added. Case and accents stay.

The class of a character is in a table that the reference itself filled in: it was given all characters below U+40000 in
one text, and its cuts are the changes of class. Above, no character is assigned a letter, a digit or white space.

Cost: on 8 MB of English novels words are counted at 87 MB/s of CPU time; some 17 ns a word are for finding its end; the
reference's pre-tokenizer made 1.9 MB/s in the same minutes. The table has 256 kB, takes 0.3 s and is then kept on disk.
Text without spaces (Chinese, Thai) gives long words, hardly two of them equal.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import tokenizers
from tokenizers import decoders, pre_tokenizers

from corpora.generic_types import Json
from corpora.kernels.array_cache import read_or_make_arrays
from corpora.kernels.arrays import Bytes, Int64s
from corpora.text.buffers import check_texts, make_read_only
from tokenizers_train.words.gpt2_kernels import (
    LETTER,
    NOT_STARTED,
    NUMBER,
    OTHER,
    SPACE,
    count_gpt2_words,
)
from tokenizers_train.words.table import WordCounts, build_table, grow_table, to_word_counts

TABLE_SIZE = 0x40000
_DECODER = decoders.ByteLevel()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpt2Words:
    """The word rule of GPT-2 and RoBERTa: letters, digits or other characters, each with the space before them.

    Args:
        add_prefix_space: Whether to put a space before a text that is not empty and does not begin with one.

    >>> Gpt2Words().split("It's  1st.\\n")
    ['It', "'s", ' ', ' 1', 'st', '.', '\\n']
    >>> Gpt2Words(add_prefix_space=True).split("It's")
    [' It', "'s"]
    """

    add_prefix_space: bool = False

    @property
    def settings(self) -> dict[str, Json]:
        """Settings of GPT-2's word rule that are part of the fingerprint of stored word counts.

        The keys are `pre_tokenizer`, always "gpt2", and, only if it is true, `add_prefix_space`.
        """
        prefix: dict[str, Json] = {"add_prefix_space": True} if self.add_prefix_space else {}
        return {"pre_tokenizer": "gpt2", **prefix}

    def split(self, text: str) -> list[str]:
        """Split a text into words with Hugging Face's ByteLevel pre-tokenizer, which defines the rule.

        Joined together, the words are the text, including the space that `add_prefix_space` puts before it.
        """
        letters = build_gpt2_pre_tokenizer(self.add_prefix_space).pre_tokenize_str(text)
        return [_DECODER.decode([word]) for word, _ in letters]

    def count(self, data: Bytes, starts: Int64s, ends: Int64s) -> WordCounts:
        """Split the texts data[starts[r]:ends[r]] into words as GPT-2 does, and count them.

        Args:
            data: uint8, the UTF-8 bytes of all texts.
            starts: int64 [texts], the first byte of each text.
            ends: int64 [texts], the end of each text.

        Returns:
            A table with the schema `table.COUNTS_SCHEMA`: the distinct words that `split` finds, and their counts.

        Raises:
            InputError: If a text is not inside the data, splits a UTF-8 character or is not valid UTF-8.
        """
        check_texts(data, starts, ends)
        data, starts, ends = to_kernel_buffer(data), make_read_only(starts), make_read_only(ends)
        table, position = build_table(), np.array([0, NOT_STARTED], np.int64)
        while not count_gpt2_words(
            data, starts, ends, load_character_classes(), self.add_prefix_space, table, position
        ):
            table = grow_table(table)
        return to_word_counts(table)


def to_kernel_buffer(data: Bytes) -> Bytes:
    """Return a read-only array with the given bytes, padded with zeros to at least eight bytes."""
    return make_read_only(data if len(data) >= 8 else np.pad(data, (0, 8 - len(data))))


@lru_cache(maxsize=2)
def build_gpt2_pre_tokenizer(add_prefix_space: bool = False) -> pre_tokenizers.ByteLevel:
    """Build Hugging Face's ByteLevel pre-tokenizer, which writes each byte of a word as one character.

    `add_prefix_space` has the same meaning as in `Gpt2Words`.
    """
    return pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space, use_regex=True)


@lru_cache(maxsize=1)
def load_character_classes() -> Bytes:
    """Return the class (LETTER, NUMBER, SPACE or OTHER) of each code point below U+40000, as uint8 [0x40000].

    The table is computed once with the ByteLevel pre-tokenizer and cached on disk.
    """
    name = f"GPT-2's characters, tokenizers {tokenizers.__version__}"
    return read_or_make_arrays(name, __file__, lambda: {"classes": _probe_classes()})["classes"]


def _probe_classes() -> Bytes:
    """Compute the array that `load_character_classes` returns, with the ByteLevel pre-tokenizer.

    ASCII characters are tested one at a time. All others are put into a single text, in which each word has characters
    of one class.
    """
    classes = np.full(TABLE_SIZE, OTHER, np.uint8)
    for code in range(0x80):
        classes[code] = _classify_character(chr(code))
    codes = [code for code in range(0x80, TABLE_SIZE) if not 0xD800 <= code < 0xE000]
    text = "".join(map(chr, codes))
    for _, (start, end) in build_gpt2_pre_tokenizer().pre_tokenize_str(text):
        classes[codes[start] : codes[end - 1] + 1] = _classify_character(text[start])
    return classes


def _classify_character(character: str) -> int:
    """Return the class of a character: LETTER, NUMBER, OTHER or SPACE.

    A LETTER stays in one word with a preceding letter, a NUMBER with a preceding digit, and OTHER with a preceding
    punctuation mark. All remaining characters are SPACE.
    """
    for kind, neighbour in ((LETTER, "a"), (NUMBER, "0"), (OTHER, "!")):
        if Gpt2Words().split(neighbour + character) == [neighbour + character]:
            return kind
    return SPACE
