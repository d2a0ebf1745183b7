"""Unigram: pieces with probabilities, learned by removing from many those that the likelihood misses least.

The method (Kudo 2018, section 3.2): words are cut at random with the product of their pieces' probabilities. From all
repeated strings as first pieces, rounds of two expectation-maximization steps and one pruning run until a tenth more
than the wanted pieces are left; the best of those are taken. The first pieces are every character, and every string of
2 to 16 characters that occurs at least twice in the distinct words and is followed by different characters (or a word's
end). A string's first score is its places in distinct words times its length, a character's its occurrences in the
text. Each step is defined in plain Python by `unigram_plainly` (tests/tokenizers_train), after the trainer of Hugging
Face tokenizers 0.23.

Promise: the result is a function of the counts and settings, to the last bit on every machine, however many cores it
has: words are gone through in the order of their bytes, sums are taken in that order, and logarithms are our own
(`tokenizers_train.learning.unigram_kernels`). The reference's order of words is that of a hash map, another in every
run; beyond that it was followed, except for these rules:
- first pieces are ordered by characters before strings, then by score downwards, then by code points downwards;
- of equally likely cuts the one with the longest last piece counts, which is the reference's choice inside of words;
- characters that training dropped come back, the most frequent first (of equals by code point), each 0.0001 above the
  one before, from the lowest score on; the reference does so in a hash map's order;
- there are never more pieces than asked for, even if there are as many characters.
With that its pieces came out one for one: 300 from texts in six languages, 8,000 and 30,000 from 4 MB of English
novels; scores differ by 1e-10, except for characters that came back. sentencepiece, of the same method, weighs and cuts
off differently, and shares some 85 % of them.

Cost: one thread, a fifteenth to a twentieth of the reference's CPU time and a quarter to a fifth of sentencepiece's (4
MB of novels, 70,893 words: 1.3 s for 8,000 pieces, 0.8 s for 30,000). 6.0 s and 176 MiB for 30,000 pieces from 36 MB of
novels, with 2.6 million characters in their 268,729 distinct words: 71 bytes and 2.3 microseconds for each of these.
All on a busy machine.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora.errors import InputError
from corpora.kernels.arrays import Bytes, Float64s, Int32s, Int64s
from corpora.text.buffers import to_text_buffers
from tokenizers_train.learning.merges_kernels import NUM_CODES, count_letters, spell_words
from tokenizers_train.learning.unigram_kernels import (
    KEEP,
    WEIGH,
    Lattice,
    compute_log_shares,
    count_best_pieces,
    count_expected_pieces,
    fill_scores,
    judge_pieces,
    thin_lattice,
)
from tokenizers_train.learning.unigram_seeds_kernels import (
    RepeatedStrings,
    count_suffixes,
    find_repeated_strings,
    match_pieces,
    sort_suffixes,
)
from tokenizers_train.vocabularies.albert import UNKNOWN_PENALTY, round_score
from tokenizers_train.words.counts import merge_counts
from tokenizers_train.words.table import COUNTS_SCHEMA, WordCounts

_MAX_TEXT_LENGTH = (1 << 31) - 1
_NUM_SCORES = 1 << 16  # that are told apart when strings are counted; few have a higher one


class Spelling(NamedTuple):
    """Distinct words as a single array of character ids.

    The ids start at 1 and are in the order of the characters' code points.

    Attributes:
        text: int32, the character ids of all words, with a 0 after each word.
        starts: int64, the start of each word in `text`, and the length of `text`.
        counts: int64, how often each word occurs.
        alphabet: int64, the code point of each character id. Entry 0 is not used.
        occurrences: int64, how often each character occurs, weighted by word counts.
    """

    text: Int32s
    starts: Int64s
    counts: Int64s
    alphabet: Int64s
    occurrences: Int64s


class SeedPieces(NamedTuple):
    """The initial pieces from which training starts.

    Attributes:
        places: int64, a position in `Spelling.text` at which each piece occurs.
        sizes: uint8, the number of characters in each piece.
        values: int64, the score of each piece before training.
    """

    places: Int64s
    sizes: Bytes
    values: Int64s


def cut_at_separators(counts: WordCounts, separators: list[str]) -> WordCounts:
    """Split words at separators, and count the parts. If several separators match, the longest one is used.

    Args:
        counts: The word counts.
        separators: Strings to split at, which are removed from the words.

    >>> cut_at_separators(pa.table([["(a)b", "b"], [2, 1]], schema=COUNTS_SCHEMA), ["(", ")"]).to_pylist()
    [{'word': 'a', 'count': 2}, {'word': 'b', 'count': 3}]
    """
    longest_first = sorted(separators, key=lambda separator: (-len(separator), separator))
    pattern = "|".join("".join(f"\\x{{{ord(letter):x}}}" for letter in separator) for separator in longest_first)
    has_separator = pc.match_substring_regex(counts["word"], pattern) if separators else None
    if has_separator is None or not pc.any(has_separator).as_py():
        return counts
    whole, held = counts.filter(pc.invert(has_separator)), counts.filter(has_separator).combine_chunks()
    parts = pc.split_pattern_regex(held["word"].chunk(0), pattern)
    repeated = held["count"].chunk(0).take(pc.list_parent_indices(parts))
    table = pa.table([pc.list_flatten(parts), repeated], schema=COUNTS_SCHEMA)
    table = table.filter(pc.greater(pc.binary_length(table["word"]), 0))
    table = table.group_by("word", use_threads=False).aggregate([("count", "sum")]).sort_by("word")
    return merge_counts([whole, pa.table([table["word"], table["count_sum"]], schema=COUNTS_SCHEMA)])


def cut_at_rare_characters(counts: WordCounts, coverage: float) -> WordCounts:
    """Split words at rare characters. The other characters make up at least the fraction `coverage` of the text.

    Characters are kept in order of frequency until they reach this fraction, as in sentencepiece. Ties are broken by
    the lower code point. The result has the parts of words between rare characters, counted as words.

    Args:
        counts: The word counts.
        coverage: Minimum fraction of all characters, weighted by word counts, from 0 to 1.
    """
    totals, _ = count_characters(counts)
    codes = np.flatnonzero(totals)
    order = codes[np.lexsort((codes, -totals[codes]))]
    before = np.cumsum(totals[order]) - totals[order]
    rare = order[before >= coverage * float(totals.sum())]
    return cut_at_separators(counts, [chr(code) for code in rare.tolist()])


def count_characters(counts: WordCounts) -> tuple[Int64s, int]:
    """Count the occurrences of each code point, and the characters in the distinct words.

    Returns:
        The occurrences weighted by word counts (int64 [NUM_CODES]), and the unweighted number of characters.
    """
    totals, is_inner = np.zeros(NUM_CODES, np.int64), np.zeros(NUM_CODES, np.bool_)
    words = to_text_buffers(counts["word"].combine_chunks())
    return totals, count_letters(*words, counts["count"].to_numpy(), totals, is_inner)


def spell_characters(counts: WordCounts) -> Spelling:
    """Convert words to sequences of character ids. No word may contain U+0000.

    Raises:
        InputError: If the number of characters in the distinct words plus the number of words is 2^31 - 1 or more.
    """
    totals, num_letters = count_characters(counts)
    if num_letters + counts.num_rows >= _MAX_TEXT_LENGTH:
        raise InputError(
            f"The {counts.num_rows} distinct words have {num_letters} characters, and Unigram is trained on fewer than "
            "2^31: give it a part of the corpus, or count with a rule that cuts longer words."
        )
    alphabet = np.append(0, np.flatnonzero(totals))
    numbers = np.full(NUM_CODES, -1, np.int32)
    numbers[alphabet] = np.arange(-1, len(alphabet) - 1, dtype=np.int32)
    text = np.empty(num_letters + counts.num_rows + 1, np.int32)
    order, runs, mergeable = np.arange(counts.num_rows), np.zeros(2, np.int64), np.zeros(1, np.int64)
    words, one_run = to_text_buffers(counts["word"].combine_chunks()), np.array([0, counts.num_rows])
    spell_words(*words, order, one_run, numbers, numbers, text, runs, mergeable)
    text = text[1:]
    text += 1  # an edge becomes the number of no character
    starts = np.append(0, np.flatnonzero(text == 0) + 1)
    return Spelling(text, starts, counts["count"].to_numpy(), alphabet, totals[alphabet])


def find_seeds(spelling: Spelling, max_length: int, max_pieces: int) -> tuple[SeedPieces, Lattice]:
    """Find the initial pieces and all their occurrences in the words.

    Args:
        spelling: The words.
        max_length: Maximum length of a piece in characters.
        max_pieces: Maximum number of pieces, including single characters. All characters and the best repeated string
            are always included.
    """
    order = np.arange(len(spelling.text), dtype=np.int32)[spelling.text != 0]
    sort_suffixes(spelling.text, order, max_length + 1)
    characters, values = _find_character_seeds(spelling, order)
    strings, string_values = _find_string_seeds(spelling, order, max_length, max(1, max_pieces - len(values)))
    both = RepeatedStrings(
        order,
        np.concatenate((characters.lefts, strings.lefts)),
        np.concatenate((characters.rights, strings.rights)),
        np.concatenate((characters.lengths, strings.lengths)),
    )
    pieces = SeedPieces(order[both.lefts].astype(np.int64), both.lengths, np.concatenate((values, string_values)))
    return pieces, _build_lattice(spelling, both)


def _find_character_seeds(spelling: Spelling, order: Int32s) -> tuple[RepeatedStrings, Int64s]:
    """Find the single characters in descending order of frequency, as strings of length 1.

    Args:
        spelling: The words.
        order: The suffix array of `spelling.text` without the zeros after words.

    Returns:
        The characters, and how often each occurs, weighted by word counts (int64).
    """
    ends = np.cumsum(count_suffixes(spelling.text, np.zeros(len(spelling.alphabet), np.int64)))
    by_count = np.lexsort((spelling.alphabet[1:], spelling.occurrences[1:]))[::-1] + 1
    lefts, rights = (ends[numbers].astype(np.int32) for numbers in (by_count - 1, by_count))
    ones = np.ones(len(by_count), np.uint8)
    return RepeatedStrings(order, lefts, rights, ones), spelling.occurrences[by_count]


def _find_string_seeds(
    spelling: Spelling, order: Int32s, max_length: int, max_strings: int
) -> tuple[RepeatedStrings, Int64s]:
    """Return the `max_strings` repeated strings with the highest scores, and their scores, both by descending score.

    A first pass only counts the scores, so that memory is allocated only for strings that may be chosen.

    Args:
        spelling: The words.
        order: The suffix array of `spelling.text` without the zeros after words.
        max_length: Maximum length of a string in characters.
        max_strings: Maximum number of strings.
    """
    by_score, no_room = np.zeros(_NUM_SCORES, np.int64), np.empty(0, np.int32)
    find_repeated_strings(spelling.text, order, max_length, 0, by_score, no_room, no_room, np.empty(0, np.uint8))
    num_as_high = np.cumsum(by_score[::-1])[::-1]  # strings that score so or higher
    min_score = int(np.flatnonzero(num_as_high >= min(max_strings, num_as_high[0]))[-1])
    lefts, rights = np.empty(num_as_high[min_score], np.int32), np.empty(num_as_high[min_score], np.int32)
    lengths = np.empty(num_as_high[min_score], np.uint8)
    find_repeated_strings(spelling.text, order, max_length, min_score, by_score, lefts, rights, lengths)
    scores = (rights - lefts).astype(np.int64) * lengths
    chosen = np.lexsort((lefts.astype(np.int64) << 8 | lengths, scores))[::-1][:max_strings]
    return RepeatedStrings(order, lefts[chosen], rights[chosen], lengths[chosen]), scores[chosen]


def _build_lattice(spelling: Spelling, stretches: RepeatedStrings) -> Lattice:
    """Build the lattice of all occurrences of strings in the words.

    The ids of the pieces are the indices of the strings in `stretches`.
    """
    by_left = np.argsort(stretches.lefts.astype(np.int64) << 8 | stretches.lengths, kind="stable").astype(np.int32)
    longest, parents = np.full(len(spelling.text), -1, np.int32), np.empty(len(by_left), np.int32)
    match_pieces(stretches, by_left, longest, parents)
    return Lattice(spelling.starts, spelling.counts, longest, parents, stretches.lengths)


# As the reference has them by default.
MAX_PIECE_LENGTH = 16  # characters
MAX_SEEDS = 1_000_000  # pieces to begin with
STEPS_PER_ROUND = 2  # expectation-maximisation steps in a round
KEPT_SHARE = 0.75  # of the pieces, that a round leaves

PENALTY_STEP = 0.0001  # between the scores of characters that training had dropped


@dataclass(frozen=True, slots=True, kw_only=True)
class UnigramSettings:
    """Settings for training a Unigram vocabulary.

    size:               maximum number of pieces, including symbols but not special tokens
    character_coverage: share of all characters of the text that the pieces must cover; rarer characters are unknown.
                        The default of Hugging Face is 1, that of sentencepiece 0.9995 and that of ALBERT 0.99995
    reserved:           number of special tokens that will be added. They are included in the number at which pruning
                        ends
    symbols:            strings that are always a separate piece with a score of 0, and never part of another piece (the
                        user-defined symbols of sentencepiece)
    """

    size: int
    character_coverage: float = 1.0
    reserved: int = 0
    symbols: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.size <= 1 << 24:
            raise InputError(f"size = {self.size}: give a number from 1 to {1 << 24}.")
        if not 0.0 < self.character_coverage <= 1.0:
            raise InputError(f"character_coverage = {self.character_coverage}: give a share up to 1, as 0.9995.")
        if "" in self.symbols or len({*self.symbols}) < len(self.symbols):
            raise InputError(f"symbols = {self.symbols}: leave out the empty string, and name each only once.")

    @property
    def pruning_bound(self) -> int:
        """Number of pieces, including the unknown token, at which pruning ends.

        Pruning continues while there are more pieces.
        """
        return (self.size + self.reserved) * 11 // 10


MAX_WORD_BYTES = 4192  # of a word that is learnt from: sentencepiece leaves out longer sentences


def train_unigram(counts: WordCounts, settings: UnigramSettings) -> list[tuple[str, float]]:
    """Learn Unigram pieces and their log probabilities.

    There are fewer than `settings.size` pieces if the words have too few repeated strings.

    Args:
        counts: The word counts.
        settings: The settings.

    Returns:
        The symbols, then the pieces by descending score. In a tie, single characters come first, then strings in the
        order in which the last call of `choose_kept_pieces` returned them.

    Raises:
        InputError: If there are no words or too few, or more different characters than pieces.
    """
    spelling = spell_characters(_prepare_words(counts, settings))
    max_pieces = settings.size - len(settings.symbols)
    _check_trainable(spelling, settings, max_pieces)
    pieces, lattice = find_seeds(spelling, MAX_PIECE_LENGTH, MAX_SEEDS)
    scores = compute_log_shares(pieces.values)
    while True:
        for _ in range(STEPS_PER_ROUND):
            scores = _improve_scores(lattice, scores, MAX_PIECE_LENGTH)
            lattice, pieces, scores = _select_pieces(lattice, pieces, scores, np.flatnonzero(scores > -np.inf))
        if len(scores) + 1 <= settings.pruning_bound:
            break
        kept = choose_kept_pieces(lattice, pieces, scores, settings)
        if len(kept) == len(scores):
            break
        lattice, pieces, scores = _select_pieces(lattice, pieces, scores, kept)
    learnt = _finish_pieces(spelling, pieces, scores, max_pieces)
    return [*((symbol, 0.0) for symbol in settings.symbols), *learnt]


def _prepare_words(counts: WordCounts, settings: UnigramSettings) -> WordCounts:
    """Split the counted words at symbols, U+0000 and rare characters.

    Words of more than MAX_WORD_BYTES bytes are removed.

    Args:
        counts: The words and how often each occurs.
        settings: Settings with the symbols, and the `character_coverage` that determines which characters are rare.
    """
    has_zero = bool(pc.any(pc.match_substring(counts["word"], "\0")).as_py())
    counts = cut_at_separators(counts, [*settings.symbols, *(["\0"] if has_zero else [])])
    fitting = pc.less_equal(pc.binary_length(counts["word"]), MAX_WORD_BYTES)
    counts = counts if pc.all(fitting).as_py() else counts.filter(fitting)
    return cut_at_rare_characters(counts, settings.character_coverage) if settings.character_coverage < 1.0 else counts


def _check_trainable(spelling: Spelling, settings: UnigramSettings, max_pieces: int) -> None:
    """Check that there are words, and that they have at most `max_pieces` different characters.

    Args:
        spelling: The words. Entry 0 of its alphabet is not counted.
        settings: The settings, which are quoted in the error messages.
        max_pieces: Maximum number of different characters.

    Raises:
        InputError: If there are no words, or too many characters.
    """
    num_characters = len(spelling.alphabet) - 1
    if num_characters == 0:
        raise InputError("There are no words to learn pieces from: the sources gave no text, or symbols alone.")
    if num_characters > max_pieces:
        raise InputError(
            f"size = {settings.size + settings.reserved}: the words have {num_characters} different characters, which "
            f"have to be pieces besides {len(settings.symbols)} symbols and {settings.reserved} special tokens. Raise "
            "size, or lower character_coverage "
            f"(now {settings.character_coverage}), as to 0.9995."
        )


def compute_unknown_score(scores: Float64s) -> float:
    """Return the score of a character that is not a piece: the lowest of `scores` minus a fixed penalty."""
    return float(scores.min()) - UNKNOWN_PENALTY


def _improve_scores(lattice: Lattice, scores: Float64s, max_length: int) -> Float64s:
    """Run one expectation-maximization step and return the new scores, with -inf for pieces that are too rare.

    Args:
        lattice: The occurrences of the pieces.
        scores: float64, the logarithm of each piece's probability.
        max_length: Maximum length of a piece in characters.

    Raises:
        InputError: If all pieces are too rare.
    """
    expected = count_expected_pieces(lattice, scores, compute_unknown_score(scores), max_length)
    improved = np.empty_like(scores)
    fill_scores(expected, improved)
    if not (improved > -np.inf).any():
        raise InputError(
            "The words are too few to learn pieces from: no piece is expected even half a time. Give more text."
        )
    return improved


def choose_kept_pieces(lattice: Lattice, pieces: SeedPieces, scores: Float64s, settings: UnigramSettings) -> Int64s:
    """Choose the pieces that are kept in one round of pruning.

    Args:
        lattice: The occurrences of the pieces.
        pieces: The pieces.
        scores: float64, the score of each piece.
        settings: The settings, which determine how many pieces may be pruned.

    Returns:
        The indices of the kept pieces. Pieces that have no alternative segmentation come first. They are followed by
        the pieces that would lower the likelihood most if they were removed.
    """
    unknown = compute_unknown_score(scores)
    counts, unknowns = count_best_pieces(lattice, scores, unknown)
    losses = np.zeros(len(scores), np.float64)
    verdicts = judge_pieces(lattice, pieces.places, scores, unknown, counts, unknowns, losses)
    kept, removable = np.flatnonzero(verdicts == KEEP), np.flatnonzero(verdicts == WEIGH)
    share = int((len(scores) + 1) * KEPT_SHARE)
    room = max(settings.pruning_bound, share) - 1 - len(kept)
    by_loss = removable[np.argsort(-losses[removable], kind="stable")]
    return np.concatenate((kept, by_loss[: max(0, room)]))


def _select_pieces(
    lattice: Lattice, pieces: SeedPieces, scores: Float64s, kept: Int64s
) -> tuple[Lattice, SeedPieces, Float64s]:
    """Return the lattice, pieces and scores reduced to the pieces with the indices `kept`, in the order of `kept`.

    `lattice.longest` is overwritten.
    """
    chosen = SeedPieces(pieces.places[kept], pieces.sizes[kept], pieces.values[kept])
    return thin_lattice(lattice, kept), chosen, scores[kept]


def _finish_pieces(
    spelling: Spelling, pieces: SeedPieces, scores: Float64s, max_pieces: int
) -> list[tuple[str, float]]:
    """Choose at most `max_pieces` pieces, and return them with rounded scores, by descending score.

    All characters are included, then the first strings. A character that training removed gets a score slightly above
    the lowest one.

    Args:
        spelling: The words.
        pieces: The pieces that training kept, in the order of preference.
        scores: float64, the score of each piece.
        max_pieces: Maximum number of pieces.
    """
    names = list_piece_texts(spelling, pieces)
    scored = dict(zip(names, scores.tolist(), strict=True))
    order = np.lexsort((spelling.alphabet[1:], -spelling.occurrences[1:])) + 1
    finished: dict[str, float] = {}
    lowest, penalty = float(scores.min()), 0.0
    for character in (chr(code) for code in spelling.alphabet[order].tolist()):
        if character in scored:
            finished[character] = scored[character]
        else:
            finished[character] = lowest + penalty
            penalty += PENALTY_STEP
    for name in names:
        if len(finished) == max_pieces:
            break
        finished[name] = scored[name]
    return sorted(((piece, round_score(score)) for piece, score in finished.items()), key=lambda piece: -piece[1])


def list_piece_texts(spelling: Spelling, pieces: SeedPieces) -> list[str]:
    """Return the string of each piece, in the order of `pieces`. `spelling` holds the text that they are ranges of."""
    codes = spelling.alphabet[spelling.text]
    ends = (pieces.places + pieces.sizes).tolist()
    return [
        "".join(map(chr, codes[place:end].tolist())) for place, end in zip(pieces.places.tolist(), ends, strict=True)
    ]
