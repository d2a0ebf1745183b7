"""MinHash signatures: `corpora.duplicates.signatures` next to datasketch, whose bits they are.

datasketch takes a set of hashes. It gets ours, ready, in the first of its rows; in the second it hashes the
shingles itself as its users do, with xxh3 over the words of each joined by a space (other bits, same estimates);
`signature` is our definition, which spells our hash out in Python. Permutations are made once for all of them.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import xxhash
from datasketch import MinHash

from benchmarks.measuring import Report, Side, cleaned, main, side_by_side, text_column
from corpora.duplicates.signatures import SignatureSettings, compute_signatures, draw_permutations
from corpora.kernels.arrays import UInt32s
from corpora.text.shingles import hash_text_shingles

_WORD = re.compile(r"[^\W_]+")  # words of ASCII as ours are; other scripts nearly

Sketch = Callable[[Iterable[Any]], UInt32s]


def benchmark(texts: Sequence[str], rounds: int) -> list[Report]:
    """Compare signatures of cleaned texts."""
    texts, settings = cleaned(texts), SignatureSettings()
    column = text_column(texts)
    of_numbers, of_shingles = sketcher(settings, int), sketcher(settings, _hash)
    hashes = [[value >> 32 for value in hash_text_shingles(text, settings.shingle_words)] for text in texts]
    ours, theirs = compute_signatures(column, settings).signature, np.stack([of_numbers(values) for values in hashes])
    assert np.array_equal(ours, theirs), "signatures differ from datasketch's"
    sides = [
        Side(name="signatures, from text", call=lambda _: compute_signatures(column, settings)),
        Side(name="datasketch, hashes given", call=lambda _: [of_numbers(values) for values in hashes]),
        Side(
            name="datasketch, from text",
            call=lambda _: [of_shingles(_shingles(text, settings.shingle_words)) for text in texts],
        ),
        Side(
            name="definition, from text",
            call=lambda _: [
                of_numbers(value >> 32 for value in hash_text_shingles(text, settings.shingle_words)) for text in texts
            ],
        ),
    ]
    notes = [f"all {ours.size} numbers equal datasketch's of the same hashes"]
    return [side_by_side("signatures of 128 permutations", texts, sides, rounds, notes)]


def sketcher(settings: SignatureSettings, hash_of: Callable[[Any], int]) -> Sketch:
    """Return datasketch's signature of a set, with the permutations given."""
    shared = np.stack(draw_permutations(settings))

    def sketch(values: Iterable[Any]) -> UInt32s:
        made = MinHash(
            num_perm=settings.permutations, seed=settings.seed, hashfunc=hash_of, permutations=shared, scheme="affine32"
        )
        made.update_batch(list(values))
        numbers: UInt32s = made.hashvalues
        return numbers

    return sketch


def _hash(shingle: bytes) -> int:
    return xxhash.xxh3_64_intdigest(shingle) >> 32


def _shingles(text: str, length: int) -> set[bytes]:
    """Return the runs of our words by a regular expression, as users of datasketch would write it."""
    text_words = [word.encode() for word in _WORD.findall(text.casefold())]
    return {b" ".join(text_words[at : at + length]) for at in range(max(1, len(text_words) - length + 1))}


if __name__ == "__main__":
    main(benchmark)
