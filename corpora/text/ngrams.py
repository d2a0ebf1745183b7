"""Words as they are compared between texts, and the 64-bit hashes of runs of them.

Promise: how a text is wrapped, spaced, punctuated or capitalised changes none of its words. A word is a
longest run of letters and numbers of any script (`str.isalnum`) and of the marks after them, case-folded
character by character; soft hyphens and joiners, which show nothing, neither part nor enter a word. A Chinese
or Japanese character (ideograph, kana) is a word of its own, for nothing else parts words there. Accents
count, so both texts should be in NFC; a word hyphenated at the end of a line is two words.

`words` and `ngram_hashes` are the definition, `corpora.text.ngram_kernels` gives the same for a column. Two
different runs of words share a hash by chance with probability 2**-64.

Cost: 0.8 MB a second; the kernels 310. The tables, 655 kB, are made in 0.2 s, once a process.
"""

import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Bytes, Int32s
from corpora.kernels.hashing import finished
from corpora.text.shingles import SHINGLE_FACTOR, word_hash

OUTSIDE, INSIDE, MARK, ALONE, HIDDEN = range(5)
_TABLE_SIZE = 0x20000  # above are ideographs up to 0x3FFFF, and nothing else that is a letter
_LAST_IDEOGRAPH = 0x3FFFF
_ALONE = ((0x3005, 0x3007), (0x3041, 0x30FF), (0x31F0, 0x31FF), (0x3400, 0x9FFF), (0xF900, 0xFAFF), (0xFF66, 0xFF9D))
_HIDDEN = (0x00AD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF)
_MASK64 = (1 << 64) - 1


class WordTables(NamedTuple):
    """What the kernels look up for every code point below 0x20000.

    kinds: uint8, OUTSIDE a word, INSIDE, a MARK (inside, but begins none), ALONE (a word of its own), HIDDEN
    folds: int32, the code point in one case
    """

    kinds: Bytes
    folds: Int32s


def character_kind(character: str) -> int:
    """What a character is to words: OUTSIDE, INSIDE, MARK, ALONE or HIDDEN."""
    code = ord(character)
    if code >= _TABLE_SIZE:
        return ALONE if code <= _LAST_IDEOGRAPH else OUTSIDE
    if code in _HIDDEN:
        return HIDDEN
    if character.isalnum():
        return ALONE if any(first <= code <= last for first, last in _ALONE) else INSIDE
    return MARK if unicodedata.category(character)[0] == "M" else OUTSIDE


def fold(character: str) -> str:
    """One character in one case: `str.casefold`, or `str.lower`, where that is one character; else itself.

    >>> [fold(character) for character in "AÉ\u1e9eßİ"]
    ['a', 'é', 'ß', 'ß', 'İ']
    """
    return next((form for form in (character.casefold(), character.lower()) if len(form) == 1), character)


@cache
def word_tables() -> WordTables:
    """`character_kind` and `fold` of every code point below 0x20000, as arrays."""
    characters = [chr(code) for code in range(_TABLE_SIZE)]
    kinds = np.array([character_kind(character) for character in characters], np.uint8)
    folds = np.array([ord(fold(character)) for character in characters], np.int32)
    kinds.flags.writeable = folds.flags.writeable = False
    return WordTables(kinds, folds)


def words(text: str) -> list[str]:
    """The words of a text, in order.

    >>> words("The “CAFÉ”, he\\nsaid -- isn't   it?")
    ['the', 'café', 'he', 'said', 'isn', 't', 'it']
    """
    found, word = [], ""
    for character in text:
        kind = character_kind(character)
        if kind == HIDDEN:
            continue
        if kind == INSIDE or (kind == MARK and word):
            word += fold(character)
            continue
        if word:
            found.append(word)
            word = ""
        if kind == ALONE:
            found.append(character)
    return [*found, word] if word else found


def ngram_hash(run: Sequence[str]) -> int:
    """64-bit hash of a run of words: a polynomial in their hashes, then MurmurHash3's finaliser."""
    value = 0
    for word in run:
        value = (value * int(SHINGLE_FACTOR) + word_hash(word.encode())) & _MASK64
    return finished(value)


def ngram_hashes(text: str, n: int) -> list[int]:
    """The hash of every run of `n` words, in order; none where the text has fewer words.

    >>> ngram_hashes("One two THREE", 2) == ngram_hashes("one, two;\\nthree!", 2)
    True
    """
    found = words(text)
    return [ngram_hash(found[at : at + n]) for at in range(len(found) - n + 1)]
