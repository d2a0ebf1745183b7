"""Arrays that take a while to make, kept on disk next to the machine code of the kernels that read them.

Promise: the arrays that are read are those that were computed, if the name identifies everything that they depend on
besides the source code. A file that was altered is computed again.

Cost: some 8 ms of CPU time to read 5 MB.
"""

import hashlib
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from corpora.kernels.compiling import compute_source_digest, find_shipped_folder, make_kernel_folder
from corpora.kernels.sealed import read_sealed, write_sealed

Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]


def read_or_make_arrays(name: str, source: str, make: Callable[[], Arrays]) -> dict[str, npt.NDArray[Any]]:
    """Return arrays from the cache, or compute them and write them to the cache. The arrays are read-only.

    Args:
        name: Identifies everything that the arrays depend on except their source code, e.g. the versions of libraries.
        source: Path of the source file that computes the arrays. If this file or a file that it imports has changed,
            the arrays are computed again.
        make: Computes the arrays, and returns them by name.

    Returns:
        The arrays by name.

    Raises:
        OSError: If the arrays cannot be written.
        InputError: If the cache folder cannot be created.
    """
    digest = hashlib.sha256(f"{name} {compute_source_digest(Path(source))}".encode()).hexdigest()
    path, shipped = make_kernel_folder() / f"arrays-{digest[:32]}.npz", find_shipped_folder()
    stored_bytes = read_sealed(path)
    if stored_bytes is None and shipped is not None:
        stored_bytes = read_sealed(shipped / path.name, any_owner=True)
    if stored_bytes is not None:
        with np.load(io.BytesIO(stored_bytes), allow_pickle=False) as stored:
            return _make_read_only({key: stored[key] for key in stored.files})
    made, written = make(), io.BytesIO()
    np.savez(written, **made)  # type: ignore[arg-type]  # its own option is next to arrays by name
    write_sealed(path, written.getvalue())
    return _make_read_only(made)


def _make_read_only(arrays: Arrays) -> dict[str, npt.NDArray[Any]]:
    for array in arrays.values():
        array.flags.writeable = False
    return dict(arrays)
