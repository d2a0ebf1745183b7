"""SentencePiece's words, as ALBERT has them: what white space divides, each with U+2581 before it.

Promise: the words that the normalizer and pre-tokenizer of transformers' AlbertTokenizer find in a text (Kudo and
Richardson 2018; ALBERT's settings: two grave accents or apostrophes are a quotation mark, NFKD, accents off, lower
case). Marks stay with the word they are at. U+2581 in a text begins a word, as a space does. Every word begins with
U+2581, the first one of a text too: a sentence has the same words at the beginning of a text and after another one.

What becomes of a character is in a table that the reference itself filled in. None of its steps looks at a neighbor,
except the one that joins quotes, which the kernel does itself: NFKD puts marks in order, but then they go.

Cost: counting, 42 MB/s of CPU time on English novels; the reference's words came at 2.0 in the same minutes (a word has
its marks, so a text has twice as many distinct ones as for BERT). The table takes 0.2 s, is then kept on disk, and has
0.3 MB.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import tokenizers
from tokenizers import normalizers, pre_tokenizers

from corpora.generic_types import Json
from corpora.kernels.array_cache import read_or_make_arrays
from corpora.kernels.arrays import Bytes, Int64s
from corpora.text.buffers import check_texts
from tokenizers_train.words.sentencepiece_kernels import (
    MAX_EXPANSION,
    PAGE_SIZE,
    CharacterRules,
    count_sentencepiece_words,
)
from tokenizers_train.words.table import WordCounts, build_table, grow_table, to_word_counts

WORD_MARK = "\u2581"  # what begins a word: in the tokens it stands for the space before it

_SEPARATOR = "\x01"  # is put between characters that are asked about: the reference leaves it as it is
_BATCH_SIZE = 1 << 12
_NUM_CODES = 0x110000
_ASSIGNED = (*range(0x80, 0xD800), *range(0xE000, 0x40000), *range(0xE0000, 0xF0000))  # others stay as they are
_LAST_SPACE = 0x3000  # no character after it is white space


@dataclass(frozen=True, slots=True, kw_only=True)
class SentencePieceWords:
    """The word rule of ALBERT: splits at white space and puts U+2581 before each word.

    Args:
        lowercase: Whether to lower-case the text.
        strip_accents: Whether to apply NFKD, which also decomposes ligatures, fractions and wide forms, and to remove
            accents.

    >>> SentencePieceWords().split("``Na\u00efve?'' No.")
    ['\u2581"naive?"', '\u2581no.']
    """

    lowercase: bool = True
    strip_accents: bool = True

    @property
    def settings(self) -> dict[str, Json]:
        """Settings of ALBERT's word rule that are part of the fingerprint of stored word counts.

        The keys are `pre_tokenizer`, always "metaspace", `lowercase` and `strip_accents` (both booleans).
        """
        return {"pre_tokenizer": "metaspace", "lowercase": self.lowercase, "strip_accents": self.strip_accents}

    def split(self, text: str) -> list[str]:
        """Split a text into normalized words with the normalizer and pre-tokenizer of transformers' AlbertTokenizer.

        They define the rule. Each word begins with U+2581.
        """
        normalized = build_albert_normalizer(self.lowercase, self.strip_accents).normalize_str(text)
        return [word for word, _ in build_metaspace().pre_tokenize_str(normalized)]

    def count(self, data: Bytes, starts: Int64s, ends: Int64s) -> WordCounts:
        """Split the texts data[starts[r]:ends[r]] into words as ALBERT does, and count them.

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
        table, state = build_table(), np.array([0, -1, 0], np.int64)
        while not count_sentencepiece_words(data, starts, ends, self.character_rules, self.lowercase, table, state):
            table = grow_table(table)
        return to_word_counts(table)

    @property
    def character_rules(self) -> CharacterRules:
        """Table of the characters that ALBERT's normalizer changes, with their normalized forms. It is cached."""
        return _load_character_rules(self.lowercase, self.strip_accents)


