"""The pieces that training Unigram begins with, and all places where they are.

The rule (Kudo 2018, section 3.2, as the reference has it): every character, and every string of 2 to 16 characters
that occurs at least twice in the distinct words and is followed by different characters (or a word's end). A string
counts its places in distinct words times its length, a character its occurrences in the text.

Promise: pieces are ordered by characters before strings, then by score downwards, then by code points downwards.
Cost: see `tokenizers_train.learning.unigram`.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora.errors import InputError
from corpora.kernels.arrays import Bytes, Int32s, Int64s
from corpora.text.buffers import text_buffers
from tokenizers_train.learning.spelling_kernels import NUM_CODES, count_letters, spell_words
from tokenizers_train.learning.unigram_kernels import Lattice
from tokenizers_train.learning.unigram_seeds_kernels import (
    Stretches,
    count_suffixes,
    find_repeated,
    match_pieces,
    sort_suffixes,
)
from tokenizers_train.words.counts import merge_counts
from tokenizers_train.words.table import COUNTS, WordCounts

_LARGEST_TEXT = (1 << 31) - 1
_SCORES = 1 << 16  # that are told apart when strings are counted; few have a higher one


class Spelling(NamedTuple):
    """Distinct words as one text of numbers: characters in the order of their code points from 1, a 0 after each word.

    text:        int32
    starts:      int64, where each word begins, and the text's end
    counts:      int64, how often each word occurs
    alphabet:    int64, the code point of each number; the first stands for no character
    occurrences: int64, how often each character occurs
    """

    text: Int32s
    starts: Int64s
    counts: Int64s
    alphabet: Int64s
    occurrences: Int64s


class SeedPieces(NamedTuple):
    """The pieces to begin with, numbered; what each is can be read from the text.

    places: int64, a place of the text where the piece is
    sizes:  uint8, its number of characters
    values: int64, its score before any training
    """

    places: Int64s
    sizes: Bytes
    values: Int64s


def cut_words(counts: WordCounts, separators: list[str]) -> WordCounts:
    """The words cut where a separator is in them, the longest first; what is left is counted again.

    >>> cut_words(pa.table([["(a)b", "b"], [2, 1]], schema=COUNTS), ["(", ")"]).to_pylist()
    [{'word': 'a', 'count': 2}, {'word': 'b', 'count': 3}]
    """
    longest_first = sorted(separators, key=lambda separator: (-len(separator), separator))
    pattern = "|".join("".join(f"\\x{{{ord(letter):x}}}" for letter in separator) for separator in longest_first)
    holds = pc.match_substring_regex(counts["word"], pattern) if separators else None
    if holds is None or not pc.any(holds).as_py():
        return counts
    whole, held = counts.filter(pc.invert(holds)), counts.filter(holds).combine_chunks()
    parts = pc.split_pattern_regex(held["word"].chunk(0), pattern)
    repeated = held["count"].chunk(0).take(pc.list_parent_indices(parts))
    table = pa.table([pc.list_flatten(parts), repeated], schema=COUNTS)
    table = table.filter(pc.greater(pc.binary_length(table["word"]), 0))
    table = table.group_by("word", use_threads=False).aggregate([("count", "sum")]).sort_by("word")
    return merge_counts([whole, pa.table([table["word"], table["count_sum"]], schema=COUNTS)])


def cut_at_rare(counts: WordCounts, coverage: float) -> WordCounts:
    """The words cut at characters that are not needed to cover that share of the text.

    Characters are taken from the most frequent one (of equals the one with the smaller code point) until they make
    up the share, as sentencepiece does.
    """
    totals, _ = count_characters(counts)
    codes = np.flatnonzero(totals)
    order = codes[np.lexsort((codes, -totals[codes]))]
    before = np.cumsum(totals[order]) - totals[order]
    rare = order[before >= coverage * float(totals.sum())]
    return cut_words(counts, [chr(code) for code in rare.tolist()])


def count_characters(counts: WordCounts) -> tuple[Int64s, int]:
    """How often each code point occurs, and the number of characters of the distinct words."""
    totals, inside = np.zeros(NUM_CODES, np.int64), np.zeros(NUM_CODES, np.bool_)
    words = text_buffers(counts["word"].combine_chunks())
    return totals, count_letters(*words, counts["count"].to_numpy(), totals, inside)


def spell_characters(counts: WordCounts) -> Spelling:
    """The words as numbers; none of them has U+0000 in it.

    Raises InputError if there are more than 2^31 characters in the distinct words.
    """
    totals, num_letters = count_characters(counts)
    if num_letters + counts.num_rows >= _LARGEST_TEXT:
        raise InputError(
            f"The {counts.num_rows} distinct words have {num_letters} characters, and Unigram is trained on fewer than "
            "2^31: give it a part of the corpus, or count with a rule that cuts longer words."
        )
    alphabet = np.append(0, np.flatnonzero(totals))
    numbers = np.full(NUM_CODES, -1, np.int32)
    numbers[alphabet] = np.arange(-1, len(alphabet) - 1, dtype=np.int32)
    text = np.empty(num_letters + counts.num_rows + 1, np.int32)
    order, runs, whole = np.arange(counts.num_rows), np.zeros(2, np.int64), np.zeros(1, np.int64)
    words, one_run = text_buffers(counts["word"].combine_chunks()), np.array([0, counts.num_rows])
    spell_words(*words, order, one_run, numbers, numbers, text, runs, whole)
    text = text[1:]
    text += 1  # an edge becomes the number of no character
    starts = np.append(0, np.flatnonzero(text == 0) + 1)
    return Spelling(text, starts, counts["count"].to_numpy(), alphabet, totals[alphabet])


def find_seeds(spelling: Spelling, longest: int, most: int) -> tuple[SeedPieces, Lattice]:
    """The first pieces, characters and at most `most` in all (but at least one string), and where they are."""
    order = np.arange(len(spelling.text), dtype=np.int32)[spelling.text != 0]
    sort_suffixes(spelling.text, order, longest + 1)
    characters, values = _characters(spelling, order)
    strings, string_values = _strings(spelling, order, longest, max(1, most - len(values)))
    both = Stretches(
        order,
        np.concatenate((characters.lefts, strings.lefts)),
        np.concatenate((characters.rights, strings.rights)),
        np.concatenate((characters.lengths, strings.lengths)),
    )
    pieces = SeedPieces(order[both.lefts].astype(np.int64), both.lengths, np.concatenate((values, string_values)))
    return pieces, _lattice(spelling, both)


def _characters(spelling: Spelling, order: Int32s) -> tuple[Stretches, Int64s]:
    """The characters, frequent ones first, and how often they occur."""
    ends = np.cumsum(count_suffixes(spelling.text, np.zeros(len(spelling.alphabet), np.int64)))
    by_count = np.lexsort((spelling.alphabet[1:], spelling.occurrences[1:]))[::-1] + 1
    lefts, rights = (ends[numbers].astype(np.int32) for numbers in (by_count - 1, by_count))
    ones = np.ones(len(by_count), np.uint8)
    return Stretches(order, lefts, rights, ones), spelling.occurrences[by_count]


def _strings(spelling: Spelling, order: Int32s, longest: int, most: int) -> tuple[Stretches, Int64s]:
    """The strings with the highest scores, and these.

    Strings are counted by their scores first, so that those that are certainly too many take no memory.
    """
    by_score, none = np.zeros(_SCORES, np.int64), np.empty(0, np.int32)
    find_repeated(spelling.text, order, longest, 0, by_score, none, none, np.empty(0, np.uint8))
    as_high = np.cumsum(by_score[::-1])[::-1]  # strings that score so or higher
    least = int(np.flatnonzero(as_high >= min(most, as_high[0]))[-1])
    lefts, rights = np.empty(as_high[least], np.int32), np.empty(as_high[least], np.int32)
    lengths = np.empty(as_high[least], np.uint8)
    find_repeated(spelling.text, order, longest, least, by_score, lefts, rights, lengths)
    scores = (rights - lefts).astype(np.int64) * lengths
    chosen = np.lexsort((lefts.astype(np.int64) << 8 | lengths, scores))[::-1][:most]
    return Stretches(order, lefts[chosen], rights[chosen], lengths[chosen]), scores[chosen]


def _lattice(spelling: Spelling, stretches: Stretches) -> Lattice:
    """Make the lattice of where the stretches are, their numbers for ids."""
    by_left = np.argsort(stretches.lefts.astype(np.int64) << 8 | stretches.lengths, kind="stable").astype(np.int32)
    longest, parents = np.full(len(spelling.text), -1, np.int32), np.empty(len(by_left), np.int32)
    match_pieces(stretches, by_left, longest, parents)
    return Lattice(spelling.starts, spelling.counts, longest, parents, stretches.lengths)
