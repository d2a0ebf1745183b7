"""BERT's words: white space divides them, each punctuation mark is one, and so is each Chinese character.

Promise: the words that Hugging Face's BertNormalizer and BertPreTokenizer find.

What happens to a character is in tables that the reference itself filled in (`characters`). They leave a character
undecided if a mark of it is kept that may change places with others; then the reference is asked for the words up to
the next space.

Cost, on two busy cores: counting 155 MB/s of CPU time on English novels, 190 on German, 210 on Hindi, 130 on Japanese
and 50 to 70 on Vietnamese, which mixes ASCII with other letters in its words; about 1 s for the tables, which are then
kept on disk (`characters`).
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from tokenizers import normalizers, pre_tokenizers

from corpora.generic_types import Json
from corpora.kernels.arrays import Bytes, Int64s
from corpora.text.buffers import check_texts, make_read_only
from tokenizers_train.words.bert_kernels import (
    DONE,
    NEEDS_BUFFER,
    NEEDS_REFERENCE,
    NEEDS_ROOM,
    UNCLASSIFIED,
    Ranges,
    WordBuffer,
    WordRules,
    count_bert_words,
    locate_space,
)
from tokenizers_train.words.characters import LETTER, SPACE, STANDALONE, CharacterTables, build_bert_tables
from tokenizers_train.words.table import WordCounts, WordTable, add_words, build_table, grow_table, to_word_counts

_MAX_BUFFERED_WORDS = 256  # words that are written out before they are looked up


@dataclass(frozen=True, slots=True, kw_only=True)
class BertWords:
    """The word rule of BERT: splits at white space, and makes each punctuation mark a word.

    Args:
        clean_text: Whether to remove control characters.
        handle_chinese_chars: Whether each Chinese character is a separate word.
        strip_accents: Whether to remove accents (default: same as `lowercase`).
        lowercase: Whether to lower-case the text.

    >>> BertWords(lowercase=True).split("Na\u00efve? No.")
    ['naive', '?', 'no', '.']
    """

    clean_text: bool = True
    handle_chinese_chars: bool = True
    strip_accents: bool | None = None
    lowercase: bool

    @property
    def settings(self) -> dict[str, Json]:
        """Settings of BERT's word rule that are part of the fingerprint of stored word counts.

        The keys are `lowercase` and, only if they differ from BERT's defaults, `clean_text`, `handle_chinese_chars` and
        `strip_accents`.
        """
        settings: dict[str, Json] = {"lowercase": self.lowercase}
        if not self.clean_text:
            settings["clean_text"] = False
        if not self.handle_chinese_chars:
            settings["handle_chinese_chars"] = False
        if self.strip_accents is not None:
            settings["strip_accents"] = self.strip_accents
        return settings

    @property
    def normalizer(self) -> normalizers.BertNormalizer:
        """The Hugging Face BertNormalizer with these settings."""
        return _build_normalizer(self.clean_text, self.handle_chinese_chars, self.strip_accents, self.lowercase)

    @property
    def characters(self) -> CharacterTables:
        """Class and normalized form of each character in BertNormalizer and BertPreTokenizer. The tables are cached."""
        return build_bert_tables(self.clean_text, self.handle_chinese_chars, self.strip_accents, self.lowercase)

    def split(self, text: str) -> list[str]:
        """Split a text into normalized words with Hugging Face's BertNormalizer and BertPreTokenizer, which define the
        rule.
        """
        pieces = build_bert_pre_tokenizer().pre_tokenize_str(self.normalizer.normalize_str(text))
        return [word for word, _ in pieces]

    def count(self, data: Bytes, starts: Int64s, ends: Int64s) -> WordCounts:
        """Split the texts data[starts[r]:ends[r]] into words as BERT does, and count them.

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
        ranges, rules, table = build_ranges(data, starts, ends), build_word_rules(self.characters), build_table()
        standalone_counts, buffer = np.zeros(128, np.int64), build_word_buffer()
        state = np.array([0, starts[0] if len(starts) else 0, 0], np.int64)
        while (stop_reason := count_bert_words(ranges, rules, table, standalone_counts, buffer, state)) != DONE:
            if stop_reason == NEEDS_ROOM:
                table = grow_table(table)
            elif stop_reason == NEEDS_BUFFER:
                buffer = build_word_buffer(2 * len(buffer.text))
            else:
                assert stop_reason == NEEDS_REFERENCE
                words, state[1] = split_by_reference(self, ranges, state, rules)
                table = _add_words(table, [word.encode() for word in words], np.ones(len(words), np.int64))
        codes = np.flatnonzero(standalone_counts)
        return to_word_counts(_add_words(table, [bytes([code]) for code in codes.tolist()], standalone_counts[codes]))


