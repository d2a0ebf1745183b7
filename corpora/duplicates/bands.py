"""Bands: the keys under which near-duplicates meet.

A signature is cut into `bands` runs of `rows` numbers, and each run becomes one key. Two documents with a key
in common (in the same band) are candidates; a pair of similarity s is one with probability 1 - (1 -
s**rows)**bands, an S-shaped curve: 18 bands of 7 rows find .986 of the pairs at .8 and .40 of those at .6.
(Leskovec, Rajaraman & Ullman, "Mining of Massive Datasets", section 3.4.)

Promise: equal runs have equal keys; unequal ones share a key by chance with probability 2**-64, which costs
one comparison and changes no verdict. A document without words meets those of equal text alone.
Cost: 8 bytes and about 7 ns a key.
"""

from dataclasses import dataclass

import numpy as np

from corpora.errors import InputError
from corpora.kernels.arrays import UInt32s, UInt64s
from corpora.kernels.compiling import kernel
from corpora.kernels.hashing import GOLDEN_RATIO
from corpora.store.settings import check_range

_29 = np.uint64(29)


@dataclass(frozen=True, slots=True, kw_only=True)
class BandSettings:
    """Settings for cutting a signature: `bands` runs of `rows` numbers each."""

    bands: int = 18
    rows: int = 7

    def __post_init__(self) -> None:
        check_range("bands", self.bands, 1, 4096)
        check_range("rows", self.rows, 1, 4096)

    def check_fits(self, permutations: int) -> None:
        """Raise InputError when a signature has too few numbers for these bands."""
        if self.bands * self.rows > permutations:
            raise InputError(
                f"bands = {self.bands} of rows = {self.rows} need {self.bands * self.rows} numbers a "
                f"signature, and permutations = {permutations}: ask for fewer, or for more permutations."
            )


def probability(similarity: float, bands: int, rows: int) -> float:
    """The probability that two documents of this Jaccard similarity share at least one band.

    >>> round(probability(0.8, 18, 7), 3)
    0.986
    """
    return float(1 - (1 - similarity**rows) ** bands)


def band_keys_plain(signature: UInt32s, settings: BandSettings) -> UInt64s:
    """The definition of `band_keys`, a row of all bands at a time."""
    runs = signature[:, : settings.bands * settings.rows].reshape(-1, settings.bands, settings.rows)
    keys = np.tile(np.arange(settings.bands, dtype=np.uint64), (len(signature), 1))
    for row in range(settings.rows):
        keys = (keys ^ runs[:, :, row]) * GOLDEN_RATIO
        keys ^= keys >> _29
    return keys


def band_keys(signature: UInt32s, settings: BandSettings) -> UInt64s:
    """The keys of each document: uint64 [n, bands] from signatures uint32 [n, permutations].

    Raises InputError when the signatures are too short for the bands.
    """
    settings.check_fits(signature.shape[1])
    keys = np.empty((len(signature), settings.bands), np.uint64)
    fold_bands(np.ascontiguousarray(signature), settings.rows, keys)
    return keys


def text_keys(text_hashes: UInt64s, bands: int) -> tuple[UInt64s, UInt64s]:
    """Set hashes [n] and band keys [n, bands] of documents without words, equal for equal texts alone.

    text_hashes: uint64 [n, 2]
    """
    return np.maximum(text_hashes[:, 0], np.uint64(1)), np.repeat(text_hashes[:, 1:], bands, axis=1)


def key_columns(bands: int) -> list[str]:
    """The names of the scratch columns with the keys of each band.

    >>> key_columns(2)
    ['band 0', 'band 1']
    """
    return [f"band {band}" for band in range(bands)]


@kernel
def fold_bands(signature: UInt32s, rows: int, keys: UInt64s) -> None:
    """Fill `keys` [n, bands]: runs of `rows` numbers, each folded into one, from its band's number on."""
    for document in range(len(keys)):
        for band in range(keys.shape[1]):
            key = np.uint64(band)
            for position in range(band * rows, (band + 1) * rows):
                key = (key ^ np.uint64(signature[document, position])) * GOLDEN_RATIO
                key ^= key >> _29
            keys[document, band] = key
