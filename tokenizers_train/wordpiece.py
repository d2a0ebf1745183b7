"""WordPiece vocabularies, trained from word counts.

The rule (as Hugging Face's WordPieceTrainer has it): a word is its letters, those after the first marked as
continuing (##), and `merges` joins them until the vocabulary is full or no pair is frequent enough. Letters
outside the alphabet are skipped.

Promise: the vocabulary is a function of counts and settings. Ids, which decide between equally frequent pairs,
are given in this order: letters of the alphabet, by code point; letters that continue words, by code point;
pieces as they are made. Of equally frequent letters at the limit of the alphabet the smaller code point stays.
WordPieceTrainer breaks both ties by the order of a hash map, another in every run; with its letters given in our
order it makes the same list of tokens.

Cost: that of `merges`, and the spelling of the words.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from corpora.errors import InputError
from tokenizers_train.bert_tokenizer import CONTINUATION, SPECIAL_TOKENS
from tokenizers_train.counts import WordCounts
from tokenizers_train.merges import Words, learn_merges
from tokenizers_train.vocabulary import Vocabulary, VocabularySettings


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
        lowercase=bool(settings.lowercase),
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