@lru_cache(maxsize=4)
def build_albert_normalizer(lowercase: bool, strip_accents: bool) -> normalizers.Sequence:
    """Build the normalizer of transformers' AlbertTokenizer.

    Args:
        lowercase: Whether to lower-case the text.
        strip_accents: Whether to apply NFKD and to remove accents.
    """
    steps: list[normalizers.Normalizer] = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    if strip_accents:
        steps += [normalizers.NFKD(), normalizers.StripAccents()]
    if lowercase:
        steps.append(normalizers.Lowercase())
    return normalizers.Sequence(steps)


@lru_cache(maxsize=1)
def build_metaspace() -> pre_tokenizers.Sequence:
    """Build ALBERT's pre-tokenizer, which splits at white space and puts U+2581 before each word."""
    return pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement=WORD_MARK, prepend_scheme="always")]
    )


@lru_cache(maxsize=4)
def _load_character_rules(lowercase: bool, strip_accents: bool) -> CharacterRules:
    """Return the table of characters as ALBERT's normalizer changes them. It is computed once and cached on disk.

    Args:
        lowercase: Whether text is lower-cased.
        strip_accents: Whether NFKD is applied and accents are removed.
    """
    name = f"ALBERT's characters, {lowercase=}, {strip_accents=}, tokenizers {tokenizers.__version__}"
    return CharacterRules(
        **read_or_make_arrays(name, __file__, lambda: _probe_rules(lowercase, strip_accents)._asdict())
    )


def _probe_rules(lowercase: bool, strip_accents: bool) -> CharacterRules:
    """Build the table of normalized characters by running ALBERT's normalizer on every assigned code point.

    Args:
        lowercase: Whether text is lower-cased.
        strip_accents: Whether NFKD is applied and accents are removed.
    """
    spaces = _find_white_space()
    replacements = dict(_iter_changed_characters(build_albert_normalizer(lowercase, strip_accents)))
    replacements |= {space: space for space in spaces}
    pages, entries, pool = np.zeros(_NUM_CODES // PAGE_SIZE, np.uint16), [np.zeros(PAGE_SIZE, np.uint32)], bytearray(1)
    for character, text in sorted(replacements.items()):
        assert WORD_MARK not in text and (character >= "\x80" or len(text) == 1), "a rule that the kernel does not know"
        written = "".join(" " if letter in spaces else letter for letter in text).encode()
        assert len(written) <= MAX_EXPANSION * len(character.encode()), "a character becomes more than the buffer holds"
        page, place = divmod(ord(character), PAGE_SIZE)
        if pages[page] == 0:
            pages[page] = len(entries)
            entries.append(np.zeros(PAGE_SIZE, np.uint32))
        entries[pages[page]][place] = len(pool) << 8 | len(written)
        pool += written
    return CharacterRules(pages, np.concatenate(entries), np.frombuffer(bytes(pool), np.uint8))


def _iter_changed_characters(normalizer: normalizers.Sequence) -> Iterator[tuple[str, str]]:
    """Yield each character that the normalizer changes, and its replacement, in the order of code points.

    Characters that are not ASCII are tested in batches.
    """
    for code in range(0x80):
        if (text := normalizer.normalize_str(chr(code))) != chr(code):
            yield chr(code), text
    for first in range(0, len(_ASSIGNED), _BATCH_SIZE):
        characters = [chr(code) for code in _ASSIGNED[first : first + _BATCH_SIZE]]
        asked = _SEPARATOR.join(characters)
        answer = normalizer.normalize_str(asked)
        if answer != asked:
            pairs = zip(characters, answer.split(_SEPARATOR), strict=True)
            yield from ((character, text) for character, text in pairs if character != text)


@lru_cache(maxsize=1)
def _find_white_space() -> frozenset[str]:
    """Return the characters at which ALBERT's pre-tokenizer splits a text."""
    text = "".join(map(chr, range(_LAST_SPACE + 1)))
    is_kept = np.zeros(len(text), np.bool_)
    for _, (start, end) in pre_tokenizers.WhitespaceSplit().pre_tokenize_str(text):
        is_kept[start:end] = True
    return frozenset(text[place] for place in np.flatnonzero(~is_kept))
