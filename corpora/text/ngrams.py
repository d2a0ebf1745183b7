"""The 64-bit hashes of runs of words: what texts are searched for.

Words are those of `corpora.text.words`, as in shingles. A word hyphenated at the end of a line is two words.

`ngram_hash` and `ngram_hashes` are the definition, `corpora.text.ngram_kernels` gives the same for a column. Two
different runs of words share a hash by chance with probability 2**-64. Cost: 0.4 MB a second.
"""

from collections.abc import Sequence

from corpora.kernels.hashing import finish_plain
from corpora.text.shingles import SHINGLE_FACTOR
from corpora.text.words import word_hash, words

_MASK64 = (1 << 64) - 1


def ngram_hash(run: Sequence[str]) -> int:
    """64-bit hash of a run of words: a polynomial in their hashes, then MurmurHash3's finaliser."""
    value = 0
    for word in run:
        value = (value * int(SHINGLE_FACTOR) + word_hash(word.encode())) & _MASK64
    return finish_plain(value)


def ngram_hashes(text: str, n: int) -> list[int]:
    """The hash of every run of `n` words, in order; none where the text has fewer words.

    >>> ngram_hashes("One two THREE", 2) == ngram_hashes("one, two;\\nthree!", 2)
    True
    """
    all_words = words(text)
    return [ngram_hash(all_words[at : at + n]) for at in range(len(all_words) - n + 1)]
