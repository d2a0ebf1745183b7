"""Signatures as datasketch's `MinHash` and `LeanMinHash`, and back.

Promise: the numbers pass unchanged, and datasketch compares and indexes them as its own. Signatures of two tools are
about the same texts only where their shingles and hashes are the same, too: of ours, `shingle_hashes` has the
definition, and datasketch is given the upper 32 bits of each (`hashfunc=int`).
"""

from typing import TYPE_CHECKING

import numpy as np

from corpora.duplicates.signatures import SignatureSettings, permutations
from corpora.errors import InputError
from corpora.kernels.arrays import UInt32s

if TYPE_CHECKING:
    from datasketch import LeanMinHash, MinHash

SCHEME = "affine32"  # the permutations of datasketch from 2.0 on


def to_minhash(signature: UInt32s, settings: SignatureSettings) -> "MinHash":
    """Return one signature, uint32 [permutations], as a `MinHash` that can be updated further."""
    from datasketch import MinHash

    shared = np.stack(permutations(settings))
    return MinHash(seed=settings.seed, hashfunc=int, hashvalues=signature, permutations=shared, scheme=SCHEME)


def to_lean(signature: UInt32s, settings: SignatureSettings) -> "LeanMinHash":
    """Return one signature, uint32 [permutations], as a `LeanMinHash`."""
    from datasketch import LeanMinHash

    return LeanMinHash(seed=settings.seed, hashvalues=signature, scheme=SCHEME)


def from_minhash(sketch: "MinHash | LeanMinHash", settings: SignatureSettings) -> UInt32s:
    """Return the numbers of a sketch: uint32 [permutations].

    Raises InputError where they are of other permutations, and so can be compared with none of ours.
    """
    theirs = (len(sketch.hashvalues), sketch.seed, sketch.scheme)
    if theirs != (settings.permutations, settings.seed, SCHEME):
        raise InputError(
            "A sketch of num_perm = {}, seed = {}, scheme = {!r} cannot be compared with signatures of num_perm = {}, "
            "seed = {}, scheme = {!r}: make it with these.".format(
                *theirs, settings.permutations, settings.seed, SCHEME
            )
        )
    return np.asarray(sketch.hashvalues, np.uint32)
