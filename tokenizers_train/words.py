"""The words of texts, numbered as they appear: what counting and encoding share.

Promise: `number_words` cuts ranges of a UTF-8 buffer into the words that Hugging Face's BertNormalizer and
BertPreTokenizer find there, and gives each distinct word one number, kept in a `Lexicon`. Words come in the
order of the text, and no byte outside a range is looked at.

What happens to an ASCII character stands in a table that the reference itself filled in. Where another byte
or a control character occurs, the whole *chunk* between two ASCII spaces is one raw string, whose words
`split_plainly` finds later, once: neither normaliser nor pre-tokeniser looks across a space.

Cost: 95 MB/s of CPU time on English prose, and some 40 bytes for a distinct word. Text without spaces
(Chinese, Thai) hardly has two equal chunks: there the reference's own speed rules, some 3 MB/s.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from tokenizers import normalizers, pre_tokenizers

from tokenizers_train.words_kernels import PUNCTUATION, RAW, SPACE, WORD, Lexicon, cut_words, enter_words, index_strings

BLOCK_BYTES = 1 << 20


class ByteRules(NamedTuple):
    """What becomes of each of the 256 bytes: its class, and the byte it is lowered to."""

    classes: npt.NDArray[np.uint8]
    lowered: npt.NDArray[np.uint8]


class NumberedWords(NamedTuple):
    """The words of ranges of text: those of range r are numbers[offsets[r]:offsets[r + 1]].

    numbers: int32, numbers of strings of `lexicon`, one for each ASCII word and each raw chunk
    offsets: int64, one more than ranges
    """

    numbers: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    lexicon: Lexicon


def new_lexicon(slots: int = 1 << 12, pool: int = 1 << 15) -> Lexicon:
    """An empty lexicon with a number of slots (a power of two) and bytes of pool; both grow when needed."""
    assert slots >= 2 and slots & (slots - 1) == 0, "the number of slots is a power of two"
    half = slots // 2
    return Lexicon(
        slots=np.full(slots, -1, np.int32),
        hashes=np.zeros(half, np.uint64),
        starts=np.zeros(half + 1, np.int64),
        pool=np.zeros(pool, np.uint8),
        used=np.zeros(1, np.int64),
    )


def strings(lexicon: Lexicon, first: int = 0) -> list[str]:
    """The strings with the numbers from `first` on."""
    bounds = lexicon.starts[first : int(lexicon.used[0]) + 1]
    pool = lexicon.pool[bounds[0] : bounds[-1]].tobytes()
    places = (bounds - bounds[0]).tolist()
    return [pool[start:end].decode() for start, end in pairwise(places)]


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


def split_plainly(text: str, lowercase: bool) -> list[str]:
    """The words of a text by definition: the reference's normaliser, then its pre-tokeniser.

    >>> split_plainly("Na\u00efve? No.", lowercase=True)
    ['naive', '?', 'no', '.']
    """
    pieces = bert_pre_tokenizer().pre_tokenize_str(bert_normalizer(lowercase).normalize_str(text))
    return [word for word, _ in pieces]


def words_of(string: str, lowercase: bool) -> list[str]:
    """The words of a string of a lexicon: itself, unless it is a raw chunk.

    >>> words_of("word", lowercase=True), words_of("\u201cWord\u201d", lowercase=True)
    (['word'], ['\u201c', 'word', '\u201d'])
    """
    if string.isascii() and string.isprintable():
        return [string]
    return split_plainly(string, lowercase)


@lru_cache(maxsize=2)
def byte_rules(lowercase: bool) -> ByteRules:
    """The rules for bytes, asked of the reference: each ASCII character is set between two digits."""
    classes, lowered = np.full(256, RAW, np.uint8), np.arange(256, dtype=np.uint8)
    for code in range(128):
        words = split_plainly(f"0{chr(code)}0", lowercase)
        if words == ["0", "0"]:
            classes[code] = SPACE
        elif len(words) == 3:
            classes[code] = PUNCTUATION
        elif words != ["00"]:
            classes[code], lowered[code] = WORD, ord(words[0][1:-1])
    return ByteRules(classes, lowered)


def number_words(
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    *,
    lowercase: bool,
    lexicon: Lexicon,
) -> NumberedWords:
    """Number the words of the ranges data[starts[r]:ends[r]], each of whole UTF-8 characters.

    New words are entered into `lexicon`, which is used up: go on with the one returned.
    """
    parts, totals = [np.zeros(0, np.int32)], [np.zeros(1, np.int64)]
    for block in _blocks(ends - starts):
        base, top = starts[block].min(), ends[block].max()
        part, ends_in_part, lexicon = _number_block(
            data[base:top], starts[block] - base, ends[block] - base, byte_rules(lowercase), lexicon
        )
        parts.append(part)
        totals.append(totals[-1][-1] + ends_in_part)
    return NumberedWords(np.concatenate(parts), np.concatenate(totals), lexicon)


def _blocks(lengths: npt.NDArray[np.int64]) -> Iterator[slice]:
    """Cut ranges into runs of about BLOCK_BYTES, so that what is between two kernels stays in the cache."""
    blocks = np.cumsum(lengths) // BLOCK_BYTES
    cuts = np.flatnonzero(np.diff(blocks)) + 1
    for first, last in pairwise([0, *cuts.tolist(), len(lengths)]):
        if first < last:
            yield slice(first, last)


def _number_block(
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    rules: ByteRules,
    lexicon: Lexicon,
) -> NumberedWords:
    """Number the words of one block; its `offsets` leave out the 0 at the beginning."""
    num_bytes = int((ends - starts).sum())
    word_starts, word_ends = np.empty(num_bytes, np.int64), np.empty(num_bytes, np.int64)
    range_ends = np.empty(len(starts), np.int64)
    num_words = cut_words(data, starts, ends, rules.classes, word_starts, word_ends, range_ends)
    numbers = np.empty(num_words, np.int32)
    lowered = rules.lowered[data]
    done = 0
    while (done := enter_words(lowered, word_starts, word_ends, lexicon, numbers, done)) < num_words:
        lexicon = _grown(lexicon, int(word_ends[done] - word_starts[done]))
    return NumberedWords(numbers, range_ends, lexicon)


def _grown(lexicon: Lexicon, length: int) -> Lexicon:
    """The same lexicon with twice the slots, and twice the pool or room for one more string of `length`."""
    num_strings = int(lexicon.used[0])
    num_bytes = int(lexicon.starts[num_strings])
    grown = new_lexicon(2 * len(lexicon.slots), max(2 * len(lexicon.pool), num_bytes + length))
    grown.hashes[:num_strings] = lexicon.hashes[:num_strings]
    grown.starts[: num_strings + 1] = lexicon.starts[: num_strings + 1]
    grown.pool[:num_bytes] = lexicon.pool[:num_bytes]
    grown.used[0] = num_strings
    index_strings(grown)
    return grown
