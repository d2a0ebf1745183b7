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

import heapq
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from corpora.errors import InputError
from corpora.kernels import kernel
from tokenizers_train.counts import WordCounts
from tokenizers_train.vocabulary import CONTINUATION, SPECIAL_TOKENS, Vocabulary, VocabularySettings

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio (Knuth, volume 3, 6.4)
_HALF = np.uint64(32)


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
    num_merges = _learn_merges(pieces, words.starts, ends, words.counts, pairs, len(words.letters), least, merges)
    return [(left, right) for left, right in merges[:num_merges].tolist()]


class Pairs(NamedTuple):
    """Pairs of pieces, numbered as they appear, and for each a list of the words that have held it.

    keys:      int64, left id * 2^32 + right id
    counts:    int64, how often the pair stands side by side, words weighted by their counts
    heads:     int32, the pair's latest entry in the lists below; -1 where it has none
    words:     int32, the word of an entry
    following: int32, the entry after it; -1 at the end
    used:      int64, how many pairs and how many entries there are
    """

    keys: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    heads: npt.NDArray[np.int32]
    words: npt.NDArray[np.int32]
    following: npt.NDArray[np.int32]
    used: npt.NDArray[np.int64]


@kernel
def _slot(slots: npt.NDArray[np.int32], keys: npt.NDArray[np.int64], key: np.int64) -> np.int64:
    """The slot that holds the pair's number, or the empty one where it belongs."""
    value = np.uint64(key) * _MULTIPLIER
    mask = len(slots) - 1
    slot = np.int64((value ^ (value >> _HALF)) & np.uint64(mask))
    while slots[slot] >= 0 and keys[slots[slot]] != key:
        slot = (slot + 1) & mask
    return slot


@kernel
def _indexed(num_slots: int, keys: npt.NDArray[np.int64], num_pairs: int) -> npt.NDArray[np.int32]:
    """Slots (a power of two of them) that hold the numbers of all pairs."""
    slots = np.full(num_slots, -1, np.int32)
    for number in range(num_pairs):
        slots[_slot(slots, keys, keys[number])] = number
    return slots


@kernel
def _discount(
    slots: npt.NDArray[np.int32],
    pairs: Pairs,
    pieces: npt.NDArray[np.int32],
    start: int,
    end: int,
    count: int,
) -> None:
    """Take the pairs of pieces[start:end] out of the counts."""
    for i in range(start, end - 1):
        key = np.int64(pieces[i]) << 32 | np.int64(pieces[i + 1])
        pairs.counts[slots[_slot(slots, pairs.keys, key)]] -= count


@kernel
def _count(
    slots: npt.NDArray[np.int32],
    pairs: Pairs,
    pieces: npt.NDArray[np.int32],
    start: int,
    end: int,
    count: int,
    word: int | np.int64,
    known: int,
) -> None:
    """Add the pairs of pieces[start:end]; those numbered `known` or later get the word into their list."""
    for i in range(start, end - 1):
        key = np.int64(pieces[i]) << 32 | np.int64(pieces[i + 1])
        slot = _slot(slots, pairs.keys, key)
        number = np.int64(slots[slot])
        if number < 0:
            number = pairs.used[0]
            pairs.used[0] = number + 1
            slots[slot] = number
            pairs.keys[number], pairs.counts[number], pairs.heads[number] = key, 0, -1
        pairs.counts[number] += count
        head = pairs.heads[number]
        if number >= known and (head < 0 or pairs.words[head] != word):
            entry = pairs.used[1]
            pairs.used[1] = entry + 1
            pairs.words[entry], pairs.following[entry], pairs.heads[number] = word, head, entry


@kernel
def _join(pieces: npt.NDArray[np.int32], start: int, end: int, left: int, right: int, new: int) -> int:
    """Make each `left` followed by `right` one piece, from the left; returns where the word ends now."""
    to = start
    i = start
    while i < end:
        if i + 1 < end and pieces[i] == left and pieces[i + 1] == right:
            pieces[to] = new
            i += 2
        else:
            pieces[to] = pieces[i]
            i += 1
        to += 1
    return to


@kernel
def _holds(pieces: npt.NDArray[np.int32], start: int, end: int, left: int, right: int) -> bool:
    """Whether `left` and `right` stand side by side in pieces[start:end]."""
    for i in range(start, end - 1):
        if pieces[i] == left and pieces[i + 1] == right:
            return True
    return False


@kernel
def _join_everywhere(
    pieces: npt.NDArray[np.int32],
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    pairs: Pairs,
    slots: npt.NDArray[np.int32],
    number: int,
    new: int,
) -> npt.NDArray[np.int32]:
    """Join pair `number` to the piece `new` in all words; returns the slots, which may have moved."""
    left, right, known = pairs.keys[number] >> 32, pairs.keys[number] & 0xFFFFFFFF, pairs.used[0]
    entry = np.int64(pairs.heads[number])
    while entry >= 0:
        word = np.int64(pairs.words[entry])
        entry = np.int64(pairs.following[entry])
        if _holds(pieces, starts[word], ends[word], left, right):
            while 2 * (pairs.used[0] + ends[word] - starts[word]) > len(slots):
                slots = _indexed(4 * len(slots), pairs.keys, pairs.used[0])
            _discount(slots, pairs, pieces, starts[word], ends[word], counts[word])
            ends[word] = _join(pieces, starts[word], ends[word], left, right, new)
            _count(slots, pairs, pieces, starts[word], ends[word], counts[word], word, known)
    return slots


@kernel
def _learn_merges(
    pieces: npt.NDArray[np.int32],
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    pairs: Pairs,
    first_new: int,
    least: int,
    merges: npt.NDArray[np.int64],
) -> int:
    """Fill `merges` and return how many there are; `pieces` and `ends` are rewritten on the way.

    A pair gains only in the merge that makes it, for one of its pieces is new then. So each pair has one
    entry in the heap, never lower than its count: one that is found too high goes back with today's count.
    """
    slots = np.full(1 << 10, -1, np.int32)
    for word in range(len(counts)):
        while 2 * (pairs.used[0] + ends[word] - starts[word]) > len(slots):
            slots = _indexed(4 * len(slots), pairs.keys, pairs.used[0])
        _count(slots, pairs, pieces, starts[word], ends[word], counts[word], word, 0)
    heap = [(-pairs.counts[n], pairs.keys[n], n) for n in range(pairs.used[0]) if pairs.counts[n] >= least]
    heapq.heapify(heap)
    done = 0
    while done < len(merges) and len(heap) > 0:
        negative, key, number = heapq.heappop(heap)
        if pairs.counts[number] != -negative:
            if pairs.counts[number] >= least:
                heapq.heappush(heap, (-pairs.counts[number], key, number))
            continue
        merges[done, 0], merges[done, 1] = key >> 32, key & 0xFFFFFFFF
        known = pairs.used[0]
        slots = _join_everywhere(pieces, starts, ends, counts, pairs, slots, number, first_new + done)
        done += 1
        for n in range(known, pairs.used[0]):
            if pairs.counts[n] >= least:
                heapq.heappush(heap, (-pairs.counts[n], pairs.keys[n], n))
    return done
