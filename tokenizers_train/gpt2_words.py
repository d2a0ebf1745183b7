"""GPT-2's words: runs of letters, of digits or of other marks, each with the space before it.

Promise: the words that Hugging Face's ByteLevel pre-tokeniser finds with GPT-2's regular expression (Radford et
al. 2019, section 2.2, and the encoder published with it) and without a prefix space. They follow each other
without a gap: joined, they are the text. Case and accents stay.

What class a character is of stands in a table that the reference itself filled in: it was given all characters
below U+40000 in one text, and where it cuts the class changes. Above, no character is assigned a letter, a
digit or white space.

Cost: on English prose 44 MB/s of CPU time, where BERT's words came at 61 and the reference's pre-tokeniser at 1.5
in the same minutes; the table has 256 kB and takes 0.3 s, once a process. Text without spaces (Chinese, Thai)
gives long words, hardly two of them equal.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from tokenizers import pre_tokenizers

from corpora.store.manifest import Json
from tokenizers_train.gpt2_words_kernels import LETTER, NUMBER, OTHER, SPACE, cut_gpt2_words
from tokenizers_train.words import CutWords

TABLE_SIZE = 0x40000


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpt2Words:
    """The words of a byte-level BPE vocabulary.

    >>> Gpt2Words().split("It's  1st.\\n")
    ['It', "'s", ' ', ' 1', 'st', '.', '\\n']
    """

    @property
    def settings(self) -> dict[str, Json]:
        """What names the rule in a fingerprint."""
        return {"pre_tokenizer": "gpt2"}

    def split(self, text: str) -> list[str]:
        """The words of a text by definition: where the reference's pre-tokeniser cuts it."""
        return [text[start:end] for _, (start, end) in gpt2_pre_tokenizer().pre_tokenize_str(text)]

    def cut(self, data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> CutWords:
        """The words of the ranges."""
        num_bytes = int((ends - starts).sum())
        word_starts, word_ends = np.empty(num_bytes, np.int64), np.empty(num_bytes, np.int64)
        range_ends = np.empty(len(starts), np.int64)
        num_words = cut_gpt2_words(data, starts, ends, character_classes(), word_starts, word_ends, range_ends)
        return CutWords(data, word_starts[:num_words], word_ends[:num_words], range_ends)

    def words_of(self, string: str) -> list[str]:
        """The words of a string that was cut: itself."""
        return [string]


@lru_cache(maxsize=1)
def gpt2_pre_tokenizer() -> pre_tokenizers.ByteLevel:
    """The reference's pre-tokeniser; beside cutting, it writes each byte of a word as a letter of its own."""
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


@lru_cache(maxsize=1)
def character_classes() -> npt.NDArray[np.uint8]:
    """The class of each character below U+40000, asked of the reference.

    ASCII is asked for one by one, the others run by run: in a text of all of them, nothing but a change of class
    (or white space, which divides itself) can end a word.
    """
    classes = np.full(TABLE_SIZE, OTHER, np.uint8)
    for code in range(0x80):
        classes[code] = _character_class(chr(code))
    codes = [code for code in range(0x80, TABLE_SIZE) if not 0xD800 <= code < 0xE000]
    text = "".join(map(chr, codes))
    for _, (start, end) in gpt2_pre_tokenizer().pre_tokenize_str(text):
        classes[codes[start] : codes[end - 1] + 1] = _character_class(text[start])
    classes.flags.writeable = False
    return classes


def _character_class(character: str) -> int:
    """What the reference takes a character for: does it stay with a letter, a digit, a mark?"""
    for kind, neighbour in ((LETTER, "a"), (NUMBER, "0"), (OTHER, "!")):
        if Gpt2Words().split(neighbour + character) == [neighbour + character]:
            return kind
    return SPACE
