"""Signatures that datasketch made, its `MinHash` and `LeanMinHash`, as ours.

Promise: the numbers pass unchanged. Signatures of two tools are about the same texts only where their shingles and
hashes are the same, too: of ours, `shingle_hashes` has the definition, and datasketch is given the upper 32 bits of
each (`hashfunc=int`).
"""

from typing import TYPE_CHECKING

import numpy as np

from corpora.duplicates.signatures import SignatureSettings
from corpora.errors import InputError
from corpora.kernels.arrays import UInt32s

if TYPE_CHECKING:
    from datasketch import LeanMinHash, MinHash

SCHEME = "affine32"  # the permutations of datasketch from 2.0 on


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
