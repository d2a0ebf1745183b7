"""Byte-pair encoding, and byte-level BPE vocabularies, trained from counts of GPT-2's words.

Byte-pair encoding (Sennrich et al. 2016, section 3.2): of the neighboring pairs of pieces inside of words, the most
frequent one becomes a new piece, until there is no room or no pair is frequent enough. WordPiece and byte-level BPE
both learn by it; their first pieces are letters or bytes.

A byte-level BPE vocabulary (Radford et al. 2019, section 2.2, as Hugging Face's BpeTrainer has it): a word is its
bytes, and all 256 of them are in the alphabet, so that no text is unknown.

Promise: merges and vocabulary are a function of counts and settings. Of equally frequent pairs the one with the smaller
ids goes first (left id, then right); ids of new pieces follow those of the first ones, in the order in which they are
made. The vocabulary is that which BpeTrainer learns from the same text with the whole alphabet of bytes. Its ids have
this order: <s> <pad> </s> <unk> as RoBERTa has them, the bytes in the order of their letters, pieces as they are made,
further special tokens, <mask>.

No piece is made twice: whatever surrounds it, a stretch of letters that ends as one piece went through the same merges
inside, in the same order, so its last merge joined the same two pieces everywhere.

Cost: from 32 MB of English novels 0.08 s for 30,522 tokens of WordPiece (68,901 distinct words), 0.14 s for 50,265 of
byte-level BPE (113,188), and as long again for the files of such a tokenizer; from 367 MB of technical documentation
1.3 s for 50,265 (1,067,443 distinct words). Memory: 25 bytes for each letter of a distinct word, pairs included.
"""

from collections import Counter
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from corpora.errors import InputError
from corpora.kernels.arrays import Int32s, Int64s
from corpora.text.buffers import to_text_buffers
from tokenizers_train.learning.merges_kernels import (
    BLOCK,
    EDGE,
    Cells,
    MergeChanges,
    Pairs,
    count_pairs,
    join_pairs,
    spell_words,
)
from tokenizers_train.vocabularies.roberta import BYTE_LETTERS, SPECIAL_TOKENS
from tokenizers_train.vocabularies.settings import VocabularySettings
from tokenizers_train.vocabularies.vocabulary import Vocabulary, build_roberta_vocabulary
from tokenizers_train.words.table import WordCounts

MAX_CELLS = (1 << 31) - 1  # so that a place fits 32 bits


class SpelledWords(NamedTuple):
    """Distinct words, spelled as sequences of piece ids.

    Attributes:
        letters: The strings of the initial pieces (single characters or bytes), in the order of their ids.
        cells: The words.
        mergeable: int64, one entry per group of words with the same count, in ascending order of the count: the number
            of words in the group with at least two letters and no skipped letter.
    """

    letters: list[str]
    cells: Cells
    mergeable: Int64s


def lay_out_words(counts: WordCounts, letters: list[str], ids: tuple[Int32s, Int32s], num_letters: int) -> SpelledWords:
    """Spell words as piece ids, grouped by their counts.

    Args:
        counts: The word counts.
        letters: The strings of the initial pieces, in the order of their ids.
        ids: Two arrays with the id of each letter, the first for a word's first letter and the second for all later
            ones. They are indexed by code point, or by byte if they have 256 entries. A letter with the id -1 is
            skipped.
        num_letters: Total number of letters in the distinct words.

    Raises:
        InputError: If `num_letters` plus the number of words is 2^31 - 1 or more.
    """
    num_cells = num_letters + counts.num_rows + 1
    if num_cells > MAX_CELLS:
        raise InputError(
            f"The distinct words have {num_letters} letters, and a vocabulary is learnt from two "
            "thousand million at most: leave a source out of the vocabulary, or train it on a part of the corpus."
        )
    data, offsets = to_text_buffers(counts["word"].combine_chunks())
    occurrences = counts["count"].to_numpy()
    order = np.argsort(occurrences, kind="stable")
    run_starts = np.append(np.flatnonzero(np.diff(occurrences[order], prepend=0)), len(order))
    pieces, runs, mergeable = (
        np.empty(num_cells, np.int32),
        np.empty(len(run_starts), np.int64),
        np.zeros(len(run_starts) - 1, np.int64),
    )
    pieces = pieces[: spell_words(data, offsets, order, run_starts, *ids, pieces, runs, mergeable)]
    run_counts = occurrences[order[run_starts[:-1]]]
    starts = np.arange(0, len(pieces), BLOCK)
    first, last = (
        np.searchsorted(runs, at, "right") - 1 for at in (starts, np.minimum(starts + BLOCK, len(pieces)) - 1)
    )
    blocks = np.where(first == last, run_counts[first], -1 - first)
    return SpelledWords(letters, Cells(pieces, runs, run_counts, blocks), mergeable)


def learn_merges_plain(words: SpelledWords, max_merges: int, min_frequency: int) -> list[tuple[int, int]]:
    """Learn merges like `learn_merges`, by counting all pairs again before each merge.

    This is its reference implementation, for tests. The words are not changed.

    Args:
        words: The words.
        max_merges: Maximum number of merges.
        min_frequency: Minimum count of a pair for it to be merged.

    Returns:
        The ids of the left and right piece of each merge, in order.
    """
    pieces, runs = words.cells.pieces, words.cells.runs
    edges = np.flatnonzero(pieces == EDGE)
    spelled = [pieces[start + 1 : end].tolist() for start, end in pairwise(edges.tolist())]
    counts = words.cells.counts[np.searchsorted(runs, edges[:-1] + 1, "right") - 1].tolist()
    merges: list[tuple[int, int]] = []
    while len(merges) < max_merges:
        pairs: Counter[tuple[int, int]] = Counter()
        for word, count in zip(spelled, counts, strict=True):
            for pair in pairwise(word):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        if pairs[best] < min_frequency:
            break
        new = len(words.letters) + len(merges)
        spelled = [_join_pair(word, best, new) for word in spelled]
        merges.append(best)
    return merges


