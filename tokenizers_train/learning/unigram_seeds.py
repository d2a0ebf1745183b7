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
from tokenizers_train.learning.unigram_kernels import Lattice
from tokenizers_train.learning.unigram_seeds_kernels import Stretches, find_repeated, match_pieces, sort_suffixes
from tokenizers_train.words.table import COUNTS, WordCounts

_LARGEST_TEXT = (1 << 31) - 1


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
    words:  int64, the word in which that is
    sizes:  uint8, its number of characters
    values: int64, its score before any training
    """

    places: Int64s
    words: Int64s
    sizes: Bytes
    values: Int64s


def cut_words(counts: WordCounts, separators: list[str]) -> WordCounts:
    """The words cut where a separator is in them, the longest first; what is left is counted again.

    >>> cut_words(pa.table([["(a)b", "b"], [2, 1]], schema=COUNTS), ["(", ")"]).to_pylist()
    [{'word': 'a', 'count': 2}, {'word': 'b', 'count': 3}]
    """
    if not separators:
        return counts
    longest_first = sorted(separators, key=lambda separator: (-len(separator), separator))
    pattern = "|".join("".join(f"\\x{{{ord(letter):x}}}" for letter in separator) for separator in longest_first)
    words = counts["word"].combine_chunks()
    parts = pc.split_pattern_regex(words, pattern)
    repeated = counts["count"].combine_chunks().take(pc.list_parent_indices(parts))
    table = pa.table([pc.list_flatten(parts), repeated], schema=COUNTS)
    table = table.filter(pc.greater(pc.binary_length(table["word"]), 0))
    table = table.group_by("word", use_threads=False).aggregate([("count", "sum")]).sort_by("word")
    return pa.table([table["word"].combine_chunks(), table["count_sum"].combine_chunks()], schema=COUNTS)


def cut_at_rare(counts: WordCounts, coverage: float) -> WordCounts:
    """The words cut at characters that are not needed to cover that share of the text.

    Characters are taken from the most frequent one (of equals the one with the smaller code point) until they make
    up the share, as sentencepiece does.
    """
    spelling = spell_characters(counts)
    order = np.lexsort((spelling.alphabet[1:], -spelling.occurrences[1:])) + 1
    before = np.cumsum(spelling.occurrences[order]) - spelling.occurrences[order]
    rare = order[before >= coverage * float(spelling.occurrences.sum())]
    return cut_words(counts, [chr(code) for code in spelling.alphabet[rare].tolist()])


def spell_characters(counts: WordCounts) -> Spelling:
    """The words as numbers. U+0000 is taken for a word's end, which the reference does as well.

    Raises InputError where there are more than 2^31 characters in the distinct words.
    """
    data, offsets = text_buffers(counts["word"].combine_chunks())
    text_bytes = np.insert(data[offsets[0] : offsets[-1]], offsets[1:] - offsets[0], 0).tobytes()
    codes = np.frombuffer(text_bytes.decode("utf-8").encode("utf-32-le"), "<u4").astype(np.int64)
    if len(codes) > _LARGEST_TEXT:
        raise InputError(
            f"The {counts.num_rows} distinct words have {len(codes)} characters, and Unigram is trained on fewer than "
            "2^31: give it a part of the corpus, or count with a rule that cuts longer words."
        )
    present = np.bincount(codes, minlength=1) > 0
    present[0] = True
    numbers = np.cumsum(present).astype(np.int32) - 1
    text = numbers[codes]
    starts = np.append(0, np.flatnonzero(text == 0) + 1)
    weights = counts["count"].to_numpy()
    occurrences = np.zeros(int(present.sum()), np.int64)
    np.add.at(occurrences, text, np.repeat(weights, np.diff(starts)))
    occurrences[0] = 0
    return Spelling(text, starts, weights, np.flatnonzero(present), occurrences)


def find_seeds(spelling: Spelling, longest: int, most: int) -> tuple[SeedPieces, Lattice]:
    """The first pieces, characters and at most `most` in all (but at least one string), and where they are."""
    order = np.flatnonzero(spelling.text).astype(np.int32)
    sort_suffixes(spelling.text, order, longest + 1)
    characters, values = _characters(spelling, order)
    strings, string_values = _strings(spelling, order, longest, max(1, most - len(values)))
    stretches = Stretches(
        order,
        np.concatenate((characters.lefts, strings.lefts)),
        np.concatenate((characters.rights, strings.rights)),
        np.concatenate((characters.lengths, strings.lengths)),
    )
    places = order[stretches.lefts].astype(np.int64)
    words = np.searchsorted(spelling.starts, places, side="right") - 1
    pieces = SeedPieces(places, words, stretches.lengths, np.concatenate((values, string_values)))
    return pieces, _lattice(spelling, stretches)


def _characters(spelling: Spelling, order: Int32s) -> tuple[Stretches, Int64s]:
    """The characters, frequent ones first, and how often they occur."""
    suffixes = np.bincount(spelling.text[order], minlength=len(spelling.alphabet))
    rights = np.cumsum(suffixes)
    by_count = np.lexsort((spelling.alphabet[1:], spelling.occurrences[1:]))[::-1] + 1
    lefts = (rights - suffixes)[by_count].astype(np.int32)
    ones = np.ones(len(by_count), np.uint8)
    return Stretches(order, lefts, rights[by_count].astype(np.int32), ones), spelling.occurrences[by_count]


def _strings(spelling: Spelling, order: Int32s, longest: int, most: int) -> tuple[Stretches, Int64s]:
    """The strings with the highest scores, and these."""
    lefts, rights = np.empty(len(order), np.int32), np.empty(len(order), np.int32)
    lengths = np.empty(len(order), np.uint8)
    number = find_repeated(spelling.text, order, longest, lefts, rights, lengths)
    lefts, rights, lengths = lefts[:number], rights[:number], lengths[:number]
    scores = (rights - lefts).astype(np.int64) * lengths
    by_score = np.lexsort((lefts.astype(np.int64) << 8 | lengths, scores))[::-1][:most]
    return Stretches(order, lefts[by_score], rights[by_score], lengths[by_score]), scores[by_score]


def _lattice(spelling: Spelling, stretches: Stretches) -> Lattice:
    """Make the lattice of where the stretches are, their numbers for ids."""
    by_left = np.argsort(stretches.lefts.astype(np.int64) << 8 | stretches.lengths, kind="stable")
    lefts, rights, sizes = stretches.lefts[by_left], stretches.rights[by_left], stretches.lengths[by_left]
    sorted_stretches = Stretches(stretches.order, lefts, rights, sizes)
    pieces = by_left.astype(np.int32)
    at = np.zeros(len(spelling.text), np.uint8)
    ids, lengths = np.empty(0, np.int32), np.empty(0, np.uint8)
    match_pieces(sorted_stretches, pieces, at, np.empty(0, np.int64), ids, lengths)
    offsets = np.cumsum(at, dtype=np.int64) - at
    total = int(at.sum(dtype=np.int64))
    ids, lengths = np.empty(total, np.int32), np.empty(total, np.uint8)
    match_pieces(sorted_stretches, pieces, at, offsets, ids, lengths)
    firsts = np.append(offsets, total)[spelling.starts]
    return Lattice(spelling.starts, firsts, spelling.counts, at, ids, lengths)
