"""WordPiece vocabularies, trained from word counts.

The rule (byte-pair encoding over letters, Sennrich et al. 2016, section 3.2, as Hugging Face's
WordPieceTrainer has it): a word is its letters, those after the first marked as continuing (##). Again and
again the two pieces that stand side by side most often become one new piece, until the vocabulary is full or
no pair is frequent enough. Letters outside the alphabet are skipped.

Promise: the vocabulary is a function of counts and settings. Of equally frequent pairs the one with the
smaller ids goes first (left id, then right), ids being given in this order: letters of the alphabet, by code
point; letters that continue words, by code point; pieces as they are made. Of equally frequent letters at the
limit of the alphabet the smaller code point stays. WordPieceTrainer breaks both ties by the order of a hash
map, another in every run; with its letters given in our order it makes the same list of tokens.

No piece is made twice: whatever surrounds it, a stretch of letters that ends as one piece went through the
same merges inside, in the same order, so its last merge joined the same two pieces everywhere.

Cost: 0.25 s for 30,522 tokens from the 75,799 distinct words of 40 MB of English novels; some 100 bytes for
each letter of a distinct word.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from corpora.errors import InputError
from tokenizers_train.counts import WordCounts
from tokenizers_train.vocabulary import CONTINUATION, SPECIAL_TOKENS, Vocabulary, VocabularySettings
from tokenizers_train.wordpiece_kernels import Pairs, join_pairs


class Words(NamedTuple):
    """Distinct words as pieces: word w is pieces[starts[w]:starts[w + 1]] and occurs counts[w] times.

    letters: what the first piece ids mean: single letters, the continuing ones with their ##
    """

    letters: list[str]
    pieces: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]


def train_wordpiece(counts: WordCounts, settings: VocabularySettings) -> Vocabulary:
    """Train a WordPiece vocabulary of at most `settings.size` tokens.

    Raises InputError where there are no words, or the letters alone are more than the size allows.
    """
    words = spell(counts, settings.limit_alphabet)
    reserved = [*SPECIAL_TOKENS.values(), *(f"[unused{i}]" for i in range(settings.unused))]
    room = settings.size - len(reserved) - len(words.letters)
    if room < 0:
        raise InputError(
            f"vocabulary.size is {settings.size}, but {len(reserved)} special and unused tokens and "
            f"{len(words.letters)} letters stand before the first piece: raise vocabulary.size to "
            f"{settings.size - room} or more, or lower vocabulary.limit_alphabet ({settings.limit_alphabet})."
        )
    merges = learn_merges(words, room, settings.min_frequency)
    pieces = piece_names(words.letters, merges)
    return Vocabulary(
        tokens=(*reserved, *pieces),
        algorithm=settings.algorithm,
        lowercase=settings.lowercase,
        max_word_length=settings.max_word_length,
    )


def spell(counts: WordCounts, limit_alphabet: int) -> Words:
    """The words as letters of the alphabet, which are the `limit_alphabet` most frequent ones.

    A letter outside the alphabet is skipped; of the continuing letters only those that occur are given an id.
    Raises InputError where there is no word at all.
    """
    strings = counts["word"].to_pylist()
    if not strings:
        raise InputError("There are no words to train a vocabulary from: every document is empty or was dropped.")
    codes = np.frombuffer("".join(strings).encode("utf-32-le"), np.uint32)
    lengths = np.array([len(string) for string in strings], np.int64)
    occurrences = counts["count"].to_numpy()
    alphabet = _alphabet(codes, np.repeat(occurrences, lengths), limit_alphabet)
    letters = np.searchsorted(alphabet, codes)
    kept = alphabet[np.minimum(letters, len(alphabet) - 1)] == codes
    first = np.zeros(len(codes), np.bool_)
    first[np.cumsum(lengths) - lengths] = True
    continuing = np.unique(letters[kept & ~first])
    pieces = np.where(first, letters, len(alphabet) + np.searchsorted(continuing, letters))
    names = [chr(code) for code in alphabet.tolist()]
    return Words(
        letters=names + [CONTINUATION + names[letter] for letter in continuing.tolist()],
        pieces=pieces[kept].astype(np.int32),
        starts=np.concatenate([[0], np.cumsum(np.add.reduceat(kept, np.cumsum(lengths) - lengths, dtype=np.int64))]),
        counts=occurrences,
    )


def _alphabet(codes: npt.NDArray[np.uint32], occurrences: npt.NDArray[np.int64], limit: int) -> npt.NDArray[np.uint32]:
    """The `limit` most frequent code points in ascending order; of equally frequent ones the smaller stay."""
    distinct, places = np.unique(codes, return_inverse=True)
    totals = np.zeros(len(distinct), np.int64)
    np.add.at(totals, places, occurrences)
    return np.sort(distinct[np.lexsort((distinct, -totals))[:limit]])


def piece_names(letters: Sequence[str], merges: Sequence[tuple[int, int]]) -> list[str]:
    """The strings of all pieces: the letters, then each merge's two pieces joined, with one ## at most.

    >>> piece_names(["a", "##b", "##c"], [(1, 2), (0, 3)])
    ['a', '##b', '##c', '##bc', 'abc']
    """
    names = list(letters)
    for left, right in merges:
        names.append(names[left] + names[right].removeprefix(CONTINUATION))
    return names


def learn_merges_plainly(words: Words, room: int, min_frequency: int) -> list[tuple[int, int]]:
    """What `learn_merges` means: count all pairs anew before every merge, and join the first of the order."""
    bounds = words.starts.tolist()
    spelt = [words.pieces[start:end].tolist() for start, end in pairwise(bounds)]
    merges: list[tuple[int, int]] = []
    while len(merges) < room:
        pairs: Counter[tuple[int, int]] = Counter()
        for pieces, count in zip(spelt, words.counts.tolist(), strict=True):
            for pair in pairwise(pieces):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        if pairs[best] < min_frequency:
            break
        new = len(words.letters) + len(merges)
        spelt = [_joined(pieces, best, new) for pieces in spelt]
        merges.append(best)
    return merges


def _joined(pieces: list[int], pair: tuple[int, int], new: int) -> list[int]:
    """The pieces with each occurrence of the pair, from the left, made one."""
    joined: list[int] = []
    for piece in pieces:
        if joined and (joined[-1], piece) == pair:
            joined[-1] = new
        else:
            joined.append(piece)
    return joined


def learn_merges(words: Words, room: int, min_frequency: int) -> list[tuple[int, int]]:
    """The pairs of piece ids to join, in order: at most `room`, none less frequent than `min_frequency`.

    Merge k makes the piece with the id len(words.letters) + k.
    """
    most = 3 * len(words.pieces)  # a pair for each place, and two new neighbours for each place that is joined
    pairs = Pairs(
        keys=np.empty(most, np.int64),
        counts=np.empty(most, np.int64),
        heads=np.empty(most, np.int32),
        words=np.empty(most, np.int32),
        following=np.empty(most, np.int32),
        used=np.zeros(2, np.int64),
    )
    merges = np.empty((room, 2), np.int64)
    pieces, ends, least = words.pieces.copy(), words.starts[1:].copy(), max(1, min_frequency)
    num_merges = join_pairs(pieces, words.starts, ends, words.counts, pairs, len(words.letters), least, merges)
    return [(left, right) for left, right in merges[:num_merges].tolist()]