def build_word_rules(tables: CharacterTables) -> WordRules:
    """Convert character tables to the form that the kernels read, which adds a class for each of the 256 bytes."""
    kinds = np.full(256, UNCLASSIFIED, np.uint8)
    folds = np.uint64(0x2020202020202020 if tables.replacements[ord("A")] else 0)
    for code in range(128):
        kind = int(tables.classes[code])
        if kind in (SPACE, STANDALONE) or (kind == LETTER and chr(code).isalnum()):
            kinds[code] = kind
    return WordRules(*tables, kinds, folds)


def build_word_buffer(num_bytes: int = 1 << 12) -> WordBuffer:
    """Allocate a buffer for normalized words with `num_bytes` bytes in total."""
    return WordBuffer(np.empty(num_bytes, np.uint8), *np.empty((2, _MAX_BUFFERED_WORDS), np.int64))


def split_by_reference(words: BertWords, ranges: Ranges, state: Int64s, rules: WordRules) -> tuple[list[str], int]:
    """Split the text from the current position to the next space or the end of its range with `BertWords.split`.

    Args:
        words: The word rule.
        ranges: The texts, as byte ranges of `ranges.data`.
        state: int64: the index of the current range, and the current byte offset in `ranges.data`. It is not changed.
        rules: The character tables, which say what a space is.

    Returns:
        The words, and the byte offset at which the text that was split ends.
    """
    at, end = int(state[1]), int(ranges.ends[state[0]])
    chunk_end = int(locate_space(ranges.data, at, end, rules))
    return words.split(ranges.data[at:chunk_end].tobytes().decode()), chunk_end


def build_ranges(data: Bytes, starts: Int64s, ends: Int64s) -> Ranges:
    """Build the ranges data[starts[r]:ends[r]] from contiguous, read-only views of the arrays.

    Each kernel is then compiled for only one type of array.
    """
    return Ranges(make_read_only(data), make_read_only(starts), make_read_only(ends))


def _add_words(table: WordTable, words: list[bytes], counts: Int64s) -> WordTable:
    """Add words and their counts to the table, in place. Returns the table, or a larger copy if it was full.

    Args:
        table: The table.
        words: The words in UTF-8. None may be empty.
        counts: int64 [words], the number to add for each word.
    """
    ends = np.cumsum([len(word) for word in words], dtype=np.int64)
    starts = ends - np.array([len(word) for word in words], np.int64)
    ranges, done = build_ranges(np.frombuffer(b"".join(words), np.uint8), starts, ends), 0
    while (done := int(add_words(table, *ranges, make_read_only(counts), done))) < len(words):
        table = grow_table(table)
    return table


@lru_cache(maxsize=16)
def _build_normalizer(
    clean_text: bool, handle_chinese_chars: bool, strip_accents: bool | None, lowercase: bool
) -> normalizers.BertNormalizer:
    return normalizers.BertNormalizer(
        clean_text=clean_text,
        handle_chinese_chars=handle_chinese_chars,
        strip_accents=strip_accents,
        lowercase=lowercase,
    )


@lru_cache(maxsize=1)
def build_bert_pre_tokenizer() -> pre_tokenizers.BertPreTokenizer:
    """Build Hugging Face's BertPreTokenizer, which splits at white space and makes each punctuation mark a word."""
    return pre_tokenizers.BertPreTokenizer()
