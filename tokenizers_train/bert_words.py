"""BERT's words: white space divides them, each punctuation mark is one, and so is each Chinese character.

Promise: the words that Hugging Face's BertNormalizer and BertPreTokenizer find.

What happens to an ASCII character stands in a table that the reference itself filled in. Where another byte
or a control character occurs, the whole *chunk* between two ASCII spaces is one raw string, whose words
`split` finds later, once: neither normaliser nor pre-tokeniser looks across a space.

Cost: 95 MB/s of CPU time on English prose. Text without spaces (Chinese, Thai) hardly has two equal chunks:
there the reference's own speed rules, some 3 MB/s.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from tokenizers import normalizers, pre_tokenizers

from corpora.store.manifest import Json
from tokenizers_train.bert_words_kernels import PUNCTUATION, RAW, SPACE, WORD, cut_bert_words
from tokenizers_train.words import CutWords


class ByteRules(NamedTuple):
    """What becomes of each of the 256 bytes: its class, and the byte it is lowered to."""

    classes: npt.NDArray[np.uint8]
    lowered: npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class BertWords:
    """The words of a BERT vocabulary; `lowercase` also strips accents, as BERT's uncased models do.

    >>> BertWords(lowercase=True).split("Na\u00efve? No.")
    ['naive', '?', 'no', '.']
    """

    lowercase: bool

    @property
    def settings(self) -> dict[str, Json]:
        """What names the rule in a fingerprint."""
        return {"lowercase": self.lowercase}

    def split(self, text: str) -> list[str]:
        """The words of a text by definition: the reference's normaliser, then its pre-tokeniser."""
        pieces = bert_pre_tokenizer().pre_tokenize_str(bert_normalizer(self.lowercase).normalize_str(text))
        return [word for word, _ in pieces]

    def cut(self, data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> CutWords:
        """The ASCII words, lower-cased where the rule says so, and the raw chunks of the ranges."""
        classes, lowered = byte_rules(self.lowercase)
        num_bytes = int((ends - starts).sum())
        word_starts, word_ends = np.empty(num_bytes, np.int64), np.empty(num_bytes, np.int64)
        range_ends = np.empty(len(starts), np.int64)
        num_words = cut_bert_words(data, starts, ends, classes, word_starts, word_ends, range_ends)
        return CutWords(lowered[data], word_starts[:num_words], word_ends[:num_words], range_ends)

    def words_of(self, string: str) -> list[str]:
        """The words of a string: itself, unless it is a raw chunk.

        >>> BertWords(lowercase=True).words_of("\u201cWord\u201d")
        ['\u201c', 'word', '\u201d']
        """
        if string.isascii() and string.isprintable():
            return [string]
        return self.split(string)


@lru_cache(maxsize=2)
def bert_normalizer(lowercase: bool) -> normalizers.BertNormalizer:
    """The reference's normaliser: control characters out, accents off where it lower-cases, CJK set apart."""
    return normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=lowercase
    )


@lru_cache(maxsize=1)
def bert_pre_tokenizer() -> pre_tokenizers.BertPreTokenizer:
    """The reference's pre-tokeniser: words end at white space, and each punctuation mark is a word."""
    return pre_tokenizers.BertPreTokenizer()


@lru_cache(maxsize=2)
def byte_rules(lowercase: bool) -> ByteRules:
    """The rules for bytes, asked of the reference: each ASCII character is set between two digits."""
    rule = BertWords(lowercase=lowercase)
    classes, lowered = np.full(256, RAW, np.uint8), np.arange(256, dtype=np.uint8)
    for code in range(128):
        words = rule.split(f"0{chr(code)}0")
        if words == ["0", "0"]:
            classes[code] = SPACE
        elif len(words) == 3:
            classes[code] = PUNCTUATION
        elif words != ["00"]:
            classes[code], lowered[code] = WORD, ord(words[0][1:-1])
    return ByteRules(classes, lowered)
