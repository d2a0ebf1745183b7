"""WordPiece vocabularies, trained from word counts.

The rule (as Hugging Face's WordPieceTrainer has it): a word is its letters, those after the first marked as continuing
(##), and merges join them (`byte_bpe`) until the vocabulary is full or no pair is frequent enough. Letters outside the
alphabet are skipped.

Promise: the vocabulary is a function of counts and settings. Ids, which decide between equally frequent pairs, are
given in this order: letters of the alphabet, by code point; letters that continue words, by code point; pieces as they
are made. Of equally frequent letters at the limit of the alphabet the smaller code point stays. WordPieceTrainer breaks
both ties by the order of a hash map, another in every run; with its letters given in our order it makes the same list
of tokens, and ours given its letters in its order is the list that it makes.

Cost: that of merges; the spelling of 68,901 words takes 0.01 s.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from corpora.errors import InputError
from corpora.kernels.arrays import Int64s
from corpora.text.buffers import to_text_buffers
from tokenizers_train.learning.byte_bpe import SpelledWords, lay_out_words, learn_merges
from tokenizers_train.learning.merges_kernels import NUM_CODES, count_letters
from tokenizers_train.vocabularies.bert import CONTINUATION, SPECIAL_TOKENS
from tokenizers_train.vocabularies.settings import VocabularySettings
from tokenizers_train.vocabularies.vocabulary import Vocabulary, build_bert_vocabulary
from tokenizers_train.words.table import WordCounts


def train_wordpiece(counts: WordCounts, settings: VocabularySettings) -> Vocabulary:
    """Train a WordPiece vocabulary of at most `settings.size` tokens.

    Raises:
        InputError: If there are no words, or if the special tokens and letters do not fit in `settings.size`.
    """
    words = spell_letters(counts, settings.limit_alphabet)
    reserved = [*SPECIAL_TOKENS.values(), *settings.special_tokens, *(f"[unused{i}]" for i in range(settings.unused))]
    max_merges = settings.size - len(reserved) - len(words.letters)
    if max_merges < 0:
        raise InputError(
            f"vocabulary.size is {settings.size}, but {len(reserved)} special and unused tokens and "
            f"{len(words.letters)} letters come before the first piece: raise vocabulary.size to "
            f"{settings.size - max_merges} or more, or lower vocabulary.limit_alphabet ({settings.limit_alphabet})."
        )
    merges = learn_merges(words, max_merges, settings.min_frequency)
    pieces = build_piece_names(words.letters, zip(*merges.T.tolist(), strict=True))
    return build_bert_vocabulary(
        (*reserved, *pieces),
        lowercase=bool(settings.lowercase),
        strip_accents=settings.strip_accents,
        max_word_length=settings.max_word_length,
        additional=settings.special_tokens,
    )


def spell_letters(counts: WordCounts, limit_alphabet: int) -> SpelledWords:
    """Spell words with the `limit_alphabet` most frequent characters. Other characters are skipped.

    The pieces are these characters, followed by a ## form of each one that occurs after the first letter of a word.

    Raises:
        InputError: If there are no words, or if their number plus their total length in characters is 2^31 - 1 or more.
    """
    if not counts.num_rows:
        raise InputError("There are no words to train a vocabulary from: every document is empty or was dropped.")
    data, offsets = to_text_buffers(counts["word"].combine_chunks())
    occurrences = counts["count"].to_numpy()
    totals, is_inner = np.zeros(NUM_CODES, np.int64), np.zeros(NUM_CODES, np.bool_)
    num_letters = count_letters(data, offsets, occurrences, totals, is_inner)
    alphabet = _choose_alphabet(totals, limit_alphabet)
    continuing = alphabet[is_inner[alphabet]]
    first_ids, inner_ids = np.full(NUM_CODES, -1, np.int32), np.full(NUM_CODES, -1, np.int32)
    first_ids[alphabet] = np.arange(len(alphabet))
    inner_ids[continuing] = len(alphabet) + np.arange(len(continuing))
    letters = [chr(code) for code in alphabet.tolist()] + [CONTINUATION + chr(code) for code in continuing.tolist()]
    return lay_out_words(counts, letters, (first_ids, inner_ids), num_letters)


def _choose_alphabet(totals: Int64s, limit: int) -> Int64s:
    """Return the `limit` most frequent code points in ascending order. Ties are broken by the lower code point.

    `totals` has the count of each code point: int64 [NUM_CODES]. Code points that do not occur are never returned.
    """
    codes = np.flatnonzero(totals)
    return np.sort(codes[np.lexsort((codes, -totals[codes]))[:limit]])


def build_piece_names(letters: Sequence[str], merges: Iterable[tuple[int, int]]) -> list[str]:
    """Return the strings of all pieces: the letters, followed by the result of each merge.

    When two pieces are joined, the ## of the right one is removed.

    Args:
        letters: The strings of the initial pieces, in the order of their ids.
        merges: The ids of the left and right piece of each merge, in order.

    >>> build_piece_names(["a", "##b", "##c"], [(1, 2), (0, 3)])
    ['a', '##b', '##c', '##bc', 'abc']
    """
    names = list(letters)
    for left, right in merges:
        names.append(names[left] + names[right].removeprefix(CONTINUATION))
    return names
