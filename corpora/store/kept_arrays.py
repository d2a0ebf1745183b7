"""Arrays that take a while to make, kept on disk next to the machine code of the kernels that read them.

Promise: what is read is what was made, for a name that tells all that it depends on: a file ends with a digest of all
that is before it, and one that is not as it was written is made again.

Cost: some 8 ms of CPU time to read 5 MB.
"""

import hashlib
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import xxhash

from corpora.kernels.compiling import kernel_folder
from corpora.store.files import replaced_file

Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]

_DIGEST_BYTES = 16


def kept_arrays(name: str, make: Callable[[], Arrays]) -> dict[str, npt.NDArray[Any]]:
    """Arrays by name, read-only: made once, then read.

    name: tells all that they depend on, versions of libraries included
    """
    path = kernel_folder() / f"arrays-{hashlib.sha256(name.encode()).hexdigest()[:16]}.npz"
    kept = _kept(path)
    if kept is not None:
        with np.load(io.BytesIO(kept), allow_pickle=False) as stored:
            return _read_only({key: stored[key] for key in stored.files})
    made, written = make(), io.BytesIO()
    np.savez(written, **made)  # type: ignore[arg-type]  # its own option is next to arrays by name
    with replaced_file(path) as new:
        new.write_bytes(written.getvalue() + xxhash.xxh3_128_digest(written.getvalue()))
    return _read_only(made)


def _kept(path: Path) -> bytes | None:
    """The archive in a file, where it is as it was written."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    archive, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    return archive if xxhash.xxh3_128_digest(archive) == digest else None


def _read_only(arrays: Arrays) -> dict[str, npt.NDArray[Any]]:
    for array in arrays.values():
        array.flags.writeable = False
    return dict(arrays)
