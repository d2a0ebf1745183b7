"""MinHash signatures, 128 numbers a document, and their bands: the keys under which near-duplicates meet.

Signatures: the share of places in which two agree estimates how similar their documents are. Promise: a signature has
the bits that datasketch's MinHash(permutations, seed) gives for the same hashes (scheme affine32), so its tools may
read what is in the store; and an estimate from it has no bias and the standard error sqrt(J * (1 - J) / permutations).
(Broder 1997, "On the resemblance and containment of documents"; the permutations are a * h + b modulo 2**32, a odd, of
a mixed 32-bit hash.) Cost: 512 bytes a document, and about 4 ns a byte of English prose, 1.2 of them for the lanes (a
lane is one permutation of one signature); 5 to 8 in other scripts, most if every character is a word. Lanes are
computed 64 at a time and four hashes at a time, so that a running minimum is read and written once for four hashes.

Bands: a signature is cut into `bands` runs of `rows` numbers, and each run becomes one key. Two documents with a key in
common (in the same band) are candidates; a pair of similarity s is one with probability 1 - (1 - s**rows)**bands, an
S-shaped curve: 18 bands of 7 rows find .986 of the pairs at .8 and .40 of those at .6. (Leskovec, Rajaraman & Ullman,
"Mining of Massive Datasets", section 3.4.) Promise: equal runs have equal keys; unequal ones share a key by chance with
probability 2**-64, which costs one comparison and changes no verdict. A document without words meets only those of
equal text. Cost: 8 bytes and about 7 ns a key.
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from corpora.errors import InputError
from corpora.kernels.arrays import Bytes, Int32s, Int64s, UInt32s, UInt64s, copy_values
from corpora.kernels.compiling import kernel
from corpora.kernels.hashing import GOLDEN_RATIO
from corpora.store.settings import check_range
from corpora.text.buffers import to_text_buffers
from corpora.text.shingles import compute_buffer_sizes, compute_max_shingles, hash_text_shingles, write_shingles
from corpora.text.words import WordTables, read_word_tables

BLOCK_LANES = 64  # lanes at a time
EMPTY_MINIMUM = np.uint32(0xFFFFFFFF)  # the minimum over an empty set
EMPTY_SET = np.uint64(0)  # the set hash of an empty set, and of no other

_0, _1, _31, _32 = (np.uint64(number) for number in (0, 1, 31, 32))
_SPREAD = np.uint64(0x9FB21C651E98DF25)  # an odd factor, for the set hash
_13, _16 = np.uint32(13), np.uint32(16)
_MIX_1, _MIX_2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)  # MurmurHash3's 32-bit finaliser


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureSettings:
    """Settings that determine the signatures of documents.

    permutations:  number of values in a signature
    shingle_words: number of consecutive words in a shingle
    seed:          seed of the random permutations
    """

    permutations: int = 128
    shingle_words: int = 5
    seed: int = 1

    def __post_init__(self) -> None:
        check_range("permutations", self.permutations, 1, 4096)
        check_range("shingle_words", self.shingle_words, 1, 100)
        check_range("seed", self.seed, 0, 2**32 - 1)


class SignatureBatch(NamedTuple):
    """The MinHash signatures of a text column with n rows.

    Attributes:
        signature: uint32 [n, permutations], the signature of each row.
        num_shingles: int32 [n], number of distinct shingles in each row.
        set_hash: uint64 [n], order-independent hash of each row's set of shingles. It is EMPTY_SET only if the set is
            empty.
        shingles: uint64, the distinct shingles of all rows, in row order; empty unless they were requested.
    """

    signature: UInt32s
    num_shingles: Int32s
    set_hash: UInt64s
    shingles: UInt64s


@cache
def draw_permutations(settings: SignatureSettings) -> tuple[UInt32s, UInt32s]:
    """Draw the factors and the summands of the random permutations, as two uint32 [permutations] arrays.

    They are equal to datasketch's, which is not imported because that takes half a second. The result is cached.
    """
    random = np.random.RandomState(settings.seed)
    factors = random.randint(0, 1 << 31, settings.permutations, np.uint32) * np.uint32(2) + np.uint32(1)
    return factors, random.randint(0, 1 << 32, settings.permutations, np.uint32)


def compute_signature_plain(text: str, settings: SignatureSettings) -> UInt32s:
    """Compute the MinHash signature of one text with datasketch: uint32 [permutations]. This is for tests."""
    from datasketch import MinHash

    sketch = MinHash(num_perm=settings.permutations, seed=settings.seed, hashfunc=int)
    sketch.update_batch([value >> 32 for value in hash_text_shingles(text, settings.shingle_words)])
    values: UInt32s = sketch.hashvalues
    return values


def hash_set_plain(shingles: set[int]) -> int:
    """Compute the hash of a set of shingles as `hash_set` does. This is its reference implementation, for tests."""
    total = sum(((value ^ value >> 31) * int(_SPREAD)) % 2**64 >> 32 ^ value for value in shingles) % 2**64
    return total if total or not shingles else 1


def compute_signatures(texts: pa.Array, settings: SignatureSettings, with_shingles: bool = False) -> SignatureBatch:
    """Compute the MinHash signature of each row in a text column.

    Args:
        texts: A large_string or large_binary column without nulls.
        settings: Settings of the signatures.
        with_shingles: If True, the shingles are returned as well.

    Raises:
        InputError: If the column has another type or contains nulls.
    """
    data, offsets = to_text_buffers(texts)
    num_lanes = -(-settings.permutations // BLOCK_LANES) * BLOCK_LANES
    factors, summands = np.ones(num_lanes, np.uint32), np.zeros(num_lanes, np.uint32)
    factors[: settings.permutations], summands[: settings.permutations] = draw_permutations(settings)
    lanes = np.empty((len(texts), num_lanes), np.uint32)
    num_shingles, set_hashes = np.empty(len(texts), np.int32), np.empty(len(texts), np.uint64)
    values = np.empty(compute_max_shingles(offsets) if with_shingles else 0, np.uint64)
    tables, words = read_word_tables(), settings.shingle_words
    sign_rows(data, offsets, words, tables, factors, summands, lanes, num_shingles, set_hashes, values)
    signature = np.ascontiguousarray(lanes[:, : settings.permutations])
    return SignatureBatch(
        signature, num_shingles, set_hashes, values[: num_shingles.sum()] if with_shingles else values
    )


@kernel
def sign_rows(
    data: Bytes,
    offsets: Int64s,
    length: int,
    tables: WordTables,
    factors: UInt32s,
    summands: UInt32s,
    lanes: UInt32s,
    num_shingles: Int32s,
    set_hashes: UInt64s,
    values: UInt64s,
) -> None:
    """Compute the signature, number of shingles and set hash of each row in a text column.

    Args:
        data: UTF-8 bytes of all rows.
        offsets: int64 [n + 1]. Row i is data[offsets[i]:offsets[i + 1]].
        length: Number of words in a shingle.
        tables: The word tables from `read_word_tables`.
        factors: uint32 [lanes], from `draw_permutations` and padded to a multiple of BLOCK_LANES.
        summands: uint32 [lanes], from `draw_permutations` and padded like `factors`.
        lanes: uint32 [n, lanes], filled with the signatures.
        num_shingles: int32 [n], filled with the numbers of distinct shingles.
        set_hashes: uint64 [n], filled with order-independent hashes of the sets of shingles (see `hash_set`).
        values: uint64, filled with the shingles of all rows, in row order. Its length must be 0, to write no shingles,
            or at least `compute_max_shingles(offsets)`.
    """
    most_words, table_size = compute_buffer_sizes(offsets)
    shingles, mixed = np.empty(most_words, np.uint64), np.empty(most_words, np.uint32)
    table, at = np.empty(table_size, np.uint64), 0
    for row in range(len(offsets) - 1):
        number = write_shingles(data, offsets[row], offsets[row + 1], length, tables, shingles, table)
        num_shingles[row] = number
        if len(values):
            copy_values(shingles[:number], values[at : at + number])
            at += number
        set_hashes[row] = hash_set(shingles, number)
        mix_upper_halves(shingles, number, mixed)
        for block in range(0, len(factors), BLOCK_LANES):
            take_minima(mixed, number, factors, summands, block, lanes[row])


@kernel
def hash_set(shingles: UInt64s, number: int) -> np.uint64:
    """Compute an order-independent hash of the first `number` shingles, which must be distinct.

    The hash is the sum of the mixed shingles modulo 2^64. It is 0 only if `number` is 0.
    """
    total = EMPTY_SET
    for at in range(number):
        value = shingles[at]
        total += ((value ^ value >> _31) * _SPREAD) >> _32 ^ value
    return _1 if total == EMPTY_SET and number > 0 else total


@kernel
def mix_upper_halves(shingles: UInt64s, number: int, mixed: UInt32s) -> None:
    """Mix the upper 32 bits of each shingle, as datasketch does with its input, and write the results to `mixed`.

    Args:
        shingles: uint64, the shingles.
        number: Number of shingles to mix.
        mixed: uint32, filled with the first `number` results.
    """
    for at in range(number):
        value = np.uint32(shingles[at] >> _32)
        value = np.uint32((value ^ value >> _16) * _MIX_1)
        value = np.uint32((value ^ value >> _13) * _MIX_2)
        mixed[at] = value ^ value >> _16


@kernel
def take_minima(
    mixed: UInt32s,
    number: int,
    factors: UInt32s,
    summands: UInt32s,
    block: int,
    lanes: UInt32s,
) -> None:
    """Compute BLOCK_LANES values of a signature, starting at index `block`.

    Each value is the minimum of factor * hash + summand modulo 2^32 over the mixed shingles.

    Args:
        mixed: uint32, the mixed shingles.
        number: Number of mixed shingles to use.
        factors: uint32 [lanes], the factors of the permutations.
        summands: uint32 [lanes], the summands of the permutations.
        block: Index of the first value to compute.
        lanes: uint32 [lanes], the signature to which the values are written.
    """
    minima = np.full(BLOCK_LANES, EMPTY_MINIMUM, np.uint32)
    factor, summand = factors[block : block + BLOCK_LANES], summands[block : block + BLOCK_LANES]
    for at in range(0, number, 4):  # four hashes for each load and store of a lane; the last of all is repeated
        one, two = mixed[at], mixed[min(at + 1, number - 1)]
        three, four = mixed[min(at + 2, number - 1)], mixed[min(at + 3, number - 1)]
        for lane in range(BLOCK_LANES):
            scale, shift = factor[lane], summand[lane]
            first = min(np.uint32(one * scale + shift), np.uint32(two * scale + shift))
            second = min(np.uint32(three * scale + shift), np.uint32(four * scale + shift))
            minima[lane] = min(minima[lane], min(first, second))
    copy_values(minima, lanes[block : block + BLOCK_LANES])


_29 = np.uint64(29)


@dataclass(frozen=True, slots=True, kw_only=True)
class BandSettings:
    """How a signature is divided into bands. Each band is a run of consecutive values and yields one key.

    bands: number of bands
    rows:  number of values in a band
    """

    bands: int = 18
    rows: int = 7

    def __post_init__(self) -> None:
        check_range("bands", self.bands, 1, 4096)
        check_range("rows", self.rows, 1, 4096)

    def check_fits(self, permutations: int) -> None:
        """Check that a signature of `permutations` values has enough values for the bands.

        Raises:
            InputError: If the bands need more values.
        """
        if self.bands * self.rows > permutations:
            raise InputError(
                f"bands = {self.bands} of rows = {self.rows} need {self.bands * self.rows} numbers a "
                f"signature, and permutations = {permutations}: ask for fewer, or for more permutations."
            )


def compute_probability(similarity: float, bands: int, rows: int) -> float:
    """Compute the probability that two documents with the given Jaccard similarity have a common band key.

    Args:
        similarity: Jaccard similarity of the documents, from 0 to 1.
        bands: Number of bands.
        rows: Number of values in a band.

    >>> round(compute_probability(0.8, 18, 7), 3)
    0.986
    """
    return float(1 - (1 - similarity**rows) ** bands)


def compute_band_keys_plain(signature: UInt32s, settings: BandSettings) -> UInt64s:
    """Compute the band keys of documents, like `compute_band_keys`, as uint64 [n, bands]. This is for tests.

    `signature` is uint32 [n, permutations].
    """
    runs = signature[:, : settings.bands * settings.rows].reshape(-1, settings.bands, settings.rows)
    keys = np.tile(np.arange(settings.bands, dtype=np.uint64), (len(signature), 1))
    for row in range(settings.rows):
        keys = (keys ^ runs[:, :, row]) * GOLDEN_RATIO
        keys ^= keys >> _29
    return keys


def compute_band_keys(signature: UInt32s, settings: BandSettings) -> UInt64s:
    """Compute the band keys of documents. Documents with the same key in the same band are candidates for duplicates.

    Args:
        signature: uint32 [n, permutations], the signatures.
        settings: The number and length of the bands.

    Returns:
        uint64 [n, bands], the keys.

    Raises:
        InputError: If the bands need more values than a signature has.
    """
    settings.check_fits(signature.shape[1])
    keys = np.empty((len(signature), settings.bands), np.uint64)
    fold_bands(np.ascontiguousarray(signature), settings.rows, keys)
    return keys


def compute_text_keys(text_hashes: UInt64s, bands: int) -> tuple[UInt64s, UInt64s]:
    """Compute set hashes and band keys for documents without words, from the hashes of their texts.

    Only documents with equal text hashes get equal keys.

    Args:
        text_hashes: uint64 [n, 2], hashes of the texts.
        bands: Number of bands.

    Returns:
        The set hashes, uint64 [n], and the band keys, uint64 [n, bands].
    """
    return np.maximum(text_hashes[:, 0], np.uint64(1)), np.repeat(text_hashes[:, 1:], bands, axis=1)


def name_key_columns(bands: int) -> list[str]:
    """Return the names of the scratch table columns that contain the band keys.

    >>> name_key_columns(2)
    ['band 0', 'band 1']
    """
    return [f"band {band}" for band in range(bands)]


@kernel
def fold_bands(signature: UInt32s, rows: int, keys: UInt64s) -> None:
    """Compute the band keys of each signature. Each key is a hash of the band's index and its values.

    Args:
        signature: uint32 [n, permutations], the signatures.
        rows: Number of values in a band.
        keys: uint64 [n, bands], filled with the keys.
    """
    for document in range(len(keys)):
        for band in range(keys.shape[1]):
            key = np.uint64(band)
            for position in range(band * rows, (band + 1) * rows):
                key = (key ^ np.uint64(signature[document, position])) * GOLDEN_RATIO
                key ^= key >> _29
            keys[document, band] = key