def _join_pair(pieces: list[int], pair: tuple[int, int], new: int) -> list[int]:
    """Return a copy of `pieces` in which each occurrence of a pair of ids is replaced by the id `new`, from left to
    right.
    """
    joined: list[int] = []
    for piece in pieces:
        if joined and (joined[-1], piece) == pair:
            joined[-1] = new
        else:
            joined.append(piece)
    return joined


def learn_merges(words: SpelledWords, max_merges: int, min_frequency: int) -> Int64s:
    """Learn BPE merges from spelled words. Ties between equally frequent pairs are broken by the lower ids.

    Args:
        words: The words. The arrays in `words.cells` are overwritten.
        max_merges: Maximum number of merges.
        min_frequency: Minimum count of a pair for it to be merged.

    Returns:
        int64 [merges, 2], the ids of the left and right piece of each merge, in order. Merge k creates the piece with
        the id len(words.letters) + k.
    """
    num_ids, min_count = (
        len(words.letters) + max_merges,
        max(1, min_frequency, compute_min_merged_count(words, max_merges)),
    )
    pairs = count_pairs(words.cells, _build_empty_pairs(), min_count)
    sizes = np.ones(num_ids, np.int32)
    merges = np.empty((max_merges, 2), np.int64)
    num_merges = join_pairs(words.cells, sizes, pairs, _build_empty_changes(num_ids), min_count, merges)
    return merges[:num_merges]


def compute_min_merged_count(words: SpelledWords, max_merges: int) -> int:
    """Return a lower bound on the counts of the pairs merged in the first `max_merges` merges, or 0 if there is none.

    A word with at least two letters becomes a single piece only by the merge that creates this piece. So if more than
    `max_merges` words have a count of at least c, one of them still contains a pair before each merge, and the count of
    that pair is at least c.
    """
    words_as_frequent = np.cumsum(words.mergeable[::-1])[::-1]  # words of each run, and of those with higher counts
    return int(words.cells.counts[words_as_frequent > max_merges].max(initial=0))


def _build_empty_pairs() -> Pairs:
    """Build an empty table of pairs with no capacity. The kernels enlarge it."""
    return Pairs(
        keys=np.empty(0, np.int64),
        counts=np.empty(0, np.int64),
        begins=np.empty(0, np.int64),
        ends=np.empty(0, np.int64),
        slots=np.full(1, -1, np.int32),
        places=np.empty(0, np.int32),
        used=np.zeros(2, np.int64),
    )


def _build_empty_changes(num_ids: int) -> MergeChanges:
    """Allocate the arrays in which a merge records the pairs that it changes.

    `num_ids` is the number of ids after all merges.
    """
    return MergeChanges(
        neighbour_sums=np.zeros(4 * num_ids, np.int64),
        lefts=np.empty(num_ids, np.int32),
        rights=np.empty(num_ids, np.int32),
        neighbours=np.empty(0, np.int32),
        repeats=np.zeros(2, np.int64),
    )


def train_byte_bpe(counts: WordCounts, settings: VocabularySettings) -> Vocabulary:
    """Train a byte-level BPE vocabulary of at most `settings.size` tokens.

    Raises:
        InputError: If there are no words, or if their number plus their total length in bytes is 2^31 - 1 or more.
    """
    words = spell_bytes(counts)
    first, last = list(SPECIAL_TOKENS.values())[:-1], SPECIAL_TOKENS["mask"]
    max_merges = settings.size - len(SPECIAL_TOKENS) - len(settings.special_tokens) - len(words.letters)
    pieces, merges = list(words.letters), []
    for left, right in zip(*learn_merges(words, max_merges, settings.min_frequency).T.tolist(), strict=True):
        merges.append((pieces[left], pieces[right]))
        pieces.append(pieces[left] + pieces[right])
    tokens = (*first, *pieces, *settings.special_tokens, last)
    return build_roberta_vocabulary(tokens, tuple(merges), settings.special_tokens)


def spell_bytes(counts: WordCounts) -> SpelledWords:
    """Convert words to sequences of byte ids, to train byte-level BPE.

    In a byte-level vocabulary, each byte is represented by a character (see `roberta.BYTE_LETTERS`). Ids are assigned
    to the bytes in the code-point order of these characters.

    Raises:
        InputError: If there are no words, or if their number plus their total length in bytes is 2^31 - 1 or more.
    """
    if not counts.num_rows:
        raise InputError("There are no words to train a vocabulary from: every document is empty or was dropped.")
    order = np.argsort([ord(letter) for letter in BYTE_LETTERS])
    ranks = np.empty(256, np.int32)
    ranks[order] = np.arange(256, dtype=np.int32)
    num_bytes = pc.sum(pc.binary_length(counts["word"])).as_py()
    return lay_out_words(counts, sorted(BYTE_LETTERS), (ranks, ranks), num_bytes)
